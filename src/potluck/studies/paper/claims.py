"""The paper's claims, each with a verdict: holds, does not hold, or not decided by so many seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from potluck.studies.intervals import Interval
from potluck.studies.paper.curves import gained, late, recoveries, regained, slots_to, stages_of
from potluck.studies.paper.findings import Findings, share_of_stake, welfare_of
from potluck.studies.paper.plan import INTENSITIES, intensity_cell, schedule_cell
from potluck.studies.paper.statistics import LEVEL, bca, difference, mean

Verdict: TypeAlias = Literal["holds", "does not hold", "not decided"]
Seeds: TypeAlias = Float[np.ndarray, " _"]
FEWEST = 5
"""Seeds that can decide anything: bootstrap intervals of fewer are too narrow for their name."""
SETTLED = 0.05
"""Of what a silo's payoff has moved in all: the most that it may still move from one tenth to the next."""
POINTS = 20
"""Of a learning curve, that can tell whether it has settled."""
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
    seeds: int
    """That it is judged by: of the side that has fewer."""


@dataclass(frozen=True)
class Lead:
    """How far ahead something is, twice.

    Alone: at the level that holding takes, 95%, or more where it was chosen for being the best. Among: at the level of
    one of several that are asked together.
    """

    of: str
    alone: Interval
    among: Interval


def judge(found: Findings) -> list[Claim]:
    """Every claim in every world that it can be tested in."""
    claims = [claim for world in found.config.worlds for claim in _in_world(found, world)]
    return claims + list(_in_main(found))


def _in_world(found: Findings, world: str) -> Iterator[Claim]:
    rivals = [scheme for scheme in found.config.schemes if scheme != "mpgd"]
    own = found.welfare(world, "mpgd")
    theirs = {scheme: found.welfare(world, scheme) for scheme in rivals}
    says = "MPGD has the highest long-term payoffs of all schemes"
    yield _ahead("highest payoffs", world, says, own, theirs)
    yield _fastest(found, world, rivals)
    yield _ahead("beats WPR", world, "redistribution raises welfare above WPR", own, {"wpr": theirs["wpr"]})
    if world in found.equilibria:
        unpaid = found.equilibria[world]
        learnt = share_of_stake(found.last(f"{world}/wpr")).mean
        says = "redistribution raises welfare above the best equilibrium without it that was found"
        more = f" ({unpaid['found_by']}); NashConv of WPR as learnt is {learnt:.0%} of its stake"
        named = {f"the {unpaid['welfare']:.1f} of that equilibrium": found.unpaid(world)}
        yield _ahead("beats the best equilibrium without", world, says, own, named, more, seeds=len(own))
    yield _silos_rise(found, world)
    for rule in found.config.rules(world)[1:]:
        ours, constant = (welfare_of(found, schedule_cell(world, name)) for name in (rule, "constant"))
        words = "as printed" if rule == "printed" else "mended (gain)"
        said = f"the rule for α, {words}, helps against a constant α0"
        yield _ahead(f"rule helps: {rule}", world, said, ours, {"a constant α0": constant})


def _in_main(found: Findings) -> Iterator[Claim]:
    if found.adapted:
        yield _adapts(found)
    if found.config.sweeps:
        yield _interior(found)
    yield _strangers(found)


def leads_over(own: Seeds, theirs: Mapping[str, Seeds], choices: int = 1) -> list[Lead]:
    """Differences of means. `choices` is among how many `own` was chosen for being the best."""
    asked = max(len(theirs), choices)
    return [
        Lead(of, difference(own, values, 1 - (1 - LEVEL) / choices), difference(own, values, 1 - (1 - LEVEL) / asked))
        for of, values in theirs.items()
    ]


def decided(leads: Sequence[Lead], seeds: int, *, ties: bool = True) -> tuple[Verdict, Lead]:
    """Holds where every interval is above 0. Does not hold where one is below, at a level that counts how many are
    asked, or is an exact tie (unless `ties` are a matter of how finely it is measured). And what decided it.
    """
    low, high = min(leads, key=lambda lead: lead.alone.low), min(leads, key=lambda lead: lead.among.high)
    if seeds < FEWEST:
        return "not decided", low
    if low.alone.low > 0:
        return "holds", low
    tied = [lead for lead in leads if ties and lead.alone.low == lead.alone.high == 0]
    if high.among.high < 0 or tied:
        return "does not hold", high if high.among.high < 0 else tied[0]
    return "not decided", low


def _claim(
    name: str, world: str, says: str, leads: Sequence[Lead], words: Mapping[str, str], seeds: int, *, ties: bool = True
) -> Claim:
    """Judged, with the number that decided it; `words` say it of every lead."""
    verdict, by = decided(leads, seeds, ties=ties)
    few = f"; {seeds} seeds are too few to decide" if seeds < FEWEST else ""
    found = by.alone
    return Claim(name, world, says, verdict, words[by.of] + few, found.mean, found.low, found.high, seeds)


def _ahead(
    name: str, world: str, says: str, own: Seeds, theirs: Mapping[str, Seeds], more: str = "", seeds: int | None = None
) -> Claim:
    """More welfare than any of them."""
    leads = leads_over(own, theirs)
    words = {lead.of: f"{_more(lead.alone.mean)} welfare per slot than {lead.of}{more}" for lead in leads}
    count = min(len(own), *(len(values) for values in theirs.values())) if seeds is None else seeds
    return _claim(name, world, says, leads, words, count)


def _more(value: float) -> str:
    return f"{abs(value):.2f} {'more' if value >= 0 else 'less'}"


def _fastest(found: Findings, world: str, rivals: Sequence[str]) -> Claim:
    """Sooner at 95% of its own way than every rival that rises at all."""
    name, says = "fastest", "MPGD converges fastest"
    taken = {scheme: slots_to(found, world, scheme) for scheme in ("mpgd", *rivals)}
    risen = {scheme: slots[np.isfinite(slots)] for scheme, slots in taken.items()}
    still = [scheme for scheme in rivals if len(risen[scheme]) < 2]
    against = {scheme: risen[scheme] for scheme in rivals if scheme not in still}
    if len(risen["mpgd"]) < 2 or not against:
        told = "MPGD's welfare does not clearly rise" if against else "no rival's welfare clearly rises"
        return Claim(name, world, says, "not decided", told, 0.0, 0.0, 0.0, 0)
    leads = leads_over(-risen["mpgd"], {scheme: -slots for scheme, slots in against.items()})  # fewer slots are better
    more = f"; {' and '.join(still)} did not clearly rise" if still else ""
    words = {
        lead.of: f"{abs(lead.alone.mean):,.0f} slots {'sooner' if lead.alone.mean >= 0 else 'later'} at 95% of its own "
        f"way than {lead.of}{more}"
        for lead in leads
    }
    return _claim(name, world, says, leads, words, min(map(len, [risen["mpgd"], *against.values()])), ties=False)


def _silos_rise(found: Findings, world: str) -> Claim:
    """Payoffs of the last tenth against the first, and against the tenth before: risen, and settled."""
    says = "the payoffs of all silos rise and settle within the training"
    curve, silos = found.cells[f"{world}/mpgd"]["curve"], found.config.worlds[world].silos.count
    points = len(curve["slots"])
    tenth = max(1, points // 10)
    leads, drifts = [], []
    for silo in range(silos):
        payoffs = np.array(curve[f"payoff_{silo}"])
        last, first = payoffs[:, -tenth:].mean(1), payoffs[:, :tenth].mean(1)
        among = bca(np.mean, last - first, level=1 - (1 - LEVEL) / silos)
        leads.append(Lead(f"silo {silo}", mean(last - first), among))
        rise = max(abs((last - first).mean()), 1e-12)
        drift = mean(np.abs(last - payoffs[:, -2 * tenth :][:, :tenth].mean(1)))
        drifts.append(Interval(drift.mean / rise, drift.low / rise, drift.high / rise))
    seeds = len(curve["welfare"])
    verdict, by = decided(leads, seeds)
    moved = max(drifts, key=lambda drift: drift.mean)
    if verdict == "holds" and (points < POINTS or any(drift.high > SETTLED for drift in drifts)):
        wandering = points >= POINTS and any(drift.low > SETTLED for drift in drifts)
        verdict = "does not hold" if wandering else "not decided"
    number = (
        f"{by.of} earns {_more(by.alone.mean)} per slot in the last tenth than in the first; from the tenth before to "
        f"the last a silo's payoff still moved by {moved.mean:.0%} of its rise"
    )
    rise = by.alone
    return Claim("silos rise", world, says, verdict, number, rise.mean, rise.low, rise.high, seeds)


def _adapts(found: Findings) -> Claim:
    """In each stage of the change back at 95% of the share of the planner's gain that it had."""
    says = (
        "MPGD, which sees no private terms of others, adapts: 95% of its share of the planner's gain is back each time"
    )
    stages, shares, rows = np.array(stages_of(found, "mpgd")), gained(found, "mpgd"), recoveries(found)
    back = [row for row in rows if row["scheme"] == "mpgd"]
    name, world, seeds = "adapts", found.config.main, len(shares)
    if not back:
        told = "in a stage a planner gains nothing over WPR: there is no share"
        return Claim(name, world, says, "not decided", told, 0.0, 0.0, 0.0, seeds)
    before = late(shares[:, stages == 0]).mean(1)
    ends = {stage: late(shares[:, stages == stage]).mean(1) for stage in (1, 2) if (stages == stage).any()}
    leads = [
        Lead(str(stage), mean(end - regained(before)), bca(np.mean, end - regained(before), level=1 - (1 - LEVEL) / 2))
        for stage, end in ends.items()
    ]
    told = ", ".join(
        f"{end.mean():.0%} in the end of “{row['stage']}” ({row['seeds_back']} of {row['seeds']} seeds back)"
        for end, row in zip(ends.values(), back, strict=True)
    )
    number = f"share of the planner's gain {before.mean():.0%} before the change, {told}"
    claim = _claim(name, world, says, leads, dict.fromkeys(map(str, ends), number), seeds)
    if mean(before).low > 0:
        return claim
    return Claim(
        name, world, says, "not decided", f"{number}: nothing to lose", claim.value, claim.low, claim.high, seeds
    )


def _interior(found: Findings) -> Claim:
    """The best α0 of the sweep lies within (1, 16) and beats both 0 to 1 and 16 to 32."""
    levels = {level: welfare_of(found, intensity_cell(level)) for level in INTENSITIES}
    best = max(levels, key=lambda level: levels[level].mean())
    within = [level for level in levels if 1 < level < 16]
    inside = max(within, key=lambda level: levels[level].mean())
    outside = {f"α0 = {level:g}": values for level, values in levels.items() if level not in within}
    leads = leads_over(levels[inside], outside, len(within))
    words = {
        lead.of: f"best α0 of the sweep: {best:g}; the best between 1 and 16 is {inside:g}, with "
        f"{_more(lead.alone.mean)} welfare per slot than {lead.of}"
        for lead in leads
    }
    says = "welfare has an interior maximum in α0 between 1 and 16"
    return _claim("interior α0", found.config.main, says, leads, words, min(map(len, levels.values())))


def _strangers(found: Findings) -> Claim:
    """Not the paper's: silos of a consortium share no seed."""
    says = (
        f"what silos learnt apart is near an equilibrium when they meet (no constant deviation gains more than "
        f"{EQUILIBRIUM:.0%} of the stake)"
    )
    seeds = found.cells[f"{found.config.main}/mpgd"]["strangers"]
    if not seeds:
        told = "there are fewer seeds than silos: nobody can be a stranger to all others"
        return Claim("strangers", found.config.main, says, "not decided", told, 0.0, 0.0, 0.0, 0)
    share = share_of_stake(seeds)
    room = Interval(EQUILIBRIUM - share.mean, EQUILIBRIUM - share.high, EQUILIBRIUM - share.low)
    verdict, _ = decided([Lead("stake", room, room)], len(seeds))
    number = f"NashConv {share.mean:.1%} of the stake in games of silos from different seeds"
    return Claim("strangers", found.config.main, says, verdict, number, share.mean, share.low, share.high, len(seeds))
