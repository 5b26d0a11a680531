"""What a silo remembers between two slots, in a file of its own: its accounts, its open decisions, its agent."""

import contextlib
import dataclasses
import fcntl
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from potluck.errors import PotluckError, file_faults, reason
from potluck.flower.deciders import Decider
from potluck.ledger import Account, Statement
from potluck.training.files import read_arrays, write_arrays

MARK = b"potluck silo 2\n"
LOG = logging.getLogger("flwr")


@dataclass(frozen=True)
class Decision:
    """What was decided in a slot, and on which terms: all that its payoff needs, but for what the settlement says."""

    share: float
    profit: float
    energy_price: float
    energy: float
    communication: float
    samples: int = 0

    def payoff(self, precision: float, transfer: float) -> float:
        """u = p·P − κ·v·x − C + r."""
        cost = self.energy_price * self.energy * self.samples
        return self.profit * precision - cost - self.communication + transfer


@dataclass(frozen=True)
class Membership:
    """One run: the account, and what was decided but is not settled yet."""

    account: Account
    decisions: dict[int, Decision] = field(default_factory=dict)
    communication: dict[int, float] = field(default_factory=dict)
    """C of the slots on record."""
    since: int = 0
    """From here on the silo was asked for every slot: of those before, it knows only the decisions that it has."""


@dataclass(frozen=True)
class SiloState:
    """Everything. Runs are known by the hash of their opening, so that none can be played twice."""

    agent: PyTree
    memberships: dict[str, Membership] = field(default_factory=dict)
    held: float = 0.0
    """|D|, when it was last looked at."""
    slots: int = 0
    """Slots that were paid."""
    earned: float = 0.0
    """Payoff of all of them."""


class _AnotherAgentError(Exception):
    """The state is another agent's; all but the agent is kept."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about


def load_state(place: Path, decider: Decider) -> SiloState:
    """The silo's state; a fresh one where there is none."""

    def like(about: dict[str, Any]) -> PyTree:
        if about["agent"] != decider.name:
            raise _AnotherAgentError(about)
        return decider.shape()

    try:
        about, agent = read_arrays(place, MARK, like)
    except FileNotFoundError:
        return SiloState(decider.init())
    except _AnotherAgentError as other:
        about, agent = other.about, decider.init()
        LOG.warning("potluck: %s begins afresh; what %s had learnt is not kept", decider.name, about["agent"])
    except OSError as fault:
        raise PotluckError(f"{place}: {reason(fault)}; a silo must read its state") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise PotluckError(
            f"{place}: not a silo's state that can be read ({fault}); restore it, or remove it to begin anew"
        ) from None
    memberships = {name: _membership(values) for name, values in about["memberships"].items()}
    return SiloState(agent, memberships, about["held"], about["slots"], about["earned"])


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """One at a time reads and changes the state: a slot that is late may still be at work beside the next."""
    with file_faults(place, "name a file in a folder of the silo's own"):
        lock = place.with_name(f"{place.name}.lock").open("a")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_about(place: Path) -> dict[str, Any]:
    """What a state file says beside the agent: for the silo's own people."""

    def stop(about: dict[str, Any]) -> PyTree:
        raise _AnotherAgentError(about)

    try:
        read_arrays(place, MARK, stop)
    except _AnotherAgentError as found:
        return found.about
    except (OSError, ValueError) as fault:
        raise PotluckError(f"{place}: not a silo's state that can be read ({fault})") from None
    raise AssertionError("stopped before the arrays")


def save_state(place: Path, decider: Decider, state: SiloState) -> None:
    """Written beside and renamed, for the silo's eyes alone: whole, or as it was."""
    about = {
        "agent": decider.name,
        "memberships": {name: _values(membership) for name, membership in state.memberships.items()},
        "held": state.held,
        "slots": state.slots,
        "earned": state.earned,
    }
    with file_faults(place, "what was there is kept, make room", failed="not written"):
        write_arrays(place, MARK, about, state.agent, private=True)


def keep_receipts(place: Path, accepted: list[Statement], disputed: list[Statement]) -> None:
    """Keep what was signed, for `potluck ledger verify --receipts`; what is disputed, once."""
    if not accepted and not disputed:
        return
    file = place.with_name(f"{place.name}.receipts")
    opened = os.O_RDWR | os.O_CREAT | os.O_APPEND
    with (
        file_faults(file, "make room", failed="not written"),
        os.fdopen(os.open(file, opened, 0o600), "a+b") as out,
    ):
        out.seek(0)
        known = out.read() if disputed else b""
        new = [statement.to_bytes() for statement in disputed if statement.to_bytes() not in known]
        size = out.seek(0, os.SEEK_END)
        out.seek(max(size - 1, 0))
        torn = b"" if out.read(1) in (b"", b"\n") else b"\n"  # who was killed in the middle of a line
        out.write(torn + b"".join(line + b"\n" for line in [*(one.to_bytes() for one in accepted), *new]))
        out.flush()
        os.fsync(out.fileno())


def _membership(values: dict[str, Any]) -> Membership:
    return Membership(
        account=Account.from_bytes(values["account"].encode()),
        decisions={int(slot): Decision(**decision) for slot, decision in values["decisions"].items()},
        communication={int(slot): cost for slot, cost in values["communication"].items()},
        since=values["since"],
    )


def _values(membership: Membership) -> dict[str, Any]:
    return {
        "account": membership.account.to_bytes().decode(),
        "decisions": {slot: dataclasses.asdict(decision) for slot, decision in membership.decisions.items()},
        "communication": membership.communication,
        "since": membership.since,
    }
