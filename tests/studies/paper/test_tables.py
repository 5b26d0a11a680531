import dataclasses
from pathlib import Path

import numpy as np
import pandas
import pytest

from potluck.studies.paper.curves import recoveries, slots_to, smoothed
from potluck.studies.paper.findings import Findings, gain_share
from potluck.studies.paper.tables import (
    all_tables,
    intensities,
    schemes,
    strangers,
    write_tables,
)
from tests.studies.paper.made_up import LEVELS, equilibrium, findings


def test_shares_of_the_planners_gain_are_exact_where_nothing_varies() -> None:
    found = gain_share(np.full(3, 80.0), np.full(3, 60.0), np.full(3, 100.0))
    assert found is not None
    assert (found.mean, found.low, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("planned", [60.0, 59.0])
def test_where_a_planner_gains_nothing_there_is_no_share(planned: float) -> None:
    assert gain_share(np.full(3, 80.0), np.array([59.9, 60.0, 60.1]), np.full(3, planned)) is None


def test_the_table_of_schemes_has_everybody_with_a_share() -> None:
    rows = {row["scheme"]: row for row in schemes(findings())}
    assert list(rows) == ["planner", *LEVELS, "random", "fixed:1"]
    assert rows["mpgd"]["gain_share"] == pytest.approx((100 - 60) / (120 - 60), abs=0.01)
    assert rows["wpr"]["gain_share"] == 0
    assert rows["fixed:1"]["welfare"] == 70
    assert rows["mpgd"]["nash_conv"] == pytest.approx(0.04)
    assert rows["greedy"]["mpgd_better"] == 1


def test_beside_wpr_stands_the_best_equilibrium_without_redistribution() -> None:
    found = dataclasses.replace(findings(), equilibria={"paper": equilibrium(80.0, 0.02)})
    rows = {row["scheme"]: row for row in schemes(found)}
    unpaid = rows["equilibrium without redistribution"]
    assert (unpaid["welfare"], unpaid["share_of_stake"]) == (pytest.approx(80), pytest.approx(0.02))
    assert rows["mpgd"]["gain_share_over_equilibrium"] == pytest.approx((100 - 80) / (120 - 80), abs=0.01)
    assert rows["wpr"]["gain_share_over_equilibrium"] < 0
    assert [row["wpr_share_of_stake"] for row in intensities(found)] == pytest.approx([0.01] * 8)
    close = dataclasses.replace(found, equilibria={"paper": equilibrium(120.0, 0.02)})
    assert "gain_share_over_equilibrium" not in schemes(close)[2]


def test_slots_to_95_per_cent_are_those_of_the_smoothed_curve() -> None:
    sooner, later = (slots_to(findings(), "paper", scheme).mean() for scheme in ("mpgd", "wpr"))
    assert sooner < later


def test_smoothing_takes_the_mean_of_two_on_each_side_and_keeps_a_ramp_in_its_place() -> None:
    np.testing.assert_allclose(smoothed(np.arange(7.0)), [1, 1.5, 2, 3, 4, 4.5, 5])


def test_who_does_not_rise_is_not_fast() -> None:
    still = np.random.default_rng(0).normal(50, 1, (5, 20))
    falling = np.linspace(60, 50, 20) + still - 50
    found = findings()
    for curve in (still, falling, np.full((5, 20), 50.0)):
        cell = {**found.cells["paper/greedy"]}
        cell["curve"] = {**cell["curve"], "welfare": curve.tolist()}
        changed = dataclasses.replace(found, cells={**found.cells, "paper/greedy": cell})
        assert not np.isfinite(slots_to(changed, "paper", "greedy")).any()
        row = next(row for row in schemes(changed) if row["scheme"] == "greedy")
        assert row["seeds_risen"] == 0
        assert "slots_to_95" not in row


def adapting(welfare: np.ndarray) -> Findings:
    """MPGD's welfare through the change, alike for all seeds; WPR has 60 and a planner 120 in every stage."""
    found = findings()
    cell = {**found.adapted["mpgd"]}
    cell["curve"] = {**cell["curve"], "welfare": [welfare.tolist()] * 5}
    unpaid = {**found.adapted["wpr"], "curve": {**cell["curve"], "welfare": [[60.0] * 20] * 5}}
    return dataclasses.replace(found, adapted={**found.adapted, "mpgd": cell, "wpr": unpaid})


def test_who_falls_late_and_for_good_is_not_back() -> None:
    rows = recoveries(adapting(np.array([100.0] * 12 + [62.0] * 8)))
    assert [row["seeds_back"] for row in rows if row["scheme"] == "mpgd"] == [0, 0]


def test_who_never_falls_is_back_at_once_below_nothing_too() -> None:
    for level in (100.0, 40.0):  # 40 is a third of the planner's gain below WPR
        rows = [row for row in recoveries(adapting(np.full(20, level))) if row["scheme"] == "mpgd"]
        assert [(row["seeds_back"], row["slots_to_95"]) for row in rows] == [(5, 0.0)] * 2


def test_wpr_has_no_share_to_regain() -> None:
    assert {row["scheme"] for row in recoveries(findings())} == {"mpgd", "maa2c", "mappo", "greedy"}


def test_the_price_of_anarchy_is_least_at_the_best_intensity() -> None:
    rows = intensities(findings(best=5.0))
    assert min(rows, key=lambda row: row["price_of_anarchy"])["intensity"] == 5


def test_a_dip_and_how_soon_it_is_over() -> None:
    first, second = (row for row in recoveries(findings()) if row["scheme"] == "mpgd")
    assert first["lowest_share"] == pytest.approx(-1, abs=0.01)  # welfare 0 where WPR has 60 and a planner 120
    assert first["seeds_back"] == 5 or first["seeds_back"] == 0
    assert second["seeds_back"] == 5
    assert second["share_after"] == pytest.approx(first["share_before"], abs=0.01)


def test_strangers_are_beside_those_who_trained_together() -> None:
    rows = [row for row in strangers(findings()) if row["scheme"] == "mpgd"]
    assert [row["who"] for row in rows] == ["together", "strangers"]
    assert rows[1]["welfare"] == 95


def test_tables_are_written_so_that_pandas_reads_them(tmp_path: Path) -> None:
    tables = all_tables(findings())
    write_tables(tables, tmp_path)
    for name, table in tables.items():
        read = pandas.read_csv(tmp_path / f"{name}.csv")
        assert len(read) == len(table)
        for column in read.columns:
            for value, row in zip(read[column], table, strict=True):
                expected = row.get(column, np.nan)
                assert value == pytest.approx(expected, rel=1e-9, nan_ok=True) if not isinstance(value, str) else value
