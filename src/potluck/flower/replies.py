"""Which replies may be aggregated. One that Flower would stumble over, or that lies about its sender, is named."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from potluck.flower.wire import RECORD, Basis, Claim
from potluck.ledger import Opening
from potluck.ledger.keys import signed

SPARE = 1_000_000
"""Bytes that a reply may have beyond twice the model's: metrics, and our own record."""
MOST_SAMPLES = 2**24
"""What single precision, in which slots are settled, counts one by one."""


@dataclass(frozen=True)
class Asked:
    """What replies are held against."""

    opening: Opening
    slot: int
    basis: Basis
    weighted_by: str
    arrays: ArrayRecord


@dataclass(frozen=True)
class Heard:
    """A reply that counts."""

    place: int
    """Which silo."""
    node: int
    claim: Claim
    message: Message


@dataclass(frozen=True)
class Refused:
    """A reply that does not count, and why."""

    who: str
    why: str
    signed: Heard | None = None
    """Where it is a silo's own all the same: what it says of settlements received still holds."""


class _BadReplyError(Exception):
    pass


def sift(replies: Iterable[Message], asked: Asked) -> tuple[list[Heard], list[Refused]]:
    """Those that count, one per silo, and those that do not."""
    heard: list[Heard] = []
    refused: list[Refused] = []
    for reply in replies:
        who, known = f"node {reply.metadata.src_node_id}", None
        try:
            _check_size(reply, asked)
            claim, place = _identified(reply, asked)
            who, known = claim.silo, Heard(place, reply.metadata.src_node_id, claim, reply)
            _check_amount(claim, asked.basis)
            if any(other.place == place for other in heard):
                raise _BadReplyError("it has answered already")
            if claim.amount > 0:
                _check_update(reply.content, claim, asked)
            heard.append(known)
        except _BadReplyError as fault:
            refused.append(Refused(who, str(fault), known))
    complete, lacking = _complete([one for one in heard if one.claim.amount > 0])
    _level([one.message.content for one in complete])
    heard = [one for one in heard if all(one is not other.signed for other in lacking)]
    return heard, [*refused, *lacking]


def _complete(bringing: list[Heard]) -> tuple[list[Heard], list[Refused]]:
    """Those that have every metric of most: a strategy may need it, and one silo must not take it from all."""
    names = [set(next(iter(one.message.content.metric_records.values()))) for one in bringing]
    usual = {name for name in set().union(*names) if 2 * sum(name in own for own in names) > len(names)}
    complete = [one for one, own in zip(bringing, names, strict=True) if usual <= own]
    lacking = [
        Refused(one.claim.silo, f"its metrics lack {', '.join(sorted(usual - own))}, which most silos send", one)
        for one, own in zip(bringing, names, strict=True)
        if not usual <= own
    ]
    return complete, lacking


def signed_ones(heard: Iterable[Heard], refused: Iterable[Refused]) -> list[Heard]:
    """Every reply that is a silo's own, whether it counts or not."""
    return [*heard, *(one.signed for one in refused if one.signed)]


def sift_evaluations(
    replies: Iterable[Message], weighted_by: str, metric: str | None, nodes: Mapping[int, int] | None = None
) -> tuple[list[Message], list[Refused]]:
    """Evaluations that can be averaged, each counting alike; where `metric` is the precision, it must be one.

    Only those of `nodes` count, where they are known, and one for each silo: which node has answered for which.
    """
    good: list[Message] = []
    refused: list[Refused] = []
    counted: set[int] = set()
    for reply in replies:
        try:
            if reply.has_error():
                raise _BadReplyError(f"it failed: {reply.error.reason}")
            if nodes is not None and reply.metadata.src_node_id not in nodes:
                raise _BadReplyError("it has never answered as a silo of this run")
            if nodes is not None and nodes[reply.metadata.src_node_id] in counted:
                raise _BadReplyError("its silo has evaluated already")
            numbers = _metrics(reply.content, weighted_by)
            if metric is not None:
                value = numbers.get(metric)
                if not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise _BadReplyError(f"its {metric} must be in [0, 1], got {value}")
            for metrics in reply.content.metric_records.values():
                metrics[weighted_by] = 1.0
            good.append(reply)
            if nodes is not None:
                counted.add(nodes[reply.metadata.src_node_id])
        except _BadReplyError as fault:
            refused.append(Refused(f"node {reply.metadata.src_node_id}", str(fault)))
    _level([reply.content for reply in good])
    return good, refused


def _check_size(reply: Message, asked: Asked) -> None:
    if reply.has_error():
        raise _BadReplyError(f"it failed: {reply.error.reason}")
    size, most = _bytes_of(reply.content.values()), 2 * _bytes_of([asked.arrays]) + SPARE
    if size > most:
        raise _BadReplyError(f"it sent {size:,} bytes, and {most:,} are allowed")


def _bytes_of(records: Iterable[ArrayRecord | ConfigRecord | MetricRecord]) -> int:
    """As Flower counts them, but for empty values, over which its `count_bytes` stumbles."""
    total = 0
    for record in records:
        for value in record.values():
            for one in value if isinstance(value, list) else [value]:
                total += len(one.data) if isinstance(one, Array) else len(one) if isinstance(one, str | bytes) else 8
    return total


def _identified(reply: Message, asked: Asked) -> tuple[Claim, int]:
    """The silo that signed the reply."""
    record = reply.content.config_records.get(RECORD)
    if record is None:
        raise _BadReplyError("it makes no claim; its ClientApp needs mods=[contribution(…)]")
    try:
        claim = Claim.from_record(record)
    except ValueError as fault:
        raise _BadReplyError(str(fault)) from None
    places = [place for place, silo in enumerate(asked.opening.silos) if silo.name == claim.silo]
    if not places or not signed(asked.opening.silos[places[0]].key, claim.signature, claim.signed_bytes()):
        raise _BadReplyError("its claim is not signed by a silo of this run")
    if (claim.run, claim.slot) != (asked.opening.run, asked.slot):
        raise _BadReplyError(f"it answers slot {claim.slot} of run {claim.run}")
    return claim, places[0]


def _check_amount(claim: Claim, basis: Basis) -> None:
    if not math.isfinite(claim.amount):
        raise _BadReplyError(f"it claims {claim.amount}, which is no number")
    if claim.amount < 0:
        raise _BadReplyError(f"it claims {claim.amount:g}, and nobody can bring less than nothing")
    if basis == "fraction" and claim.amount > 1:
        raise _BadReplyError(f"it claims {claim.amount:g} of its data, and nobody can bring more than all")
    if basis == "samples" and claim.amount != int(claim.amount):
        raise _BadReplyError(f"it claims {claim.amount:g} samples, and samples come whole")
    if basis == "samples" and claim.amount > MOST_SAMPLES:
        raise _BadReplyError(f"it claims {claim.amount:g} samples, and {MOST_SAMPLES:,} are the most")


def _check_update(content: RecordDict, claim: Claim, asked: Asked) -> None:
    """One array record, shaped as the model was sent, finite; one metric record, weighted by the claim.

    Numbers may be of another kind than was sent: strategies average single precision, or counts, into double.
    """
    if len(content.array_records) != 1:
        raise _BadReplyError(f"it must send one ArrayRecord, got {len(content.array_records)}")
    (arrays,) = content.array_records.values()
    if set(arrays) != set(asked.arrays):
        raise _BadReplyError("its arrays are not those of the model")
    for name, sent in asked.arrays.items():
        got = arrays[name]
        try:
            numbers = got.numpy()
            form = (str(numbers.dtype), numbers.shape)
        except Exception:  # whatever was in those bytes
            raise _BadReplyError(f"array {name} cannot be read") from None
        if form != (got.dtype, tuple(got.shape)):
            raise _BadReplyError(f"array {name} is not what it says it is")
        if numbers.dtype.kind not in "fiub" or numbers.shape != tuple(sent.shape):
            raise _BadReplyError(
                f"array {name} must be numbers of shape {list(sent.shape)}, got {form[0]}{list(form[1])}"
            )
        if not _finite(numbers, sent.dtype):
            raise _BadReplyError(f"array {name} holds what is no number")
    if _metrics(content, asked.weighted_by)[asked.weighted_by] != claim.amount:
        raise _BadReplyError(f"its {asked.weighted_by} is not what it claims")


def _finite(numbers: np.ndarray, kind: str) -> bool:
    """Also as the model has them: what single precision cannot hold would be infinite in every silo."""
    with np.errstate(over="ignore"):
        held = numbers.astype(kind) if np.dtype(kind).kind == "f" else numbers
    return bool(np.isfinite(held).all() and np.isfinite(numbers).all())


def _metrics(content: RecordDict, weighted_by: str) -> dict[str, int | float | list[int] | list[float]]:
    if len(content.metric_records) != 1:
        raise _BadReplyError(f"it must send one MetricRecord, got {len(content.metric_records)}")
    (metrics,) = content.metric_records.values()
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            raise _BadReplyError(f"its {name} holds what is no number")
    weight = metrics.get(weighted_by)
    if not isinstance(weight, int | float) or weight < 0:
        raise _BadReplyError(f"its metrics need a number {weighted_by}, got {weight}")
    return dict(metrics)


def _level(contents: Sequence[RecordDict]) -> None:
    """Leave only the metrics that all replies have, and name records alike: Flower would refuse to average any.

    To drop a reply for what it has beyond the rest would let one silo shut out another.
    """
    metrics = [next(iter(content.metric_records.values())) for content in contents]
    forms = [{_form(name, value) for name, value in one.items()} for one in metrics]
    shared = forms[0].intersection(*forms) if forms else set()
    for one, forms_of_one in zip(metrics, forms, strict=True):
        for name, _ in forms_of_one - shared:
            del one[name]
    for common, kind in (("arrays", ArrayRecord), ("metrics", MetricRecord)):
        names = [[name for name, record in content.items() if isinstance(record, kind)] for content in contents]
        if len(set(map(tuple, names))) > 1:
            for content, (name, *_) in zip(contents, names, strict=True):
                record = content[name]
                del content[name]
                content[common] = record


def _form(name: str, value: object) -> tuple[str, int]:
    return name, len(value) if isinstance(value, list) else 0
