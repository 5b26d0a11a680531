"""The silo's side: what it accepts, what it refuses, what it remembers, and how its agent learns."""

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from potluck.agents.actors import ConstantActor, NetworkActor
from potluck.agents.pretrained import OBSERVED
from potluck.errors import PotluckError
from potluck.flower import Incentivized, contribution
from potluck.flower.consortium import Consortium
from potluck.flower.deciders import Learning, Situation, decider
from potluck.flower.site import Site, read_site
from potluck.flower.state import load_state
from potluck.flower.wire import RECORD, Notice, Rules
from potluck.ledger import Opening, Statement, new_key
from potluck.training.export import MARK, export_policy, load_policy, untrained
from potluck.training.files import write_arrays
from tests.flower.local import (
    START,
    LocalGrid,
    change_site,
    client_app,
    consortium_in,
    copy_of,
    incentivized,
    notices,
    played,
    rows,
    scenario_of,
    state_of,
)

RULES = Rules(8, 7, 0.95, ("others", "communication", "signal", "precision"), "fraction", "num-examples", 0.1, {})


def policy_file(place: Path, actor: Any, silos: int = 4, history: int = 7) -> Path:
    about = {"agent": "mpgd", "silo": 0, "silos": silos, "history": history, "observation": list(RULES.observation)}
    anything = [None] * (history * (silos + 2))
    header = {"actor": actor.kind, "settings": actor.settings, "low": anything, "high": anything, "about": about}
    write_arrays(place, MARK, header, actor)
    return place


def test_the_site_can_always_cap_and_veto(consortium: Consortium, grid: LocalGrid) -> None:
    change_site(consortium, 0, cap=0.25)
    incentivized(consortium).start(grid, START, num_rounds=1)
    change_site(consortium, 0, cap=0.0)
    change_site(consortium, 1, agent=0.5)
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert played(consortium, 0) == [0.25, 0.0]
    assert played(consortium, 1) == [1.0, 0.5]
    assert played(consortium, 2) == [1.0, 1.0]


def test_a_replayed_message_is_refused(consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture) -> None:
    incentivized(consortium).start(grid, START, num_rounds=2)
    before = state_of(consortium, 0)
    for message in notices(grid, 1):
        if "arrays" in message.content:
            assert grid.apps[1](message, grid.context(1)).has_error()
    assert said.text.count("the message is a replay") == 2
    assert state_of(consortium, 0) == before


def test_the_same_slot_asked_again_gets_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A coordinator that died before it settled asks again; an agent must not draw anew.
    consortium = consortium_in(tmp_path, scenario_of(), ["random", 1.0, 1.0, 1.0])
    grid = LocalGrid(consortium, [client_app() for _ in range(4)])
    grid.replies = lambda _: []

    def die(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(Incentivized, "aggregate_train", die)
    with pytest.raises(InterruptedError):
        incentivized(consortium).start(grid, START, num_rounds=1)
    monkeypatch.undo()
    (first,) = state_of(consortium, 0)["memberships"].values()
    grid.replies = lambda reply: [reply]
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert played(consortium) == [first["decisions"]["1"]["share"]]


def altered(raw: bytes, **changes: Any) -> bytes:
    return Statement.from_bytes(raw).model_copy(update=changes).to_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: altered(raw, transfer=10**9), "altered"),
        (lambda raw: altered(raw, signature=bytes(64)), "not signed by the coordinator"),
        (lambda raw: altered(raw, silo="silo-1", place=1), "is for silo-1"),
        (lambda raw: altered(raw, slot=7), "altered|missing"),
        (lambda _: b"{}", "is not well-formed"),
    ],
    ids=["amount", "signature", "another silo's", "another slot's", "no statement at all"],
)
def test_a_forged_settlement_is_refused_and_not_countersigned(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, change: Any, words: str
) -> None:
    def forge(message: Message) -> Message:
        record = message.content.config_records[RECORD]
        if message.metadata.dst_node_id == 1 and record["statements"]:
            record["statements"] = [change(bytes(raw)) for raw in record["statements"]]
        return message

    grid.tamper = forge
    incentivized(consortium).start(grid, START, num_rounds=3)
    refusals = [line for line in said.messages if "a settlement is refused" in line]
    assert refusals
    assert re.search(words, refusals[0])
    assert not any(row.countersigned for row in rows(consortium, silo="silo-0"))
    assert all(row.countersigned for row in rows(consortium, silo="silo-1"))
    assert state_of(consortium, 0)["slots"] == 0


def test_a_settlement_on_another_contribution_than_was_claimed_is_refused(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = incentivized(consortium)
    settle = strategy._settle

    def cheat(precision: float) -> None:
        strategy._heard = [
            dataclasses.replace(one, claim=dataclasses.replace(one.claim, amount=0.1)) if one.place == 0 else one
            for one in strategy._heard
        ]
        settle(precision)

    monkeypatch.setattr(strategy, "_settle", cheat)
    strategy.start(grid, START, num_rounds=2)
    assert "settled on a contribution of 0.1, and this silo claimed 1" in said.text
    assert not any(row.countersigned for row in rows(consortium, silo="silo-0"))


def test_a_coordinator_with_another_key_is_not_believed(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    incentivized(consortium, key=new_key(tmp_path / "stranger.key")).start(grid, START, num_rounds=1)
    assert "its opening is not signed by the coordinator" in said.text
    assert played(consortium) == [None]


def test_an_app_that_does_not_cut_its_data_is_told_so(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.flower.local.contributed_samples", lambda held: held)
    change_site(consortium, 0, agent=0.5)
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert "have it train on contributed(data)" in said.text
    assert played(consortium) == [None]


def test_what_an_app_says_when_it_fails_stays_in_the_silo(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(held: int) -> int:
        raise ZeroDivisionError(f"of {held} patients")

    monkeypatch.setattr("tests.flower.local.contributed_samples", fail)
    reasons = set()

    def watch(reply: Message) -> list[Message]:
        reasons.add(reply.error.reason)
        return [reply]

    grid.replies = watch
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert reasons == {"ZeroDivisionError in this silo's app; its own log says more"}
    assert "of 120 patients" in said.text


@pytest.mark.parametrize("asked", ["train", "evaluate"])
def test_the_words_of_an_error_that_an_app_returns_stay_in_the_silo(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, asked: str
) -> None:
    app = ClientApp(mods=[contribution()])

    @app.train() if asked == "train" else app.evaluate()
    def fail(message: Message, context: Context) -> Message:
        del context
        return Message(Error(0, "of 120 patients"), reply_to=message)

    if asked == "evaluate":
        reply = app(Message(RecordDict({"arrays": START}), 1, asked), grid.context(1))
        assert reply.error.reason == "this silo's app failed; its own log says why"
    else:
        grid.apps[1], grid.wire = app, []
        incentivized(consortium).start(grid, START, num_rounds=1)
        assert b"this silo's app failed; its own log says why" in grid.wire
        assert not any(b"patients" in sent for sent in grid.wire)
    assert "of 120 patients" in said.text


def test_training_outside_of_a_slot_is_refused_also_where_the_message_has_a_record(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    change_site(consortium, 0, cap=0.0)
    record = ConfigRecord({"weighted-by": "num-examples"})
    reply = grid.apps[1](Message(RecordDict({"arrays": START, RECORD: record}), 1, "train"), grid.context(1))
    assert reply.has_error()
    assert not reply.has_content()
    assert "training is asked for outside of a slot" in said.text


def test_a_plain_evaluation_does_not_tell_how_much_a_silo_with_terms_holds(grid: LocalGrid) -> None:
    reply = grid.apps[1](Message(RecordDict({"arrays": START}), 1, "evaluate"), grid.context(1))
    assert dict(reply.content["metrics"]) == {"num-examples": 1.0, "accuracy": pytest.approx(0.1)}


def another_slot(record: ConfigRecord) -> None:
    record["slot"] = 10**9


def another_history(record: ConfigRecord) -> None:
    record["precision"] = [0.9, *record["precision"][1:]]


@pytest.mark.parametrize("change", [another_slot, another_history])
def test_a_notice_that_was_changed_is_refused_and_leaves_no_trace(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, change: Callable[[ConfigRecord], None]
) -> None:
    def forged_first(message: Message) -> Message:
        record = message.content.config_records[RECORD]
        if message.metadata.dst_node_id == 1 and record["slot"] == 2:
            before = consortium.state(0).read_bytes()
            forged = copy_of(message)
            change(forged.content.config_records[RECORD])
            assert grid.apps[1](forged, grid.context(1)).has_error()
            assert consortium.state(0).read_bytes() == before
        return message

    grid.tamper = forged_first
    incentivized(consortium).start(grid, START, num_rounds=3)
    assert said.text.count("is not asked for by the coordinator") == 1
    assert played(consortium) == [1.0] * 3
    assert all(row.countersigned for row in rows(consortium))


def test_state_is_private_whole_and_survives(consortium: Consortium, grid: LocalGrid) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    place = consortium.state(0)
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.with_name("agent.state.receipts").stat().st_mode & 0o777 == 0o600
    assert not place.with_name("agent.state.part").exists()
    incentivized(consortium, run="second").start(grid, START, num_rounds=1)
    state = state_of(consortium, 0)
    assert (len(state["memberships"]), state["slots"]) == (2, 2)


def test_a_damaged_state_is_named_and_not_overwritten(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    place = consortium.state(0)
    spoilt = place.read_bytes()[:-3]
    place.write_bytes(spoilt)
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert f"{place}: not a silo's state that can be read" in said.text
    assert place.read_bytes() == spoilt
    assert played(consortium) == [1.0, None]


def test_a_full_disk_leaves_the_state_as_it_was(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    before = consortium.state(0).read_bytes()
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if "silo-0" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", full)
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert "no space left on device" in said.text
    assert consortium.state(0).read_bytes() == before
    assert played(consortium) == [1.0, None]


def test_an_exported_policy_decides_and_keeps_its_memory(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(), ["policy.potluck"] + ["constant.potluck"] * 3)
    actor = NetworkActor.empty(42, 1, "gaussian", (6, 4), (4, 4, 1, 4))
    noisy = jax.tree.map(lambda leaf: leaf + 0.3 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, actor.network)
    policy_file(consortium.terms(0).with_name("policy.potluck"), dataclasses.replace(actor, network=noisy))
    for silo in (1, 2, 3):
        policy_file(consortium.terms(silo).with_name("constant.potluck"), ConstantActor(jnp.array([0.75])))
    grid = LocalGrid(consortium, [client_app() for _ in range(4)])
    incentivized(consortium).start(grid, START, num_rounds=3)
    assert played(consortium, 1) == [0.75] * 3
    policy = load_policy(consortium.terms(0).with_name("policy.potluck"))
    policy.start()
    expected = [policy.decide(observation) for observation in observations(grid)]
    np.testing.assert_allclose(np.array(played(consortium, 0), float), np.array(expected), rtol=1e-6)
    assert len(set(expected)) == 3


def observations(grid: LocalGrid) -> list[np.ndarray]:
    """z of silo 0, written out: for every slot on record the others' d, its own C, the signal and P; newest first."""
    found = []
    for message in notices(grid, 1):
        if "arrays" in message.content:
            notice = Notice.from_record(message.content.config_records[RECORD])
            public, own = notice.history, [0.5 if notice.slot > h + 1 else 0.0 for h in range(7)]
            parts = (public.contributions[:, 1:], own, public.signal, public.precision)
            past = np.column_stack(parts)
            found.append(past.ravel())
    return found


def test_a_policy_for_another_game_is_refused(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    policy_file(consortium.terms(0).with_name("p.potluck"), ConstantActor(jnp.array([0.75])), silos=3)
    change_site(consortium, 0, agent="p.potluck")
    change_site(consortium, 1, agent="missing.potluck")
    change_site(consortium, 2, agent="mappo")
    change_site(consortium, 3, agent="planner")
    incentivized(consortium).start(grid, START, num_rounds=1)
    for words in ("was trained with silos 3, and this run has 4", "no such file", "take mpgd", "decides for all silos"):
        assert words in said.text


@pytest.mark.parametrize("name", ["greedy", pytest.param("mpgd", marks=pytest.mark.slow)])
def test_a_learner_learns_over_two_runs_and_remembers(tmp_path: Path, name: str) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2, horizon=3), [name, 0.5])
    grid = LocalGrid(consortium, [client_app() for _ in range(2)])

    def agent() -> Any:
        site = read_site(consortium.terms(0))
        rules = Rules.from_text(Opening.from_bytes(notices(grid, 1)[0].content.config_records[RECORD]["opening"]).rules)
        return load_state(consortium.state(0), decider("mpgd", site, rules, 2, 7 * 4)).agent

    incentivized(consortium).start(grid, START, num_rounds=3)
    first = agent()
    assert int(first.slots) == 3
    incentivized(consortium, run="second").start(grid, START, num_rounds=3)
    second = agent()
    assert int(second.slots) == 1  # a window of five was learnt from, and one slot came after
    moved = jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.any(a != b)), first.agent, second.agent))
    assert any(moved)
    assert list(np.asarray(second.payoff[:1])) != [0.0]


def test_a_window_with_a_gap_is_dropped() -> None:
    seat = decider("random", SITE, RULES, 4, 42)
    assert isinstance(seat, Learning)
    state = seat.init()
    seen = Situation(jnp.zeros(42), first=True, last=False)
    state, share = seat.decide(state, seen, 1.0)
    assert 0 <= share <= 1
    state = seat.paid(state, 3.0)
    assert int(state.slots) == 1
    state, _ = seat.decide(state, dataclasses.replace(seen, first=False), 0.0)
    assert float(state.act.action[1, 0]) == 0.0  # what was played, not what was drawn
    assert int(seat.paid(state, None).slots) == 0
    unpaid, _ = seat.decide(state, dataclasses.replace(seen, first=False), 1.0)
    assert int(unpaid.slots) == 0


SITE = Site(profit=1.0, energy=1.0, energy_price=1.0, communication=1.0, key="none", coordinator="none")


def test_a_silo_without_a_policy_plays_the_one_that_ships(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2, horizon=3), ["pretrained", 0.5])
    grid = LocalGrid(consortium, [client_app() for _ in range(2)])
    incentivized(consortium).start(grid, START, num_rounds=2)
    rules = Rules.from_text(Opening.from_bytes(notices(grid, 1)[0].content.config_records[RECORD]["opening"]).rules)
    seat = decider("pretrained", read_site(consortium.terms(0)), rules, 2, 0)
    assert seat.observes == OBSERVED
    state = load_state(consortium.state(0), seat)
    assert int(state.agent.slots) == 2  # both are decided and paid
    assert list(np.asarray(state.agent.memory.record.over)) == [True, False, False]
    export_policy(untrained(scenario_of(2, horizon=3)), 0, scenario_of(2).seed, tmp_path / "p.potluck")
    change_site(consortium, 0, agent=str(tmp_path / "p.potluck"))
    exported = decider("mpgd", read_site(consortium.terms(0)), rules, 2, 0)
    assert exported.observes == OBSERVED
    seen = Situation(jnp.array([0.0] * 7 * 3 + [100.0, 1000.0, 20.0, 0.0, 0.0]), first=True, last=False)
    assert exported.decide(exported.init(), seen, 1.0)[1] == pytest.approx(seat.decide(seat.init(), seen, 1.0)[1])
    others: dict[str, Any] = {"horizon": 4, "discount": 0.5, "mechanism": {"kind": "none"}}
    for name, other in others.items():
        with pytest.raises(PotluckError, match=f"plans for {name} "):
            decider("mpgd", read_site(consortium.terms(0)), dataclasses.replace(rules, **{name: other}), 2, 0)


def test_a_name_with_a_point_in_it_is_no_file() -> None:
    assert decider("fixed:0.5", SITE, RULES, 4, 42).name == "fixed"
    with pytest.raises(PotluckError, match=r"mine\.json: no such file; make one with `potluck pretrain`"):
        decider("pretrained:mine.json", SITE, RULES, 4, 42)


def test_a_share_outside_the_box_is_named() -> None:
    with pytest.raises(PotluckError, match=r"share in \[0, 1\]"):
        decider(1.5, SITE, RULES, 4, 42)
