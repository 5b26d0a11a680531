"""What one silo sees, from what that silo has: the same bits as in the game, and open to fields from outside."""

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal

from potluck.economy import payoff
from potluck.errors import PotluckError
from potluck.game import OBSERVATIONS, Game, ObservationField, Own, Record, View, game, observe_one
from potluck.game.pettingzoo import parallel_env
from potluck.mechanisms import facts_of, first_state, settle_slot
from potluck.scenario import mechanism_of
from potluck.scenario.description import PAPER_OBSERVATION
from tests.game.conftest import DRAWN, by_hand, play, random_contributions
from tests.game.test_game import HAND, KEY, MECHANISMS

ALL = tuple(OBSERVATIONS)


def test_one_silo_by_hand() -> None:
    record = Record(jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), jnp.array([7.0, 8.0]), jnp.array([0.8, 0.9]))
    own = Own(jnp.array([0.01, 0.02]), *(jnp.array(number) for number in (300.0, 1000.0, 20.0)))
    seen = observe_one(record, own, 1, 3, 4, ALL)
    slots = [0.1, 0.3, 0.01, 7, 0.8, 0.2, 0.4, 0.6, 0.02, 8, 0.9, 0.5]
    assert_array_equal(seen, np.array([*slots, 300, 1000, 20, 1, 0.75], np.float32))


def check_a_slot(played: Game, shares: np.ndarray, key: Any) -> None:
    """The same game by hand: train, settle, pay and look, silo by silo."""
    state = played.reset(key)
    memory = first_state(played.mechanism, played.source.measure(state.federation))
    record, communication = Record.blank(played.history, played.silos), np.zeros((played.history, played.silos))
    for number, contributions in enumerate(jnp.asarray(shares)):
        key, training = jax.random.split(key)
        after, slot = played.step(state, contributions, training)
        trained, _ = jax.random.split(training)
        needed = "marginal" in played.mechanism.needs
        _, measured = played.source.train(state.federation, contributions, trained, marginal=needed)
        facts = facts_of(played.mechanism, contributions, state.terms.samples, measured.precision, measured.marginal)
        settled = settle_slot(played.mechanism, memory, facts)
        memory = settled.state
        assert_array_equal(slot.payoff.transfer, settled.transfers)
        assert_array_equal(slot.signal, settled.signal)
        record = record.after(contributions, settled.signal, measured.precision)
        communication = np.concatenate([np.asarray(state.terms.communication)[None], communication[:-1]])
        seen = played.observe(after)
        for silo in range(played.silos):
            terms = jax.tree.map(lambda term, silo=silo: term[silo], state.terms)
            earned = payoff(
                terms, played.energy_price, contributions[silo], measured.precision, settled.transfers[silo]
            )
            assert_array_equal(slot.payoff.total[silo], earned.total)
            now = jax.tree.map(lambda term, silo=silo: term[silo], after.terms)
            cost = played.energy_price * now.energy * now.samples
            own = Own(jnp.asarray(communication[:, silo], jnp.float32), now.samples, now.profit, cost)
            view = observe_one(record, own, silo, number + 1, played.horizon, played.observation)
            assert_array_equal(seen[silo], view)
        state = after


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_games_payoffs_and_observations_are_those_of_the_pure_functions_bit_for_bit(name: str) -> None:
    kind, options = MECHANISMS[name]
    silos = DRAWN.model_copy(update={"redraw": ("communication", "samples")})
    scenario = by_hand(silos=silos, mechanism=mechanism_of(kind, **options), observation=ALL)
    check_a_slot(game(scenario), np.asarray(random_contributions(4, 3)), KEY)


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1, width=32), min_size=9, max_size=9), st.integers(0, 2**31))
def test_bit_for_bit_whatever_is_played(shares: list[float], seed: int) -> None:
    scenario = by_hand(silos=DRAWN, observation=ALL)
    check_a_slot(game(scenario), np.array(shares, np.float32).reshape(3, 3), jax.random.key(seed))


@pytest.fixture
def trend() -> Iterator[str]:
    """A field from outside: what precision gained in the last slot, said once."""

    def gained(view: View) -> Any:
        return (view.record.precision[0] - view.record.precision[1])[None]

    OBSERVATIONS.register("trend", ObservationField(gained, low=-1.0, high=1.0))
    yield "trend"
    del OBSERVATIONS._added["trend"]


def test_a_field_from_outside_is_seen_by_its_name_and_has_bounds(trend: str) -> None:
    scenario = by_hand(observation=(*PAPER_OBSERVATION, trend))
    played = game(scenario)
    assert played.observation_size == 2 * 5 + 1
    seen = play(played, HAND, KEY)
    precision = np.asarray(seen.slots.precision)
    np.testing.assert_allclose(seen.seen[1:, 0, -1], np.diff(precision, prepend=0.0), rtol=1e-5)
    space = parallel_env(scenario).observation_space("silo_0")
    assert (space.low[-1], space.high[-1]) == (-1, 1)


@pytest.mark.parametrize("shape", [(), (3, 4), (2, 2, 2)])
def test_a_field_of_another_shape_is_named(shape: tuple[int, ...]) -> None:
    OBSERVATIONS.register("odd", ObservationField(lambda _: jnp.zeros(shape)))
    try:
        with pytest.raises(PotluckError, match=r"^observation odd must read \[2, k\] numbers of the record, or \[k\]"):
            game(by_hand(observation=("others", "odd")))
    finally:
        del OBSERVATIONS._added["odd"]


def test_the_order_of_names_is_the_order_of_numbers() -> None:
    states = play(game(by_hand()), HAND, KEY).states
    last = jax.tree.map(lambda leaf: leaf[-1], states)
    turned = game(by_hand(observation=("precision", "signal"))).observe(last)
    plain = game(by_hand()).observe(last)
    assert_array_equal(turned, plain[:, jnp.array([4, 3, 9, 8])])
