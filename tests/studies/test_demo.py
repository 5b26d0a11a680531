"""The demo on a game that takes no time: it finishes, goes on, begins again, and leaves alone what is not its own."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from potluck.agents import Options
from potluck.cli import app
from potluck.errors import PotluckError
from potluck.scenario import mechanism_of
from potluck.studies import demo
from potluck.training.config import RunConfig
from tests.studies.learnt import TINY


def small(seeds: int = 2, slots: int = 96, games: int = 2) -> dict[str, RunConfig]:
    """No training inside, no memory, more than one chunk each."""
    mpgd = RunConfig(TINY, "mpgd", Options(dnc="none"), slots=slots, seeds=seeds, games=games, window=3, looks=2)
    mbpg = dataclasses.replace(mpgd, agent="mbpg", options=Options(), slots=slots // demo.FEWER)
    return {"none": dataclasses.replace(mbpg, scenario=demo.unpaid(TINY)), "mpgd": mpgd, "mbpg": mbpg}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    demo.prepare(out, small())
    list(demo.trainings(out, small()))
    demo.save(demo.judge(out), out)
    return out


@pytest.mark.slow
def test_all_are_trained_in_turns_to_their_end(tmp_path: Path) -> None:
    demo.prepare(tmp_path / "out", small())
    done = dict.fromkeys(demo.AGENTS, 0.0)
    for agent, progress in demo.trainings(tmp_path / "out", small()):
        assert done[agent] == min(done.values())
        done[agent] = progress.chunk / progress.chunks
    assert set(done.values()) == {1.0}


def test_what_is_shown_differs_in_the_mechanism_or_in_the_agent_alone() -> None:
    none, mpgd, mbpg = demo.configs(seeds=2, slots=400, games=4).values()
    assert dataclasses.replace(none, scenario=mbpg.scenario) == mbpg
    assert dataclasses.replace(mbpg, agent="mpgd", slots=400) == mpgd
    assert mbpg.slots == 400 / demo.FEWER
    assert none.federation.mechanism == mechanism_of("redistribution", intensity=0.0)
    assert none.federation.model_copy(update={"mechanism": mbpg.federation.mechanism}) == mbpg.scenario


@pytest.mark.slow
def test_pictures_and_numbers_are_written(done: Path) -> None:
    found = json.loads((done / "demo.json").read_text())
    assert found["finished"]
    assert list(found["agents"]) == ["none", "mpgd", "mbpg", "planner"]
    for agent in found["agents"].values():
        total = sum(payoff["mean"] for payoff in agent["payoffs"])
        assert total == pytest.approx(agent["welfare"]["mean"], rel=1e-5)
        assert agent["welfare"]["low"] <= agent["welfare"]["mean"] <= agent["welfare"]["high"]
    assert [agent["slots"] for agent in found["agents"].values()] == [24, 96, 24, None]
    assert found["agents"]["mpgd"]["nash_conv_constants"] >= 0
    assert all(moved["mean"] == 0 for moved in found["agents"]["none"]["transfers"])
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
    assert len(list(itertools.islice(begun, 3))) == 3
    begun.close()
    demo.prepare(out, small())
    whole = sum(1 for _ in demo.trainings(done, small()))
    assert whole == 0  # finished ones have nothing to do
    assert 0 < sum(1 for _ in demo.trainings(out, small())) == sum(each.chunks for each in small().values()) - 3
    for metrics in out.rglob("metrics.csv"):
        assert metrics.read_bytes() == (done / metrics.relative_to(out)).read_bytes()


def test_another_budget_does_not_resume_with_the_old_runs(tmp_path: Path) -> None:
    demo.prepare(tmp_path, small())
    begun = demo.trainings(tmp_path, small())
    next(begun)
    begun.close()
    assert (tmp_path / "none" / "run.json").exists()
    demo.prepare(tmp_path, small(slots=192))
    assert not (tmp_path / "none" / "run.json").exists()


@pytest.mark.parametrize("name", ["mpgd/run.json", "none/run.json", "learning.png", "demo.json"])
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
    for text in ("no transfers", "MPGD", "MBPG", "planner", "share of planner's gain", "NashConv", "silo 1 earns"):
        assert text in shown.stdout
    first = shown.stdout.splitlines()[0]
    assert "a slot better off together" in first or "a slot worse off together" in first
    assert max(map(len, shown.stdout.splitlines()[1:-2])) <= 80
    plain = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(plain.stdout) == json.loads((tmp_path / "demo.json").read_text())
