"""What play is measured against: the same silos without redistribution, and what a planner could reach.

WPR as learnt need not be an equilibrium. So beside it stands the best equilibrium without redistribution that was
found, and how far each of them is from one.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from potluck.agents import Environment
from potluck.game import Planner
from potluck.game.players import Playing
from potluck.scenario import CurvePrecision
from potluck.studies.deviations import OTHER_LUCK, Played, evaluated, followed, only, reacting_play
from potluck.studies.followers import keeping_to
from potluck.studies.imagination import STEPS, Imagination, equilibria, equilibrium
from potluck.studies.judgement import SETTLED, Judgement, imagination_of, judge
from potluck.studies.planning import ASCENT_GAMES, Plan, Watcher, earnings, follow, plan_for_all, planner_of, simple
from potluck.training.config import RunConfig
from potluck.training.evaluation import long_term
from potluck.training.run import Trained, train_in, trained

SEARCH = "search"
"""How a planner's plan is found, where no learner's play is better."""
SOLVING = 3
"""Times that silos come to rest in imagination, each after games near where they did before."""
FINALISTS, CHOOSING, APART = 2, 64, 0.05
"""Solved equilibria that are put to the test: those of highest welfare in so many games that differ by so much."""


@dataclass(frozen=True)
class Equilibrium:
    """Play without redistribution that no silo gains much by leaving, and what it could gain at most."""

    played: Played
    share: float
    """NashConv as a share of the stake."""
    found_by: str


@dataclass(frozen=True)
class Bounds:
    """What the same budget of play reaches without redistribution, and the best plan for all that was found."""

    wpr: Played
    planner: Played
    planner_found_by: str = SEARCH
    wpr_share: float | None = None
    """NashConv of WPR as a share of its stake."""
    equilibrium: Equilibrium | None = None
    """The best without redistribution that was found."""
    reacting: Played | None = None
    """A planner that sees precision within the game."""
    imagination: Imagination | None = None
    """What was learnt of the game on the way: with it deviations are imagined."""


def bounds(
    run: Trained, folder: Path, *, games: int = 128, judged: bool = True, watch: Watcher = lambda *_: None
) -> Bounds:
    """WPR, trained as long as the run in `folder` was into a folder within it, or reused; and a planner's play.

    Where `judged`, with NashConv of WPR (in half of the games), the best equilibrium without redistribution and a
    planner that reacts.
    """
    wpr = run if run.config.agent == "wpr" else bound(without(run.config), folder / "wpr", watch)
    watch("play of the bounds", 0.0)
    learners = {run.config.agent: evaluated(run, games)}
    learners["wpr"] = evaluated(wpr, games) if wpr is not run else learners["wpr"]
    planner, plan = plan_for_all(run, watch, mean_plays(*learners.values()))
    found_by, planned = never_below(planner, plan, learners, run.config.scenario.discount, games)
    if not judged:
        return Bounds(learners["wpr"], planned, found_by)
    imagination = imagination_of(run)
    test = judge(wpr, games=max(2, games // 2), imagination=imagination, watch=_named("WPR", watch))
    starts = jnp.stack([*mean_plays(learners["wpr"]), plan])
    unpaid = best_equilibrium(wpr, learners["wpr"], test, starts, imagination, _named("equilibrium without", watch))
    reacts = (
        None if imagination is None else reacting_play(imagination, jnp.asarray(planned.mean_play[0]), games, watch)
    )
    return Bounds(learners["wpr"], planned, found_by, test.share, unpaid, reacts, imagination)


def _named(what: str, watch: Watcher) -> Watcher:
    return lambda said, share: watch(f"{what}: {said}", share)


def mean_plays(*played: Played) -> list[Plan]:
    """What every seed contributes on average, as plans."""
    return [jnp.asarray(seed) for each in played for seed in each.mean_play]


def never_below(
    planner: Planner, plan: Plan, learners: Mapping[str, Played], discount: float, games: int
) -> tuple[str, Played]:
    """How the planner's play was found, and the play.

    A bound is not below what it bounds: where a learner's seed earns more in the same games, its mean play stands for
    the planner's, or its play itself where that earns more still. Then it was chosen in the games that it is measured
    in: luck may lift the bound a little, never lower it.
    """
    planned, found_by = followed(planner, plan, discount, games), SEARCH
    for name, played in learners.items():
        seed = int(np.argmax(_welfare(played)))
        reached = float(_welfare(played)[seed])
        if reached <= float(_welfare(planned)[0]):
            continue
        planned, found_by = followed(planner, jnp.asarray(played.mean_play[seed]), discount, games), "mean play"
        if reached > float(_welfare(planned)[0]):
            planned, found_by = only(played, seed), "play"
        found_by = f"{found_by} of {name}, seed {seed}"
    return found_by, planned


def _welfare(played: Played) -> Float[np.ndarray, " seeds"]:
    return np.asarray(played.welfare.mean((1, 2), dtype=float))


@dataclass(frozen=True)
class Candidate:
    """Play without redistribution: what it earns, and how far it is from an equilibrium."""

    name: str
    welfare: float
    share: float
    """NashConv as a share of the stake; NaN where nothing is at stake, and nobody would leave."""

    @property
    def rank(self) -> tuple[float, float]:
        """What is settled before what is not, by welfare; what is not, by how close it comes."""
        return (-self.share, 0.0) if self.share > SETTLED else (0.0, self.welfare)


def best_equilibrium(
    wpr: Trained,
    learnt: Played,
    test: Judgement,
    starts: Float[Array, "starts slots silos"],
    imagination: Imagination | None,
    watch: Watcher,
) -> Equilibrium | None:
    """Of play without redistribution that is settled, that of highest welfare: as learnt by a seed of WPR, or solved.

    Where nothing is settled, what comes closest stands for it.
    """
    environment = wpr.lanes.lane(0).environment
    found = solved_equilibria(environment, wpr.config, starts, test.own.welfare.shape[1], imagination, watch)
    if found is None:
        return None
    plans, judged = found
    ways = {f"wpr, seed {seed}": (test.of(seed), seed) for seed in range(wpr.config.seeds)}
    ways |= {f"solved {number + 1}": (judged.of(number), number) for number in range(len(plans))}
    candidates = [Candidate(name, float(_welfare(way.own)[0]), way.share) for name, (way, _) in ways.items()]
    best = max(candidates, key=lambda candidate: candidate.rank)
    number, games = ways[best.name][1], learnt.welfare.shape[1]
    solution = best.name.startswith("solved")
    discount = wpr.config.scenario.discount
    played = followed(planner_of(wpr), plans[number], discount, games) if solution else only(learnt, number)
    return Equilibrium(played, best.share, best.name)


def solved_equilibria(
    environment: Environment[Any, Any],
    config: RunConfig,
    starts: Float[Array, "starts slots silos"],
    games: int,
    imagination: Imagination | None,
    watch: Watcher = lambda *_: None,
) -> tuple[Float[Array, "finalists slots silos"], Judgement] | None:
    """Equilibria in plans without redistribution, and what any silo could gain by leaving them.

    All silos climb at once, from `starts` and from simple plans: on the curve their true payoffs, else imagined ones,
    three times. Those of highest welfare are put to the test that learnt play is. None where there is no game of
    contributions and precision.
    """
    if not isinstance(environment, Playing):
        return None
    scenario = config.federation
    watch("solving", 0.0)
    planner, (_, slots, silos) = Planner(environment.game), starts.shape
    plans = jnp.concatenate([simple(slots, silos), starts])
    if imagination is None:
        if not isinstance(scenario.precision, CurvePrecision):
            return None
        plans = solved(planner, scenario.discount, plans)
    else:
        imagination.survey()
        imagination.near(starts)
        for _ in range(SOLVING):
            plans = equilibria(imagination.model(paid=False), plans, jnp.zeros(slots))
            imagination.near(plans)
    finalists = _finalists(planner, plans)
    run = keeping_to(finalists, config, environment)
    return finalists, judge(run, games=games, imagination=imagination, watch=watch)


def _finalists(planner: Planner, plans: Float[Array, "plans slots silos"]) -> Float[Array, "finalists slots silos"]:
    """Those of highest welfare in the same games that differ."""
    keys = jax.random.split(jax.random.key(OTHER_LUCK), CHOOSING)
    worth = [earnings(planner, plan, keys, CHOOSING).mean() for plan in plans]
    chosen: list[Plan] = []
    for number in np.argsort(worth)[::-1]:
        if all(float(jnp.abs(plans[number] - other).max()) > APART for other in chosen) and len(chosen) < FINALISTS:
            chosen.append(plans[number])
    return jnp.stack(chosen)


@eqx.filter_jit
def solved(
    planner: Planner, discount: float, starts: Float[Array, "starts slots silos"]
) -> Float[Array, "starts slots silos"]:
    """Where all silos come to rest on the curve, from every start."""
    payoffs = payoffs_on_curve(planner, discount)
    return jax.vmap(lambda begun: equilibrium(payoffs, begun, 2 * STEPS))(starts)


def payoffs_on_curve(planner: Planner, discount: float) -> Callable[[Plan], Float[Array, " silos"]]:
    """What each silo earns by a plan in the long term, on average over games: terms may be drawn anew in each."""
    keys = jax.random.split(jax.random.key(OTHER_LUCK), ASCENT_GAMES)

    def payoffs(plan: Plan) -> Float[Array, " silos"]:
        return jax.vmap(lambda key: long_term(follow(planner, plan, key)[1].payoffs, discount))(keys).mean(0)

    return payoffs


def without(config: RunConfig) -> RunConfig:
    """The same budget without redistribution."""
    return dataclasses.replace(config, agent="wpr")


def bound(config: RunConfig, folder: Path, watch: Watcher = lambda *_: None) -> Trained:
    """Train a bound, go on with it, or take it as it is."""
    for progress in train_in(folder, config, "remove it, or ask for no bounds"):
        watch(f"training {config.agent}", progress.chunk / progress.chunks)
    return trained(folder)
