"""The command line: one module per command group, heavy imports inside the commands."""

import contextlib
import io
import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from potluck import __version__
from potluck.cli import (
    bench,
    certify,
    data,
    demo,
    families,
    federation,
    flower,
    game,
    ledger,
    pretrain,
    scenario,
    study,
    sweep,
)
from potluck.cli import train as training
from potluck.errors import PotluckError, reason

if TYPE_CHECKING:
    from click import ClickException as TyperException
else:
    try:
        from typer.exceptions import TyperException
    except ModuleNotFoundError:  # the typer that Flower asks for raises click's
        from click import ClickException as TyperException

__all__ = ["app", "main"]

app = typer.Typer(
    name="potluck",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("demo")(demo.demo)
app.add_typer(scenario.commands, name="scenario")
app.command("game")(game.game)
app.add_typer(data.commands, name="data")
app.add_typer(federation.commands, name="federation")
app.command("train")(training.train)
app.command("pretrain")(pretrain.pretrain)
app.command("sweep")(sweep.sweep)
app.command("resume")(training.resume)
app.command("play")(training.play)
app.command("export")(training.export)
app.command("certify")(certify.certify)
app.add_typer(study.commands, name="study")
app.add_typer(flower.commands, name="flower")
app.add_typer(ledger.commands, name="ledger")
app.command("list")(families.list_)
app.add_typer(bench.commands, name="bench")


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"potluck {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Fair pay for the data that silos bring to a federation.

    [bold]potluck demo[/bold]                                      watch silos learn, in four minutes

    [bold]potluck game --preset paper --sweep 0:16:33[/bold]       solve the paper's game

    [bold]potluck scenario init my.toml[/bold]                     describe a federation of your own

    [bold]potluck federation run --contributions 1,0.5,0.5,0.1[/bold]  train one for real

    [bold]potluck train --task digits --out runs/x[/bold]              let agents learn what to bring

    [bold]potluck certify runs/x[/bold]                                could any of them gain by deviating?

    [bold]potluck ledger verify consortium.ledger[/bold]               is it still what was signed?

    [bold]potluck sweep --vary mechanism.intensity=0,2,5,10[/bold]     train for many intensities at once
    """


def _warn(message: Warning | str, *_: object) -> None:
    print(f"potluck: {message}", file=sys.stderr)


def _flag(mistake: PotluckError) -> str | None:
    """The flag that the person typed for the field, or the field's own name."""
    flag = f"--{(mistake.field or '').replace('_', '-')}"
    return flag if any(word.partition("=")[0] == flag for word in sys.argv[1:]) else mistake.field


def main() -> None:
    """Run the command line; a person's mistake costs them one line and exit code 2, never a traceback."""
    warnings.showwarning = _warn  # type: ignore[assignment]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no α shows a question mark
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except (PotluckError, TyperException) as mistake:
        message = mistake.format_message() if isinstance(mistake, TyperException) else mistake.named(_flag(mistake))
        if message:  # empty where help was shown for want of a command
            print(f"potluck: {' '.join(message.split())}", file=sys.stderr)
        code = 2
    except SystemExit:  # so Click and Rich leave where whoever reads has read enough
        code = 0
        _output_fault()
    except (OSError, MemoryError, RuntimeError, UnicodeEncodeError) as fault:
        code = _told(fault)
    except (KeyboardInterrupt, typer.Abort):
        print("potluck: stopped", file=sys.stderr)
        code = 130
    sys.exit(code)


def _told(fault: Exception) -> int:
    """What the machine would not do, in one line; whoever reads our output may stop at any time."""
    if (lost := _output_fault()) is not None:
        if not isinstance(lost, BrokenPipeError):
            print(f"potluck: standard output: {reason(lost)}", file=sys.stderr)
        return 0 if isinstance(lost, BrokenPipeError) else 2
    if isinstance(fault, OSError):
        said = f"{str(fault.filename)[:100]}: {reason(fault)}" if fault.filename else reason(fault)
    elif isinstance(fault, MemoryError) or "RESOURCE_EXHAUSTED" in str(fault):
        said = "this needs more memory than there is; ask for less"
    elif isinstance(fault, UnicodeEncodeError):
        said = f"{fault.object[:40]!r} is no text that can be looked for; write it in UTF-8"
    else:
        raise fault
    print(f"potluck: {said}", file=sys.stderr)
    return 2


def _output_fault() -> OSError | None:
    """What is wrong with the standard output, if anything; then nothing more is written to it."""
    try:
        sys.stdout.flush()
    except OSError as fault:
        with contextlib.suppress(OSError, ValueError):  # where it is no file at all
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return fault
    return None
