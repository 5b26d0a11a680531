import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import StageGame, payoffs, potential, printed_error, printed_potential
from potluck.game import stage_game
from potluck.scenario import preset
from tests.economy.games import contributions, games, unilateral_deviations


@eqx.filter_jit
def seen(game: StageGame, played: Array) -> tuple[Array, Array, Array]:
    return payoffs(game, played), potential(game, played), printed_potential(game, played)


@given(st.one_of(games(), games(pairs=False)), st.data())
def test_exact_potential_moves_with_every_unilateral_deviation(game: StageGame, data: st.DataObject) -> None:
    silos = len(game.terms.profit)
    played, instead = data.draw(contributions(silos)), data.draw(contributions(silos))
    before, height, _ = seen(game, played)
    for silo, deviation in unilateral_deviations(game, played, instead):
        after, new_height, _ = seen(game, deviation)
        scale = max(abs(float(before[silo])), abs(float(after[silo])), float(game.terms.profit[silo]))
        climbed = game.terms.profit[silo] * (new_height - height)
        assert_allclose(climbed, after[silo] - before[silo], rtol=0, atol=1e-9 * scale)


@pytest.mark.slow
@given(st.one_of(games(), games(pairs=False)), st.data())
def test_printed_potential_errs_by_its_formula(game: StageGame, data: st.DataObject) -> None:
    silos = len(game.terms.profit)
    played, instead = data.draw(contributions(silos)), data.draw(contributions(silos))
    before, _, height = seen(game, played)
    for silo, deviation in unilateral_deviations(game, played, instead):
        after, _, new_height = seen(game, deviation)
        scale = max(abs(float(before[silo])), abs(float(after[silo])), float(game.terms.profit[silo]))
        error = game.terms.profit[silo] * (new_height - height) - (after[silo] - before[silo])
        expected = printed_error(game, silo, deviation[silo] - played[silo])
        assert_allclose(error, expected, rtol=0, atol=1e-9 * scale)


def test_printed_potential_by_hand() -> None:
    # equal p: the others' losses cancel one's own gain, so U moves as if α were 0: p·δ·(N−1)·α/p too little
    game = stage_game(preset("paper"))
    game = eqx.tree_at(lambda g: g.terms.profit, game, jnp.full(4, 1000.0))
    assert_allclose(printed_error(game, 0, 1.0), -3 * 5.0)


def test_printed_potential_points_the_wrong_way_in_a_documented_share_of_deviations() -> None:
    """72% on preset `paper` at α = 5: docs/paper.md."""
    game = stage_game(preset("paper"))
    before, after = jax.random.uniform(jax.random.key(0), (2, 20_000, 4))
    silo = jax.random.randint(jax.random.key(1), (20_000,), 0, 4)

    def wrong(played: Array, instead: Array, silo: Array) -> Array:
        deviation = played.at[silo].set(instead[silo])
        gain = (payoffs(game, deviation) - payoffs(game, played))[silo]
        return jnp.sign(gain) != jnp.sign(printed_potential(game, deviation) - printed_potential(game, played))

    share = float(np.mean(jax.jit(jax.vmap(wrong))(before, after, silo)))
    assert abs(share - 0.72) < 0.01
