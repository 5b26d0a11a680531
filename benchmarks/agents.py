"""How an agent learns the long-term game, and how good what it has learnt is: the tables of docs/learning.md.

    python benchmarks/agents.py OUT.json --agent mpgd --estimator paper --policy gaussian --dnc critic

Preset `paper` on the digits with real FedAvg. Welfare is per slot: `final` over the last tenth of the slots, exploring;
`earnest` in games without exploring. `slots_to_95` is where the smoothed curve has made 95% of its way from the
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
from potluck.training.plan import Plan, Seated, seat, seeds_of

from potluck.agents import Options
from potluck.devices import use_cores
from potluck.federation.from_scenario import on_task
from potluck.scenario import preset
from potluck.studies.deviations import CONSTANTS, evaluate
from potluck.studies.intervals import interval
from potluck.training.loop import Course, begin, mesh_for, train
from potluck.training.run import METRICS, trained


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What an agent knows, and how it came to it: welfare [windows, seeds]."""

    learned: Any
    curve: np.ndarray
    timing: dict[str, float]


def learn(plan: Plan, seated: Seated) -> Learnt:
    """Train and keep the time."""
    seeds = seeds_of(plan)
    runs = begin(seated.environment, seated.learner, seeds, plan.games)
    course = Course(seated.environment, seated.learner, seeds, mesh_for(plan.games), plan.games, plan.depth, plan.chunk)
    reports, begun = [], time.monotonic()
    for chunk in range(plan.chunks):
        runs, report, _ = train(course, runs, jnp.asarray(chunk * plan.chunk * plan.depth))
        reports.append(np.asarray(report.welfare))
        if chunk == 0:
            compiled = time.monotonic()
    per_chunk = plan.seeds * plan.chunk * plan.games * plan.depth
    speed = (plan.chunks - 1) * per_chunk / (time.monotonic() - compiled)
    return Learnt(
        runs.learned, np.concatenate(reports), {"compile_seconds": compiled - begun, "slots_per_second": speed}
    )


def read(folder: Path) -> tuple[Plan, Seated, Learnt]:
    """What `potluck train` left in a folder."""
    run = trained(folder)
    table = np.genfromtxt(folder / METRICS, delimiter=",", names=True)
    curve = np.stack([table["welfare"][table["seed"] == seed] for seed in np.asarray(seeds_of(run.plan))], axis=1)
    return run.plan, run.seated, Learnt(run.runs.learned, curve, {})


def judge(plan: Plan, seated: Seated, learnt: Learnt, games: int) -> dict[str, Any]:
    """Say how it went; `games` of it without exploring."""
    curve = learnt.curve
    tail = max(len(curve) // 10, 1)
    final = curve[-tail:].mean(0)
    per_window = plan.games * plan.depth
    free = jnp.full((seated.environment.players, seated.environment.action_size), jnp.nan)

    def played(forced: Any) -> Any:
        return evaluate(seated.environment, seated.learner, learnt.learned, plan.scenario.discount, games, forced)

    found: dict[str, Any] = {
        "agent": plan.agent,
        **dataclasses.asdict(plan.options),
        "slots": plan.chunks * plan.chunk * per_window,
        "seeds": plan.seeds,
        "games": plan.games,
        "final": dataclasses.asdict(interval(final)),
        "final_by_seed": final.tolist(),
        "slots_to_95": [_arrival(curve[:, seed], per_window) for seed in range(plan.seeds)],
        "curve": {"slots_per_window": per_window, "welfare": np.round(curve, 2).T.tolist()},
        **learnt.timing,
        "device": jax.devices()[0].device_kind,
    }
    if not games:
        return found
    own = played(free)
    found["earnest"] = dataclasses.asdict(interval(own.welfare.mean((1, 2))))
    found["contribution"] = float(own.contributions.mean())
    if not plan.joint:
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
    parser.add_argument("--earnest", type=int, default=64, help="games without exploring; 0 for the speed alone")
    asked = parser.parse_args()
    use_cores()
    if asked.run:
        found = judge(*read(asked.run), asked.earnest)
    else:
        options = Options(estimator=asked.estimator, policy=asked.policy, memory=asked.dnc)
        scenario = on_task(preset("paper"), asked.task)
        plan = Plan(scenario, asked.agent, options, asked.slots, asked.seeds, asked.games)
        seated = seat(plan)
        found = judge(plan, seated, learn(plan, seated), asked.earnest)
    asked.out.write_text(json.dumps(found) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "curve"}))


if __name__ == "__main__":
    main()
