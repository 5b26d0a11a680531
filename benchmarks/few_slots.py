"""What agents have learnt after few slots: the tables of docs/learning.md, "Few slots".

    python benchmarks/few_slots.py OUT.json --agents mbpg mpgd --task fmnist --marks 4800 12000 --seeds 10

Every agent learns once. At each mark its play without exploration is measured in the same games. `gain` is that of the
best constant deviation as a share of the stake, at the last mark. With `--planner` a search for the best plan for all
begins in the end from what the agents' best seeds play; its plan is played in the same games, as are those of `--plan`.
`--scenario` measures a scenario file of your own.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from potluck.agents import AGENTS
from potluck.devices import mesh_over, use_cores
from potluck.federation.from_scenario import on_task
from potluck.game import Planner, game
from potluck.scenario import Scenario, load, preset
from potluck.studies.deviations import CONSTANTS, evaluate, followed, forced_ways, unilateral
from potluck.studies.intervals import Interval, interval
from potluck.studies.planning import USUAL, Effort, answer, best_plan
from potluck.training.config import RunConfig, seeds_of, setup
from potluck.training.lanes import Lanes
from potluck.training.loop import Setup, TrainConfig, begin, train


def measure(config: RunConfig, marks: list[int], games: int, deviations: int) -> Iterator[dict[str, Any]]:
    """Train one agent, and look at it at every mark."""
    lanes, seeds, begun = setup(config), seeds_of(config), time.monotonic()
    runs = begin(lanes, seeds, config.games)
    training = TrainConfig(lanes, seeds, mesh_over(config.games), config.games, config.depth, 1)
    per_window, window, learning = config.games * config.depth, 0, 0.0
    for mark in marks:
        before = time.monotonic()
        while (window + 1) * per_window <= mark:
            runs, outcome = train(training, runs, jnp.asarray(window * config.depth))
            window += 1
            if window == 1:
                jax.block_until_ready(runs)
                before = time.monotonic()  # the first window compiles
        jax.block_until_ready(runs)
        learning += time.monotonic() - before
        played = evaluate(lanes, runs.agents, config.scenario.discount, games)
        welfare = played.welfare.mean((1, 2))
        row = {
            "agent": config.agent,
            "slots": window * per_window,
            "seeds": config.seeds,
            "games": config.games,
            "evaluation_games": games,
            "welfare": dataclasses.asdict(interval(welfare)),
            "welfare_by_seed": welfare.tolist(),
            "contributions_by_slot": np.round(played.contributions.mean((0, 1)), 3).tolist(),
            "best_seed_by_slot": np.round(played.contributions[welfare.argmax()].mean(0), 3).tolist(),
            "slots_per_second": config.seeds * (window - 1) * per_window / learning,
            "seconds": time.monotonic() - begun,
            "device": f"{len(jax.devices())} {jax.devices()[0].device_kind}",
            "peak_bytes": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use"),
        }  # fmt: skip
        if deviations and mark == marks[-1]:
            row["constant_gain_share"] = _constant_gain(config, lanes, runs.agents, deviations)
        print(_row(row), {name: round(float(values.mean()), 4) for name, values in outcome.diagnostics.items()},
              np.round(welfare, 1).tolist(), flush=True)  # fmt: skip
        yield row


def _constant_gain(config: RunConfig, lanes: Lanes[Setup], agents: Any, games: int) -> float:
    """What the best constant gains each silo of each seed, as a share of all stakes."""
    environment, own = lanes.tree.environment, evaluate(lanes, agents, config.scenario.discount, games).payoffs.mean(1)
    ways = unilateral(environment.players, environment.action_size)
    gains, stakes = 0.0, 0.0
    for seed, played in enumerate(forced_ways(lanes, agents, ways, config.scenario.discount, games)):
        reached = played.payoffs.mean(1).reshape(len(CONSTANTS), environment.players, environment.players)
        each = np.stack([reached[:, n, n] for n in range(environment.players)], axis=1)
        gains += np.maximum(each.max(0) - own[seed], 0).sum()
        stakes += (each.max(0) - each.min(0)).sum()
    return float(gains / stakes)


def searched(scenario: Scenario, found: list[dict[str, Any]], effort: Effort) -> Array:
    """The best plan for all that a search finds, from what each agent's best seed played at each mark."""
    starts = [jnp.asarray(row["best_seed_by_slot"]) for row in found]
    return answer(best_plan(Planner(game(scenario)), scenario, effort, starts))


def planned_row(name: str, scenario: Scenario, plan: Array, games: int) -> dict[str, Any]:
    """A plan for all, in the same games."""
    played = followed(Planner(game(scenario)), plan, scenario.discount, games)
    return {
        "agent": name,
        "slots": 0,
        "evaluation_games": games,
        "welfare": dataclasses.asdict(interval(played.welfare.mean((0, 2)))),
        "contributions_by_slot": np.round(plan, 3).tolist(),
        "slots_per_second": 0.0,
    }


def _row(found: dict[str, Any]) -> str:
    welfare = Interval(**found["welfare"])
    return (
        f"| {found['agent']} | {found['slots']:,} | {welfare.mean:.1f} ({welfare.low:.1f} … {welfare.high:.1f}) "
        f"| {np.mean(found['contributions_by_slot']):.2f} | {found['slots_per_second']:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--agents", nargs="*", default=["mbpg", "mpgd"], choices=list(AGENTS))
    parser.add_argument("--scenario", type=Path, help="a file, instead of preset, task, model and dtype")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--intensity", type=float, help="α, instead of the preset's")
    parser.add_argument("--task", help="real training on it, instead of the curve")
    parser.add_argument("--model")
    parser.add_argument("--dtype", help="that silos compute in; bfloat16 is faster on a GPU")
    parser.add_argument("--marks", nargs="+", type=int, default=[1_920, 4_800, 12_000])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--games", type=int, default=16)
    parser.add_argument("--evaluation", type=int, default=256, help="games without exploration")
    parser.add_argument("--deviations", type=int, default=64, help="games of every constant deviation, or 0 for none")
    parser.add_argument("--planner", action="store_true", help="search for the best plan for all as well")
    parser.add_argument(
        "--effort", nargs=2, type=int, default=[USUAL.rounds, USUAL.games], help="of that search: rounds, games"
    )
    parser.add_argument(
        "--plan", nargs="*", type=Path, default=[], help="what a study found (results/paper.planner.json), to be played"
    )
    asked = parser.parse_args()
    if asked.scenario and (asked.task or asked.model or asked.dtype):
        parser.error("a scenario file says task, model and dtype itself")
    use_cores()
    scenario: Scenario = load(asked.scenario) if asked.scenario else preset(asked.preset)
    if asked.intensity is not None:
        mechanism = scenario.mechanism.model_copy(update={"intensity": asked.intensity})
        scenario = scenario.model_copy(update={"mechanism": mechanism})
    if asked.task:
        scenario = on_task(scenario, asked.task, model=asked.model, dtype=asked.dtype)
    found: list[dict[str, Any]] = []
    for agent in asked.agents:
        config = RunConfig(scenario, agent, slots=asked.marks[-1], seeds=asked.seeds, games=asked.games)
        for row in measure(config, asked.marks, asked.evaluation, asked.deviations):
            found.append(row)
            asked.out.write_text(json.dumps(found) + "\n")
    plans = {place.stem: jnp.asarray(json.loads(place.read_text())["contributions"], float) for place in asked.plan}
    plans |= {"planner": searched(scenario, found, Effort(*asked.effort))} if asked.planner else {}
    for name, plan in plans.items():
        found.append(planned_row(name, scenario, plan, asked.evaluation))
        print(_row(found[-1]), flush=True)
        asked.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
