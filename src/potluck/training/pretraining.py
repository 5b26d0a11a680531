"""Where a prior over laws of precision comes from: federations that are drawn, surveyed, and fitted one by one."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from potluck.agents.linear import inverse
from potluck.agents.model_based import CONVENTIONS, conventions, near, varied
from potluck.agents.prior import NARROWNESS, Numbers, OwnLaw, SharedLaw, numbers_of, unit
from potluck.agents.prior_file import FEWEST, Survey, Surveyed, load_survey
from potluck.errors import PotluckError, file_faults
from potluck.federation import load
from potluck.federation.build import defaults_of
from potluck.game import Game, State, game
from potluck.registry import family
from potluck.scenario import CurvePrecision, FederationConfig, Normal, Scenario, Silos, mechanism_of
from potluck.training.files import write_text

GAMES, STEPS = 96, 60
"""Games of a survey, and steps of its fit."""
WIDEST = (0.2, 1.0, 0.3, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.5, 2.0, 1.0, 0.5)
"""Deviations of a law's numbers from those that a formula begins with, as far as nothing speaks for others."""
NOISE = 0.1
"""By which precision goes astray, about, before it is measured."""
DAMPED, EASED = 10.0, 0.3
"""How a step that fails shortens the next, and one that succeeds lengthens it."""
CURVE = "curve"
LARGEST = 700
"""Samples of a silo that trains for real, at most: a survey takes seconds."""
LEAST_SAMPLES = 80
"""Of a task: ten for each of eight silos."""
MOST = 4096
"""Federations of a prior: every silo weighs all of them before every slot."""
PROFIT = 1000.0


def federation(task: str, seed: int) -> Scenario:
    """Some silos at some task: how many, what they hold, how alike they are, how they train, and what it costs."""
    draw = np.random.default_rng([seed, *task.encode()])
    count = int(draw.choice([2, 3, 4, 5, 6, 8]))
    cost = float(np.exp(draw.uniform(np.log(10), np.log(160))))
    room = 2000 if task == CURVE else min(len(load(task).labels) // count, LARGEST)
    samples = round(room * draw.uniform(0.4, 0.7))
    energy = 4.0
    return Scenario(
        seed=seed,
        energy_price=cost / energy / samples,
        silos=Silos(
            count=count,
            profit=Normal(mean=PROFIT, deviation=PROFIT * draw.uniform(0.01, 0.1)),
            energy=Normal(mean=energy, deviation=energy * draw.uniform(0.02, 0.2)),
            communication=Normal(mean=0.5, deviation=0.02),
            samples=Normal(mean=samples, deviation=samples * draw.uniform(0.0, 0.08)),
        ),
        mechanism=mechanism_of("redistribution", intensity=cost / count * draw.uniform(0.9, 1.1)),
        precision=_curve(draw, samples) if task == CURVE else _training(draw, task),
    )


def _curve(draw: np.random.Generator, samples: int) -> CurvePrecision:
    return CurvePrecision(
        initial=draw.uniform(0.05, 0.3),
        ceiling=draw.uniform(0.7, 0.98),
        scale=samples * float(np.exp(draw.uniform(np.log(0.05), np.log(1.0)))),
        exponent=draw.uniform(0.3, 0.9),
    )


def _training(draw: np.random.Generator, task: str) -> FederationConfig:
    """Rates, batches, sizes and partitions around what the task is usually trained with."""
    usual = defaults_of(load(task))
    return FederationConfig(
        task=task,
        hidden=int(draw.choice([16, 32, 64])),
        batch_size=int(draw.choice([10, 25, 50])),
        learning_rate=usual.learning_rate * float(np.exp(draw.uniform(np.log(0.5), np.log(1.5)))),
        partition=str(draw.choice(["iid", "dirichlet"])),
        concentration=float(np.exp(draw.uniform(np.log(0.5), np.log(5.0)))),
        epochs=int(draw.choice([1, 1, 2])),
    )


@eqx.filter_jit
def surveyed(played: Game, keys: Array) -> tuple[Float[Array, "games slots silos"], Float[Array, "games slots"]]:
    """Contributions and precision of games with plans that differ as much as they can, and near conventions."""
    known = conventions(played.horizon, played.silos)

    def one(key: Array, number: Array) -> tuple[Array, Array]:
        drawing, resetting, stepping = jax.random.split(key, 3)
        of_each = jax.random.split(drawing, played.silos)
        anything = jax.vmap(lambda key: varied(key, played.horizon), out_axes=1)(of_each)
        around = jax.vmap(near, in_axes=(1, 0), out_axes=1)(known[number // 2 % CONVENTIONS], of_each)
        plan = jnp.where(number % 2 == 0, anything, around)

        def slot(state: State, now: tuple[Array, Array]) -> tuple[State, Array]:
            state, happened = played.step(state, *now)
            return state, happened.precision

        slots = jax.random.split(stepping, played.horizon)
        return plan, jax.lax.scan(slot, played.reset(resetting), (plan, slots))[1]

    return jax.vmap(one)(keys, jnp.arange(len(keys)))


@eqx.filter_jit
def fitted(
    plans: Float[Array, "games slots silos"], precision: Float[Array, "games slots"]
) -> tuple[Numbers, Float[Array, ""]]:
    """The law of one federation, and by how much precision goes astray from it, in `unit`s.

    How narrow each silo's data is is fitted too, and not answered: it says nothing of other federations.

    argmin_θ Σ ((P̂_t(θ) − P_t)/(noise·unit_t))² + Σ_i ((θ_i − θ⁰_i)/deviation_i)², by Levenberg and Marquardt.
    """
    shared, silos = numbers_of(SharedLaw()), plans.shape[2]
    begun = jnp.concatenate([shared, jnp.ones(silos)])
    pull = 1 / jnp.concatenate([jnp.array(WIDEST), jnp.full(silos, max(NARROWNESS))])

    def astray(theta: Float[Array, " numbers_and_silos"]) -> Float[Array, " slots"]:
        predicted = jax.vmap(OwnLaw(theta[: len(shared)], theta[len(shared) :]))(plans)
        return ((predicted - precision) / unit(precision)).reshape(-1)

    def errors(theta: Float[Array, " numbers_and_silos"]) -> Float[Array, " errors"]:
        return jnp.concatenate([astray(theta) / NOISE, (theta - begun) * pull])

    def step(_: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, damping = carry
        missed, slopes = errors(theta), jax.jacfwd(errors)(theta)
        curvature = slopes.T @ slopes
        tried = theta - inverse(curvature + damping * jnp.diag(jnp.diag(curvature))) @ (slopes.T @ missed)
        better = jnp.sum(errors(tried) ** 2) < jnp.sum(missed**2)
        return jnp.where(better, tried, theta), damping * jnp.where(better, EASED, DAMPED)

    theta = jax.lax.fori_loop(0, STEPS, step, (begun, jnp.asarray(0.01)))[0]
    return theta[: len(shared)], jnp.sqrt(jnp.mean(astray(theta) ** 2))


def surveyed_law(scenario: Scenario) -> tuple[list[float], float]:
    """Survey one federation and fit its law: the numbers, and the noise."""
    keys = jax.random.split(jax.random.key(scenario.seed), GAMES)
    law, noise = fitted(*surveyed(game(scenario), keys))
    return np.asarray(law, float).tolist(), float(noise)


@dataclass(frozen=True)
class Step:
    """How far a survey is."""

    survey: Survey
    wanted: int


def pretrain(place: Path, tasks: Sequence[str], federations: int, seed: int) -> Generator[Step]:
    """Survey federations of these tasks in turn, drawn from seeds on from `seed`.

    The file is written whole after each. Where it holds the first of them already, the survey goes on from there.
    """
    check(tasks, federations, seed)
    for task in dict.fromkeys(tasks):
        check_samples(task)
    if place.is_dir():
        raise PotluckError(f": {str(place)!r} is a folder; name a file", field="out")
    about = {"tasks": list(tasks), "seed": seed, "games": GAMES}
    survey = _begun(place, about)
    while len(survey.federations) < federations:
        number = len(survey.federations)
        task = tasks[number % len(tasks)]
        law, noise = surveyed_law(federation(task, seed + number))
        survey = Survey(about, (*survey.federations, Surveyed(task, tuple(law), noise)))
        with file_faults(place, "name another place"):
            write_text(place, survey.text())
        yield Step(survey, federations)


def _begun(place: Path, about: dict[str, Any]) -> Survey:
    if not place.exists():
        return Survey(about)
    survey = load_survey(place, fewest=1)
    if survey.about != about:
        raise PotluckError(f"{place}: holds a prior of other federations; name another file")
    return survey


def check(tasks: Sequence[str], federations: int, seed: int) -> None:
    if not FEWEST <= federations <= MOST:
        raise PotluckError(f"must be {FEWEST} to {MOST}, got {federations}", field="federations")
    if not 0 <= seed < 2**32 - federations:
        raise PotluckError(f"must be 0 or more and below 2**32 less the federations, got {seed}", field="seed")
    known = family("task")
    for task in tasks:
        if task != CURVE and task.partition(":")[0] not in known:
            raise PotluckError(f"must be {CURVE} or one of {', '.join(known)}, got {task!r}", field="tasks")


def check_samples(task: str) -> None:
    """Refuse a task that is too small to be divided."""
    if task != CURVE and (found := len(load(task).labels)) < LEAST_SAMPLES:
        raise PotluckError(f": {task} has {found} samples, and {LEAST_SAMPLES} are the fewest", field="tasks")
