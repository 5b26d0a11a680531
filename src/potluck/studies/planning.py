"""The best plan for a whole game: who contributes what in which slot, decided beforehand.

On the curve a plan is found by ascent. Real training has no gradient in the contributions: there the law of precision
is learnt from games that are played, and climbed instead. Nothing much in a game is random but the model's first
weights, so a plan can be nearly as good as any policy.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents import Environment
from potluck.agents.precision_model import Record, ascend, ensemble, fit, turns, worth_of
from potluck.devices import GAMES, mesh_over
from potluck.errors import PotluckError
from potluck.game import Planner
from potluck.game.players import Playing
from potluck.scenario import CurvePrecision, Scenario
from potluck.training.evaluation import long_term
from potluck.training.run import Trained

STEPS, STEP, ASCENT_GAMES = 200, 0.05, 16
"""Of the ascent."""
CLIMBS = 10
"""One ascent after the other, at most."""
SURVEY = 2
"""Rounds of plans that differ as much as they can, before any law is fitted."""
FIRST_FIT, NEXT_FIT = 2400, 600
"""Steps of a fit; a later one begins where the last ended."""
CANDIDATES = 3
"""Of the last rounds, played in the end beside their mean, the best plan so far and the starts."""
LEAST, PATIENCE = 10, 4
"""Rounds that a search takes at least, where its effort allows; rounds without a gain after which it ends."""
ASCENTS = 16
"""Starts of a round's ascent: the last plans, the best start, simple plans, turns, and random ones for the rest."""
NEAR, FAR, BENDS = 0.02, 0.2, 5
"""How far a plan is changed to be played near another: from so much to so much; bends of a changed stretch."""
LEVELS = (0.1, 0.5, 0.9)
"""Of simple plans."""


@dataclass(frozen=True)
class Effort:
    """How much a search tries."""

    rounds: int = 30
    """At most: a search ends when it no longer gains. After each the law of precision is fitted again and climbed."""
    games: int = 64
    """Of a round, side by side."""

    @property
    def checking(self) -> int:
        """Games in which a round's plan is compared with the best so far, and starts with each other."""
        return 2 * self.games

    @property
    def choosing(self) -> int:
        """Games that every candidate plays in the end."""
        return 4 * self.games

    @property
    def round_plays(self) -> int:
        """Games of a round."""
        return self.games + self.checking

    @property
    def plays(self) -> int:
        """Games in all, at most."""
        return self.rounds * self.round_plays + (CANDIDATES + 3) * self.choosing


USUAL = Effort()
QUICK = Effort(rounds=LEAST)
"""Where somebody waits."""
Watcher = Callable[[str, float], None]
"""Told what is being done, and what share of it is."""
Plan: TypeAlias = Float[Array, "slots action"]


def planner_of(run: Trained) -> Planner:
    """The run's game with one player who decides for all."""
    environment = run.lanes.lane(0).environment  # all seeds play the same federation
    if not isinstance(environment, Playing):
        raise PotluckError(f": {run.config.agent} plays no game that a planner could", field="agent")
    return Planner(environment.game)


def plan_for_all(
    run: Trained, watch: Watcher = lambda *_: None, starts: Sequence[Plan] = (), effort: Effort = USUAL
) -> tuple[Planner, Float[Array, "slots silos"]]:
    """That game, and the plan of highest welfare found for it."""
    planner = planner_of(run)
    return planner, answer(best_plan(planner, run.config.federation, effort, starts), watch)


def answer(planning: Generator[float, None, Plan], watch: Watcher = lambda *_: None) -> Plan:
    """What a search finds in the end."""
    while True:
        try:
            watch("planner", next(planning))
        except StopIteration as over:
            found: Plan = over.value
            return found


def best_plan(
    planner: Planner, scenario: Scenario, effort: Effort = USUAL, starts: Sequence[Plan] = ()
) -> Generator[float, None, Plan]:
    """The plan of highest welfare found: by ascent on the curve, by search on real training (from `starts`, where there
    are any). Yields the share of the work that is done.
    """
    key = jax.random.fold_in(jax.random.key(scenario.seed), 2**32 - 2)
    if isinstance(scenario.precision, CurvePrecision):
        return (yield from ascents(planner, key, starts))
    return (yield from search(planner, key, effort, starts))


def ascents(planner: Planner, key: PRNGKeyArray, starts: Sequence[Plan] = ()) -> Generator[float, None, Plan]:
    """Climb, and climb on from there until it no longer gains; what is found is never below a start."""
    check = Checked(planner, jax.random.split(key, ASCENT_GAMES), ASCENT_GAMES)
    for start in starts:
        check.against(start)
    for climbs in range(CLIMBS):
        yield climbs / CLIMBS
        if not check.against(eqx.filter_jit(climb)(planner, 1.0, key, check.best[0] if check.best else None)):
            break
    return check.best[0]


def follow(
    environment: Environment[Any, Any], plan: Float[Array, "slots action"], key: PRNGKeyArray
) -> tuple[Array, Any]:
    """One whole game whose only player keeps to a plan: payoffs [slots, 1], reports of its slots."""
    resetting, stepping = jax.random.split(key)

    def slot(state: Any, at: tuple[Array, Array]) -> tuple[Any, tuple[Array, Any]]:
        state, payoff, report = environment.step(state, at[0][None], at[1])
        return state, (payoff, report)

    keys = jax.random.split(stepping, environment.horizon)
    played: tuple[Array, Any] = jax.lax.scan(slot, environment.reset(resetting), (plan, keys))[1]
    return played


def climb(
    environment: Environment[Any, Any], discount: float, key: PRNGKeyArray, begun: Plan | None = None
) -> Float[Array, "slots action"]:
    """Ascend the only player's long-term payoff from four starts: little, half, much, and less and less; and from what
    is begun already.

    It is the mean over several games, since terms may be drawn anew in each.
    """
    keys = jax.random.split(key, ASCENT_GAMES)
    optimiser = optax.adam(optax.cosine_decay_schedule(STEP, STEPS))

    def worth(plan: Float[Array, "slots action"]) -> Float[Array, ""]:
        return jax.vmap(lambda key: long_term(follow(environment, plan, key)[0], discount)[0])(keys).mean()

    def ascend(begun: Float[Array, "slots action"]) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            plan, state = carry
            change, state = optimiser.update(-jax.grad(worth)(plan), state)
            return (jnp.clip(plan + change, 0, 1), state), None

        plan = jax.lax.scan(step, (begun, optimiser.init(begun)), None, STEPS)[0][0]
        return plan, worth(plan)

    starts = simple(environment.horizon, environment.action_size)
    if begun is not None:
        starts = jnp.concatenate([starts, begun[None]])
    plans, reached = jax.vmap(ascend)(starts)
    return plans[jnp.argmax(reached)]


def search(
    environment: Environment[Any, Any], key: PRNGKeyArray, effort: Effort = USUAL, starts: Sequence[Plan] = ()
) -> Generator[float, None, Plan]:
    """Learn the law of precision from games that are played, climb it, play near the top, and again.

    The first plans differ as much as they can, with `starts` among them. Rounds go on while the plan climbed to earns
    more than the best so far, by more than the standard error of the difference in the same games. After `LEAST`
    rounds `PATIENCE` of them without such a gain end the search, as does its effort. In the end candidates play other
    games, and the best is kept. Slots must report welfare, precision and contributions.
    """
    slots, silos, games = environment.horizon, environment.action_size, effort.games
    checking, choosing = (jax.random.fold_in(key, 2**32 - number) for number in (2, 1))
    check = Checked(environment, jax.random.split(checking, effort.checking), games)
    for start in starts:
        check.against(start)
    given = list(check.best)
    record, laws = Record.blank(effort.rounds * games, slots, silos), ensemble(silos, key)
    told: list[Any] = []
    found: list[Plan] = []
    tops = jnp.stack(given or [jnp.full((slots, silos), 0.5)])
    idle = 0
    for number in range(effort.rounds):
        yield number / (effort.rounds + 1)
        drawing, playing, fitting, beginning = jax.random.split(jax.random.fold_in(key, number), 4)
        if found or (given and number):
            plans = near(tops, jax.random.split(drawing, games))
        else:
            plans = varied(jax.random.split(drawing, games), slots, silos)
            plans = jnp.concatenate([*(start[None] for start in starts[:games]), plans])[:games]
        _, report = played(environment, plans, jax.random.split(playing, games), mesh_over(games))
        record = record.after(report.contributions, report.precision)
        told.append(jax.tree.map(np.asarray, (report.welfare, report.precision, report.contributions)))
        if number + 1 < min(SURVEY, effort.rounds):
            continue
        first = FIRST_FIT * (number + 1) // SURVEY  # a search of one round has seen half as much
        laws = fit(laws, record, fitting, jnp.asarray(NEXT_FIT if found else first))
        present = jnp.any(record.contributions > 0, axis=(0, 1)).astype(float)
        known = [*found[-CANDIDATES:], *check.best, *simple(slots, silos), turns(slots, silos)]
        random = varied(jax.random.split(beginning, ASCENTS - len(known)), slots, silos)
        worth = worth_of(*map(np.concatenate, zip(*told, strict=True)))
        tops, believed = ascend(laws, worth, present, jnp.concatenate([jnp.stack(known), random]))
        top = tops[jnp.argmax(believed)]
        found.append(top)
        idle = 0 if check.against(top) else idle + 1
        tops = jnp.stack([top, check.best[0]])
        if idle >= PATIENCE and number + 1 >= LEAST:
            break
    yield effort.rounds / (effort.rounds + 1)
    last = found[-CANDIDATES:]
    candidates = jnp.stack([*given, *check.best, *last, jnp.stack(last).mean(0)])
    return best_of(environment, candidates, choosing, effort.choosing, games)


class Checked:
    """The best plan so far, by what plans earn in the same games."""

    def __init__(self, environment: Environment[Any, Any], keys: Array, at_once: int) -> None:
        self.environment, self.keys, self.at_once = environment, keys, at_once
        self.best: list[Plan] = []
        """One plan, or none yet."""
        self.earned: Float[np.ndarray, " games"] = np.full(len(keys), -np.inf)

    def against(self, plan: Plan) -> bool:
        """Whether a plan earns more, by more than the standard error of the difference; then it is the best."""
        earned = earnings(self.environment, plan, self.keys, self.at_once)
        more = earned - self.earned
        better = not self.best or bool(more.mean() > more.std(ddof=1) / len(more) ** 0.5)
        if better:
            self.best, self.earned = [plan], earned
        return better


def best_of(
    environment: Environment[Any, Any],
    plans: Float[Array, "plans slots action"],
    key: PRNGKeyArray,
    games: int,
    at_once: int | None = None,
) -> Plan:
    """The plan that earns most, all of them in the same games; some games at once, all unless told."""
    keys = jax.random.split(key, games)
    return plans[int(np.argmax([earnings(environment, plan, keys, at_once or games).mean() for plan in plans]))]


def earnings(environment: Environment[Any, Any], plan: Plan, keys: Array, at_once: int) -> Float[np.ndarray, " games"]:
    """What a slot of a plan earns on average, game by game; some games at once."""
    same, parts = jnp.repeat(plan[None], at_once, axis=0), keys.reshape(-1, at_once)
    each = [np.asarray(played(environment, same, part, mesh_over(at_once))[0], float) for part in parts]
    return np.concatenate(each)


@eqx.filter_jit
def played(
    environment: Environment[Any, Any], plans: Float[Array, "games slots action"], keys: Array, mesh: Mesh
) -> tuple[Float[Array, " games"], Any]:
    """A game for every plan: the mean payoff of a slot, and what its slots reported."""

    def here(plans: Float[Array, "games slots action"], keys: Array) -> tuple[Float[Array, " games"], Any]:
        payoffs, report = jax.vmap(lambda plan, key: follow(environment, plan, key))(plans, keys)
        return payoffs.mean((1, 2)), report

    sharded = jax.shard_map(here, mesh=mesh, in_specs=P(GAMES), out_specs=P(GAMES), check_vma=False)
    found: tuple[Float[Array, " games"], Any] = sharded(plans, keys)
    return found


def simple(slots: int, silos: int) -> Float[Array, "plans slots silos"]:
    """Always the same, and less and less."""
    falling = jnp.linspace(1.0, 0.0, slots) if slots > 1 else jnp.ones(1)
    by_slot = jnp.stack([jnp.full(slots, level) for level in LEVELS] + [falling])
    return jnp.repeat(by_slot[:, :, None], silos, axis=2)


@partial(jax.jit, static_argnums=(1, 2))
def varied(keys: Array, slots: int, silos: int) -> Float[Array, "plans slots silos"]:
    """Plans at any level that rise or fall, differ between silos, are noisy, or leave slots out."""
    time = jnp.linspace(0.5, -0.5, slots)[:, None] if slots > 1 else jnp.zeros((1, 1))

    def one(key: PRNGKeyArray) -> Plan:
        uniform, keys = jax.random.uniform, jax.random.split(key, 4)
        level, fall, unlike, rough, gaps = uniform(keys[0], (5,))
        plan = level + 1.5 * (fall - 0.3) * time + unlike * uniform(keys[1], (silos,), minval=-0.5, maxval=0.5)
        plan += 0.3 * rough * jax.random.normal(keys[2], (slots, silos))
        off = (gaps < 0.3) & (uniform(keys[3], (slots, 1)) < 0.4)
        return jnp.where(off, 0.0, jnp.clip(plan, 0, 1))

    return jax.vmap(one)(keys)


@jax.jit
def near(tops: Float[Array, "tops slots silos"], keys: Array) -> Float[Array, "plans slots silos"]:
    """Plans that differ a little from each of these in turn: in a slot of a silo, a slot, a silo or a stretch of a
    silo's slots.
    """
    _, slots, silos = tops.shape
    around = tops[jnp.arange(len(keys)) % len(tops)]

    def one(plan: Plan, key: PRNGKeyArray) -> Plan:
        size, single, slot, silo, bend = jax.random.split(key, 5)
        far = NEAR * (FAR / NEAR) ** jax.random.uniform(size, (4,))
        normal, time = jax.random.normal, jnp.linspace(0, BENDS - 1, slots)
        stretch = jax.vmap(lambda bends: jnp.interp(time, jnp.arange(BENDS), bends), out_axes=1)(
            normal(bend, (silos, BENDS))
        )
        moves = normal(single, (slots, silos)), normal(slot, (slots, 1)), normal(silo, (silos,)), stretch
        return jnp.clip(plan + sum(size * move for size, move in zip(far, moves, strict=True)), 0, 1)

    return jax.vmap(one)(around, keys)
