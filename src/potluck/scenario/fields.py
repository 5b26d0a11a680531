"""The numbers that people write down, with their bounds, and the kind of table they write them in."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from potluck.registry import family

LARGEST = 1e12
"""Beyond it sums lose their last digits and no federation is described."""

SMALLEST = 1e-12
"""Below it single precision would divide by nothing."""
MOST_MONEY = 1e18
"""Per slot; its square is the most that single precision can carry."""


def _carried(number: float) -> float:
    if number < SMALLEST:
        raise ValueError(f"must be at least {SMALLEST:g}, got {number:g}")
    return number


Positive = Annotated[float, Field(strict=True, gt=0, le=LARGEST), AfterValidator(_carried)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=LARGEST)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
AtLeastOne = Annotated[float, Field(strict=True, ge=1, le=LARGEST)]


class Described(BaseModel):
    """Frozen, closed (an unknown key is a mistake, not a wish) and finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Normal(Described):
    """Drawn from N(mean, deviation²), truncated to be positive."""

    mean: Positive
    deviation: NonNegative


def one_per_silo(name: str, numbers: object, silos: int) -> str | None:
    """What is wrong with a list that should have a number for every silo; None where it has, or where it is no list."""
    if not isinstance(numbers, tuple) or len(numbers) == silos:
        return None
    return f"{name} must list one number per silo: {silos} needed, got {len(numbers)}"


def largest_of(numbers: float | tuple[float, ...] | Normal) -> float:
    """The most that a silo may have of it; a draw in single precision stays within six deviations."""
    if isinstance(numbers, Normal):
        return numbers.mean + 6 * numbers.deviation
    return max(numbers) if isinstance(numbers, tuple) else numbers


def member_of(name: str) -> AfterValidator:
    """Text that must name a member of this family."""

    def check(text: str) -> str:
        known = family(name)
        if text not in known:
            raise ValueError(f"must be one of {', '.join(known)}, got {text!r}")
        return text

    return AfterValidator(check)
