import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy.equilibrium import (
    best_response,
    best_response_dynamics,
    black_box,
    equilibrium,
    nash,
    nash_conv,
    regrets,
    uniqueness,
)
from potluck.economy.payoff import StageGame, payoffs
from potluck.economy.potential import potential
from potluck.economy.welfare import dominant_intensity
from potluck.errors import PotluckError
from potluck.game import stage_game
from potluck.mechanisms import Proportional, Redistribution
from potluck.scenario import Terms, preset
from tests.economy.games import SIZES, Concave, contributions, games, unequal_games

solve, answer_each_other = eqx.filter_jit(nash), eqx.filter_jit(best_response_dynamics)
distance, respond = eqx.filter_jit(nash_conv), eqx.filter_jit(best_response)
height, played_payoffs = eqx.filter_jit(potential), eqx.filter_jit(payoffs)
alone_on_top, regret = eqx.filter_jit(uniqueness), eqx.filter_jit(regrets)


@eqx.filter_jit
def responses(game: StageGame, played: Array) -> Array:
    return jax.vmap(lambda silo: best_response(game, played, silo)[0])(jnp.arange(len(played)))


def quadratic(intensity: float = 0.0) -> StageGame:
    """P(d) = s − s²/4 with s = d_0 + d_1, p = 100, energy 75 and 80 for all one's data."""
    terms = Terms(jnp.full(2, 100.0), jnp.array([0.75, 0.8]), jnp.zeros(2), jnp.full(2, 100.0))
    rule = Redistribution(jnp.asarray(intensity))
    return StageGame(terms, jnp.array(1.0), rule, lambda d: d.sum() - d.sum() ** 2 / 4)


def test_equilibrium_by_hand() -> None:
    # 100(1 − s/2) = 75 at s = ½ suits silo 0; silo 1 wants s = 0.4 and so rides free
    assert_allclose(solve(quadratic()), [0.5, 0.0], atol=1e-9)
    # α = 10 leaves 65 and 70 to pay: silo 0 alone brings 0.7
    assert_allclose(solve(quadratic(10.0)), [0.7, 0.0], atol=1e-9)


def test_best_response_finds_corners_exactly() -> None:
    game = quadratic()
    assert float(respond(game, jnp.array([0.0, 1.0]), 0)[0]) == 0.0
    assert float(respond(game.at(jnp.asarray(80.0)), jnp.array([0.0, 1.0]), 0)[0]) == 1.0


def test_best_response_finds_a_narrow_peak_by_values_alone() -> None:
    game = eqx.tree_at(lambda g: g.precision, quadratic(), lambda d: jnp.exp(-((30 * (d[0] - 0.3217)) ** 2)))
    grid = np.linspace(0, 1, 200_001)
    values = 100 * np.exp(-((30 * (grid - 0.3217)) ** 2)) - 75 * grid
    own, value = respond(game, jnp.zeros(2), 0)
    assert float(value) >= values.max() - 1e-9
    assert abs(float(own) - grid[values.argmax()]) < 1e-4


@given(games(SIZES))
def test_nobody_gains_by_leaving_the_top_of_the_potential(game: StageGame) -> None:
    found = solve(game)
    assert float(distance(game, found)) <= 1e-8 * float(jnp.abs(played_payoffs(game, found)).sum())


def gains_by_hand(game: StageGame, played: np.ndarray, silo: int, instead: np.ndarray) -> np.ndarray:
    """What silo n gains by d_n′ under `Concave` at a uniform α: p·ΔP + (α(N−1) − c)·Δd, in NumPy."""
    law, plays = game.precision, np.tile(played, (len(instead), 1))
    assert isinstance(law, Concave)
    plays[:, silo] = instead
    rows = np.vstack([played, plays])
    shared, weights = float(law.shared), np.asarray(law.weights)
    alone = np.log1p(9 * rows).mean(axis=1) / np.log(10.0)
    level = -shared * np.exp(-rows @ weights) + (1 - shared) * alone
    paid = float(game.redistribution.intensity) * (len(played) - 1) - float(game.cost[silo])
    return np.asarray(float(game.terms.profit[silo]) * (level[1:] - level[0]) + paid * (instead - played[silo]))


@given(unequal_games((3, 6), 10.0, decades=10))
def test_nobody_gains_though_profits_span_decades_and_what_never_moves_is_huge(game: StageGame) -> None:
    found = np.asarray(solve(game))
    grid = np.linspace(0, 1, 2001)
    for silo, profit in enumerate(np.asarray(game.terms.profit)):
        near = np.clip(found[silo] + np.concatenate([[-1], [1]]) * np.logspace(-8, -3, 30)[:, None], 0, 1).ravel()
        best = gains_by_hand(game, found, silo, np.concatenate([grid, near])).max()
        assert best <= 1e-12 * profit
    # A transfer is up to α(N − 1), many times the least profits here, and what it moves by is rounded as it is.
    rounding = 4 * np.finfo(float).eps * float(game.redistribution.intensity) * (len(found) - 1)
    assert bool(jnp.all(regret(game, jnp.asarray(found)) <= 1e-12 * game.terms.profit + rounding))


@given(games(SIZES), st.data())
def test_best_responses_lead_to_the_top_of_the_potential(game: StageGame, data: st.DataObject) -> None:
    found = solve(game)
    reached = answer_each_other(game, data.draw(contributions(len(found))), tolerance=1e-13)
    assert_allclose(height(game, reached), height(game, found), rtol=1e-9)
    assert_allclose(reached, found, atol=2e-4)


@given(games(SIZES, pairs=False), st.data())
def test_from_the_dominant_intensity_on_all_bring_everything_whatever_others_do(
    game: StageGame, data: st.DataObject
) -> None:
    game = game.at(dominant_intensity(game) * 1.0001)
    played = data.draw(contributions(len(game.terms.profit)))
    assert bool(jnp.all(responses(game, played) == 1.0))


@settings(max_examples=50)
@given(games((2, 4)))
def test_starts_do_not_matter_when_precision_is_strictly_concave(game: StageGame) -> None:
    assert bool(alone_on_top(game, jax.random.key(0)).unique)


def test_alike_silos_share_a_unique_total_in_many_ways() -> None:
    game = stage_game(preset("dilemma"))
    alike = jax.tree.map(lambda leaf: jnp.full_like(leaf, leaf.mean()), game.terms)
    game = eqx.tree_at(lambda g: (g.terms, g.precision.samples), game, (alike, alike.samples))
    found = uniqueness(game, jax.random.key(0))
    assert not bool(found.unique)
    assert float(found.total_spread) < 1e-6


def test_a_black_box_is_solved_by_its_values() -> None:
    calls = []

    def measure(contributions: np.ndarray) -> float:
        calls.append(contributions.copy())
        return float(contributions.sum() - contributions.sum() ** 2 / 4)

    game = eqx.tree_at(lambda g: g.precision, quadratic(), black_box(measure))
    assert_allclose(best_response_dynamics(game, jnp.array([0.9, 0.9])), [0.5, 0.0], atol=1e-4)
    assert calls


def test_regrets_against_a_dense_numpy_grid() -> None:
    game = quadratic()
    played = jnp.array([0.9, 0.3])
    grid = np.linspace(0, 1, 100_001)
    total = grid + 0.3
    best = (100 * (total - total**2 / 4) - 75 * grid).max()
    assert_allclose(regrets(game, played)[0], best - (100 * (1.2 - 0.36) - 75 * 0.9), atol=1e-6)


@pytest.mark.parametrize("name", ["paper", "dilemma", "literal", "percent", "per-thousand", "lineage"])
def test_presets_are_solved_to_the_last_digit(name: str) -> None:
    game = stage_game(preset(name))
    found = solve(game)
    assert float(distance(game, found)) <= 1e-10 * float(jnp.abs(played_payoffs(game, found)).sum())


def test_single_precision_games_are_solved_in_single_precision_whatever_the_default() -> None:
    game = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), stage_game(preset("dilemma")))
    assert solve(game).dtype == jnp.float32
    assert answer_each_other(game, jnp.zeros(4, jnp.float32)).dtype == jnp.float32


def test_equilibrium_in_single_precision_stays_close() -> None:
    with jax.enable_x64(False):
        game = stage_game(preset("dilemma"))
        found: Array = solve(game)
        assert found.dtype == np.float32
        gap = float(distance(game, found)) / float(payoffs(game, found).sum())
    assert gap < 1e-5


def with_a_pot(game: StageGame, pot: float = 30.0) -> StageGame:
    return StageGame(game.terms, game.energy_price, Proportional(jnp.asarray(pot)), game.precision)


def test_without_a_potential_there_is_no_top_to_climb_and_the_mechanism_is_named() -> None:
    with pytest.raises(PotluckError, match=r"^mechanism Proportional leaves the game no potential"):
        nash(with_a_pot(quadratic()))


def test_without_a_potential_silos_answer_one_another() -> None:
    # both hold 100 samples: u_0 = 100(s − s²/4) − 75·d_0 + 30·(d_0/s − ½)
    game = with_a_pot(quadratic())
    found = equilibrium(game)
    assert found.solver == "best-response"
    assert float(nash_conv(game, found.contributions)) < 1e-6
    assert float(found.contributions[1]) > 0.1, "a pot makes the free-rider of the game without it contribute"


def test_the_solver_of_a_game_with_a_potential_climbs_it() -> None:
    found = equilibrium(quadratic(10.0))
    assert found.solver == "potential"
    assert_allclose(found.contributions, [0.7, 0.0], atol=1e-9)


@pytest.mark.slow
@settings(max_examples=30)
@given(games((2, 5)), st.floats(0, 500))
def test_play_without_a_potential_ends_where_nash_conv_says_how_good_it_is(game: StageGame, pot: float) -> None:
    game = with_a_pot(game, pot)
    found = eqx.filter_jit(lambda at: equilibrium(at).contributions)(game)
    assert bool(jnp.all((found >= 0) & (found <= 1)))
    assert np.isfinite(float(distance(game, found)))


def test_any_game_has_its_silos_under_redistribution() -> None:
    game = with_a_pot(quadratic())
    assert_allclose(solve(game.at(jnp.asarray(10.0))), solve(quadratic(10.0)), atol=1e-12)
    assert_allclose(solve(game.at(jnp.asarray(0.0))), solve(quadratic()), atol=1e-12)
