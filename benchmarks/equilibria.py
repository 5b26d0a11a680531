"""Which open-loop equilibria are reached from which starts, by which way of playing: welfare and NashConv.

    python benchmarks/equilibria.py --preset paper
    python benchmarks/equilibria.py --preset paper --task digits --ways slopes --out equilibria.json
    python benchmarks/equilibria.py --task fmnist --ways slopes --plan results/paper.planner.json --unjudged

A start is a plan for all silos. By slopes all silos follow the slope of their own long-term payoff at once; in turn,
one after the other takes its best plan against the others', four times round. On the curve payoffs are exact; on real
training they are imagined, on a law of precision learnt from games near the starts and near what was reached first, and
the figures are those of real play. NashConv is that of the best deviation found, as `potluck certify` finds it without
training; where real training is slow, `--unjudged` leaves it out, and `--plan` begins with what a study's planner found
instead of searching again.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from potluck.agents.precision_model import turns
from potluck.agents.registry import without_transfers
from potluck.devices import use_cores
from potluck.federation.from_scenario import on_task
from potluck.game import Members, Planner, game
from potluck.scenario import CurvePrecision, Scenario, preset
from potluck.studies.bounds import SOLVING, payoffs_on_curve
from potluck.studies.deviations import evaluated
from potluck.studies.followers import keeping_to
from potluck.studies.imagination import STEPS, Model, ascent, equilibrium
from potluck.studies.judgement import imagination_of, judge
from potluck.studies.planning import Plan, answer, best_plan, simple, varied
from potluck.training.config import RunConfig
from potluck.training.run import Trained

ROUNDS = 4
"""That silos take turns."""
Payoffs = Callable[[Plan], Float[Array, " silos"]]


def in_turn(payoffs: Payoffs, begun: Plan) -> Plan:
    """Each silo in turn takes the best plan of its own that it can climb to, from where it is and from simple plans."""
    slots, silos = begun.shape

    def turn(plan: Plan, silo: Array) -> tuple[Plan, None]:
        def worth(own: Array) -> Array:
            return payoffs(plan.at[:, silo].set(own))[silo]

        starts = jnp.concatenate([simple(slots, 1)[..., 0], plan[:, silo][None]])
        reached, worths = jax.vmap(lambda own: ascent(jax.grad(worth), worth, own))(starts)
        return plan.at[:, silo].set(reached[jnp.argmax(worths)]), None

    return jax.lax.scan(turn, begun, jnp.tile(jnp.arange(silos), ROUNDS))[0]


WAYS: dict[str, Callable[[Payoffs, Plan], Plan]] = {
    "slopes": lambda payoffs, begun: equilibrium(payoffs, begun, 2 * STEPS),
    "in turn": in_turn,
}


@eqx.filter_jit
def reached(way: str, payoffs: Any, starts: Float[Array, "starts slots silos"]) -> Float[Array, "starts slots silos"]:
    """Where it ends, from every start; one after the other."""
    found: Array = jax.lax.map(lambda begun: WAYS[way](payoffs, begun), starts)
    return found


class Believed(eqx.Module):
    """What a model says that silos earn, as a function of a plan alone."""

    model: Model
    signal: Float[Array, " slots"]

    def __call__(self, plan: Plan) -> Float[Array, " silos"]:
        return self.model.worth(plan, self.signal)


def starts_of(planner: Planner, scenario: Scenario, planned: Path | None) -> dict[str, Plan]:
    slots, silos = planner.horizon, planner.action_size
    names = ("all 0.1", "all 0.5", "all 0.9", "falling")
    found = dict(zip(names, simple(slots, silos), strict=True)) | {"taking turns": turns(slots, silos)}
    known = None if planned is None else jnp.asarray(json.loads(planned.read_text())["contributions"], float)
    found["planner's plan"] = answer(best_plan(planner, scenario)) if known is None else known
    random = varied(jax.random.split(jax.random.key(7), 3), slots, silos)
    return found | {f"random {number}": plan for number, plan in enumerate(random, 1)}


def measure(
    scenario: Scenario, starts: dict[str, Plan], ways: list[str], games: int, paid: bool, judged: bool
) -> list[dict[str, Any]]:
    """A row for each way and start."""
    scenario = scenario if paid else without_transfers(scenario)
    environment, config = Members(game(scenario)), RunConfig(scenario, "mpgd" if paid else "wpr")
    begun, planner = jnp.stack(list(starts.values())), Planner(environment.game)
    imagination = imagination_of(keeping_to(begun, config, environment))
    rows = []
    for way in ways:
        if imagination is None:
            plans = reached(way, payoffs_on_curve(planner, scenario.discount), begun)
        else:
            imagination.survey()
            imagination.near(begun)
            plans = begun
            for _ in range(SOLVING):
                signal = jnp.asarray(np.mean([told.signal for told in imagination.told], (0, 1)))
                plans = reached(way, Believed(imagination.model(paid=paid), signal), plans)
                imagination.near(plans)
        run: Trained = keeping_to(plans, config, environment)
        judgement = judge(run, games=games, imagination=imagination, watch=lambda *_: None) if judged else None
        played = evaluated(run, games) if judgement is None else judgement.own
        for number, start in enumerate(starts):
            row = {
                "mechanism": "redistribution" if paid else "none",
                "way": way,
                "start": start,
                "welfare": float(played.welfare[number].mean(dtype=float)),
                "mean_contribution": float(plans[number].mean()),
                "plan": np.asarray(plans[number]).round(3).tolist(),
            }
            if judgement is not None:
                one = judgement.of(number)
                row |= {"nash_conv": float(one.gains.sum()), "share_of_stake": one.share}
            print(line(row), flush=True)
            rows.append(row)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row as a person reads it."""
    told = "{mechanism} | {way} | {start} | {welfare:.2f} | {mean_contribution:.3f}".format(**row)
    return told + (" | {nash_conv:.3f} | {share_of_stake:.1%}".format(**row) if "nash_conv" in row else "")


def main() -> None:
    """Measure with and without redistribution, a line for each start, and write all of it if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--task", help="real training on this task; without it the curve")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--games", type=int, default=64, help="in which play and deviations are measured")
    parser.add_argument("--plan", type=Path, help="a planner's plan that a study found, instead of a search")
    parser.add_argument("--unjudged", action="store_true", help="without NashConv, which takes most of the time")
    parser.add_argument("--out", type=Path, help="write JSON here")
    asked = parser.parse_args()
    use_cores()
    scenario = preset(asked.preset) if asked.task is None else on_task(preset(asked.preset), asked.task)
    assert isinstance(scenario.precision, CurvePrecision) == (asked.task is None)
    starts = starts_of(Planner(game(scenario)), scenario, asked.plan)
    rows = [
        row
        for paid in (True, False)
        for row in measure(scenario, starts, asked.ways, asked.games, paid, not asked.unjudged)
    ]
    if asked.out is not None:
        settings = {"preset": asked.preset, "task": asked.task, "games": asked.games, "jax": jax.__version__}
        asked.out.write_text(json.dumps({"settings": settings, "rows": rows}) + "\n", encoding="utf-8")
        print(f"written: {asked.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
