"""One silo's policy on its own: it decides as it did in the run, and gives nobody away."""

import hashlib
import io
import json
import os
import resource
import shutil
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.agents import Options
from potluck.errors import PotluckError
from potluck.training.config import RunConfig
from potluck.training.evaluation import episode, long_term
from potluck.training.export import MARK, export_policy, load_policy, untrained
from potluck.training.files import HASH
from potluck.training.run import Trained, start, trained
from tests.training.conftest import TINY

SILO, SEED = 2, 1


@pytest.fixture(scope="module")
def found(whole: Path) -> Trained:
    return trained(whole)


@pytest.fixture(scope="module")
def exported(found: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("elsewhere") / "policy.potluck"
    export_policy(found, SILO, SEED, place)
    return place


def seen_and_played(found: Trained, key: Any) -> tuple[Array, Array]:
    """A game as `episode` plays it, with what was seen: [slots, players, …] of both."""
    setup, agents = found.of_seed(SEED)
    resetting, stepping = jax.random.split(key)

    @eqx.filter_jit
    def whole_game(setup: Any, agents: Any) -> tuple[Array, Array]:
        environment, learner = setup.environment, setup.learner

        def slot(carry: tuple[Any, Any], key: Any) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
            state, memory = carry
            seen = environment.observe(state)
            memory, actions = jax.vmap(learner.play)(agents, memory, seen)
            state, _, report = environment.step(state, actions, key)
            return (state, memory), (seen, report.contributions)

        first = (environment.reset(resetting), jax.vmap(learner.initial_memory)(agents))
        played: tuple[Array, Array] = jax.lax.scan(slot, first, jax.random.split(stepping, environment.horizon))[1]
        return played

    return whole_game(setup, agents)


def test_an_exported_policy_decides_as_it_does_in_the_run(found: Trained, exported: Path) -> None:
    key = jax.random.key(5)
    seen, played = seen_and_played(found, key)
    _, report = eqx.filter_jit(episode)(*found.of_seed(SEED), key)
    assert_allclose(played, report.contributions, atol=1e-6)
    policy = load_policy(exported)
    for _ in range(2):  # a second game after a fresh start is the same
        policy.start()
        decided = [policy.decide(slot) for slot in np.asarray(seen)[:, SILO]]
        assert_allclose(decided, played[:, SILO], atol=1e-5)
    assert policy.about["silo"] == SILO


def test_memory_is_carried_from_slot_to_slot(found: Trained, exported: Path) -> None:
    seen, _ = seen_and_played(found, jax.random.key(5))
    policy = load_policy(exported)
    first, second = policy.decide(seen[0, SILO]), policy.decide(seen[0, SILO])
    assert first != second


@pytest.mark.slow
def test_a_policy_needs_no_run_folder_nor_federation(exported: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    shutil.copy(exported, tmp_path / "alone.potluck")
    script = (
        "import sys; from potluck.training.export import load_policy; policy = load_policy('alone.potluck'); "
        "d = policy.decide([0.5] * policy.observation_size); assert 0 <= d <= 1; "
        "assert 'potluck.federation' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_the_file_gives_nobody_else_away(found: Trained, exported: Path) -> None:
    content = exported.read_bytes()

    def inside(numbers: Any) -> bool:
        return np.ascontiguousarray(numbers).tobytes() in content

    agents = found.runs.agents
    own = jax.tree.leaves(eqx.filter(agents.actor, eqx.is_array))
    assert all(inside(leaf[SEED, SILO]) for leaf in own)
    # two numbers or more, none of them what a fresh optimiser or an empty statistic would hold everywhere
    telling = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(agents, eqx.is_inexact_array)) if leaf.ndim > 2]
    others = [leaf[seed, silo] for leaf in telling for seed in range(2) for silo in range(3) if (seed, silo) != (1, 2)]
    assert len(others) > 100
    assert not any(inside(numbers) for numbers in others if np.unique(numbers).size > 1)
    critic = jax.tree.leaves(eqx.filter(agents.critic, eqx.is_array))
    assert not any(inside(leaf[SEED, SILO]) for leaf in critic if leaf.ndim > 2)
    setup, _ = found.of_seed(SEED)
    terms = setup.environment.game.terms  # type: ignore[attr-defined]
    for numbers in (terms.profit, terms.energy, terms.samples):
        assert not any(inside(number) for number in np.asarray(numbers))


def flip(content: bytes) -> bytes:
    spoilt = bytearray(content)
    spoilt[len(spoilt) // 2] ^= 1
    return bytes(spoilt)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, "its hash is wrong"),
        (lambda content: content[:-100], "its hash is wrong"),
        (lambda content: content[:20], "its hash is wrong"),
        (lambda _: b"", "another kind of file"),
        (lambda _: b"name,age\n", "another kind of file"),
    ],
)
def test_a_damaged_file_costs_one_line(damage: Any, message: str, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "p.potluck").write_bytes(damage(exported.read_bytes()))
    with pytest.raises(PotluckError, match=message) as refusal:
        load_policy(tmp_path / "p.potluck")
    assert "\n" not in str(refusal.value)


def test_what_cannot_be_seen_or_found_is_named(exported: Path, tmp_path: Path) -> None:
    policy = load_policy(exported)
    with pytest.raises(PotluckError, match="observation must be 10 numbers"):
        policy.decide([0.0])
    with pytest.raises(PotluckError, match="observation must be finite"):
        policy.decide([np.nan] * 10)
    with pytest.raises(PotluckError, match="no such file"):
        load_policy(tmp_path / "nowhere")
    with pytest.raises(PotluckError, match="is a directory"):
        load_policy(tmp_path)


def test_shares_in_percent_are_named(exported: Path) -> None:
    policy = load_policy(exported)
    seen = np.full(10, 0.5)
    seen[0] = 50.0  # what another silo brought
    with pytest.raises(PotluckError, match=r"number 0 must be in \[0, 1\], got 50; observe_one writes shares"):
        policy.decide(seen)
    seen[0], seen[2] = 0.5, 7.5  # a silo's own communication cost is its own affair
    assert 0 <= policy.decide(seen) <= 1


def rehashed(payload: bytes) -> bytes:
    return MARK + hashlib.sha256(payload).digest() + payload


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, arrays = content[len(MARK) + HASH :].partition(b"\n")
    return json.loads(line), arrays


def bomb() -> bytes:
    """A zip that unpacks to a gigabyte."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        for _ in range(1024):
            file.write(bytes(2**20))
    return packed.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: (header, b""),
        lambda header, arrays: (header, arrays[:-7]),
        lambda header, arrays: (header, arrays + arrays),
        lambda header, arrays: (header, arrays.replace(b"<f4", b"<f8")),
        lambda header, arrays: (header, b"PK" + arrays),
        lambda header, _: (header, bomb()),
        lambda header, arrays: ({**header, "actor": "nobody"}, arrays),
        lambda header, arrays: ({**header, "settings": {}}, arrays),
        lambda header, arrays: ({**header, "low": None}, arrays),
        lambda header, arrays: ({key: value for key, value in header.items() if key != "about"}, arrays),
        lambda header, arrays: ({**header, "settings": {**header["settings"], "hidden": [10**9, 10**9]}}, arrays),
        lambda header, arrays: ({**header, "settings": {**header["settings"], "hidden": "many"}}, arrays),
        lambda _, arrays: ([1, 2], arrays),
    ],
)
def test_a_file_with_a_right_hash_and_wrong_content_is_refused(change: Any, exported: Path, tmp_path: Path) -> None:
    header, arrays = change(*header_of(exported.read_bytes()))
    (tmp_path / "p.potluck").write_bytes(rehashed(json.dumps(header).encode() + b"\n" + arrays))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PotluckError, match="not a policy that can be used") as refusal:
        load_policy(tmp_path / "p.potluck")
    assert "\n" not in str(refusal.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


@pytest.mark.parametrize("change", [{"silos": 5}, {"slots": 0}, {"slots": 30_000_000}, {"history": 3}])
def test_sizes_that_no_array_has_are_checked_too(change: dict[str, int], tmp_path: Path) -> None:
    export_policy(untrained(TINY), 0, TINY.seed, tmp_path / "whole")
    header, arrays = header_of((tmp_path / "whole").read_bytes())
    header["settings"] |= change
    (tmp_path / "p.potluck").write_bytes(rehashed(json.dumps(header).encode() + b"\n" + arrays))
    with pytest.raises(PotluckError, match="not a policy that can be used"):
        load_policy(tmp_path / "p.potluck")


def test_nothing_in_the_file_leads_to_a_preset_s_terms(exported: Path) -> None:
    header, _ = header_of(exported.read_bytes())
    assert "seed" not in json.dumps(header)
    assert header["about"].keys() == {"agent", "silo", "silos", "history", "observation"}


@pytest.mark.parametrize("place", [".", "/", "", "folder"])
def test_a_folder_is_no_file_to_export_to(
    place: str, found: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(PotluckError, match="is a folder; name a file"):
        export_policy(found, 0, SEED, place)


def test_what_is_no_file_is_not_replaced(found: Trained, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PotluckError, match="not a file that can be replaced"):
        export_policy(found, 0, SEED, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_who_is_not_there_cannot_be_exported(found: Trained, tmp_path: Path) -> None:
    with pytest.raises(PotluckError, match="silo must be 0 to 2"):
        export_policy(found, 3, SEED, tmp_path / "p")
    with pytest.raises(PotluckError, match="seed must be one that was trained: 0 to 1"):
        export_policy(found, 0, 2, tmp_path / "p")
    with pytest.raises(PotluckError, match="no such file or directory"):
        export_policy(found, 0, 0, tmp_path / "nowhere" / "p")


def test_a_fixed_contribution_can_be_exported_too(tmp_path: Path) -> None:
    list(start(RunConfig(TINY, "fixed:0.25", Options(), slots=24, seeds=1, games=2, window=4), tmp_path / "run"))
    export_policy(trained(tmp_path / "run"), 0, 0, tmp_path / "p")
    assert load_policy(tmp_path / "p").decide(np.zeros(10)) == 0.25


def test_long_term_payoff_is_the_discounted_mean() -> None:
    # γ = ½: weights 4, 2, 1 of 7
    assert_allclose(long_term(jnp.array([[7.0], [14.0], [28.0]]), 0.5), [12.0])
