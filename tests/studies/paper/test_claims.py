"""Verdicts on findings that were made up so that the verdict is known."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from potluck.scenario import mechanism_of
from potluck.studies.paper.claims import judge
from potluck.studies.paper.curves import gained
from potluck.studies.paper.plan import intensity_cell
from potluck.studies.paper.verdicts import Claim, Decision, Lead, Measured, decided, leads_over
from tests.studies.paper.made_up import LEVELS, equilibrium, findings


def by_name(claims: list[Claim]) -> dict[str, Claim]:
    return {claim.name: claim for claim in claims}


def test_a_paper_that_is_right_is_told_so() -> None:
    found = by_name(judge(findings()))
    for name in ("highest payoffs", "fastest", "beats WPR", "silos rise", "interior α0", "strangers"):
        assert found[name].verdict == "holds", found[name]


def test_the_number_is_that_of_the_closest_rival() -> None:
    claim = by_name(judge(findings()))["highest payoffs"]
    assert claim.value == pytest.approx(10, abs=0.3)
    assert "MAA2C" in claim.number
    assert claim.low is not None
    assert claim.value is not None
    assert claim.high is not None
    assert claim.low < claim.value < claim.high


def test_one_better_rival_is_enough() -> None:
    found = by_name(judge(findings({**LEVELS, "mappo": 101.0})))
    assert found["highest payoffs"].verdict == "does not hold"
    assert found["beats WPR"].verdict == "holds"


def test_what_seeds_cannot_tell_apart_is_not_decided() -> None:
    assert by_name(judge(findings({**LEVELS, "maa2c": 100.02})))["highest payoffs"].verdict == "not decided"


@pytest.mark.parametrize("best", [0.0, 32.0])
def test_a_hill_whose_top_is_outside_has_no_interior_maximum(best: float) -> None:
    found = by_name(judge(findings(best=best)))["interior α0"]
    assert found.verdict == "does not hold"
    assert f"best α0 of the sweep: {best:g}" in found.number


def test_an_inside_that_might_still_win_leaves_the_maximum_undecided() -> None:
    """The best α0 inside is clearly below one outside, the next one only perhaps."""
    found = findings(best=0.0)
    five, levels = intensity_cell(5), (70.0, 80.0, 87.0, 110.0, 90.0)
    seeds = [{**seed, "welfare": level} for seed, level in zip(found.last(five), levels, strict=True)]
    unsure = {**found.cells[five], "milestones": [{"slots": 2000, "seeds": seeds}]}
    claim = by_name(judge(dataclasses.replace(found, cells={**found.cells, five: unsure})))["interior α0"]
    assert claim.verdict == "not decided"
    assert "α0 = 5 has" in claim.number
    assert claim.low is not None
    assert claim.high is not None
    assert claim.low < 0 < claim.high


def test_a_claim_about_the_papers_schemes_asks_them_alone() -> None:
    found = findings()
    config = dataclasses.replace(found.config, schemes=("mpgd", "wpr", "mbpg"))
    cells = {**found.cells, "paper/mbpg": found.cells["paper/maa2c"]}
    told = by_name(judge(dataclasses.replace(found, config=config, cells=cells, adapted={})))
    assert told["highest payoffs"].says == "MPGD has the highest overall payoffs of MPGD and WPR in the long run"
    assert "than WPR" in told["highest payoffs"].number


@pytest.mark.parametrize(("lead", "verdict"), [(-1.0, "does not hold"), (1.0, "holds")])
def test_the_printed_rule_is_judged_by_its_lead(lead: float, verdict: str) -> None:
    found = by_name(judge(findings(printed=lead)))
    assert found["rule helps: printed"].verdict == verdict
    assert found["rule helps: gain"].verdict == "not decided"  # as good as constant


def test_who_comes_back_to_its_old_share_has_adapted() -> None:
    claim = by_name(judge(findings()))["adapts"]
    assert claim.verdict == "holds"
    assert "5 of 5 seeds" in claim.number


def test_redistribution_is_also_judged_against_the_best_equilibrium_without_it() -> None:
    name = "beats the best equilibrium without"
    assert name not in by_name(judge(findings()))  # a study from before found none
    below, above = (
        by_name(judge(dataclasses.replace(findings(), equilibria={"paper": equilibrium(level, 0.0)})))[name]
        for level in (80.0, 105.0)
    )
    assert (below.verdict, above.verdict) == ("holds", "does not hold")
    assert below.value == pytest.approx(20, abs=0.3)
    assert "NashConv of WPR as learnt is 1% of its stake" in below.number


def lead(low: float, high: float, of: str = "x") -> Lead:
    """At 95%, and a little wider at 98%."""
    middle = (low + high) / 2
    wider = Measured(middle, middle + 1.1 * (low - middle), middle + 1.1 * (high - middle), 0.98)
    return Lead(of, Measured(middle, low, high, 0.95), wider)


def test_what_is_shown_is_what_decided() -> None:
    wide, narrow = lead(-5, 3, "wide"), lead(-1.2, -0.6, "narrow")
    assert decided([wide, narrow], 5) == Decision("does not hold", "narrow", narrow.among)
    assert decided([lead(0.5, 1.5), wide], 5) == Decision("not decided", "wide", wide.alone)
    assert decided([lead(0.5, 1.5), lead(0.1, 9, "least")], 5).by == "least"


def test_what_is_not_decided_shows_an_interval_that_could_not_tell() -> None:
    """Below 0 at 95%, but not as one of several."""
    nearly = lead(-5, -0.1)
    assert decided([nearly], 5) == Decision("not decided", "x", nearly.among)
    assert nearly.among.low < 0 < nearly.among.high


def test_few_seeds_decide_nothing() -> None:
    assert [decided([lead(1, 2)], seeds).verdict for seeds in (2, 4, 5)] == ["not decided", "not decided", "holds"]


def test_an_exact_tie_is_none_where_it_is_measured_coarsely() -> None:
    assert decided([lead(0, 0)], 5).verdict == "does not hold"
    assert decided([lead(0, 0)], 5, ties=False).verdict == "not decided"


def test_equal_rivals_are_seldom_said_to_be_ahead() -> None:
    """At 95% each, one of four equal rivals would seem ahead in about a fifth of all studies with five seeds."""
    luck = np.random.default_rng(0)
    ahead = 0
    for _ in range(1000):
        own, *rivals = luck.normal(size=(5, 5))
        ahead += decided(leads_over(own, dict(zip("abcd", rivals, strict=True))), 5).verdict == "does not hold"
    assert ahead <= 50


def changed(**curve: object) -> dict[str, Claim]:
    """The verdicts where MPGD's learning curve is another."""
    found = findings()
    cell = {**found.cells["paper/mpgd"]}
    cell["curve"] = {**cell["curve"], **curve}
    return by_name(judge(dataclasses.replace(found, cells={**found.cells, "paper/mpgd": cell}, adapted={})))


def test_payoffs_that_still_wander_have_not_settled() -> None:
    rise = np.minimum(np.arange(20) / 5, 1.0) * 20
    apart = np.where(np.arange(20) >= 18, 5.0, 0.0) * np.array([[1], [-1], [1], [-1], [1]])
    payoffs = (rise + apart).tolist()
    assert changed(**{f"payoff_{silo}": payoffs for silo in range(4)})["silos rise"].verdict == "does not hold"
    line = [(np.arange(20.0) + shift).tolist() for shift in (0, 0.1, 0.2, 0.3, 0.4)]
    assert changed(**{f"payoff_{silo}": line for silo in range(4)})["silos rise"].verdict == "does not hold"


def test_noise_is_no_movement() -> None:
    """Payoffs that rise by 20 and stay, measured with an error of 0.7 at every point: settled, or undecided."""
    luck, seen = np.random.default_rng(1), []
    rise = np.minimum(np.arange(80) / 20, 1.0) * 20
    for _ in range(10):
        names = ("welfare", *(f"payoff_{silo}" for silo in range(4)))
        noisy = {name: (rise + luck.normal(0, 0.7, (10, 80))).tolist() for name in names}
        seen.append(changed(slots=list(range(100, 8100, 100)), **noisy)["silos rise"].verdict)
    assert "does not hold" not in seen
    assert seen.count("holds") >= 5


def test_payoffs_that_move_as_much_as_they_may_are_seldom_said_to_have_settled() -> None:
    """Each seed of ten moves by luck, on average exactly by the 5% of its rise that still counts as settled."""
    luck, seen = np.random.default_rng(2), []
    ends = np.where(np.arange(20) >= 18, 1.0, 0.0)
    for _ in range(100):
        moved = 0.05 * 20 * luck.normal(size=(10, 1))
        payoffs = (20 * np.minimum(np.arange(20) / 5, 1.0) + moved * ends).tolist()
        seen.append(changed(**{f"payoff_{silo}": payoffs for silo in range(4)})["silos rise"].verdict)
    assert seen.count("holds") <= 6


def test_the_interval_that_is_shown_for_payoffs_that_wander_is_that_of_the_wandering() -> None:
    line = [(np.arange(20.0) + shift).tolist() for shift in (0, 0.1, 0.2, 0.3, 0.4)]
    claim = changed(**{f"payoff_{silo}": line for silo in range(4)})["silos rise"]
    assert claim.value == pytest.approx(2 / 18)
    assert claim.level == pytest.approx(1 - 0.05 / 8)


def test_who_has_not_risen_is_not_judged_for_speed() -> None:
    claim = changed(welfare=[[50.0] * 20] * 5)["fastest"]
    assert (claim.verdict, claim.number) == ("not decided", "MPGD's welfare does not clearly rise")
    assert (claim.value, claim.low, claim.high) == (None, None, None)


def test_seeds_that_do_not_rise_get_there_last() -> None:
    """Where two seeds of MPGD are soon there and three never, MPGD is not said to be the fastest."""
    soon = (20 + 80 * np.minimum(np.arange(20) / 3, 1.0)).tolist()
    claim = changed(welfare=[soon, soon, *[[50.0] * 20] * 3])["fastest"]
    assert claim.verdict != "holds"
    assert "3 of 5 seeds of MPGD did not clearly rise" in claim.number


def test_fewer_seeds_than_silos_are_no_strangers() -> None:
    found = findings()
    cell = {**found.cells["paper/mpgd"], "strangers": []}
    claim = by_name(judge(dataclasses.replace(found, cells={**found.cells, "paper/mpgd": cell})))["strangers"]
    assert claim.verdict == "not decided"


def test_strangers_at_the_limit_are_seldom_called_near_an_equilibrium() -> None:
    """Gains that are 0 in half of the seeds and else twice the limit, five seeds a study."""
    luck, found, seen = np.random.default_rng(3), dataclasses.replace(findings(), adapted={}), []
    cell = found.cells["paper/mpgd"]
    for _ in range(200):
        drawn = luck.integers(2, size=5) * 0.1
        met = [{**seed, "gains": [gain] * 4} for seed, gain in zip(cell["strangers"], drawn, strict=True)]
        own = dataclasses.replace(found, cells={**found.cells, "paper/mpgd": {**cell, "strangers": met}})
        seen.append(by_name(judge(own))["strangers"].verdict)
    assert seen.count("holds") <= 0.05 * len(seen)


def test_where_no_money_moves_nothing_is_said_of_more_than_without() -> None:
    found = findings()
    still = found.config.scenario.model_copy(update={"mechanism": mechanism_of("none")})
    config = dataclasses.replace(found.config, worlds={"paper": still})
    told = by_name(judge(dataclasses.replace(found, config=config, adapted={})))
    assert (told["beats WPR"].verdict, told["beats WPR"].value) == ("not decided", None)
    assert "WPR" not in told["highest payoffs"].number


def test_a_rival_that_is_not_a_number_leaves_it_undecided() -> None:
    nan = lead(float("nan"), float("nan"), "broken")
    for leads in ([lead(1, 2), nan], [nan, lead(1, 2)], [nan, lead(-2, -1)]):
        assert decided(leads, 5).by == "broken"
        assert decided(leads, 5).verdict == "not decided"


def test_one_point_of_a_curve_says_nothing_of_silos_that_rise() -> None:
    short = {"slots": [100], **{name: [[1.0]] * 5 for name in ("welfare", *(f"payoff_{silo}" for silo in range(4)))}}
    assert changed(**short)["silos rise"].value is None


def test_a_training_without_every_stage_of_the_change_is_not_judged() -> None:
    found = findings()
    early = {name: {**cell, "turns": [1000, 1000]} for name, cell in found.adapted.items()}
    claim = by_name(judge(dataclasses.replace(found, adapted=early)))["adapts"]
    assert claim.value is None
    assert "too short" in claim.number


def test_schemes_may_have_curves_of_unequal_length() -> None:
    """Windows of whole games are longer than others'."""
    found = findings()
    cell = found.adapted["mpgd"]
    every = {"slots": cell["curve"]["slots"][1::2], "welfare": [seed[1::2] for seed in cell["curve"]["welfare"]]}
    sparse = dataclasses.replace(found, adapted={**found.adapted, "mpgd": {**cell, "curve": every}})
    assert gained(sparse, "mpgd").shape == (5, 10)
    np.testing.assert_allclose(gained(sparse, "mpgd"), gained(found, "mpgd")[:, 1::2])


def test_the_luck_of_games_that_all_play_decides_nothing() -> None:
    """An equilibrium that is 1 below MPGD in every one of five games that differ by far more."""
    found = dataclasses.replace(findings(), equilibria={"paper": equilibrium(99.0, 0.0)})
    luck = np.array([-30.0, -10.0, 0.0, 10.0, 30.0])

    def played(seed: dict[str, Any]) -> dict[str, Any]:
        return {**seed, "games": (seed["welfare"] + luck).tolist()}

    own = {**found.cells["paper/mpgd"]}
    own["milestones"] = [{**stone, "seeds": list(map(played, stone["seeds"]))} for stone in own["milestones"]]
    same = dataclasses.replace(
        found, cells={**found.cells, "paper/mpgd": own}, equilibria={"paper": played(found.equilibria["paper"])}
    )
    assert by_name(judge(same))["beats the best equilibrium without"].verdict == "holds"


def test_who_does_not_recover_while_silo_3_is_away_has_not_adapted() -> None:
    found = findings()
    cell = {**found.adapted["mpgd"]}
    welfare = np.array([100.0] * 10 + [70.0] * 5 + [100.0] * 5)
    cell["curve"] = {**cell["curve"], "welfare": [(welfare + shift).tolist() for shift in (0, 0.1, 0.2, 0.3, 0.4)]}
    claim = by_name(judge(dataclasses.replace(found, adapted={**found.adapted, "mpgd": cell})))["adapts"]
    assert claim.verdict == "does not hold"
