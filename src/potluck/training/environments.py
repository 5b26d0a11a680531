"""A game of one's own in place of a scenario: an environment by its name, its settings, and how runs follow it."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from potluck.agents import Environment
from potluck.agents.environment import Wrapper
from potluck.agents.known_games import ENVIRONMENTS
from potluck.errors import PotluckError
from potluck.scenario.explain import first_fault


class EnvironmentConfig(BaseModel):
    """What a run plays where it plays no federation; `potluck.environment` makes one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: dict[str, Any] = Field(default_factory=dict)
    discount: float = Field(default=0.95, ge=0, le=1)
    seed: int = Field(default=0, ge=0)

    @cached_property
    def built(self) -> "Followed":
        """The environment, tried out."""
        try:
            made = ENVIRONMENTS[self.name](**self.settings)
        except TypeError as fault:
            raise PotluckError(
                f": {self.name!r} cannot be made from these settings ({fault})", field="environment"
            ) from None
        _check(made, self.name)
        return Followed(made)

    @property
    def horizon(self) -> int:
        """T."""
        return self.built.horizon


def environment(name: str, *, discount: float = 0.95, seed: int = 0, **settings: Any) -> EnvironmentConfig:
    """A registered environment with its settings, to train in; `seed` is the first of a run."""
    try:
        plain = json.loads(json.dumps(settings))  # as a run will read them again
        config = EnvironmentConfig(name=name, settings=plain, discount=discount, seed=seed)
    except ValidationError as fault:
        raise PotluckError(first_fault(fault, EnvironmentConfig)) from None
    except TypeError as fault:
        raise PotluckError(
            f": settings must be numbers, texts or lists of them ({fault})", field="environment"
        ) from None
    config.built  # noqa: B018 - what is wrong with it is said here
    return config


class Report(eqx.Module):
    """What is worth following of a slot of any game; precision, a signal and transfers are a federation's."""

    welfare: Float[Array, "*batch"]
    contributions: Float[Array, "*batch players"]
    """Every player's action, the mean of its numbers."""
    payoffs: Float[Array, "*batch players"]
    more: Any
    """Numbers by name that the environment itself reports."""

    precision = signal = transfers = None


class Followed(Wrapper):
    """An environment as runs follow it."""

    @property
    def players(self) -> int:
        return self.environment.players

    def reset(self, key: PRNGKeyArray) -> Any:
        return self.environment.reset(key)

    def observe(self, state: Any) -> Float[Array, "players observation"]:
        return self.environment.observe(state)

    def step(
        self, state: Any, actions: Float[Array, "players action"], key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, " players"], Report]:
        """One slot; of what the environment reports, numbers by name are kept."""
        state, payoffs, told = self.environment.step(state, actions, key)
        more = {name: jnp.asarray(value) for name, value in told.items()} if isinstance(told, Mapping) else {}
        return state, payoffs, Report(payoffs.sum(), actions.mean(-1), payoffs, more)


def _check(made: Any, name: str) -> None:
    """Refuse by name what the loop would stumble over."""

    def wrong(what: str) -> PotluckError:
        return PotluckError(f": {name!r} {what}", field="environment")

    if not isinstance(made, Environment):
        needs = "players, observation_size, action_size, horizon, reset, observe and step"
        raise wrong(f"must have {needs} (potluck.agents.Environment)")
    sizes = {part: getattr(made, part) for part in ("players", "observation_size", "action_size", "horizon")}
    for part, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise wrong(f"must have 1 or more {part}, a whole number, got {size!r}")
    key = jax.random.key(0)
    state = jax.eval_shape(made.reset, key)
    seen = jax.eval_shape(made.observe, state)
    actions = jax.ShapeDtypeStruct((made.players, made.action_size), jnp.float32)
    after, paid, told = jax.eval_shape(made.step, state, actions, key)
    if getattr(seen, "shape", None) != (made.players, made.observation_size):
        shape = [made.players, made.observation_size]
        raise wrong(f"must show numbers of shape {shape}, got {list(getattr(seen, 'shape', ()))} from observe")
    if getattr(paid, "shape", None) != (made.players,):
        raise wrong(f"must pay {made.players} players, got shape {list(getattr(paid, 'shape', ()))} from step")
    if not eqx.tree_equal(_shapes(state), _shapes(after)):
        raise wrong("must keep the shapes and types of its state from reset to step")
    if isinstance(told, Mapping) and any(leaf.shape for leaf in jax.tree.leaves(dict(told))):
        raise wrong("must report single numbers, by name")


def _shapes(state: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), state)
