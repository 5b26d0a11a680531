import struct
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.ledger import Opening, Statement
from potluck.ledger.entries import digest, entry_hash

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text("ab\x00é日", max_size=8),
    st.binary(max_size=8),
)


def test_the_hash_of_an_entry_by_hand() -> None:
    before = bytes(range(32))
    kind = b"potluck/1 entry"
    content = b"t" + struct.pack(">q", len(kind)) + kind + b"b" + struct.pack(">q", 32) + before
    content += b"i" + struct.pack(">q", 2) + b"i" + struct.pack(">q", 7)  # place, slot
    content += b"r" + struct.pack(">d", 5.0) + b"r" + struct.pack(">d", 0.9)  # signal, precision
    content += b"n" + b"i" + struct.pack(">q", -1_250_000)  # no claim, transfer
    assert entry_hash(before, 2, 7, 5.0, 0.9, None, -1_250_000) == sha256(content).digest()


@given(st.lists(values, max_size=4), st.lists(values, max_size=4))
def test_different_values_never_have_the_same_bytes(some: list[object], others: list[object]) -> None:
    same = repr(some) == repr(others)  # tells 0 from 0.0, 0.0 from −0.0, and text from bytes
    assert (digest("entry", *some) == digest("entry", *others)) == same  # type: ignore[arg-type]


hashes = st.binary(min_size=32, max_size=32)
numbers = st.integers(0, 2**63 - 1)
reals = st.floats(allow_nan=False, allow_infinity=False)
amounts = st.integers(-(2**63), 2**63 - 1)
names = st.text('a "\\é日𝛼', min_size=1, max_size=20)
statements = st.builds(
    Statement, run=names, opening=hashes, silo=names, place=numbers, number=numbers, previous=hashes, slot=numbers,
    signal=reals, precision=reals, contribution=st.none() | reals, transfer=amounts, outside=amounts, time=numbers,
    before=hashes, entries=st.lists(hashes, max_size=3).map(tuple), signature=st.binary(min_size=64, max_size=64),
)  # fmt: skip


@given(statements)
def test_a_statement_arrives_as_it_was_sent(statement: Statement) -> None:
    sent = statement.to_bytes()
    assert b"\n" not in sent
    arrived = Statement.from_bytes(sent)
    assert (arrived, arrived.hash, arrived.entry) == (statement, statement.hash, statement.entry)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b"\xff", b'{"run": "a", "run": "b"}', b'{"signal": NaN}', b"[" * 100_000]
)
def test_what_is_no_message_is_one_line(raw: bytes) -> None:
    with pytest.raises(PotluckError, match="opening is not well-formed") as refusal:
        Opening.from_bytes(raw)
    assert "\n" not in str(refusal.value)
