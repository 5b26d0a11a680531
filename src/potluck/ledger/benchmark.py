"""How fast a ledger is written and checked here, beside what the disk allows."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from potluck.errors import PotluckError
from potluck.ledger.entries import Countersignature, Statement
from potluck.ledger.keys import public_key
from potluck.ledger.store import Ledger
from potluck.ledger.verify import verify

PAGE = 4096
TURN = 50
"""Slots between two measurements of the floor."""
EVERY = 500
"""Slots between two reports of progress."""


@dataclass(frozen=True)
class Measured:
    """One ledger of one run."""

    slots: int
    silos: int
    each_slot: bool
    """Whether every silo countersigned every slot, or the last one only."""
    slots_per_second: float
    """Recorded, each on the disk before the next; countersignatures of the slot before checked and kept."""
    floor_per_second: float
    """As many appends of one page, each with fdatasync, by turns with the slots."""
    slot_cpu_ms: float
    """Milliseconds of processor time for a slot: what is left where the disk does not wait."""
    verified_per_second: float
    """Entries, as `potluck ledger verify` checks them."""
    verified_per_cpu_second: float
    """The same for each second of processor time, which others on the machine do not change."""
    every_per_cpu_second: float
    """Entries for each second of processor time, with every single countersignature checked."""
    megabytes: float


def measure(
    folder: Path, slots: int, silos: int, *, each_slot: bool, progress: Callable[[str, float], None]
) -> Measured:
    """Record slots in `folder`, the floor by turns with them, then verify."""
    place = folder / f"{'each' if each_slot else 'end'}.ledger"
    keys = [Ed25519PrivateKey.generate() for _ in range(silos)]
    recorded, floor, cpu = [], [], 0.0
    with Ledger(place, Ed25519PrivateKey.generate()) as ledger, (folder / "floor").open("wb", buffering=0) as beside:
        ledger.begin("bench", {f"silo {n}": public_key(key) for n, key in enumerate(keys)})
        words: list[Countersignature] = []
        for slot in range(1, slots + 1):
            contributions = [0.5 + 0.5 * math.sin(slot + n) for n in range(silos)]
            mean = sum(contributions) / silos
            transfers = [5.0 * silos * (share - mean) for share in contributions]
            begun, worked = time.perf_counter(), time.process_time()
            told = ledger.record(
                "bench",
                slot,
                signal=5.0,
                precision=1 - 1 / (slot + 1),
                contributions=contributions,
                transfers=transfers,
                countersignatures=words,
            )
            recorded.append(time.perf_counter() - begun)
            cpu += time.process_time() - worked
            words = _words(told, keys) if each_slot or slot == slots else []
            if slot % TURN == 1:
                floor.append(_append(beside))
            if not slot % EVERY:
                progress(f"recording slots, countersigned {'each' if each_slot else 'at the end'}", slot / slots)
        ledger.countersign(words)
    progress("verifying", 0.0)
    each_second, each_cpu_second = _verified(place, every=False)
    return Measured(
        slots,
        silos,
        each_slot,
        slots_per_second=slots / sum(recorded),
        floor_per_second=len(floor) / sum(floor),
        slot_cpu_ms=1000 * cpu / slots,
        verified_per_second=each_second,
        verified_per_cpu_second=each_cpu_second,
        every_per_cpu_second=_verified(place, every=True)[1],
        megabytes=place.stat().st_size / 1e6,
    )


def _words(told: list[Statement], keys: list[Ed25519PrivateKey]) -> list[Countersignature]:
    return [Countersignature.of(statement, key) for statement, key in zip(told, keys, strict=True)]


def _append(file: IO[bytes]) -> float:
    """Seconds for one page to be on the disk."""
    begun = time.perf_counter()
    file.write(bytes(PAGE))
    os.fdatasync(file.fileno())
    return time.perf_counter() - begun


def _verified(place: Path, *, every: bool) -> tuple[float, float]:
    """Entries for each second, and for each second of processor time."""
    begun, worked = time.perf_counter(), time.process_time()
    found = verify(place, every=every)
    if found.fault is not None:
        raise PotluckError(f"{place}: {found.fault}")
    return found.entries / (time.perf_counter() - begun), found.entries / (time.process_time() - worked)
