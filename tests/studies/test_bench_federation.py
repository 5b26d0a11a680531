"""The race between engines, run with real processes of tiny scripts."""

import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from potluck.errors import PotluckError
from potluck.studies.benchmarks.federation import A_TENTH, OURS, OURS_AT_A_TENTH, Contest, flops, race
from potluck.studies.benchmarks.peers import Absent, Peer, peers_in
from potluck.studies.benchmarks.peers import run as run_peer
from potluck.studies.benchmarks.work import Timing

Script = Callable[..., Peer]
run = partial(run_peer, kind=Timing)

ANSWER = """
import json, sys
from pathlib import Path
data, speed, accuracy = sys.argv[1:4]
with Path(data).open("a") as log:
    log.write(f"{speed} ")
print("a warning nobody asked for")
print(json.dumps({"engine": "x", "rounds_per_second": float(speed), "accuracy": float(accuracy), "version": "1"}))
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes a module of the given source that a process of its own can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("POTLUCK_PEERS_PYTHON", raising=False)

    def make(source: str, *arguments: str) -> Peer:
        name = f"engine_{abs(hash(source))}"
        (tmp_path / f"{name}.py").write_text(source)
        return Peer(name, "the-rival==1.0", arguments)

    return make


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_the_answer_is_the_last_line_of_what_a_rival_prints(script: Script, data: Path) -> None:
    assert run(script(ANSWER, "12.5", "0.82"), data) == Timing(12.5, 0.82, "1", "cpu")


def test_a_rival_that_is_not_installed_says_how_to_install_it(script: Script, data: Path) -> None:
    assert run(script("import no_such_rival"), data) == Absent("not installed: pip install the-rival==1.0")


def test_a_rival_that_fails_says_its_last_words(script: Script, data: Path) -> None:
    assert run(script("raise ValueError('out of luck')"), data) == Absent("failed: ValueError: out of luck")


@pytest.mark.parametrize("words", ["", "hello", "[1]", '{"engine": "x"}', '{"rounds_per_second": "fast"}'])
def test_a_rival_that_does_not_answer_is_no_rival(script: Script, data: Path, words: str) -> None:
    answer = run(script(f"print({words!r})"), data)
    assert isinstance(answer, Absent)
    assert "no answer" in answer.reason


def test_an_interpreter_that_is_not_there_is_named(script: Script, data: Path) -> None:
    answer = run(script(ANSWER, "1", "1"), data, python="/no/such/python")
    assert answer == Absent("/no/such/python does not start: No such file or directory")


def test_the_environment_names_the_interpreter_of_the_rivals(
    script: Script, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POTLUCK_PEERS_PYTHON", "/no/such/python")
    answer = run(script(ANSWER, "1", "1"), data)
    assert isinstance(answer, Absent)
    assert answer.reason.startswith("/no/such/python")


@pytest.mark.parametrize("afterwards", ["time.sleep(60)", "print('done')"])
def test_what_a_rival_started_ends_with_it(script: Script, data: Path, tmp_path: Path, afterwards: str) -> None:
    note = tmp_path / "child"
    source = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
pathlib.Path({str(note)!r}).write_text(str(child.pid))
{afterwards}
"""
    assert isinstance(run(script(source), data, seconds=2), Absent)
    assert ends(int(note.read_text()))


def ends(pid: int, within: float = 5) -> bool:
    """Whether the process is gone, or a zombie waiting for its new parent, before the time is up."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if state.stdout.strip()[:1] in ("", "Z"):
            return True
        time.sleep(0.05)
    return False


def test_engines_take_turns_and_the_best_run_counts(script: Script, data: Path) -> None:
    speeds = iter([1.0, 3.0, 2.0])
    engines: dict[str, Callable[[Path], Timing | Absent]] = {
        "a": partial(run, script(ANSWER, "10", "0.80")),
        "b": lambda data: run(script(ANSWER, str(next(speeds)), "0.82"), data),
        "c": partial(run, script("import no_such_rival")),
    }
    rows = race(engines, data, Contest(), peak=1e12)
    assert data.read_text().split() == ["10", "1.0", "10", "3.0", "10", "2.0"]
    assert [(row.engine, row.rounds_per_second, row.accuracy) for row in rows] == [
        ("a", 10.0, 0.80),
        ("b", 3.0, 0.82),
        ("c", None, None),
    ]
    assert rows[2].note == "not installed: pip install the-rival==1.0"
    assert rows[0].peak_share == pytest.approx(10 * flops(Contest()) / 1e12)


def test_a_row_says_what_was_contributed_and_what_share_of_a_full_round_it_cost(script: Script, data: Path) -> None:
    source = ANSWER.replace('"version": "1"', '"version": "1", "cost_share": 0.2')
    (row,) = race({"a": partial(run, script(source, "300", "0.65"))}, data, A_TENTH, repeats=1)
    assert (row.contribution, row.cost_share) == (0.1, 0.2)
    (row,) = race({"a": partial(run, script(ANSWER, "60", "0.82"))}, data, Contest(), repeats=1)
    assert (row.contribution, row.cost_share) == (1.0, None)


@pytest.mark.parametrize("accuracy", ["0.7", "nan"])
def test_engines_that_end_at_different_accuracies_are_not_compared(script: Script, data: Path, accuracy: str) -> None:
    engines = {
        "a": partial(run, script(ANSWER, "10", "0.80")),
        "b": partial(run, script(ANSWER, "11", "0.81")),
        "hasty": partial(run, script(ANSWER, "99", accuracy)),
    }
    with pytest.raises(PotluckError, match=r"hasty ends at accuracy .*cannot be compared"):
        race(engines, data, Contest(), repeats=1)


def test_flops_of_a_round_by_hand() -> None:
    # layers 3·4 and 4·2: forward 2·(12 + 8) = 40; both weight gradients 40; one input gradient 2·8 = 16
    contest = Contest(sizes=(3, 4, 2), silos=2, samples=5, tests=7, games=3)
    assert flops(contest) == 3 * (2 * 5 * (40 + 40 + 16) + 7 * 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "shared"),
    [
        pytest.param(OURS, False, id="all"),
        pytest.param(OURS_AT_A_TENTH, True, id="a tenth"),
    ],
)
def test_our_engine_answers_as_its_rivals_do(tmp_path: Path, engine: Peer, shared: bool) -> None:
    # each class lights pixels of its own, so any engine that learns at all gets everything right
    rng = np.random.default_rng(0)
    y, y_test = rng.integers(4, size=(2, 500)), rng.integers(4, size=100)
    light = np.repeat(np.eye(4, dtype=np.uint8) * 255, 8, axis=1)
    w1, w2 = rng.normal(0, 0.2, (32, 16)), rng.normal(0, 0.2, (16, 4))
    path = tmp_path / "work.npz"
    arrays: dict[str, NDArray[Any]] = {"x_train": light[y], "y_train": y, "x_test": light[y_test], "y_test": y_test}
    arrays |= {"w1": w1, "b1": np.zeros(16), "w2": w2, "b2": np.zeros(4)}
    np.savez(path, allow_pickle=False, **arrays)
    answer = run(engine, path)
    assert isinstance(answer, Timing), answer
    assert answer.accuracy == 1
    assert answer.rounds_per_second > 0
    assert (answer.cost_share is not None) == shared
    assert answer.cost_share is None or answer.cost_share > 0


OURS_OF_OTHERS = Path(__file__).parents[2] / "benchmarks" / "peers"


@pytest.mark.parametrize("work", ["federation", "memory"])
def test_every_rival_of_the_repository_is_a_module_of_its_folder(work: str) -> None:
    rivals = peers_in(OURS_OF_OTHERS, work)
    assert rivals
    for rival in rivals.values():
        package, _, module = rival.module.partition(".")
        assert package == "peers"
        assert (OURS_OF_OTHERS / module).with_suffix(".py").is_file()


def test_a_folder_of_rivals_runs_as_a_package(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules may import one another, and be called as the engine that they run."""
    monkeypatch.delenv("POTLUCK_PEERS_PYTHON", raising=False)
    folder = tmp_path / "rivals"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "speed.py").write_text("FAST = 7.5\n")
    (folder / "json.py").write_text(
        "import json\nfrom .speed import FAST\n"
        'print(json.dumps({"rounds_per_second": FAST, "accuracy": 0.5, "version": "2"}))\n'
    )
    (folder / "peers.toml").write_text('[federation.Rival]\nmodule = "json"\ninstall = "rival"\n')
    assert run(peers_in(folder, "federation")["Rival"], data) == Timing(7.5, 0.5, "2", "cpu")
    assert peers_in(folder, "memory") == {}


@pytest.mark.parametrize("text", [None, "[federation", "[federation.Rival]\nmodule = 'x'", "federation = 3"])
def test_a_folder_that_lists_no_rivals_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "peers.toml").write_text(text)
    with pytest.raises(PotluckError, match=r"peers: .*peers\.toml"):
        peers_in(tmp_path, "federation")
