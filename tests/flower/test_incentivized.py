"""The server's side around Flower's own strategies, by hand-computed settlements."""

import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedMedian,
    FedProx,
    Strategy,
)

from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium
from potluck.flower.wire import RECORD, Notice
from potluck.ledger import Ledger, Statement, read_key, verify
from potluck.mechanisms import MECHANISMS, Declared, Facts, Kind, MechanismConfig, Need
from potluck.scenario import mechanism_of
from tests.flower.local import (
    START,
    LocalGrid,
    array,
    client_app,
    consortium_in,
    incentivized,
    precision,
    rows,
    scenario_of,
    state_of,
)

MONEY = 1_000_000


def federation(folder: Path, agents: list[Any], **options: Any) -> tuple[Consortium, LocalGrid]:
    consortium = consortium_in(folder, scenario_of(len(agents), **options), agents)
    return consortium, LocalGrid(consortium, [client_app() for _ in agents])


def test_slots_are_settled_by_hand(tmp_path: Path) -> None:
    # α = 5, d = 1, ½, ¼, 0: 5·(4d − 1.75)
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.25, 0.0])
    incentivized(consortium).start(grid, START, num_rounds=3)
    settled = rows(consortium)
    assert [row.slot for row in settled] == [1] * 4 + [2] * 4 + [3] * 4
    assert [row.transfer for row in settled[:4]] == [11_250_000, 1_250_000, -3_750_000, -8_750_000]
    assert {row.signal for row in settled} == {5.0}
    np.testing.assert_allclose([row.precision for row in settled[::4]], [0.11, 0.12, 0.13], rtol=1e-6)
    assert all(row.countersigned for row in settled)
    found = verify(consortium.ledger)
    assert (found.fault, found.slots, found.entries) == (None, 3, 12)
    # u = p·P − κ·v·x − C + r, silo 0: 100·0.36 − 3·(0.01·2·120 + 0.5) + 3·11.25
    assert state_of(consortium, 0)["earned"] == pytest.approx(36 - 3 * 2.9 + 33.75, rel=1e-6)


def test_weights_are_the_claims_and_never_the_number_of_samples(tmp_path: Path) -> None:
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.25, 0.0])
    seen: list[float] = []

    def watch(reply: Message) -> list[Message]:
        seen.extend(float(metrics["num-examples"]) for metrics in reply.content.metric_records.values())
        return [reply]

    grid.replies = watch
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert sorted(seen) == [0.0, 0.25, 0.5, 1.0]


def test_every_silo_is_told_its_own_settlement_and_no_others(tmp_path: Path) -> None:
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.25, 0.0])
    incentivized(consortium).start(grid, START, num_rounds=2)
    told: dict[int, list[bytes]] = {}
    for message in grid.sent:
        notice = Notice.from_record(message.content.config_records[RECORD])
        for raw in notice.statements:
            told.setdefault(message.metadata.dst_node_id, []).append(raw)
    assert set(told) == {1, 2, 3, 4}
    for node, statements in told.items():
        assert len(statements) == 2  # slot 1 with the messages of slot 2, slot 2 when the run closed
        assert all(f'"silo":"silo-{node - 1}"'.encode() in raw for raw in statements)
    first = [message for message in grid.sent if "arrays" in message.content][:4]
    assert len({id(message.content) for message in first}) == 4


@pytest.mark.parametrize(
    "strategy",
    [
        FedAvg(fraction_evaluate=0.0),
        FedProx(fraction_evaluate=0.0, proximal_mu=0.1),
        FedAdam(fraction_evaluate=0.0, eta=0.01),
        FedMedian(fraction_evaluate=0.0),
        DifferentialPrivacyServerSideFixedClipping(FedAvg(fraction_evaluate=0.0), 0.0, 100.0, 4),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_any_strategy_can_be_wrapped(consortium: Consortium, grid: LocalGrid, strategy: Strategy) -> None:
    result = incentivized(consortium, strategy).start(grid, START, num_rounds=2)
    assert len(rows(consortium)) == 8
    assert set(result.arrays) == set(START)
    if isinstance(strategy, FedProx):
        assert {message.content["config"]["proximal-mu"] for message in grid.sent if "config" in message.content} == {
            0.1
        }


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "cost-sharing"])
def test_any_registered_mechanism_settles(tmp_path: Path, kind: str) -> None:
    options = {"intensity": (5.0, 5.0, 5.0)} if kind == "per-silo" else {}
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.0], mechanism=mechanism_of(kind, **options))
    incentivized(consortium).start(grid, START, num_rounds=2)
    slots = rows(consortium)
    assert len(slots) == 6
    assert sum(row.transfer for row in slots) == 0


def test_a_mechanism_that_lives_on_declarations_needs_them_written_down(tmp_path: Path) -> None:
    consortium, _ = federation(tmp_path, [1.0, 0.5], mechanism=mechanism_of("cost-sharing"))
    with pytest.raises(PotluckError, match="list that in the scenario"):
        incentivized(consortium)
    declared = mechanism_of("cost-sharing", costs=(4.0, 2.0), profits=(1.0, 3.0))
    other, grid = federation(tmp_path / "other", [1.0, 0.5], mechanism=declared)
    incentivized(other).start(grid, START, num_rounds=1)
    # c·d = 4 and 1; shares ¼ and ¾ of 5
    assert [row.transfer for row in rows(other)] == [2_750_000, -2_750_000]


def test_on_basis_samples_silos_say_samples_and_not_shares(tmp_path: Path) -> None:
    mechanism = mechanism_of("redistribution", intensity=5.0, schedule="constant", basis="samples", unit=60.0)
    consortium, grid = federation(tmp_path, [1.0, 0.5], mechanism=mechanism)
    incentivized(consortium).start(grid, START, num_rounds=2)
    settled = rows(consortium, slot=1)
    assert [row.contribution for row in settled] == [120.0, 60.0]
    assert [row.transfer for row in settled] == [5 * MONEY, -5 * MONEY]  # 5·(2 − 1) units of 60
    notice = Notice.from_record(grid.sent[2].content.config_records[RECORD])
    np.testing.assert_allclose(notice.history.contributions[0], [2.0, 1.0])


def test_nobody_contributes(tmp_path: Path) -> None:
    consortium, grid = federation(tmp_path, [0.0, 0.0, 0.0])
    result = incentivized(consortium).start(grid, START, num_rounds=2)
    assert result.arrays is None or not len(result.arrays)  # Flower's own word for a model that never moved
    assert [row.transfer for row in rows(consortium)] == [0] * 6
    assert {row.precision for row in rows(consortium)} == {precision(START)}


def test_one_silo_alone_is_enough(tmp_path: Path) -> None:
    consortium, grid = federation(tmp_path, [0.5, 0.5, 0.5])
    del grid.apps[2], grid.apps[3]
    incentivized(consortium, FedAvg(fraction_evaluate=0.0, min_available_nodes=3)).start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium)] == [0.5, None, None]
    assert [row.transfer for row in rows(consortium)] == [5 * MONEY, -2_500_000, -2_500_000]


def test_nobody_is_there_and_nothing_hangs(consortium: Consortium, grid: LocalGrid) -> None:
    grid.apps.clear()
    begun = time.monotonic()
    incentivized(consortium, patience=0.3).start(grid, START, num_rounds=2)
    assert time.monotonic() - begun < 20
    assert [row.contribution for row in rows(consortium)] == [None] * 8


def test_a_silo_that_missed_slots_is_told_all_of_them_when_it_comes_back(tmp_path: Path) -> None:
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.25])
    away = {2: grid.apps.pop(2)}

    def back(message: Message) -> Message:
        if message.content.config_records[RECORD]["slot"] == 3:
            grid.apps.update(away)
        return message

    grid.tamper = back
    incentivized(consortium).start(grid, START, num_rounds=5)
    mine = rows(consortium, silo="silo-1")
    assert [row.contribution for row in mine] == [None, None, None, 0.5, 0.5]
    assert all(row.countersigned for row in rows(consortium))
    assert state_of(consortium, 1)["slots"] == 5
    lines = consortium.state(1).with_name("agent.state.receipts").read_bytes().splitlines()
    assert verify(consortium.ledger, receipts=[Statement.from_bytes(line) for line in lines]).fault is None
    assert len(lines) == 5


def test_precision_by_federated_evaluation(consortium: Consortium, grid: LocalGrid) -> None:
    weights: list[float] = []

    def watch(reply: Message) -> list[Message]:
        found = [metrics for metrics in reply.content.metric_records.values() if "accuracy" in metrics]
        weights.extend(float(metrics["num-examples"]) for metrics in found)
        return [reply]

    grid.replies = watch
    strategy = FedAvg(fraction_evaluate=1.0)
    result = incentivized(consortium, strategy, precision="accuracy").start(grid, START, num_rounds=2)
    np.testing.assert_allclose([row.precision for row in rows(consortium)[::4]], [0.11, 0.12], rtol=1e-6)
    assert result.evaluate_metrics_clientapp[2]["accuracy"] == pytest.approx(0.12)
    assert all(row.countersigned for row in rows(consortium))
    assert len(weights) == 12  # the untrained model, and two slots
    assert set(weights) == {1.0}  # test sizes tell of |D|


def test_settlements_travel_with_the_evaluation_where_there_is_one(consortium: Consortium, grid: LocalGrid) -> None:
    incentivized(consortium, FedAvg(fraction_evaluate=1.0)).start(grid, START, num_rounds=1)
    assert [message.metadata.message_type for message in grid.sent] == ["train"] * 4 + ["evaluate"] * 4
    assert all(row.countersigned for row in rows(consortium))


@pytest.mark.parametrize("value", [float("nan"), 1.5, "accuracy is missing"])
def test_a_bad_evaluation_is_left_out(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture, value: float | str
) -> None:
    def spoil(reply: Message) -> list[Message]:
        metrics = reply.content.metric_records.get("metrics", {})
        if reply.metadata.src_node_id == 2 and "accuracy" in metrics:
            if isinstance(value, str):
                del metrics["accuracy"]
            else:
                metrics["accuracy"] = value
        return [reply]

    grid.replies = spoil
    incentivized(consortium, FedAvg(), precision="accuracy").start(grid, START, num_rounds=1)
    assert rows(consortium)[0].precision == pytest.approx(0.11)
    assert "the answer of node 2 is refused" in said.text


class AddedConfig(MechanismConfig):
    """Every silo is paid 100 for what it adds, and all pay the same for it."""

    kind: Kind = "added"

    def build(self, declared: Declared) -> "Added":
        del declared
        return Added()


class Added(eqx.Module):
    needs = frozenset[Need]({"marginal"})
    balanced = True

    def init(self, precision: Any) -> None:
        pass

    def settle(self, state: None, facts: Facts) -> tuple[None, Any, Any]:
        del state
        assert facts.marginal is not None
        return None, 100 * (facts.marginal - facts.marginal.mean()), jnp.zeros_like(facts.precision)

    def signal_bounds(self) -> tuple[float, float]:
        return 0.0, 0.0


def test_what_each_silo_adds_is_measured_for_mechanisms_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MECHANISMS._added, "added", AddedConfig)
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.0], mechanism=mechanism_of("added"))

    def better(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == 1 and reply.content.array_records:
            reply.content["arrays"]["0"] = array(np.full(3, 0.04, np.float32))
        return [reply]

    grid.replies = better
    incentivized(consortium).start(grid, START, num_rounds=1)
    # Together (1·0.04 + ½·0.01) / 1.5 = 0.03; without silo 0, 0.01; without silo 1, 0.04. Mean of 0.02, −0.01, 0.
    np.testing.assert_allclose([row.transfer / MONEY for row in rows(consortium)], [5 / 3, -4 / 3, -1 / 3], atol=1e-4)
    with pytest.raises(PotluckError, match="function of the model"):
        incentivized(consortium, FedAvg(), precision="accuracy")
    with pytest.raises(PotluckError, match="name a new run"):
        incentivized(consortium).start(grid, START, num_rounds=1)


def test_a_coordinator_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    mechanism = mechanism_of("redistribution", intensity=5.0, schedule="gain")
    consortium, grid = federation(tmp_path, [1.0, 0.5, 0.25, 0.0], mechanism=mechanism)
    middle = incentivized(consortium).start(grid, START, num_rounds=3)
    incentivized(consortium).start(grid, middle.arrays, num_rounds=3)
    whole, other = federation(tmp_path / "whole", [1.0, 0.5, 0.25, 0.0], mechanism=mechanism)
    incentivized(whole).start(other, START, num_rounds=6)
    one, two = ([(row.slot, row.signal, row.precision, row.transfer) for row in rows(c)] for c in (consortium, whole))
    np.testing.assert_allclose(one, two, rtol=1e-6)
    assert len({row.signal for row in rows(whole)}) > 1  # the schedule's memory matters, and was restored


def test_a_fault_while_the_last_settlement_is_handed_over_does_not_lose_the_model(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    def cut(message: Message) -> Message:
        if message.content.config_records[RECORD]["closing"]:
            raise ConnectionError("the line was cut")
        return message

    grid.tamper = cut
    result = incentivized(consortium).start(grid, START, num_rounds=2)
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], 0.02)
    assert "the last settlement could not be handed over: the line was cut" in said.text
    with Ledger(consortium.ledger, read_key(consortium.key)) as ledger:  # it was let go
        assert ledger.last_slot("trial") == 2


def test_another_mechanism_under_the_same_name_is_refused(consortium: Consortium, grid: LocalGrid) -> None:
    incentivized(consortium).start(grid, START, num_rounds=1)
    text = consortium.scenario.read_text().replace("intensity = 5.0", "intensity = 6.0")
    consortium.scenario.write_text(text)
    with pytest.raises(PotluckError, match="run trial"):
        incentivized(consortium).start(grid, START, num_rounds=1)
    with Ledger(consortium.ledger, read_key(consortium.key)) as ledger:  # it was let go
        assert ledger.last_slot("trial") == 1


def test_mistakes_are_named_before_anything_starts(consortium: Consortium) -> None:
    with pytest.raises(PotluckError, match="4 silos, and 1 keys"):
        incentivized(consortium, silos={"one": b"k" * 32})
    with pytest.raises(PotluckError, match="fraction_train"):
        incentivized(consortium, FedAvg(fraction_train=0.5))
    with pytest.raises(PotluckError, match="fraction_evaluate"):
        incentivized(consortium, precision="accuracy")
    counting = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 4)
    setattr(counting, "accountant", object())  # noqa: B010
    with pytest.raises(PotluckError, match="accountant must be left out"):
        incentivized(consortium, counting)


def test_a_precision_that_is_none_is_named(consortium: Consortium, grid: LocalGrid) -> None:
    def wrong(_: ArrayRecord) -> float:
        return float("nan")

    with pytest.raises(PotluckError, match=r"precision must be in \[0, 1\], got nan"):
        incentivized(consortium, precision=wrong).start(grid, START, num_rounds=1)


def test_who_names_no_terms_serves_a_plain_coordinator_as_before(
    consortium: Consortium, grid: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Context(run_id=7, node_id=1, node_config={}, state=RecordDict(), run_config={})
    monkeypatch.setattr(grid, "context", lambda _: nobody)
    result = FedAvg(fraction_evaluate=0.0).start(grid, START, num_rounds=1)
    assert isinstance(result.train_metrics_clientapp[1], MetricRecord)
    assert not consortium.state(0).exists()


def test_a_silo_does_not_train_outside_of_slots(consortium: Consortium, grid: LocalGrid) -> None:
    result = FedAvg(fraction_evaluate=0.0).start(grid, START, num_rounds=1)
    assert result.train_metrics_clientapp == {}
    assert not consortium.state(0).exists()
