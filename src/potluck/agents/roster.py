"""Every agent by its name."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp

from potluck.agents.environment import Environment
from potluck.agents.learner import Learner
from potluck.agents.networks import MemorySize
from potluck.agents.policy_gradient import Placement, PolicyGradient
from potluck.agents.simple import Fixed, Greedy, Random
from potluck.errors import PotluckError

__all__ = ["AGENTS", "CHOICES", "Options", "agent"]

AGENTS = {
    "mpgd": "clipped policy gradient with a memory; sees only its own (the default)",
    "wpr": "the same learners without redistribution",
    "maa2c": "advantage actor-critic with a memory: no clipping, one pass",
    "mappo": "PPO whose critic sees what all silos see: breaks privacy on purpose",
    "lineage": "MPGD with the published predecessor's sizes and rates",
    "greedy": "one slot in ten at random, else what has earned most in a slot so far",
    "planner": "one learner decides for all, sees all and maximises welfare: a bound, not a member",
    "nash": "the solved equilibrium of one slot, in every slot; on the curve, where there is a formula to solve",
    "random": "anything",
    "fixed:D": "contribution D in every slot, such as fixed:0.5",
}


CHOICES = {
    "estimator": ("paper", "ppo"),
    "policy": ("gaussian", "beta"),
    "memory": ("critic", "actor", "both", "none"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be chosen about a policy-gradient agent; None is the agent's own way."""

    estimator: Literal["paper", "ppo"] | None = None
    policy: Literal["gaussian", "beta"] | None = None
    memory: Placement | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            given = getattr(self, name)
            if given is not None and given not in known:
                raise PotluckError(f"{name} must be one of {', '.join(known)}, got {given!r}")


def agent(
    name: str, environment: Environment, *, discount: float, updates: int, axis: str | None, options: Options
) -> Learner:
    """The named agent for one player of the environment, learning from `updates` windows."""
    chosen = {key: value for key, value in dataclasses.asdict(options).items() if value is not None}
    kind, _, argument = name.partition(":")
    simple = kind in ("fixed", "random", "greedy")
    if chosen and (simple or (kind == "maa2c" and "estimator" in chosen)):
        raise PotluckError(f"{next(iter(chosen))}: {kind} has no choice of it; leave it out")
    if kind == "fixed":
        return Fixed(environment.action_size, _share(name, argument))
    if name == "random":
        return Random(environment.action_size, 0.5)
    if name == "greedy":
        return Greedy(environment.action_size, axis=axis)
    ways: dict[str, dict[str, Any]] = {
        "mpgd": {},
        "wpr": {},
        "planner": {"memory": "none", "discount": 1.0},  # it bounds welfare over the whole game
        "maa2c": {"estimator": "a2c", "passes": 1},
        "mappo": {"estimator": "ppo", "memory": "none", "central": True},
        "lineage": {
            "estimator": "paper",
            "memory_size": MemorySize(words=10, width=32, heads=1, hidden=64),
            "passes": 5,
            "actor_rate": 3e-5,
            "critic_rate": 3e-5,
            "clip": 0.1,
            "trace": 1.0,
            "leash": 0.0,
        },
    }
    if name == "nash":
        raise PotluckError("agent: nash is solved from a scenario's formula, not learnt; seat a plan with it")
    if name not in ways:
        raise PotluckError(f"agent must be one of {', '.join(AGENTS)}, got {name!r}")
    way = {**ways[name], **chosen}
    seen = environment.observation_size
    return PolicyGradient(
        observation_size=seen,
        action_size=environment.action_size,
        sight_size=seen * environment.players if way.get("central") else seen,
        updates=jnp.asarray(updates),  # so that a longer run needs no other program
        axis=axis,
        **{"discount": discount, **way},
    )


def _share(name: str, argument: str) -> float:
    try:
        share = float(argument)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise PotluckError(f"agent: fixed needs a contribution in [0, 1], such as fixed:0.5, got {name!r}")
    return share
