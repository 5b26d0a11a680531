"""The law of precision is learnt from contributions alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.testing import assert_allclose

from potluck.agents.precision_model import Law, Record, Wobble, ascend, ensemble, fit, worth_of


def _law(plan: Float[Array, "slots silos"]) -> Float[Array, " slots"]:
    """More than the data so far decides: bringing little lifts precision as a smaller learning rate would."""
    so_far = jnp.cumsum(plan @ jnp.asarray([2.0, 1.0]))
    return 0.9 - 0.6 * (1 + so_far) ** -0.7 - 0.05 * plan.mean(1)


def test_a_law_is_learnt_and_predicts_games_that_it_has_not_seen() -> None:
    plans = jax.random.uniform(jax.random.key(0), (160, 8, 2)) * jax.random.uniform(jax.random.key(1), (160, 1, 1))
    seen, others = plans[:128], plans[128:]
    record = Record.blank(256, 8, 2).after(seen, jax.vmap(_law)(seen))
    laws = fit(ensemble(2, jax.random.key(0)), record, jax.random.key(0), jnp.asarray(1200))
    predicted = jax.vmap(lambda law: jax.vmap(law)(others))(laws)
    assert predicted.shape == (4, 32, 8)
    assert jnp.sqrt(jnp.mean((predicted.mean(0) - jax.vmap(_law)(others)) ** 2)) < 0.005


def test_the_wobble_by_hand() -> None:
    # size 1, softplus⁻¹ of averaging 1 and distance 1, no fading, half of it new: ν = m·q
    one, half = jnp.log(jnp.expm1(1.0)), jnp.log(jnp.log(2.0))
    wobble = Wobble(size=jnp.zeros(()), renewal=half, averaging=one, distance=one)
    # two silos of four bring everything, then all do, then nobody does
    far, few = jnp.array([1.0, 1.0, 0.0]), jnp.array([0.5, 0.25, 1.0])
    assert_allclose(wobble(far, few, jnp.zeros(3)), [0.25, 0.25, 0.25], rtol=2e-3)
    assert_allclose(wobble(far, few[::-1], jnp.zeros(3)), [0.5, 0.375, 0.375], rtol=2e-3)


def test_a_formula_is_one_for_any_number_of_silos_and_sees_who_counts_only_in_their_weights() -> None:
    four, plan = Law(4, jax.random.key(0), units=0), jax.random.uniform(jax.random.key(1), (6, 4))
    assert_allclose(four(plan), four(plan[:, ::-1]), rtol=1e-5)
    twice = eqx.tree_at(lambda law: law.data, four, jnp.zeros(8))
    together = twice(jnp.concatenate([plan, plan], axis=1))  # the average is taken of twice as many
    assert_allclose(together + _wobble(twice, plan, 2), four(plan) + _wobble(four, plan, 1), rtol=1e-3)


def _wobble(law: Law, plan: Float[Array, "slots silos"], times: int) -> Float[Array, " slots"]:
    far = (plan**2).sum(1) / plan.sum(1)
    progress = jnp.log1p(jnp.cumsum(jnp.stack([plan.mean(1), far], axis=1) @ jnp.exp(law.formula.progress)))
    return law.formula.wobble(far, (plan**2).sum(1) / plan.sum(1) ** 2 / times, progress)


def test_who_brings_nothing_leaves_a_finite_slope() -> None:
    law = Law(3, jax.random.key(0))
    assert_allclose(Law(3, jax.random.key(0), units=0)(jnp.eye(4, 3)), law(jnp.eye(4, 3)), rtol=1e-6)  # it begins so
    for plan in (jnp.zeros((4, 3)), jnp.eye(4, 3)):
        slope = jax.grad(lambda law, plan=plan: law(plan).sum())(law), jax.grad(lambda plan: law(plan).sum())(plan)
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_what_welfare_is_made_of_is_found_exactly_and_absent_silos_cost_nothing() -> None:
    random = np.random.default_rng(0)
    precision, contributions = random.uniform(size=(5, 7)), random.uniform(size=(5, 7, 3)) * [1.0, 1.0, 0.0]
    worth = worth_of(4000 * precision - contributions @ [20.0, 10.0, 0.0] - 2, precision, contributions)
    assert_allclose(worth.precision, 4000, rtol=1e-5)
    assert_allclose(worth.contributions, [-20, -10, 0], atol=1e-4)
    assert_allclose(worth.rest, -2, atol=1e-4)


def test_ascent_leaves_out_who_is_absent_and_stays_among_possible_plans() -> None:
    laws = ensemble(2, jax.random.key(0))
    worth = worth_of(np.ones((3, 4)), np.eye(3, 4), np.zeros((3, 4, 2)))
    plans, believed = ascend(laws, worth, jnp.asarray([1.0, 0.0]), jnp.full((3, 4, 2), 0.5))
    assert_allclose(plans[..., 1], 0)
    assert jnp.all((plans >= 0) & (plans <= 1))
    assert jnp.all(jnp.isfinite(believed))
