"""What a run is: a scenario or an environment, an agent, and how much of which. Written beside the results, read to
resume.
"""

import dataclasses
import json
import platform
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from potluck.agents import AgentSpec, Brief, Options, find_agent, window_length
from potluck.errors import PotluckError
from potluck.federation import load as load_data
from potluck.game import Members, Planner, game
from potluck.scenario import FederationConfig, Scenario, load, render
from potluck.training.environments import EnvironmentConfig
from potluck.training.files import write_text
from potluck.training.lanes import Lanes, stack
from potluck.training.loop import Setup

RUN = "run.json"
SCENARIO = "scenario.toml"

MOST_SLOTS = 2**31 - 1
"""What a seed can count."""
CHUNK = 8
"""Windows between two looks at the results, at most."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Who learns what, for how long."""

    scenario: Scenario | EnvironmentConfig
    """What is played: a federation, or a game of one's own."""
    agent: str = "mpgd"
    options: Options = dataclasses.field(default_factory=Options)
    slots: int = 100_000
    seeds: int = 5
    games: int = 16
    window: int = 0
    """D, slots in a window; 0 is a whole game, or for most agents 5 slots of games below 8, 32 of games above 64."""
    looks: int = 1
    """At the results, at least, where there are so many windows."""

    def __post_init__(self) -> None:
        for name in ("slots", "seeds", "games", "window"):
            number = getattr(self, name)
            if number < (name != "window"):
                left = ", or 0 for the agent's own" if name == "window" else ""
                raise PotluckError(f"must be 1 or more{left}, got {number}", field=name)
        if self.slots > MOST_SLOTS:
            raise PotluckError(f"must be {MOST_SLOTS} or less, got {self.slots}", field="slots")
        if self.scenario.seed + self.seeds > 2**32:
            raise PotluckError(
                f"must stay below 2**32, got {self.seeds} of them from {self.scenario.seed} on", field="seeds"
            )

    @property
    def federation(self) -> Scenario:
        """The scenario, for what only a federation has."""
        if isinstance(self.scenario, EnvironmentConfig):
            raise PotluckError(f": {self.scenario.name} is no federation, which this needs", field="environment")
        return self.scenario

    @property
    def joint(self) -> bool:
        """Whether one player decides for all."""
        return find_agent(self.agent, self.options)[0].joint

    @property
    def depth(self) -> int:
        """D."""
        horizon = self.scenario.horizon
        whole = isinstance(self.scenario, Scenario) and find_agent(self.agent, self.options)[0].whole_games
        return self.window or (horizon if whole else window_length(horizon))

    @property
    def chunk(self) -> int:
        """Windows in one call of the compiled program: as many as leave the fewest over at the end."""
        windows = -(-self.slots // (self.games * self.depth))
        most = min(CHUNK, max(windows // self.looks, 1))
        return min(range(most, most // 2, -1), key=lambda chunk: -(-windows // chunk) * chunk)

    @property
    def chunks(self) -> int:
        """Calls until at least `slots` slots are played by every seed."""
        return -(-self.slots // (self.games * self.depth * self.chunk))


def setup_one(config: RunConfig) -> Setup:
    """Draw the silos, split their data, and make every player's learner."""
    spec, argument = find_agent(config.agent, config.options)
    if isinstance(config.scenario, EnvironmentConfig):
        return _setup_own(config, config.scenario, spec, argument)
    scenario = spec.played(config.scenario)
    precision = scenario.precision
    data = load_data(precision.task) if isinstance(precision, FederationConfig) else None
    environment = (Planner if spec.joint else Members)(game(scenario, data=data))
    updates = config.chunks * config.chunk
    brief = Brief(
        environment, scenario.discount, updates, config.options, argument, scenario, config.depth, games=config.games
    )
    return Setup(environment, spec.build(brief))


def _setup_own(config: RunConfig, own: EnvironmentConfig, spec: AgentSpec, argument: str) -> Setup:
    """The same in a game of one's own."""
    if spec.joint or spec.adapt is not AgentSpec.adapt:
        raise PotluckError(f": {config.agent} is made for a federation, which this game is not", field="agent")
    brief = Brief(own.built, own.discount, config.chunks * config.chunk, config.options, argument, None, config.depth)
    return Setup(own.built, spec.build(brief))


def setup(config: RunConfig) -> Lanes[Setup]:
    """A lane per seed. The scenario's seed makes the federation; all seeds of a run play it, with luck of their own."""
    return stack([setup_one(config)] * config.seeds)


def seeds_of(config: RunConfig) -> UInt32[Array, " seeds"]:
    """The seeds, one after the other from the scenario's."""
    return jnp.asarray(config.scenario.seed + np.arange(config.seeds), jnp.uint32)


def values_of(config: RunConfig) -> dict[str, Any]:
    """A config as JSON holds it; what was left to the agent is written as the agent has it."""
    own = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if config.looks == 1:
        del own["looks"]  # as runs were written before there was a choice
    return {_kind(config) if name == "scenario" else name: value for name, value in own.items()} | {
        _kind(config): config.scenario.model_dump(mode="json"),
        "options": {**find_agent(config.agent, config.options)[0].options, **config.options.chosen},
    }


def _kind(config: RunConfig) -> str:
    return "environment" if isinstance(config.scenario, EnvironmentConfig) else "scenario"


def write_config(config: RunConfig, folder: Path, file: str = RUN, **more: Any) -> None:
    """Write the scenario as a scenario file, then the rest and what computes: now the run has begun."""
    if not isinstance(config.scenario, EnvironmentConfig):
        write_text(folder / SCENARIO, render(config.scenario))
    rest = {name: value for name, value in values_of(config).items() if name != "scenario"}
    beside = {"chosen": sorted(config.options.chosen), "computed_with": computed_with()}
    write_text(folder / file, json.dumps({**rest, **more, **beside}, indent=2) + "\n")


def computed_with() -> dict[str, str]:
    """What a run's last digits hang on: the versions of what computes, and the devices that share its games."""
    versions = {name: metadata.version(name) for name in ("potluck-fl", "jax", "jaxlib", "equinox", "optax", "numpy")}
    devices = jax.devices()
    return {"python": platform.python_version(), **versions, "devices": f"{len(devices)} {devices[0].device_kind}"}


def warn_of_other_machine(folder: Path, file: str = RUN) -> None:
    """Say so where a run goes on with other devices or versions: it will not end as it would have."""
    then = json.loads((folder / file).read_text(encoding="utf-8")).get("computed_with")
    then = then if isinstance(then, dict) else {}
    changed = [
        f"{name} {then[name]}, now {value}" for name, value in computed_with().items() if then.get(name, value) != value
    ]
    if changed:
        warnings.warn(
            f"{folder}: was begun with {'; '.join(changed)}: it goes on, and ends with other digits than it would have",
            stacklevel=2,
        )


def read_config(folder: Path) -> RunConfig:
    """The config of a run that was begun here."""
    try:
        return RunConfig(**read_values(folder, RUN))
    except (TypeError, AttributeError) as fault:
        raise PotluckError(f"{folder / RUN}: cannot be read as a run ({fault})") from None


def _chosen(written: Mapping[str, Any]) -> Options:
    """What a person chose; the rest of the options is written down, and left to the agent."""
    return Options(**{name: written["options"][name] for name in written["chosen"]})


def read_values(folder: Path, file: str) -> dict[str, Any]:
    """What `write_config` wrote, as `RunConfig` takes it."""
    try:
        written = json.loads((folder / file).read_text(encoding="utf-8"))
        rest = {key: value for key, value in written.items() if key not in ("chosen", "computed_with")}
        for name in ("slots", "seeds", "games", "window"):
            if type(rest[name]) is not int:
                raise ValueError(f"{name} must be a whole number, got {rest[name]!r}")
        if not isinstance(rest["agent"], str):
            raise ValueError(f"agent must be a name, got {rest['agent']!r}")
        own = rest.pop("environment", None)
        played = load(folder / SCENARIO) if own is None else EnvironmentConfig.model_validate(own)
        return {**rest, "scenario": played, "options": _chosen(written)}
    except FileNotFoundError:
        raise PotluckError(f"{folder}: no run here; begin one with `potluck train --out {folder}`") from None
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as fault:
        raise PotluckError(f"{folder / file}: cannot be read as a run ({fault})") from None
