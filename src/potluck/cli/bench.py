"""`potluck bench`: how fast this program is, here."""

import json as jsonlib
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from potluck.cli.options import JsonOption
from potluck.cli.progress import Watching
from potluck.cli.runtime import whole_numbers
from potluck.cli.tables import number, output, plain_table
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.studies.benchmarks.federation import Engine, Row
    from potluck.studies.benchmarks.peers import Absent, Peer
    from potluck.studies.benchmarks.work import Timing

PeersOption = Annotated[
    Path | None, typer.Option(help="Run the engines of this folder, such as benchmarks/peers, beside ours by turns.")
]

RepeatsOption = Annotated[int, typer.Option(min=1, help="Runs per engine; the best counts.")]

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@commands.callback()
def _bench() -> None:
    """Measure how fast this program is on this machine.

    [bold]potluck bench economy[/bold]

    [bold]potluck bench federation --peers benchmarks/peers --json[/bold]

    [bold]potluck bench flower[/bold]

    [bold]potluck bench ledger[/bold]

    [bold]potluck bench memory[/bold]

    [bold]potluck bench training --json[/bold]

    [bold]potluck bench flower[/bold]
    """


@commands.command()
def economy(
    repeats: Annotated[int, typer.Option(min=1, help="Tries of each; the best counts.")] = 3,
    json: JsonOption = False,
) -> None:
    """Time what a person waits for: start-up, a solved game with its sweep, an equilibrium of 100 silos.

    [bold]potluck bench economy --json[/bold]
    """
    from potluck.studies.benchmarks.economy import waits

    with Console(stderr=True).status("Timing…"):
        rows = waits(repeats)
    table = plain_table("what", "seconds", "at most", left=1, title=f"Waits, best of {repeats}")
    for row in rows:
        table.add_row(row.name, f"{row.seconds:.2f}", f"{row.limit:g}")
    _say(rows, table, json)


@commands.command()
def federation(peers: PeersOption = None, repeats: RepeatsOption = 3, json: JsonOption = False) -> None:
    r"""Time FedAvg rounds: MLP 784-64-10, 4 silos × 2,000 samples of Fashion-MNIST, batch 50, one epoch, 20 rounds.

    And, ours alone: the same at a tenth of the data, with what a slot then costs as a share of a full one, and 16
    games side by side on the digits (64-32-10, 4 silos × 350, batch 25).

    Rivals come with [bold]pip install 'potluck-fl\[peers]'[/bold], here or in an environment of their own whose
    interpreter POTLUCK_PEERS_PYTHON names.
    """
    from potluck.studies.benchmarks import federation as contests
    from potluck.studies.benchmarks.peers import peers_in, run
    from potluck.studies.benchmarks.work import Timing

    contest = contests.Contest()
    engines = {"Potluck": contests.OURS} | ({} if peers is None else peers_in(peers, "federation"))
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("this machine's sgemm peak") as status:

        def announced(name: str, peer: "Peer") -> "Engine":
            def timed(data: Path) -> "Timing | Absent":
                status.update(name)
                return run(peer, data, Timing)

            return timed

        peak = contests.sgemm_peak()
        data = contests.prepare(Path(folder) / "work.npz", contest)
        turns = {name: announced(name, peer) for name, peer in engines.items()}
        rows = contests.race(turns, data, contest, peak=peak, repeats=repeats)
        tenth = announced("Potluck, d = 0.1", contests.OURS_AT_A_TENTH)
        rows += contests.race({"Potluck, d = 0.1": tenth}, data, contests.A_TENTH, repeats=repeats)
        digits = contests.prepare(Path(folder) / "digits.npz", contests.DIGITS)
        abreast = announced("Potluck, 16 games", contests.OURS_ABREAST)
        rows += contests.race({"Potluck": abreast}, digits, contests.DIGITS, peak=peak, repeats=repeats)
    gflop, speed = contests.flops(contest) / 1e9, peak / 1e9
    if json:
        found = {"sgemm_gflops": speed, "gflop_per_round": gflop, "rows": [asdict(row) for row in rows]}
        typer.echo(jsonlib.dumps(found, indent=2))
        return
    _say(rows, _rounds(rows), json)
    typer.echo(f"A round is {gflop:.2f} Gflop; the fastest sgemm here does {speed:.0f} Gflop/s.")


@commands.command()
def ledger(
    slots: Annotated[int, typer.Option(min=1, help="To record.")] = 100_000,
    countersigned: Annotated[
        int, typer.Option(min=1, help="To record in a ledger that all silos countersign.")
    ] = 2_000,
    silos: Annotated[int, typer.Option(min=1, help="Entries in a slot.")] = 16,
    folder: Annotated[Path, typer.Option(help="On the disk to measure; the ledgers are removed at the end.")] = Path(),
    json: JsonOption = False,
) -> None:
    """Time a ledger: slots recorded durably beside what the disk allows, and entries verified.

    The floor is one page written and synchronised, and nothing else, by turns with the slots. One ledger
    is countersigned by every silo at the end, the other by every silo in every slot.

    [bold]potluck bench ledger --slots 2000 --folder /var/lib/consortium --json[/bold]
    """
    from potluck.cli.progress import Watching
    from potluck.ledger.benchmark import measure

    rows = []
    with tempfile.TemporaryDirectory(dir=folder) as place, Watching() as shown:
        for count, each in ((slots, False), (countersigned, True)):
            rows.append(measure(Path(place), count, silos, each_slot=each, progress=shown))
    when = ("in every slot" if row.each_slot else "at the end" for row in rows)
    table = plain_table("countersigned", *when, left=1, title=f"A ledger of {silos} silos")
    for name, show in (
        ("slots", lambda row: f"{row.slots:,}"),
        ("slots recorded, per second", lambda row: f"{row.slots_per_second:,.0f}"),
        ("the disk's floor, per second", lambda row: f"{row.floor_per_second:,.0f}"),
        ("processor time for a slot, ms", lambda row: f"{row.slot_cpu_ms:.2f}"),
        ("entries verified, per second", lambda row: f"{row.verified_per_second:,.0f}"),
        ("… per second of processor time", lambda row: f"{row.verified_per_cpu_second:,.0f}"),
        ("… every countersignature checked", lambda row: f"{row.every_per_cpu_second:,.0f}"),
        ("size, MB", lambda row: f"{row.megabytes:,.1f}"),
    ):
        table.add_row(name, *map(show, rows))
    _say(rows, table, json)


@commands.command()
def memory(peers: PeersOption = None, repeats: RepeatsOption = 3, json: JsonOption = False) -> None:
    r"""Time one gradient of a DNC: 16 sequences of 16 steps, 16 words × 16, 4 read heads, an LSTM of 64 units.

    Rivals come with [bold]pip install 'potluck-fl\[peers]'[/bold], here or in an environment of their own whose
    interpreter POTLUCK_PEERS_PYTHON names.
    """
    from potluck.studies.benchmarks.memory import OURS, race
    from potluck.studies.benchmarks.peers import peers_in, run
    from potluck.studies.benchmarks.sequences import Sizes, Timing

    def engine(peer: "Peer", sizes: Sizes) -> "Timing | Absent":
        return run(peer, sizes.text(), Timing)

    engines = {"Potluck": OURS} | ({} if peers is None else peers_in(peers, "memory"))
    with Console(stderr=True).status("Timing…"):
        rows = race({name: partial(engine, peer) for name, peer in engines.items()}, Sizes(), repeats=repeats)
    title = f"Gradient of a DNC, best of {repeats}"
    table = plain_table("engine", "version", "device", "ms", "× Potluck", left=3, title=title)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.1f}"
        table.add_row(row.engine, row.version, row.device, number(row.milliseconds, ".1f"), ratio)
    _say(rows, table, json)


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
    from potluck.studies.benchmarks.training import Work, draw_cost, measure
    from potluck.studies.federation_figures import check_picture

    counts, rows = whole_numbers(silos, "silos", 2), []
    check_picture(plot)
    with Console(stderr=True).status("Timing…") as status:
        for count in counts:
            status.update(f"{agent} on {task}, {count} silos: compiling and training, twice")
            rows.append(measure(Work(agent, task, count, games, seeds, seconds)))
    if plot is not None:
        draw_cost(rows, plot)
    heads = ("agent", "task", "device", "silos", "games", "seeds", "slots/s", "compile s", "from cache s")
    table = plain_table(*heads, left=3, title="Training, updates included")
    for row in rows:
        table.add_row(
            row.agent, row.task, row.device, str(row.silos), str(row.games), str(row.seeds),
            f"{row.slots_per_second:,.0f}", f"{row.compile_seconds:.1f}", f"{row.compile_seconds_cached:.1f}",
        )  # fmt: skip
    _say(rows, table, json)


@commands.command()
def flower(
    engine: Annotated[list[str] | None, typer.Option(help="simulation, deployment; both otherwise.")] = None,
    slots: Annotated[int, typer.Option(min=3, help="Slots of a run; the first two are not timed.")] = 7,
    repeats: Annotated[int, typer.Option(min=1, help="Runs without and with, by turns; the median counts.")] = 3,
    epochs: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Local epochs of a slot over 350 digits: how long the app itself takes."),
    ] = 500,
    json: JsonOption = False,
) -> None:
    """Time a slot of the digits app on plain Flower and with Potluck, by turns on the same federation.

    Four silos bring everything, as a policy file decides; FedAvg, and the server measures precision in both. A deployed
    silo starts a process in every slot, which takes most of it.

    [bold]potluck bench flower --engine simulation --json[/bold]
    """
    from potluck.cli.flower import check_installed
    from potluck.federation.from_scenario import on_task

    check_installed()
    from potluck.flower.bench import costs
    from potluck.scenario import preset

    known = ("simulation", "deployment")
    scenario = on_task(preset("paper"), "digits")
    scenario = scenario.model_copy(update={"precision": scenario.precision.model_copy(update={"epochs": epochs})})
    rows = []
    with Watching() as watch, tempfile.TemporaryDirectory() as folder:
        for name in engine or known:
            if name not in known:
                raise PotluckError(f"must be one of {', '.join(known)}, got {name!r}", field="engine")
            kind: Any = name
            rows.append(costs(kind, scenario, slots, repeats, Path(folder) / name, partial(watch, share=0.0)))
    if json:
        typer.echo(jsonlib.dumps([{**asdict(row), "overhead": row.overhead} for row in rows]))
        return
    heads = ("engine", "plain Flower", "with Potluck", "more", "overhead")
    table = plain_table(*heads, left=1, title=f"Seconds per slot of {epochs} epochs, median of {repeats}")
    for row in rows:
        plain, ours = (median(taken) for taken in (row.plain, row.potluck))
        table.add_row(row.engine, f"{plain:.2f}", f"{ours:.2f}", f"{ours - plain:+.3f}", f"{row.overhead:+.1%}")
    output().print(table)


def _rounds(rows: "list[Row]") -> Table:
    heads = ("engine", "version", "work", "device", "rounds/s", "accuracy", "of sgemm peak", "cost of d = 1")
    table = plain_table(*heads, left=4, title="FedAvg rounds per second")
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
    return table


def _say(rows: list[Any], table: Table, json: bool) -> None:
    """The rows as JSON, or the table and why an engine has no figures in it."""
    if json:
        typer.echo(jsonlib.dumps([asdict(row) for row in rows], indent=2))
        return
    output().print(table)
    for row in rows:
        if getattr(row, "note", None) is not None:
            typer.echo(f"{row.engine}: {row.note}")
