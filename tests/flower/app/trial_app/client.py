"""Training adds a hundredth to every number. Silo 2 does what it should not, where it is told to."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from potluck.flower import contributed_samples, contribution
from potluck.flower.site import named_file, read_site
from potluck.flower.wire import RECORD, Claim

HELD = 23_456_789
BAD = 2


def misbehave(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Spoil the answer of silo 2 after everything else was done right."""
    notice = message.content.config_records.get(RECORD, {})
    slot = int(notice.get("slot", 1))
    faults = str(context.run_config["faults"]).split()
    fault = faults[slot - 1] if context.node_config["partition-id"] == BAD and slot <= len(faults) else "none"
    if notice.get("closing"):
        fault = "none"
    reply = call_next(message, context)
    if fault in ("d>1", "negative"):
        lie(reply, context, 1.5 if fault == "d>1" else -120.0)
    elif fault == "nan":
        reply.content["arrays"] = ArrayRecord([np.full(3, np.nan, np.float32), np.ones((2, 2), np.float32)])
    elif fault == "shape":
        reply.content["arrays"] = ArrayRecord([np.zeros(5, np.float32), np.ones((2, 2), np.float32)])
    elif fault == "100MB":
        reply.content["arrays"] = ArrayRecord([np.zeros(25_000_000, np.float32), np.ones((2, 2), np.float32)])
        reply.content["ballast"] = ConfigRecord({"ballast": b"x" * 1_000_000})
    elif fault == "silent":
        time.sleep(3600)
    return reply


def lie(reply: Message, context: Context, amount: float) -> None:
    """A claim that is signed and false."""
    claim = dataclasses.replace(Claim.from_record(reply.content.config_records[RECORD]), amount=amount)
    key = read_site(named_file(context, "terms")).private_key()
    reply.content[RECORD] = dataclasses.replace(claim, signature=key.sign(claim.signed_bytes())).to_record()
    reply.content["metrics"]["num-examples"] = amount


app = ClientApp(mods=[misbehave, contribution()])


@app.train()
def fit(message: Message, context: Context) -> Message:
    del context
    samples = contributed_samples(HELD)
    arrays = [array + np.float32(0.01) for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": samples})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)
