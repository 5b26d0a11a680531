"""The demo on a game that takes no time: it finishes, goes on, begins again, and leaves alone what is not its own."""

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from potluck.agents import Options
from potluck.cli import app
from potluck.errors import PotluckError
from potluck.studies import demo
from potluck.studies.certificate import without
from potluck.training.config import RunConfig
from tests.studies.learnt import TINY


def small(seeds: int = 2, slots: int = 96, games: int = 2) -> dict[str, RunConfig]:
    """No training inside, no memory, more than one chunk each."""
    first = RunConfig(TINY, "mpgd", Options(dnc="none"), slots=slots, seeds=seeds, games=games)
    return {"mpgd": first, "wpr": without(first)}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    demo.prepare(out, small())
    list(demo.trainings(out, small()))
    demo.save(demo.judge(out), out)
    return out


@pytest.mark.slow
def test_both_are_trained_in_turns_on_the_same_budget(tmp_path: Path) -> None:
    demo.prepare(tmp_path / "out", small())
    steps = list(demo.trainings(tmp_path / "out", small()))
    assert [agent for agent, _ in steps] == list(demo.AGENTS) * (len(steps) // 2)
    assert len({progress.slots for _, progress in steps[-2:]}) == 1


@pytest.mark.slow
def test_pictures_and_numbers_are_written(done: Path) -> None:
    found = json.loads((done / "demo.json").read_text())
    assert found["finished"]
    assert list(found["agents"]) == ["mpgd", "wpr", "planner"]
    for agent in found["agents"].values():
        total = sum(payoff["mean"] for payoff in agent["payoffs"])
        assert total == pytest.approx(agent["welfare"]["mean"], rel=1e-5)
        assert agent["welfare"]["low"] <= agent["welfare"]["mean"] <= agent["welfare"]["high"]
    assert found["agents"]["mpgd"]["nash_conv_constants"] >= 0
    assert found["agents"]["planner"]["nash_conv_constants"] is None
    for picture in demo.PICTURES:
        assert (done / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_begun_again_it_clears_away_its_own_only_and_comes_to_the_same(done: Path) -> None:
    before = (done / "demo.json").read_text()
    (done / "mine.txt").write_text("keep")
    (done / "mpgd" / "notes.txt").write_text("keep")
    demo.prepare(done, small())
    assert sorted(file.name for file in done.rglob("*") if file.is_file()) == ["demo.json", "mine.txt", "notes.txt"]
    list(demo.trainings(done, small()))
    demo.save(demo.judge(done), done)
    assert (done / "demo.json").read_text() == before


@pytest.mark.slow
def test_interrupted_it_goes_on_and_comes_to_the_same(done: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    demo.prepare(out, small())
    begun = demo.trainings(out, small())
    assert len(list(itertools.islice(begun, 2))) == 2
    begun.close()
    demo.prepare(out, small())
    whole = sum(1 for _ in demo.trainings(done, small()))
    assert whole == 0  # finished ones have nothing to do
    assert 0 < sum(1 for _ in demo.trainings(out, small())) == 2 * small()["mpgd"].chunks - 2
    for metrics in out.rglob("metrics.csv"):
        assert metrics.read_bytes() == (done / metrics.relative_to(out)).read_bytes()


def test_another_budget_does_not_resume_with_the_old_runs(tmp_path: Path) -> None:
    demo.prepare(tmp_path, small())
    begun = demo.trainings(tmp_path, small())
    next(begun)
    begun.close()
    demo.prepare(tmp_path, small(slots=192))
    assert not (tmp_path / "mpgd" / "run.json").exists()


@pytest.mark.parametrize("name", ["mpgd/run.json", "learning.png", "demo.json"])
def test_what_a_demo_did_not_write_is_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("{}")
    with pytest.raises(PotluckError, match="not written by a demo; name another folder") as refusal:
        demo.prepare(tmp_path, small())
    assert "\n" not in str(refusal.value)
    assert place.read_text() == "{}"


@pytest.mark.slow
def test_the_command_shows_a_table_and_what_to_make_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "configs", small)
    monkeypatch.setattr("potluck.cli.runtime.start_jax", lambda **_: None)
    words = ["demo", "--out", str(tmp_path), "--slots", "96", "--seeds", "2", "--games", "2"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    for text in ("redistribution", "none (WPR)", "planner", "share of planner's gain", "NashConv", "payoff of silo 1"):
        assert text in shown.stdout
    assert "a slot better off together" in shown.stdout or "a slot worse off together" in shown.stdout
    plain = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(plain.stdout) == json.loads((tmp_path / "demo.json").read_text())
