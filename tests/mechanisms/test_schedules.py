import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis.extra.numpy import arrays
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import StageGame, Terms, payoffs
from potluck.mechanisms import Redistribution, Schedule, first_gains

GAIN, CONSTANT, PRINTED = Schedule("gain"), Schedule("constant"), Schedule("printed")


def factors(schedule: Schedule, initial: float, precisions: list[float]) -> list[float]:
    _, answers = jax.lax.scan(
        lambda *slot: schedule.step(*slot), first_gains(jnp.asarray(initial)), jnp.asarray(precisions)
    )
    return [float(answer) for answer in answers]


def test_constant_keeps_the_intensity() -> None:
    assert factors(CONSTANT, 0.1, [0.5, 0.4, 0.9]) == [1.0, 1.0, 1.0]


def test_printed_rule_by_hand() -> None:
    # gains 0.4, 0.2, 0.1, −0.1: from slot 2 on the ratios ½ and −1
    assert_allclose(factors(PRINTED, 0.1, [0.5, 0.7, 0.8, 0.7]), [1.0, 1.0, 0.5, -1.0])


def test_printed_rule_explodes_where_the_gain_rule_stays_calm() -> None:
    precisions = [0.5, 0.6, 0.601, 0.65, 0.64, 0.66]
    assert max(factors(PRINTED, 0.1, precisions)) > 40
    assert min(factors(PRINTED, 0.1, precisions)) < 0
    assert all(0 <= factor <= 1 for factor in factors(GAIN, 0.1, precisions))


def test_printed_rule_survives_a_gain_of_exactly_zero() -> None:
    assert_allclose(factors(PRINTED, 0.5, [0.5, 0.5, 0.75]), [1.0, 1.0, 1.0])


def test_gain_rule_by_hand() -> None:
    # gains 0.4, 0.2, 0.1 smoothed by ½: 0.4, 0.3, 0.2; one slot late: ratios 0.3/0.4 and 0.2/0.3
    assert_allclose(factors(GAIN, 0.1, [0.5, 0.7, 0.8, 0.9]), [1.0, 1.0, 0.75, 2 / 3])


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_gain_rule_stays_within_its_bounds_and_never_looks_at_its_own_slot(past: list[float], other: float) -> None:
    first, second = factors(GAIN, 0.1, past), factors(GAIN, 0.1, [*past[:2], other])
    assert all(0 <= factor <= 1 for factor in first)
    assert first[-1] == second[-1]


@st.composite
def moves(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """(p, what silos play, what silos 0 and 1 turn to) in a game of 2 to 12 unequal silos."""
    silos = draw(st.integers(2, 12))
    profit, played = (
        draw(arrays(np.float64, silos, elements=st.floats(low, high))) for low, high in ((500, 2000), (0, 0.4))
    )
    return (
        jnp.asarray(profit),
        jnp.asarray(played),
        jnp.asarray(draw(arrays(np.float64, 2, elements=st.floats(0.6, 1)))),
    )


@eqx.filter_jit
def around(schedule: Schedule, profit: Array, played: Array, turned: Array) -> Array:
    """Σ Δu_n/p_n around the cycle in which silos 0 and 1 move by turns: zero in every weighted potential game."""
    ones = jnp.ones_like(profit)
    terms = Terms(profit, 4 * ones, 0.5 * ones, 2000 * ones)

    def payoff_at(contributions: Array) -> Array:
        memory = first_gains(jnp.asarray(0.1))
        for precision in (0.5, 0.6):
            memory, _ = schedule.step(memory, jnp.asarray(precision))
        reached = 0.6 + 0.2 * (1 - jnp.exp(-contributions.sum()))
        _, factor = schedule.step(memory, reached)
        game = StageGame(terms, jnp.asarray(0.0025), Redistribution(5.0 * factor), lambda _: reached)
        return payoffs(game, contributions) / profit

    first, both = played.at[0].set(turned[0]), played.at[:2].set(turned)
    corners = [payoff_at(at) for at in (played, first, both, played.at[1].set(turned[1]))]
    gains = [corners[1][0] - corners[0][0], corners[2][1] - corners[1][1]]
    return gains[0] + gains[1] + corners[3][0] - corners[2][0] + corners[0][1] - corners[3][1]


@given(moves())
def test_a_lagged_intensity_keeps_the_potential(move: tuple[Array, Array, Array]) -> None:
    assert abs(float(around(GAIN, *move))) < 1e-12


def test_same_slot_intensity_breaks_the_potential() -> None:
    """In nearly all of 500 random games: only by symmetry can a cycle close by chance."""
    random = np.random.default_rng(0)
    draws = [(random.uniform(500, 2000, 4), random.uniform(0, 0.4, 4), random.uniform(0.6, 1, 2)) for _ in range(500)]
    open_cycles = [abs(float(around(PRINTED, *map(jnp.asarray, draw)))) > 1e-9 for draw in draws]
    assert np.mean(open_cycles) > 0.99


def test_rules_work_in_single_precision_too() -> None:
    _, answers = jax.lax.scan(
        lambda *slot: GAIN.step(*slot), first_gains(jnp.float32(0.1)), jnp.asarray([0.3, 0.4, 0.5], jnp.float32)
    )
    assert answers.dtype == np.float32
