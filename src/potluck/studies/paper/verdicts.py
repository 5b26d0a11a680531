"""When a claim holds, when it does not, and when so many seeds cannot tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from potluck.studies.intervals import Interval
from potluck.studies.paper.statistics import LEVEL, bca, difference

Verdict: TypeAlias = Literal["holds", "does not hold", "not decided"]
Seeds: TypeAlias = Float[np.ndarray, " _"]
FEWEST = 5
"""Seeds that can decide anything: bootstrap intervals of fewer are too narrow for their name."""


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
class Lead:
    """How far ahead something is, twice, and the levels of both intervals.

    Alone: at the level that holding takes, 95%, or more where it was chosen for being the best. Among: at the level of
    one of several that are asked together.
    """

    of: str
    alone: Interval
    among: Interval
    level: float = LEVEL
    level_among: float = LEVEL


@dataclass(frozen=True)
class Decision:
    """A verdict, which lead it rests on, and by which interval."""

    verdict: Verdict
    by: str
    found: Interval
    level: float


def one_of(several: int) -> float:
    """The level of each of several, so that all are right in 95% (Bonferroni)."""
    return 1 - (1 - LEVEL) / several


def leads_over(own: Seeds, theirs: Mapping[str, Seeds], choices: int = 1) -> list[Lead]:
    """Differences of means. `choices` is among how many `own` was chosen for being the best."""
    alone, among = one_of(choices), one_of(max(len(theirs), choices))
    return [
        Lead(of, difference(own, values, alone), difference(own, values, among), alone, among)
        for of, values in theirs.items()
    ]


def lead_of(of: str, values: Seeds, asked: int) -> Lead:
    """How far a mean is above 0, as one of several that are `asked`."""
    return Lead(of, bca(np.mean, values), bca(np.mean, values, level=one_of(asked)), LEVEL, one_of(asked))


def decided(leads: Sequence[Lead], seeds: int, *, ties: bool = True) -> Decision:
    """Holds where every interval is above 0. Does not hold where one is below, at a level that counts how many are
    asked, or is an exact tie (unless `ties` are a matter of how finely it is measured).
    """
    least, lowest = min(leads, key=lambda lead: lead.alone.low), min(leads, key=lambda lead: lead.among.high)
    tied = [lead for lead in leads if ties and lead.alone.low == lead.alone.high == 0]
    if seeds >= FEWEST and least.alone.low > 0:
        return Decision("holds", least.of, least.alone, least.level)
    if seeds >= FEWEST and (lowest.among.high < 0 or tied):
        by = lowest if lowest.among.high < 0 else tied[0]
        return Decision("does not hold", by.of, by.among, by.level_among)
    return Decision("not decided", least.of, least.alone, least.level)


def claimed(
    name: str, world: str, says: str, leads: Sequence[Lead], words: Mapping[str, str], seeds: int, *, ties: bool = True
) -> Claim:
    """Judged, with the number that decided it; `words` say it of every lead."""
    by = decided(leads, seeds, ties=ties)
    return told(name, world, says, by.verdict, words[by.by], by.found, by.level, seeds)


def told(
    name: str, world: str, says: str, verdict: Verdict, words: str, found: Interval, level: float, seeds: int
) -> Claim:
    """With a word on seeds, where they are too few."""
    few = f"; {seeds} seeds are too few to decide" if seeds < FEWEST else ""
    return Claim(name, world, says, verdict, words + few, found.mean, found.low, found.high, level, seeds)


def unmeasured(name: str, world: str, says: str, why: str, seeds: int = 0) -> Claim:
    """There is no number."""
    return Claim(name, world, says, "not decided", why, None, None, None, LEVEL, seeds)
