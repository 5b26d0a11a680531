"""An agent for silos that have never met: it begins with what other federations taught, and learns within the game.

Before every slot a silo asks what the public record so far makes of the prior over laws of precision, imagines how the
game goes on if all climb their own payoffs from there, and plays its part of the slot at hand. It is told its own terms
and the public mechanism. Nothing is carried over from one game to the next: every game is a first one.
"""

import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents.learner import Act, Diagnostics, Window
from potluck.agents.model_based import EPSILON, LEAST
from potluck.agents.precision_model import Plan, turns
from potluck.agents.prior import OwnLaw, Prior, Record, SharedLaw, numbers_of
from potluck.errors import PotluckError
from potluck.mechanisms import Declared, Mechanism, MechanismConfig, facts_of, first_state, settle_slot
from potluck.scenario import mechanism_of

OBSERVED = ("others", "own_contribution", "precision", "own_samples", "own_terms", "own_place", "slot")
"""What it must see, in this order."""
OBSERVED_ONCE = 5
"""Numbers of it that are not said of every slot."""
MOST_SILOS, MOST_SLOTS = 256, 10_000
"""Of a scenario."""


class Sight(eqx.Module):
    """z_n taken apart."""

    contributions: Float[Array, "history silos"]
    precision: Float[Array, " history"]
    samples: Float[Array, ""]
    profit: Float[Array, ""]
    cost: Float[Array, ""]
    """Of its whole data in a slot."""
    place: Int[Array, ""]
    slot: Int[Array, ""]
    """Slots that are over."""


def sight(observation: Float[Array, " observation"], history: int, silos: int, slots: int) -> Sight:
    """What `OBSERVED` says; the silo's own contribution goes to its place among the others'."""
    rows = observation[: history * (silos + 1)].reshape(history, silos + 1)
    samples, profit, cost, place, over = observation[history * (silos + 1) :]
    places, own = jnp.arange(silos), jnp.round(place).astype(int)
    columns = jnp.where(places == own, silos - 1, places - (places > own))
    return Sight(rows[:, columns], rows[:, silos], samples, profit, cost, own, jnp.round(over * slots).astype(int))


class MemoryState(eqx.Module):
    """The game so far, and what was expected of it."""

    record: Record
    predicted: Float[Array, " slots"]
    """Precision of every slot, as it was expected before the slot."""


def after(record: Record, seen: Sight) -> Record:
    """With the last slots; what was before them stays."""
    at = seen.slot - 1 - jnp.arange(len(seen.precision))
    at = jnp.where(at < 0, len(record.precision), at)  # beyond the end, where nothing is written
    return Record(
        record.plan.at[at].set(seen.contributions, mode="drop"),
        record.precision.at[at].set(seen.precision, mode="drop"),
        record.over.at[at].set(True, mode="drop"),
    )


class Pretrained(eqx.Module):
    """How one silo decides; also what is exported of it, since it holds nothing of any silo's own."""

    prior: Prior
    mechanism: Mechanism[Any]
    discount: Float[Array, ""]
    silos: int = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    history: int = eqx.field(static=True)
    described: str = eqx.field(static=True)
    """The mechanism, as a scenario describes it."""
    members: int = eqx.field(static=True, default=8)
    """Laws that a plan is imagined on."""
    first_climb: int = eqx.field(static=True, default=150)
    """Steps of the imagined ascent before the first slot."""
    later_climb: int = eqx.field(static=True, default=25)
    """Before any later one, from where the last ended."""
    stride: float = eqx.field(static=True, default=0.05)

    central = False

    def export(self, state: None) -> "PretrainedActor":
        """Itself."""
        del state
        return PretrainedActor(self)

    def init(self, key: PRNGKeyArray) -> None:
        """All that it knows is the prior."""
        del key

    def initial_memory(self, state: None) -> MemoryState:
        """Taking turns: a convention from which an ascent ends well (docs/learning.md)."""
        del state
        nothing = jnp.zeros(self.slots)
        return MemoryState(Record(turns(self.slots, self.silos), nothing, nothing.astype(bool)), nothing)

    def play(
        self, state: None, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[MemoryState, Float[Array, " 1"]]:
        """Learn from the record, plan the rest of the game, play the plan's present slot."""
        del state
        seen = sight(observation, self.history, self.silos, self.slots)
        record = after(memory.record, seen)
        laws = self.prior.members(record, self.members)
        plan = self.climb(laws, record, seen)
        at = jnp.minimum(seen.slot, self.slots - 1)
        predicted = memory.predicted.at[at].set(mean_of(laws, plan)[at])
        return MemoryState(Record(plan, record.precision, record.over), predicted), plan[at, seen.place][None]

    def act(
        self, state: None, memory: MemoryState, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[MemoryState, Act]:
        """It does not explore."""
        del key
        memory, action = self.play(state, memory, observation)
        return memory, Act(action, action, jnp.zeros_like(action))

    def update(self, state: None, window: Window[MemoryState]) -> tuple[None, MemoryState, Diagnostics]:
        """Nothing is kept. The error of precision as expected before each slot, and as the prior alone expects it."""
        del state
        played = window.memory_after.record
        blank = jax.tree.map(jnp.zeros_like, jax.tree.map(lambda leaf: leaf[0], played))
        laws = self.prior.members(blank, self.members)

        def error(predicted: Float[Array, "games slots"]) -> Float[Array, ""]:
            squares = jnp.where(played.over, (predicted - played.precision) ** 2, 0.0)
            return jnp.sqrt(squares.sum() / jnp.maximum(played.over.sum(), 1))

        errors = {
            "precision_error": error(window.memory_after.predicted),
            "prior_error": error(jax.vmap(lambda plan: mean_of(laws, plan))(played.plan)),
        }
        return None, window.memory_after, errors

    def climb(self, laws: OwnLaw, record: Record, seen: Sight) -> Plan:
        """All silos climb their own payoffs at once in the slots to come, each on the terms of who imagines them."""
        optimiser, begun = optax.scale_by_adam(eps=EPSILON), record.plan
        ahead = (jnp.arange(self.slots) >= seen.slot)[:, None]
        steps = jnp.where(seen.slot == 0, self.first_climb, self.later_climb)

        def step(at: Int[Array, ""], carry: tuple[Plan, optax.OptState]) -> tuple[Plan, optax.OptState]:
            plan, moments = carry
            slopes = jnp.where(ahead, self.slopes(laws, plan, record, seen), 0.0)
            change, moments = optimiser.update(slopes, moments)
            stride = self.stride * (1 + jnp.cos(jnp.pi * at / steps)) / 2
            return jnp.where(ahead, jnp.clip(plan + stride * change, 0, 1), plan), moments

        reached: Plan = jax.lax.fori_loop(0, steps, step, (begun, optimiser.init(begun)))[0]
        return reached

    def slopes(self, laws: OwnLaw, plan: Plan, record: Record, seen: Sight) -> Plan:
        """∂u_n/∂d_{n,t} of every silo n, where p and κ v|D| are one's own: p·Σγ^s ∂P_s + γ^t(∂r_n − κ v|D|), in which
        time is counted from the slot at hand.
        """
        weights = jnp.maximum(self.discount ** jnp.maximum(jnp.arange(self.slots) - seen.slot, 0), LEAST)

        def revenue(plan: Plan) -> Float[Array, ""]:
            return seen.profit * weights @ mean_of(laws, plan)

        expected = jax.lax.stop_gradient(mean_of(laws, plan))
        precision = jnp.where(record.over, record.precision, expected)
        begun = mean_of(laws, jnp.zeros_like(plan))[0]

        def received(own: Float[Array, " slots"], silo: Int[Array, ""]) -> Float[Array, ""]:
            return weights @ self.transfers(plan.at[:, silo].set(own), begun, precision, seen.samples)[:, silo]

        paid: Plan = jax.vmap(jax.grad(received), in_axes=(1, 0), out_axes=1)(plan, jnp.arange(self.silos))
        earned: Plan = jax.grad(revenue)(plan)
        return earned + paid - weights[:, None] * seen.cost

    def transfers(
        self, plan: Plan, begun: Float[Array, ""], precision: Float[Array, " slots"], samples: Float[Array, ""]
    ) -> Plan:
        """r of every slot and silo, by the mechanism itself, from the precision of before the first slot on. That
        precision moves it too is left out, and others are thought to hold as much as oneself.
        """
        held = jnp.full(self.silos, samples)

        def slot(memory: Any, now: tuple[Array, Array]) -> tuple[Any, Array]:
            settled = settle_slot(self.mechanism, memory, facts_of(self.mechanism, now[0], held, now[1]))
            return settled.state, settled.transfers

        received: Plan = jax.lax.scan(slot, first_state(self.mechanism, begun), (plan, precision))[1]
        return received


def mean_of(laws: OwnLaw, plan: Plan) -> Float[Array, " slots"]:
    """P of every slot, as laws expect it on average."""
    each: Float[Array, "members slots"] = jax.vmap(lambda law: law(plan))(laws)
    return each.mean(0)


class PretrainedActor(eqx.Module):
    """The same outside of training: all that it holds is public."""

    learner: Pretrained

    kind = "pretrained"

    @classmethod
    def empty(cls, silos: int, slots: int, history: int, laws: int, mechanism: str) -> "PretrainedActor":
        if not (2 <= silos <= MOST_SILOS and 1 <= slots <= MOST_SLOTS and 1 <= history <= MOST_SLOTS):
            raise ValueError("its sizes are wrong")
        nothing = jnp.zeros((laws, len(numbers_of(SharedLaw()))))
        built = undeclared(mechanism_of(**json.loads(mechanism)), silos)
        prior, discount = Prior(nothing, nothing[:, 0]), jnp.zeros(())
        return cls(Pretrained(prior, built, discount, silos, slots, history, mechanism))

    @property
    def settings(self) -> dict[str, Any]:
        """As `empty` takes them."""
        own = self.learner
        sizes = {"silos": own.silos, "slots": own.slots, "history": own.history, "laws": len(own.prior.laws)}
        return {**sizes, "mechanism": own.described}

    @property
    def observation_size(self) -> int:
        """Numbers in what it must see."""
        own = self.learner
        return own.history * (own.silos + 1) + OBSERVED_ONCE

    @property
    def plans_for(self) -> dict[str, Any]:
        """The game that it computes with; no other will do."""
        own = self.learner
        discount = round(float(own.discount), 6)
        return {"horizon": own.slots, "mechanism": json.loads(own.described), "discount": discount}

    def initial_memory(self) -> MemoryState:
        return self.learner.initial_memory(None)

    def __call__(
        self, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[MemoryState, Float[Array, " action"]]:
        return self.learner.play(None, memory, observation)


def pretrained(
    prior: Prior, mechanism: MechanismConfig, silos: int, slots: int, history: int, discount: float
) -> Pretrained:
    """The agent for a game; refused where silos do not know enough of its mechanism."""
    built, told = undeclared(mechanism, silos), ""
    if any(np.isnan(leaf).any() for leaf in jax.tree.leaves(eqx.filter(built, eqx.is_inexact_array))):
        told = "what silos declare to the coordinator alone"
    if "marginal" in built.needs:
        told = "what each silo's update is worth"
    if told:
        raise PotluckError(
            f": pretrained cannot play {mechanism.kind}, which rests on {told}; take mpgd", field="agent"
        )
    discounted = jnp.asarray(discount, dtype=float)
    return Pretrained(prior, built, discounted, silos, slots, history, mechanism.model_dump_json())


def undeclared(mechanism: MechanismConfig, silos: int) -> Mechanism[Any]:
    """A mechanism as all know it: what silos would declare is not a number."""
    unknown = jnp.full(silos, jnp.nan)
    return mechanism.build(Declared(unknown, unknown))
