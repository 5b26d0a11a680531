"""A federation that changes in the middle of training: do learners find their way back?

Halfway through, silo 0's data doubles, silo 1's energy per sample triples, silo 2's profit halves, and silo 3 stays
away: a silo that is absent is settled as bringing nothing. A quarter of the training later it returns.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.federation import FedAvg, load
from potluck.federation.curve import CurveSource
from potluck.federation.from_scenario import on_task
from potluck.game import Game, Members, Planner, Report, State
from potluck.game.players import Playing
from potluck.scenario import FederationConfig, Scenario
from potluck.training.config import RunConfig, setup_one
from potluck.training.job import Job
from potluck.training.lanes import stack
from potluck.training.loop import Setup
from potluck.training.programs import programs

TURNS = (0.5, 0.75)
"""Shares of the training after which the federation changes."""
STAGES = ("before", "changed, silo 3 away", "silo 3 back")


class Attended(Members):
    """The silos' game, in which those that are absent bring nothing."""

    present: Float[Array, " silos"]

    def step(
        self, state: State, actions: Float[Array, "players 1"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, " players"], Report]:
        return super().step(state, actions * self.present[:, None], key)


class AttendedPlanner(Planner):
    """One who decides for all that are present."""

    present: Float[Array, " silos"]

    def step(
        self, state: State, actions: Float[Array, "1 silos"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, " 1"], Report]:
        return super().step(state, actions * self.present, key)


def obstacle(scenario: Scenario) -> str | None:
    """Why this federation cannot change so, if it cannot."""
    precision = scenario.precision
    if scenario.silos.count < 4:
        return "it takes four silos"
    if "samples" in scenario.silos.redraw:
        return "data sizes are drawn anew"
    if isinstance(precision, FederationConfig) and precision.dynamics != "static":
        return "data change anyway"
    if isinstance(precision, FederationConfig) and precision.partition == "natural":
        return "the partition is natural, so no silo can own more"
    return None


def with_room(scenario: Scenario) -> Scenario:
    """The scenario with silo 0's data doubled, on the silos that its seed draws; what a task cannot hold shrinks."""
    terms = scenario.draw(jax.random.key(scenario.seed))
    unit = 100.0 if scenario.precision_unit == "percent" else 1.0
    samples = np.asarray(terms.samples, float) * np.where(np.arange(scenario.silos.count) == 0, 2.0, 1.0)
    silos = scenario.silos.model_copy(
        update={
            "profit": tuple(map(float, np.asarray(terms.profit) / unit)),
            "energy": tuple(map(float, np.asarray(terms.energy))),
            "samples": tuple(map(float, samples)),
            "drawn": "run",
        }
    )
    scenario = scenario.model_copy(update={"silos": silos})
    if isinstance(scenario.precision, FederationConfig):
        return on_task(scenario, scenario.precision.task, load(scenario.precision.task))
    return scenario


def stage_of(setup: Setup, stage: int) -> Setup:
    """The same learners in the game of a stage; `setup` is that of a scenario made `with_room`."""
    inner = game_of(setup)
    silos = np.arange(inner.silos)
    present = jnp.asarray(np.where((silos == 3) & (stage == 1), 0.0, 1.0), jnp.float32)
    game = inner if stage else _halved(inner)
    if stage:
        terms = game.terms
        changed = (
            terms.energy * np.where(silos == 1, 3.0, 1.0).astype(np.float32),
            terms.profit * np.where(silos == 2, 0.5, 1.0).astype(np.float32),
        )
        game = eqx.tree_at(lambda g: (g.terms.energy, g.terms.profit), game, changed)
    return Setup(Attended(game, present), setup.learner)


def game_of(setup: Setup) -> Game:
    """What is played."""
    assert isinstance(setup.environment, Playing)
    return setup.environment.game


def _halved(game: Game) -> Game:
    """Silo 0 before its data doubled."""
    first = jnp.arange(game.silos) == 0
    source = game.source
    if isinstance(source, FedAvg):
        pool = source.silos.pool
        held = jnp.where(first, jnp.maximum(pool // 2, 1), pool)
        source = eqx.tree_at(lambda s: s.silos.pool, source, held)
    else:
        assert isinstance(source, CurveSource)
        held = jnp.where(first, jnp.maximum(jnp.floor(source.held / 2), 1.0), source.held)
        source = eqx.tree_at(lambda s: s.held, source, held)
    return dataclasses.replace(
        game, source=source, terms=eqx.tree_at(lambda t: t.samples, game.terms, held.astype(game.terms.samples.dtype))
    )


def planner_of(setup: Setup) -> AttendedPlanner:
    """One who decides for all in a stage's game."""
    assert isinstance(setup.environment, Attended)
    return AttendedPlanner(setup.environment.game, setup.environment.present)


def jobs_of(cells: Mapping[str, RunConfig], folder: Path) -> list[Job]:
    """Trainings through all stages, as few programs as there can be; configs are of a scenario made `with_room`."""
    setups = {name: setup_one(config) for name, config in cells.items()}
    found = []
    for job in programs(list(cells.items()), ("cell",), folder, lambda config: stage_of(setup_one(config), 0)):
        own = [setups[label.rpartition(",")[0]] for label in job.labels]
        later = [stack([stage_of(setup, stage) for setup in own]) for stage in range(1, len(STAGES))]
        found.append(dataclasses.replace(job, turns=tuple(zip(turning_chunks(job.config), later, strict=True))))
    return found


def turning_chunks(config: RunConfig) -> tuple[int, ...]:
    """After which calls of the compiled program the federation changes."""
    return tuple(max(1, math.floor(share * config.chunks)) for share in TURNS)
