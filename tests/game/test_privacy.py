"""What a silo sees tells it nothing of another's terms, and nothing of the future."""

import dataclasses
from functools import cache

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.testing import assert_array_equal

from potluck.federation.source import Measurement
from potluck.game import Game, game
from potluck.scenario import mechanism_of
from potluck.scenario.description import PAPER_OBSERVATION
from potluck.scenario.terms import Terms
from tests.game.conftest import DRAWN, by_hand, play, random_contributions

SLOTS, SILOS = 5, 3
ALL = (*PAPER_OBSERVATION, "own_contribution", "own_samples", "slot")


class Replay(eqx.Module):
    """A precision source that reaches given values, whatever is contributed."""

    precision: Float[Array, " slots+1"]
    sizes: Float[Array, " silos"]

    def init(self, key: PRNGKeyArray) -> Int[Array, ""]:
        del key
        return jnp.asarray(0)

    def samples(self, state: Int[Array, ""]) -> Float[Array, " silos"]:
        del state
        return self.sizes

    def measure(self, state: Int[Array, ""]) -> Float[Array, ""]:
        return self.precision[state]

    def train(
        self, state: Int[Array, ""], contributions: Float[Array, " silos"], key: PRNGKeyArray, *, marginal: bool = False
    ) -> tuple[Int[Array, ""], Measurement]:
        del contributions, key, marginal
        return state + 1, Measurement(self.precision[state + 1])


def numbers(least: float, most: float, *shape: int) -> st.SearchStrategy[np.ndarray]:
    size = int(np.prod(shape))
    floats = st.floats(least, most, width=32, allow_nan=False)
    return st.lists(floats, min_size=size, max_size=size).map(lambda x: np.array(x, np.float32).reshape(shape))


def terms() -> st.SearchStrategy[Terms]:
    return st.builds(
        Terms,
        profit=numbers(1, 2000, SILOS).map(jnp.asarray),
        energy=numbers(0, 10, SILOS).map(jnp.asarray),
        communication=numbers(0, 10, SILOS).map(jnp.asarray),
        samples=numbers(1, 5000, SILOS).map(jnp.asarray),
    )


def with_own(silo: int, own: Terms, others: Terms) -> Terms:
    """Terms of `others`, except that the silo keeps its own."""
    mixed: Terms = jax.tree.map(lambda a, b: np.where(np.arange(SILOS) == silo, a, b), own, others)
    return mixed


@cache
def on(basis: str) -> Game:
    mechanism = mechanism_of("redistribution", intensity=6.0, basis=basis)
    return game(by_hand(mechanism=mechanism, observation=ALL, horizon=SLOTS))


def replayed(drawn: Terms, precision: np.ndarray, basis: str) -> Game:
    held: Terms = jax.tree.map(jnp.asarray, drawn)
    source = Replay(jnp.asarray(precision), held.samples)
    return dataclasses.replace(on(basis), terms=held, source=source)


@given(
    own=terms(),
    others=terms(),
    silo=st.integers(0, SILOS - 1),
    precision=numbers(0, 1, SLOTS + 1),
    contributions=numbers(0, 1, SLOTS, SILOS),
    basis=st.sampled_from(["fraction", "samples"]),
)
def test_the_terms_of_others_leave_no_trace_in_what_a_silo_sees(
    own: Terms, others: Terms, silo: int, precision: np.ndarray, contributions: np.ndarray, basis: str
) -> None:
    before, after = (
        play(replayed(drawn, precision, basis), jnp.asarray(contributions), jax.random.key(0))
        for drawn in (own, with_own(silo, own, others))
    )
    assert_array_equal(np.asarray(before.seen[:, silo]), np.asarray(after.seen[:, silo]))
    assert before.seen.shape == (SLOTS + 1, SILOS, 2 * 6 + 2)


def test_on_the_curve_the_profit_energy_and_communication_of_others_leave_no_trace() -> None:
    # Sizes stay: on a curve the precision, which all may see, depends on them.
    first = game(by_hand(observation=ALL))
    for silo in range(SILOS):
        others = np.arange(SILOS) != silo
        terms = first.terms
        private = terms.profit, terms.energy, terms.communication
        changed = eqx.tree_at(
            lambda g: (g.terms.profit, g.terms.energy, g.terms.communication),
            first,
            tuple(jnp.where(others, 3 * term + 1, term) for term in private),
        )
        contributions = random_contributions(5, SILOS)
        before, after = (play(g, contributions, jax.random.key(0)) for g in (first, changed))
        assert_array_equal(np.asarray(before.seen[:, silo]), np.asarray(after.seen[:, silo]))
        assert_array_equal(before.slots.payoff.total[:, silo], after.slots.payoff.total[:, silo])
        assert (
            np.asarray(before.slots.payoff.total)[:, others] != np.asarray(after.slots.payoff.total)[:, others]
        ).all()


@pytest.mark.parametrize("slot", range(5))
def test_what_is_seen_before_a_slot_depends_on_nothing_played_in_it_or_later(slot: int) -> None:
    chosen = game(by_hand(silos=DRAWN, observation=ALL))
    contributions = random_contributions(5, SILOS)
    otherwise = contributions.at[slot:].set(1 - contributions[slot:])
    before, after = (play(chosen, joint, jax.random.key(0)).seen for joint in (contributions, otherwise))
    assert_array_equal(np.asarray(before[: slot + 1]), np.asarray(after[: slot + 1]))
    assert (np.asarray(before[slot + 1]) != np.asarray(after[slot + 1])).any()
