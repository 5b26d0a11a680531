"""The numbers the paper's game lands on, on the curve fitted to real Fashion-MNIST."""

import re
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from potluck.economy import nash_conv, welfare
from potluck.game import stage_game
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.stage import in_turn, plain, settled, solve, sweep

ROOT = Path(__file__).parents[2]
INTENSITIES = np.concatenate([[0.0], np.arange(1.0, 16.5, 0.5)])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def swept(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    found = sweep(stage_game(scenario), jnp.asarray(INTENSITIES))
    return np.asarray(found.welfare), np.asarray(found.contributions)


def with_price(price: float, seed: int = 0) -> Scenario:
    return preset("paper").model_copy(update={"energy_price": price, "seed": seed})


def test_literal_constants_make_contributing_pointless() -> None:
    _, contributions = swept(preset("literal"))
    assert contributions.mean(axis=1).max() < 0.02


@pytest.mark.parametrize("seed", range(5))
def test_redistribution_pays_at_the_papers_energy_price(seed: int) -> None:
    reached, _ = swept(with_price(0.0025, seed))
    assert reached[1:].max() > reached[0] + 1
    assert reached[1:].max() >= reached[-1]


@pytest.mark.parametrize("seed", range(5))
def test_too_much_redistribution_hurts_at_twice_that_price(seed: int) -> None:
    reached, _ = swept(with_price(0.005, seed))
    best = int(reached.argmax())
    assert 1 < INTENSITIES[best] < 16
    assert reached[best] > reached[1] + 1
    assert reached[best] > reached[-1] + 1


def test_the_dilemma_needs_an_nth_of_the_energy_bill() -> None:
    solution = solve(stage_game(preset("dilemma")))
    bill = float(solution.game.cost.mean())
    assert abs(float(solution.intensity_star) - bill / 4) < 0.1 * bill / 4
    assert abs(float(solution.pigouvian_intensity) - bill / 4) < 0.1 * bill / 4


@pytest.mark.parametrize(("name", "digits"), [("paper", 2), ("dilemma", 1)])
def test_the_readme_says_which_intensity_is_best_and_the_dilemma_ships_it(name: str, digits: int) -> None:
    game = stage_game(preset(name))
    best = round(float(solve(game).intensity_star), digits)
    (row,) = re.findall(rf"^\| `{name}` \|.*", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert str(best) in row
    assert float(game.redistribution.intensity) == (best if name == "dilemma" else 5.0)


def test_solution_is_consistent_with_its_parts() -> None:
    solution = solve(stage_game(preset("dilemma")))
    game, play = solution.game, solution.equilibrium
    assert np.isclose(play.payoff.welfare, welfare(game, play.contributions))
    assert float(nash_conv(game, play.contributions)) < 1e-8 * float(play.payoff.welfare)
    assert float(solution.optimum.payoff.welfare) >= float(play.payoff.welfare)
    assert 0 < float(solution.gain_share) < 1


def test_plain_has_the_promised_keys() -> None:
    game = stage_game(preset("dilemma"))
    figures = plain(solve(game), sweep(game, jnp.linspace(0, 60, 5)))
    promised = {"nash", "payoffs", "welfare", "nash_conv", "planner", "planner_welfare", "price_of_anarchy"}
    promised |= {"intensity_star", "rationality"}
    assert promised | {"no_redistribution", "sweep"} <= figures.keys()
    assert promised <= figures["no_redistribution"].keys()
    assert [row["intensity"] for row in figures["sweep"]] == [0, 15, 30, 45, 60]


def test_settled_play_keeps_the_books() -> None:
    play = settled(stage_game(preset("paper")), jnp.array([1.0, 0.5, 0.5, 0.1]))
    assert np.isclose(play.payoff.total.sum(), play.payoff.welfare)


def test_pairs_and_uniform_intensity_agree() -> None:
    pairs = tuple(tuple(5.0 * (n != j) for j in range(4)) for n in range(4))
    paired = preset("paper").model_copy(update={"mechanism": mechanism_of("redistribution", intensity=pairs)})
    first, second = solve(stage_game(paired)), solve(stage_game(preset("paper")))
    assert np.allclose(first.equilibrium.payoff.total, second.equilibrium.payoff.total)
    assert np.isclose(first.intensity_star, second.intensity_star)


def test_same_seed_same_bits() -> None:
    first, second = (plain(solve(stage_game(preset("paper")))) for _ in range(2))
    assert first == second


def test_a_program_has_ended_before_the_next_one_begins() -> None:
    def long(at: Array) -> Array:
        return jnp.asarray(jax.lax.fori_loop(0, 200, lambda _, matrix: jnp.tanh(matrix @ matrix), at))

    first, _ = in_turn((jax.jit(long), jnp.ones((200, 200))), (jax.jit(jnp.sum), jnp.ones(2)))
    assert first.is_ready()
