"""What is trained in one folder: lanes side by side, what decides their learning, and what of it is kept."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from potluck.agents import find_agent
from potluck.devices import bytes_of, check_memory, mesh_over
from potluck.training import checkpoints
from potluck.training.checkpoints import Checkpoint
from potluck.training.config import RunConfig, seeds_of, setup_one, values_of
from potluck.training.lanes import Lanes, stack
from potluck.training.loop import Outcome, Runs, Setup, TrainConfig, begin, first, train

CHECKPOINTS = "checkpoints"
SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Job:
    """Lanes that are trained together in a folder."""

    folder: Path
    config: RunConfig
    """How long, in how many games; lanes of a sweep share it."""
    lanes: Lanes[Setup]
    seeds: UInt32[Array, " lanes"]
    names: tuple[str, ...]
    """Columns of the metrics that tell lanes apart."""
    labels: tuple[str, ...]
    """Their text, lane by lane."""
    turns: tuple[tuple[int, Lanes[Setup]], ...] = ()
    """From which chunk on other lanes of the same shapes take their place: what is played changes, learners go on."""
    snapshots: frozenset[int] = frozenset()
    """Chunks after which what is learnt is kept for good."""
    beside: str = ""
    """A digest of what else decides what is learnt."""
    program: Callable[..., tuple[Runs, Outcome]] | None = None
    """What `compiled` made of `train` beforehand."""

    @classmethod
    def of_run(cls, config: RunConfig, folder: Path, *, to_train: bool = False) -> "Job":
        """A lane per seed; where they are `to_train`, there must be room for them."""
        one = setup_one(config)
        if to_train:
            check_room(config, one, config.seeds)
        seeds = seeds_of(config)
        return cls(folder, config, stack([one] * config.seeds), seeds, ("seed",), tuple(map(str, np.asarray(seeds))))

    @property
    def plan(self) -> str:
        """A digest of all that decides what is learnt: a checkpoint of another plan is not this job's."""
        spec, argument = find_agent(self.config.agent, self.config.options)
        beside = [self.beside, spec.rests_on(argument) if spec.rests_on else ""]
        decides = [values_of(self.config), self.names, self.labels, *filter(None, beside)]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()

    @property
    def like(self) -> Runs:
        """The shapes of what is learnt."""
        like: Runs = eqx.filter_eval_shape(first, self.lanes, self.seeds, self.config.games)
        return like

    def calls(self, chunk: int) -> TrainConfig:
        """What the compiled program is called with after so many calls."""
        config = self.config
        mesh = mesh_over(config.games)
        return TrainConfig(self.lanes_at(chunk), self.seeds, mesh, config.games, config.depth, config.chunk)

    def compiled(self) -> "Job":
        """The same job, its program compiled. Threads can do so for several jobs at once, while another trains."""
        runs = begin(self.lanes, self.seeds, self.config.games)
        lowered = train.lower(self.calls(0), runs, jnp.asarray(0))  # type: ignore[attr-defined]
        return dataclasses.replace(self, program=lowered.compile())

    @property
    def over(self) -> bool:
        """Whether what was learnt in the end is kept for good."""
        return self.config.chunks in self.snapshots and checkpoints.there(self.folder / SNAPSHOTS, self.config.chunks)

    def lanes_at(self, chunk: int) -> Lanes[Setup]:
        """What is played in the call of the compiled program that follows so many."""
        return [self.lanes, *(lanes for begins, lanes in self.turns if begins <= chunk)][-1]

    def newest(self, metrics: float = np.inf) -> Checkpoint | None:
        """The newest checkpoint, none of whose metrics are lost."""
        return checkpoints.latest(self.folder / CHECKPOINTS, self.like, self.plan, metrics)

    def snapshot(self, chunk: int) -> Any:
        """What all players of all lanes had learnt after so many chunks."""
        found = checkpoints.at(self.folder / SNAPSHOTS, chunk, without_games(self.like), self.plan)
        return jax.tree.map(jnp.asarray, found.runs.agents)


def check_room(config: RunConfig, one: Setup, lanes: int) -> None:
    """Refuse to train what the memory cannot hold, by the number that is furthest above its default.

    All that is learnt is there three times while it is updated; a window keeps, for every slot, what all silos of all
    games saw, and four times what they remembered. Games are divided among devices.
    """
    lane = eqx.filter_eval_shape(first, stack([one]), jnp.zeros(1, jnp.uint32), 1)
    seen = 16.0 * one.environment.players * one.environment.observation_size
    each = 3 * bytes_of((lane.states, lane.memory)) + config.depth * (seen + 4 * bytes_of(lane.memory))
    usual = {"seeds": lanes / 5, "games": config.games / 16, "window": config.depth / 32}
    here = config.games / mesh_over(config.games).size if jax.default_backend() != "cpu" else config.games
    check_memory(lanes * (3 * bytes_of(lane.agents) + here * each), max(usual, key=lambda name: usual[name]))


def without_games(runs: Runs) -> Runs:
    """Without the games: the larger part, where models are trained."""
    return Runs(runs.agents, states=None, memory=None)
