"""What travels between coordinator and silo beside Flower's own records: one ConfigRecord each way.

Nothing here can carry a silo's terms: a claim holds shares or samples, as the basis needs, and never both.
"""

import json
from dataclasses import asdict, dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias

import numpy as np
from flwr.app import ConfigRecord

from potluck.errors import PotluckError

RECORD = "potluck"
"""The name of the record, in messages and in replies."""
Basis: TypeAlias = Literal["fraction", "samples"]


@dataclass(frozen=True)
class Rules:
    """What holds for a whole run. The coordinator signs it as part of the run's opening."""

    horizon: int
    """T, slots in a game; beyond it the run goes on as a game without an end."""
    history: int
    """H, slots on record."""
    discount: float
    observation: tuple[str, ...]
    basis: Basis
    """Whether silos say which share of their data they bring, or how many samples."""
    weighted_by: str
    """The metric by which the strategy weighs replies; the claim is written there."""
    precision: float
    """P of the untrained model."""
    mechanism: dict[str, Any]

    def to_text(self) -> str:
        """As the opening carries it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "Rules":
        """Read it back."""
        try:
            values = json.loads(text)
            return cls(**{**values, "observation": tuple(values["observation"])})
        except (ValueError, TypeError, KeyError) as fault:
            raise PotluckError(f"the run's rules cannot be read ({fault}); both sides need the same Potluck") from None


@dataclass(frozen=True)
class History:
    """What all may see of the last H slots, newest first: contributions [H, N], signal [H], precision [H]."""

    contributions: np.ndarray
    signal: np.ndarray
    precision: np.ndarray

    @classmethod
    def blank(cls, history: int, silos: int) -> "History":
        """Before the first slot."""
        return cls(np.zeros((history, silos)), np.zeros(history), np.zeros(history))

    def after(self, contributions: np.ndarray, signal: float, precision: float) -> "History":
        """With one more slot; the oldest is forgotten."""
        new = (np.asarray(contributions)[None], np.array([signal]), np.array([precision]))
        old = (self.contributions, self.signal, self.precision)
        return History(*(np.concatenate([first, rest[:-1]]) for first, rest in zip(new, old, strict=True)))


@dataclass(frozen=True)
class Notice:
    """What a silo is told before a slot."""

    run: str
    slot: int
    """The slot to come, counted from 1."""
    opening: bytes
    """The run's opening, signed: rules, silos and their keys."""
    history: History
    statements: tuple[bytes, ...] = ()
    """Settlements of this silo alone that it has not confirmed yet, oldest first, each signed."""
    closing: bool = False
    """Whether the run is over: there is nothing to train, only to receive."""
    signature: bytes = b""

    def signed_bytes(self) -> bytes:
        """What the coordinator signs, so that nobody else can ask for a slot; opening and statements are signed."""
        numbers = (self.history.contributions, self.history.signal, self.history.precision)
        values = [self.run, self.slot, self.closing, self.opening.hex(), *(part.tolist() for part in numbers)]
        return b"potluck notice 1\n" + json.dumps(values).encode()

    def to_record(self) -> ConfigRecord:
        """As the message carries it."""
        return ConfigRecord(
            {
                "signature": self.signature,
                "run": self.run,
                "slot": self.slot,
                "opening": self.opening,
                "contributions": [float(share) for share in self.history.contributions.ravel()],
                "signal": [float(signal) for signal in self.history.signal],
                "precision": [float(precision) for precision in self.history.precision],
                "statements": list(self.statements),
                "closing": self.closing,
            }
        )

    @classmethod
    def from_record(cls, record: ConfigRecord) -> "Notice":
        """Read it back."""
        try:
            signal, precision = (np.array(record[name], float) for name in ("signal", "precision"))
            shares = np.array(record["contributions"], float).reshape(len(signal), -1)
            return cls(
                run=str(record["run"]),
                slot=int(record["slot"]),
                opening=bytes(record["opening"]),
                history=History(shares, signal, precision),
                statements=tuple(bytes(statement) for statement in record["statements"]),
                closing=bool(record["closing"]),
                signature=bytes(record["signature"]),
            )
        except (KeyError, TypeError, ValueError) as fault:
            raise PotluckError(
                f"the coordinator's notice cannot be read ({fault}); both sides need the same Potluck"
            ) from None


@dataclass(frozen=True)
class Claim:
    """What a silo answers: who it is, what it brought, and up to which slot it has received its settlements."""

    run: str
    slot: int
    silo: str
    amount: float
    """d on basis fraction, x on basis samples."""
    received: int
    countersignature: bytes = b""
    """Of the last settlement received; empty before the first."""
    signature: bytes = b""

    def signed_bytes(self) -> bytes:
        """What the silo signs, so that nobody can answer in its name."""
        values = [self.run, self.slot, self.silo, self.amount, self.received]
        return b"potluck claim 1\n" + json.dumps(values).encode()

    def to_record(self) -> ConfigRecord:
        """As the reply carries it."""
        return ConfigRecord(asdict(self))

    @classmethod
    def from_record(cls, record: ConfigRecord) -> "Claim":
        """Read it back; a ValueError where a field is missing or of another kind."""
        kinds: dict[str, type | UnionType] = {"run": str, "slot": int, "silo": str, "amount": int | float}
        kinds |= {"received": int, "countersignature": bytes, "signature": bytes}
        for name, kind in kinds.items():
            if not isinstance(record.get(name), kind) or isinstance(record[name], bool):
                raise ValueError(f"its claim has no {name} that can be read")
        return cls(**{name: record[name] for name in kinds})
