"""Nothing that leaves a silo says what it earns, what it pays, or how much data it has."""

import struct
from pathlib import Path

import pytest

from potluck.flower.consortium import Consortium
from potluck.scenario import mechanism_of
from tests.flower.local import START, LocalGrid, change_site, client_app, consortium_in, incentivized, rows, scenario_of
from tests.flower.sentinels import COMMUNICATION, ENERGY, HELD, PRICE, PROFIT, SHARE, encodings, leaks, varint

TERMS = {"profit": PROFIT, "energy": ENERGY, "energy price": PRICE, "communication": COMMUNICATION, "held": HELD}
SAMPLES = round(SHARE * HELD)


def test_the_search_finds_what_it_looks_for() -> None:
    assert varint(300) == b"\xac\x02"
    for body in (b"p=1234.568", struct.pack("<f", PROFIT), struct.pack(">d", PROFIT), b'{"x": 1234.56789}'):
        assert leaks(TERMS, [b"before", body]) == ["profit"]
    assert leaks(TERMS, [varint(HELD)]) == leaks(TERMS, [b"23,456,789"]) == ["held"]
    assert len(encodings(HELD)) >= 10


def secretive(folder: Path, basis: str) -> tuple[Consortium, LocalGrid]:
    mechanism = mechanism_of("redistribution", basis=basis, schedule="gain")
    consortium = consortium_in(folder, scenario_of(2, mechanism=mechanism), [SHARE, SHARE])
    for silo in (0, 1):
        change_site(consortium, silo, profit=PROFIT, energy=ENERGY, energy_price=PRICE, communication=COMMUNICATION)
        change_site(consortium, silo, samples=float(HELD))
    grid = LocalGrid(consortium, [client_app(held=HELD) for _ in range(2)])
    grid.wire = []
    return consortium, grid


@pytest.mark.parametrize(("basis", "sent", "kept"), [("fraction", SHARE, SAMPLES), ("samples", SAMPLES, SHARE)])
def test_terms_stay_in_the_silo(tmp_path: Path, basis: str, sent: float, kept: float) -> None:
    consortium, grid = secretive(tmp_path, basis)
    incentivized(consortium).start(grid, START, num_rounds=3)
    assert rows(consortium)[0].contribution == sent
    assert grid.wire is not None
    server = [place for place in consortium.folder.rglob("*") if place.is_file() and "silo-" not in str(place.parent)]
    assert {"ledger.db", "scenario.toml"} <= {place.name for place in server}
    bodies = [*grid.wire, *(place.read_bytes() for place in server)]
    assert leaks({**TERMS, "the other of d and x": kept}, bodies) == []
    assert leaks({"what was sent": sent}, bodies) == ["what was sent"]


def test_errors_do_not_tell_either(tmp_path: Path) -> None:
    consortium, grid = secretive(tmp_path, "fraction")
    change_site(consortium, 0, profit=-PROFIT)
    change_site(consortium, 1, cap=PROFIT)
    incentivized(consortium).start(grid, START, num_rounds=1)
    assert grid.wire is not None
    assert any(b"its own log says why" in body for body in grid.wire)
    assert leaks(TERMS, grid.wire) == []
