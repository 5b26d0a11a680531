"""A deployment with TLS and node authentication: real SuperLink, SuperNodes, ServerApps and ClientApps."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium
from potluck.flower.credentials import make_node_key
from potluck.flower.federation import Federation, deployed, node_config
from potluck.ledger import reading, verify
from tests.flower.local import consortium_in, rows, scenario_of, state_of
from tests.flower.real import finish, start, wait_for

pytestmark = pytest.mark.slow
FAULTS = ["nan", "d>1", "negative", "shape", "100MB"]
SLOTS = 10
"""Of a run in which a silo is killed: it takes a few until a new SuperNode has joined."""


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Consortium:
    # A learner's window is five slots where games are shorter than eight.
    agents = getattr(request, "param", [0.75, 0.5, 0.25])
    return consortium_in(tmp_path_factory.mktemp("deployment"), scenario_of(3, horizon=3), agents)


@pytest.fixture(scope="module")
def federation(consortium: Consortium) -> Iterator[Federation]:
    with deployed(consortium, tls=True) as found:
        yield found


def restart(federation: Federation, consortium: Consortium, silo: int) -> None:
    """A SuperNode that comes back under its own key."""
    key = consortium.terms(silo).with_name("node.key")
    federation.start_node(consortium.names[silo], node_config(consortium, silo), key)


def test_bad_answers_of_one_silo_are_refused_and_the_others_unharmed(
    federation: Federation, consortium: Consortium
) -> None:
    start(federation, consortium, "first", 6, faults=" ".join(FAULTS))
    said = finish(federation, "first")
    bad = rows(consortium, run="first", silo="silo-2")
    assert [row.contribution for row in bad] == [None] * 5 + [0.25]
    assert [row.contribution for row in rows(consortium, run="first", silo="silo-1")] == [0.5] * 6
    for words in (
        "slot 1: the answer of silo-2 is refused: array 0 holds what is no number",
        "slot 2: the answer of silo-2 is refused: it claims 1.5",
        "slot 3: the answer of silo-2 is refused: it claims -120",
        "slot 4: the answer of silo-2 is refused: array 0 must be numbers of shape [3]",
        "slot 5: the answer of node",
        "and 1,000",  # bytes are allowed
    ):
        assert words in said
    assert said.count("absent, settled as bringing nothing: silo-2") == 5
    assert verify(consortium.ledger).fault is None
    assert all(row.countersigned for row in rows(consortium, run="first"))


def test_an_unregistered_silo_is_refused(federation: Federation, consortium: Consortium, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.key"
    make_node_key(stranger)
    federation.start_node("stranger", node_config(consortium, 0), stranger)
    wait_for(lambda: not federation.group.running("stranger"), "the refusal")
    assert federation.group.code("stranger") not in (0, None)
    assert "305" in federation.group.log("stranger").read_text()


@pytest.mark.parametrize("consortium", [["mpgd", 0.5, 0.25]], indirect=True, ids=["mpgd"])
def test_a_silo_killed_in_the_middle_of_a_slot_comes_back_and_its_agent_remembers(
    federation: Federation, consortium: Consortium
) -> None:
    start(federation, consortium, "before", 1)
    finish(federation, "before")
    before = state_of(consortium, 0)
    federation.group.stop(["silo-0"])  # the learner's node restarts between two runs
    restart(federation, consortium, 0)
    start(federation, consortium, "second", SLOTS, faults="silent", timeout=90.0)

    def at_work() -> bool:
        runs = state_of(consortium, 2)["memberships"].values()
        return any('"run":"second"' in run["account"] and run["decisions"] for run in runs)

    wait_for(at_work, "a decision of silo-2")
    os.kill(federation.group.pid("silo-2"), signal.SIGKILL)
    wait_for(lambda: not federation.group.running("silo-2"), "its end")

    def over() -> bool:
        # As a service manager would: the SuperLink takes no second node of a key until the first's heartbeat is missed.
        if not federation.group.running("silo-2"):
            restart(federation, consortium, 2)
        return not federation.group.running("second")

    wait_for(over, "the end of second")
    said = finish(federation, "second")
    shares = [row.contribution for row in rows(consortium, run="second", silo="silo-2")]
    assert shares[0] is None
    assert shares[-1] == 0.25
    assert "absent, settled as bringing nothing: silo-2" in said
    assert [row.contribution for row in rows(consortium, run="second", silo="silo-1")] == [0.5] * SLOTS
    assert all(row.countersigned for row in rows(consortium, run="second"))
    after = state_of(consortium, 0)
    assert after["slots"] == before["slots"] + SLOTS
    assert after["agent"] == before["agent"]
    assert len(after["memberships"]) == len(before["memberships"]) + 1


def test_a_coordinator_killed_in_the_middle_goes_on_under_the_same_name(
    federation: Federation, consortium: Consortium
) -> None:
    start(federation, consortium, "third", 50)
    wait_for(lambda: settled(consortium) >= 1, "the first slot")
    coordinators = [pid for pid in federation.group.members() if b"flwr-serverapp" in command(pid)]
    assert coordinators
    for pid in coordinators:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not federation.group.running("third"), "the end of the run")
    known = settled(consortium)
    start(federation, consortium, "third-again", 2, run="third")
    finish(federation, "third-again")
    slots = [row.slot for row in rows(consortium, run="third", silo="silo-0")]
    assert slots == list(range(1, known + 3))
    assert verify(consortium.ledger).fault is None


def settled(consortium: Consortium) -> int:
    try:
        with reading(consortium.ledger) as book:
            return len(list(book.rows(run="third", silo="silo-0"))) if "third" in [o.run for o in book.runs()] else 0
    except PotluckError:  # there is no ledger yet
        return 0


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
