"""A whole study, small; and one that is killed again and again."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from potluck.errors import PotluckError
from potluck.scenario import Scenario, preset, render
from potluck.scenario.description import mechanism_of
from potluck.studies.paper.learnt import milestones
from potluck.studies.paper.plan import StudyConfig, begin_study, read_study, same_as
from potluck.studies.paper.results import RESULTS, result_file
from potluck.studies.paper.telling import CLAIMS, FIGURES, REPORT, TABLES, budget_of, finished, tell, work_of
from potluck.studies.paper.work import run_study, units

KILLS = int(os.environ.get("KILLS", "3"))
"""Of a study, at random moments."""


def small(**silos: object) -> Scenario:
    scenario = preset("paper")
    return scenario.model_copy(update={"horizon": 3, "silos": scenario.silos.model_copy(update=silos)})


def config_of(**numbers: int) -> StudyConfig:
    budget: dict[str, Any] = {"seeds": 2, "slots": 120, "games": 2, **numbers}
    return StudyConfig({"own": small()}, **budget, schemes=("mpgd", "wpr"))


def test_what_is_trained_twice_is_trained_once() -> None:
    cells = config_of().cells()
    assert same_as(cells, "intensity/5") == "own/mpgd"
    assert same_as(cells, "intensity/4") == "intensity/4"
    assert same_as(cells, "intensity/0") == "own/wpr"
    assert [same_as(cells, f"schedule-own/{rule}") for rule in ("constant", "gain")].count("own/mpgd") == 1


def test_cells_that_differ_in_numbers_are_one_program(tmp_path: Path) -> None:
    every = [piece.what for unit in units(config_of(), tmp_path) for piece in unit.pieces]
    found = [what for what in every if what.startswith("training")]
    assert found == [
        "training mpgd, wpr, intensity/1 and 5 more",
        "training random",
        "training schedule-own/gain",
        "training schedule-own/printed",
        "training adapt/mpgd, adapt/wpr",
    ]


def test_milestones_end_with_the_training() -> None:
    config = config_of(slots=10_000).cells()["own/mpgd"]
    assert max(milestones(config)) == config.chunks
    assert len(milestones(config)) == 4


def test_a_trial_tells_before_anything_is_learnt_how_long_a_study_takes(tmp_path: Path) -> None:
    config = config_of()
    begin_study(config, tmp_path)
    work = run_study(tmp_path)
    assert [next(work).left, next(work).left is None] == [None, False]
    work.close()
    assert not list((tmp_path / RESULTS).iterdir())


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"seeds": 1}, "seeds must be 2 or more"),
        ({"games": 1}, "games must be 2 or more"),
        ({"slots": 0}, "slots must be 1 or more"),
    ],
)
def test_too_little_is_refused(numbers: dict[str, int], words: str) -> None:
    with pytest.raises(PotluckError, match=words):
        config_of(**numbers)


@pytest.mark.parametrize(
    ("schemes", "words"),
    [
        (("mpgd",), "must name wpr"),
        (("mpgd", "wpr", "planner"), "got 'planner'"),
        (("mpgd", "wpr", "x"), "got 'x'"),
    ],
)
def test_schemes_that_cannot_be_judged_are_refused(schemes: tuple[str, ...], words: str) -> None:
    with pytest.raises(PotluckError, match=words):
        StudyConfig({"own": small()}, schemes=schemes)


@pytest.mark.parametrize(
    ("parts", "words"),
    [(("intensities",), "must name schemes"), (("schemes", "x"), "got 'x'"), (("schemes",) * 2, "once")],
)
def test_parts_that_there_are_not_are_refused(parts: tuple[str, ...], words: str) -> None:
    with pytest.raises(PotluckError, match=words):
        StudyConfig({"own": small()}, parts=parts)


def test_where_training_is_expensive_schemes_alone_are_compared(tmp_path: Path) -> None:
    config = StudyConfig({"own": small()}, seeds=2, slots=120, games=2, parts=("schemes",))
    assert list(config.cells()) == [f"own/{scheme}" for scheme in (*config.schemes, "random")]
    assert not any("adapt" in unit.name for unit in units(config, tmp_path))


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({}, set()),
        ({"silos": preset("paper").silos.model_copy(update={"count": 3})}, {"adaptivity"}),
        ({"mechanism": mechanism_of("none")}, {"intensities", "schedules"}),
    ],
)
def test_what_a_scenario_cannot_have_is_left_out_and_said(changes: dict[str, Any], left_out: set[str]) -> None:
    config = StudyConfig({"own": preset("paper").model_copy(update=changes)}, seeds=2, slots=120, games=2)
    assert set(config.obstacles) == left_out
    for told in (work_of(config), budget_of(config)):
        assert ("Left out" in told) == bool(left_out)
        assert all(part in told for part in left_out)


def test_a_study_reads_back_as_it_was_begun_and_another_is_refused(tmp_path: Path) -> None:
    begin_study(config_of(), tmp_path)
    assert read_study(tmp_path) == config_of()
    begin_study(config_of(), tmp_path)
    with pytest.raises(PotluckError, match="holds another study"):
        begin_study(config_of(slots=240), tmp_path)


def test_more_seeds_than_the_memory_holds_are_named_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(PotluckError, match=r"seeds: about .* GiB of memory would be needed"):
        begin_study(config_of(seeds=4_000_000), tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"worlds": {}}', '{"worlds": {"a": 1}}'])
def test_a_damaged_study_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(PotluckError, match="cannot be read as a study"):
        read_study(tmp_path)


def test_what_is_not_done_is_not_told(tmp_path: Path) -> None:
    begin_study(config_of(), tmp_path)
    with pytest.raises(PotluckError, match="is not done yet; go on with `potluck resume"):
        tell(tmp_path)


def test_a_change_is_told_without_schemes_that_are_not_done_yet(tmp_path: Path) -> None:
    config = StudyConfig({"own": small()}, seeds=2, slots=120, games=2)
    begin_study(config, tmp_path)
    (tmp_path / RESULTS).mkdir()
    for name in config.results():
        result_file(tmp_path, name).write_text("{}")
    result_file(tmp_path, "adapt/mappo").unlink()
    told, missing = finished(tmp_path)
    assert told == config
    assert missing.startswith("Not done yet, and not told: adaptivity of mappo (")
    result_file(tmp_path, "adapt/mpgd").unlink()
    told, missing = finished(tmp_path)
    assert "adaptivity" not in told.parts
    assert missing.startswith("Not done yet, and not told: adaptivity (")


def begin(folder: Path, ready: Barrier, failed: "Queue[str]") -> None:
    config = config_of()
    ready.wait()
    try:
        begin_study(config, folder)
    except Exception as fault:
        failed.put(repr(fault))


def test_processes_that_begin_one_study_at_once_begin_the_same(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, failed = context.Barrier(2), context.Queue()
    both = [context.Process(target=begin, args=(tmp_path / "study", ready, failed)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert failed.empty(), failed.get()
    assert read_study(tmp_path / "study") == config_of()


def test_a_scheme_that_cannot_play_is_named_before_anything_is_written(tmp_path: Path) -> None:
    blind = small().model_copy(update={"observation": ("others", "communication", "signal")})
    config = StudyConfig({"own": blind}, seeds=2, slots=120, games=2, schemes=("mpgd", "wpr", "mbpg"))
    with pytest.raises(PotluckError, match="must have 'precision'"):
        begin_study(config, tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_whole_study_leaves_all_that_was_promised(tmp_path: Path) -> None:
    begin_study(config_of(), tmp_path)
    shares = [step.share for step in run_study(tmp_path)]
    assert shares == sorted(shares)
    assert not list(run_study(tmp_path)), "what is done is done again"
    claims = tell(tmp_path)
    assert {claim.name for claim in claims} >= {"highest payoffs", "fastest", "adapts", "interior α0", "strangers"}
    assert len(json.loads((tmp_path / CLAIMS).read_text())) == len(claims)
    names = {file.stem for file in (tmp_path / FIGURES).glob("*.svg")}
    assert names == {file.stem for file in (tmp_path / FIGURES).glob("*.png")}
    assert names >= {"payoffs-own", "silos", "intensity", "adaptivity", "strangers", "nash-conv", "anarchy"}
    assert (tmp_path / REPORT).stat().st_size > 1_000_000
    for file in (tmp_path / RESULTS).glob("adapt.*"):
        file.unlink()
    told = {claim.name for claim in tell(tmp_path)}
    assert told == {claim.name for claim in claims} - {"adapts"}
    assert "Not done yet, and not told: adaptivity" in (tmp_path / REPORT).read_text()
    assert not list((tmp_path / FIGURES).glob("adaptivity.*"))
    assert not (tmp_path / TABLES / "adaptivity.csv").exists()
    (tmp_path / RESULTS / "own.mpgd.json").write_text("{}")
    with pytest.raises(PotluckError, match="not all of a study"):
        tell(tmp_path)


def start(scenario: Path, folder: Path) -> subprocess.Popen[bytes]:
    words = ["--schemes", "mpgd,wpr", "--seeds", "2", "--slots", "240", "--games", "2", "--checkpoint", "0", "--out"]
    command = [sys.executable, "-m", "potluck", "study", "paper", str(scenario), *words, str(folder)]
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def written(folder: Path) -> int:
    """Bytes of metrics and results: how far it has come."""
    files = [*folder.glob("training/*/metrics.csv"), *folder.glob("results/*.json")]
    sizes = []
    for file in files:
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:
            continue
    return sum(sizes)


@pytest.mark.slow
def test_killed_again_and_again_its_tables_are_equal_byte_for_byte(tmp_path: Path) -> None:
    scenario, whole, killed = tmp_path / "own.toml", tmp_path / "whole", tmp_path / "killed"
    few = small(count=3).model_copy(update={"mechanism": mechanism_of("proportional", pot=5.0)})  # three programs
    scenario.write_text(render(few))
    assert start(scenario, whole).wait(timeout=900) == 0
    total = written(whole)
    for share in sorted(random.random() for _ in range(KILLS)):
        process = start(scenario, killed)
        while written(killed) < share * total and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert start(scenario, killed).wait(timeout=900) == 0
    assert_same(whole, killed)


def assert_same(whole: Path, other: Path) -> None:
    files = sorted((whole / TABLES).iterdir())
    assert files
    for file in [*files, whole / CLAIMS]:
        assert file.read_bytes() == (other / file.relative_to(whole)).read_bytes(), file.name


@pytest.mark.slow
def test_two_processes_share_a_study_and_find_what_one_does(tmp_path: Path) -> None:
    scenario, alone, together = tmp_path / "own.toml", tmp_path / "alone", tmp_path / "together"
    scenario.write_text(render(small(count=3).model_copy(update={"mechanism": mechanism_of("proportional", pot=5.0)})))
    assert start(scenario, alone).wait(timeout=900) == 0
    both = [start(scenario, together) for _ in range(2)]
    assert [process.wait(timeout=900) for process in both] == [0, 0]
    assert_same(alone, together)
