"""What a newcomer sees first: silos that learn, with and without redistribution, beside a planner, on real training.

Precision of the digits is nearly as good with little data as with all of it, so on the presets free-riding costs silos
about one percent. Here energy is dearer and games are short: it costs them several percent, which can be seen.
The README has what the presets show.
"""

import contextlib
import dataclasses
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from potluck.errors import PotluckError, file_faults, reason
from potluck.federation.from_scenario import on_task
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.bounds import never_below
from potluck.studies.certificate import certify, gain_share
from potluck.studies.deviations import Played, evaluated
from potluck.studies.figures import draw_learning, draw_silos
from potluck.studies.intervals import Interval, interval
from potluck.studies.plain import plain_values
from potluck.studies.planning import Effort, Watcher, answer, best_plan, planner_of
from potluck.training.config import RUN, RunConfig, read_config
from potluck.training.files import write_text
from potluck.training.locks import LOCK, claim
from potluck.training.run import METRICS, Progress, Trained, train_in, trained

SLOTS = 19_200
"""Slots of each seed of MPGD."""
FEWER = 4
"""Times as many as MBPG learns from: it needs few, and they cost it more."""
SEEDS = 3
GAMES = 16
"""Games that a seed learns in at once, and in which the outcome is measured."""
LOOKS = 10
"""At each training, at least, for who watches."""
TASK, HORIZON = "digits", 10
DEARER, INTENSITY = 4, 146.0
"""Energy is so many times as dear as in preset `dilemma`, and so is what is paid: 4 times 36.5."""
AGENTS = ("none", "mpgd", "mbpg")
"""MBPG without redistribution, the paper's agent, and MBPG: the first and the last differ in the mechanism alone."""
EFFORT = Effort(rounds=8, games=64)
"""Of the planner, which begins with what silos have learnt."""
MARK = "demo.json"
"""There from the demo's beginning, so that it clears away nothing but its own."""
PICTURES = ("learning.png", "silos.png")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One agent's play without exploration, per slot, every slot alike."""

    slots: int | None
    """That each seed has learnt from; None for the planner, which learns otherwise."""
    welfare: Interval
    gain_share: Interval | None
    """0% is what the same agents earn without redistribution."""
    payoffs: list[Interval]
    transfers: list[Interval]
    """Part of the payoffs; for the planner those of the mechanism at its plan."""
    contribution: Interval
    contributions: list[float]
    nash_conv_constants: float | None
    """Of constant deviations only; None for the planner, which is nobody's to deviate from."""
    nash_conv_share_of_stake: float | None


@dataclasses.dataclass(frozen=True)
class Demo:
    """All that was found."""

    seeds: int
    games: int
    outcomes: dict[str, Outcome]
    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    """Slots played, and welfare while learning [seeds, windows]; the planner's plan earns the same throughout."""


def configs(seeds: int = SEEDS, slots: int = SLOTS, games: int = GAMES) -> dict[str, RunConfig]:
    """Who learns what, for how long."""
    paid = on_task(scenario(), TASK)
    mpgd = RunConfig(paid, "mpgd", slots=slots, seeds=seeds, games=games, looks=LOOKS)
    mbpg = dataclasses.replace(mpgd, agent="mbpg", slots=-(-slots // FEWER))
    return {"none": dataclasses.replace(mbpg, scenario=unpaid(paid)), "mpgd": mpgd, "mbpg": mbpg}


def scenario() -> Scenario:
    """The silos of preset `dilemma`, where energy is dearer still and a game is short; α = c/N, about (Pigou)."""
    dilemma = preset("dilemma")
    paid = mechanism_of("redistribution", intensity=INTENSITY)
    dearer = {"energy_price": DEARER * dilemma.energy_price, "mechanism": paid, "horizon": HORIZON}
    return dilemma.model_copy(update=dearer)


def unpaid(scenario: Scenario) -> Scenario:
    """No transfers, written as redistribution of intensity 0: only a number differs, so both are one program."""
    return scenario.model_copy(update={"mechanism": mechanism_of("redistribution", intensity=0.0)})


def folders(out: Path) -> dict[str, Path]:
    return {agent: out / agent for agent in AGENTS}


def prepare(out: Path, wanted: dict[str, RunConfig]) -> None:
    """Clear away a demo that is over or was another; keep one that was interrupted. Touches no file of anyone else."""
    with file_faults(out, "name a folder to write to"):
        finished = _finished(out)
        for agent, folder in folders(out).items():
            if (folder / RUN).exists() and (finished or not _is(folder, wanted[agent])):
                with claim(folder):  # nobody is training there
                    _clear(folder)
        for picture in PICTURES:
            (out / picture).unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / MARK, json.dumps({"potluck": "demo", "finished": False}) + "\n")


def _finished(out: Path) -> bool:
    """Whether the demo here is over; refuses a folder in which something else is."""
    mark = out / MARK
    ours = [*folders(out).values(), *(out / picture for picture in PICTURES)]
    if not mark.exists():
        for place in ours:
            if place.exists():
                raise PotluckError(f"{place}: not written by a demo; name another folder")
        return False
    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
        if found["potluck"] == "demo":
            return bool(found["finished"])
    except (ValueError, KeyError, TypeError):
        pass
    raise PotluckError(f"{mark}: not written by a demo; name another folder")


def _is(folder: Path, config: RunConfig) -> bool:
    with contextlib.suppress(PotluckError):
        return read_config(folder) == config
    return False


def _clear(folder: Path) -> None:
    """Remove what a run writes, and the folder if that was all."""
    kinds = ("scenario.toml", METRICS, "certificate.json", LOCK, "*.part", "checkpoints/*.ckpt",
             "checkpoints/*.part", "checkpoints/*.damaged")  # fmt: skip
    for file in [file for kind in kinds for file in folder.glob(kind)]:
        file.unlink()
    (folder / RUN).unlink(missing_ok=True)  # last: without it nobody would know whose the rest is
    for empty in (folder / "checkpoints", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()


def trainings(out: Path, wanted: dict[str, RunConfig]) -> Generator[tuple[str, Progress]]:
    """Train all in turns, so that they can be watched side by side; closing this keeps what is learnt so far."""
    runs: dict[str, Generator[Progress]] = {}
    done = dict.fromkeys(AGENTS, 0.0)
    try:
        while done:
            agent = min(done, key=lambda name: done[name])
            if agent not in runs:
                runs[agent] = train_in(folders(out)[agent], wanted[agent])
            progress = next(runs[agent], None)
            if progress is None:
                del done[agent]
                continue
            done[agent] = progress.chunk / progress.chunks
            yield agent, progress
    finally:
        for run in runs.values():
            run.close()


def judge(out: Path, watch: Watcher = lambda *_: None) -> Demo:
    """Play what was learnt without exploration, all in the same games, and measure it."""
    runs: dict[str, Trained] = {}
    played: dict[str, Played] = {}
    for agent, folder in folders(out).items():
        watch(f"{agent}: evaluation", 0.0)
        runs[agent] = trained(folder)
        played[agent] = evaluated(runs[agent], runs[agent].config.games)
    played["planner"] = _planned(runs["mbpg"], dict(played), watch)
    welfare = {agent: play.welfare.mean((1, 2)) for agent, play in played.items()}
    outcomes = {}
    for agent, play in played.items():
        run = runs.get(agent)
        payoffs, brought = play.slot_payoffs.mean((1, 2)), play.contributions.mean((1, 2))
        said = lambda what, share, agent=agent: watch(f"{agent}: {what}", share)  # noqa: E731
        judged = None if run is None else certify(run, games=run.config.games, slots=0, watch=said)
        outcomes[agent] = Outcome(
            slots=None if run is None else run.slots,
            welfare=interval(welfare[agent]),
            gain_share=gain_share(welfare[agent], welfare["none"], welfare["planner"]),
            payoffs=[interval(silo) for silo in payoffs.T],
            transfers=[interval(silo) for silo in play.transfers.mean((1, 2)).T],
            contribution=interval(brought.mean(1)),
            contributions=[float(silo) for silo in brought.mean(0)],
            nash_conv_constants=None if judged is None else judged.nash_conv,
            nash_conv_share_of_stake=None if judged is None else judged.share,
        )
    curves = {agent: _curve(folder / METRICS) for agent, folder in folders(out).items()}
    curves["planner"] = curves["mpgd"][0][[0, -1]], np.repeat(welfare["planner"][:, None], 2, axis=1)
    return Demo(runs["mpgd"].config.seeds, runs["mpgd"].config.games, outcomes, curves)


def _planned(run: Trained, learnt: dict[str, Played], watch: Watcher) -> Played:
    """The best plan for all that a short search finds, begun with what each seed does on average; in the same games."""
    planner, scenario = planner_of(run), run.config.federation
    starts = [jnp.asarray(plan) for play in learnt.values() for plan in play.mean_play]
    plan = answer(best_plan(planner, scenario, EFFORT, starts), watch)
    return never_below(planner, plan, learnt, scenario.discount, run.config.games)[1]


def _curve(metrics: Path) -> tuple[np.ndarray, np.ndarray]:
    table = np.genfromtxt(metrics, delimiter=",", names=True, ndmin=1)
    by_seed = [table["welfare"][table["seed"] == seed] for seed in np.unique(table["seed"])]
    return np.unique(table["slot"]), np.stack(by_seed)


def save(demo: Demo, out: Path) -> dict[str, Any]:
    """Write the pictures and, last, demo.json; answers what is in it."""
    found = plain(demo)
    try:
        draw_learning(demo.curves, out / PICTURES[0])
        draw_silos(
            {agent: (each.contributions, each.payoffs) for agent, each in demo.outcomes.items()}, out / PICTURES[1]
        )
        write_text(out / MARK, json.dumps(found, indent=1) + "\n")
    except OSError as fault:
        raise PotluckError(f"{fault.filename or out}: {reason(fault)}") from None
    return found


def plain(demo: Demo) -> dict[str, Any]:
    """What was found as JSON-ready values."""
    return {
        "potluck": "demo",
        "finished": True,
        "task": TASK,
        "seeds": demo.seeds,
        "games": demo.games,
        "agents": plain_values(demo.outcomes),
    }
