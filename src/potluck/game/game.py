"""One game of T slots as pure functions: reset, step, observe. `vmap` runs several side by side."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.economy import Gains, Payoff, Redistribution, first_gains, payoff, redistribution, rule, transfers
from potluck.federation import Dataset, PrecisionSource
from potluck.federation.described import precision_source
from potluck.scenario import Scenario
from potluck.scenario.terms import Terms

__all__ = ["Game", "Record", "Slot", "State", "game"]


class Record(eqx.Module):
    """What was seen in the last H slots, newest first; zero where the game had not begun."""

    contributions: Float[Array, "history silos"]
    communication: Float[Array, "history silos"]
    intensity: Float[Array, " history"]
    precision: Float[Array, " history"]


class State(eqx.Module):
    """A game between two slots."""

    terms: Terms
    federation: Any
    gains: Gains
    record: Record
    slot: Int[Array, ""]


class Slot(eqx.Module):
    """What happened in one slot."""

    contributions: Float[Array, " silos"]
    precision: Float[Array, ""]
    intensity: Float[Array, ""]
    payoff: Payoff


class Game(eqx.Module):
    """The game of a scenario, on terms and data that one seed drew."""

    scenario: Scenario = eqx.field(static=True)
    terms: Terms
    source: PrecisionSource
    redistribution: Redistribution

    @property
    def silos(self) -> int:
        """N."""
        return self.scenario.silos.count

    @property
    def horizon(self) -> int:
        """T. What would come after is worth nothing: the game ends, it is not cut short."""
        return self.scenario.horizon

    @property
    def observation_size(self) -> int:
        """Numbers in z_n: H·(N + 2), and what the scenario adds to the paper's."""
        seen = self.scenario.observation
        per_slot = self.silos + 2 + seen.own_contribution
        return self.scenario.history * per_slot + seen.own_samples + seen.slot

    def reset(self, key: PRNGKeyArray) -> State:
        """A game before its first slot."""
        drawing, training, changing = jax.random.split(key, 3)
        terms = self.scenario.draw(drawing) if self.scenario.silos.drawn == "episode" else self.terms
        terms = self.scenario.redraw(terms, changing)
        federation = self.source.init(training)
        history, none = self.scenario.history, jnp.zeros((self.scenario.history, self.silos))
        return State(
            terms=eqx.tree_at(lambda t: t.samples, terms, self.source.samples(federation)),
            federation=federation,
            gains=first_gains(self.source.measure(federation)),
            record=Record(none, none, jnp.zeros(history), jnp.zeros(history)),
            slot=jnp.asarray(0),
        )

    def step(self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray) -> tuple[State, Slot]:
        """One slot: contribute, train, aggregate, measure P, set α, settle, record."""
        training, changing = jax.random.split(key)
        federation, precision = self.source.train(state.federation, contributions, training)
        gains, factor = rule(self.scenario.schedule)(state.gains, precision)
        at = self.redistribution.at(factor * self.redistribution.intensity)
        transfer = transfers(at, contributions, state.terms.samples)
        price = jnp.asarray(self.scenario.energy_price)
        settled = payoff(state.terms, price, contributions, precision, transfer)
        slot = Slot(contributions, precision, seen_by_all(at.intensity), settled)
        terms = self.scenario.redraw(state.terms, changing)
        after = State(
            terms=eqx.tree_at(lambda t: t.samples, terms, self.source.samples(federation)),
            federation=federation,
            gains=gains,
            record=remember(state.record, slot, state.terms),
            slot=state.slot + 1,
        )
        return after, slot

    def observe(self, state: State) -> Float[Array, "silos observation"]:
        """z_n for every silo: {d_−n, C_n, α, P} of each of the last H slots, newest first; nothing else of others."""
        record, seen = state.record, self.scenario.observation
        others = np.array([[j for j in range(self.silos) if j != n] for n in range(self.silos)])
        public = jnp.broadcast_to(
            jnp.stack([record.intensity, record.precision], axis=1), (self.silos, self.scenario.history, 2)
        )
        parts = [record.contributions[:, others].swapaxes(0, 1), record.communication.T[:, :, None], public]
        if seen.own_contribution:
            parts.append(record.contributions.T[:, :, None])
        flat = jnp.concatenate(parts, axis=2).reshape(self.silos, -1)
        extra = []
        if seen.own_samples:
            extra.append(state.terms.samples[:, None])
        if seen.slot:
            extra.append(jnp.full((self.silos, 1), state.slot / self.horizon))
        return jnp.concatenate([flat, *extra], axis=1)


def seen_by_all(intensity: Float[Array, ""] | Float[Array, "silos silos"]) -> Float[Array, ""]:
    """α as a record keeps it: the one for all, or the mean over pairs; what a silo's with itself is moves no money."""
    if intensity.ndim == 0:
        return intensity
    silos = len(intensity)
    return jnp.sum(jnp.where(jnp.eye(silos, dtype=bool), 0.0, intensity)) / (silos * (silos - 1))


def remember(record: Record, slot: Slot, terms: Terms) -> Record:
    """The slot comes first, the oldest one is forgotten."""
    newest = Record(slot.contributions, terms.communication, slot.intensity, slot.precision)
    kept: Record = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old[:-1]]), newest, record)
    return kept


def game(scenario: Scenario, seed: int | None = None, data: Dataset | None = None) -> Game:
    """The game that a scenario describes; the seed draws its silos' terms and splits their data."""
    seed = scenario.seed if seed is None else seed
    terms = scenario.draw(jax.random.key(seed))
    return Game(scenario, terms, precision_source(scenario, terms, seed, data), redistribution(scenario))
