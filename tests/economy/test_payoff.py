import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import StageGame, Terms, facts_at, payoff, payoffs, settle, settled_at
from potluck.mechanisms import Facts, Redistribution


def four_silos(intensity: float = 5.0) -> StageGame:
    terms = Terms(jnp.array([1000.0, 990.0, 1010.0, 1000.0]), jnp.full(4, 4.0), jnp.full(4, 0.5), jnp.full(4, 2000.0))
    return StageGame(terms, jnp.array(0.0025), Redistribution(jnp.array(intensity)), lambda d: 0.2 + 0.15 * d.sum())


def test_payoff_by_hand() -> None:
    # d = (1, ½, ½, 0): P = 0.5, energy 20·d, r = 5·(4d − 2) = (10, 0, 0, −10)
    settled = settle(four_silos(), jnp.array([1.0, 0.5, 0.5, 0.0]))
    assert_allclose(settled.revenue, [500.0, 495.0, 505.0, 500.0])
    assert_allclose(settled.energy, [20.0, 10.0, 10.0, 0.0])
    assert_allclose(settled.transfer, [10.0, 0.0, 0.0, -10.0])
    assert_allclose(settled.total, [489.5, 484.5, 494.5, 489.5])
    assert_allclose(settled.welfare, 1958.0)


def test_payoffs_do_not_care_how_they_are_compiled_or_batched() -> None:
    game = four_silos()
    plays = jax.random.uniform(jax.random.key(0), (5, 4))
    one_by_one = np.stack([payoffs(game, play) for play in plays])
    assert_allclose(jax.vmap(lambda play: payoffs(game, play))(plays), one_by_one, rtol=1e-14)
    assert_allclose(jax.jit(lambda play: payoffs(game, play))(plays[0]), one_by_one[0], rtol=1e-14)


def test_double_precision_survives() -> None:
    settled = settle(four_silos(), jnp.array([1.0, 0.5, 0.5, 0.0]))
    assert {leaf.dtype for leaf in jax.tree.leaves(settled)} == {np.dtype("float64")}


def test_one_silo_computes_its_own_payoff_from_its_own_numbers() -> None:
    game, played = four_silos(), jnp.array([1.0, 0.5, 0.5, 0.0])
    everybody = settle(game, played)
    for silo in range(4):
        own = jax.tree.map(lambda term, silo=silo: term[silo], game.terms)
        alone = payoff(own, game.energy_price, played[silo], game.precision(played), everybody.transfer[silo])
        assert alone.total.shape == ()
        assert float(alone.total) == float(everybody.total[silo])


class ByMarginal(eqx.Module):
    """r_n = 100·(m_n − mean m)."""

    needs = frozenset({"marginal"})
    balanced = True

    def init(self, precision: Array) -> Array:
        return precision

    def settle(self, state: Array, facts: Facts) -> tuple[Array, Array, Array]:
        worth = facts.marginal
        assert worth is not None
        return state, 100 * (worth - worth.mean()), state

    def signal_bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


def test_a_stage_game_measures_what_leaving_a_silo_out_costs() -> None:
    game = eqx.tree_at(
        lambda g: g.mechanism, four_silos(), ByMarginal(), is_leaf=lambda x: isinstance(x, Redistribution)
    )
    played = jnp.array([1.0, 0.5, 0.5, 0.0])
    # P = 0.2 + 0.15·Σd: m = 0.15·d, mean 0.075
    marginal = facts_at(game, played).marginal
    assert marginal is not None
    assert_allclose(marginal, 0.15 * played, atol=1e-12)
    assert_allclose(settle(game, played).transfer, [7.5, 0.0, 0.0, -7.5], atol=1e-9)
    assert_allclose(settled_at(game, facts_at(game, played)).signal, 0.2)
