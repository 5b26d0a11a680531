"""Real silos with sentinel terms: every byte on the wire and every file of the server is searched for them."""

import dataclasses
from pathlib import Path

import pytest

from potluck.flower.federation import deployed, node_config
from tests.flower.app.trial_app.client import HELD as APP_HELD
from tests.flower.local import change_site, consortium_in, rows, scenario_of
from tests.flower.proxy import tapped
from tests.flower.real import finish, start
from tests.flower.sentinels import COMMUNICATION, ENERGY, HELD, PRICE, PROFIT, SHARE, leaks
from tests.flower.test_privacy import SAMPLES, TERMS


@pytest.mark.slow
def test_nothing_on_the_wire_or_on_the_server_tells_a_silos_terms(tmp_path: Path) -> None:
    assert APP_HELD == HELD
    consortium = consortium_in(tmp_path, scenario_of(2), [SHARE, SHARE])
    for silo in (0, 1):
        change_site(consortium, silo, profit=PROFIT, energy=ENERGY, energy_price=PRICE, communication=COMMUNICATION)
        change_site(consortium, silo, samples=float(HELD))
    with deployed(consortium, silos=[]) as federation, tapped(federation.port) as tap:
        through = dataclasses.replace(federation, port=tap.port)
        for silo in (0, 1):
            through.start_node(consortium.names[silo], node_config(consortium, silo))
        start(federation, consortium, "secret", 2)
        finish(federation, "secret")
        bodies = tap.bodies
    assert [row.contribution for row in rows(consortium)] == [SHARE] * 4
    own = {consortium.terms(silo).parent for silo in (0, 1)}
    nodes = {f"{name}.log" for name in consortium.names}  # what a silo's own machine would keep
    files = [
        place
        for place in consortium.folder.rglob("*")
        if place.is_file()
        and not own & set(place.parents)
        and place.name not in nodes
        and "compiled" not in place.parts
    ]
    assert {"ledger.db", "state.db", "superlink.log", "secret.log"} <= {place.name for place in files}
    found = [*bodies, *(place.read_bytes() for place in files)]
    assert sum(map(len, bodies)) > 10_000
    assert leaks({**TERMS, "samples": SAMPLES}, found) == []
    assert leaks({"what was sent": SHARE}, bodies) == ["what was sent"]
