"""`potluck train`, `resume`, `play` and `export`: agents that learn the long-term game."""

import json as jsonlib
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.options import JsonOption, PresetOption, RunArgument, ScenarioArgument
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from rich.table import Table

    from potluck.training.plan import Plan
    from potluck.training.run import Progress
    from potluck.training.tensorboard import Board

__all__ = ["export", "play", "resume", "train"]

BoardOption = Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard into the run too.")]
CheckpointOption = Annotated[float, typer.Option(min=0, help="Seconds between checkpoints: what a kill -9 costs.")]
EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal to draw on."""
MOST_COLUMNS = 6
"""Silos that a table shows one by one."""


def train(
    path: ScenarioArgument = None,
    preset: PresetOption = None,
    agent: Annotated[
        str, typer.Option(help="mpgd, wpr, maa2c, mappo, lineage, greedy, planner, nash, random or fixed:D.")
    ] = "mpgd",
    task: Annotated[
        str | None,
        typer.Option(help="Train for real on digits, fmnist, cifar10 or folder:PATH.npz; else as the scenario says."),
    ] = None,
    slots: Annotated[int, typer.Option(help="Slots that each seed plays, over all its games.")] = 100_000,
    seeds: Annotated[int, typer.Option(help="Independent runs side by side, from the scenario's seed on.")] = 5,
    games: Annotated[int, typer.Option(help="Games that a seed's agents play at once.")] = 16,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/AGENT-TASK otherwise.")] = None,
    window: Annotated[int, typer.Option(help="D, slots between two updates; 0 leaves it to the game.")] = 0,
    estimator: Annotated[str | None, typer.Option(help="Of the actor's gradient: paper or ppo.")] = None,
    dnc: Annotated[str | None, typer.Option(help="Who has a memory: critic, actor, both or none.")] = None,
    policy: Annotated[str | None, typer.Option(help="Distribution over [0, 1]: gaussian or beta.")] = None,
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
    from potluck.cli.runtime import chosen_scenario, start_cores

    scenario = chosen_scenario(path, preset)
    start_cores()
    from potluck.agents import CHOICES, Options
    from potluck.scenario import FedAvgPrecision
    from potluck.training.plan import Plan
    from potluck.training.run import start

    for option, given, name in (
        ("estimator", estimator, "estimator"),
        ("dnc", dnc, "memory"),
        ("policy", policy, "policy"),
    ):
        if given is not None and given not in CHOICES[name]:
            raise PotluckError(f"--{option} must be one of {', '.join(CHOICES[name])}, got {given!r}")
    options = Options(estimator=estimator, policy=policy, memory=dnc)  # type: ignore[arg-type]
    if task is None and isinstance(scenario.precision, FedAvgPrecision):
        _load(scenario.precision.task)
    if task is not None:
        from potluck.federation.described import on_task

        scenario = on_task(scenario, task, _load(task))
    plan = Plan(scenario, agent, options, slots, seeds, games, window)
    folder = out or Path("runs") / f"{agent.replace(':', '-')}-{Path(task or _source(plan)).stem.replace(':', '-')}"
    board = _board(folder, tensorboard)
    _follow(plan, start(plan, folder, interval=checkpoint), folder, board, json)


def resume(
    run: RunArgument,
    checkpoint: CheckpointOption = 20.0,
    tensorboard: BoardOption = False,
    json: JsonOption = False,
) -> None:
    """Go on with a run that was stopped, from its newest checkpoint to its last slot.

    Its metrics come out as if it had never stopped. A damaged checkpoint is passed over for the one before it.

    [bold]potluck resume runs/x[/bold]
    """
    from potluck.cli.runtime import start_cores
    from potluck.training.plan import read_plan

    plan = read_plan(run)
    board = _board(run, tensorboard)
    start_cores()
    from potluck.training.run import go_on

    _follow(plan, go_on(run, interval=checkpoint), run, board, json)


def play(
    run: RunArgument,
    seed: Annotated[int | None, typer.Option(help="Whose agents play, if several seeds were trained.")] = None,
    game: Annotated[int, typer.Option(help="Another number draws another game: other costs, other batches.")] = 0,
    json: JsonOption = False,
) -> None:
    """Play one game with what a run has learnt, without exploring, and show its slots.

    [bold]potluck play runs/x[/bold]

    [bold]potluck play runs/x --seed 2 --json | jq '.slots[0]'[/bold]
    """
    if not 0 <= game < 2**32:
        raise PotluckError(f"--game must be 0 or more and below 2**32, got {game}")
    from potluck.cli.runtime import start_cores

    start_cores()
    import equinox as eqx
    import jax
    import numpy as np
    from rich.console import Console

    from potluck.training.play import episode
    from potluck.training.run import trained

    with Console(stderr=True).status("Playing…"):
        found = trained(run)
        seed = found.plan.scenario.seed if seed is None else seed
        environment, learned = found.of_seed(seed)
        _, slots = eqx.filter_jit(episode)(environment, found.seated.learner, learned, jax.random.key(game))
    rows = [
        {
            "slot": t + 1,
            "contributions": np.asarray(slots.contributions[t], float).tolist(),
            "precision": float(slots.precision[t]),
            "intensity": float(slots.intensity[t]),
            "payoffs": np.asarray(slots.payoffs[t], float).tolist(),
            "welfare": float(slots.welfare[t]),
        }
        for t in range(len(slots.precision))
    ]
    if json:
        played = {"run": str(run), "agent": found.plan.agent, "seed": seed, "game": game, "slots": rows}
        typer.echo(jsonlib.dumps(played))
        return
    Console().print(_slots(rows, f"{found.plan.agent}, seed {seed}: one game without exploring"))


def export(
    run: RunArgument,
    silo: Annotated[int, typer.Option(help="Whose policy, counted from 0.")],
    seed: Annotated[int | None, typer.Option(help="Of which training seed; the first otherwise.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("policy.potluck"),
    json: JsonOption = False,
) -> None:
    """Write one silo's policy to a file of its own, for use in a deployment.

    It holds nothing of any other silo but the mean and spread of what this one saw of them. In Python:

    from potluck.training.export import load_policy

    policy = load_policy("policy.potluck"); policy.start(); d = policy.decide(observation)

    [bold]potluck export runs/x --silo 2 --out hospital-2.potluck[/bold]
    """
    from potluck.cli.runtime import start_cores

    start_cores()
    from potluck.training.export import export_policy, load_policy
    from potluck.training.run import trained

    found = trained(run)
    seed = found.plan.scenario.seed if seed is None else seed
    export_policy(found, silo, seed, out)
    size, sees = out.stat().st_size, load_policy(out).observation_size
    if json:
        typer.echo(jsonlib.dumps({"file": str(out), "silo": silo, "seed": seed, "bytes": size, "observation": sees}))
    else:
        typer.echo(f"Wrote {out}: silo {silo} of seed {seed}, {size:,} bytes, decides from {sees} numbers")


def _load(task: str) -> Any:
    """The task's data, with its download on stderr where there is one."""
    from potluck.cli.data import Watching
    from potluck.federation import load

    with Watching() as listener:
        return load(task, listener)


def _source(plan: "Plan") -> str:
    """What precision comes from, in a word."""
    return getattr(plan.scenario.precision, "task", "curve")


def _board(folder: Path, wanted: bool) -> "Board | None":
    from potluck.training.tensorboard import Board

    return Board(folder) if wanted else None


def _follow(plan: "Plan", run: "Generator[Progress]", folder: Path, board: "Board | None", json: bool) -> None:
    """Show a run's progress to its end, or to Ctrl-C, which keeps what is learnt so far.

    The work is done on a thread beside, since a compiled program lets no signal through.
    """
    from concurrent.futures import ThreadPoolExecutor

    from potluck.cli.runtime import leave
    from potluck.training.metrics import summary
    from potluck.training.run import METRICS

    begun, last = time.monotonic(), None
    worker = ThreadPoolExecutor(1)
    with _Display(plan) as display:
        try:
            while (progress := worker.submit(next, run, None).result()) is not None:
                last = progress
                display.update(progress)
                if board is not None:
                    board.write(progress)
        except KeyboardInterrupt:
            display.stop()
            leave(worker, run, f"resume with: potluck resume {folder}", whole=last is not None)
            raise typer.Exit(130) from None
        finally:
            if board is not None:
                board.close()
    took = time.monotonic() - begun
    found = {
        "run": str(folder), "agent": plan.agent, "task": _source(plan), "seeds": plan.seeds, "games": plan.games,
        "seconds": round(took, 3), "slots_per_second": display.rate, **summary(folder / METRICS),
    }  # fmt: skip
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    by_seed = found["welfare_by_seed"].values()
    typer.echo(
        f"{plan.agent} on {found['task']}: welfare {found['welfare']:.2f} per slot "
        f"({min(by_seed):.2f} to {max(by_seed):.2f} over {plan.seeds} seed{'s' * (plan.seeds > 1)}), "
        f"P {found['precision']:.4f}, mean d {sum(found['contribution']) / len(found['contribution']):.3f}, "
        f"the last tenth of {found['slots']:,} slots"
    )
    typer.echo(f"Curves: {folder / METRICS}. See it play: potluck play {folder}")


class _Display:
    """Progress on stderr: drawn where that is a terminal, else a line every few seconds."""

    def __init__(self, plan: "Plan") -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.plan = plan
        self.rate: float | None = None
        """Slots per second over all seeds, without the wait for the compiler."""
        self._first: tuple[int, float] | None = None
        self._console = Console(stderr=True)
        self._spoken = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("compiling…", total=plan.chunks)

    def __enter__(self) -> "_Display":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Clear the line."""
        self._bar.stop()

    def update(self, progress: "Progress") -> None:
        """After every call of the compiled program."""
        now = time.monotonic()
        left = ""
        if self._first is None:
            self._first = progress.slots, now
        elif now > self._first[1]:
            each = (progress.slots - self._first[0]) / (now - self._first[1])
            self.rate = round(each * self.plan.seeds, 1)
            total = progress.slots * progress.chunks / progress.chunk
            left = f" {self.rate:,.0f} slots/s {_duration((total - progress.slots) / each)} left"
        # 66 columns and the time gone by: fits a terminal of 80.
        text = (
            f"{progress.chunk / progress.chunks:.0%}{left}: welfare {progress.welfare:.1f} "
            f"d {progress.contribution:.3f} P {progress.precision:.3f} α {progress.intensity:.2f}"
        )
        self._bar.update(self._task, completed=progress.chunk, description=text)
        if not self._console.is_terminal and now - self._spoken >= EVERY:
            self._spoken = now
            print(text, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _slots(rows: list[dict[str, Any]], title: str) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    silos = len(rows[0]["contributions"])
    each = silos <= MOST_COLUMNS
    d = [f"d{n}" for n in range(silos)] if each else ["mean d", "least d", "most d"]
    u = [f"u{n}" for n in range(silos)] if each else ["mean u", "least u", "most u"]
    table = Table(title=title, box=SIMPLE, padding=(0, 0, 0, 1))
    for head in ("slot", *d, "P", "α", *u, "welfare"):
        table.add_column(head, justify="right", no_wrap=True)

    def shown(values: list[float]) -> list[float]:
        return values if each else [sum(values) / silos, min(values), max(values)]

    for row in rows:
        table.add_row(
            str(row["slot"]),
            *(f"{value:.3f}" for value in shown(row["contributions"])),
            f"{row['precision']:.4f}",
            f"{row['intensity']:.2f}",
            *(f"{value:.1f}" for value in shown(row["payoffs"])),
            f"{row['welfare']:.1f}",
        )
    return table
