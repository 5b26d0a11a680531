"""A prior is a file that people can read; one that cannot be used costs one line."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.agents.prior_file import FEWEST, Survey, Surveyed, load_prior, load_survey, names, read_survey
from potluck.errors import PotluckError

SURVEY = Survey(
    {"tasks": ["curve"], "seed": 1, "games": 2},
    tuple(Surveyed("curve", tuple(0.1 * number + np.arange(13) / 7), 0.02 + number) for number in range(FEWEST)),
)


def test_what_is_written_reads_back_to_the_last_bit() -> None:
    assert read_survey(SURVEY.text()) == SURVEY


def test_the_shipped_prior_is_the_default_and_ships_with_the_package() -> None:
    shipped = resources.files("potluck.agents") / "prior.json"
    survey = read_survey(shipped.read_text(encoding="utf-8"))
    assert load_survey() == survey
    assert len(survey.federations) >= 48
    assert {one.task for one in survey.federations} == {"curve", "digits"}  # Fashion-MNIST is held out
    assert len(shipped.read_bytes()) < 200_000
    prior = load_prior()
    assert prior.laws.shape == (len(survey.federations), len(names()))
    laws = np.array([one.law for one in survey.federations], np.float32)
    assert_array_equal(np.sort(prior.laws, axis=0), np.sort(laws, axis=0))
    assert_allclose(sorted(prior.noise), sorted(one.noise for one in survey.federations), rtol=1e-6)


def _changed(**changes: Any) -> str:
    return json.dumps(json.loads(SURVEY.text()) | changes)


def _row(**changes: Any) -> str:
    rows = json.loads(SURVEY.text())["federations"]
    return _changed(federations=[rows[0] | changes, *rows[1:]])


LAW = dict.fromkeys(names(), 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        (SURVEY.text()[:-40], "delimiter"),
        ("[1, 2]", "another kind of file"),
        ("{}", "another kind of file"),
        (_changed(**{"potluck prior": 1}), "version 1, and this Potluck reads version 2"),
        (_changed(federations=[]), "rests on 0 federations"),
        (_row(law=dict.fromkeys(names(), 200.0)), "its numbers are wrong"),
        (_changed(federations=7), "int"),
        (_row(law={"ceiling": 1.0}), "is missing"),
        (_row(law=LAW | {"formula.gap": float("nan")}), "numbers are wrong"),
        (_row(law=LAW | {"more": 1.0}), "numbers are wrong"),
        (_row(noise=0.0), "numbers are wrong"),
        (_row(noise="x"), "could not convert"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line_that_names_the_remedy(
    text: str, said: str, tmp_path: Path
) -> None:
    place = tmp_path / "mine.json"
    place.write_text(text)
    with pytest.raises(PotluckError, match="not a prior that can be used") as refused:
        load_prior(place)
    assert said in str(refused.value)
    assert str(place) in str(refused.value)
    assert "`potluck pretrain`" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PotluckError, match="no such file; make one with `potluck pretrain`"):
        load_prior(tmp_path / "none.json")
    with pytest.raises(PotluckError, match="directory"):
        load_prior(tmp_path)
