"""Money as integers in micro-units, rounded so that what sums to zero still does."""

import math
from collections.abc import Sequence

from potluck.errors import PotluckError

MICRO = 1_000_000
"""Micro-units in one unit of money."""
OUTSIDE = "outside"
"""Who pays what an unbalanced mechanism gives away, and receives what it keeps."""
MOST = 2**62
"""Micro-units that can be moved in a slot; SQLite's integers have room for twice as many."""
SLACK = 10_000
"""Single precision may leave over one part in so many of the money moved, as where a mechanism is tried out."""


def micro(transfers: Sequence[float], *, balanced: bool) -> list[int]:
    """Transfers in micro-units.

    Balanced: m_n is r_n − e·|r_n|/Σ|r| rounded down or up, e = Σ r_n being what floating point left over, and Σ m_n is
    exactly 0; those with the largest remainders are rounded up. Else: each is rounded to the nearest, and their sum is
    money from outside.
    """
    if not all(map(math.isfinite, transfers)):
        raise PotluckError(f"must be finite numbers, got {list(transfers)}", field="transfers")
    ratios = [float(transfer).as_integer_ratio() for transfer in transfers]
    unit = max((below for _, below in ratios), default=1)  # powers of two
    exact = [above * (unit // below) for above, below in ratios]
    moved, rest = sum(map(abs, exact)), sum(exact)
    if MICRO * moved > MOST * unit:
        raise PotluckError(f"must stay below {MOST // MICRO:,} in all, got {list(transfers)}", field="transfers")
    if not balanced:
        return [_nearest(MICRO * amount, unit) for amount in exact]
    if SLACK * abs(rest) > moved:
        raise PotluckError(
            f"must sum to zero where the mechanism is balanced, got {list(transfers)}, which sum to {rest / unit:.6g}",
            field="transfers",
        )
    return _apportion([MICRO * (amount * moved - rest * abs(amount)) for amount in exact], unit * (moved or 1))


def _apportion(above: Sequence[int], below: int) -> list[int]:
    """Fractions that sum to zero, each rounded down or up so that they still do (largest remainders up, then first)."""
    floors = [number // below for number in above]
    by_remainder = sorted(range(len(above)), key=lambda n: floors[n] * below - above[n])
    for n in by_remainder[: -sum(floors)]:
        floors[n] += 1
    return floors


def _nearest(above: int, below: int) -> int:
    """The nearest integer, halves to even."""
    down, remainder = divmod(above, below)
    return down + (2 * remainder > below or (2 * remainder == below and down % 2 == 1))


def money_text(amount: int) -> str:
    """All six digits after the point: exact, and read back as such."""
    return f"{'-' * (amount < 0)}{abs(amount) // MICRO}.{abs(amount) % MICRO:06d}"
