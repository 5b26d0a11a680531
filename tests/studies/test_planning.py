"""Plans for a whole game, against a game whose best plan is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.testing import assert_allclose

from potluck.federation.from_scenario import on_task
from potluck.game import Planner, game
from potluck.scenario import preset
from potluck.studies.deviations import followed
from potluck.studies.planning import Effort, answer, best_plan, climb, search


class Hilly(eqx.Module):
    """One player with two actions: u_t = −(a_t − best_t)², and a little luck that no plan can change."""

    best: Float[Array, "slots 2"]

    players, observation_size, action_size = 1, 1, 2

    @property
    def horizon(self) -> int:
        return len(self.best)

    def reset(self, key: PRNGKeyArray) -> Int[Array, ""]:
        del key
        return jnp.asarray(0)

    def observe(self, state: Int[Array, ""]) -> Float[Array, "1 1"]:
        return jnp.zeros((1, 1)) * state

    def step(
        self, state: Int[Array, ""], actions: Float[Array, "1 2"], key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], Float[Array, " 1"], None]:
        worth = -jnp.sum((actions[0] - self.best[state]) ** 2) + 0.1 * jax.random.normal(key)
        return state + 1, worth[None], None


BEST = jnp.asarray([[0.9, 0.0], [0.9, 0.0], [0.4, 1.0], [0.4, 1.0], [0.1, 0.5], [0.1, 0.5]])


def test_search_finds_the_best_plan_corners_included() -> None:
    told: list[float] = []
    found = answer(search(Hilly(BEST), jax.random.key(0)), lambda _, share: told.append(share))
    assert_allclose(found, BEST, atol=0.03)
    assert told == sorted(told)
    assert 0.9 < told[-1] < 1


def test_slots_are_freed_where_the_parts_are_too_coarse() -> None:
    best = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (20, 2)))  # parts have up to four slots
    coarse, free = (answer(search(Hilly(best), jax.random.key(0), Effort(64, 60, slots))) for slots in (0, 120))
    assert jnp.abs(free - best).mean() < jnp.abs(coarse - best).mean() / 3
    assert_allclose(free, best, atol=0.1)


def test_ascent_finds_the_best_plan() -> None:
    found = eqx.filter_jit(climb)(Hilly(BEST), 0.9, jax.random.key(0))
    assert_allclose(found, BEST, atol=0.01)


def test_a_short_game_is_planned_slot_by_slot() -> None:
    found = answer(search(Hilly(BEST[1:3]), jax.random.key(0)))
    assert_allclose(found, BEST[1:3], atol=0.03)


@pytest.mark.slow
def test_on_real_training_a_short_search_beats_bringing_half() -> None:
    scenario = on_task(preset("paper"), "digits")
    planner = Planner(game(scenario))
    plan = answer(best_plan(planner, scenario, Effort(generations=8)))
    found = followed(planner, plan, scenario.discount, 16)
    assert found.contributions.shape == (1, 16, 30, 4)
    assert_allclose(found.slot_payoffs.sum(-1), found.welfare, rtol=1e-5)
    assert np.mean(found.welfare) > 3710  # all bringing half earn 3681, all bringing everything 3752
