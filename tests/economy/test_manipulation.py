from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from potluck.economy import (
    StageGame,
    Terms,
    gain_from_over_reporting,
    gain_from_overstating_cost,
    gain_from_shading,
    gain_from_splitting,
)
from potluck.errors import PotluckError
from potluck.mechanisms import CostSharing, Declared, Mechanism, NoTransfers, PerSilo, Proportional, Redistribution
from tests.economy.games import contributions, games
from tests.mechanisms.examples import under


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


@pytest.mark.slow
@given(games(), st.data())
def test_on_samples_neither_shading_nor_splitting_ever_pays(game: StageGame, data: st.DataObject) -> None:
    count = len(game.terms.profit)
    rule = Redistribution(game.redistribution.intensity, jnp.asarray(2000.0))
    game = eqx.tree_at(lambda g: g.mechanism, game, rule, is_leaf=lambda x: isinstance(x, Redistribution))
    played, silo = data.draw(contributions(count)), data.draw(st.integers(0, count - 1))
    declared = float(game.terms.samples[silo]) * data.draw(st.floats(0.05, 1))
    rounding = 1e-12 * float(np.asarray(game.redistribution.intensity).max()) * count
    assert float(gain_from_shading(game, played, silo, declared)) <= rounding
    assert float(gain_from_splitting(game, played, silo, data.draw(st.sampled_from([2, 3, 9])))) <= rounding


@pytest.mark.slow
@given(games(), st.data())
def test_splitting_equals_playing_the_larger_game(game: StageGame, data: st.DataObject) -> None:
    """Settle the game in which silo 0 sits at the table k times, from scratch, in NumPy."""
    count = len(game.terms.profit)
    played, identities = np.asarray(data.draw(contributions(count))), data.draw(st.integers(2, 5))
    unit = game.redistribution.unit
    samples = np.asarray(game.terms.samples)
    pairs = np.broadcast_to(np.asarray(game.redistribution.intensity), (count, count))
    owners = [0] * identities + list(range(1, count))
    held = np.array([samples[0] / identities] * identities + list(samples[1:]))
    brought = played[owners] * (1 if unit is None else held / float(unit))
    paid = sum(
        pairs[0, other] * (brought[seat] - brought[place])
        for seat in range(identities)
        for place, other in enumerate(owners)
        if place >= identities
    )
    honest = played * (1 if unit is None else samples / float(unit))
    single = sum(pairs[0, other] * (honest[0] - honest[other]) for other in range(1, count))
    expected = paid - single - (identities - 1) * float(game.terms.communication[0])
    assert_allclose(gain_from_splitting(game, jnp.asarray(played), 0, identities), expected, rtol=1e-9, atol=1e-9)


def shared_costs(game: StageGame) -> StageGame:
    return under(game, CostSharing(Declared(game.terms.profit, game.cost)))


def test_overstating_ones_cost_by_hand() -> None:
    # c = (20, 10, 10), equal p. At play (½, 0.2, 0.2): 3·10 is paid back and not 10, and a third of the 20 more is
    # one's own. At the equilibrium d = 1 for all, since all of P is worth 1000 a silo: 40 more, a third one's own.
    lie = gain_from_overstating_cost(shared_costs(silos()), jnp.asarray(PLAYED), 0, 3.0)
    assert_allclose(lie.at_play, 20 * 2 / 3)
    assert_allclose(lie.at_equilibrium, 40 * 2 / 3)


@pytest.mark.slow
@settings(max_examples=60)
@given(games((2, 5)), st.data())
def test_overstating_ones_cost_pays_and_the_truth_is_worth_nothing_more(game: StageGame, data: st.DataObject) -> None:
    count = len(game.terms.profit)
    game, played = shared_costs(game), data.draw(contributions(count))
    silo = data.draw(st.integers(0, count - 1))
    more = overstate(game, played, silo, 3.0)
    share = 1 - float(game.terms.profit[silo] / game.terms.profit.sum())
    assert_allclose(more.at_play, 2 * share * float(game.cost[silo] * played[silo]), rtol=1e-9, atol=1e-9)
    scale = float(jnp.abs(game.terms.profit).max())
    assert float(more.at_equilibrium) >= -1e-6 * scale
    assert abs(float(overstate(game, played, silo, 1.0).at_equilibrium)) <= 1e-9 * scale


overstate = eqx.filter_jit(gain_from_overstating_cost)


def test_only_a_mechanism_that_asks_for_costs_is_deceived_about_them() -> None:
    with pytest.raises(PotluckError, match=r"^mechanism Redistribution asks nobody for costs"):
        gain_from_overstating_cost(silos(), jnp.asarray(PLAYED), 0, 3.0)


MECHANISMS: dict[str, Mechanism[Any]] = {
    "none": NoTransfers(),
    "redistribution": Redistribution(jnp.array(5.0)),
    "per-silo": PerSilo(jnp.array([5.0, 2.0, 1.0])),
    "cost-sharing": CostSharing(Declared(jnp.full(3, 1000.0), jnp.array([20.0, 10.0, 10.0]))),
    "proportional": Proportional(jnp.array(30.0)),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", 0.0),
        ("redistribution", 3.0),
        # α·d = (2.5, 0.4, 0.2): 7.5 − 3.1 alone; two identities of 2.5 each at a table of four: 2·(10 − 5.6)
        ("per-silo", 2 * (10 - 5.6) - (7.5 - 3.1)),
        # half the cost and half the profit each: the same money
        ("cost-sharing", 0.0),
        # the same samples, and two of four parts of the pot to finance instead of one of three
        ("proportional", -30 * (2 / 4 - 1 / 3)),
    ],
)
def test_splitting_under_every_mechanism_by_hand(name: str, expected: float) -> None:
    game = under(silos(), MECHANISMS[name])
    assert_allclose(gain_from_splitting(game, jnp.asarray(PLAYED), 0, 2), expected - 0.5, atol=1e-5)


def test_a_mechanism_that_knows_no_split_silos_says_so() -> None:
    class Plain(Proportional):
        split = None  # type: ignore[assignment]

    class Told(Redistribution):
        needs = frozenset({"marginal"})

    for rule in (Plain(jnp.array(30.0)), Told(jnp.array(5.0))):
        with pytest.raises(PotluckError, match="does not say how it settles with split silos"):
            gain_from_splitting(under(silos(), rule), jnp.asarray(PLAYED), 0, 2)


def test_lies_about_data_under_the_proportional_pot() -> None:
    game = under(silos(), MECHANISMS["proportional"])
    # x = (1000, 200, 200): 30·1000/1400; claims 1800: 30·1800/2200
    assert_allclose(gain_from_over_reporting(game, jnp.asarray(PLAYED), 0, 0.9), 30 * (1800 / 2200 - 1000 / 1400))
    assert_allclose(gain_from_shading(game, jnp.asarray(PLAYED), 0, 1250.0), 0.0, atol=1e-12)
