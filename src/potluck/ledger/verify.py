"""Does a ledger say today what was signed? The first link that does not is named."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from potluck.errors import PotluckError
from potluck.ledger.chain import BrokenChainError, Chain
from potluck.ledger.entries import Statement
from potluck.ledger.keys import signed
from potluck.ledger.schema import FAULTS, SCHEMA, open_reader, schema_of


@dataclass(frozen=True)
class Verification:
    """What was checked, and the first fault."""

    coordinator: str
    """The public key by which all slots are signed."""
    runs: int
    slots: int
    entries: int
    countersignatures: int
    head: str
    """Number and hash of the last link: keep it, and give it as `--head` next time."""
    countersigned: dict[str, dict[str, tuple[int, int]]]
    """For each run and silo the last slot that it has countersigned, and the run's last slot."""
    fault: str | None


def verify(
    place: Path,
    *,
    coordinator: bytes | None = None,
    heads: Sequence[str] = (),
    receipts: Sequence[Statement] = (),
    every: bool = False,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> Verification:
    """Check every hash, every signature of the coordinator, every sum, and the countersignatures.

    A countersignature covers a silo's account up to its slot, and the coordinator signs those that a slot or a run
    follows: so the last of each silo is checked, and all at the end that nothing signed follows; `every` checks all.
    What was cut off at the end shows only against what is known from elsewhere: `heads` that were printed before, and
    `receipts`, which are statements that silos have kept. `coordinator` is the public key that one trusts; without it,
    the ledger's own word is taken.
    """
    db = open_reader(place)
    chain, fault = Chain(db), None
    try:
        db.execute("BEGIN")
        wanted = {_hash_of(head) for head in heads} | {receipt.hash.hex() for receipt in receipts}
        if schema_of(db) != SCHEMA:
            raise BrokenChainError("its tables, triggers or views were altered")
        (state,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok":
            raise BrokenChainError(f"the file is damaged: {state}")
        chain.walk(coordinator, wanted, lambda share: progress("checking entries", share))
        for head in heads:
            if _hash_of(head) in wanted:
                raise BrokenChainError(
                    f"head {head} is not in the chain: links were cut off or rewritten after it was printed"
                )
        for receipt in receipts:
            _check_receipt(receipt, chain, missing=receipt.hash.hex() in wanted)
        chain.check_countersignatures(every, lambda share: progress("checking countersignatures", share))
    except BrokenChainError as found:
        fault = str(found)
    except FAULTS as found:
        fault = f"after link {chain.number} the file is damaged: {found}"
    finally:
        db.close()
    return Verification(
        coordinator=chain.coordinator.hex(),
        runs=len(chain.runs),
        slots=len(chain.slots),
        entries=chain.entries,
        countersignatures=chain.countersignatures,
        head=f"{chain.number}:{chain.hash.hex()}",
        countersigned={
            run.name: {silo: (run.signed.get(n, (0, 0))[0], run.slot) for n, (silo, _) in enumerate(run.silos)}
            for run in chain.runs.values()
        },
        fault=fault,
    )


def _hash_of(head: str) -> str:
    found = head.rpartition(":")[2].lower()
    if len(found) != 64:
        raise PotluckError(f"must be as printed by verify, NUMBER:HASH, got {head!r}", field="head")
    return found


def _check_receipt(receipt: Statement, chain: Chain, *, missing: bool) -> None:
    """What the coordinator signed has to be in the chain, and what the receipt says has to be what was signed."""
    where, silo = f"slot {receipt.slot} of run {receipt.run}", receipt.silo
    if not signed(chain.coordinator, receipt.signature, receipt.hash):
        raise BrokenChainError(
            f"{where}: the receipt of {silo} is not signed by this ledger's coordinator, so it proves nothing"
        )
    if not receipt.whole:
        raise BrokenChainError(
            f"{where}: the receipt of {silo} was altered after the coordinator signed it: its contribution, transfer, "
            "place or line before is not that of its entry"
        )
    if missing:
        raise BrokenChainError(f"{where}: {silo} holds a receipt that is not in the chain: it was cut off or rewritten")
    run = chain.runs[chain.slots[receipt.number][0]]
    if (run.name, run.silos[receipt.place][0]) != (receipt.run, silo):
        raise BrokenChainError(
            f"{where}: the receipt of {silo} was altered: it is that of {run.silos[receipt.place][0]} in run {run.name}"
        )
