from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.ledger import MICRO, micro, money_text

amounts = st.floats(-1e6, 1e6)


def test_rounding_by_hand() -> None:
    # a third each of one unit: 333,333.3… twice, and what is left
    assert micro([1 / 3, 1 / 3, -2 / 3], balanced=True) == [333_333, 333_333, -666_666]
    # remainders 0.6, 0.6, 0.8 after rounding down to 0, 0, −2: the two largest go up, the first where they are alike
    assert micro([0.6e-6, 0.6e-6, -1.2e-6], balanced=True) == [1, 0, -1]
    assert micro([], balanced=True) == []
    # 0.6 up; 7,812.5 and 23,437.5 to even
    assert micro([0.6e-6, 1 / 128, 3 / 128], balanced=False) == [1, 7_812, 23_438]


@given(st.lists(amounts, min_size=1, max_size=40))
def test_a_balanced_slot_sums_to_zero_within_one_micro_unit_of_every_transfer(drawn: list[float]) -> None:
    transfers = [*drawn, -float(sum(map(Fraction, drawn)))]
    left = sum(map(Fraction, transfers), Fraction(0))  # what rounding to a float has left over
    moved = sum((abs(Fraction(amount)) for amount in transfers), Fraction(0))
    if abs(left) > Fraction(1, 10_000) * moved:
        with pytest.raises(PotluckError, match="must sum to zero"):
            micro(transfers, balanced=True)
        return
    booked = micro(transfers, balanced=True)
    assert sum(booked) == 0
    for amount, transfer in zip(booked, transfers, strict=True):
        spread = abs(left * Fraction(transfer) / moved) if moved else 0
        assert abs(Fraction(amount) - Fraction(transfer) * MICRO) < 1 + spread * MICRO
        assert amount or abs(transfer) < 2 / MICRO
        assert transfer or not amount


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=64), st.floats(0, 1e4, width=32))
def test_transfers_in_single_precision_are_booked_in_full(shares: list[float], intensity: float) -> None:
    brought = np.asarray(shares, np.float32)
    transfers = (np.float32(intensity) * (len(shares) * brought - brought.sum(dtype=np.float32))).tolist()
    if abs(sum(transfers)) <= 1e-4 * sum(map(abs, transfers)):
        assert sum(micro(transfers, balanced=True)) == 0


@given(st.lists(amounts, max_size=40))
def test_without_balance_each_is_the_nearest_micro_unit(transfers: list[float]) -> None:
    for amount, transfer in zip(micro(transfers, balanced=False), transfers, strict=True):
        assert abs(Fraction(amount) - Fraction(transfer) * MICRO) <= Fraction(1, 2)
        assert amount == round(Fraction(transfer) * MICRO)


def test_money_that_was_made_up_is_refused() -> None:
    with pytest.raises(PotluckError, match="transfers must sum to zero where the mechanism is balanced"):
        micro([1.0, -0.5], balanced=True)
    with pytest.raises(PotluckError, match="transfers must be finite numbers"):
        micro([float("nan"), 0.0], balanced=False)
    with pytest.raises(PotluckError, match="transfers must stay below 4,611,686,018,427 in all"):
        micro([1e13, -1e13], balanced=True)


@given(st.integers(-(2**63), 2**63 - 1))
def test_money_is_written_exactly(amount: int) -> None:
    assert Fraction(money_text(amount)) * MICRO == amount
