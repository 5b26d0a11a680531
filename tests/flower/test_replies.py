"""Bad answers: refused, named, settled as absent, and nobody else is harmed."""

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, Strategy

from potluck.flower import contributed_samples, contribution
from potluck.flower.consortium import Consortium
from potluck.flower.wire import RECORD, Claim
from potluck.ledger import read_key, verify
from potluck.scenario import mechanism_of
from tests.flower.local import START, LocalGrid, array, client_app, consortium_in, incentivized, rows, scenario_of

BAD = 3
"""The node that misbehaves, silo-2."""


def signed_claim(consortium: Consortium, reply: Message, **changes: object) -> None:
    """What silo-2 would sign if it lied."""
    claim = dataclasses.replace(Claim.from_record(reply.content.config_records[RECORD]), **changes)  # type: ignore[arg-type]
    key = read_key(consortium.terms(BAD - 1).with_name("silo.key"))
    reply.content[RECORD] = dataclasses.replace(claim, signature=key.sign(claim.signed_bytes())).to_record()


def lie(amount: float) -> Callable[[Consortium, Message], None]:
    def change(consortium: Consortium, reply: Message) -> None:
        signed_claim(consortium, reply, amount=amount)
        reply.content.metric_records["metrics"]["num-examples"] = amount

    return change


def arrays(*numbers: np.ndarray) -> Callable[[Consortium, Message], None]:
    def change(_: Consortium, reply: Message) -> None:
        reply.content["arrays"] = ArrayRecord(list(numbers))

    return change


def nan_weights(_: Consortium, reply: Message) -> None:
    reply.content["arrays"]["0"] = array(np.full(3, np.nan, np.float32))


def nan_metric(_: Consortium, reply: Message) -> None:
    reply.content["metrics"]["loss"] = float("nan")


def other_metrics(_: Consortium, reply: Message) -> None:
    reply.content["metrics"]["another"] = 1.0


def two_metric_records(_: Consortium, reply: Message) -> None:
    reply.content["more"] = MetricRecord({"loss": 1.0})


def no_claim(_: Consortium, reply: Message) -> None:
    del reply.content[RECORD]


def torn_claim(_: Consortium, reply: Message) -> None:
    reply.content[RECORD] = ConfigRecord({"run": "trial", "slot": 1, "empty": b"", "none": []})


def in_anothers_name(_: Consortium, reply: Message) -> None:
    reply.content[RECORD]["silo"] = "silo-0"


def of_another_slot(consortium: Consortium, reply: Message) -> None:
    signed_claim(consortium, reply, slot=9)


def a_hundred_megabytes(_: Consortium, reply: Message) -> None:
    reply.content["ballast"] = ConfigRecord({"ballast": b"x" * 100_000_000})


def not_an_array(_: Consortium, reply: Message) -> None:
    reply.content["arrays"]["0"].data = b"\x93NUMPY\x01\x00nonsense"


def an_archive(_: Consortium, reply: Message) -> None:
    """NumPy opens it, as something that is no array."""
    stream = io.BytesIO()
    np.savez(stream, np.zeros(3))
    reply.content["arrays"]["0"].data = stream.getvalue()


def unweighted(_: Consortium, reply: Message) -> None:
    reply.content["metrics"]["num-examples"] = 0.5


SMALL, SQUARE = np.zeros(3, np.float32), np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lie(float("nan")), "it claims nan", id="a claim of NaN"),
        pytest.param(lie(float("inf")), "it claims inf", id="a claim without end"),
        pytest.param(lie(1.5), "nobody can bring more than all", id="d > 1"),
        pytest.param(lie(-0.5), "nobody can bring less than nothing", id="negative"),
        pytest.param(nan_weights, "array 0 holds what is no number", id="weights of NaN"),
        pytest.param(nan_metric, "its loss holds what is no number", id="a metric of NaN"),
        pytest.param(
            arrays(np.zeros(4, np.float32), SQUARE), r"must be numbers of shape \[3\], got float32", id="shape"
        ),
        pytest.param(arrays(np.zeros(3, complex), SQUARE), "got complex128", id="type"),
        pytest.param(an_archive, "array 0 cannot be read", id="an archive"),
        pytest.param(arrays(SMALL), "not those of the model", id="an array too few"),
        pytest.param(not_an_array, "array 0 cannot be read", id="no array at all"),
        pytest.param(a_hundred_megabytes, "it sent 100,0.* bytes", id="100 MB"),
        pytest.param(two_metric_records, "must send one MetricRecord, got 2", id="two metric records"),
        pytest.param(unweighted, "its num-examples is not what it claims", id="another weight"),
        pytest.param(no_claim, r"needs mods=\[contribution", id="no claim"),
        pytest.param(torn_claim, "its claim has no silo", id="a torn claim"),
        pytest.param(in_anothers_name, "not signed by a silo of this run", id="in another's name"),
        pytest.param(of_another_slot, "it answers slot 9", id="another slot"),
    ],
)
def test_a_bad_answer_is_named_and_settled_as_absent(
    consortium: Consortium,
    grid: LocalGrid,
    said: pytest.LogCaptureFixture,
    change: Callable[[Consortium, Message], None],
    words: str,
) -> None:
    def spoilt(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == BAD and reply.content.metric_records:
            change(consortium, reply)
        return [reply]

    grid.replies = spoilt
    result = incentivized(consortium).start(grid, START, num_rounds=1)
    settled = rows(consortium)
    assert [row.contribution for row in settled] == [1.0, 1.0, None, 1.0]
    assert [row.transfer for row in settled] == [5_000_000, 5_000_000, -15_000_000, 5_000_000]
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], 0.01)
    refusals = [line for line in said.messages if "is refused" in line]
    assert len(refusals) == 1
    assert re.search(words, refusals[0])
    assert "silo-2" in refusals[0] or "node 3" in refusals[0]
    assert "absent, settled as bringing nothing: silo-2" in said.text
    assert verify(consortium.ledger).fault is None


def test_a_silo_that_answers_twice_counts_once(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    grid.replies = lambda reply: [reply, reply] if reply.metadata.src_node_id == BAD else [reply]
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium)] == [1.0] * 4
    assert "silo-2 is refused: it has answered already" in said.text


def test_a_silo_that_says_nothing_or_fails_is_absent(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    grid.replies = lambda reply: [] if reply.metadata.src_node_id == BAD else [reply]
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium)] == [1.0, 1.0, None, 1.0]
    assert "absent" in said.text


def test_what_one_reply_has_beyond_the_others_shuts_nobody_out(consortium: Consortium, grid: LocalGrid) -> None:
    def richer(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == BAD and reply.content.array_records:
            other_metrics(consortium, reply)
            arrays = reply.content["arrays"]
            del reply.content["arrays"]
            reply.content["weights"] = arrays
        return [reply]

    grid.replies = richer
    result = incentivized(consortium).start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium)] == [1.0] * 4
    assert set(result.train_metrics_clientapp[1]) == {"loss"}


def keeping_its_kinds(*kinds: type) -> ClientApp:
    """As PyTorch does: whatever kind of numbers arrives, the module's own are sent back."""
    app = ClientApp(mods=[contribution(1.0)])

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        del context
        sent = message.content["arrays"].to_numpy_ndarrays()
        own = [np.asarray(numbers.astype(kind) + kind(1)) for numbers, kind in zip(sent, kinds, strict=True)]
        metrics = MetricRecord({"num-examples": contributed_samples(120)})
        return Message(RecordDict({"arrays": ArrayRecord(own), "metrics": metrics}), reply_to=message)

    return app


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        pytest.param(FedAdam(fraction_evaluate=0.0), np.float32, id="FedAdam aggregates in double precision"),
        pytest.param(FedAvg(fraction_evaluate=0.0), np.int64, id="FedAvg makes a fraction of a counter"),
    ],
)
def test_who_answers_in_the_kinds_of_its_own_model_counts_in_every_slot(
    tmp_path: Path, strategy: Strategy, kind: type
) -> None:
    consortium = consortium_in(tmp_path, scenario_of(2))
    grid = LocalGrid(consortium, [keeping_its_kinds(np.float32, kind) for _ in range(2)])
    start = ArrayRecord([np.zeros(3, np.float32), np.array(0, kind)])
    incentivized(consortium, strategy).start(grid, start, num_rounds=3)
    assert [row.contribution for row in rows(consortium)] == [1.0] * 6
    kinds = {sent.content["arrays"]["1"].dtype for sent in grid.sent if "arrays" in sent.content}
    assert "float64" in kinds  # or nothing was tested


def test_more_samples_than_can_be_counted_are_refused_and_the_run_goes_on(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    mechanism = mechanism_of("redistribution", intensity=5.0, schedule="constant", basis="samples")
    consortium = consortium_in(tmp_path, scenario_of(mechanism=mechanism))
    grid = LocalGrid(consortium, [client_app() for _ in range(4)])

    def spoilt(reply: Message) -> list[Message]:
        if reply.metadata.src_node_id == BAD and reply.content.metric_records:
            lie(1e15)(consortium, reply)
        return [reply]

    grid.replies = spoilt
    incentivized(consortium).start(grid, START, num_rounds=2)
    assert [row.contribution for row in rows(consortium)] == [120.0, 120.0, None, 120.0] * 2
    assert said.text.count("silo-2 is refused: it claims 1e+15 samples, and 16,777,216 are the most") == 2
    assert verify(consortium.ledger).fault is None


@pytest.mark.parametrize(
    ("weight", "who", "value", "mean"),
    [
        pytest.param(1e12, {BAD}, 1.0, (0.11 * 3 + 1.0) / 4, id="one with a weight of 1e12"),
        pytest.param(0.0, {1, 2, 3, 4}, 0.5, 0.5, id="all with a weight of 0"),
    ],
)
def test_evaluations_count_alike_whatever_weight_they_claim(
    consortium: Consortium, grid: LocalGrid, weight: float, who: set[int], value: float, mean: float
) -> None:
    def weighted(reply: Message) -> list[Message]:
        metrics = reply.content.metric_records.get("metrics", {})
        if reply.metadata.src_node_id in who and "accuracy" in metrics:
            metrics["num-examples"], metrics["accuracy"] = weight, value
        return [reply]

    grid.replies = weighted
    incentivized(consortium, FedAvg(), precision="accuracy").start(grid, START, num_rounds=1)
    assert [row.precision for row in rows(consortium)] == pytest.approx([mean] * 4)


def test_a_node_that_is_no_silo_of_the_run_has_no_vote_on_precision(
    consortium: Consortium, grid: LocalGrid, said: pytest.LogCaptureFixture
) -> None:
    stranger = ClientApp()

    @stranger.evaluate()
    def boast(message: Message, context: Context) -> Message:
        del context
        metrics = MetricRecord({"num-examples": 30, "accuracy": 1.0})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    @stranger.train()
    def idle(message: Message, context: Context) -> Message:
        del context
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 30})}), reply_to=message)

    grid.apps[5] = stranger
    incentivized(consortium, FedAvg(), precision="accuracy").start(grid, START, num_rounds=2)
    assert [row.precision for row in rows(consortium)[::4]] == pytest.approx([0.11, 0.12])
    assert said.text.count("node 5 is refused: it has never answered as a silo of this run") == 2
