"""Laws of other federations, at the level of this game: what the record speaks for counts."""

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from potluck.agents.precision_model import Formula, brought
from potluck.agents.prior import (
    CEILING,
    GAP,
    NARROWNESS,
    Coverage,
    Prior,
    Record,
    SharedLaw,
    expected,
    law_of,
    level,
    numbers_of,
)

SLOTS, SILOS = 8, 3


def law(ceiling: float = 1.0, gap: float = 0.0, exponent: float = 0.5) -> Float[Array, " numbers"]:
    return numbers_of(SharedLaw(formula=Formula(jnp.asarray(ceiling), jnp.asarray(gap), jnp.asarray(exponent))))


LAWS = jnp.stack([law(exponent=exponent) for exponent in (0.2, 0.5, 1.0, 2.0)])
PRIOR = Prior(LAWS, jnp.full(4, 0.03))


def played(numbers: Float[Array, " numbers"], over: int, seed: int = 0) -> Record:
    """A game in which precision is as a law says, after so many slots."""
    plan = jax.random.uniform(jax.random.key(seed), (SLOTS, SILOS))
    past = jnp.arange(SLOTS) < over
    return Record(plan, jnp.where(past, expected(numbers, plan), 0.0), past)


def test_numbers_in_a_row_are_the_law_again() -> None:
    numbers = jnp.arange(13.0)
    assert_array_equal(numbers_of(law_of(numbers)), numbers)


def test_before_the_first_slot_every_law_is_as_likely_as_any_other() -> None:
    assert_allclose(PRIOR.members(played(LAWS[0], 0), 4).numbers, LAWS, rtol=1e-5)


@given(st.integers(0, 3), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_the_law_that_made_the_game_is_the_one_that_is_believed(which: int, seed: int) -> None:
    record = played(LAWS[which], SLOTS, seed)
    _, evidence = jax.vmap(lambda law: level(law, jnp.asarray(0.03), record, jnp.asarray(0.0)))(LAWS)
    assert int(jnp.argmax(evidence)) == which


@given(st.floats(-0.05, 0.05), st.floats(-0.25, 0.25), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_a_game_at_another_level_keeps_its_shape(higher: float, wider: float, seed: int) -> None:
    own = law(ceiling=1.0 + higher, gap=float(np.log1p(wider)))
    record = played(own, SLOTS, seed)
    found, _ = level(law(), jnp.asarray(0.001), record, jnp.asarray(0.0))
    plan = jax.random.uniform(jax.random.key(seed + 1), (SLOTS, SILOS))
    assert_allclose(found(plan), expected(own, plan), atol=0.01)


def test_the_record_tells_whose_data_is_narrow() -> None:
    # One silo after the other alone: where it is narrow, precision falls.
    wide = eqx.tree_at(lambda law: law.coverage.size, SharedLaw(), jnp.asarray(-1.0))
    plan, narrow = jnp.eye(SILOS)[jnp.arange(24) // 2 % SILOS], jnp.array([0.4, 1.0, 1.6])
    record = Record(plan, wide(plan, narrow), jnp.ones(24, bool))
    found, _ = level(numbers_of(wide), jnp.asarray(0.03), record, jnp.asarray(0.7))
    assert_allclose(found.narrow, narrow, atol=0.1)
    assert_allclose(found(plan), record.precision, atol=0.003)


def test_the_record_tells_whether_silos_are_alike() -> None:
    wide = numbers_of(eqx.tree_at(lambda law: law.coverage.size, SharedLaw(), jnp.asarray(-1.0)))
    plan = jnp.eye(SILOS)[jnp.arange(24) // 2 % SILOS]
    for narrow, alike in ((jnp.ones(SILOS), True), (jnp.array([0.4, 1.0, 1.6]), False)):
        record = Record(plan, law_of(wide)(plan, narrow), jnp.ones(24, bool))
        one, other = (level(wide, jnp.asarray(0.03), record, jnp.asarray(s))[1] for s in NARROWNESS)
        assert (one > other) == alike


def test_the_evidence_by_hand() -> None:
    # One slot that is `missed` above the law, in units of the noise: c moves by 0.05, e^g by 0.3 of it, each b by 0.7.
    one, record = law(), played(law(), 1)
    record = eqx.tree_at(lambda r: r.precision, record, record.precision.at[0].add(0.02))
    deviation = 0.04 * (1.1 - float(record.precision[0]))
    formula = law_of(one).formula
    reached = formula.ceiling - expected(one, record.plan)[0]
    uncovered = _uncovered(record)
    shrinks = float(reached - formula.wobble(*_of_first(record))[0] - uncovered.sum())
    variance = deviation**2 + CEILING**2 + (GAP * shrinks) ** 2 + np.sum((0.7 * uncovered) ** 2)
    wanted = -0.5 * 0.02**2 / variance - 0.5 * np.log(variance)
    assert_allclose(level(one, jnp.asarray(0.04), record, jnp.asarray(0.7))[1], wanted, rtol=1e-3)


@pytest.mark.parametrize("silos", [2, 5, 8])
def test_the_evidence_is_that_of_a_normal_distribution_even_where_no_law_fits(silos: int) -> None:
    # Small contributions and a precision near 1: sums of squares of thousands, in single precision.
    plan = 0.05 * jax.random.uniform(jax.random.key(silos), (30, silos))
    over = jnp.arange(30) < 20
    record = Record(plan, jnp.where(over, 0.99, 0.0), over)
    noise, one = 0.05, law()
    shared = law_of(one)
    slots = brought(plan, jnp.ones(silos))
    progress = shared.formula.so_far(slots)
    shrinks = jnp.exp(shared.formula.gap - shared.formula.exponent * progress)
    lacking = shared.coverage(plan, slots.far, progress)
    moves = np.concatenate([np.full((30, 1), CEILING), -GAP * shrinks[:, None], -0.7 * lacking], 1)[:20]
    deviation = noise * (1.1 - 0.99)
    covariance = deviation**2 * np.eye(20) + moves.astype(float) @ moves.astype(float).T
    missed = np.asarray(record.precision - expected(one, plan), float)[:20]
    wanted = -0.5 * missed @ np.linalg.solve(covariance, missed) - 0.5 * np.linalg.slogdet(covariance)[1]
    assert_allclose(level(one, jnp.asarray(noise), record, jnp.asarray(0.7))[1], wanted, rtol=1e-4, atol=0.05)


def _of_first(record: Record) -> tuple[Array, Array, Array]:
    slots = brought(record.plan, jnp.ones(SILOS))
    return slots.far, slots.few, SharedLaw().formula.so_far(slots)


def _uncovered(record: Record) -> np.ndarray:
    far, _, progress = _of_first(record)
    return np.asarray(Coverage()(record.plan, far, progress)[0], float)


def test_coverage_by_hand() -> None:
    # size 1, half of it new: one silo of two alone, then the other; equal parts lack nothing.
    coverage = Coverage(jnp.zeros(()), jnp.log(jnp.log(2.0)), jnp.zeros(()))
    alone = coverage(jnp.eye(2), jnp.ones(2), jnp.zeros(2))
    assert_allclose(alone.sum(1), [0.75**2 + 0.25**2 - 0.5, 0.375**2 + 0.625**2 - 0.5], rtol=5e-3)
    assert_allclose(alone[0], [0.75**2 - 0.25, 0.25**2 - 0.25], rtol=5e-3)
    assert_allclose(coverage(jnp.full((3, 4), 0.3), jnp.ones(3), jnp.zeros(3)), 0, atol=1e-6)


def test_who_brings_nothing_leaves_a_finite_slope() -> None:
    for plan in (jnp.zeros((4, 3)), jnp.eye(4, 3)):
        slopes = jax.grad(lambda numbers, plan=plan: expected(numbers, plan).sum())(law())
        assert jnp.isfinite(slopes).all()
        assert jnp.isfinite(jax.grad(lambda plan: expected(law(), plan).sum())(plan)).all()


def test_laws_are_in_order_of_what_they_expect() -> None:
    found = Prior.in_order(LAWS[jnp.array([2, 0, 3, 1])], jnp.array([2.0, 0.0, 3.0, 1.0]))
    assert_array_equal(found.laws, LAWS)
    assert_array_equal(found.noise, jnp.arange(4.0))
