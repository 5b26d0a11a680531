"""Who was stopped, restored, refused or late goes on: accounts reach the last slot, and every decision is paid once."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from potluck.flower import contributed_samples, contribution
from potluck.flower.consortium import Consortium
from potluck.flower.coordinator import MOST_TOLD
from potluck.flower.deciders import LearnerState, decider
from potluck.flower.site import read_site
from potluck.flower.state import load_state
from potluck.flower.wire import RECORD, Rules
from potluck.game.observation import observation_size
from potluck.ledger import Ledger, Opening, Statement, read_key, verify
from tests.flower.local import (
    START,
    LocalGrid,
    account_of,
    change_site,
    client_app,
    consortium_in,
    copy_of,
    incentivized,
    notices,
    played,
    receipts_of,
    rows,
    scenario_of,
    state_of,
)


def slot_of(message: Message) -> int:
    return int(message.content.config_records[RECORD]["slot"])


def killed_before(grid: LocalGrid, slot: int) -> None:
    """The coordinator dies before it asks for a slot: what it has settled is not handed over."""

    def die(message: Message) -> Message:
        if slot_of(message) == slot:
            raise InterruptedError
        return message

    grid.tamper = die


def receipts(consortium: Consortium, silo: int = 0) -> list[Statement]:
    return [Statement.from_bytes(line) for line in receipts_of(consortium, silo).read_bytes().splitlines()]


def test_a_silo_whose_answers_are_refused_still_receives_and_countersigns(
    consortium: Consortium, grid: LocalGrid
) -> None:
    def misshapen(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == 3 and slot_of(reply) > 1 and reply.content.array_records:
            reply.content["arrays"] = ArrayRecord([np.zeros(5, np.float32)])
        return [reply]

    grid.replies = misshapen
    incentivized(consortium).start(grid, START, num_rounds=4)
    assert played(consortium, 2) == [1.0, None, None, None]
    assert all(row.countersigned for row in rows(consortium, silo="silo-2"))
    assert account_of(consortium, 2).slot == 4


def test_a_site_may_veto_a_slot_that_was_asked_for_before(consortium: Consortium, grid: LocalGrid) -> None:
    def die(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == 1:  # silo-0 has decided and trained
            raise InterruptedError
        return [reply]

    grid.replies = die
    with pytest.raises(InterruptedError):
        incentivized(consortium).start(grid, START, num_rounds=1)
    grid.replies = lambda reply: [reply]
    change_site(consortium, 0, cap=0.0)
    incentivized(consortium).start(grid, START, num_rounds=2)
    assert played(consortium) == [0.0, 0.0]
    assert account_of(consortium, 0).slot == 2


def test_a_silo_that_lost_its_state_catches_up_and_says_so(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    def lose(message: Message) -> Message:
        if message.metadata.dst_node_id == 1 and slot_of(message) == 4:
            consortium.state(0).unlink(missing_ok=True)
        return message

    grid.tamper = lose
    incentivized(consortium).start(grid, START, num_rounds=6)
    assert account_of(consortium, 0).slot == 6
    assert played(consortium) == [1.0] * 6
    warnings = [line for line in said.messages if "this silo's state does not know of it" in line]
    assert len(warnings) == 3
    assert all(row.countersigned for row in rows(consortium))


@pytest.mark.parametrize("restarted", [False, True], ids=["the coordinator lives", "the coordinator restarts"])
def test_a_silo_whose_state_was_put_back_to_an_older_copy_catches_up(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, restarted: bool
) -> None:
    copy = consortium.state(0).with_name("copy")

    def restore(message: Message) -> Message:
        if message.metadata.dst_node_id == 1 and slot_of(message) == 3:
            shutil.copy(consortium.state(0), copy)
        if message.metadata.dst_node_id == 1 and slot_of(message) == 5 and copy.exists():
            copy.rename(consortium.state(0))
        return message

    grid.tamper = restore
    for slots in (4, 3) if restarted else (7,):
        incentivized(consortium).start(grid, START, num_rounds=slots)
    assert account_of(consortium, 0).slot == 7
    assert played(consortium) == [1.0] * 7
    warnings = [line for line in said.messages if "this silo's state does not know of it" in line]
    assert [line.split()[2] for line in warnings] == ["3", "4"]
    assert all(row.countersigned for row in rows(consortium))
    assert verify(consortium.ledger, receipts=receipts(consortium)).fault is None


def test_no_message_carries_more_settlements_than_it_should(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2))
    grid = LocalGrid(consortium, [client_app() for _ in range(2)])
    everybody = dict(grid.apps)
    grid.apps.clear()
    missed = MOST_TOLD + 20
    incentivized(consortium).start(grid, START, num_rounds=missed)
    grid.apps.update(everybody)
    incentivized(consortium).start(grid, START, num_rounds=3)
    told = [len(message.content.config_records[RECORD]["statements"]) for message in notices(grid, 1)]
    assert told == [0, MOST_TOLD, 22, 1]
    assert account_of(consortium, 0).slot == missed + 3


def test_a_learner_is_paid_once_for_every_decision_and_with_its_own_payoff(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2), ["mpgd", 1.0])
    grid = LocalGrid(consortium, [client_app() for _ in range(2)])
    windows: list[int] = []
    for last in (3, 5):
        killed_before(grid, last + 1)
        with pytest.raises(InterruptedError):
            incentivized(consortium).start(grid, START, num_rounds=9)
        windows.append(checked_window(consortium, grid, unpaid=True))
    killed_before(grid, -1)
    incentivized(consortium).start(grid, START, num_rounds=2)
    windows.append(checked_window(consortium, grid, unpaid=False))
    # Windows of slots 1 and 2, of 4, of 6 and 7: the payoffs of 3 and 5 came after the next decision.
    assert windows == [2, 1, 2]
    assert state_of(consortium, 0)["earned"] == pytest.approx(sum(payoffs(consortium)), rel=1e-5)
    assert state_of(consortium, 0)["slots"] == 7


def payoffs(consortium: Consortium) -> list[float]:
    """u of silo 0, by hand: p·P − κ·v·x − C + r."""
    found = []
    for row in rows(consortium, silo="silo-0"):
        assert row.contribution is not None
        samples = max(round(row.contribution * 120), int(row.contribution > 0))
        found.append(100 * row.precision - 0.01 * 2 * samples - 0.5 + row.transfer / 1_000_000)
    return found


def checked_window(consortium: Consortium, grid: LocalGrid, *, unpaid: bool) -> int:
    """How many payoffs the learner's window holds: each one of the decision beside it, the last slots in order."""
    agent = learner(consortium, grid)
    slots, settled = int(agent.slots), len(rows(consortium, silo="silo-0"))
    assert bool(agent.decided) == unpaid
    assert slots + unpaid <= settled
    newest = settled - unpaid
    shares = played(consortium)[newest - slots : newest]
    np.testing.assert_allclose(np.asarray(agent.act.action)[:slots, 0], np.array(shares, float), rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(agent.payoff)[:slots], payoffs(consortium)[newest - slots : newest], rtol=1e-5
    )
    return slots


def learner(consortium: Consortium, grid: LocalGrid) -> Any:
    opening = Opening.from_bytes(notices(grid, 1)[0].content.config_records[RECORD]["opening"])
    rules = Rules.from_text(opening.rules)
    size = observation_size(rules.observation, rules.history, 2)
    agent = load_state(consortium.state(0), decider("mpgd", read_site(consortium.terms(0)), rules, 2, size)).agent
    assert isinstance(agent, LearnerState)
    return agent


def test_a_slot_that_ends_late_does_not_erase_the_decision_of_the_next(consortium: Consortium, grid: LocalGrid) -> None:
    late: list[Message] = []
    within: list[Message] = []
    answers: list[Message] = []
    app = ClientApp(mods=[contribution()])

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        samples = contributed_samples(120)
        if within:  # slot 1 is still at work when slot 2 is played
            answers.append(app(within.pop(), context))
        metrics = MetricRecord({"num-examples": samples, "loss": 0.5})
        return Message(RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message)

    def silo(message: Message, context: Context) -> Message:
        if "arrays" in message.content and slot_of(message) == 1:
            late.append(copy_of(message))
            return client_app()(message, grid.context(9))  # nobody is there: an error
        if late:
            within.append(message)
            assert not app(late.pop(), context).has_error()
            return answers.pop()
        return app(message, context)

    grid.apps[1] = silo
    incentivized(consortium).start(grid, START, num_rounds=4)
    assert played(consortium) == [None, 1.0, 1.0, 1.0]
    assert account_of(consortium, 0).slot == 4
    assert all(row.countersigned for row in rows(consortium))


def test_a_receipt_after_half_a_line_stands_on_its_own(consortium: Consortium, grid: LocalGrid) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    with receipts_of(consortium, 0).open("ab") as out:
        out.write(b'{"half":')
    incentivized(consortium).start(grid, START, num_rounds=1)
    first, half, second = receipts_of(consortium, 0).read_bytes().splitlines()
    assert half == b'{"half":'
    assert [Statement.from_bytes(line).slot for line in (first, second)] == [1, 2]


def test_a_second_version_of_a_slot_is_kept_once_as_evidence(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    shutil.copy(consortium.ledger, tmp_path / "fork.db")
    with Ledger(tmp_path / "fork.db", read_key(consortium.key)) as fork:
        zero = [0.0] * 4
        version, *_ = fork.record("trial", 2, signal=5.0, precision=0.5, contributions=[1.0] * 4, transfers=zero)

    def add(message: Message) -> Message:
        record = message.content.config_records[RECORD]
        if message.metadata.dst_node_id == 1 and record["slot"] == 3:
            record["statements"] = [*record["statements"], version.to_bytes()]
            grid.apps[1](copy_of(message), grid.context(1))  # and once more
        return message

    grid.tamper = add
    incentivized(consortium).start(grid, START, num_rounds=3)
    assert said.text.count("the coordinator has signed two versions of it") == 2
    assert receipts(consortium).count(version) == 1
    assert account_of(consortium, 0).slot == 4
    fault = verify(consortium.ledger, receipts=receipts(consortium)).fault
    assert fault is not None
    assert "slot 2 of run trial: silo-0 holds a receipt that is not in the chain" in fault


def test_a_run_that_is_begun_anew_under_its_old_name_is_refused(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    before = state_of(consortium, 0)
    for file in consortium.folder.glob("ledger.db*"):
        file.unlink()
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert said.text.count("run trial was played before, with another opening") == 4
    assert [row.contribution for row in rows(consortium)] == [None] * 4
    assert state_of(consortium, 0) == before
    incentivized(consortium, run="another").start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium, run="another")] == [1.0] * 4
