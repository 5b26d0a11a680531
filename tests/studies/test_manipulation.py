"""What lying pays under each mechanism, on preset `paper`: the table of docs/game.md."""

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from potluck.mechanisms import MECHANISMS
from potluck.scenario import mechanism_of, preset
from potluck.studies.manipulation import MANIPULATIONS, Manipulations, manipulations, mechanisms_to_compare


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, Manipulations]]:
    with jax.enable_x64(True):
        yield {row.mechanism: row for row in manipulations(preset("paper"))}


def test_every_mechanism_has_a_row(table: dict[str, Manipulations]) -> None:
    assert {name.partition(" (")[0] for name in table} == set(MECHANISMS)


def test_samples_resist_what_fractions_do_not(table: dict[str, Manipulations]) -> None:
    fraction, samples = table["redistribution (fraction)"], table["redistribution (samples)"]
    assert fraction.shading > 1
    assert abs(samples.shading) < 1e-9
    assert fraction.splitting is not None
    assert samples.splitting is not None
    assert fraction.splitting > 1 > 0 > samples.splitting


def test_whoever_is_believed_about_contributions_is_paid_for_claiming_more(table: dict[str, Manipulations]) -> None:
    for name, row in table.items():
        assert (row.over_reporting > 1) == (name != "none")


def test_overstating_costs_pays_under_cost_sharing_alone(table: dict[str, Manipulations]) -> None:
    shared = table["cost-sharing"]
    assert shared.overstating is not None
    assert shared.overstating_equilibrium is not None
    assert shared.overstating_equilibrium > shared.overstating > 10
    assert all(row.overstating is None for name, row in table.items() if name != "cost-sharing")


def test_the_scenarios_own_options_are_compared() -> None:
    chosen = mechanism_of("proportional", pot=77.0)
    assert mechanisms_to_compare(preset("paper").model_copy(update={"mechanism": chosen}))["proportional"] == chosen


def test_the_documentation_shows_the_table(table: dict[str, Manipulations]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "game.md").read_text(encoding="utf-8")
    for name, row in table.items():
        gains = [getattr(row, lie) for lie in MANIPULATIONS]
        cells = " | ".join("–" if gain is None else f"{gain:+.2f}" for gain in gains)
        assert f"| {name} | {cells} |" in text
