"""What was found, as tables: one row per thing that a person would ask about. Everything else is made from these."""

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from potluck.errors import file_faults
from potluck.studies.paper.curves import adaptivity, recoveries, slots_to
from potluck.studies.paper.findings import Findings, Row, Table, share_of_stake, spread_of, welfare_in, welfare_of
from potluck.studies.paper.plan import INTENSITIES, intensity_cell, schedule_cell
from potluck.studies.paper.statistics import bca, difference, improvement, interquartile_mean, mean
from potluck.training.files import write_text


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
                taken = slots_to(found, world, scheme)
                row["seeds_risen"] = int(np.isfinite(taken).sum())
                if row["seeds_risen"]:
                    row |= spread_of(mean(taken[np.isfinite(taken)]), "slots_to_95")
                if scheme != "mpgd":
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


def nash_conv(found: Findings) -> Table:
    """NashConv over training, of constant deviations, as a share of the stake."""
    rows = []
    for scheme in found.config.schemes:
        for stone in found.cells[f"{found.config.main}/{scheme}"]["milestones"]:
            gains, share = np.array([sum(seed["gains"]) for seed in stone["seeds"]]), share_of_stake(stone["seeds"])
            welfare = welfare_in(stone["seeds"])
            rows.append({"scheme": scheme, "slots": stone["slots"], **spread_of(mean(welfare), "welfare"),
                         **spread_of(mean(gains), "nash_conv"), **spread_of(share, "share_of_stake")})  # fmt: skip
    return rows


def strangers(found: Findings) -> Table:
    """Silos trained in different seeds in one game, beside those who trained together."""
    rows = []
    for scheme in found.config.schemes:
        cell = f"{found.config.main}/{scheme}"
        for who, seeds in (("together", found.last(cell)), ("strangers", found.cells[cell]["strangers"])):
            if not seeds:
                continue
            share = share_of_stake(seeds)
            welfare = welfare_in(seeds)
            rows.append({"scheme": scheme, "who": who, **spread_of(mean(welfare), "welfare"),
                         **spread_of(share, "nash_conv_share_of_stake")})  # fmt: skip
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
        lines.writerow({name: _text(value) for name, value in row.items()})
    return out.getvalue()


def _text(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else ""
    return value


def write_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """One CSV file each; none for a table without rows, also where there was one."""
    with file_faults(folder, "make room and go on", failed="not written"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            place = folder / f"{name}.csv"
            if table:
                write_text(place, text_of(table))
            else:
                place.unlink(missing_ok=True)
