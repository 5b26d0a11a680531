"""`potluck scenario`: show, start and check scenario files."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import PresetOption
from potluck.cli.runtime import chosen_scenario
from potluck.errors import PotluckError, reason

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@commands.callback()
def _scenario() -> None:
    """Show, start or check the description of a run.

    A scenario is one TOML file: silos and their terms, energy price, mechanism, precision, observation, seed.

    [bold]potluck list preset[/bold]

    [bold]potluck scenario init my.toml --preset dilemma[/bold]

    [bold]potluck scenario validate my.toml[/bold]
    """


@commands.command()
def show(
    path: Annotated[Path | None, typer.Argument(help="A scenario file; a preset is shown without one.")] = None,
    name: PresetOption = None,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of TOML.")] = False,
) -> None:
    """Print a scenario with every default filled in and explained.

    [bold]potluck scenario show --preset dilemma[/bold]

    [bold]potluck scenario show my.toml --json[/bold]
    """
    from potluck.scenario import render

    scenario = chosen_scenario(path, name)
    typer.echo(scenario.model_dump_json(indent=1) if json else render(scenario), nl=json)


@commands.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("scenario.toml"),
    name: PresetOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a scenario file to start from.

    [bold]potluck scenario init my.toml --preset dilemma[/bold]
    """
    from potluck.scenario import render

    text = render(chosen_scenario(None, name))
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PotluckError(f"{path} exists; choose another name, or replace it with --force") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {reason(fault)}; choose a place you may write to") from None
    typer.echo(f"Wrote {path}. Edit it, then: potluck game {path}")


@commands.command()
def validate(path: Annotated[Path, typer.Argument(help="A scenario file.")]) -> None:
    """Check a scenario file; silent faults become one line and exit code 2.

    [bold]potluck scenario validate my.toml[/bold]
    """
    from potluck.scenario import load

    scenario = load(path)
    typer.echo(f"{path} is valid: {scenario.silos.count} silos, {scenario.horizon} slots, seed {scenario.seed}")
