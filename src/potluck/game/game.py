"""One game of T slots as pure functions: reset, step, observe. `vmap` runs several side by side."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from potluck.economy import Payoff, payoff
from potluck.federation import Dataset, PrecisionSource
from potluck.federation.from_scenario import precision_source
from potluck.game.observation import observation_size, observe_one
from potluck.game.record import Own, Record, newest_first
from potluck.mechanisms import Mechanism, build_mechanism, facts_of, first_state, settle_slot
from potluck.scenario import Scenario, Terms, TermsDraw


class State(eqx.Module):
    """A game between two slots."""

    terms: Terms
    federation: PyTree
    mechanism: PyTree
    """What the mechanism remembers."""
    record: Record
    communication: Float[Array, "history silos"]
    """C_n of the slots on record."""
    slot: Int[Array, ""]


class Slot(eqx.Module):
    """What happened in one slot."""

    contributions: Float[Array, " silos"]
    precision: Float[Array, ""]
    signal: Float[Array, ""]
    payoff: Payoff


class Game(eqx.Module):
    """The game of a scenario, on terms and data that one seed drew: arrays, and what gives them their shapes."""

    terms: Terms
    drawing: TermsDraw
    energy_price: Float[Array, ""]
    """κ."""
    mechanism: Mechanism[Any]
    source: PrecisionSource[Any]
    horizon: int = eqx.field(static=True)
    """T. What would come after is worth nothing: the game ends, it is not cut short."""
    history: int = eqx.field(static=True)
    """H."""
    observation: tuple[str, ...] = eqx.field(static=True)
    """Names of what a silo sees."""
    drawn: Literal["run", "episode"] = eqx.field(static=True, default="run")
    """Whether terms are those of the run, or drawn anew for every game."""

    @property
    def silos(self) -> int:
        """N."""
        return self.terms.profit.shape[-1]

    @property
    def observation_size(self) -> int:
        """Numbers in z_n: H·(N + 2) of the paper's."""
        return observation_size(self.observation, self.history, self.silos)

    def reset(self, key: PRNGKeyArray) -> State:
        """A game before its first slot."""
        drawing, training, changing = jax.random.split(key, 3)
        terms = self.drawing.draw(drawing) if self.drawn == "episode" else self.terms
        terms = self.drawing.next(terms, changing)
        federation = self.source.init(training)
        return State(
            terms=eqx.tree_at(lambda t: t.samples, terms, self.source.samples(federation)),
            federation=federation,
            mechanism=first_state(self.mechanism, self.source.measure(federation)),
            record=Record.blank(self.history, self.silos),
            communication=jnp.zeros((self.history, self.silos)),
            slot=jnp.asarray(0),
        )

    def step(self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray) -> tuple[State, Slot]:
        """One slot: contribute, train, aggregate, measure P, settle, record."""
        training, changing = jax.random.split(key)
        told = "marginal" in self.mechanism.needs
        federation, measured = self.source.train(state.federation, contributions, training, marginal=told)
        facts = facts_of(self.mechanism, contributions, state.terms.samples, measured.precision, measured.marginal)
        settled = settle_slot(self.mechanism, state.mechanism, facts)
        earned = payoff(state.terms, self.energy_price, contributions, measured.precision, settled.transfers)
        terms = self.drawing.next(state.terms, changing)
        after = State(
            terms=eqx.tree_at(lambda t: t.samples, terms, self.source.samples(federation)),
            federation=federation,
            mechanism=settled.state,
            record=state.record.after(contributions, settled.signal, measured.precision),
            communication=newest_first(state.terms.communication, state.communication),
            slot=state.slot + 1,
        )
        return after, Slot(contributions, measured.precision, settled.signal, earned)

    def observe(self, state: State) -> Float[Array, "silos observation"]:
        """z_n for every silo, each from the record and what it has of its own."""

        def one(silo: Int[Array, ""], own: Own) -> Float[Array, " observation"]:
            return observe_one(state.record, own, silo, state.slot, self.horizon, self.observation)

        terms = state.terms
        cost = self.energy_price * terms.energy * terms.samples
        return jax.vmap(one)(jnp.arange(self.silos), Own(state.communication.T, terms.samples, terms.profit, cost))


def game(scenario: Scenario, seed: int | None = None, data: Dataset | None = None) -> Game:
    """The game that a scenario describes; the seed draws its silos' terms and splits their data."""
    seed = scenario.seed if seed is None else seed
    terms = scenario.draw(jax.random.key(seed))
    observation_size(scenario.observation, scenario.history, scenario.silos.count)
    return Game(
        terms=terms,
        drawing=scenario.terms,
        energy_price=jnp.asarray(scenario.energy_price, dtype=float),
        mechanism=build_mechanism(scenario, terms),
        source=precision_source(scenario, terms, seed, data),
        horizon=scenario.horizon,
        history=scenario.history,
        observation=scenario.observation,
        drawn=scenario.silos.drawn,
    )
