import itertools

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.economy import Redistribution, Rule, StageGame, Terms, constant, first_gains, payoffs, printed, rule
from potluck.scenario import Schedule

GAIN = rule(Schedule(rule="gain", smoothing=0.5))


def factors(schedule: Rule, initial: float, precisions: list[float]) -> list[float]:
    _, answers = jax.lax.scan(schedule, first_gains(jnp.asarray(initial)), jnp.asarray(precisions))
    return [float(answer) for answer in answers]


def test_constant_keeps_the_intensity() -> None:
    assert factors(constant, 0.1, [0.5, 0.4, 0.9]) == [1.0, 1.0, 1.0]


def test_printed_rule_by_hand() -> None:
    # gains 0.4, 0.2, 0.1, −0.1: from slot 2 on the ratios ½ and −1
    assert_allclose(factors(printed, 0.1, [0.5, 0.7, 0.8, 0.7]), [1.0, 1.0, 0.5, -1.0])


def test_printed_rule_explodes_where_the_gain_rule_stays_calm() -> None:
    precisions = [0.5, 0.6, 0.601, 0.65, 0.64, 0.66]
    assert max(factors(printed, 0.1, precisions)) > 40
    assert min(factors(printed, 0.1, precisions)) < 0
    assert all(0 <= factor <= 1 for factor in factors(GAIN, 0.1, precisions))


def test_printed_rule_survives_a_gain_of_exactly_zero() -> None:
    assert_allclose(factors(printed, 0.5, [0.5, 0.5, 0.75]), [1.0, 1.0, 1.0])


def test_gain_rule_by_hand() -> None:
    # gains 0.4, 0.2, 0.1 smoothed by ½: 0.4, 0.3, 0.2; one slot late: ratios 0.3/0.4 and 0.2/0.3
    assert_allclose(factors(GAIN, 0.1, [0.5, 0.7, 0.8, 0.9]), [1.0, 1.0, 0.75, 2 / 3])


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_gain_rule_stays_within_its_bounds_and_never_looks_at_its_own_slot(past: list[float], other: float) -> None:
    first, second = factors(GAIN, 0.1, past), factors(GAIN, 0.1, [*past[:2], other])
    assert all(0 <= factor <= 1 for factor in first)
    assert first[-1] == second[-1]


def test_same_slot_intensity_breaks_the_potential_and_a_lagged_one_keeps_it() -> None:
    """In a weighted potential game Δu_n/p_n sums to zero around every cycle of two silos' deviations."""
    terms = Terms(jnp.array([1000.0, 900.0, 1100.0]), jnp.full(3, 4.0), jnp.full(3, 0.5), jnp.full(3, 2000.0))

    def around(schedule: Rule) -> float:
        def payoff_at(contributions: Array) -> Array:
            memory = first_gains(jnp.asarray(0.1))
            for precision in (0.5, 0.6):
                memory, _ = schedule(memory, jnp.asarray(precision))
            reached = 0.6 + 0.2 * (1 - jnp.exp(-contributions.sum()))
            _, factor = schedule(memory, reached)
            game = StageGame(terms, jnp.array(0.0025), Redistribution(5.0 * factor), lambda _: reached)
            return payoffs(game, contributions) / terms.profit

        low, high = 0.2, 0.9
        corners = [(low, low), (high, low), (high, high), (low, high), (low, low)]
        total = 0.0
        for step, (here, there) in enumerate(itertools.pairwise(corners)):
            mover = step % 2
            moved = payoff_at(jnp.array([*there, 0.5])) - payoff_at(jnp.array([*here, 0.5]))
            total += float(moved[mover])
        return total

    assert abs(around(GAIN)) < 1e-14
    assert abs(around(printed)) > 1e-5


def test_rules_work_in_single_precision_too() -> None:
    _, factor = GAIN(first_gains(jnp.float32(0.1)), jnp.float32(0.3))
    assert np.isfinite(float(factor))
