import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from numpy.testing import assert_allclose

from potluck.economy import (
    StageGame,
    Terms,
    gain_from_over_reporting,
    gain_from_shading,
    gain_from_splitting,
)
from potluck.mechanisms import Redistribution
from tests.economy.games import contributions, games


def silos(unit: float | None = None) -> StageGame:
    terms = Terms(jnp.full(3, 1000.0), jnp.full(3, 4.0), jnp.full(3, 0.5), jnp.array([2000.0, 1000.0, 1000.0]))
    rule = Redistribution(jnp.array(5.0), None if unit is None else jnp.array(unit))
    return StageGame(terms, jnp.array(0.0025), rule, lambda d: d.mean())


PLAYED = np.array([0.5, 0.2, 0.2])


def test_over_reporting_by_hand() -> None:
    # claims 0.9 for 0.5: 5·(N−1)·0.4 = 4; on samples of unit 1000 its data weighs double
    assert_allclose(gain_from_over_reporting(silos(), jnp.asarray(PLAYED), 0, 0.9), 4.0)
    assert_allclose(gain_from_over_reporting(silos(1000.0), jnp.asarray(PLAYED), 0, 0.9), 8.0)


def test_shading_by_hand() -> None:
    # declares 1250 of 2000 and trains on the same 1000: d̂ = 0.8, so 5·2·0.3 = 3; samples do not care
    assert_allclose(gain_from_shading(silos(), jnp.asarray(PLAYED), 0, 1250.0), 3.0)
    assert_allclose(gain_from_shading(silos(1000.0), jnp.asarray(PLAYED), 0, 1250.0), 0.0, atol=1e-12)


def test_splitting_by_hand() -> None:
    # r_0 = 5·2·0.3 = 3, three times over, less two more C: 2·3 − 2·0.5
    assert_allclose(gain_from_splitting(silos(), jnp.asarray(PLAYED), 0, 3), 5.0)
    # b = (1, 0.2, 0.2): the two added identities forgo 5·0.2·2 each, less two more C
    assert_allclose(gain_from_splitting(silos(1000.0), jnp.asarray(PLAYED), 0, 3), -2 * 2.0 - 1.0)


@given(games(), st.data())
def test_on_samples_neither_shading_nor_splitting_ever_pays(game: StageGame, data: st.DataObject) -> None:
    count = len(game.terms.profit)
    rule = Redistribution(game.redistribution.intensity, jnp.asarray(2000.0))
    game = eqx.tree_at(lambda g: g.mechanism, game, rule, is_leaf=lambda x: isinstance(x, Redistribution))
    played, silo = data.draw(contributions(count)), data.draw(st.integers(0, count - 1))
    declared = float(game.terms.samples[silo]) * data.draw(st.floats(0.05, 1))
    rounding = 1e-12 * float(np.asarray(game.redistribution.intensity).max()) * count
    assert float(gain_from_shading(game, played, silo, declared)) <= rounding
    assert float(gain_from_splitting(game, played, silo, data.draw(st.integers(2, 9)))) <= rounding


@given(games(), st.data())
def test_splitting_equals_playing_the_larger_game(game: StageGame, data: st.DataObject) -> None:
    """Settle the game in which silo 0 sits at the table k times, from scratch, in NumPy."""
    count = len(game.terms.profit)
    played, identities = np.asarray(data.draw(contributions(count))), data.draw(st.integers(2, 5))
    unit = game.redistribution.unit
    samples = np.asarray(game.terms.samples)
    pairs = np.broadcast_to(np.asarray(game.redistribution.intensity), (count, count))
    seats = [0] * identities + list(range(1, count))
    held = np.array([samples[0] / identities] * identities + list(samples[1:]))
    brought = played[seats] * (1 if unit is None else held / float(unit))
    paid = sum(
        pairs[0, other] * (brought[seat] - brought[place])
        for seat in range(identities)
        for place, other in enumerate(seats)
        if place >= identities
    )
    honest = played * (1 if unit is None else samples / float(unit))
    single = sum(pairs[0, other] * (honest[0] - honest[other]) for other in range(1, count))
    expected = paid - single - (identities - 1) * float(game.terms.communication[0])
    assert_allclose(gain_from_splitting(game, jnp.asarray(played), 0, identities), expected, rtol=1e-9, atol=1e-9)
