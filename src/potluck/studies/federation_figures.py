"""Pictures of what a federation reached."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.errors import PotluckError
from potluck.studies.curve import Measured
from potluck.studies.intervals import Interval, bars_of
from potluck.studies.looks import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be saved, before anything is trained for it."""
    if path is None:
        return
    if path.suffix.lower() not in {".png", ".pdf", ".svg"}:
        raise PotluckError(f"must end in .png, .pdf or .svg, got {path}", field="plot")
    if not path.absolute().parent.is_dir():
        raise PotluckError(f": the folder {path.absolute().parent} does not exist", field="plot")
    if path.is_dir():
        raise PotluckError(f": {path} is a folder; name a file", field="plot")
    try:
        # Asking for permission is not enough: even root may write everywhere and cannot create a file in /proc.
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as fault:
        raise PotluckError(f": {path} cannot be written ({fault.strerror})", field="plot") from fault


def draw_run(precision: Sequence[Interval], title: str, path: Path) -> None:
    """Precision before the first slot and after each, with its interval over games."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    mean, reach = bars_of(precision)
    axes.plot(mean, marker=".", color=PALETTE[0])
    axes.fill_between(range(len(mean)), mean - reach[0], mean + reach[1], alpha=0.25, linewidth=0, color=PALETTE[0])
    axes.set(xlabel="slot", ylabel="precision P, share of held-out samples", title=title, ylim=(0, 1))
    axes.grid(alpha=0.3)
    _save(figure, path)


def draw_curve(measured: Measured, title: str, path: Path) -> None:
    """Precision against common contribution and against one silo's own, with intervals over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    seeds = len(measured.common[0].precision)
    for axes, points, label in (
        (panels[0], measured.common, "common contribution d"),
        (panels[1], measured.own, f"one silo's own contribution, the others at {measured.others:g}"),
    ):
        place = [point.contribution for point in points]
        _band(axes, place, [point.final for point in points], "after the last slot", PALETTE[0])
        _band(axes, place, [point.sustained for point in points], "mean over the game", PALETTE[1])
        axes.set(xlabel=label)
        axes.grid(alpha=0.3)
    panels[0].set(ylabel="precision P, share of held-out samples")
    panels[0].legend(loc="lower right")
    figure.suptitle(f"{title} ({seeds} seeds, 95% bootstrap intervals)")
    _save(figure, path)


def _save(figure: "Figure", path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except OSError as fault:
        raise PotluckError(f": {path} cannot be written ({fault.strerror})", field="plot") from fault


def _band(axes: "Axes", place: list[float], intervals: list[Interval], label: str, colour: str) -> None:
    means, errors = bars_of(intervals)
    axes.errorbar(place, means, yerr=errors, marker=".", capsize=3, label=label, color=colour)
