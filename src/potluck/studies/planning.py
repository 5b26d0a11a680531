"""The best plan for a whole game: who contributes what in which slot, decided beforehand.

On the curve a plan is found by ascent. Real training has no gradient in the contributions, so there it is found from
values alone, by the cross-entropy method. Nothing much in a game is random but the model's first weights, so a plan
can be nearly as good as any policy.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents import Environment
from potluck.game import Planner
from potluck.scenario import CurvePrecision
from potluck.training.loop import AXIS, mesh_for
from potluck.training.play import long_term
from potluck.training.run import Trained

__all__ = ["Watcher", "climb", "follow", "plan_for_all", "search"]

STEPS, STEP = 200, 0.05
"""Of the ascent."""
PIECES, MEMBERS, ELITE, GENERATIONS = 6, 64, 16, 60
"""Of the search: a plan is constant in each of six parts of the game; of 64 the best 16 make the next generation."""
PACE, LEAST_SPREAD = 0.3, 0.01

Watcher = Callable[[str, float], None]
"""Told what is being done, and what share of it is."""


def plan_for_all(run: Trained, watch: Watcher = lambda *_: None) -> tuple[Planner, Float[Array, "slots silos"]]:
    """The run's game with one player who decides for all, and the plan of highest welfare found for it."""
    arrays, rest = eqx.partition(Planner(run.seated.environment.game), eqx.is_array)  # type: ignore[attr-defined]
    planner = eqx.combine(jax.tree.map(lambda leaf: leaf[0], arrays), rest)  # all seeds play the same federation
    key = jax.random.fold_in(jax.random.key(run.plan.scenario.seed), 2**32 - 2)
    if isinstance(run.plan.scenario.precision, CurvePrecision):
        watch("planner: ascent", 0.0)
        return planner, eqx.filter_jit(climb)(planner, 1.0, key)
    return planner, search(planner, key, watch)


def follow(environment: Environment, plan: Float[Array, "slots action"], key: PRNGKeyArray) -> tuple[Array, Any]:
    """One whole game whose only player keeps to a plan: payoffs [slots, 1], reports of its slots."""
    resetting, stepping = jax.random.split(key)

    def slot(state: Any, at: tuple[Array, Array]) -> tuple[Any, tuple[Array, Any]]:
        state, payoff, report = environment.step(state, at[0][None], at[1])
        return state, (payoff, report)

    keys = jax.random.split(stepping, environment.horizon)
    played: tuple[Array, Any] = jax.lax.scan(slot, environment.reset(resetting), (plan, keys))[1]
    return played


def climb(environment: Environment, discount: float, key: PRNGKeyArray) -> Float[Array, "slots action"]:
    """Ascend the only player's long-term payoff from four starts: little, half, much, and less and less."""
    optimiser = optax.adam(optax.cosine_decay_schedule(STEP, STEPS))

    def worth(plan: Float[Array, "slots action"]) -> Float[Array, ""]:
        return long_term(follow(environment, plan, key)[0], discount)[0]

    def ascend(begun: Float[Array, "slots action"]) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            plan, memory = carry
            change, memory = optimiser.update(-jax.grad(worth)(plan), memory)
            return (jnp.clip(plan + change, 0, 1), memory), None

        plan = jax.lax.scan(step, (begun, optimiser.init(begun)), None, STEPS)[0][0]
        return plan, worth(plan)

    slots = environment.horizon
    over = jnp.linspace(1.0, 0.0, slots) if slots > 1 else jnp.ones(1)
    starts = jnp.stack([jnp.full(slots, level) for level in (0.1, 0.5, 0.9)] + [over])
    plans, reached = jax.vmap(ascend)(jnp.repeat(starts[:, :, None], environment.action_size, axis=2))
    return plans[jnp.argmax(reached)]


class Aim(eqx.Module):
    """Where the search stands: plans are drawn around a centre."""

    centre: Float[Array, "pieces action"]
    spread: Float[Array, "pieces action"]


def search(environment: Environment, key: PRNGKeyArray, watch: Watcher) -> Float[Array, "slots action"]:
    """Draw plans, keep the best, draw closer to them: the cross-entropy method on the mean payoff of a slot."""
    pieces = min(PIECES, environment.horizon)
    aim = Aim(*(jnp.full((pieces, environment.action_size), number) for number in (0.5, 0.25)))
    for generation in range(GENERATIONS):
        watch("planner: direct search", generation / GENERATIONS)
        aim = _closer(environment, aim, jax.random.fold_in(key, generation), mesh_for(MEMBERS))
    return _slots(aim.centre, environment.horizon)


def _slots(pieces: Float[Array, "pieces action"], slots: int) -> Float[Array, "slots action"]:
    return pieces[np.arange(slots) * len(pieces) // slots]


@eqx.filter_jit
def _closer(environment: Environment, aim: Aim, key: PRNGKeyArray, mesh: Mesh) -> Aim:
    """One generation, all in the same game with the same luck, so that they differ by their plans alone."""
    drawing, luck = jax.random.split(key)
    noise = jax.random.normal(drawing, (MEMBERS // 2, *aim.centre.shape))
    drawn = jnp.clip(aim.centre + aim.spread * jnp.concatenate([noise, -noise]), 0, 1)

    def worth(members: Float[Array, "members pieces action"]) -> Float[Array, " members"]:
        return jax.vmap(lambda plan: follow(environment, _slots(plan, environment.horizon), luck)[0].mean())(members)

    spread_out = jax.shard_map(worth, mesh=mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)
    best = drawn[jnp.argsort(-spread_out(drawn))[:ELITE]]
    return Aim(
        centre=(1 - PACE) * aim.centre + PACE * best.mean(0),
        spread=jnp.maximum((1 - PACE) * aim.spread + PACE * best.std(0), LEAST_SPREAD),
    )
