"""The best plan for a whole game: who contributes what in which slot, decided beforehand.

On the curve a plan is found by ascent. Real training has no gradient in the contributions, so there the slope is
estimated from values alone. Nothing much in a game is random but the model's first weights, so a plan can be nearly as
good as any policy.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents import Environment
from potluck.devices import GAMES, mesh_over
from potluck.errors import PotluckError
from potluck.game import Planner
from potluck.game.players import Playing
from potluck.scenario import CurvePrecision, Scenario
from potluck.training.evaluation import long_term
from potluck.training.run import Trained

STEPS, STEP, ASCENT_GAMES = 200, 0.05, 16
"""Of the ascent."""
FAR, STRIDE = 0.15, 0.1
"""Of the search: how far from the present plan others are tried, and the first step; both shrink as it goes on."""
PARTS = (0, 0.07, 0.13, 0.2, 0.3, 0.43, 0.6, 0.8)
"""Where a searched plan may change, as shares of the game: often at first, where most is decided."""


@dataclass(frozen=True)
class Effort:
    """How much a search tries."""

    pairs: int = 32
    """Plans at a time, on either side of the present one."""
    generations: int = 40
    """Of plans that change only where a part of the game begins."""
    free: int = 0
    """Of plans that may change in every slot, from the best of those on."""

    @property
    def plans(self) -> int:
        """All that are played."""
        return 2 * self.pairs * (self.generations + self.free)


USUAL = Effort()
Watcher = Callable[[str, float], None]
"""Told what is being done, and what share of it is."""
Plan: TypeAlias = Float[Array, "slots action"]


def plan_for_all(run: Trained, watch: Watcher = lambda *_: None) -> tuple[Planner, Float[Array, "slots silos"]]:
    """The run's game with one player who decides for all, and the plan of highest welfare found for it."""
    environment = run.lanes.lane(0).environment  # all seeds play the same federation
    if not isinstance(environment, Playing):
        raise PotluckError(f": {run.config.agent} plays no game that a planner could", field="agent")
    planner = Planner(environment.game)
    return planner, answer(best_plan(planner, run.config.scenario), watch)


def answer(planning: Generator[float, None, Plan], watch: Watcher = lambda *_: None) -> Plan:
    """What a search finds in the end."""
    while True:
        try:
            watch("planner", next(planning))
        except StopIteration as over:
            found: Plan = over.value
            return found


def best_plan(planner: Planner, scenario: Scenario, effort: Effort = USUAL) -> Generator[float, None, Plan]:
    """The plan of highest welfare found: by ascent on the curve, by search on real training. Yields the share of the
    work that is done.
    """
    key = jax.random.fold_in(jax.random.key(scenario.seed), 2**32 - 2)
    if isinstance(scenario.precision, CurvePrecision):
        yield 0.0
        plan: Plan = eqx.filter_jit(climb)(planner, 1.0, key)
        return plan
    return (yield from search(planner, key, effort))


def follow(
    environment: Environment[Any, Any], plan: Float[Array, "slots action"], key: PRNGKeyArray
) -> tuple[Array, Any]:
    """One whole game whose only player keeps to a plan: payoffs [slots, 1], reports of its slots."""
    resetting, stepping = jax.random.split(key)

    def slot(state: Any, at: tuple[Array, Array]) -> tuple[Any, tuple[Array, Any]]:
        state, payoff, report = environment.step(state, at[0][None], at[1])
        return state, (payoff, report)

    keys = jax.random.split(stepping, environment.horizon)
    played: tuple[Array, Any] = jax.lax.scan(slot, environment.reset(resetting), (plan, keys))[1]
    return played


def climb(environment: Environment[Any, Any], discount: float, key: PRNGKeyArray) -> Float[Array, "slots action"]:
    """Ascend the only player's long-term payoff from four starts: little, half, much, and less and less.

    It is the mean over several games, since terms may be drawn anew in each.
    """
    keys = jax.random.split(key, ASCENT_GAMES)
    optimiser = optax.adam(optax.cosine_decay_schedule(STEP, STEPS))

    def worth(plan: Float[Array, "slots action"]) -> Float[Array, ""]:
        return jax.vmap(lambda key: long_term(follow(environment, plan, key)[0], discount)[0])(keys).mean()

    def ascend(begun: Float[Array, "slots action"]) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            plan, state = carry
            change, state = optimiser.update(-jax.grad(worth)(plan), state)
            return (jnp.clip(plan + change, 0, 1), state), None

        plan = jax.lax.scan(step, (begun, optimiser.init(begun)), None, STEPS)[0][0]
        return plan, worth(plan)

    slots = environment.horizon
    over = jnp.linspace(1.0, 0.0, slots) if slots > 1 else jnp.ones(1)
    starts = jnp.stack([jnp.full(slots, level) for level in (0.1, 0.5, 0.9)] + [over])
    plans, reached = jax.vmap(ascend)(jnp.repeat(starts[:, :, None], environment.action_size, axis=2))
    return plans[jnp.argmax(reached)]


class Search(eqx.Module):
    """Where the search stands: contributions in each part of the game, or in each slot, and the optimiser's state."""

    parts: Float[Array, "parts action"]
    optimiser: optax.OptState


def search(
    environment: Environment[Any, Any], key: PRNGKeyArray, effort: Effort = USUAL
) -> Generator[float, None, Plan]:
    """Ascend the mean payoff of a slot along slopes estimated from pairs of plans."""
    slots, done = environment.horizon, 0
    plan = jnp.full((slots, environment.action_size), 0.5)
    for part, generations in ((_part(slots), effort.generations), (np.arange(slots), effort.free)):
        begun = plan[np.unique(part, return_index=True)[1]]
        at = Search(begun, _stepper(generations).init(begun))
        for generation in range(generations):
            yield done / (effort.generations + effort.free)
            spent, luck = jnp.asarray(generation / generations), jax.random.fold_in(key, done)
            at = _better(
                environment, at, jnp.asarray(part), spent, luck, generations, mesh_over(effort.pairs), effort.pairs
            )
            done += 1
        plan = at.parts[part]
    return plan


def _part(slots: int) -> Int[np.ndarray, " slots"]:
    """Which part of the game each slot belongs to."""
    starts = np.unique(np.floor(slots * np.array(PARTS)))
    return np.searchsorted(starts, np.arange(slots), side="right") - 1


def _stepper(generations: int) -> optax.GradientTransformation:
    return optax.adam(optax.linear_schedule(STRIDE, STRIDE / 10, generations), b1=0.8, b2=0.9)


@eqx.filter_jit
def _better(
    environment: Environment[Any, Any],
    at: Search,
    part: Int[Array, " slots"],
    spent: Float[Array, ""],
    key: PRNGKeyArray,
    generations: int,
    mesh: Mesh,
    pairs: int,
) -> Search:
    """One step along the mean of (W(z + σε) − W(z − σε))·ε / 2σ; the two of a pair play the same game."""
    drawing, playing = jax.random.split(key)
    noise = jax.random.normal(drawing, (pairs, *at.parts.shape))
    far = FAR * (1 - 0.7 * spent)

    def leading(noise: Float[Array, "parts action"], luck: PRNGKeyArray) -> Float[Array, ""]:
        def worth(parts: Float[Array, "parts action"]) -> Float[Array, ""]:
            payoffs, _ = follow(environment, jnp.clip(parts, 0, 1)[part], luck)
            return payoffs.mean()

        ahead, behind = jax.vmap(worth)(jnp.stack([at.parts + far * noise, at.parts - far * noise]))
        lead: Float[Array, ""] = ahead - behind
        return lead

    sharded = jax.shard_map(jax.vmap(leading), mesh=mesh, in_specs=P(GAMES), out_specs=P(GAMES), check_vma=False)
    leads = sharded(noise, jax.random.split(playing, pairs))
    slope = jnp.mean(leads[:, None, None] * noise, axis=0) / (2 * far)
    change, state = _stepper(generations).update(-slope, at.optimiser)
    return Search(jnp.clip(at.parts + change, 0, 1), state)
