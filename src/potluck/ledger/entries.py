"""What is written down: canonical bytes, the hashes that chain them, and who signs which of them."""

import struct
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from potluck.errors import PotluckError

Value = int | float | str | bytes | None
Read = TypeVar("Read", bound="Message")
WHOLE, REAL = struct.Struct(">cq").pack, struct.Struct(">cd").pack
WRITE: dict[type, Callable[[Any], bytes]] = {
    int: lambda value: WHOLE(b"i", value),
    float: lambda value: REAL(b"r", value),
    str: lambda value: WHOLE(b"t", len(raw := value.encode(errors="surrogateescape"))) + raw,
    bytes: lambda value: WHOLE(b"b", len(value)) + value,
    type(None): lambda _: b"n",
}


def digest(kind: str, *values: Value) -> bytes:
    """SHA-256 of a kind and values, each written as a letter for its type and then its bytes, so that none runs on.

    i: 8 bytes, big-endian, two's complement; r: IEEE 754 binary64, big-endian; t, b: length as 8 bytes, then UTF-8 or
    bytes; n: nothing.
    """
    return sha256(b"".join([WRITE[type(value)](value) for value in (f"potluck/1 {kind}", *values)])).digest()


def ledger_hash(number: int, identity: bytes, coordinator: bytes, time: int) -> bytes:
    """Link 0 of the chain: which ledger, whose, since when. The coordinator signs it."""
    return digest("ledger", number, identity, coordinator, time)


def run_hash(
    previous: bytes,
    number: int,
    run: str,
    rules: str,
    balanced: int,
    time: int,
    silos: Iterable[tuple[int, str, bytes]],
) -> bytes:
    """A link that opens a run: its rules, the places of its silos, their names and keys. The coordinator signs it."""
    members = [value for silo in silos for value in silo]
    return digest("run", previous, number, run, rules, balanced, time, *members)


def entry_hash(
    before: bytes, place: int, slot: int, signal: float, precision: float, contribution: float | None, transfer: int
) -> bytes:
    """One silo's line in a slot. `before` is its line in the slot before, in the first slot the run's hash.

    So the last one stands for the silo's whole account in that run.
    """
    return digest("entry", before, place, slot, signal, precision, contribution, transfer)


def slot_hash(
    previous: bytes,
    number: int,
    run: bytes,
    slot: int,
    signal: float,
    precision: float,
    outside: int,
    time: int,
    entries: Iterable[bytes],
) -> bytes:
    """A link that settles a slot: what is common to all, and every silo's line. The coordinator signs it."""
    return digest("slot", previous, number, run, slot, signal, precision, outside, time, *entries)


def countersigned_hash(slot: bytes, entry: bytes) -> bytes:
    """What a silo countersigns: its account so far, and the slot (with all of the chain before) that it was told in."""
    return digest("countersigned", slot, entry)


def link_hash(previous: bytes, number: int, slot: int, place: int, signature: bytes) -> bytes:
    """A link that keeps a countersignature, of the slot at link `slot` by the silo at `place`."""
    return digest("countersignature", previous, number, slot, place, signature)


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
"""Printed as it is: no control characters, neither C0 nor C1, which a terminal would obey."""
Hash = Annotated[bytes, Field(min_length=32, max_length=32)]
Signature = Annotated[bytes, Field(min_length=64, max_length=64)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Message(BaseModel):
    """What coordinator and silos hand each other: one line of JSON, checked where it is read."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, ser_json_bytes="hex", val_json_bytes="hex"
    )

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls: type[Read], raw: bytes) -> Read:
        """Read one line of JSON from somebody else."""
        try:
            return cls.model_validate_json(raw)
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise PotluckError(f"is not well-formed: {where}: {first['msg']}", field=cls.__name__.lower()) from None

    @classmethod
    def of_fields(cls: type[Read], **fields: object) -> Read:
        """From what the caller says; a mistake is named."""
        try:
            return cls.model_validate(fields)
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise PotluckError(f"is not as it should be: {first['msg']}, got {first['input']!r}", field=where) from None


class Silo(Message):
    """A member of a run: its name, and the public key that it countersigns with."""

    name: Name
    key: Hash


class Opening(Message):
    """The beginning of a run, as the coordinator signs it."""

    number: Number
    previous: Hash
    run: Name
    rules: str
    balanced: bool
    time: Number
    silos: tuple[Silo, ...]
    signature: Signature

    @property
    def hash(self) -> bytes:
        """What the coordinator signs."""
        silos = ((place, silo.name, silo.key) for place, silo in enumerate(self.silos))
        return run_hash(self.previous, self.number, self.run, self.rules, int(self.balanced), self.time, silos)

    @property
    def names(self) -> tuple[str, ...]:
        """Silos in the order of their places."""
        return tuple(silo.name for silo in self.silos)


class Statement(Message):
    """What one silo is told of one slot, with all it needs to check the coordinator's signature."""

    run: Name
    opening: Hash
    """The run's hash."""
    silo: Name
    place: Number
    number: Number
    previous: Hash
    slot: Number
    signal: float
    precision: float
    contribution: float | None
    transfer: Amount
    """In micro-units."""
    outside: Amount
    time: Number
    before: Hash
    """The silo's line in the slot before."""
    entries: tuple[Hash, ...]
    """The hashes of all silos' lines, this one's among them."""
    signature: Signature

    @property
    def entry(self) -> bytes:
        """The hash of this silo's line."""
        return entry_hash(
            self.before, self.place, self.slot, self.signal, self.precision, self.contribution, self.transfer
        )

    @property
    def whole(self) -> bool:
        """Whether this silo's line is the one among `entries`, which are signed; its own fields are signed by that."""
        return self.entries[self.place : self.place + 1] == (self.entry,)

    @property
    def hash(self) -> bytes:
        """What the coordinator signs."""
        return slot_hash(
            self.previous,
            self.number,
            self.opening,
            self.slot,
            self.signal,
            self.precision,
            self.outside,
            self.time,
            self.entries,
        )


class Countersignature(Message):
    """A silo's word that it was told this."""

    run: Name
    slot: Number
    silo: Name
    signature: Signature

    @classmethod
    def of(cls, statement: Statement, key: Ed25519PrivateKey) -> "Countersignature":
        """By the owner of `key`."""
        signature = key.sign(countersigned_hash(statement.hash, statement.entry))
        return cls(run=statement.run, slot=statement.slot, silo=statement.silo, signature=signature)
