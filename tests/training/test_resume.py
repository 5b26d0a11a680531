"""However a run is stopped, it ends with the same numbers."""

import dataclasses
import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from potluck.errors import PotluckError
from potluck.training import checkpoints, config, run
from potluck.training.config import read_config, seeds_of
from potluck.training.job import Job
from potluck.training.loop import Runs, train
from potluck.training.run import resume, start, trained
from tests.training.conftest import CONFIG, TINY


def metrics(folder: Path) -> bytes:
    return (folder / "metrics.csv").read_bytes()


def finish(folder: Path) -> int:
    """Chunks that were still to do."""
    return sum(1 for _ in resume(folder))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def test_metrics_are_a_table_that_pandas_opens_in_one_call(whole: Path) -> None:
    table = pd.read_csv(whole / "metrics.csv")
    assert list(table.columns[:5]) == ["seed", "slot", "welfare", "precision", "signal"]
    assert len(table) == CONFIG.seeds * CONFIG.chunks * CONFIG.chunk
    assert table.slot.max() == CONFIG.slots
    payoffs = table[[f"payoff_{n}" for n in range(3)]].sum(axis=1)
    assert_allclose(payoffs, table.welfare, rtol=1e-5)
    assert table.isna().sum().sum() == 0


def test_the_plan_and_the_versions_are_beside_them(whole: Path) -> None:
    assert read_config(whole) == CONFIG
    assert '"jax"' in (whole / "run.json").read_text()


def test_same_seed_same_bits_and_different_seeds_differ(whole: Path, tmp_path: Path) -> None:
    list(start(CONFIG, tmp_path / "again"))
    assert metrics(tmp_path / "again") == metrics(whole)
    table = pd.read_csv(whole / "metrics.csv").set_index(["seed", "slot"])
    assert (table.loc[0].welfare != table.loc[1].welfare).all()


@pytest.mark.parametrize("chunks", [1, *(pytest.param(chunks, marks=pytest.mark.slow) for chunks in (2, 3))])
def test_a_run_closed_after_any_chunk_goes_on_to_the_same_metrics(chunks: int, whole: Path, tmp_path: Path) -> None:
    begun = start(CONFIG, tmp_path / "run")
    assert len(list(itertools.islice(begun, chunks))) == chunks
    begun.close()
    assert finish(tmp_path / "run") == CONFIG.chunks - chunks
    assert metrics(tmp_path / "run") == metrics(whole)


def test_what_was_written_after_the_last_checkpoint_is_cut_off(whole: Path, stopped: Path) -> None:
    with (stopped / "metrics.csv").open("ab") as file:
        file.write(b"1,250,31")
    assert finish(stopped) == 1
    assert metrics(stopped) == metrics(whole)


def test_a_finished_run_stays_as_it_is(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    assert finish(tmp_path / "run") == 0
    assert metrics(tmp_path / "run") == metrics(whole)


@pytest.mark.parametrize("damage", [flip, *(pytest.param(damage, marks=pytest.mark.slow) for damage in (cut, empty))])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    damage: Callable[[Path], None], whole: Path, stopped: Path
) -> None:
    damage(stopped / "checkpoints" / "00000003.ckpt")
    with pytest.warns(UserWarning, match=r"00000003.ckpt: damaged \((its hash is wrong|it is another kind of file)\)"):
        assert finish(stopped) == 2
    assert metrics(stopped) == metrics(whole)


def test_a_checkpoint_of_another_run_is_no_checkpoint(whole: Path, stopped: Path) -> None:
    plan = Job.of_run(CONFIG, stopped).plan
    other = checkpoints.Checkpoint(Runs({"weights": jnp.ones((2, 2))}, None, None), 3, 10, "", plan)
    checkpoints.save(stopped / "checkpoints", other)
    with pytest.warns(UserWarning, match="its arrays have other shapes"):
        assert finish(stopped) == 2
    assert metrics(stopped) == metrics(whole)


def test_with_every_checkpoint_damaged_a_run_begins_again_and_keeps_its_new_ones(whole: Path, stopped: Path) -> None:
    for file in (stopped / "checkpoints").glob("*.ckpt"):
        flip(file)
    begun = pytest.warns(UserWarning, match="damaged")
    with begun:
        again = resume(stopped, interval=0.0)
    next(again)
    again.close()
    # the damaged ones, 2 and 3, must not crowd out the new first one
    assert [file.name for file in (stopped / "checkpoints").glob("*.ckpt")] == ["00000001.ckpt"]
    assert finish(stopped) == 3
    assert metrics(stopped) == metrics(whole)


@pytest.mark.parametrize(
    "damage", [cut, *(pytest.param(damage, marks=pytest.mark.slow) for damage in (empty, Path.unlink))]
)
def test_lost_metrics_cost_time_but_are_not_made_up(damage: Callable[[Path], None], whole: Path, stopped: Path) -> None:
    damage(stopped / "metrics.csv")
    with pytest.warns(UserWarning, match="bytes of its metrics are lost"):
        assert finish(stopped) >= 2
    assert metrics(stopped) == metrics(whole)


def test_a_run_killed_before_its_first_chunk_begins_again(whole: Path, stopped: Path) -> None:
    shutil.rmtree(stopped / "checkpoints")
    (stopped / "metrics.csv").write_bytes(b"")
    assert finish(stopped) == 4
    assert metrics(stopped) == metrics(whole)


def spoilt(train: Callable[..., Any]) -> Callable[..., Any]:
    """Training that goes wrong for silo 2 of the second seed before the last chunk, and soon for everyone."""

    def wrong(config: Any, runs: Runs, slot: Any) -> Any:
        if int(slot) == 3 * CONFIG.chunk * CONFIG.depth:
            bias = runs.agents.actor.head.bias.at[1, 2, 0].set(jnp.nan)
            runs = eqx.tree_at(lambda r: r.agents.actor.head.bias, runs, bias)
        return train(config, runs, slot)

    return wrong


def test_learning_that_breaks_down_names_slot_and_silo_and_keeps_the_last_checkpoint(
    whole: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(run, "train", spoilt(train))
        with pytest.raises(PotluckError, match="silo 2 of seed 1 learnt a value that is no number by slot 144"):
            finish(stopped)
    assert np.isfinite(trained(stopped).runs.agents.actor.head.bias).all()
    assert finish(stopped) == 1
    assert metrics(stopped) == metrics(whole)


@pytest.mark.parametrize(("call", "what"), [(0, r"metrics.csv: not written"), (1, r"00000004.ckpt: checkpoint not")])
def test_a_full_disk_costs_one_line_and_nothing_is_lost(
    call: int, what: str, whole: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def full(_: int) -> None:
        if next(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as crowded:
        crowded.setattr(os, "fsync", full)
        with pytest.raises(PotluckError, match=rf"{what}.*\(no space left on device\)") as refusal:
            finish(stopped)
    assert "\n" not in str(refusal.value)
    assert not list(stopped.rglob("*.part"))
    assert finish(stopped) == 1
    assert metrics(stopped) == metrics(whole)


@pytest.mark.slow
def test_a_seed_alone_learns_what_it_learns_among_others(whole: Path, tmp_path: Path) -> None:
    list(start(dataclasses.replace(CONFIG, seeds=1), tmp_path / "run"))
    mine, among = pd.read_csv(tmp_path / "run" / "metrics.csv"), pd.read_csv(whole / "metrics.csv")
    among = among[among.seed == TINY.seed].reset_index(drop=True)
    # Not bit for bit: XLA may order a sum otherwise when there is another axis beside it (2e-6 seen). A policy's loss
    # is a mean of numbers of order 1 that nearly cancel, so its error is absolute (1e-5 seen).
    assert_allclose(mine.to_numpy(), among.to_numpy(), rtol=1e-4, atol=3e-5)


def test_what_a_run_did_not_write_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("scenario.toml", "metrics.csv"):
        mine = tmp_path / name[:2] / name
        mine.parent.mkdir()
        mine.write_text("mine")
        with pytest.raises(PotluckError, match=f"{name}: would be overwritten; name another folder"):
            start(CONFIG, mine.parent)
        assert mine.read_text() == "mine"


def test_a_policy_outlives_its_metrics(stopped: Path) -> None:
    (stopped / "metrics.csv").unlink()
    found = trained(stopped)
    assert not found.finished
    assert found.slots == 144


def test_a_folder_holds_one_run(whole: Path) -> None:
    with pytest.raises(PotluckError, match="holds a run; go on with `potluck resume"):
        start(CONFIG, whole)


def test_two_processes_do_not_train_the_same_run(stopped: Path, whole: Path) -> None:
    first = resume(stopped)
    with pytest.raises(PotluckError, match="another process is training here"):
        resume(stopped)
    assert len(list(first)) == 1
    assert metrics(stopped) == metrics(whole)
    assert finish(stopped) == 0


def test_seeds_beyond_32_bits_are_refused_and_the_last_one_is_not() -> None:
    last = TINY.model_copy(update={"seed": 2**32 - 1})
    assert int(seeds_of(dataclasses.replace(CONFIG, scenario=last, seeds=1))[0]) == 2**32 - 1
    with pytest.raises(PotluckError, match="seeds must stay below"):
        dataclasses.replace(CONFIG, scenario=last)


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("scenario.toml", "energy_price = 0.0025", "energy_price = 0.003"),
        ("run.json", '"slots": 192', '"slots": 96'),
        ("run.json", '"agent": "mpgd"', '"agent": "lineage"'),
        ("run.json", '"dnc": "both"', '"dnc": "critic"'),
    ],
)
def test_what_was_learnt_under_another_plan_is_refused_by_name(file: str, old: str, new: str, stopped: Path) -> None:
    before = metrics(stopped)
    edited(stopped / file, old, new)
    for ask in (resume, trained):
        with pytest.raises(PotluckError, match=r"\.ckpt: was learnt under another plan; put back run.json or"):
            ask(stopped)
    assert metrics(stopped) == before
    edited(stopped / file, new, old)
    assert finish(stopped) == 1


def test_checkpoints_of_a_run_that_was_cleared_away_by_half_are_not_taken_over(stopped: Path) -> None:
    for file in ("run.json", "metrics.csv", "scenario.toml"):
        (stopped / file).unlink()
    with pytest.raises(PotluckError, match="holds what another run has learnt"):
        start(dataclasses.replace(CONFIG, slots=96), stopped)


@pytest.mark.parametrize("left", [("lock",), ("lock", "scenario.toml"), ("lock", "scenario.toml", "metrics.csv")])
def test_a_beginning_that_was_cut_short_can_be_begun_again(left: tuple[str, ...], whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).write_bytes(b"")
    list(start(CONFIG, folder))
    assert metrics(folder) == metrics(whole)


def test_files_of_somebody_else_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text("mine")
    with pytest.raises(PotluckError, match=r"scenario.toml: would be overwritten"):
        start(CONFIG, tmp_path)
    (tmp_path / "lock").touch()
    (tmp_path / "metrics.csv").write_text("seed,slot\n")
    with pytest.raises(PotluckError, match=r"metrics.csv: would be overwritten"):
        start(CONFIG, tmp_path)
    assert (tmp_path / "scenario.toml").read_text() == "mine"


def test_a_full_disk_at_the_beginning_leaves_a_folder_that_can_be_begun_in(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(config, "write_text", full)
        with pytest.raises(PotluckError, match="no space left"):
            start(CONFIG, tmp_path / "run")
    list(start(CONFIG, tmp_path / "run"))
    assert metrics(tmp_path / "run") == metrics(whole)


@pytest.mark.parametrize("change", [lambda row: row.replace(b"1", b"2", 1), lambda row: b"\0" * len(row)])
def test_changed_metrics_are_neither_kept_nor_thrown_away(change: Callable[[bytes], bytes], stopped: Path) -> None:
    lines = metrics(stopped).splitlines(keepends=True)
    lines[2] = change(lines[2])
    (stopped / "metrics.csv").write_bytes(b"".join(lines))
    with pytest.raises(PotluckError, match=r"metrics.csv: was changed after it was written"):
        resume(stopped)
    assert len(list((stopped / "checkpoints").glob("*.ckpt"))) == 2


@pytest.mark.parametrize("written", ["null", "[]", '"x"'])
def test_a_run_that_does_not_say_with_what_it_was_computed_goes_on(written: str, whole: Path, stopped: Path) -> None:
    text = (stopped / "run.json").read_text()
    at = text.index('"computed_with": ') + len('"computed_with": ')
    (stopped / "run.json").write_text(text[:at] + written + "\n}")
    assert finish(stopped) == 1
    assert metrics(stopped) == metrics(whole)


def test_other_devices_or_versions_are_said_on_resuming(whole: Path, stopped: Path) -> None:
    edited(stopped / "run.json", '"jax": "', '"jax": "9')
    with pytest.warns(UserWarning, match=r"was begun with jax 9.*, now .*: it goes on"):
        assert finish(stopped) == 1
    assert metrics(stopped) == metrics(whole)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"seeds": 2', '"seeds": 1.5', "seeds must be a whole number, got 1.5"),
        ('"agent": "mpgd"', '"agent": null', "agent must be a name, got None"),
        ('"seeds": 2', '"seeds": ' + "[" * 100_000, "cannot be read as a run"),
        ('"window": 3', '"window": true', "window must be a whole number, got True"),
    ],
)
def test_a_damaged_plan_is_named(old: str, new: str, words: str, stopped: Path) -> None:
    edited(stopped / "run.json", old, new)
    with pytest.raises(PotluckError, match=words):
        read_config(stopped)


def test_what_was_left_to_the_agent_is_written_down(whole: Path) -> None:
    written = json.loads((whole / "run.json").read_text())
    assert written["options"] == {"estimator": "ppo", "target": "td-lambda", "policy": "gaussian", "dnc": "both"}
    assert written["computed_with"].keys() >= {"jax", "devices", "python"}


@pytest.mark.parametrize(("field", "number"), [("seeds", 4_000_000), ("games", 10**12), ("window", 99_999_999_999)])
def test_what_the_memory_cannot_hold_is_refused_before_it_begins(field: str, number: int, tmp_path: Path) -> None:
    changes: dict[str, Any] = {field: number}
    asked = dataclasses.replace(CONFIG, **changes)
    with pytest.raises(PotluckError, match=rf"{field}: about [\d,.]+ GiB of memory would be needed"):
        start(asked, tmp_path / "run")
    assert not (tmp_path / "run").exists()
