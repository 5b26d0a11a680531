import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import (
    StageGame,
    Terms,
    budget_residual,
    first_best,
    jain_index,
    nash,
    nash_conv,
    payoffs,
    pigouvian_intensity,
    pigouvian_subsidies,
    planner,
    price_of_anarchy,
    rationality,
    welfare,
    welfare_optimal_intensity,
)
from potluck.game import stage_game
from potluck.mechanisms import Redistribution
from potluck.scenario import preset
from tests.economy.games import SIZES, Concave, games, numbers, unequal_games

plan = eqx.filter_jit(planner)
solve = eqx.filter_jit(nash)
optimal = eqx.filter_jit(welfare_optimal_intensity)
pairwise = eqx.filter_jit(first_best)
distance = eqx.filter_jit(nash_conv)
gain = eqx.filter_jit(payoffs)


@eqx.filter_jit
def welfares(game: StageGame, played: Array) -> Array:
    return jax.vmap(lambda contributions: welfare(game, contributions))(played)


@eqx.filter_jit
def equilibrium_welfares(game: StageGame, intensities: Array) -> Array:
    found: Array = jax.lax.map(lambda at: welfare(game, nash(game.at(at))), intensities, batch_size=64)
    return found


@st.composite
def games_of_equals(draw: st.DrawFn) -> StageGame:
    """Alike silos and an energy bill at which a planner stops halfway: p·N·∂P = bill at d = ½."""
    silos = draw(st.sampled_from([2, 3, 5]))
    terms = Terms(*(jnp.full(silos, value) for value in (draw(numbers(100, 2000)), 4.0, 0.5, 2000.0)))
    law = Concave(jnp.full(silos, draw(numbers(0.1, 3))), jnp.asarray(draw(numbers(0.1, 0.9))))
    slope = jax.grad(law)(jnp.full(silos, draw(numbers(0.2, 0.8))))[0]
    price = silos * terms.profit[0] * slope / (4.0 * 2000.0)
    return StageGame(terms, price, Redistribution(jnp.asarray(0.0)), law)


@pytest.mark.slow
@given(games(SIZES))
def test_nobody_can_raise_welfare_above_the_planner(game: StageGame) -> None:
    best = plan(game)
    around = jnp.clip(best + 0.05 * jax.random.normal(jax.random.key(0), (32, len(best))), 0, 1)
    others = welfares(game, around)
    reached = float(welfare(game, best))
    assert float(others.max()) <= reached + 1e-12 * abs(reached)


@given(games_of_equals())
def test_pigouvian_intensity_of_equals_is_an_nth_of_the_energy_bill(game: StageGame) -> None:
    assert_allclose(pigouvian_intensity(game, plan(game)), game.cost[0] / len(game.cost), rtol=1e-5)


@pytest.mark.slow
@settings(max_examples=150)
@given(games_of_equals())
def test_optimal_intensity_against_a_brute_force_sweep(game: StageGame) -> None:
    sweep = jnp.linspace(0, game.cost[0] / (len(game.cost) - 1), 401)
    reached = equilibrium_welfares(game, sweep)
    brute = float(sweep[int(reached.argmax())])
    assert abs(float(optimal(game)) - brute) <= 0.02 * brute


def check_no_sweep_beats_the_optimal_intensity(game: StageGame) -> None:
    silos, found = len(game.cost), optimal(game)
    turns = np.append(0, np.sort(game.cost / game.leverage) / (silos - 1))
    between = np.interp(np.linspace(0, silos, 201), np.arange(silos + 1), turns)
    sweep = np.concatenate([np.linspace(0, turns[-1], 301), np.geomspace(1e-4, 1, 97) * turns[-1], between, [found]])
    reached = np.asarray(equilibrium_welfares(game, jnp.asarray(sweep)))
    possible = float(welfare(game, plan(game))) - reached[0]
    assert reached[-1] >= reached.max() - 1e-3 * max(possible, 1e-9 * abs(reached[0]))


@pytest.mark.parametrize(("seed", "silos", "apart"), [(1, 17, 1e2), (16, 17, 1e2), (11, 5, 1e4)])
def test_the_highest_of_many_hills_is_found(seed: int, silos: int, apart: float) -> None:
    """Games in which a coarser search lost 1 to 5% of the possible gain."""
    rng = np.random.default_rng(seed)

    def each(middle: float) -> Array:
        return jnp.asarray(middle * apart ** rng.uniform(-0.5, 0.5, silos))

    terms = Terms(each(1000), each(4), jnp.zeros(silos), jnp.round(each(2000)))
    law = Concave(each(3 / silos), jnp.asarray(rng.uniform(0.1, 0.9)))
    price = jnp.asarray(10 ** rng.uniform(-3.3, -1.3))
    check_no_sweep_beats_the_optimal_intensity(StageGame(terms, price, Redistribution(jnp.asarray(0.0)), law))


def test_a_silo_that_should_never_contribute_hides_no_gain() -> None:
    game = stage_game(preset("dilemma"))
    dear = eqx.tree_at(lambda g: g.terms.energy, game, game.terms.energy.at[3].mul(1e9))
    # silo 3 brings nothing in either
    assert_allclose(optimal(dear), optimal(game), rtol=1e-4)


@settings(max_examples=10)
@given(st.sampled_from([3.0, 10.0, 100.0]).flatmap(lambda apart: unequal_games((5, 17), apart)))
def test_no_fine_sweep_beats_the_optimal_intensity_of_unequal_silos(game: StageGame) -> None:
    check_no_sweep_beats_the_optimal_intensity(game)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.sampled_from([3.0, 10.0, 100.0, 1000.0]).flatmap(lambda apart: unequal_games((3, 17, 30), apart)))
def test_nor_that_of_many_and_very_unequal_silos(game: StageGame) -> None:
    check_no_sweep_beats_the_optimal_intensity(game)


@pytest.mark.slow
@settings(max_examples=100)
@given(games((2, 4, 8), pairs=False))
def test_optimal_intensity_of_unequal_silos_leaves_no_welfare_to_a_sweep(game: StageGame) -> None:
    check_no_sweep_beats_the_optimal_intensity(game)


def test_a_hill_of_welfare_narrower_than_a_cell_of_an_even_grid_is_found() -> None:
    energy = jnp.asarray([1, 6.0625, 0.125, 7.75, 1, 1, 1, 0.125])
    samples = jnp.asarray([2183.0, 2183, 2183, 102, 2183, 2183, 2183, 2183])
    law = Concave(jnp.asarray([1.0, 1, 3, 1, 1, 1, 1, 1]), jnp.asarray(0.875))
    terms = Terms(jnp.full(8, 100.0), energy, jnp.zeros(8), samples)
    game = StageGame(terms, jnp.asarray(0.046875), Redistribution(jnp.asarray(0.0)), law)
    check_no_sweep_beats_the_optimal_intensity(game)


@pytest.mark.slow
@given(games(SIZES, pairs=False))
def test_first_best_pairs_make_the_planners_optimum_an_equilibrium(game: StageGame) -> None:
    best = plan(game)
    pairs = pairwise(game, best)
    paired = game.at(pairs.intensity)
    assert_allclose(pairs.intensity, pairs.intensity.T, rtol=1e-9, atol=1e-12)
    if len(best) > 2:
        assert bool(pairs.needs_negative) == (float(pairs.intensity.min()) < 0)
        assert float(pairs.residual) <= 2e-6 * float(jnp.abs(pairs.intensity).max())
        assert float(distance(paired, best)) <= 1e-5 * float(jnp.abs(gain(paired, best)).sum())


def test_negative_pairs_are_needed_iff_one_subsidy_exceeds_all_others_together() -> None:
    game = stage_game(preset("dilemma"))
    best = plan(game)
    assert not bool(first_best(game, best).needs_negative)
    assert float(first_best(game, best).intensity.min()) >= 0
    # a silo with 50 times the data needs about 50 times the subsidy of each of the three others
    big = game.terms.samples.at[0].mul(50)
    lopsided = eqx.tree_at(lambda g: (g.terms.samples, g.precision.samples), game, (big, big))
    found = first_best(lopsided, plan(lopsided))
    assert bool(found.needs_negative)
    assert float(found.intensity.min()) < 0
    assert float(found.residual) < 1e-9


@pytest.mark.parametrize("needed", [(3, 1.5, 1, 0.51), (3, 1.5, 1, 0.5001), (5, 2, 1, 1, 1.001), (3, 1, 1, 1)])
def test_pairs_are_found_up_to_the_very_edge(needed: tuple[float, ...]) -> None:
    # P linear and p = 1: t_n = (N − 1)·slope_n
    slopes = jnp.asarray(needed) / (len(needed) - 1)
    terms = Terms(*(jnp.ones(len(needed)) for _ in range(4)))
    game = StageGame(terms, jnp.asarray(0.0), Redistribution(jnp.asarray(0.0)), lambda played: played @ slopes)
    found = first_best(game, jnp.ones(len(needed)))
    assert not bool(found.needs_negative)
    assert float(found.intensity.min()) >= 0
    assert_allclose(found.intensity.sum(axis=1), needed, rtol=1e-8)


def test_two_silos_that_need_different_subsidies_cannot_both_be_served() -> None:
    game = stage_game(preset("dilemma"))
    pair = jax.tree.map(lambda leaf: leaf[:2], game.terms)
    unequal = pair.samples.at[0].mul(3)
    game = eqx.tree_at(lambda g: (g.terms, g.precision.samples), game, (pair, unequal))
    game = eqx.tree_at(lambda g: g.terms.samples, game, unequal)
    assert float(first_best(game, jnp.array([0.5, 0.5])).residual) > 1


def test_subsidies_by_hand() -> None:
    # P = d_0 + 2d_1 + 3d_2, p = (10, 20, 30): t = (20+30)·1, (10+30)·2, (10+20)·3
    game = stage_game(preset("paper"))
    terms = jax.tree.map(lambda leaf: leaf[:3], game.terms)
    terms = eqx.tree_at(lambda t: t.profit, terms, jnp.array([10.0, 20.0, 30.0]))

    def law(contributions: Array) -> Array:
        return contributions @ jnp.array([1.0, 2.0, 3.0])

    game = StageGame(terms, game.energy_price, game.mechanism, law)
    assert_allclose(pigouvian_subsidies(game, jnp.full(3, 0.5)), [50.0, 80.0, 90.0])


def test_price_of_anarchy_is_infinite_when_nothing_is_left_to_share() -> None:
    game = stage_game(preset("literal"))
    assert float(price_of_anarchy(game, jnp.ones(4), plan(game))) == np.inf


def test_rationality_of_the_paper_preset() -> None:
    game = stage_game(preset("paper"))
    without = solve(game.at(jnp.asarray(0.0)))
    margins = rationality(game, solve(game), without)
    assert float(margins.leaving.min()) > 0
    assert float(margins.alone.min()) > 0
    unpaid = payoffs(game.at(jnp.asarray(0.0)), without)
    assert_allclose(margins.no_redistribution, payoffs(game, solve(game)) - unpaid)


def test_jain_index_by_hand() -> None:
    assert_allclose(jain_index(jnp.array([3.0, 3.0, 3.0, 3.0])), 1.0)
    assert_allclose(jain_index(jnp.array([8.0, 0.0, 0.0, 0.0])), 0.25)
    assert_allclose(jain_index(jnp.zeros(4)), 1.0)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=6), st.integers(-290, 290))
def test_jain_index_knows_no_unit_of_money(shares: list[float], decade: int) -> None:
    expected = sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
    assert_allclose(jain_index(jnp.asarray(shares) * 10.0**decade), expected, rtol=1e-12)


def test_budget_balances_to_rounding() -> None:
    game = stage_game(preset("paper"))
    assert float(budget_residual(game, jnp.array([1.0, 0.3, 0.7, 0.1]))) < 1e-12
