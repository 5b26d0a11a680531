"""Verify a ledger without Potluck, from docs/ledger.md alone: python verify_ledger.py LEDGER [COORDINATOR [HEAD]]."""

import sqlite3
import sys
from hashlib import sha256
from pathlib import Path
from struct import pack

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def written(value):
    if isinstance(value, int | float):
        return pack(">cq", b"i", value) if isinstance(value, int) else pack(">cd", b"r", value)
    raw = value.encode() if isinstance(value, str) else value
    return b"n" if raw is None else pack(">cq", b"b" if raw is value else b"t", len(raw)) + raw


def digest(kind, *values):
    return sha256(b"".join(map(written, (f"potluck/1 {kind}", *values)))).digest()


def check(what, true, signature=None, key=None, message=None):
    true or sys.exit(f"link {what} is missing or was changed")
    if key:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)  # raises InvalidSignature


place, trusted, head = (*sys.argv[1:], None, None)[:3]
db = sqlite3.connect(f"{Path(place).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
db.execute("BEGIN")  # the coordinator may write meanwhile
((n, identity, owner, time, link, seal),) = db.execute("SELECT * FROM ledger").fetchall()
check(n, link == digest("ledger", n, identity, owner, time) and trusted in (None, owner.hex()), seal, owner, link)
links, runs, slots, rows = [link], {}, {}, 0
tables = [f"SELECT number, '{table}' FROM {table}" for table in ("runs", "slots", "countersignatures")]
for n, (_, table) in enumerate(db.execute(" UNION ALL ".join(tables) + " ORDER BY number"), 1):
    check(n, row := db.execute(f"SELECT * FROM {table} WHERE number = ?", (n,)).fetchone())
    if table == "runs":
        _, *about, link, seal = row
        silos = db.execute("SELECT place, silo, key FROM silos WHERE run = ? ORDER BY place", (n,)).fetchall()
        check(n, [place for place, *_ in silos] == list(range(len(silos))))
        check(n, link == digest("run", links[-1], n, *about, *sum(silos, ())), seal, owner, link)
        runs[n], rows = (0, [link] * len(silos), link, about[2], [key for *_, key in silos]), rows + len(silos)
    elif table == "slots":
        _, run, slot, *common, outside, time, link, seal = row
        last, before, begun, balanced, keys = runs[run]
        entries = db.execute("SELECT * FROM entries WHERE number = ? ORDER BY place", (n,)).fetchall()
        lines = [digest("entry", before[place], place, slot, *common, *told) for _, place, *told, _ in entries]
        check(n, [entry[1::3] for entry in entries] == list(enumerate(lines)) and len(lines) == len(keys))
        check(n, slot == last + 1 and sum(entry[3] for entry in entries) == -outside and not (balanced and outside))
        check(n, link == digest("slot", links[-1], n, begun, slot, *common, outside, time, *lines), seal, owner, link)
        runs[run], rows = (slot, lines, begun, balanced, keys), rows + len(lines)
        slots[n] = [(key, digest("countersigned", link, line)) for key, line in zip(keys, lines, strict=True)]
    else:
        _, slot, place, seal, link = row
        check(n, place >= 0 and link == digest("countersignature", links[-1], *row[:4]), seal, *slots[slot][place])
    links.append(link)
(total,) = db.execute("SELECT (SELECT count(*) FROM silos) + count(*) FROM entries").fetchone()
check(f"of a row, or {head},", total == rows and (head is None or bytes.fromhex(head.split(":")[-1]) in links))
print(f"{len(runs)} runs and {len(slots)} slots are as they were signed; head {n}:{link.hex()}")
