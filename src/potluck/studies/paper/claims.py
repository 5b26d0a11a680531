"""The paper's claims, each with a verdict: holds, does not hold, or not decided by so many seeds."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from potluck.studies.judgement import SETTLED
from potluck.studies.paper.adapt import STAGES
from potluck.studies.paper.charts import name_of
from potluck.studies.paper.curves import gained, late, noise_of, recoveries, regained, slots_to, stages_of
from potluck.studies.paper.findings import Findings, share_of_stake, welfare_of
from potluck.studies.paper.plan import INTENSITIES, SCHEMES, intensity_cell, moves_money, schedule_cell
from potluck.studies.paper.statistics import LEVEL, mean_square, of_mean
from potluck.studies.paper.verdicts import (
    Claim,
    Decision,
    Lead,
    Measured,
    Seeds,
    claimed,
    decided,
    lead_of,
    leads_over,
    one_of,
    told,
    unmeasured,
)

STILL = 0.05
"""Of what a silo's payoff has moved in all: the most that it may still move from one tenth to the next."""
POINTS = 20
"""Of a learning curve, that can tell whether it has settled."""


def judge(found: Findings) -> list[Claim]:
    """Every claim in every world that it can be tested in."""
    claims = [claim for world in found.config.worlds for claim in _in_world(found, world)]
    return claims + list(_in_main(found))


def _in_world(found: Findings, world: str) -> Iterator[Claim]:
    scenario = found.config.worlds[world]
    paid = moves_money(scenario)
    others = [scheme for scheme in SCHEMES if scheme != "mpgd" and scheme in found.config.schemes]
    rivals = [scheme for scheme in others if paid or scheme != "wpr"]
    of_all = (
        "all the paper's schemes" if len(others) + 1 == len(SCHEMES) else " and ".join(map(name_of, ["mpgd", *rivals]))
    )
    own = found.welfare(world, "mpgd")
    theirs = {scheme: found.welfare(world, scheme) for scheme in rivals}
    if rivals:
        says = f"MPGD has the highest overall payoffs of {of_all} in the long run"
        yield _ahead("highest payoffs", world, says, own, theirs)
        yield _fastest(found, world, f"MPGD converges fastest of {of_all}", rivals)
    raises = f"{scenario.mechanism.kind} raises welfare above"
    if paid:
        yield _ahead("beats WPR", world, f"{raises} WPR", own, {"wpr": theirs["wpr"]})
    else:
        yield unmeasured("beats WPR", world, f"{raises} WPR", "no money is moved here: it is WPR")
    if paid and world in found.equilibria:
        unpaid = found.equilibria[world]
        learnt = share_of_stake(found.last(f"{world}/wpr")).mean
        says = f"{raises} the best equilibrium without it that was found"
        more = f" ({unpaid['found_by']}); NashConv of WPR as learnt is {learnt:.0%} of its stakes"
        named = {f"the {unpaid['welfare']:.1f} of that equilibrium": found.unpaid(world)}
        yield _ahead("beats the best equilibrium without", world, says, own, named, more)
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


def _ahead(name: str, world: str, says: str, own: Seeds, theirs: dict[str, Seeds], more: str = "") -> Claim:
    """More welfare than any of them."""
    leads = leads_over(own, theirs)
    words = {lead.of: f"{_more(lead.alone.mean)} welfare per slot than {name_of(lead.of)}{more}" for lead in leads}
    return claimed(name, world, says, leads, words, min(map(len, (own, *theirs.values()))))


def _more(value: float) -> str:
    return f"{abs(value):.2f} {'more' if value >= 0 else 'less'}"


def _fastest(found: Findings, world: str, says: str, rivals: Sequence[str]) -> Claim:
    """Sooner at 95% of its own way than every rival that rises; a seed that does not rise gets there last."""
    name = "fastest"
    taken = {scheme: slots_to(found, world, scheme) for scheme in ("mpgd", *rivals)}
    risen = {scheme: int(np.isfinite(slots).sum()) for scheme, slots in taken.items()}
    end = found.cells[f"{world}/mpgd"]["curve"]["slots"][-1]
    sooner = {scheme: -np.where(np.isfinite(slots), slots, end) for scheme, slots in taken.items()}
    against = {scheme: sooner[scheme] for scheme in rivals if risen[scheme] > 1}
    if risen["mpgd"] < 2 or not against:
        why = "MPGD's welfare does not clearly rise" if against else "no rival's welfare clearly rises"
        return unmeasured(name, world, says, why)
    leads = leads_over(sooner["mpgd"], against)
    still = [
        f"{len(taken[scheme]) - count} of {len(taken[scheme])} seeds of {name_of(scheme)}"
        for scheme, count in risen.items()
        if count < len(taken[scheme])
    ]
    more = f"; {', '.join(still)} did not clearly rise" if still else ""
    words = {
        lead.of: f"{abs(lead.alone.mean):,.0f} slots {'sooner' if lead.alone.mean >= 0 else 'later'} at 95% of its own "
        f"way than {name_of(lead.of)}{more}"
        for lead in leads
    }
    return claimed(name, world, says, leads, words, min(map(len, [taken["mpgd"], *against.values()])), ties=False)


def _silos_rise(found: Findings, world: str) -> Claim:
    """Payoffs of the last tenth against the first, and against the tenth before: risen, and settled."""
    name, says = "silos rise", "the payoffs of all silos rise and settle within the training"
    curve, silos = found.cells[f"{world}/mpgd"]["curve"], found.config.worlds[world].silos.count
    points, seeds = len(curve["slots"]), len(curve["welfare"])
    if points < 2:
        return unmeasured(name, world, says, "the training is too short to have two points of a curve", seeds)
    tenth = max(1, points // 10)
    rises, drifts = [], []
    for silo in range(silos):
        payoffs = np.array(curve[f"payoff_{silo}"])
        rise = payoffs[:, -tenth:].mean(1) - payoffs[:, :tenth].mean(1)
        rises.append(lead_of(f"silo {silo}", rise, 2 * silos))
        drifts.append(_drift(f"silo {silo}", payoffs, tenth, abs(rise.mean()), 2 * silos))
    risen = decided(rises, seeds)
    words = f"{risen.by} earns {_more(risen.found.mean)} per slot in the last tenth than in the first"
    if risen.verdict != "holds":
        return told(name, world, says, risen, {risen.by: words}, seeds)
    settled = decided(drifts, seeds)
    moved = _room(settled.found, STILL)
    words += f"; from the tenth before to the last {settled.by} still moved by {moved.mean:.1%} of its rise"
    verdict = settled.verdict if points >= POINTS else "not decided"
    return told(name, world, says, Decision(verdict, settled.by, moved), {settled.by: words}, seeds)


def _drift(of: str, payoffs: Float[np.ndarray, "seeds points"], tenth: int, rise: float, asked: int) -> Lead:
    """How far a silo's payoff moves less, from the tenth before to the last, than it may: as a share of its rise.

    √max(0, E_seeds[Δ²] − 2σ²/n): that means of n points differ by their noise σ alone is no movement.
    """
    moved = payoffs[:, -tenth:].mean(1) - payoffs[:, -2 * tenth :][:, :tenth].mean(1)
    noise = np.array([noise_of(seed[len(seed) // 2 :]) for seed in payoffs])
    luck = 2 * np.mean(noise**2) / tenth

    def room(level: float) -> Measured:
        found = mean_square(moved, level)
        middle, low, high = (max(value - luck, 0.0) ** 0.5 for value in (found.mean, found.low, found.high))
        of_rise = max(rise, 1e-12)
        return _room(Measured(middle / of_rise, low / of_rise, high / of_rise, level), STILL)

    return Lead(of, room(LEVEL), room(one_of(asked)))


def _room(share: Measured, most: float) -> Measured:
    """most − share: how far something stays below the most that it may be; and from that again the share."""
    return Measured(most - share.mean, most - share.high, most - share.low, share.level)


def _adapts(found: Findings) -> Claim:
    """In each stage of the change back at 95% of the share of the planner's gain that it had."""
    says = (
        "MPGD, which sees no private terms of others, adapts: 95% of its share of the planner's gain is back each time"
    )
    stages, shares, rows = np.array(stages_of(found, "mpgd")), gained(found, "mpgd"), recoveries(found)
    back = [row for row in rows if row["scheme"] == "mpgd"]
    name, world, seeds = "adapts", found.config.main, len(shares)
    if not set(range(len(STAGES))) <= set(stages.tolist()):
        return unmeasured(name, world, says, "the training is too short to have every stage of the change", seeds)
    if not back:
        return unmeasured(name, world, says, "in a stage a planner gains nothing over WPR: there is no share", seeds)
    before = late(shares[:, stages == 0]).mean(1)
    ends = {row["stage"]: late(shares[:, stages == STAGES.index(row["stage"])]).mean(1) for row in back}
    leads = [lead_of(stage, end - regained(before), 2) for stage, end in ends.items()]
    each = ", ".join(
        f"{end.mean():.0%} in the end of “{row['stage']}” ({row['seeds_back']} of {row['seeds']} seeds back)"
        for end, row in zip(ends.values(), back, strict=True)
    )
    number = f"share of the planner's gain {before.mean():.0%} before the change, {each}"
    held = Measured.at(LEVEL, of_mean(before))
    if held.low <= 0:
        return told(name, world, says, Decision("not decided", "", held), {"": f"{number}: nothing to lose"}, seeds)
    words = {lead.of: f"{number}; “{lead.of}” ends {_points(lead.alone.mean)} 95% of it" for lead in leads}
    return claimed(name, world, says, leads, words, seeds)


def _points(share: float) -> str:
    return f"{abs(share):.0%} of the gain {'above' if share >= 0 else 'below'}"


def _interior(found: Findings) -> Claim:
    """The best α0 within (1, 16) beats both 0 to 1 and 16 to 32; it does not hold where none within does."""
    levels = {level: welfare_of(found, intensity_cell(level)) for level in INTENSITIES}
    best = max(levels, key=lambda level: levels[level].mean())
    within = sorted((level for level in levels if 1 < level < 16), key=lambda level: -levels[level].mean())
    outside = {f"α0 = {level:g}": values for level, values in levels.items() if level not in within}
    seeds = min(map(len, levels.values()))
    leads = {level: leads_over(levels[level], outside, len(within)) for level in within}
    # The best within decides, unless it fails and another might not.
    inside = next((level for level in within if decided(leads[level], seeds).verdict != "does not hold"), within[0])
    by = decided(leads[inside], seeds)
    verdict = by.verdict if inside == within[0] else "not decided"
    lead = next(lead for lead in leads[inside] if lead.of == by.by)
    words = (
        f"best α0 of the sweep: {best:g}; α0 = {inside:g} has {_more(lead.alone.mean)} welfare per slot than {lead.of}"
    )
    says = "welfare has an interior maximum in α0 between 1 and 16"
    decision = Decision(verdict, by.by, by.found)
    return told("interior α0", found.config.main, says, decision, {by.by: words}, seeds)


def _strangers(found: Findings) -> Claim:
    """Not the paper's: silos of a consortium share no seed."""
    says = (
        "what silos learnt apart is near an equilibrium when they meet (NashConv over constant contributions is at "
        f"most {SETTLED:.0%} of all stakes)"
    )
    name, world = "strangers", found.config.main
    seeds = found.cells[f"{world}/mpgd"]["strangers"]
    if not seeds:
        why = "there are fewer seeds than silos: nobody can be a stranger to all others"
        return unmeasured(name, world, says, why)
    gains, stakes = (np.array([sum(seed[of]) for seed in seeds], float) for of in ("gains", "stakes"))
    room = Measured.at(LEVEL, of_mean((SETTLED * stakes - gains) / max(stakes.mean(), 1e-12)))
    share = _room(room, SETTLED)
    words = (
        f"NashConv {share.mean:.1%} of all stakes in games of silos from different seeds; {_most_tempted(seeds)} of "
        "its own"
    )
    verdict = decided([Lead("stake", room, room)], len(seeds)).verdict
    return told(name, world, says, Decision(verdict, "stake", share), {"stake": words}, len(seeds))


def _most_tempted(seeds: Sequence[dict[str, Any]]) -> str:
    gains, stakes = (np.array([seed[name] for seed in seeds]).mean(0) for name in ("gains", "stakes"))
    shares = np.divide(gains, stakes, out=np.zeros_like(gains), where=stakes > 0)
    silo = int(shares.argmax())
    return f"silo {silo} alone could gain {shares[silo]:.0%}"
