"""`potluck ledger`: what was settled, whether it still says so, and who pays whom."""

import csv
import json as jsonlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from potluck.cli.options import JsonOption
from potluck.cli.tables import output, plain_table
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.ledger import Row, Statement, Verification

LedgerArgument = Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger's file.")]
RunOption = Annotated[str | None, typer.Option("--run", help="One run only.")]
PATIENCE = 2.0
"""Seconds after which a person wants to see that something moves."""

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@commands.callback()
def _ledger() -> None:
    """Read, check and settle the record of a federation's slots.

    [bold]potluck ledger show consortium.ledger[/bold]

    [bold]potluck ledger verify consortium.ledger --coordinator coordinator.key.pub[/bold]

    [bold]potluck ledger settle consortium.ledger[/bold]
    """


@commands.command()
def show(
    ledger: LedgerArgument,
    run: RunOption = None,
    silo: Annotated[str | None, typer.Option(help="One silo only.")] = None,
    slot: Annotated[int | None, typer.Option(help="One slot only.")] = None,
    last: Annotated[int, typer.Option(min=0, help="The last so many slots; 0 shows all.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show slots: what each silo claimed, what all could see, and what it received.

    [bold]potluck ledger show consortium.ledger --silo north --last 0[/bold]

    [bold]potluck ledger show consortium.ledger --run spring --slot 7 --json[/bold]
    """
    from potluck.ledger import money_text, reading

    with reading(ledger) as book:
        rows = list(book.rows(run, silo, slot, 0 if slot is not None else last))
    if json:
        typer.echo(jsonlib.dumps([_plain(row) for row in rows]))
        return
    heads = ("run", "silo", "slot", "d", "signal", "precision", "transfer", "signed")
    table = plain_table(*heads, left=2)
    for row in rows:
        claim = "no claim" if row.contribution is None else f"{row.contribution:.6g}"
        table.add_row(
            row.run, row.silo, str(row.slot), claim, f"{row.signal:.6g}", f"{row.precision:.6g}",
            money_text(row.transfer), "yes" if row.countersigned else "no",
        )  # fmt: skip
    output().print(table)


@commands.command()
def balances(ledger: LedgerArgument, run: RunOption = None, json: JsonOption = False) -> None:
    """Add up what every silo has received, less what it has paid. The sum is zero.

    [bold]potluck ledger balances consortium.ledger --json[/bold]
    """
    from potluck.ledger import money_text, reading

    with reading(ledger) as book:
        sums = book.balances(run)
    if json:
        typer.echo(jsonlib.dumps({"micro_units": sums}))
        return
    table = plain_table("silo", "balance", left=1)
    for name, amount in sums.items():
        table.add_row(name, money_text(amount))
    output().print(table)


@commands.command()
def verify(
    ledger: LedgerArgument,
    coordinator: Annotated[
        str | None, typer.Option(help="The public key you trust: 64 digits or a .pub file. Else the ledger's own word.")
    ] = None,
    head: Annotated[
        list[str] | None, typer.Option(help="A head that verify printed before; repeat it for more.")
    ] = None,
    receipts: Annotated[
        list[Path] | None, typer.Option(help="Statements that a silo has kept, one per line; repeat it for more.")
    ] = None,
    every_countersignature: Annotated[
        bool, typer.Option(help="Check each one; else the last of each silo and those that no slot follows.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Find the first entry that was changed, removed, moved, repeated, cut off or forged; then the exit code is 2.

    A cut at the end shows only against what you hold yourself: [bold]--head[/bold] or [bold]--receipts[/bold].

    [bold]potluck ledger verify consortium.ledger --coordinator coordinator.key.pub --receipts mine.jsonl[/bold]
    """
    from potluck.ledger import read_public
    from potluck.ledger import verify as check

    trusted = None if coordinator is None else read_public(coordinator)
    kept = [statement for place in receipts or () for statement in _receipts(place)]
    with _patiently() as progress:
        found = check(
            ledger,
            coordinator=trusted,
            heads=head or (),
            receipts=kept,
            every=every_countersignature,
            progress=progress,
        )
    if json:
        typer.echo(jsonlib.dumps({"valid": found.fault is None, **asdict(found)}))
    if found.fault is not None:
        raise PotluckError(f"{ledger}: {found.fault}")
    if not json:
        _show_valid(found, trusted is not None)


@commands.command()
def settle(ledger: LedgerArgument, run: RunOption = None, json: JsonOption = False) -> None:
    """Net all balances into payments, fewer than there are silos. Nothing is written; check the ledger first.

    [bold]potluck ledger settle consortium.ledger --json[/bold]
    """
    from potluck.ledger import money_text, reading
    from potluck.ledger import settle as net

    with reading(ledger) as book:
        payments = net(book.balances(run))
    if json:
        typer.echo(
            jsonlib.dumps([{"payer": each.payer, "payee": each.payee, "micro_units": each.amount} for each in payments])
        )
        return
    title = f"{len(payments)} payment{'s' * (len(payments) != 1)}"
    table = plain_table("from", "to", "amount", left=2, title=title)
    for each in payments:
        table.add_row(each.payer, each.payee, money_text(each.amount))
    output().print(table)


@commands.command()
def export(
    ledger: LedgerArgument,
    kind: Annotated[
        Literal["csv", "json"], typer.Option("--format", help="csv, or json: one object per line.")
    ] = "csv",
    run: RunOption = None,
) -> None:
    """Print every entry for a spreadsheet or a program. In csv a name that begins like a formula gets an apostrophe.

    [bold]potluck ledger export consortium.ledger > consortium.csv[/bold]

    [bold]potluck ledger export consortium.ledger --format json | jq .transfer_micro[/bold]
    """
    from potluck.ledger import reading

    heads = ("run", "slot", "silo", "contribution", "signal", "precision", "transfer_micro", "time", "countersigned")
    try:
        with reading(ledger) as book:
            if kind == "json":
                sys.stdout.writelines(f"{jsonlib.dumps(_plain(row))}\n" for row in book.rows(run))
            else:
                table = csv.DictWriter(sys.stdout, heads, lineterminator="\n")
                table.writeheader()
                table.writerows({name: _cell(value) for name, value in _plain(row).items()} for row in book.rows(run))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@commands.command()
def keygen(
    key: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the private key goes; the public one to FILE.pub.")
    ],
) -> None:
    """Make an Ed25519 key: the private one stays where it is made, the public one is given to the others.

    [bold]potluck ledger keygen coordinator.key[/bold]
    """
    from potluck.ledger import new_key, public_key

    typer.echo(public_key(new_key(key)).hex())


def _plain(row: "Row") -> dict[str, object]:
    fields = asdict(row)
    return {("transfer_micro" if name == "transfer" else name): fields[name] for name in fields}


def _cell(value: object) -> object:
    """No text that a spreadsheet would compute."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _receipts(place: Path) -> "list[Statement]":
    """Those that can be read: a silo that was killed while it wrote leaves a torn line, and the others still count."""
    from potluck.ledger import Statement

    try:
        lines = [line for line in place.read_bytes().splitlines() if line.strip()]
    except OSError as fault:
        raise PotluckError(f"{place}: cannot be read ({fault.strerror})") from None
    found, faults = [], []
    for line in lines:
        try:
            found.append(Statement.from_bytes(line))
        except PotluckError as fault:
            faults.append(fault)
    if faults and not found:
        raise PotluckError(f"{place}: {faults[0]}")
    if faults:
        skipped = f"{len(faults):,} of {len(lines):,} lines cannot be read and {'is' if len(faults) == 1 else 'are'}"
        print(f"potluck: {place}: {skipped} skipped", file=sys.stderr)
    return found


def _show_valid(found: "Verification", trusted: bool) -> None:
    whole = f"{found.slots:,} slots, {found.entries:,} entries and {found.countersignatures:,} countersignatures"
    typer.echo(f"{whole} in {found.runs:,} runs are as they were signed")
    typer.echo(
        f"coordinator {found.coordinator}{'' if trusted else ' (by its own word; give --coordinator to be sure)'}"
    )
    for run, silos in found.countersigned.items():
        for silo, (signed, last) in silos.items():
            if signed < last:
                typer.echo(f"run {run}: {silo} has countersigned slots up to {signed} of {last}")
    typer.echo(f"head {found.head}")


@contextmanager
def _patiently() -> Iterator[Callable[[str, float], None]]:
    """Show progress on stderr, but only of work that takes long enough to ask."""
    from potluck.cli.progress import Watching

    begun, shown = time.monotonic(), None
    with ExitStack() as stack:

        def progress(what: str, share: float) -> None:
            nonlocal shown
            if time.monotonic() - begun > PATIENCE:
                shown = shown or stack.enter_context(Watching())
                shown(what, share)

        yield progress
