"""A trained policy in earnest: no exploring, several games, one trajectory each."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents import Environment, Learner

__all__ = ["episode", "long_term"]


def episode(
    environment: Environment,
    learner: Learner,
    learned: Any,
    key: PRNGKeyArray,
    forced: Float[Array, "players action"] | None = None,
) -> tuple[Array, Any]:
    """One whole game: payoffs [slots, players], reports of its slots. Who is forced (not NaN) does not choose."""
    resetting, stepping = jax.random.split(key)
    recall = jax.vmap(learner.rest, axis_size=environment.players)(learned)

    def slot(carry: tuple[Any, Any], key: PRNGKeyArray) -> tuple[tuple[Any, Any], tuple[Array, Any]]:
        state, recall = carry
        recall, actions = jax.vmap(learner.play)(learned, recall, environment.observe(state))
        if forced is not None:
            actions = jnp.where(jnp.isnan(forced), actions, forced)
        state, payoffs, report = environment.step(state, actions, key)
        return (state, recall), (payoffs, report)

    keys = jax.random.split(stepping, environment.horizon)
    played: tuple[Array, Any] = jax.lax.scan(slot, (environment.reset(resetting), recall), keys)[1]
    return played


def long_term(payoffs: Float[Array, "slots players"], discount: float) -> Float[Array, " players"]:
    """Σ γ^t u_t / Σ γ^t: long-term payoff in money per slot."""
    weights = discount ** jnp.arange(len(payoffs))
    return (weights / weights.sum()) @ payoffs
