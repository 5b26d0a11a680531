"""`potluck federation`: train for real, and measure what contributions are worth."""

import json as jsonlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.options import JsonOption
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from rich.table import Table

    from potluck.federation import FedAvg
    from potluck.federation.measure import Measured, Point

__all__ = ["commands"]

commands = typer.Typer(no_args_is_help=True, help="Train a federation for real, and measure precision.")

TaskOption = Annotated[str, typer.Option(help="digits, fmnist, cifar10 or folder:PATH.npz.")]
ModelOption = Annotated[str, typer.Option(help="logistic, mlp or cnn.")]
SlotsOption = Annotated[int, typer.Option(help="Slots to play.")]
SamplesOption = Annotated[
    str | None,
    typer.Option(help="Samples per silo, or one number for each, such as 100,200,50,50; the task's default otherwise."),
]
RateOption = Annotated[float, typer.Option(help="Learning rate of the silos' SGD.")]
PlotOption = Annotated[Path | None, typer.Option(help="Save the picture here (PNG, PDF or SVG).")]


def _federation(task: str, **options: Any) -> "FedAvg":
    """Load the data with its progress on stderr, then build."""
    from potluck.cli.data import Watching
    from potluck.federation import build, load

    with Watching() as listener:
        data = load(task, listener)
    return build(data, **options)


def _sizes(samples: str | None) -> int | list[int] | None:
    """`--samples` as `build` takes it: one size for all silos, or a list with one for each."""
    from potluck.cli.runtime import numbers

    if samples is None:
        return None
    given = numbers(samples, "--samples")
    if any(size != int(size) for size in given):
        raise PotluckError(f"--samples must be whole numbers, got {samples!r}")
    sizes = [int(size) for size in given]
    return sizes if len(sizes) > 1 else sizes[0]


@commands.command()
def run(
    contributions: Annotated[str, typer.Option(help="One d in [0, 1] per silo, such as 1,0.5,0.5,0.1.")] = "1,1,1,1",
    task: TaskOption = "digits",
    model: ModelOption = "mlp",
    slots: SlotsOption = 30,
    samples: SamplesOption = None,
    learning_rate: RateOption = 0.05,
    partition: Annotated[str, typer.Option(help="iid, dirichlet, quantity or natural.")] = "iid",
    concentration: Annotated[float, typer.Option(help="Of dirichlet: small is skewed, large is even.")] = 0.5,
    dynamics: Annotated[str, typer.Option(help="How local data changes: static, redraw or stream.")] = "static",
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    json: JsonOption = False,
    plot: PlotOption = None,
) -> None:
    """Train with fixed contributions and watch precision slot by slot.

    [bold]potluck federation run --task fmnist --contributions 1,0.5,0.5,0.1 --slots 30[/bold]
    """
    from potluck.cli.runtime import numbers, start_cores

    given, held = numbers(contributions, "--contributions"), _sizes(samples)
    if slots < 1:
        raise PotluckError(f"--slots must be 1 or more, got {slots}")
    if not 0 <= seed < 2**32:
        raise PotluckError(f"--seed must be 0 or more and below 2**32, got {seed}")
    start_cores()
    import jax
    import jax.numpy as jnp
    from rich.console import Console
    from rich.live import Live

    from potluck.federation import check_contributions, spread
    from potluck.federation.figures import check_picture, draw_run
    from potluck.federation.runs import compiled

    play = jnp.asarray(check_contributions(given, len(given)))
    check_picture(plot)
    fed = _federation(
        task, silos=len(given), samples=held, model=model, learning_rate=learning_rate, partition_by=partition,
        concentration=concentration, changing=dynamics, seed=seed,
    )  # fmt: skip
    source = spread(fed)
    start, rest = jax.random.split(jax.random.key(seed))  # as the library's `run` does: same seed, same game
    keys = jax.random.split(rest, slots)
    state = source.init(start)
    initial, precision, sizes = float(fed.precision(state.model.weights)), [], []
    train = compiled(lambda source, *slot: source.train(*slot), fed)
    console = Console(stderr=json)
    with Live(_slots(initial, [], []), console=console, refresh_per_second=8) as live:
        for key in keys:
            sizes.append([int(size) for size in state.window.size])
            state, reached = train(source, state, play, key)
            precision.append(float(reached))
            live.update(_slots(initial, precision, sizes))
    if not console.is_terminal:
        console.line()  # a table that goes into a file ends without one
    if json:
        result = {
            "task": task, "model": model, "seed": seed, "contributions": given, "initial": initial,
            "slots": [{"slot": t, "precision": p, "local_samples": s}
                      for t, (p, s) in enumerate(zip(precision, sizes, strict=True), 1)],
        }  # fmt: skip
        jsonlib.dump(result, sys.stdout, indent=2)
        sys.stdout.write("\n")
    if plot is not None:
        draw_run(initial, precision, f"{task}, {model}: contributions {contributions}", plot)
        console.print(f"picture: {plot}", markup=False, emoji=False, soft_wrap=True)


def _slots(initial: float, precision: list[float], sizes: list[list[int]], last: int = 30) -> "Table":
    from rich.table import Table

    table = Table("slot", "precision", "gain", "local samples")
    before = [initial, *precision]
    table.add_row("0", f"{initial:.4f}", "", "")
    for t in range(max(len(precision) - last, 0), len(precision)):
        gain = precision[t] - before[t]
        table.add_row(str(t + 1), f"{precision[t]:.4f}", f"{gain:+.4f}", " ".join(map(str, sizes[t])))
    return table


@commands.command()
def curve(
    task: TaskOption = "digits",
    model: ModelOption = "mlp",
    slots: SlotsOption = 30,
    samples: SamplesOption = None,
    learning_rate: RateOption = 0.05,
    silos: Annotated[int, typer.Option(help="How many silos.")] = 4,
    seeds: Annotated[int, typer.Option(help="Games per contribution, each with its own split and weights.")] = 5,
    others: Annotated[float, typer.Option(help="What the others contribute while one silo moves.")] = 0.5,
    json: JsonOption = False,
    plot: PlotOption = None,
) -> None:
    """Measure precision against common and own contribution, and fit the curve that the theory uses.

    [bold]potluck federation curve --task fmnist --plot curve.png[/bold]
    """
    if slots < 1:
        raise PotluckError(f"--slots must be 1 or more, got {slots}")
    if seeds < 1:
        raise PotluckError(f"--seeds must be 1 or more, got {seeds}")
    if not 0 <= others <= 1:
        raise PotluckError(f"--others must be in [0, 1], got {others}")
    held = _sizes(samples)
    from potluck.cli.runtime import start_cores

    start_cores()
    from rich.console import Console
    from rich.progress import Progress

    from potluck.cli.data import Watching
    from potluck.federation import build, load
    from potluck.federation.figures import check_picture, draw_curve
    from potluck.federation.measure import measure

    check_picture(plot)
    with Watching() as listener:
        data = load(task, listener)

    def federation(seed: int) -> "FedAvg":
        return build(data, silos=silos, samples=held, model=model, learning_rate=learning_rate, seed=seed)

    console = Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        games = bar.add_task("games", total=None)
        measured = measure(
            federation, seeds=seeds, slots=slots, others=others,
            progress=lambda done, total: bar.update(games, completed=done, total=total),
        )  # fmt: skip
    fitted = _fit(measured, slots)
    if json:
        result = {
            "task": task, "model": model, "slots": slots, "seeds": seeds, "silos": silos, "others": others,
            "initial": measured.initial, "common": _rows(measured.common), "own": _rows(measured.own), "fit": fitted,
        }  # fmt: skip
        jsonlib.dump(result, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _show(measured, fitted)
    if plot is not None:
        draw_curve(measured, f"{task}, {model}, {slots} slots", plot)
        console.print(f"picture: {plot}", markup=False, emoji=False, soft_wrap=True)


def _fit(measured: "Measured", slots: int) -> dict[str, float]:
    """Fit the theory's curve to the mean precision of whole games, against the samples trained on per slot."""
    import numpy as np

    from potluck.federation.curve import fit

    contributed = np.array([point.samples for point in measured.common])
    precision = np.array([point.sustained.mean for point in measured.common])
    return dict(fit(contributed, precision, slots, measured.initial).model_dump(exclude={"source"}))


def _rows(points: list["Point"]) -> list[dict[str, Any]]:
    return [
        {
            "contribution": point.contribution,
            "contributions": list(point.contributions),
            "samples_per_slot": point.samples,
            "sustained": asdict(point.sustained),
            "final": asdict(point.final),
            "precision": point.precision.tolist(),
        }
        for point in points
    ]


def _show(measured: "Measured", fitted: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title, points in (
        ("All contribute d", measured.common),
        (f"One contributes d, the others {measured.others:g}", measured.own),
    ):
        table = Table("d", "P, mean over the game", "95%", "P after the last slot", "95%", title=title)
        for point in points:
            cells = [
                cell
                for i in (point.sustained, point.final)
                for cell in (f"{i.mean:.4f}", f"{i.low:.4f} … {i.high:.4f}")
            ]
            table.add_row(f"{point.contribution:g}", *cells)
        console.print(table)
    console.print("fit: " + ", ".join(f"{name} {value:.6g}" for name, value in fitted.items()))
