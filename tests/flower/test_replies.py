"""Bad answers: refused, named, settled as absent, and nobody else is harmed."""

import dataclasses
import io
import re
from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from potluck.flower.consortium import Consortium
from potluck.flower.wire import RECORD, Claim
from potluck.ledger import read_key, verify
from tests.flower.local import START, LocalGrid, array, incentivized, rows

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
        if reply.metadata.src_node_id == BAD and reply.content.metric_records:
            other_metrics(consortium, reply)
            arrays = reply.content["arrays"]
            del reply.content["arrays"]
            reply.content["weights"] = arrays
        return [reply]

    grid.replies = richer
    result = incentivized(consortium).start(grid, START, num_rounds=1)
    assert [row.contribution for row in rows(consortium)] == [1.0] * 4
    assert set(result.train_metrics_clientapp[1]) == {"loss"}
