"""`potluck flower`: the same mechanisms and agents on a real Flower federation."""

import importlib.util
import itertools
import json as jsonlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from potluck.cli.options import JsonOption
from potluck.cli.runtime import start_cores
from potluck.cli.tables import number, output, plain_table
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from potluck.flower.compare import Comparison
    from potluck.ledger import Row
    from potluck.scenario import Scenario

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
MOST_COLUMNS = 6


@commands.callback()
def _flower() -> None:
    """Run a Flower federation whose silos decide what they bring, and are paid for it.

    [bold]potluck flower up --silos 4 --slots 10[/bold]

    [bold]potluck flower compare runs/mpgd runs/wpr[/bold]
    """


@commands.command()
def up(
    scenario: Annotated[Path | None, typer.Argument(help="A scenario file; preset paper on digits otherwise.")] = None,
    silos: Annotated[int | None, typer.Option(min=2, max=64, help="How many; the scenario's own otherwise.")] = None,
    slots: Annotated[int, typer.Option(min=1, help="How many to play.")] = 10,
    tls: Annotated[
        bool, typer.Option("--tls", help="With certificates, and node keys that must be registered.")
    ] = False,
    simulation: Annotated[bool, typer.Option("--simulation", help="On Flower's simulation engine.")] = False,
    policy: Annotated[
        list[Path] | None,
        typer.Option(help="A policy from `potluck export`: one for all silos, or one for each, in order."),
    ] = None,
    agent: Annotated[str, typer.Option(help="Who decides where no policy is given: mpgd, 0.5, …")] = "pretrained",
    out: Annotated[Path, typer.Option(help="Folder for keys, silos' files, logs and the ledger.")] = Path("out/flower"),
    json: JsonOption = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, play slots, settle each, and stop everything.

    Nothing is installed, nothing leaves the loopback, nothing is written outside of the folder. The folder keeps
    the ledger and every silo's own files; in the same folder again, the same silos play on.

    [bold]potluck flower up --silos 4 --slots 10[/bold]

    [bold]potluck flower up my.toml --tls --policy silo-0.potluck --policy silo-1.potluck …[/bold]

    [bold]potluck ledger verify out/flower/ledger.db[/bold]
    """
    check_installed()
    from potluck.flower.up import Trial, play

    chosen = _scenario(scenario, silos)
    deciding = _agents(policy or [], agent, chosen.silos.count)
    trial = Trial(chosen, slots, deciding, out, tls=tls, simulation=simulation)
    begun, console = time.monotonic(), Console(stderr=True)
    played: list[dict[str, Any]] = []
    with console.status("Starting the federation…") as status:

        def watch(rows: "list[Row]") -> None:
            played.append(_slot(rows))
            status.update(f"Slot {len(played) + 1} of {slots}…" if len(played) < slots else "Stopping…")
            if not json:
                if len(played) == 1:
                    console.print(Text(_heads(len(rows))))
                console.print(Text(_line(played[-1])))

        consortium, run = play(trial, watch)
    seconds = round(time.monotonic() - begun, 1)
    found = _outcome(consortium.ledger, run) | {"out": str(out), "run": run, "seconds": seconds, "slots": played}
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    typer.echo(f"Played {len(played)} slots in {seconds:.0f} s. The ledger: {consortium.ledger}, run {run}")
    typer.echo("Balances: " + ", ".join(f"{name} {amount}" for name, amount in found["balances"].items()))
    for payment in found["payments"]:
        typer.echo(f"  {payment['payer']} pays {payment['payee']} {payment['amount']}")
    typer.echo(f"Check it: potluck ledger verify {consortium.ledger}")


@commands.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of `potluck train`, each with its own agents.")],
    slots: Annotated[int, typer.Option(min=1, help="Slots to play with each.")] = 30,
    out: Annotated[Path, typer.Option(help="Folder for policies and federations.")] = Path("out/compare"),
    json: JsonOption = False,
) -> None:
    """Play trained policies on a real federation each, beside what the simulator predicted for them.

    Every silo's policy is exported and deployed to that silo; what it earned is asked of the silo's own file.

    [bold]potluck train --task digits --out runs/mpgd; potluck train --task digits --agent wpr --out runs/wpr[/bold]

    [bold]potluck flower compare runs/mpgd runs/wpr --slots 30[/bold]
    """
    check_installed()
    start_cores()
    from potluck.flower.compare import compare as compared

    _check_names(runs)
    rows = []
    with Console(stderr=True).status("Starting…") as status:
        for run in runs:

            def watch(settled: "list[Row]", run: Path = run) -> None:
                status.update(Text(f"{run}: slot {settled[0].slot} of {slots} is settled"))

            status.update(Text(f"{run}: starting the federation"))
            rows.append(compared(run, slots, out / run.name, watch))
    if json:
        typer.echo(jsonlib.dumps([asdict(row) for row in rows]))
        return
    typer.echo(f"{slots} slots on real federations, beside what the simulator predicted; per slot")
    for at in range(0, len(rows), 2):
        output().print(_side_by_side(rows[at : at + 2]))


def _side_by_side(rows: "list[Comparison]") -> Table:
    """Two runs, which is what 80 columns hold."""
    names = [Text(f"{Path(row.run).name[:16]}\n{row.mechanism[:16]}") for row in rows]
    table = plain_table("", *(head for name in names for head in (name, "predicted")), left=1)
    for name, spec, values in _quantities(rows):
        table.add_row(name, *(number(value, spec) for value in values))
    return table


def _quantities(rows: "list[Comparison]") -> "Iterator[tuple[str, str, list[float | None]]]":
    """A line each: its name, its format, and for every run what was earned and predicted; None for a silo it lacks."""
    yield "welfare, money", ".1f", [x for row in rows for x in (row.welfare, row.predicted_welfare)]
    earned = [payoffs for row in rows for payoffs in (row.payoffs, row.predicted_payoffs)]
    for silo, each in enumerate(itertools.zip_longest(*earned)):
        yield f"silo {silo}'s payoff, money", ".1f", list(each)
    yield "precision P", ".3f", [x for row in rows for x in (row.precision, row.predicted_precision)]
    yield "contribution d, mean", ".3f", [x for row in rows for x in (row.contribution, row.predicted_contribution)]


def _check_names(runs: list[Path]) -> None:
    """Each is played in a folder of its name; two in one would be taken for one federation that plays on."""
    known: dict[str, Path] = {}
    for run in runs:
        if run.name in known:
            raise PotluckError(f": {known[run.name]} and {run} have the same name; rename one of them", field="runs")
        known[run.name] = run


def check_installed() -> None:
    """Flower comes with an extra."""
    if importlib.util.find_spec("flwr") is None:
        raise PotluckError("Flower is not installed here; add it with: pip install 'potluck-fl[flower]'")


def _scenario(file: Path | None, silos: int | None) -> "Scenario":
    """The scenario to play, with the number of silos that was asked for."""
    from potluck.federation.from_scenario import on_task
    from potluck.scenario import FederationConfig, load, preset

    chosen = preset("paper") if file is None else load(file)
    if silos is not None and silos != chosen.silos.count:
        members = chosen.silos.model_copy(update={"count": silos})
        chosen = type(chosen).model_validate({**chosen.model_dump(), "silos": members.model_dump()})
    return chosen if isinstance(chosen.precision, FederationConfig) else on_task(chosen, "digits")


def _agents(policies: list[Path], agent: str, silos: int) -> "tuple[str | float | Path, ...]":
    for policy in policies:
        if not policy.is_file():
            raise PotluckError(f": {policy}: no such file; write one with `potluck export`", field="policy")
    if policies:
        return tuple(policies * silos if len(policies) == 1 else policies)
    try:
        return (float(agent),) * silos
    except ValueError:
        return (agent,) * silos


def _slot(rows: "list[Row]") -> dict[str, Any]:
    from potluck.ledger import MICRO

    return {
        "slot": rows[0].slot,
        "contributions": [row.contribution for row in rows],
        "precision": rows[0].precision,
        "signal": rows[0].signal,
        "transfers": [row.transfer / MICRO for row in rows],
    }


def _heads(silos: int) -> str:
    each = range(silos) if silos <= MOST_COLUMNS else ()
    names = [f"d{n}" for n in each] or ["mean d"]
    money = [f"r{n}" for n in each] or ["moved"]
    return " ".join(f"{head:>8}" for head in ("slot", *names, "P", "signal", *money))


def _line(slot: dict[str, Any]) -> str:
    d, r = slot["contributions"], slot["transfers"]
    if len(d) > MOST_COLUMNS:
        shares, money = [sum(x or 0 for x in d) / len(d)], [sum(abs(x) for x in r) / 2]
    else:
        shares, money = d, r
    told = ["absent" if share is None else f"{share:.3f}" for share in shares]
    words = [
        str(slot["slot"]),
        *told,
        f"{slot['precision']:.4f}",
        f"{slot['signal']:.2f}",
        *(f"{x:.2f}" for x in money),
    ]
    return " ".join(f"{word:>8}" for word in words)


def _outcome(ledger: Path, run: str) -> dict[str, Any]:
    from potluck.ledger import money_text, reading, settle, verify

    with reading(ledger) as book:
        balances = book.balances(run)
    payments = [
        {"payer": payment.payer, "payee": payment.payee, "amount": money_text(payment.amount)}
        for payment in settle(balances)
    ]
    return {
        "ledger": str(ledger),
        "balances": {name: money_text(amount) for name, amount in balances.items()},
        "payments": payments,
        "verified": verify(ledger).fault is None,
    }
