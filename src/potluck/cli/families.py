"""`potluck list`: what a scenario or a command may name, from the registries themselves."""

import json as jsonlib
from typing import Annotated

import typer

from potluck.cli.options import JsonOption
from potluck.cli.tables import output, plain_table
from potluck.errors import PotluckError
from potluck.registry import HOMES, family


def list_(
    name: Annotated[str | None, typer.Argument(metavar="FAMILY", help="One family; all of them otherwise.")] = None,
    json: JsonOption = False,
) -> None:
    """List what there is to choose from: mechanisms, agents, tasks, models, and what you have registered yourself.

    [bold]potluck list agent[/bold]

    [bold]potluck list --json | jq .mechanism[/bold]
    """
    if name is not None and name not in HOMES:
        raise PotluckError(f"must be one of {', '.join(HOMES)}, got {name!r}", field="family")
    found = {each: {key: _about(each, key) for key in family(each)} for each in ([name] if name else HOMES)}
    if json:
        typer.echo(jsonlib.dumps(found))
        return

    table = plain_table("family", "name", "what it is", left=3)
    for each, members in found.items():
        for row, (key, about) in enumerate(members.items()):
            table.add_row("" if row else each, key, about)
    output().print(table)


def _about(name: str, key: str) -> str:
    """What a member says of itself, or why it cannot be had."""
    try:
        member = family(name)[key]
    except PotluckError as fault:
        return str(fault)
    said = getattr(member, "help", None) or getattr(member, "summary", None) or getattr(member, "read", member).__doc__
    return str(said).strip().splitlines()[0].rstrip(".") if said else ""
