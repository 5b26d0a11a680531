"""The paper's claims, each with a verdict: holds, does not hold, or not decided by so many seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from potluck.studies.intervals import Interval
from potluck.studies.paper import adapt
from potluck.studies.paper.plan import INTENSITIES, intensity_cell, schedule_cell
from potluck.studies.paper.statistics import bca, difference
from potluck.studies.paper.tables import (
    NEARLY,
    Findings,
    gained,
    late,
    recoveries,
    share_of_stake,
    slots_to,
    stages_of,
    welfare_of,
)

Verdict: TypeAlias = Literal["holds", "does not hold", "not decided"]
SETTLED = 0.05
"""Of what a silo's payoff has moved in all: the most that it may still move from one tenth to the next."""
EQUILIBRIUM = 0.05
"""NashConv as a share of the stake, at most, of what counts as one."""


@dataclass(frozen=True)
class Claim:
    """A claim in one world."""

    name: str
    world: str
    says: str
    verdict: Verdict
    number: str
    """What was measured, in words."""
    value: float
    low: float
    high: float


def judge(found: Findings) -> list[Claim]:
    """Every claim in every world that it can be tested in."""
    claims = [claim for world in found.config.worlds for claim in _in_world(found, world)]
    return claims + list(_in_main(found))


def _in_world(found: Findings, world: str) -> Iterator[Claim]:
    rivals = [scheme for scheme in found.config.schemes if scheme != "mpgd"]
    own = found.welfare(world, "mpgd")
    leads = {scheme: difference(own, found.welfare(world, scheme)) for scheme in rivals}
    yield _all_of(
        "highest payoffs",
        world,
        "MPGD has the highest long-term payoffs of all schemes",
        leads,
        "more welfare per slot",
    )
    sooner = {scheme: difference(slots_to(found, world, scheme), slots_to(found, world, "mpgd")) for scheme in rivals}
    yield _all_of("fastest", world, "MPGD converges fastest", sooner, "slots sooner at 95% of its own way")
    yield _one(
        "beats WPR", world, "redistribution raises welfare above WPR", leads["wpr"], "more welfare per slot than WPR"
    )
    if world in found.equilibria:
        unpaid = found.equilibria[world]
        yield _one(
            "beats the best equilibrium without",
            world,
            "redistribution raises welfare above the best equilibrium without it that was found",
            difference(own, found.unpaid(world)),
            f"more welfare per slot than {unpaid['welfare']:.1f} ({unpaid['found_by']}); NashConv of WPR as learnt is "
            f"{share_of_stake(found.last(f'{world}/wpr')).mean:.0%} of its stake",
        )
    yield _silos_rise(found, world)
    for rule in found.config.rules(world)[1:]:
        lead = difference(*(welfare_of(found, schedule_cell(world, name)) for name in (rule, "constant")))
        words = "as printed" if rule == "printed" else "mended (gain)"
        said = f"the rule for α, {words}, helps against a constant α0"
        yield _one(f"rule helps: {rule}", world, said, lead, "more welfare per slot than with a constant α0")


def _in_main(found: Findings) -> Iterator[Claim]:
    if found.adapted:
        yield _adapts(found)
    if found.config.sweeps:
        yield _interior(found)
    yield _strangers(found)


def _one(name: str, world: str, says: str, lead: Interval, what: str) -> Claim:
    return Claim(name, world, says, _verdict([lead]), f"{lead.mean:+.2f} {what}", lead.mean, lead.low, lead.high)


def _all_of(name: str, world: str, says: str, leads: dict[str, Interval], what: str) -> Claim:
    """Against every rival: the closest one is the number."""
    closest = min(leads, key=lambda scheme: leads[scheme].mean)
    lead = leads[closest]
    number = f"{lead.mean:+.2f} {what} than {closest}, the closest"
    return Claim(name, world, says, _verdict(list(leads.values())), number, lead.mean, lead.low, lead.high)


def _verdict(leads: Sequence[Interval]) -> Verdict:
    """Holds where every interval is above 0, does not hold where one is below or an exact tie, else undecided."""
    if all(lead.low > 0 for lead in leads):
        return "holds"
    if any(lead.high < 0 or lead.low == lead.high == 0 for lead in leads):
        return "does not hold"
    return "not decided"


def _silos_rise(found: Findings, world: str) -> Claim:
    """Payoffs of the last tenth against the first, and against the tenth before: risen, and settled."""
    curve, silos = found.cells[f"{world}/mpgd"]["curve"], found.config.worlds[world].silos.count
    points = len(curve["slots"])
    tenth = max(1, points // 10)
    rises, drifts = [], []
    for silo in range(silos):
        payoffs = np.array(curve[f"payoff_{silo}"])
        last, first = payoffs[:, -tenth:].mean(1), payoffs[:, :tenth].mean(1)
        rises.append(bca(np.mean, last - first))
        moved = abs((last - first).mean())
        before = payoffs[:, -2 * tenth : -tenth].mean(1) if points >= 2 * tenth else first
        drifts.append(abs((last - before).mean()) / moved if moved > 0 else 0.0)
    least = min(rises, key=lambda rise: rise.mean)
    settled = max(drifts) <= SETTLED
    verdict = _verdict(rises)
    if verdict == "holds" and not settled:
        verdict = "not decided"
    number = (
        f"{least.mean:+.2f} per slot for the silo that gains least, from the first tenth to the last; the last tenth "
        f"still moved by {max(drifts):.0%} of a rise"
    )
    says = "the payoffs of all silos rise and settle within the training"
    return Claim("silos rise", world, says, verdict, number, least.mean, least.low, least.high)


def _adapts(found: Findings) -> Claim:
    """At the end, with all silos there again, back at 95% of the share of the planner's gain that it had."""
    rows = [row for row in recoveries(found) if row["scheme"] == "mpgd"]
    stages, shares = np.array(stages_of(found, "mpgd")), gained(found, "mpgd")
    before, after = (late(shares[:, stages == stage]).mean(1) for stage in (0, len(adapt.STAGES) - 1))
    lead = bca(lambda a, b, axis: a.mean(axis) - NEARLY * b.mean(axis), after, before, paired=True)
    back = " and ".join(f"{row['seeds_back']} of {row['seeds']} seeds in stage “{row['stage']}”" for row in rows)
    verdict: Verdict = _verdict([lead]) if np.isfinite(lead.mean) and before.mean() > 0 else "not decided"
    number = (
        f"share of the planner's gain {before.mean():.0%} before the change, {after.mean():.0%} at the end; back at "
        f"95% of the old share: {back}"
    )
    says = "MPGD adapts to changes without private information"
    return Claim("adapts", found.config.main, says, verdict, number, lead.mean, lead.low, lead.high)


def _interior(found: Findings) -> Claim:
    """The best α0 of the sweep lies within (1, 16) and beats both 0 to 1 and 16 to 32."""
    levels = {level: welfare_of(found, intensity_cell(level)) for level in INTENSITIES}
    best = max(levels, key=lambda level: levels[level].mean())
    inside = max((level for level in levels if 1 < level < 16), key=lambda level: levels[level].mean())
    leads = [difference(levels[inside], values) for level, values in levels.items() if not 1 < level < 16]
    closest = min(leads, key=lambda lead: lead.mean)
    number = (
        f"best α0 of the sweep: {best:g}; the best between 1 and 16 is {inside:g}, {closest.mean:+.2f} per slot above "
        "the best outside"
    )
    says = "welfare has an interior maximum in α0 between 1 and 16"
    return Claim(
        "interior α0", found.config.main, says, _verdict(leads), number, closest.mean, closest.low, closest.high
    )


def _strangers(found: Findings) -> Claim:
    """Not the paper's: silos of a consortium share no seed."""
    seeds = found.cells[f"{found.config.main}/mpgd"]["strangers"]
    share = share_of_stake(seeds)
    room = Interval(EQUILIBRIUM - share.mean, EQUILIBRIUM - share.high, EQUILIBRIUM - share.low)
    return Claim(
        "strangers",
        found.config.main,
        f"what silos learnt apart is near an equilibrium when they meet (NashConv ≤ {EQUILIBRIUM:.0%} of the stake)",
        _verdict([room]),
        f"NashConv {share.mean:.1%} of the stake in games of silos from different seeds",
        share.mean,
        share.low,
        share.high,
    )
