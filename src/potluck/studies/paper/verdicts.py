"""When a claim holds, when it does not, and when so many seeds cannot tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from potluck.studies.intervals import Interval
from potluck.studies.paper.statistics import LEVEL, difference, of_mean

Verdict: TypeAlias = Literal["holds", "does not hold", "not decided"]
Seeds: TypeAlias = Float[np.ndarray, " _"]
FEWEST = 5
"""Seeds, or games, that can decide anything."""


@dataclass(frozen=True)
class Claim:
    """A claim in one world."""

    name: str
    world: str
    says: str
    verdict: Verdict
    number: str
    """What was measured, in words."""
    value: float | None
    """None, like its interval, where there was nothing to measure."""
    low: float | None
    high: float | None
    level: float
    """Of the interval, which is the one that decided."""
    seeds: int
    """That it is judged by: of the side that has fewer."""


@dataclass(frozen=True)
class Measured(Interval):
    """An interval that knows its level."""

    level: float = LEVEL

    @staticmethod
    def at(level: float, found: Interval) -> "Measured":
        return Measured(found.mean, found.low, found.high, level)


@dataclass(frozen=True)
class Lead:
    """How far ahead something is, twice.

    Alone: at the level that holding takes, 95%, or more where it was chosen for being the best. Among: at the level of
    one of several that are asked together.
    """

    of: str
    alone: Measured
    among: Measured


@dataclass(frozen=True)
class Decision:
    """A verdict, which lead it rests on, and by which interval."""

    verdict: Verdict
    by: str
    found: Measured


def one_of(several: int) -> float:
    """The level of each of several, so that all are right in 95% (Bonferroni)."""
    return 1 - (1 - LEVEL) / several


def leads_over(own: Seeds, theirs: Mapping[str, Seeds], choices: int = 1) -> list[Lead]:
    """Differences of means. `choices` is among how many `own` was chosen for being the best."""
    alone, among = one_of(choices), one_of(max(len(theirs), choices))
    return [
        Lead(of, *(Measured.at(level, difference(own, values, level)) for level in (alone, among)))
        for of, values in theirs.items()
    ]


def lead_of(of: str, values: Seeds, asked: int) -> Lead:
    """How far a mean is above 0, as one of several that are `asked`."""
    return Lead(of, *(Measured.at(level, of_mean(values, level)) for level in (LEVEL, one_of(asked))))


def decided(leads: Sequence[Lead], seeds: int, *, ties: bool = True) -> Decision:
    """Holds where every interval is above 0. Does not hold where one is below, at a level that counts how many are
    asked, or is an exact tie (unless `ties` are a matter of how finely it is measured). Where nothing is decided, the
    interval that could not tell; what is not a number tells nothing.
    """
    broken = next((lead for lead in leads if not np.isfinite([lead.alone.low, lead.alone.high]).all()), None)
    if broken is not None:
        return Decision("not decided", broken.of, broken.alone)
    least, lowest = min(leads, key=lambda lead: lead.alone.low), min(leads, key=lambda lead: lead.among.high)
    tied = [lead for lead in leads if ties and lead.alone.low == lead.alone.high == 0]
    if seeds >= FEWEST and least.alone.low > 0:
        return Decision("holds", least.of, least.alone)
    if seeds >= FEWEST and (lowest.among.high < 0 or tied):
        by = lowest if lowest.among.high < 0 else tied[0]
        return Decision("does not hold", by.of, by.among)
    return Decision("not decided", least.of, least.among if least.alone.high < 0 else least.alone)


def claimed(
    name: str, world: str, says: str, leads: Sequence[Lead], words: Mapping[str, str], seeds: int, *, ties: bool = True
) -> Claim:
    """Judged, with the number that decided it; `words` say it of every lead."""
    return told(name, world, says, decided(leads, seeds, ties=ties), words, seeds)


def told(name: str, world: str, says: str, by: Decision, words: Mapping[str, str], seeds: int) -> Claim:
    """A decision in words, with one on seeds, or games, where they are too few."""
    few = f"; {seeds} seeds or games are too few to decide" if seeds < FEWEST else ""
    found = by.found
    return Claim(
        name, world, says, by.verdict, words[by.by] + few, found.mean, found.low, found.high, found.level, seeds
    )


def unmeasured(name: str, world: str, says: str, why: str, seeds: int = 0) -> Claim:
    """There is no number."""
    return Claim(name, world, says, "not decided", why, None, None, None, LEVEL, seeds)
