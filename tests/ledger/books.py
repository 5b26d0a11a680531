"""Ledgers to test with: real files, and the keys of everybody in them."""

import contextlib
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from potluck.ledger import Account, Countersignature, Ledger, Statement, countersign, join, public_key, receive

EXAMPLE = Path(__file__).parents[2] / "examples" / "verify_ledger.py"
INDEPENDENT = compile(EXAMPLE.read_text(), EXAMPLE, "exec")


def key_of(name: str) -> Ed25519PrivateKey:
    """Always the same for a name."""
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))


COORDINATOR = key_of("coordinator")
SILOS = ("north", "south", "west")
KEYS = {name: public_key(key_of(name)) for name in SILOS}


@dataclass
class Federation:
    """A ledger, and silos that check and countersign what they are told."""

    ledger: Ledger
    run: str = "spring"
    balanced: bool = True
    accounts: dict[str, Account] = field(default_factory=dict)
    words: list[Countersignature] = field(default_factory=list)

    def __post_init__(self) -> None:
        opening = self.ledger.begin(self.run, KEYS, balanced=self.balanced, rules="redistribution, α = 5")
        for name, key in KEYS.items():
            self.accounts[name] = join(opening, public_key(COORDINATOR), key)

    def settle(self, transfers: tuple[float, ...] = (5.0, 0.5, -5.5), absent: bool = False) -> list[Statement]:
        """One more slot, with the countersignatures of the slot before."""
        slot = self.ledger.last_slot(self.run) + 1
        told = self.ledger.record(
            self.run,
            slot,
            signal=5.0,
            precision=1 - 1 / (slot + 1),
            contributions=[1.0, 0.25, None if absent else 0.0],
            transfers=transfers,
            countersignatures=self.words,
        )
        for name, statement in zip(SILOS, told, strict=True):
            self.accounts[name] = receive(self.accounts[name], statement)
        self.words = [countersign(self.accounts[name], key_of(name)) for name in SILOS]
        return told


def two_runs(place: Path) -> None:
    """Two runs side by side, one of them not balanced; the last slot of the second waits for countersignatures."""
    with Ledger(place, COORDINATOR) as ledger:
        spring, autumn = Federation(ledger), Federation(ledger, "autumn", balanced=False)
        for slot in range(3):
            spring.settle(absent=slot == 1)
            autumn.settle((1.5, 0.0, -0.25))
        ledger.countersign(spring.words)


def independent(place: Path, *words: str) -> str | None:
    """What examples/verify_ledger.py finds wrong; None where it finds nothing."""
    names: dict[str, object] = {}
    try:
        with (
            patch.object(sys, "argv", ["verify_ledger.py", str(place), *words]),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            exec(INDEPENDENT, names)
    except SystemExit as fault:
        return str(fault)
    except Exception as fault:
        return repr(fault)
    finally:
        if "db" in names:
            names["db"].close()  # type: ignore[attr-defined]
    return None
