"""The figures of a study as data: what is on which axis. One description is drawn as a picture and on the page."""

import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from potluck.studies.looks import INK, MONEY, PALETTE, line_look
from potluck.studies.paper.findings import Table
from potluck.studies.paper.plan import StudyConfig

NAMES = {
    "planner": "planner (by search)",
    "mpgd": "MPGD",
    "maa2c": "MAA2C",
    "mappo": "MAPPO",
    "greedy": "Greedy",
    "wpr": "WPR",
    "mbpg": "MBPG",
    "random": "random",
    "fixed:1": "everybody brings all",
}
"""In the order of every legend."""
LOOKS = {
    "planner": (INK, "--"),
    "mpgd": (PALETTE[0], "-"),
    "maa2c": (PALETTE[3], "-"),
    "mappo": (PALETTE[4], "-"),
    "greedy": (PALETTE[5], "-"),
    "wpr": (PALETTE[1], "-"),
    "mbpg": (PALETTE[0], "-."),
    "random": (PALETTE[2], ":"),
    "fixed:1": (PALETTE[2], "--"),
}


PLAYED = "slots played by each seed"
PAYOFFS = {"mpgd": "payoff", "wpr": "payoff_wpr"}


def name_of(scheme: str) -> str:
    """As people read it; an agent of one's own is called what it is registered as."""
    return NAMES.get(scheme, scheme)


def look_of(scheme: str) -> tuple[str, str]:
    """Colour and style; agents of one's own are dash-dotted."""
    return LOOKS.get(scheme, (PALETTE[zlib.crc32(scheme.encode()) % len(PALETTE)], "-."))


@dataclass(frozen=True)
class Line:
    """A line with its 95% interval, or points with error bars where x are names."""

    name: str
    colour: str
    style: str
    x: list[Any]
    y: list[float]
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass(frozen=True)
class Chart:
    """One figure."""

    name: str
    title: str
    x: str
    y: str
    lines: list[Line]
    table: str
    """The file behind it."""
    kind: Literal["lines", "points"] = "lines"
    marks: list[float] = field(default_factory=list)
    """Places on the x axis where something happens."""
    ticks: list[float] | None = None
    """Where x is spaced unevenly."""
    note: str = ""


def charts(tables: Mapping[str, Table], config: StudyConfig) -> list[Chart]:
    """All figures, the paper's three first; those without data are left out."""
    found = [*_paper(tables, config), *_ours(tables, config)]
    return [chart for chart in found if any(line.x for line in chart.lines)]


def _of(rows: Table, **wanted: Any) -> Table:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _line(rows: Table, x: str, y: str, name: str, colour: str, style: str) -> Line:
    kept = [row for row in rows if y in row]
    low, high = f"{y}_low", f"{y}_high"
    bounded = all(low in row for row in kept)
    return Line(
        name=name,
        colour=colour,
        style=style,
        x=[row[x] for row in kept],
        y=[row[y] for row in kept],
        low=[row[low] for row in kept] if bounded else None,
        high=[row[high] for row in kept] if bounded else None,
    )


def _schemes(rows: Table, names: Sequence[str], x: str, y: str) -> list[Line]:
    """A line for each scheme that there are numbers of."""
    lines = (_line(_of(rows, scheme=name), x, y, name_of(name), *look_of(name)) for name in names)
    return [line for line in lines if line.x]


def _levels(rows: Table, names: Sequence[str], ends: Sequence[float]) -> list[Line]:
    """Welfare of what does not change along the x axis, from end to end."""
    return [
        _line([{**row, "x": end} for end in ends], "x", "welfare", name_of(name), *look_of(name))
        for name in names
        for row in _of(rows, scheme=name)
    ]


def _points(rows: Table, x: str, y: str) -> list[Line]:
    """A point each, one beside the other, in its scheme's colour."""
    return [
        _line([{**row, "x": str(row[x])}], "x", y, str(row[x]), look_of(row.get("scheme", "mpgd"))[0], "-")
        for row in rows
    ]


def _paper(tables: Mapping[str, Table], config: StudyConfig) -> Iterator[Chart]:
    for world in config.worlds:
        rows, levels = _of(tables["learning"], world=world), _of(tables["schemes"], world=world)
        ends = [min(row["slots"] for row in rows), max(row["slots"] for row in rows)]
        learnt = _schemes(rows, config.schemes, "slots", "welfare")
        yield Chart(
            name=f"payoffs-{world}",
            title=f"Overall payoffs while learning, {world}",
            x=PLAYED,
            y=f"welfare, {MONEY}",
            lines=[*_levels(levels, ["planner"], ends), *learnt, *_levels(levels, ["random", "fixed:1"], ends)],
            table="learning",
            note="While exploring. The planner's plan, random play, and everybody bringing all, do not learn.",
        )
    looks = [(look["color"], look["linestyle"]) for look in map(line_look, range(config.scenario.silos.count))]
    yield Chart(
        name="silos",
        title=f"Each silo's payoff under MPGD while learning, {config.main}",
        x=PLAYED,
        y=f"payoff, {MONEY}",
        lines=[
            _line(_of(tables["silos-learning"], silo=silo), "slots", "payoff", f"silo {silo}", *look)
            for silo, look in enumerate(looks)
        ],
        table="silos-learning",
    )
    rows, levels = tables["intensity"], _of(tables["schemes"], world=config.main)
    ticks = [row["intensity"] for row in rows]
    swept = _line(rows, "intensity", "welfare", NAMES["mpgd"], *LOOKS["mpgd"])
    ends = [min(ticks, default=0.0), max(ticks, default=0.0)]
    yield Chart(
        name="intensity",
        title=f"Overall payoffs against α0, {config.main}",
        x="intensity α0, money per unit of difference",
        y=f"welfare, {MONEY}",
        lines=[*_levels(levels, ["planner"], ends), swept, *_levels(levels, ["wpr"], ends)] if rows else [],
        table="intensity",
        ticks=ticks,
        note="Play without exploration after the whole training.",
    )


def _ours(tables: Mapping[str, Table], config: StudyConfig) -> Iterator[Chart]:
    main, named = config.main, [{**row, "name": name_of(row["scheme"])} for row in tables["schemes"]]
    for world in config.worlds:
        yield Chart(
            name=f"gain-{world}",
            title=f"Share of the planner's gain over WPR, {world}",
            x="",
            y="share of the planner's gain",
            lines=_points([row for row in _of(named, world=world) if "gain_share" in row], "name", "gain_share"),
            table="schemes",
            kind="points",
        )
    for quantity, label in (("contribution", "mean d, share of data"), ("precision", "precision P (accuracy)")):
        yield Chart(
            name=f"game-{quantity}",
            title=f"{quantity.capitalize()} over the slots of a game, {main}",
            x="slot of the game",
            y=label,
            lines=_schemes(_of(tables["game"], world=main), ("planner", *config.schemes), "slot", quantity),
            table="game",
        )
    yield Chart(
        name="nash-conv",
        title=f"NashConv over training, {main}",
        x=PLAYED,
        y="NashConv, share of the stake",
        lines=_schemes(tables["nash-conv"], config.schemes, "slots", "share_of_stake"),
        table="nash-conv",
        note="What all silos together could gain, each by keeping to a constant contribution alone.",
    )
    for world in config.worlds:
        yield Chart(
            name=f"schedule-{world}",
            title=f"Rules for α at the same α0, {world}",
            x="",
            y=f"welfare, {MONEY}",
            lines=_points(_of(tables["schedule"], world=world), "schedule", "welfare"),
            table="schedule",
            kind="points",
        )
    rows = tables["intensity"]
    yield Chart(
        name="anarchy",
        title=f"Price of anarchy against α0, {main}",
        x="intensity α0, money per unit of difference",
        y="planner's welfare / welfare",
        lines=[_line(rows, "intensity", "price_of_anarchy", NAMES["mpgd"], *LOOKS["mpgd"])],
        table="intensity",
        ticks=[row["intensity"] for row in rows],
    )
    rows = [{**row, "x": f"silo {row['silo']:g}"} for row in _of(tables["silos"], world=main)]
    yield Chart(
        name="silos-wpr",
        title=f"Each silo's long-term payoff, {main}: leaving earns 0",
        x="",
        y=f"payoff, {MONEY}",
        lines=[_line(rows, "x", y, NAMES[scheme], *LOOKS[scheme]) for scheme, y in PAYOFFS.items()],
        table="silos",
        kind="points",
    )
    yield Chart(
        name="speed",
        title=f"Slots to 95% of a scheme's own way, {main}",
        x="",
        y=PLAYED,
        lines=_points([row for row in _of(named, world=main) if "slots_to_95" in row], "name", "slots_to_95"),
        table="schemes",
        kind="points",
    )
    yield Chart(
        name="adaptivity",
        title=f"When the federation changes, {main}",
        x=PLAYED,
        y="share of the planner's gain",
        lines=_schemes(tables["adaptivity"], config.schemes, "slots", "gain_share"),
        table="adaptivity",
        marks=_turns(tables["adaptivity"]),
        note="Dashed: silo 0's data doubles, silo 1's energy per sample triples, silo 2's profit halves and silo 3 "
        "leaves; then silo 3 returns.",
    )
    rows = [{**row, "name": name_of(row["scheme"])} for row in tables["strangers"]]
    yield Chart(
        name="strangers",
        title=f"Silos that have never met, {main}",
        x="",
        y=f"welfare, {MONEY}",
        lines=[
            _line(_of(rows, who=who), "name", "welfare", words, PALETTE[place], "-")
            for place, (who, words) in enumerate(
                {"together": "trained together", "strangers": "from different seeds"}.items()
            )
        ],
        table="strangers",
        kind="points",
    )


def _turns(rows: Table) -> list[float]:
    """Where the stage changes."""
    own = _of(rows, scheme="mpgd")
    return [before["slots"] for before, after in itertools.pairwise(own) if before["stage"] != after["stage"]]
