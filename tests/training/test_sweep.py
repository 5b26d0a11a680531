"""Sweeps: every cell is trained as it would be alone, in as few programs as possible, and can be stopped anywhere."""

import dataclasses
import io
import itertools
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from rich.console import Console
from typer.testing import CliRunner

from potluck.agents import Options
from potluck.cli import app
from potluck.cli.sweep import _by_cell
from potluck.errors import PotluckError
from potluck.scenario import render
from potluck.studies.sweeps import by_cell, draw_sweep
from potluck.training import loop
from potluck.training.config import RunConfig
from potluck.training.run import start
from potluck.training.sweep import SweepConfig, begin_sweep, read_sweep, run_sweep
from tests.training.conftest import TINY

BASE = RunConfig(TINY, options=Options(dnc="none"), slots=96, seeds=2, games=2, window=3)
SWEEP = SweepConfig(BASE, (("mechanism.intensity", (0.0, 5.0, 16.0)),))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "x"
    begin_sweep(SWEEP, folder)
    list(run_sweep(folder, interval=0.0))
    return folder


def test_the_table_has_a_row_per_cell_seed_and_window(swept: Path) -> None:
    table = pd.read_csv(swept / "sweep.csv")
    windows = BASE.chunks * BASE.chunk
    assert list(table.columns[:4]) == ["cell", "mechanism.intensity", "seed", "slot"]
    assert len(table) == 3 * 2 * windows
    assert table.groupby(["cell", "seed"]).size().eq(windows).all()
    assert sorted(table["mechanism.intensity"].unique()) == [0, 5, 16]
    assert table[table["mechanism.intensity"] == 0].signal.eq(0).all()
    assert not table.isna().any().any()


@pytest.mark.slow
def test_a_cell_learns_what_it_learns_alone(swept: Path, tmp_path: Path) -> None:
    among = pd.read_csv(swept / "sweep.csv").query("cell == 2")
    list(start(SWEEP.cells()[2].config, tmp_path / "alone"))
    alone = pd.read_csv(tmp_path / "alone" / "metrics.csv").sort_values(["seed", "slot"])
    for name in ("welfare", "contribution_0", "payoff_2"):
        # Not bit for bit: XLA may order a sum otherwise where more lanes lie beside it.
        assert_allclose(among[name], alone[name], rtol=1e-4)


@pytest.mark.parametrize("chunks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_sweep_closed_after_any_chunk_goes_on_to_the_same_table(chunks: int, swept: Path, tmp_path: Path) -> None:
    begin_sweep(SWEEP, tmp_path / "x")
    begun = run_sweep(tmp_path / "x")
    assert len(list(itertools.islice(begun, chunks))) == chunks
    begun.close()
    list(run_sweep(tmp_path / "x"))
    assert (tmp_path / "x" / "sweep.csv").read_bytes() == (swept / "sweep.csv").read_bytes()
    assert list(run_sweep(tmp_path / "x")) == []


@pytest.mark.slow
def test_numbers_are_one_program_and_shapes_are_not(tmp_path: Path) -> None:
    grid = SweepConfig(
        dataclasses.replace(BASE, slots=24),
        (("energy_price", (0.0025, 0.02)), ("discount", (0.5, 0.9)), ("silos.samples.mean", (500.0, 2000.0))),
    )
    begin_sweep(grid, tmp_path / "numbers")
    before = loop.train._cached._cache_size()  # type: ignore[attr-defined]
    steps = list(run_sweep(tmp_path / "numbers"))
    assert {(step.programs, step.cells) for step in steps} == {(1, 8)}
    assert loop.train._cached._cache_size() - before == 1  # type: ignore[attr-defined]
    shapes = SweepConfig(dataclasses.replace(BASE, slots=24), (("history", (1, 2)), ("discount", (0.5, 0.9))))
    begin_sweep(shapes, tmp_path / "shapes")
    steps = list(run_sweep(tmp_path / "shapes"))
    assert {(step.program, step.programs, step.cells) for step in steps} == {(1, 2, 2), (2, 2, 2)}
    table = pd.read_csv(tmp_path / "shapes" / "sweep.csv")
    assert table.groupby(["cell", "history", "discount"]).ngroups == 4


def test_cells_are_the_grid_and_the_config_is_read_back(tmp_path: Path) -> None:
    grid = SweepConfig(BASE, (("energy_price", (0.001, 0.01)), ("horizon", (4, 5))))
    assert [cell.values for cell in grid.cells()] == [(0.001, 4), (0.001, 5), (0.01, 4), (0.01, 5)]
    assert [cell.config.scenario.horizon for cell in grid.cells()] == [4, 5, 4, 5]
    begin_sweep(grid, tmp_path / "x")
    assert read_sweep(tmp_path / "x") == grid


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ((), "vary must name a field and its values"),
        ((("mechanism.intensty", (1.0,)),), "mechanism.intensty is no field of the scenario; known there: kind"),
        ((("nothing.here", (1.0,)),), "nothing.here is no field of the scenario"),
        ((("mechanism.kind", (1.0,)),), "mechanism.kind is not a number"),
        ((("mechanism.intensity", (-1.0,)),), r"mechanism\.intensity must be at least 0, got -1"),
        ((("horizon", (2.5,)),), "horizon must be a whole number, got 2.5"),
        ((("energy_price", (1.0,)), ("energy_price", (2.0,))), "energy_price is there twice"),
    ],
)
def test_what_cannot_be_swept_is_named(vary: tuple[tuple[str, tuple[float, ...]], ...], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        SweepConfig(BASE, vary).cells()


def test_a_sweep_overwrites_nothing(swept: Path, tmp_path: Path) -> None:
    with pytest.raises(PotluckError, match="holds a sweep; go on with `potluck resume"):
        begin_sweep(SWEEP, swept)
    (tmp_path / "sweep.csv").write_text("mine")
    with pytest.raises(PotluckError, match=r"sweep\.csv: would be overwritten"):
        begin_sweep(SWEEP, tmp_path)


def test_cells_are_summed_up_and_drawn(swept: Path, tmp_path: Path) -> None:
    found = by_cell(swept / "sweep.csv", SWEEP)
    assert [cell["values"]["mechanism.intensity"] for cell in found] == [0, 5, 16]
    table = pd.read_csv(swept / "sweep.csv")
    late = table[(table.cell == 1) & (table.slot > 0.9 * table.slot.max())]
    assert_allclose(found[1]["welfare"]["mean"], late.welfare.mean(), rtol=1e-6)
    draw_sweep(found, SWEEP, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_trains_a_table_and_resume_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.cli.runtime.start_jax", lambda **_: None)
    (tmp_path / "my.toml").write_text(render(TINY))
    words = ["sweep", str(tmp_path / "my.toml"), "--vary", "mechanism.intensity=0:4:2", "--agent", "greedy",
             "--slots", "24", "--seeds", "2", "--games", "2", "--out", str(tmp_path / "x")]  # fmt: skip
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    for text in ("intensity", "welfare", "mean d", "sweep.csv"):
        assert text in shown.stdout
    again = CliRunner().invoke(app, ["resume", str(tmp_path / "x"), "--json"])
    assert again.exit_code == 0, again.output
    assert [cell["values"]["mechanism.intensity"] for cell in json.loads(again.stdout)["cells"]] == [0, 4]


@pytest.mark.slow
def test_programs_of_different_length_are_each_judged_by_their_own_end(tmp_path: Path) -> None:
    config = SweepConfig(
        RunConfig(TINY, "greedy", slots=48, seeds=2, games=4), (("horizon", (4, 64)), ("precision.scale", (100.0,)))
    )
    begin_sweep(config, tmp_path / "x")
    list(run_sweep(tmp_path / "x"))
    found = by_cell(tmp_path / "x" / "sweep.csv", config)
    assert [cell["seeds"] for cell in found] == [2, 2]
    draw_sweep(found, config, tmp_path / "sweep.png")


def test_what_other_cells_learnt_is_not_relabelled(swept: Path, tmp_path: Path) -> None:
    shutil.copytree(swept, tmp_path / "x")
    edited = json.loads((tmp_path / "x" / "sweep.json").read_text())
    edited["vary"]["mechanism.intensity"] = [0.0, 5.0, 30.0]
    (tmp_path / "x" / "sweep.json").write_text(json.dumps(edited))
    with pytest.raises(PotluckError, match="was learnt under another plan; put back"):
        list(run_sweep(tmp_path / "x"))


def test_what_another_sweep_or_person_left_is_not_overwritten(swept: Path, tmp_path: Path) -> None:
    shutil.copytree(swept, tmp_path / "x")
    for file in ("sweep.json", "sweep.csv", "scenario.toml"):
        (tmp_path / "x" / file).unlink()
    with pytest.raises(PotluckError, match="program-01: would be overwritten"):
        begin_sweep(SWEEP, tmp_path / "x")
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "scenario.toml").write_text("mine")
    with pytest.raises(PotluckError, match=r"scenario.toml: would be overwritten"):
        begin_sweep(SWEEP, tmp_path / "y")
    assert (tmp_path / "y" / "scenario.toml").read_text() == "mine"


def test_a_table_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    begin_sweep(SWEEP, tmp_path / "x")
    (tmp_path / "x" / "program-01").write_text("in the way")
    with pytest.raises(PotluckError, match=r"program-01: not written \(file exists\)"):
        list(run_sweep(tmp_path / "x"))


def test_a_sweep_of_three_fields_fits_eighty_columns() -> None:
    names = ("mechanism.intensity", "silos.profit.deviation", "energy_price")
    config = SweepConfig(BASE, tuple((name, (0.125,)) for name in names))
    mean = {"mean": 12345.678, "low": 12000.0, "high": 12700.0}
    cell = {
        "values": dict.fromkeys(names, 0.0001234),
        "welfare": mean,
        "precision": {"mean": 0.95},
        "contribution": {"mean": 0.5},
    }
    said = io.StringIO()
    Console(width=80, file=said).print(_by_cell([cell], config))
    assert "…" not in said.getvalue()
    assert "12345.68 ± 350.00" in said.getvalue()
    assert "intensity" in said.getvalue()
    assert max(map(len, said.getvalue().splitlines())) <= 80
