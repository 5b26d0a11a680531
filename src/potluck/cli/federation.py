"""`potluck federation`: train for real, and measure what contributions are worth."""

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from potluck.cli.data import load_shown
from potluck.cli.options import JsonOption, takes
from potluck.cli.runtime import numbers, start_cores, whole_numbers
from potluck.cli.tables import output
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.federation import Dataset, FedAvg
    from potluck.federation.runs import Watched
    from potluck.scenario import FederationConfig
    from potluck.studies.curve import Measured, Point

commands = typer.Typer(no_args_is_help=True, help="Train a federation for real, and measure its precision (accuracy).")

SlotsOption = Annotated[int, typer.Option(help="Slots to play.")]
SamplesOption = Annotated[
    str | None,
    typer.Option(help="Samples per silo, or one number for each, such as 100,200,50,50; the task's default otherwise."),
]
MOST = {"slots": 100_000, "seeds": 1000, "silos": 256, "samples": 10_000_000}
PlotOption = Annotated[Path | None, typer.Option(help="Save the picture here (PNG, PDF or SVG).")]

CONFIG = {
    "task": (str, "What is learnt; `potluck list task` names what there is."),
    "model": (str, "What is trained, see `potluck list model`; the task's own otherwise."),
    "hidden": (int, "Hidden units of mlp."),
    "partition": (str, "How data falls to the silos: iid, dirichlet, quantity or natural."),
    "concentration": (float, "Of dirichlet: small is skewed, large is even."),
    "dynamics": (str, "How local data changes: static, redraw or stream."),
    "optimiser": (str, "Of the silos; `potluck list optimiser`."),
    "learning_rate": (float, "Of the silos' optimiser."),
    "batch_size": (int, "Samples in a step."),
    "epochs": (int, "Over what is contributed, in every slot."),
    "partial_batches": (str, "A batch that is not full takes its share of a step, proportional, or a full one."),
    "proximal": (float, "FedProx: pull towards the global model."),
    "aggregation": (str, "Of the server; `potluck list aggregation`."),
    "server_learning_rate": (float, "Of aggregations that have one."),
    "server_momentum": (float, "Of aggregations that have one."),
    "held_out": (int, "Held-out samples that precision is measured on, at most."),
    "dtype": (str, "That silos compute in: float32 or bfloat16."),
}
"""The fields of FederationConfig that are options; what is left out takes the default of the field."""

takes_config = takes(
    {
        name: (Annotated[kind | None, typer.Option(help=text, rich_help_panel="The federation")], None)
        for name, (kind, text) in CONFIG.items()
    }
)


def _described(asked: dict[str, Any]) -> tuple["FederationConfig", "Dataset"]:
    """The config that was asked for, and its data loaded with its progress on stderr."""
    from potluck.federation import federation_config
    from potluck.federation.build import model_of

    config = federation_config(**{name: value for name, value in asked.items() if value is not None})
    return config.model_copy(update={"model": model_of(config)}), load_shown(config.task)


def _sizes(samples: str | None) -> int | list[int] | None:
    """`--samples` as `build` takes it: one size for all silos, or a list with one for each."""
    sizes = None if samples is None else whole_numbers(samples, "samples")
    for size in sizes or ():
        _check_counts(samples=size)
    return sizes if sizes is None or len(sizes) > 1 else sizes[0]


def _check_counts(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise PotluckError(f"must be 1 or more, got {number}", field=name)
        if number > MOST[name]:
            raise PotluckError(f"must be {MOST[name]:,} or less, got {number}", field=name)


@commands.command()
@takes_config
def run(
    *,
    asked: dict[str, Any],
    contributions: Annotated[str, typer.Option(help="One d in [0, 1] per silo, such as 1,0.5,0.5,0.1.")] = "1,1,1,1",
    slots: SlotsOption = 30,
    samples: SamplesOption = None,
    games: Annotated[int, typer.Option(min=1, max=1000, help="Games side by side; one alone may be luck.")] = 8,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    json: JsonOption = False,
    plot: PlotOption = None,
) -> None:
    """Train with fixed contributions and watch precision, the share that the model gets right, slot by slot.

    Every game splits the same data alike and draws weights and batches of its own; shown is their mean.

    [bold]potluck federation run --task fmnist --contributions 1,0.5,0.5,0.1 --slots 30[/bold]
    """
    given, held = numbers(contributions, "contributions"), _sizes(samples)
    _check_counts(slots=slots)
    if not 0 <= seed < 2**32:
        raise PotluckError(f"must be 0 or more and below 2**32, got {seed}", field="seed")
    start_cores()
    import jax

    from potluck.federation import build, check_contributions
    from potluck.federation.build import check_room
    from potluck.federation.runs import watch_games
    from potluck.studies.federation_figures import check_picture, draw_run
    from potluck.studies.intervals import interval

    play = check_contributions(given, len(given))
    check_picture(plot)
    described, data = _described(asked)
    fed = build(described, silos=len(given), samples=held, data=data, seed=seed)
    check_room(fed.architecture, len(given), "games", games)
    console = Console(stderr=True) if json else output()
    watched: list[Watched] = []
    with Live(Text("Compiling… (up to half a minute)"), console=console, refresh_per_second=8) as live:
        for seen in watch_games(fed, play, jax.random.key(seed), slots, games):
            watched.append(seen)
            live.update(_slots(watched))
    if not console.is_terminal:
        console.line()  # a table that goes into a file ends without one
    if json:
        result = {
            "federation": described.model_dump(), "seed": seed, "games": games, "contributions": given,
            "initial": float(watched[0].precision.mean()),
            "slots": [
                {"slot": t, "precision": float(seen.precision.mean()), "precision_by_game": seen.precision.tolist(),
                 "local_samples": seen.held, "brought": seen.brought}
                for t, seen in enumerate(watched[1:], 1)
            ],
        }  # fmt: skip
        typer.echo(jsonlib.dumps(result, indent=2))
    if plot is not None:
        reached = [interval(seen.precision) for seen in watched]
        draw_run(reached, f"{described.task}, {described.model}: contributions {contributions}", plot)
        console.print(f"picture: {plot}", markup=False, emoji=False, soft_wrap=True)


def _slots(watched: "list[Watched]", last: int = 30) -> Table:
    """Mean precision over games with half of its 95% interval, and what every silo trained on."""
    from potluck.studies.intervals import interval

    games = len(watched[0].precision)
    table = Table("slot", f"precision, {games} game{'s' * (games > 1)}", "gain", "samples brought")
    table.add_row("0", f"{watched[0].precision.mean():.4f}", "", "")
    for t in range(max(len(watched) - last, 1), len(watched)):
        reached, seen = interval(watched[t].precision), watched[t]
        spread = f" ± {(reached.high - reached.low) / 2:.4f}" if games > 1 else ""
        gain = reached.mean - watched[t - 1].precision.mean()
        table.add_row(str(t), f"{reached.mean:.4f}{spread}", f"{gain:+.4f}", " ".join(map(str, seen.brought)))
    return table


@commands.command()
@takes_config
def curve(
    *,
    asked: dict[str, Any],
    slots: SlotsOption = 30,
    samples: SamplesOption = None,
    silos: Annotated[int, typer.Option(help="How many silos.")] = 4,
    seeds: Annotated[int, typer.Option(help="Games per contribution, each with its own split and weights.")] = 5,
    others: Annotated[float, typer.Option(help="What the others contribute while one silo moves.")] = 0.5,
    json: JsonOption = False,
    plot: PlotOption = None,
) -> None:
    """Measure precision against common and own contribution, and fit the curve that the theory uses.

    [bold]potluck federation curve --task fmnist --plot curve.png[/bold]
    """
    _check_counts(slots=slots, seeds=seeds, silos=silos)
    if not 0 <= others <= 1:
        raise PotluckError(f"must be in [0, 1], got {others}", field="others")
    held = _sizes(samples)

    start_cores()

    from potluck.federation import build
    from potluck.studies.curve import measure
    from potluck.studies.federation_figures import check_picture, draw_curve

    check_picture(plot)
    described, data = _described(asked)

    def federation(seed: int) -> "FedAvg":
        return build(described, silos=silos, samples=held, data=data, seed=seed)

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
            "federation": described.model_dump(), "slots": slots, "seeds": seeds, "silos": silos, "others": others,
            "initial": measured.initial, "common": _rows(measured.common), "own": _rows(measured.own), "fit": fitted,
        }  # fmt: skip
        typer.echo(jsonlib.dumps(result, indent=2))
    else:
        _show(measured, fitted)
    if plot is not None:
        draw_curve(measured, f"{described.task}, {described.model}, {slots} slots", plot)
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
    console = output()
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
