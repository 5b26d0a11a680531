"""Evaluation of what was learnt: play without exploration, one trajectory at a time."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.training.loop import Setup


def episode(
    setup: Setup, agents: Any, key: PRNGKeyArray, forced: Float[Array, "players action"] | None = None
) -> tuple[Array, Any]:
    """One whole game: payoffs [slots, players], reports of its slots. Who is forced (not NaN) does not choose."""
    resetting, stepping = jax.random.split(key)
    environment, learner = setup.environment, setup.learner
    memory = jax.vmap(learner.initial_memory, axis_size=environment.players)(agents)

    def slot(carry: tuple[Any, Any], key: PRNGKeyArray) -> tuple[tuple[Any, Any], tuple[Array, Any]]:
        state, memory = carry
        memory, actions = jax.vmap(learner.play)(agents, memory, environment.observe(state))
        if forced is not None:
            actions = jnp.where(jnp.isnan(forced), actions, forced)
        state, payoffs, report = environment.step(state, actions, key)
        return (state, memory), (payoffs, report)

    keys = jax.random.split(stepping, environment.horizon)
    played: tuple[Array, Any] = jax.lax.scan(slot, (environment.reset(resetting), memory), keys)[1]
    return played


def long_term(payoffs: Float[Array, "slots players"], discount: Float[Array, ""] | float) -> Float[Array, " players"]:
    """Σ γ^t u_t / Σ γ^t: long-term payoff in money per slot."""
    weights = discount ** jnp.arange(len(payoffs))
    return (weights / weights.sum()) @ payoffs
