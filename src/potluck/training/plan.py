"""What a run is: a scenario, an agent, and how much of which. Written beside the results, read to go on."""

import dataclasses
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from potluck.agents import Environment, Fixed, Learner, Options, agent
from potluck.economy import nash
from potluck.errors import PotluckError
from potluck.federation import load as load_data
from potluck.game import Members, Planner, game, stage_game
from potluck.scenario import FedAvgPrecision, Scenario, load, render
from potluck.training.files import whole_text
from potluck.training.loop import AXIS, mesh_for, side_by_side

__all__ = ["RUN", "SCENARIO", "Plan", "Seated", "read_plan", "seat", "seeds_of", "write_plan"]

RUN = "run.json"
SCENARIO = "scenario.toml"

CHUNK = 8
"""Windows between two looks at the results, at most."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Who learns what, for how long."""

    scenario: Scenario
    agent: str = "mpgd"
    options: Options = dataclasses.field(default_factory=Options)
    slots: int = 100_000
    seeds: int = 5
    games: int = 16
    window: int = 0
    """D, slots in a window; 0 is a whole game, 5 slots of games below 8, 32 of games above 64."""

    def __post_init__(self) -> None:
        for name in ("slots", "seeds", "games"):
            if getattr(self, name) < 1:
                raise PotluckError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if self.scenario.seed + self.seeds > 2**32:
            raise PotluckError(f"seeds must stay below 2**32, got {self.seeds} of them from {self.scenario.seed} on")
        if self.window < 0:
            raise PotluckError(f"window must be 1 or more, or 0 for the agent's own, got {self.window}")

    @property
    def joint(self) -> bool:
        """Whether one player decides for all."""
        return self.agent in ("planner", "nash")

    @property
    def depth(self) -> int:
        """D."""
        horizon = self.scenario.horizon
        return self.window or (horizon if 8 <= horizon <= 64 else 5 if horizon < 8 else 32)

    @property
    def chunk(self) -> int:
        """Windows in one call of the compiled program: as many as leave the fewest over at the end."""
        windows = -(-self.slots // (self.games * self.depth))
        most = min(CHUNK, windows)
        return min(range(most, most // 2, -1), key=lambda chunk: -(-windows // chunk) * chunk)

    @property
    def chunks(self) -> int:
        """Calls until at least `slots` slots are played by every seed."""
        return -(-self.slots // (self.games * self.depth * self.chunk))


@dataclasses.dataclass(frozen=True)
class Seated:
    """A plan with everyone at the table: arrays have a leading axis of seeds."""

    environment: Environment
    learner: Learner


def seat(plan: Plan) -> Seated:
    """Draw the silos, split their data, and give every player a learner.

    The scenario's seed makes the federation; the seeds of a run play it anew, with weights and luck of their own.
    """
    scenario = plan.scenario
    if plan.agent == "wpr":
        scenario = scenario.model_copy(update={"mechanism": scenario.mechanism.model_copy(update={"kind": "none"})})
    described = scenario.precision
    data = load_data(described.task) if isinstance(described, FedAvgPrecision) else None
    view = Planner if plan.joint else Members
    environment = side_by_side([view(game(scenario, data=data))] * plan.seeds)
    if plan.agent == "nash":
        return Seated(environment, Fixed(environment.action_size, eqx.filter_jit(nash)(stage_game(scenario))))
    learner = agent(
        plan.agent,
        environment,
        discount=scenario.discount,
        updates=plan.chunks * plan.chunk,
        axis=AXIS if mesh_for(plan.games).size > 1 else None,
        options=plan.options,
    )
    return Seated(environment, learner)


def seeds_of(plan: Plan) -> Any:
    """The seeds, one after the other from the scenario's."""
    return jnp.asarray(plan.scenario.seed + np.arange(plan.seeds), jnp.uint32)


def write_plan(plan: Plan, folder: Path) -> None:
    """The scenario as a scenario file, the rest and the versions as JSON. A run has begun once the latter is there."""
    (folder / SCENARIO).write_text(render(plan.scenario), encoding="utf-8")
    rest = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan) if field.name != "scenario"}
    rest["options"] = dataclasses.asdict(plan.options)
    versions = {name: metadata.version(name) for name in ("potluck-fl", "jax", "jaxlib", "equinox", "optax", "numpy")}
    written = {**rest, "versions": {"python": platform.python_version(), **versions}}
    whole_text(folder / RUN, json.dumps(written, indent=2) + "\n")


def read_plan(folder: Path) -> Plan:
    """The plan of a run that was begun here."""
    try:
        written = json.loads((folder / RUN).read_text(encoding="utf-8"))
        rest = {key: value for key, value in written.items() if key != "versions"}
        return Plan(scenario=load(folder / SCENARIO), **{**rest, "options": Options(**rest["options"])})
    except FileNotFoundError:
        raise PotluckError(f"{folder}: no run here; begin one with `potluck train --out {folder}`") from None
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as fault:
        raise PotluckError(f"{folder / RUN}: cannot be read as a run ({fault})") from None
