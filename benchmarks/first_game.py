"""What silos that have never met earn in their first game: the table of docs/learning.md, "The first game".

    python benchmarks/first_game.py OUT.json --task digits --seeds 9000 9001 9002

Federations are drawn as `potluck pretrain` draws them, from seeds that it does not use. Every figure is welfare per
slot. Each of the games is a first one: other luck, and nothing learnt before. WPR is the best equilibrium without
redistribution that was found, and `equilibrium` the best with it, by who knows everybody's terms and may try for
hundreds of games; `unpaid` is what the same agent earns in its first game without redistribution. The planner is the
best plan for all: its search begins with those equilibria and with the agent's mean play. What OUT.json has already is
kept, counts in the summary, and its bounds are not searched for again.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from potluck.agents.precision_model import Plan, turns
from potluck.agents.registry import without_transfers
from potluck.devices import use_cores
from potluck.game import Planner, game
from potluck.scenario import CurvePrecision, Scenario
from potluck.studies.bounds import SOLVING, solved
from potluck.studies.deviations import evaluate, followed
from potluck.studies.imagination import Imagination, equilibria
from potluck.studies.intervals import interval
from potluck.studies.planning import QUICK, Effort, answer, best_plan, simple
from potluck.training.config import RunConfig, setup
from potluck.training.pretraining import federation

RESAMPLES = 2000
CHOOSING = 32
"""Games in which the best of several plans is chosen: the first of those in which it is measured."""
BOUNDS = ("wpr", "equilibrium", "planner", "plan", "effort", "bounds_seconds")
"""What a row has of the bounds."""
HEAD = "| task | seed | N | partition | cost | first game | unpaid | WPR | equilibrium | planner | share | below WPR |"


def worth(planner: Planner, plan: Float[Array, "slots silos"], games: int) -> Float[np.ndarray, " games"]:
    """Welfare per slot of a plan, in the same games that the agent plays."""
    return np.asarray(followed(planner, plan, 1.0, games).welfare[0].mean(1, dtype=float))


def bounds(scenario: Scenario, games: int, effort: Effort, play: Plan) -> dict[str, Any]:
    """The best equilibria without redistribution and with it, and the planner's plan, sought from `play` too."""
    begun = time.monotonic()
    planner = Planner(game(scenario))
    slots, silos = planner.horizon, planner.action_size
    starts = jnp.concatenate([simple(slots, silos), turns(slots, silos)[None], play[None]])
    unpaid, paid = at_rest(scenario, planner, starts)

    def best(plans: Sequence[Plan]) -> tuple[Plan, Float[np.ndarray, " games"]]:
        tried = [worth(planner, each, min(CHOOSING, games)).mean() for each in plans]
        plan = plans[int(np.argmax(tried))]
        return plan, worth(planner, plan, games)

    (without, wpr), (with_it, equilibrium) = best(list(unpaid)), best(list(paid))
    sought = answer(best_plan(planner, scenario, effort, [play, without, with_it]))
    plan, planned = best([sought, play, without, with_it])
    jax.clear_caches()
    return {
        "plan": np.round(plan, 3).tolist(),
        "effort": [effort.rounds, effort.games],
        "wpr": wpr.tolist(),
        "equilibrium": equilibrium.tolist(),
        "planner": planned.tolist(),
        "bounds_seconds": time.monotonic() - begun,
    }


def at_rest(
    scenario: Scenario, planner: Planner, starts: Float[Array, "starts slots silos"]
) -> tuple[Float[Array, "starts slots silos"], Float[Array, "starts slots silos"]]:
    """Where all silos come to rest from every start: without redistribution, and with it. Welfare needs no money to be
    moved, so one game tells of both.
    """
    if isinstance(scenario.precision, CurvePrecision):
        free = Planner(game(without_transfers(scenario)))
        return solved(free, scenario.discount, starts), solved(planner, scenario.discount, starts)
    imagination, unpaid, paid = Imagination(planner, scenario.discount), starts, starts
    imagination.survey()
    for _ in range(SOLVING):
        signal = jnp.asarray(np.concatenate([told.signal for told in imagination.told]).mean(0))
        unpaid = equilibria(imagination.model(paid=False), unpaid, jnp.zeros_like(signal))
        paid = equilibria(imagination.model(), paid, signal)
        imagination.near(jnp.concatenate([unpaid, paid]))
    return unpaid, paid


def first_games(scenario: Scenario, games: int, agent: str) -> tuple[dict[str, Any], Plan]:
    """The agent's play, in games that are all first ones; and as a plan."""
    begun = time.monotonic()
    config = RunConfig(scenario, agent, seeds=1)
    found = evaluate(setup(config), None, scenario.discount, games)
    unpaid = RunConfig(without_transfers(scenario), agent, seeds=1)
    without = evaluate(setup(unpaid), None, scenario.discount, games)
    earned = {
        "unpaid": without.welfare[0].mean(1, dtype=float).tolist(),
        "welfare": found.welfare[0].mean(1, dtype=float).tolist(),
        "payoffs": found.payoffs[0].mean(0).tolist(),
        "contributions_by_slot": np.round(found.contributions[0].mean((0, 2)), 3).tolist(),
        "precision": float(found.precision.mean()),
        "seconds": time.monotonic() - begun,
    }
    return earned, jnp.asarray(found.mean_play[0])


def described(task: str, seed: int, scenario: Scenario) -> dict[str, Any]:
    return {
        "task": task,
        "seed": seed,
        "silos": scenario.silos.count,
        "partition": getattr(scenario.precision, "partition", "–"),
        "scenario": scenario.model_dump(mode="json"),
    }


def share_of(row: dict[str, Any]) -> float | None:
    """(W − W_wpr) / (W_planner − W_wpr); None where planner and WPR are not told apart."""
    if np.quantile(resampled(row, "planner") - resampled(row, "wpr"), 0.025) <= 0:
        return None
    earned, wpr, planner = (float(np.mean(row[name])) for name in ("welfare", "wpr", "planner"))
    return (earned - wpr) / (planner - wpr)


def resampled(row: dict[str, Any], name: str) -> Float[np.ndarray, " resamples"]:
    """Means over games, which are the same for all names."""
    games = len(row[name])
    drawn = np.random.default_rng(0).integers(games, size=(RESAMPLES, games))
    return np.asarray(np.array(row[name])[drawn].mean(1))


def below(row: dict[str, Any]) -> bool:
    """Whether the first game earns less than WPR, by more than the 95% interval of the difference."""
    return bool(np.quantile(resampled(row, "welfare") - resampled(row, "wpr"), 0.975) < 0)


def line(row: dict[str, Any]) -> str:
    share = "–" if row["share"] is None else f"{row['share']:.0%}"
    figures = [interval(np.array(row[name])) for name in ("welfare", "unpaid", "wpr", "equilibrium", "planner")]
    cells = " | ".join(f"{each.mean:.1f} ± {(each.high - each.low) / 2:.1f}" for each in figures)
    cost = row["scenario"]["energy_price"] * 4 * row["scenario"]["silos"]["samples"]["mean"]
    return (
        f"| {row['task']} | {row['seed']} | {row['silos']} | {row['partition']} | {cost:.0f} | {cells} | {share} "
        f"| {'yes' if row['below_wpr'] else 'no'} |"
    )


def summaries(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of all, and of each task."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    return {"all": summary(rows)} | {task: summary([row for row in rows if row["task"] == task]) for task in tasks}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median share over federations, with a bootstrap interval over them where there are several, and how many are
    below WPR.
    """
    found = np.array([row["share"] for row in rows if row["share"] is not None])
    told = {"federations": len(rows), "with_share": len(found), "below_wpr": sum(row["below_wpr"] for row in rows)}
    if len(found) < 2:
        return told
    draws = np.median(np.random.default_rng(2).choice(found, (RESAMPLES, len(found))), axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return told | {"median_share": float(np.median(found)), "low": float(low), "high": float(high)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", default="digits", help="or curve, fmnist and so on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[9_000], help="a federation of each")
    parser.add_argument("--games", type=int, default=128, help="first games of each, the same for all figures")
    parser.add_argument(
        "--effort",
        nargs=2,
        type=int,
        default=[QUICK.rounds, QUICK.games],
        help="of the planner's search: rounds, games",
    )
    parser.add_argument("--agent", default="pretrained")
    asked = parser.parse_args()
    use_cores()
    kept = {(row["task"], row["seed"]): row for row in _read(asked.out)}
    print(HEAD, "|---" * (HEAD.count("|") - 1) + "|", sep="\n")
    for seed in asked.seeds:
        scenario = federation(asked.task, seed)
        row = described(asked.task, seed, scenario)
        earned, play = first_games(scenario, asked.games, asked.agent)
        row |= earned
        known = kept.get((asked.task, seed), {})
        if known.get("scenario") == row["scenario"] and len(known.get("equilibrium", ())) == asked.games:
            row |= {name: known[name] for name in BOUNDS}
        else:
            row |= bounds(scenario, asked.games, Effort(*asked.effort), play)
        row |= {"share": share_of(row), "below_wpr": below(row)}
        kept[asked.task, seed] = row
        print(line(row), f"{row['bounds_seconds']:.0f} s + {row['seconds']:.0f} s", flush=True)
        rows = list(kept.values())
        asked.out.write_text(json.dumps({"summary": summaries(rows), "rows": rows}) + "\n")
    print(json.dumps(summaries(rows), indent=1))


def _read(place: Path) -> list[dict[str, Any]]:
    if not place.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(place.read_text())["rows"]
    return rows


if __name__ == "__main__":
    main()
