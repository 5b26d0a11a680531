"""What this machine makes of a study's game, tried before anything is trained: what is said beforehand rests on it."""

import dataclasses
import time

import jax

from potluck.studies.deviations import evaluate
from potluck.studies.paper.pace import Trial
from potluck.studies.paper.plan import StudyConfig
from potluck.training.config import seeds_of, setup
from potluck.training.loop import fresh


def tried(config: StudyConfig) -> Trial:
    """Play at random in the main world, once to compile and once to measure: a seed's games, or on an accelerator those
    of all seeds.
    """
    games = config.games * (1 if jax.default_backend() == "cpu" else config.seeds)
    run = dataclasses.replace(config.run(config.scenario, "random", 1), games=games)
    lanes = setup(run)
    agents = fresh(lanes, seeds_of(run), games).agents

    def seconds() -> float:
        begun = time.monotonic()
        evaluate(lanes, agents, config.scenario.discount, games)
        return time.monotonic() - begun

    first, second = seconds(), seconds()
    return Trial(second / (games * config.scenario.horizon), max(first - second, 0.0))
