"""What was found, as tables: one row per thing that a person would ask about. Everything else is made from these."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from potluck.errors import file_faults
from potluck.studies.intervals import Interval
from potluck.studies.paper import adapt
from potluck.studies.paper.plan import (
    INTENSITIES,
    StudyConfig,
    intensity_cell,
    same_as,
    schedule_cell,
)
from potluck.studies.paper.results import read_result
from potluck.studies.paper.statistics import bca, difference, improvement, interquartile_mean, mean
from potluck.training.files import write_text

NEARLY = 0.95
SMOOTH = 5
"""Points of a learning curve that are averaged before it is asked when it got there."""

Row = dict[str, Any]
Table = list[Row]


@dataclass(frozen=True)
class Findings:
    """All results of a study, read once."""

    config: StudyConfig
    cells: Mapping[str, Any]
    """By the names of `StudyConfig.cells`."""
    planners: Mapping[str, Any]
    adapted: Mapping[str, Any]
    """By scheme; empty where the federation could not change."""
    adapted_planners: Sequence[Any]
    equilibria: Mapping[str, Any] = field(default_factory=dict)
    """World by world the best equilibrium without redistribution that was found."""

    @classmethod
    def read(cls, config: StudyConfig, folder: Path) -> "Findings":
        cells = config.cells()
        return cls(
            config,
            {name: read_result(folder, same_as(cells, name)) for name in cells},
            {world: read_result(folder, f"{world}/planner") for world in config.worlds},
            {scheme: read_result(folder, f"adapt/{scheme}") for scheme in config.schemes} if config.changes else {},
            [read_result(folder, f"adapt/planner-{stage}") for stage in range(len(adapt.STAGES))]
            if config.changes
            else [],
            {world: read_result(folder, f"{world}/equilibrium") for world in config.worlds},
        )

    def last(self, cell: str) -> list[dict[str, Any]]:
        """Every seed's play after the whole training."""
        seeds: list[dict[str, Any]] = self.cells[cell]["milestones"][-1]["seeds"]
        return seeds

    def welfare(self, world: str, scheme: str) -> Float[np.ndarray, " seeds"]:
        """Of play without exploration; who plays at random never plays otherwise."""
        if scheme == "random":
            return np.array([np.mean(seed) for seed in self.cells[f"{world}/random"]["curve"]["welfare"]])
        if scheme == "fixed:1":
            return np.array([seed["everything"]["welfare"] for seed in self.last(f"{world}/mpgd")])
        return np.array([seed["welfare"] for seed in self.last(f"{world}/{scheme}")])

    def shares(self, world: str, own: Float[np.ndarray, " seeds"]) -> Row:
        """Of the planner's gain, over WPR as it was learnt and over the best equilibrium without redistribution that
        was found; how far WPR is from an equilibrium. No share is given of a gain that is within its interval.
        """
        planned, row = self.planned(world), Row()
        share = gain_share(own, self.welfare(world, "wpr"), planned)
        row |= spread_of(share, "gain_share") if share else {}
        if world in self.equilibria:
            share = gain_share(own, self.unpaid(world), planned)
            row |= spread_of(share, "gain_share_over_equilibrium") if share else {}
        return row | {"wpr_share_of_stake": share_of_stake(self.last(f"{world}/wpr")).mean}

    def unpaid(self, world: str) -> Float[np.ndarray, " games"]:
        """Welfare of the best equilibrium without redistribution, game by game, without the luck that WPR has too."""
        luck = np.mean([seed["games"] for seed in self.last(f"{world}/wpr")], axis=0)
        return np.asarray(np.array(self.equilibria[world]["games"]) - luck + luck.mean())

    def planned(self, world: str) -> Float[np.ndarray, " games"]:
        """The planner's welfare in each game: its luck is the games'."""
        return np.array(self.planners[world]["games"])


def spread_of(found: Interval, name: str) -> Row:
    """Three columns."""
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def gain_share(
    own: Float[np.ndarray, " seeds"], wpr: Float[np.ndarray, " wpr_seeds"], planned: Float[np.ndarray, " games"]
) -> Interval | None:
    """(W − W_wpr) / (W_planner − W_wpr); None where planner and WPR are closer than their intervals."""
    gap = difference(planned, wpr)
    if gap.low <= 0:
        return None

    def share(own: Any, wpr: Any, planned: Any, axis: int) -> Any:
        return (own.mean(axis) - wpr.mean(axis)) / (planned.mean(axis) - wpr.mean(axis))

    return bca(share, own, wpr, planned)


def schemes(found: Findings) -> Table:
    """World by world, scheme by scheme: welfare, share of the planner's gain, NashConv, how soon."""
    rows = []
    for world in found.config.worlds:
        row = {"world": world, "scheme": "planner", **spread_of(mean(found.planned(world)), "welfare")}
        by = found.planners[world].get("found_by")  # studies before did not say
        rows.append(row | ({"found_by": by} if by else {}))
        if world in found.equilibria:
            rows.append({"world": world, "scheme": "equilibrium without redistribution", **_unpaid(found, world)})
        for scheme in (*found.config.schemes, "random", "fixed:1"):
            own = found.welfare(world, scheme)
            row = {"world": world, "scheme": scheme, **spread_of(mean(own), "welfare"),
                   **spread_of(interquartile_mean(own), "iqm")}  # fmt: skip
            row |= found.shares(world, own)
            if scheme in found.config.schemes:
                last = found.last(f"{world}/{scheme}")
                row |= spread_of(share_of_stake(last), "share_of_stake")
                row |= spread_of(mean(np.array([sum(seed["gains"]) for seed in last])), "nash_conv")
                row["stake"] = float(np.mean([sum(seed["stakes"]) for seed in last]))
                row |= spread_of(mean(slots_to(found, world, scheme)), "slots_to_95")
                row |= spread_of(improvement(found.welfare(world, "mpgd"), own), "mpgd_better")
            rows.append(row)
    return rows


def _unpaid(found: Findings, world: str) -> Row:
    """What the best equilibrium without redistribution earns, and how far it is from one."""
    best = found.equilibria[world]
    return {
        **spread_of(mean(found.unpaid(world)), "welfare"),
        "nash_conv": sum(best["gains"]),
        "stake": sum(best["stakes"]),
        "share_of_stake": sum(best["gains"]) / sum(best["stakes"]) if sum(best["stakes"]) else 0.0,
        "found_by": best["found_by"],
    }


def slots_to(found: Findings, world: str, scheme: str) -> Float[np.ndarray, " seeds"]:
    """Slots until a seed's welfare, smoothed, has made 95% of its way from the first to the last stretch."""
    curve = found.cells[f"{world}/{scheme}"]["curve"]
    slots = np.array(curve["slots"], float)
    reached = []
    for seed in curve["welfare"]:
        smooth = smoothed(np.array(seed))
        rise = smooth[-1] - smooth[0]
        there = (smooth - smooth[0]) * np.sign(rise) >= NEARLY * abs(rise)
        reached.append(slots[np.argmax(there)])
    return np.array(reached)


def smoothed(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """Each point's mean with the few before it."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - SMOOTH, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def learning(found: Findings) -> Table:
    """Welfare while learning."""
    rows = []
    for world in found.config.worlds:
        for scheme in found.config.schemes:
            curve = found.cells[f"{world}/{scheme}"]["curve"]
            for slot, values in zip(curve["slots"], np.array(curve["welfare"]).T, strict=True):
                rows.append({"world": world, "scheme": scheme, "slots": slot, **spread_of(mean(values), "welfare")})
    return rows


def silos_learning(found: Findings) -> Table:
    """Each silo's payoff under MPGD while learning."""
    curve, rows = found.cells[f"{found.config.main}/mpgd"]["curve"], []
    for silo in range(found.config.scenario.silos.count):
        for slot, values in zip(curve["slots"], np.array(curve[f"payoff_{silo}"]).T, strict=True):
            rows.append({"silo": silo, "slots": slot, **spread_of(mean(values), "payoff")})
    return rows


def silos(found: Findings) -> Table:
    """What each silo earns under MPGD, against leaving (nothing) and against WPR."""
    rows = []
    for world in found.config.worlds:
        paid, unpaid = (
            np.array([seed["payoffs"] for seed in found.last(f"{world}/{scheme}")]) for scheme in ("mpgd", "wpr")
        )
        moved = np.array([seed["transfers"] for seed in found.last(f"{world}/mpgd")])
        rows += [
            {
                "world": world,
                "silo": silo,
                **spread_of(mean(paid[:, silo]), "payoff"),
                **spread_of(mean(unpaid[:, silo]), "payoff_wpr"),
                **spread_of(difference(paid[:, silo], unpaid[:, silo]), "over_wpr"),
                **spread_of(mean(moved[:, silo]), "transfer"),
            }
            for silo in range(paid.shape[1])
        ]
    return rows


def intensities(found: Findings) -> Table:
    """Welfare and price of anarchy against α0."""
    if not found.config.sweeps:
        return []
    planned, rows = found.planned(found.config.main), []
    for level in INTENSITIES:
        own = welfare_of(found, intensity_cell(level))
        anarchy = bca(lambda best, own, axis: best.mean(axis) / own.mean(axis), planned, own)
        rows.append(
            {
                "intensity": level,
                **spread_of(mean(own), "welfare"),
                **spread_of(interquartile_mean(own), "iqm"),
                **found.shares(found.config.main, own),
                **spread_of(anarchy, "price_of_anarchy"),
            }
        )
    return rows


def welfare_of(found: Findings, cell: str) -> Float[np.ndarray, " seeds"]:
    return np.array([seed["welfare"] for seed in found.last(cell)])


def schedules(found: Findings) -> Table:
    """Welfare under each rule for α, at the same α0."""
    rows = []
    for world in found.config.worlds:
        for rule in found.config.rules(world):
            own, constant = (welfare_of(found, schedule_cell(world, name)) for name in (rule, "constant"))
            row = {"world": world, "schedule": rule, **spread_of(mean(own), "welfare"), **found.shares(world, own)}
            rows.append(row | spread_of(difference(own, constant), "over_constant"))
    return rows


def game_slots(found: Findings) -> Table:
    """Mean contribution and precision over the slots of a game, after training."""
    rows = []
    for world in found.config.worlds:
        planner = found.planners[world]
        for slot, (brought, reached) in enumerate(zip(planner["contributions"], planner["precision"], strict=True), 1):
            rows.append(
                {
                    "world": world,
                    "scheme": "planner",
                    "slot": slot,
                    "contribution": float(np.mean(brought)),
                    "precision": reached,
                }
            )
        for scheme in found.config.schemes:
            last = found.last(f"{world}/{scheme}")
            brought = np.array([seed["contributions"] for seed in last]).mean(2)
            reached = np.array([seed["precision"] for seed in last])
            rows += [
                {
                    "world": world,
                    "scheme": scheme,
                    "slot": slot + 1,
                    **spread_of(mean(brought[:, slot]), "contribution"),
                    **spread_of(mean(reached[:, slot]), "precision"),
                }
                for slot in range(brought.shape[1])
            ]
    return rows


def share_of_stake(seeds: Sequence[Mapping[str, Any]]) -> Interval:
    """NashConv of play, over what is at stake."""
    gains, stakes = (np.array([sum(seed[name]) for seed in seeds]) for name in ("gains", "stakes"))
    return bca(lambda gains, stakes, axis: gains.mean(axis) / stakes.mean(axis), gains, stakes, paired=True)


def nash_conv(found: Findings) -> Table:
    """NashConv over training, of constant deviations, as a share of the stake."""
    rows = []
    for scheme in found.config.schemes:
        for stone in found.cells[f"{found.config.main}/{scheme}"]["milestones"]:
            gains, share = np.array([sum(seed["gains"]) for seed in stone["seeds"]]), share_of_stake(stone["seeds"])
            welfare = np.array([seed["welfare"] for seed in stone["seeds"]])
            rows.append({"scheme": scheme, "slots": stone["slots"], **spread_of(mean(welfare), "welfare"),
                         **spread_of(mean(gains), "nash_conv"), **spread_of(share, "share_of_stake")})  # fmt: skip
    return rows


def strangers(found: Findings) -> Table:
    """Silos trained in different seeds in one game, beside those who trained together."""
    rows = []
    for scheme in found.config.schemes:
        cell = f"{found.config.main}/{scheme}"
        for who, seeds in (("together", found.last(cell)), ("strangers", found.cells[cell]["strangers"])):
            share = share_of_stake(seeds)
            welfare = np.array([seed["welfare"] for seed in seeds])
            rows.append({"scheme": scheme, "who": who, **spread_of(mean(welfare), "welfare"),
                         **spread_of(share, "nash_conv_share_of_stake")})  # fmt: skip
    return rows


def adaptivity(found: Findings) -> Table:
    """Welfare through the change as a share of what a planner gains over WPR in the same stage."""
    rows = []
    for scheme, cell in found.adapted.items():
        slots = cell["curve"]["slots"]
        for slot, stage, values in zip(slots, stages_of(found, scheme), gained(found, scheme).T, strict=True):
            rows.append(
                {"scheme": scheme, "slots": slot, "stage": adapt.STAGES[stage], **spread_of(mean(values), "gain_share")}
            )
    return rows


def stages_of(found: Findings, scheme: str) -> list[int]:
    """Which stage each point of the curve belongs to."""
    cell = found.adapted[scheme]
    return [int(np.searchsorted(cell["turns"], slot, side="left")) for slot in cell["curve"]["slots"]]


def gained(found: Findings, scheme: str) -> Float[np.ndarray, "seeds points"]:
    """(W − W_wpr) / (W_planner − W_wpr), WPR's being where it ends each stage."""
    stages = np.array(stages_of(found, scheme))
    unpaid = np.array(found.adapted["wpr"]["curve"]["welfare"]).mean(0)
    level = np.array(
        [
            late(unpaid[stages == stage]).mean() if (stages == stage).any() else np.nan
            for stage in range(len(adapt.STAGES))
        ]
    )
    best = np.array([planner["welfare"] for planner in found.adapted_planners])
    own = np.array(found.adapted[scheme]["curve"]["welfare"])
    stakes = np.where(best > level, best - level, np.nan)
    return np.asarray((own - level[stages]) / stakes[stages])


def late(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The last fifth of a stage."""
    return values[..., -max(1, values.shape[-1] // 5) :]


def recoveries(found: Findings) -> Table:
    """After each change: how deep the share of the planner's gain falls, and how soon 95% of the old one is back."""
    rows = []
    for scheme in found.adapted:
        shares, stages = gained(found, scheme), np.array(stages_of(found, scheme))
        slots = np.array(found.adapted[scheme]["curve"]["slots"], float)
        before = late(shares[:, stages == 0]).mean(1)
        for stage in (1, 2):
            inside = stages == stage
            if not inside.any():
                continue
            begun = slots[np.argmax(inside) - 1]
            own = np.stack([smoothed(seed) for seed in shares[:, inside]])
            back = own >= NEARLY * before[:, None]
            took = np.where(back.any(1), slots[inside][back.argmax(1)] - begun, np.nan)
            came = np.isfinite(took)
            rows.append(
                {
                    "scheme": scheme,
                    "stage": adapt.STAGES[stage],
                    **spread_of(mean(before), "share_before"),
                    **spread_of(mean(own.min(1)), "lowest_share"),
                    **spread_of(mean(late(shares[:, inside]).mean(1)), "share_after"),
                    "seeds_back": int(came.sum()),
                    "seeds": len(came),
                    **(spread_of(mean(took[came]), "slots_to_95") if came.any() else {}),
                }
            )
    return rows


TABLES = {
    "schemes": schemes,
    "learning": learning,
    "silos-learning": silos_learning,
    "silos": silos,
    "intensity": intensities,
    "schedule": schedules,
    "game": game_slots,
    "nash-conv": nash_conv,
    "strangers": strangers,
    "adaptivity": adaptivity,
    "recovery": recoveries,
}
"""By the names of their files."""


def all_tables(found: Findings) -> dict[str, Table]:
    return {name: table(found) for name, table in TABLES.items()}


def text_of(table: Table) -> str:
    """CSV; a number that is not there is an empty field."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    out = io.StringIO()
    lines = csv.DictWriter(out, columns, lineterminator="\n", restval="")
    lines.writeheader()
    for row in table:
        lines.writerow({name: f"{value:.10g}" if isinstance(value, float) else value for name, value in row.items()})
    return out.getvalue()


def write_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """One CSV file each."""
    with file_faults(folder, "make room and go on", failed="not written"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_text(folder / f"{name}.csv", text_of(table))
