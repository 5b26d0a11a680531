"""What is true of each member of the family: by hand, and for any silos."""

from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from potluck.economy import StageGame, payoffs, potential, welfare
from potluck.mechanisms import (
    MECHANISMS,
    CostSharing,
    CostSharingConfig,
    Declared,
    Facts,
    Mechanism,
    NoTransfers,
    PerSilo,
    Proportional,
    Redistribution,
    Schedule,
    Separable,
)
from tests.economy.games import SIZES, contributions, games, unilateral_deviations
from tests.mechanisms.examples import settled, under, vectors

PLAYED = jnp.array([1.0, 0.5, 0.0])


def test_none_moves_nothing() -> None:
    answer = settled(NoTransfers(), PLAYED)
    assert not np.any(np.asarray(answer.transfers))
    assert float(answer.signal) == 0


def test_per_silo_by_hand() -> None:
    # α·d = (2, 2, 0): 3·2 − 4, 3·2 − 4, 0 − 4; the signal is the mean of (2, 4, 9)
    answer = settled(PerSilo(jnp.array([2.0, 4.0, 9.0])), PLAYED)
    assert_allclose(answer.transfers, [2.0, 2.0, -4.0])
    assert float(answer.signal) == 5.0
    # on samples of unit 1000 and |D| = (500, 1000, 9): b = (0.5, 0.5, 0), α·b = (1, 2, 0)
    on_samples = PerSilo(jnp.array([2.0, 4.0, 9.0]), jnp.array(1000.0))
    assert_allclose(settled(on_samples, PLAYED, jnp.array([500.0, 1000.0, 9.0])).transfers, [0.0, 3.0, -3.0])


def test_cost_sharing_by_hand() -> None:
    # c·d = (20, 5, 0), a bill of 25 shared 50 : 30 : 20
    answer = settled(CostSharing(Declared(jnp.array([50.0, 30.0, 20.0]), jnp.array([20.0, 10.0, 40.0]))), PLAYED)
    assert_allclose(answer.transfers, [20 - 12.5, 5 - 7.5, -5.0])
    assert float(answer.signal) == 0.0


def test_proportional_by_hand() -> None:
    # x = (2000, 1000, 0) of a pot of 30: 20 − 10, 10 − 10, 0 − 10
    answer = settled(Proportional(jnp.array(30.0)), PLAYED)
    assert_allclose(answer.transfers, [10.0, 0.0, -10.0], atol=1e-12)
    assert float(answer.signal) == 30.0


def test_a_pot_stays_shut_where_nobody_contributes() -> None:
    answer = settled(Proportional(jnp.array(30.0)), jnp.zeros(3))
    assert not np.any(np.asarray(answer.transfers))
    assert float(answer.signal) == 0


def test_only_the_proportional_pot_has_no_potential() -> None:
    assert not isinstance(Proportional(jnp.array(30.0)), Separable)
    declared = Declared(jnp.ones(3), jnp.ones(3))
    for rule in (NoTransfers(), Redistribution(jnp.ones(())), PerSilo(jnp.ones(3)), CostSharing(declared)):
        assert isinstance(rule, Separable)


@st.composite
def members(draw: st.DrawFn, game: StageGame) -> Mechanism[Any]:
    """Any member with any numbers, negative intensities too."""
    silos = len(game.terms.profit)
    unit = draw(st.sampled_from([None, jnp.asarray(2000.0)]))
    return draw(
        st.one_of(
            st.just(NoTransfers()),
            vectors(silos, -60, 60).map(lambda intensity: PerSilo(intensity, unit)),
            st.builds(Declared, vectors(silos, 1, 2000), vectors(silos, 0, 500)).map(CostSharing),
            st.just(game.mechanism),
            st.floats(0, 1000).map(lambda pot: Proportional(jnp.asarray(pot))),
        )
    )


@given(games(SIZES), st.data())
def test_every_member_is_balanced_for_any_numbers(game: StageGame, data: st.DataObject) -> None:
    rule = data.draw(members(game))
    answer = settled(rule, data.draw(contributions(len(game.terms.profit))), game.terms.samples)
    moved = np.abs(np.asarray(answer.transfers)).sum()
    bill = rule.declared.cost.sum() if isinstance(rule, CostSharing) else answer.signal
    scale = float(bill) if isinstance(rule, CostSharing | Proportional) else moved
    assert rule.balanced
    assert abs(float(answer.residual)) <= 1e-9 * (moved + scale) + 1e-300


@eqx.filter_jit
def seen(game: StageGame, played: Array) -> tuple[Array, Array]:
    return payoffs(game, played), potential(game, played)


@given(games(SIZES), st.data())
def test_every_separable_member_keeps_a_weighted_potential(game: StageGame, data: st.DataObject) -> None:
    game = under(game, data.draw(members(game).filter(lambda rule: isinstance(rule, Separable))))
    silos = len(game.terms.profit)
    played, instead = data.draw(contributions(silos)), data.draw(contributions(silos))
    before, height = seen(game, played)
    for silo, deviation in unilateral_deviations(game, played, instead):
        after, new_height = seen(game, deviation)
        scale = max(abs(float(before[silo])), abs(float(after[silo])), float(game.terms.profit[silo]))
        climbed = game.terms.profit[silo] * (new_height - height)
        assert_allclose(climbed, after[silo] - before[silo], rtol=0, atol=1e-9 * scale)


@given(games(pairs=False), st.data())
def test_per_silo_with_one_intensity_is_redistribution(game: StageGame, data: st.DataObject) -> None:
    rule, played = game.redistribution, data.draw(contributions(len(game.terms.profit)))
    expected = settled(rule, played, game.terms.samples)
    for intensity in (rule.intensity, jnp.full_like(played, rule.intensity)):
        answer = settled(PerSilo(intensity, rule.unit), played, game.terms.samples)
        assert_allclose(answer.transfers, expected.transfers, rtol=1e-9, atol=1e-9)
        assert_allclose(answer.signal, expected.signal)


@given(games(SIZES), st.data())
def test_honest_cost_sharing_gives_every_silo_its_share_of_the_welfare(game: StageGame, data: st.DataObject) -> None:
    terms = game.terms
    game = under(game, CostSharing(Declared(terms.profit, game.cost)))
    played = data.draw(contributions(len(terms.profit)))
    gross = welfare(game, played) + terms.communication.sum()
    share = terms.profit / terms.profit.sum()
    assert_allclose(payoffs(game, played) + terms.communication, share * gross, rtol=1e-9, atol=1e-9)


def test_equal_profits_and_an_nth_of_the_cost_make_a_common_interest_too() -> None:
    # α_n = c_n/N: u_n + C_n is the same for all
    cost = jnp.array([20.0, 30.0, 40.0])
    received = settled(PerSilo(cost / 3), PLAYED).transfers
    kept = received - cost * PLAYED
    assert_allclose(kept, kept.mean())


@pytest.mark.parametrize("name", ["gain", "constant", "printed"])
def test_every_schedule_moves_the_intensities_of_silos_as_it_moves_one(name: str) -> None:
    schedule = Schedule(name)  # type: ignore[arg-type]
    one, many = Redistribution(jnp.asarray(5.0), None, schedule), PerSilo(jnp.full(3, 5.0), None, schedule)
    state, other = one.init(jnp.asarray(0.1)), many.init(jnp.asarray(0.1))
    for precision in (0.5, 0.7, 0.8, 0.7):
        facts = Facts(PLAYED, jnp.asarray(precision))
        state, first, signal = one.settle(state, facts)
        other, second, told = many.settle(other, facts)
        assert_allclose(first, second, rtol=1e-12)
        assert_allclose(signal, told, rtol=1e-12)


def test_a_registry_holds_a_description_of_each() -> None:
    assert list(MECHANISMS) == ["redistribution", "none", "per-silo", "cost-sharing", "proportional"]
    declared = Declared(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    honest, lying = CostSharingConfig().build(declared), CostSharingConfig(costs=(9.0, 4.0)).build(declared)
    assert_array_equal(honest.declared.cost, [3, 4])
    assert_array_equal(lying.declared.cost, [9, 4])
    assert_array_equal(lying.declared.profit, [1, 2])
