"""Charts as PNG and SVG, drawn without a screen."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.studies.looks import INK
from potluck.studies.paper.charts import Chart


def draw(chart: Chart, folder: Path) -> None:
    """`NAME.png` and `NAME.svg`; the same data gives the same bytes."""
    figure = Figure(figsize=(9.4, 4.6), layout="constrained")
    axes = figure.add_subplot()
    (_lines if chart.kind == "lines" else _points)(axes, chart)
    axes.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
    axes.grid(alpha=0.3)
    if chart.kind == "lines" or any(len(line.x) > 1 for line in chart.lines):
        figure.legend(title="mean and 95%\ninterval over seeds", fontsize="small", loc="outside right upper")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{chart.name}.png", dpi=130)
    with mpl.rc_context({"svg.hashsalt": "potluck", "svg.fonttype": "none"}):
        figure.savefig(folder / f"{chart.name}.svg", metadata={"Date": None})


def _lines(axes: Axes, chart: Chart) -> None:
    for line in chart.lines:
        axes.plot(line.x, line.y, line.style, color=line.colour, label=line.name)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.18, linewidth=0)
    for mark in chart.marks:
        axes.axvline(mark, color=INK, linestyle="--", linewidth=0.9)
    if chart.ticks is not None:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xticks(chart.ticks, [f"{tick:g}" for tick in chart.ticks])


def _points(axes: Axes, chart: Chart) -> None:
    places = list(dict.fromkeys(name for line in chart.lines for name in line.x))
    for number, line in enumerate(chart.lines):
        aside = 0.0 if len(chart.lines[0].x) == 1 else 0.16 * (number - (len(chart.lines) - 1) / 2)
        at = [places.index(name) + aside for name in line.x]
        middle = np.array(line.y)
        low, high = (middle if bound is None else np.array(bound) for bound in (line.low, line.high))
        axes.errorbar(
            at,
            middle,
            yerr=np.abs(np.stack([middle - low, high - middle])),
            fmt="o",
            capsize=4,
            color=line.colour,
            label=line.name,
        )
    axes.set_xticks(range(len(places)), places)
    axes.margins(x=0.08)
