"""`potluck train`, `resume`, `play` and `export`: agents that learn the long-term game."""

import json as jsonlib
import math
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from potluck.cli.data import load_shown
from potluck.cli.options import JsonOption, PresetOption, RunArgument, ScenarioArgument, takes
from potluck.cli.progress import TrainingDisplay, to_the_end
from potluck.cli.runtime import chosen_scenario, start_cores
from potluck.cli.tables import output, plain_table
from potluck.errors import PotluckError
from potluck.training.tensorboard import Board

if TYPE_CHECKING:
    from potluck.scenario import Scenario
    from potluck.training.config import RunConfig
    from potluck.training.run import Progress

BoardOption = Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard into the run too.")]


def _seconds(given: float) -> float:
    if math.isnan(given):
        raise PotluckError("must be 0 or more, got nan", field="checkpoint")
    return given


CheckpointOption = Annotated[
    float, typer.Option(min=0, callback=_seconds, help="Seconds between checkpoints: what a kill -9 costs.")
]
MOST_COLUMNS = 6
"""Silos that a table shows one by one."""


def _choice(text: str) -> tuple[Any, None]:
    return Annotated[str | None, typer.Option(help=text)], None


def _count(text: str, default: int) -> tuple[Any, int]:
    return Annotated[int, typer.Option(help=text)], default


RUN_OPTIONS = {
    "path": (ScenarioArgument, None),
    "preset": (PresetOption, None),
    "agent": (Annotated[str, typer.Option(help="Who learns: see potluck list agent.")], "mpgd"),
    "task": _choice("Train for real on this task (see potluck data list); else as the scenario says."),
    "model": _choice("What silos train: see potluck list model; the task's own otherwise."),
    "dtype": _choice("What silos compute in: float32, or bfloat16, which is faster on a GPU."),
    "slots": _count("Slots that each seed plays, over all its games.", 100_000),
    "seeds": _count("Independent runs side by side, from the scenario's seed on.", 5),
    "games": _count("Games that a seed's agents play at once.", 16),
    "window": _count("D, slots between two updates; 0 leaves it to the game.", 0),
    "estimator": _choice("Of the actor's gradient: see potluck list estimator."),
    "target": _choice("Of the critic: see potluck list target."),
    "dnc": _choice("Which network has a DNC: critic, actor, both or none."),
    "policy": _choice("Distribution over [0, 1]: see potluck list policy."),
}
"""What `train` and `sweep` are asked for; `run_config` makes a run of it."""


@takes(RUN_OPTIONS)
def train(
    *,
    asked: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/AGENT-TASK otherwise.")] = None,
    checkpoint: CheckpointOption = 20.0,
    tensorboard: BoardOption = False,
    json: JsonOption = False,
) -> None:
    """Let agents learn the long-term game; each silo has its own and sees only its own.

    The folder gets metrics.csv (a row per seed and window), scenario.toml, run.json and checkpoints. Stop a run
    however you like, even with kill -9: [bold]potluck resume[/bold] goes on to the same numbers.

    [bold]potluck train --task digits --out runs/x[/bold]                  real training inside

    [bold]potluck train --slots 20000 --seeds 2 --out runs/quick[/bold]    on the curve

    [bold]potluck train my.toml --agent wpr --out runs/wpr[/bold]          no redistribution
    """
    from potluck.training.run import start

    config = run_config(**asked)
    source = Path(asked["task"] or _source(config)).stem.replace(":", "-")
    named = config.agent.replace(":", "-").replace("/", "-")
    folder = out or Path("runs") / f"{named}-{source}"
    board = Board(folder) if tensorboard else None
    follow(config, start(config, folder, interval=checkpoint), folder, board, json)


def run_config(
    path: Path | None, preset: str | None, task: str | None, model: str | None, dtype: str | None, agent: str,
    slots: int, seeds: int, games: int, window: int, **options: str | None,
) -> "RunConfig":  # fmt: skip
    """The run that is asked for; the task's data is loaded with its progress on stderr."""
    scenario = chosen_scenario(path, preset)
    start_cores()
    from potluck.agents import Options
    from potluck.training.config import RunConfig

    return RunConfig(trained_on(scenario, task, model, dtype), agent, Options(**options), slots, seeds, games, window)


def trained_on(scenario: "Scenario", task: str | None, model: str | None, dtype: str | None) -> "Scenario":
    """The scenario moved to a task, with another model, in another type; data is loaded with its progress on stderr."""
    from potluck.federation.from_scenario import asked, on_task
    from potluck.scenario import FederationConfig

    if task is not None:
        return on_task(scenario, task, load_shown(task), model, dtype)
    if isinstance(scenario.precision, FederationConfig):
        load_shown(scenario.precision.task)
        return scenario.model_copy(update={"precision": asked(scenario.precision, model, dtype)})
    if model is not None or dtype is not None:
        field = "dtype" if model is None else "model"
        raise PotluckError(": the curve trains nothing; name a task too", field=field)
    return scenario


def resume(
    run: RunArgument, checkpoint: CheckpointOption = 20.0, tensorboard: BoardOption = False, json: JsonOption = False
) -> None:
    """Go on with a run, a sweep or a study that was stopped, from its newest checkpoint to its last slot.

    Its metrics come out as if it had never stopped. A damaged checkpoint is passed over for the one before it.

    [bold]potluck resume runs/x[/bold]
    """
    from potluck.studies.paper.plan import STUDY
    from potluck.training.config import read_config
    from potluck.training.sweep import SWEEP

    if (run / SWEEP).exists():
        from potluck.cli.sweep import resume_sweep

        return resume_sweep(run, checkpoint, json)
    if (run / STUDY).exists():
        from potluck.cli.study import resume_study

        return resume_study(run, checkpoint, json)
    config = read_config(run)
    board = Board(run) if tensorboard else None
    start_cores()
    from potluck.training.run import resume

    return follow(config, resume(run, interval=checkpoint), run, board, json)


def play(
    run: RunArgument,
    seed: Annotated[int | None, typer.Option(help="Whose agents play, if several seeds were trained.")] = None,
    game: Annotated[int, typer.Option(help="Another number draws another game: other costs, other batches.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw who pays whom here (PNG, PDF or SVG).")] = None,
    json: JsonOption = False,
) -> None:
    """Play one game with what a run has learnt, without exploration, and show its slots.

    [bold]potluck play runs/x[/bold]

    [bold]potluck play runs/x --seed 2 --json | jq '.slots[0]'[/bold]
    """
    if not 0 <= game < 2**32:
        raise PotluckError(f"must be 0 or more and below 2**32, got {game}", field="game")
    start_cores()
    import equinox as eqx
    import jax
    import numpy as np

    from potluck.studies.federation_figures import check_picture
    from potluck.training.evaluation import episode
    from potluck.training.run import trained

    check_picture(plot)
    with Console(stderr=True).status("Playing…"):
        found = trained(run)
        seed = found.config.scenario.seed if seed is None else seed
        found.config.federation  # noqa: B018 - what is shown is a federation's
        _, slots = eqx.filter_jit(episode)(*found.of_seed(seed), jax.random.key(game))
    names = ("contributions", "precision", "signal", "payoffs", "transfers", "welfare")
    columns = {name: np.asarray(getattr(slots, name), float).tolist() for name in names}
    rows = [{"slot": t + 1} | {name: columns[name][t] for name in names} for t in range(len(columns["welfare"]))]
    if plot is not None:
        from potluck.studies.figures import draw_transfers

        draw_transfers(np.asarray(slots.transfers), f"{found.config.agent}, seed {seed}: transfers of one game", plot)
    if json:
        played = {"run": str(run), "agent": found.config.agent, "seed": seed, "game": game, "slots": rows}
        typer.echo(jsonlib.dumps(played))
        return
    output().print(_slots(rows, f"{found.config.agent}, seed {seed}: one game without exploration"), _sums(rows))


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or a scenario file.")],
    silo: Annotated[int, typer.Option(help="Whose policy, counted from 0.")],
    seed: Annotated[int | None, typer.Option(help="Of which training seed; the first otherwise.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("policy.potluck"),
    json: JsonOption = False,
) -> None:
    """Write one silo's policy to a file of its own, for use in a deployment.

    It holds nothing of any other silo but the mean and deviation of what this one saw of them. In Python:

    from potluck import load_policy

    policy = load_policy("policy.potluck"); policy.start(); d = policy.decide(observation)

    Of a scenario file, nothing has been learnt yet: then it is the policy that ships with Potluck, for silos that have
    never met.

    [bold]potluck export runs/x --silo 2 --out hospital-2.potluck[/bold]

    [bold]potluck export my.toml --silo 2 --out hospital-2.potluck[/bold]
    """
    start_cores()
    from potluck.scenario import load
    from potluck.training.export import export_policy, load_policy, untrained
    from potluck.training.run import trained

    found = untrained(load(run)) if run.is_file() else trained(run)
    seed = found.config.scenario.seed if seed is None else seed
    export_policy(found, silo, seed, out)
    size, sees = out.stat().st_size, load_policy(out).observation_size
    if json:
        typer.echo(jsonlib.dumps({"file": str(out), "silo": silo, "seed": seed, "bytes": size, "observation": sees}))
    else:
        typer.echo(f"Wrote {out}: silo {silo} of seed {seed}, {size:,} bytes, decides from {sees} numbers")


def _source(config: "RunConfig") -> str:
    """What precision comes from, in a word, or a game's name."""
    from potluck.training.environments import EnvironmentConfig

    if isinstance(config.scenario, EnvironmentConfig):
        return config.scenario.name
    return getattr(config.scenario.precision, "task", "curve")


def _model(config: "RunConfig") -> str | None:
    """What silos train; on the curve, nothing."""
    from potluck.federation.build import model_of
    from potluck.scenario import FederationConfig

    precision = getattr(config.scenario, "precision", None)
    return model_of(precision) if isinstance(precision, FederationConfig) else None


def follow(config: "RunConfig", run: "Generator[Progress]", folder: Path, board: Board | None, json: bool) -> None:
    """Show a run's progress to its end, or to Ctrl-C."""
    from potluck.training.metrics import summary
    from potluck.training.run import METRICS

    begun = time.monotonic()
    with TrainingDisplay({"": config.seeds}) as display:

        def show(progress: "Progress") -> None:
            display.update("", progress)
            if board is not None:
                board.write(progress)

        try:
            to_the_end(run, show, display.stop, f"resume with: potluck resume {folder}")
        finally:
            if board is not None:
                board.close()
    found = {
        "run": str(folder), "agent": config.agent, "task": _source(config),
        "model": _model(config), "seeds": config.seeds,
        "games": config.games, "seconds": round(time.monotonic() - begun, 3), "slots_per_second": display.rate,
        **summary(folder / METRICS),
    }  # fmt: skip
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    by_seed = found["welfare_by_seed"].values()
    trained_on = " with ".join(filter(None, (found["task"], found["model"])))
    typer.echo(
        f"{config.agent} on {trained_on}: welfare {found['welfare']:.2f} per slot "
        f"({min(by_seed):.2f} to {max(by_seed):.2f} over {config.seeds} seed{'s' * (config.seeds > 1)}), "
        + (f"P {found['precision']:.4f}, " if "precision" in found else "")
        + f"mean d {sum(found['contribution']) / len(found['contribution']):.3f}, "
        f"the last tenth of {found['slots']:,} slots"
    )
    typer.echo(f"Curves: {folder / METRICS}. See it play: potluck play {folder}")


def _slots(rows: list[dict[str, Any]], title: str) -> Table:
    """What happened, slot by slot."""
    silos = len(rows[0]["contributions"])
    each = silos <= MOST_COLUMNS
    d = [f"d{n}" for n in range(silos)] if each else ["mean d", "least d", "most d"]
    table = plain_table("slot", *d, "P", "signal", "welfare", title=title)

    def shown(values: list[float]) -> list[float]:
        return values if each else [sum(values) / silos, min(values), max(values)]

    for row in rows:
        table.add_row(
            str(row["slot"]),
            *(f"{value:.3f}" for value in shown(row["contributions"])),
            f"{row['precision']:.4f}",
            f"{row['signal']:.2f}",
            f"{row['welfare']:.1f}",
        )
    return table


def _sums(rows: list[dict[str, Any]]) -> Table:
    """Who earned what in the whole game, and who paid whom."""
    table = plain_table("silo", "mean d", "payoff", "of it transfers", title="In sum over the game, money")
    for silo in range(len(rows[0]["payoffs"])):
        brought, earned, moved = (
            [row[name][silo] for row in rows] for name in ("contributions", "payoffs", "transfers")
        )
        table.add_row(str(silo), f"{sum(brought) / len(rows):.3f}", f"{sum(earned):,.1f}", f"{sum(moved):+,.1f}")
    return table
