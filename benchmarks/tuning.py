"""The same small tuning for every learner: the tables of docs/learning.md, "Tuning, the same for every learner".

    python benchmarks/tuning.py OUT.json --seeds 4 --slots 30000
    python benchmarks/tuning.py OUT.json --seeds 2 --slots 15000 --task digits
    python benchmarks/tuning.py OUT.json --agents mpgd --rates 0.001 --forms

Preset `paper`, on the curve or on a task. Actor and critic have one rate; rates and seeds are lanes of one program.
Welfare is per slot in 64 games without exploration. `--forms` changes one thing of a learner at a time.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from potluck.devices import mesh_over, use_cores
from potluck.federation.from_scenario import on_task
from potluck.scenario import preset
from potluck.studies.deviations import evaluate
from potluck.studies.intervals import Interval, interval
from potluck.training.config import RunConfig, seeds_of, setup_one
from potluck.training.lanes import stack
from potluck.training.loop import Setup, TrainConfig, begin, train

AGENTS = ("mpgd", "maa2c", "mappo")
RATES = (3e-4, 1e-3, 3e-3)
SHIPPED = "as shipped"
FORMS: dict[str, dict[str, Any]] = {
    SHIPPED: {},
    "the paper's estimator": {"estimator": "paper"},
    "the paper's target, λ = 1": {"td_lambda": 1.0},
    "λ = 0.5": {"td_lambda": 0.5},
    "no DNC": {"dnc": "none"},
    "DNC in the actor": {"dnc": "actor"},
    "DNC in both": {"dnc": "both"},
    "1 epoch": {"epochs": 1},
    "2 epochs": {"epochs": 2},
    "8 epochs": {"epochs": 8},
    "16 epochs": {"epochs": 16},
    "window of 10 slots": {"window": 10},
    "window of 15 slots": {"window": 15},
    "window of 60 slots": {"window": 60},
    "rate does not fall": {"updates": jnp.asarray(10**9)},
    "clip 0.1": {"clip": 0.1},
    "clip 0.4": {"clip": 0.4},
    "no pull of raw outputs": {"logit_penalty": 0.0},
    "three times that pull": {"logit_penalty": 0.01},
    "Beta policy": {"policy": "beta"},
}
"""One change each: of the learner, or of the window that it learns from."""


def at_rate(one: Setup, rate: float) -> Setup:
    """The same setup, its learner's actor and critic at another rate."""
    changed: Setup = eqx.tree_at(
        lambda s: (s.learner.actor_rate, s.learner.critic_rate), one, (jnp.asarray(rate), jnp.asarray(rate))
    )
    return changed


def formed(one: Setup, changes: Mapping[str, Any]) -> Setup:
    """The same setup, with another form of its learner."""
    learner: Any = one.learner
    changed: Setup = dataclasses.replace(one, learner=dataclasses.replace(learner, **changes))
    return changed


def tune(
    config: RunConfig, rates: tuple[float, ...], games: int, changes: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Train at every rate; `games` without exploration say how good it is."""
    one, begun = formed(setup_one(config), changes or {}), time.monotonic()
    lanes = stack([at_rate(one, rate) for rate in rates for _ in range(config.seeds)])
    seeds = jnp.tile(seeds_of(config), len(rates))
    runs = begin(lanes, seeds, config.games)
    training = TrainConfig(lanes, seeds, mesh_over(config.games), config.games, config.depth, config.chunk)
    for chunk in range(config.chunks):
        runs, _ = train(training, runs, jnp.asarray(chunk * config.chunk * config.depth))
    played = evaluate(lanes, runs.agents, config.scenario.discount, games)
    welfare = played.welfare.mean((1, 2)).reshape(len(rates), config.seeds)
    brought = played.contributions.reshape(len(rates), -1).mean(1)
    return [
        {
            "agent": config.agent,
            "rate": rate,
            "slots": config.chunks * config.chunk * config.games * config.depth,
            "seeds": config.seeds,
            "evaluation": dataclasses.asdict(interval(own)),
            "evaluation_by_seed": own.tolist(),
            "contribution": float(mean),
            "seconds": (time.monotonic() - begun) / len(rates),
            "device": jax.devices()[0].device_kind,
        }
        for rate, own, mean in zip(rates, welfare, brought, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--slots", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--games", type=int, default=16)
    parser.add_argument("--task", help="real training on it, instead of the curve")
    parser.add_argument("--evaluation", type=int, default=64, help="games without exploration")
    parser.add_argument("--forms", action="store_true", help="change one thing at a time")
    asked = parser.parse_args()
    use_cores()
    scenario = on_task(preset("paper"), asked.task) if asked.task else preset("paper")
    found: list[dict[str, Any]] = []
    for agent in asked.agents:
        for form, changes in (FORMS if asked.forms else {SHIPPED: {}}).items():
            of_learner = {name: value for name, value in changes.items() if name != "window"}
            window = changes.get("window", 0)
            config = RunConfig(scenario, agent, slots=asked.slots, seeds=asked.seeds, games=asked.games, window=window)
            rows = tune(config, tuple(asked.rates), asked.evaluation, of_learner)
            found += [{**row, "form": form} for row in rows]
            asked.out.write_text(json.dumps(found) + "\n")
            jax.clear_caches()
            for row in rows:
                of = Interval(**row["evaluation"])
                welfare = f"{of.mean:.1f} ({of.low:.1f} … {of.high:.1f})"
                print(f"| {agent} | {form} | {row['rate']:g} | {welfare} | {row['contribution']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
