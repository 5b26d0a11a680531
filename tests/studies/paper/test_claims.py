"""Verdicts on findings that were made up so that the verdict is known."""

import dataclasses

import pytest

from potluck.studies.paper.claims import Claim, judge
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
    assert "maa2c" in claim.number
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
