"""How an agent learns the long-term game, and how good what it has learnt is: the tables of docs/learning.md.

    python benchmarks/agents.py OUT.json --agent mpgd --estimator paper --policy gaussian --dnc critic

Preset `paper` on the digits with real FedAvg. Welfare is per slot: `final` over the last tenth of the slots, exploring;
`evaluation` in games without exploration. `slots_to_95` is where the smoothed curve has made 95% of its way from the
first window to `final`. The gain is that of the best constant deviation, as a share of the stake.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from potluck.agents import Options
from potluck.devices import mesh_over, use_cores
from potluck.federation.from_scenario import on_task
from potluck.scenario import preset
from potluck.studies.deviations import CONSTANTS, evaluate
from potluck.studies.intervals import interval
from potluck.training.config import RunConfig, seeds_of, setup
from potluck.training.lanes import Lanes
from potluck.training.loop import Setup, TrainConfig, begin, train
from potluck.training.run import METRICS, trained


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What an agent knows, and how it came to it: welfare [windows, seeds]."""

    agents: Any
    curve: np.ndarray
    timing: dict[str, float]


def learn(config: RunConfig, lanes: Lanes[Setup]) -> Learnt:
    """Train and keep the time."""
    seeds = seeds_of(config)
    runs = begin(lanes, seeds, config.games)
    training = TrainConfig(lanes, seeds, mesh_over(config.games), config.games, config.depth, config.chunk)
    reports, begun = [], time.monotonic()
    for chunk in range(config.chunks):
        runs, outcome = train(training, runs, jnp.asarray(chunk * config.chunk * config.depth))
        reports.append(np.asarray(outcome.report.welfare))
        if chunk == 0:
            compiled = time.monotonic()
    per_chunk = config.seeds * config.chunk * config.games * config.depth
    speed = (config.chunks - 1) * per_chunk / (time.monotonic() - compiled)
    return Learnt(
        runs.agents, np.concatenate(reports), {"compile_seconds": compiled - begun, "slots_per_second": speed}
    )


def read(folder: Path) -> tuple[RunConfig, Lanes[Setup], Learnt]:
    """What `potluck train` left in a folder."""
    run = trained(folder)
    table = np.genfromtxt(folder / METRICS, delimiter=",", names=True)
    curve = np.stack([table["welfare"][table["seed"] == seed] for seed in np.asarray(seeds_of(run.config))], axis=1)
    return run.config, run.lanes, Learnt(run.runs.agents, curve, {})


def judge(config: RunConfig, lanes: Lanes[Setup], learnt: Learnt, games: int) -> dict[str, Any]:
    """Say how it went; `games` of it without exploration."""
    curve = learnt.curve
    tail = max(len(curve) // 10, 1)
    final = curve[-tail:].mean(0)
    per_window = config.games * config.depth
    environment = lanes.tree.environment
    free = jnp.full((environment.players, environment.action_size), jnp.nan)

    def played(forced: Any) -> Any:
        return evaluate(lanes, learnt.agents, config.scenario.discount, games, forced)

    found: dict[str, Any] = {
        "agent": config.agent,
        **dataclasses.asdict(config.options),
        "slots": config.chunks * config.chunk * per_window,
        "seeds": config.seeds,
        "games": config.games,
        "final": dataclasses.asdict(interval(final)),
        "final_by_seed": final.tolist(),
        "slots_to_95": [_arrival(curve[:, seed], per_window) for seed in range(config.seeds)],
        "curve": {"slots_per_window": per_window, "welfare": np.round(curve, 2).T.tolist()},
        **learnt.timing,
        "device": jax.devices()[0].device_kind,
    }
    if not games:
        return found
    own = played(free)
    found["evaluation"] = dataclasses.asdict(interval(own.welfare.mean((1, 2))))
    found["contribution"] = float(own.contributions.mean())
    if not config.joint:
        constant = np.stack([
            np.stack([played(free.at[n].set(d)).payoffs[..., n].mean(1) for n in range(len(free))], axis=-1)
            for d in CONSTANTS
        ])  # fmt: skip
        stake = constant.max(0) - constant.min(0)
        gain = np.maximum(constant.max(0) - own.payoffs.mean(1), 0)
        found |= {"stake": stake.mean(0).tolist(), "constant_gain_share": float(gain.sum() / stake.sum())}
    return found


def _arrival(curve: np.ndarray, per_window: int) -> int:
    """Slots until the curve, smoothed over a twentieth of it, has made 95% of its way."""
    width = max(len(curve) // 20, 1)
    smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
    wanted = curve[0] + 0.95 * (curve[-max(len(curve) // 10, 1) :].mean() - curve[0])
    there = np.flatnonzero(smooth >= wanted)
    return int((there[0] if len(there) else len(smooth)) + width) * per_window


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--agent", default="mpgd")
    parser.add_argument("--estimator")
    parser.add_argument("--policy")
    parser.add_argument("--dnc")
    parser.add_argument("--slots", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--games", type=int, default=16)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--run", type=Path, help="a finished run of `potluck train`, instead of training one")
    parser.add_argument("--evaluation", type=int, default=64, help="games without exploration; 0 for the speed alone")
    asked = parser.parse_args()
    use_cores()
    if asked.run:
        found = judge(*read(asked.run), asked.evaluation)
    else:
        options = Options(estimator=asked.estimator, policy=asked.policy, dnc=asked.dnc)
        scenario = on_task(preset("paper"), asked.task)
        config = RunConfig(scenario, asked.agent, options, asked.slots, asked.seeds, asked.games)
        lanes = setup(config)
        found = judge(config, lanes, learn(config, lanes), asked.evaluation)
    asked.out.write_text(json.dumps(found) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "curve"}))


if __name__ == "__main__":
    main()
