"""A planner that sees precision within the game and reacts to it: is there more to gain than by a plan?

A plan fixes all contributions beforehand. A game that goes worse than expected may deserve more data, or less. So the
planner's plan gets feedback, d_t = plan_t + K_t·x_t, where x_t tells how far precision is from what was expected. K is
climbed in imagination: on the learnt law, with luck that behaves as it does on record. How much of it is any good is
found out in play.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents.precision_model import DOUBT, Law, Worth, worth_of
from potluck.devices import GAMES, mesh_over
from potluck.game import Planner
from potluck.studies.imagination import BATCH, Imagination
from potluck.studies.planning import Plan, Watcher

ROUNDS = 2
"""Of feedback climbed and played."""
STEPS, STEP, IMAGINED = 300, 0.002, 64
"""Of the ascent, and the games that it imagines."""
PASSES = 3
"""Through an imagined game: contributions answer to precision, and precision to them. Feedback is small."""
STRENGTHS, CHOOSING = (0.0, 0.25, 0.5, 1.0), 128
"""Shares of the feedback that are played in so many games, the plan alone among them; the best is kept."""
UNIT = 0.01
"""Of x: the noise of precision, about."""
ROOM = 1.01
"""Errors are counted from here: no precision is above 1."""


class Feedback(eqx.Module):
    """d_t = plan_t + K_t·x_t within [0, 1]; x_t is P − P̄ of the last slot, and on average so far."""

    plan: Plan
    gains: Float[Array, "slots silos 2"]
    expected: Float[Array, " slots"]
    """P̄."""

    def __call__(self, precision: Float[Array, " slots"]) -> Plan:
        """All contributions of a game whose precision is known; a slot's answer only to what was before it."""
        off = (precision - self.expected) / UNIT
        average = jnp.cumsum(off) / jnp.arange(1, len(off) + 1)
        seen = jnp.stack([jnp.roll(off, 1), jnp.roll(average, 1)], axis=1).at[0].set(0.0)
        return jnp.clip(self.plan + jnp.einsum("tnk,tk->tn", self.gains, seen), 0, 1)


class Luck(eqx.Module):
    """1 − P_t = (1 − P̂_t)·exp(z_t), z_t = (a + b·d̄_t)·(z_{t−1}, mean of z so far) + σ_t ε: luck lasts, and heals."""

    lasting: Float[Array, " 4"]
    spread: Float[Array, " slots"]

    def __call__(
        self, guess: Float[Array, " slots"], plan: Plan, noise: Float[Array, " slots"]
    ) -> Float[Array, " slots"]:
        """Precision of a game."""

        def slot(carry: tuple[Array, Array], now: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
            (last, total), (brought, shock, number) = carry, now
            before = jnp.stack([last, total / jnp.maximum(number, 1)])
            luck = self.lasting @ jnp.concatenate([before, before * brought]) + shock
            return (luck, total + luck), luck

        inputs = plan.mean(1), self.spread * noise, jnp.arange(len(noise))
        _, luck = jax.lax.scan(slot, (jnp.zeros(()), jnp.zeros(())), inputs)
        return ROOM - (ROOM - guess) * jnp.exp(luck)


@eqx.filter_jit
def _off(laws: Law, contributions: Array, precision: Array) -> Float[Array, "games slots"]:
    """z of games on record."""
    guess = jax.vmap(lambda plan: jax.vmap(lambda law: law(plan))(laws).mean(0))(contributions)
    return jnp.log((ROOM - precision) / jnp.maximum(ROOM - guess, 1e-3))


def luck_of(laws: Law, contributions: Float[np.ndarray, "games slots silos"], precision: np.ndarray) -> Luck:
    """By least squares on record."""
    luck = np.asarray(_off(laws, jnp.asarray(contributions), jnp.asarray(precision))).astype(float)
    average = np.cumsum(luck, axis=1) / np.arange(1, luck.shape[1] + 1)
    before = np.stack([luck[:, :-1], average[:, :-1]], axis=-1)
    known = np.concatenate([before, before * contributions[:, 1:].mean(2)[..., None]], axis=-1)
    lasting = np.linalg.lstsq(known.reshape(-1, 4), luck[:, 1:].ravel(), rcond=None)[0]
    shocks = np.concatenate([luck[:, :1], luck[:, 1:] - known @ lasting], axis=1)
    return Luck(jnp.asarray(lasting, jnp.float32), jnp.asarray(shocks.std(0), jnp.float32))


@eqx.filter_jit
def improved(feedback: Feedback, laws: Law, luck: Luck, worth: Worth, key: PRNGKeyArray) -> Feedback:
    """Climb the mean over games of any luck of mean − deviation of what the members think that feedback is worth.

    Who reacts strongly comes where no game was played: game by game the members must agree.
    The plan stays, so that what is gained is gained by reacting.
    """
    noise = jax.random.normal(key, (IMAGINED, len(feedback.plan)))
    optimiser = optax.adam(optax.cosine_decay_schedule(STEP, STEPS))
    expected = jax.vmap(lambda law: law(feedback.plan))(laws).mean(0)

    def game(feedback: Feedback, law: Law, noise: Float[Array, " slots"]) -> Float[Array, ""]:
        plan, precision = feedback.plan, feedback.expected
        for _ in range(PASSES):
            precision = luck(law(plan), plan, noise)
            plan = feedback(precision)
        return worth(plan, luck(law(plan), plan, noise))

    def believed(gains: Float[Array, "slots silos 2"]) -> Float[Array, ""]:
        trial = Feedback(feedback.plan, gains, expected)
        each = jax.vmap(lambda law: jax.vmap(lambda noise: game(trial, law, noise))(noise))(laws)
        return (each.mean(0) - DOUBT * jnp.sqrt(each.var(0) + 1e-6)).mean()

    def step(carry: tuple[Array, optax.OptState], _: None) -> tuple[tuple[Array, optax.OptState], None]:
        gains, state = carry
        change, state = optimiser.update(-jax.grad(believed)(gains), state)
        return (gains + change, state), None

    gains = jax.lax.scan(step, (feedback.gains, optimiser.init(feedback.gains)), None, STEPS)[0][0]
    return Feedback(feedback.plan, gains, expected)


def react(planner: Planner, feedback: Feedback, key: PRNGKeyArray) -> tuple[Array, Any]:
    """One whole game in which the only player reacts: payoffs [slots, 1], reports of its slots."""
    resetting, stepping = jax.random.split(key)
    slots = planner.horizon

    def slot(carry: tuple[Any, Array], at: tuple[Array, Array]) -> tuple[tuple[Any, Array], tuple[Array, Any]]:
        (state, seen), (number, key) = carry, at
        state, payoff, report = planner.step(state, feedback(seen)[number][None], key)
        return (state, seen.at[number].set(report.precision)), (payoff, report)

    begun = planner.reset(resetting), feedback.expected
    keys = jax.random.split(stepping, slots)
    played: tuple[Array, Any] = jax.lax.scan(slot, begun, (jnp.arange(slots), keys))[1]
    return played


@eqx.filter_jit
def reacted(planner: Planner, feedback: Feedback, keys: Array, mesh: Mesh) -> tuple[Array, Any]:
    """Games side by side."""

    def here(keys: Array) -> tuple[Array, Any]:
        return jax.vmap(lambda key: react(planner, feedback, key))(keys)

    sharded = jax.shard_map(here, mesh=mesh, in_specs=P(GAMES), out_specs=P(GAMES), check_vma=False)
    found: tuple[Array, Any] = sharded(keys)
    return found


def reacting(imagination: Imagination, plan: Plan, watch: Watcher = lambda *_: None) -> Feedback:
    """Feedback for a plan, climbed in imagination and climbed again after games in which it was played. In the end as
    much of it as earns most in play, which may be none.
    """
    imagination.survey()
    imagination.near(plan[None])
    feedback = Feedback(plan, jnp.zeros((*plan.shape, 2)), jnp.zeros(len(plan)))
    for number in range(ROUNDS):
        watch("planner that reacts", number / ROUNDS)
        laws = imagination.model().laws
        told = imagination.told
        contributions, precision, welfare = (
            np.concatenate(parts)
            for parts in zip(*((t.contributions, t.precision, t.welfare) for t in told), strict=True)
        )
        worth, luck = worth_of(welfare, precision, contributions), luck_of(laws, contributions, precision)
        feedback = improved(feedback, laws, luck, worth, imagination.key(4))
        if number + 1 < ROUNDS:
            keys = jax.random.split(imagination.key(5), BATCH)
            imagination.tell(reacted(imagination.planner, feedback, keys, mesh_over(BATCH))[1])
    watch("planner that reacts", 0.9)
    shares = [eqx.tree_at(lambda at: at.gains, feedback, share * feedback.gains) for share in STRENGTHS]
    keys = jax.random.split(imagination.key(6), CHOOSING).reshape(-1, BATCH)

    def earned(trial: Feedback) -> float:
        played = [reacted(imagination.planner, trial, part, mesh_over(BATCH))[0] for part in keys]
        return float(np.mean([np.asarray(payoffs, float).mean() for payoffs in played]))

    best: Feedback = max(shares, key=earned)
    return best
