"""`potluck bench`: how fast this program is, here."""

import json as jsonlib
from dataclasses import asdict
from typing import Annotated

import typer

__all__ = ["commands"]

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@commands.callback()
def _bench() -> None:
    """Measure how fast this program is on this machine."""


@commands.command()
def economy(
    repeats: Annotated[int, typer.Option(min=1, help="Tries of each; the best counts.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
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
