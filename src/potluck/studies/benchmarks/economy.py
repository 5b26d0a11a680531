"""How long a person waits for the economy: start-up, a solved game, a large equilibrium."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from potluck.economy import nash
from potluck.game import stage_game
from potluck.scenario import preset


@dataclass(frozen=True)
class Wait:
    """One thing a person waits for, best of several tries."""

    name: str
    seconds: float
    limit: float


def waits(repeats: int = 3) -> list[Wait]:
    """Time the commands as a person calls them (nothing compiled before), and the solver after compilation."""
    return [
        Wait("potluck --help", min(_command("--help") for _ in range(repeats)), 0.7),
        Wait(
            "potluck game --preset paper --sweep 0:16:33",
            min(_command("game", "--preset", "paper", "--sweep", "0:16:33", "--json") for _ in range(repeats)),
            10.0,
        ),
        Wait("equilibrium of 100 silos, compiled", min(_large_equilibrium() for _ in range(repeats)), 2.0),
    ]


def _command(*words: str) -> float:
    """Seconds of one fresh process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "potluck", *words],
            env=os.environ | {"XDG_CACHE_HOME": cache},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - begun


def _large_equilibrium() -> float:
    scenario = preset("dilemma")
    scenario = scenario.model_copy(update={"silos": scenario.silos.model_copy(update={"count": 100})})
    with jax.enable_x64(True):
        game = stage_game(scenario)
        solve = eqx.filter_jit(nash)
        solve(game).block_until_ready()
        begun = time.perf_counter()
        solve(game.at(jnp.asarray(4.0))).block_until_ready()
        return time.perf_counter() - begun
