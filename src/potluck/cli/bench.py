"""`potluck bench`: how fast this program is, here."""

import json as jsonlib
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from potluck.studies.benchmarks.federation import Engine, Row
    from potluck.studies.benchmarks.peers import Absent, Timing

PeersOption = Annotated[
    Path | None, typer.Option(help="Run the engines of this folder, such as benchmarks/peers, beside ours by turns.")
]

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@commands.callback()
def _bench() -> None:
    """Measure how fast this program is on this machine.

    [bold]potluck bench economy[/bold]

    [bold]potluck bench federation --peers benchmarks/peers --json[/bold]

    [bold]potluck bench memory[/bold]

    [bold]potluck bench training --json[/bold]
    """


@commands.command()
def economy(
    repeats: Annotated[int, typer.Option(min=1, help="Tries of each; the best counts.")] = 3,
    json: JsonOption = False,
) -> None:
    """Time what a person waits for: start-up, a solved game with its sweep, an equilibrium of 100 silos.

    [bold]potluck bench economy --json[/bold]
    """
    from rich.console import Console
    from rich.table import Table

    from potluck.studies.benchmarks.economy import waits

    with Console(stderr=True).status("Timing…"):
        rows = waits(repeats)
    if json:
        typer.echo(jsonlib.dumps([asdict(row) for row in rows]))
        return
    table = Table(title=f"Waits, best of {repeats}")
    table.add_column("what")
    for head in ("seconds", "at most"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(row.name, f"{row.seconds:.2f}", f"{row.limit:g}")
    Console().print(table)


@commands.command()
def federation(
    peers: PeersOption = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs per engine; the best counts.")] = 3,
    json: JsonOption = False,
) -> None:
    r"""Time FedAvg rounds: MLP 784-64-10, 4 silos × 2,000 samples of Fashion-MNIST, batch 50, one epoch, 20 rounds.

    And, ours alone: the same at a tenth of the data, with what a slot then costs as a share of a full one, and 16
    games side by side on the digits (64-32-10, 4 silos × 350, batch 25).

    Rivals come with [bold]pip install 'potluck-fl\[peers]'[/bold], here or in an environment of their own whose
    interpreter POTLUCK_PEERS_PYTHON names.
    """
    import sys

    from rich.console import Console

    from potluck.studies.benchmarks.federation import (
        A_TENTH,
        DIGITS,
        OURS,
        OURS_ABREAST,
        OURS_AT_A_TENTH,
        Contest,
        flops,
        prepare,
        race,
        sgemm_peak,
    )
    from potluck.studies.benchmarks.peers import peers_in, run

    contest = Contest()
    engines: dict[str, Engine] = {"Potluck": partial(run, OURS, python=sys.executable)}
    if peers is not None:
        engines |= {name: partial(run, peer) for name, peer in peers_in(peers, "federation").items()}
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("this machine's sgemm peak") as status:

        def announced(name: str, engine: "Engine") -> "Engine":
            def timed(data: Path) -> "Timing | Absent":
                status.update(name)
                return engine(data)

            return timed

        peak = sgemm_peak()
        data = prepare(Path(folder) / "work.npz", contest)
        turns = {name: announced(name, engine) for name, engine in engines.items()}
        rows = race(turns, data, contest, peak=peak, repeats=repeats)
        tenth = announced("Potluck, d = 0.1", partial(run, OURS_AT_A_TENTH, python=sys.executable))
        rows += race({"Potluck, d = 0.1": tenth}, data, A_TENTH, repeats=repeats)
        digits = prepare(Path(folder) / "digits.npz", DIGITS)
        abreast = announced("Potluck, 16 games", partial(run, OURS_ABREAST, python=sys.executable))
        rows += race({"Potluck": abreast}, digits, DIGITS, peak=peak, repeats=repeats)
    if json:
        typer.echo(
            jsonlib.dumps(
                {
                    "sgemm_gflops": peak / 1e9,
                    "gflop_per_round": flops(contest) / 1e9,
                    "rows": [asdict(row) for row in rows],
                },
                indent=2,
            )
        )
    else:
        _show(rows, peak, flops(contest))


@commands.command()
def memory(
    peers: PeersOption = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs per engine; the best counts.")] = 3,
    json: JsonOption = False,
) -> None:
    r"""Time one gradient of a DNC: 16 sequences of 16 steps, 16 words × 16, 4 read heads, an LSTM of 64 units.

    Rivals come with [bold]pip install 'potluck-fl\[peers]'[/bold], here or in an environment of their own whose
    interpreter POTLUCK_PEERS_PYTHON names.
    """
    import sys

    from rich.console import Console
    from rich.table import Table

    from potluck.studies.benchmarks.memory import OURS, race, run
    from potluck.studies.benchmarks.peers import peers_in
    from potluck.studies.benchmarks.sequences import Sizes

    engines = {"Potluck": partial(run, OURS, python=sys.executable)}
    if peers is not None:
        engines |= {name: partial(run, peer) for name, peer in peers_in(peers, "memory").items()}
    with Console(stderr=True).status("Timing…"):
        rows = race(engines, Sizes(), repeats=repeats)
    if json:
        typer.echo(jsonlib.dumps([asdict(row) for row in rows], indent=2))
        return
    table = Table(title=f"Gradient of a DNC, best of {repeats}")
    for head in ("engine", "version", "device"):
        table.add_column(head)
    for head in ("ms", "× Potluck"):
        table.add_column(head, justify="right")
    for row in rows:
        spent = "–" if row.milliseconds is None else f"{row.milliseconds:.1f}"
        table.add_row(row.engine, row.version, row.device, spent, "" if row.ratio is None else f"{row.ratio:.1f}")
    console = Console()
    console.print(table)
    for row in rows:
        if row.note is not None:
            console.print(f"{row.engine}: {row.note}", markup=False, highlight=False, soft_wrap=True)


@commands.command()
def training(
    agent: Annotated[str, typer.Option(help="Who learns, as in `potluck train`.")] = "mpgd",
    task: Annotated[str, typer.Option(help="A task, as in `potluck train`, or curve.")] = "digits",
    games: Annotated[int, typer.Option(min=1, help="Games side by side.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds side by side.")] = 1,
    silos: Annotated[str, typer.Option(help="How many; several, such as 4,8,16,32,64, show what they cost.")] = "4",
    seconds: Annotated[float, typer.Option(min=0, help="To train after compiling, twice for each row.")] = 10.0,
    plot: Annotated[Path | None, typer.Option(help="Save cost against silos here (PNG, PDF or SVG).")] = None,
    json: JsonOption = False,
) -> None:
    """Time training with real federated learning inside, updates included, and how long its program compiles.

    Each row takes two fresh processes: one with an empty compilation cache, one with what the first left there.

    [bold]potluck bench training --json[/bold]

    [bold]potluck bench training --task fmnist --seeds 16 --games 32[/bold]    on an accelerator

    [bold]potluck bench training --silos 4,8,16,32,64 --plot cost.png[/bold]
    """
    from rich.console import Console
    from rich.table import Table

    from potluck.cli.runtime import numbers
    from potluck.studies.benchmarks.training import Work, draw_cost, measure
    from potluck.studies.federation_figures import check_picture

    asked = numbers(silos, "silos")
    check_picture(plot)
    for count in asked:
        if count < 2 or count != int(count):
            raise PotluckError(f"must be whole numbers of 2 or more, got {count:g}", field="silos")
    counts = [int(count) for count in asked]
    rows = []
    with Console(stderr=True).status("Timing…") as status:
        for count in counts:
            status.update(f"{agent} on {task}, {count} silos: compiling and training, twice")
            rows.append(measure(Work(agent, task, count, games, seeds, seconds)))
    if plot is not None:
        draw_cost(rows, plot)
    if json:
        typer.echo(jsonlib.dumps([asdict(row) for row in rows]))
        return
    table = Table(title="Training, updates included")
    for head in ("agent", "task", "device"):
        table.add_column(head)
    for head in ("silos", "games", "seeds", "slots/s", "compile s", "from cache s"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.agent, row.task, row.device, str(row.silos), str(row.games), str(row.seeds),
            f"{row.slots_per_second:,.0f}", f"{row.compile_seconds:.1f}", f"{row.compile_seconds_cached:.1f}",
        )  # fmt: skip
    Console().print(table)


def _show(rows: "Sequence[Row]", peak: float, operations: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="FedAvg rounds per second")
    for column in ("engine", "version", "work", "device"):
        table.add_column(column)
    for column in ("rounds/s", "accuracy", "of sgemm peak", "cost of d = 1"):
        table.add_column(column, justify="right")
    for row in rows:
        if row.rounds_per_second is None or row.accuracy is None:
            table.add_row(row.engine, "–")
            continue
        table.add_row(
            row.engine,
            row.version,
            f"{row.task} {row.model}, {row.games} game{'s' * (row.games > 1)}",
            row.device,
            f"{row.rounds_per_second:.1f}",
            f"{row.accuracy:.3f}",
            "" if row.peak_share is None else f"{row.peak_share:.0%}",
            "" if row.cost_share is None else f"{row.cost_share:.0%}",
        )
    console = Console()
    console.print(table)
    for row in rows:
        if row.note is not None:
            console.print(f"{row.engine}: {row.note}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"A round is {operations / 1e9:.2f} Gflop; the fastest sgemm here does {peak / 1e9:.0f} Gflop/s.")
