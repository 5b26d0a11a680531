from typing import Any

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import StageGame
from potluck.mechanisms import Mechanism, Redistribution, facts_of, first_state, settle_slot
from tests.economy.games import contributions, games


def transfers(rule: Mechanism[Any], played: Array, held: Array) -> Array:
    """r of a first slot that reached P = ½."""
    facts = facts_of(rule, played, held, jnp.asarray(0.5))
    return settle_slot(rule, first_state(rule, jnp.asarray(0.1)), facts).transfers


def test_transfers_by_hand() -> None:
    # three silos, α = 5: 5·(3·1.0 − 1.5), 5·(3·0.5 − 1.5), 5·(3·0.0 − 1.5)
    received = transfers(Redistribution(jnp.array(5.0)), jnp.array([1.0, 0.5, 0.0]), jnp.array([9.0, 9.0, 9.0]))
    assert_allclose(received, [7.5, 0.0, -7.5])


def test_transfers_on_samples_by_hand() -> None:
    # units of 1000: b = (2, 1, 0); α = 3: 3·((2−1)+(2−0)), 3·((1−2)+(1−0)), 3·((0−2)+(0−1))
    rule = Redistribution(jnp.array(3.0), jnp.array(1000.0))
    assert_allclose(transfers(rule, jnp.array([1.0, 0.5, 0.0]), jnp.array([2000.0, 2000.0, 50.0])), [9.0, 0.0, -9.0])


def test_transfers_per_pair_by_hand() -> None:
    # α_01 = 1, α_02 = 2, α_12 = 4: r_0 = 1·0.5 + 2·1, r_1 = −0.5 + 4·0.5, r_2 = −2 − 2
    pairs = jnp.array([[0.0, 1.0, 2.0], [1.0, 0.0, 4.0], [2.0, 4.0, 0.0]])
    assert_allclose(transfers(Redistribution(pairs), jnp.array([1.0, 0.5, 0.0]), jnp.ones(3)), [2.5, 1.5, -4.0])


@given(st.one_of(games(), games(pairs=False)), st.data())
def test_transfers_sum_to_zero(game: StageGame, data: st.DataObject) -> None:
    played = data.draw(contributions(len(game.terms.profit)))
    received = np.asarray(transfers(game.redistribution, played, game.terms.samples))
    assert abs(received.sum()) <= 1e-9 * np.abs(received).sum()


@given(games(), st.floats(0, 1))
def test_equal_contributions_move_no_money(game: StageGame, share: float) -> None:
    played = jnp.full_like(game.terms.profit, share)
    received = transfers(Redistribution(game.redistribution.intensity), played, game.terms.samples)
    assert not np.any(np.asarray(received))
