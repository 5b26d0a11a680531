"""Critic targets and actor objectives, one trajectory at a time."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from potluck.registry import Registry

Target: TypeAlias = Callable[
    [Float[Array, " slots"], Float[Array, " slots"], Float[Array, ""], Bool[Array, " slots"], Array | float, float],
    Float[Array, " slots"],
]
"""(payoffs, values, the value after the window, whether a game ends with the slot, γ, λ) → what the critic learns."""


def td_lambda(
    payoffs: Float[Array, " slots"],
    values: Float[Array, " slots"],
    after: Float[Array, ""],
    last: Bool[Array, " slots"],
    discount: Float[Array, ""] | float,
    weight: float = 1.0,
) -> Float[Array, " slots"]:
    """Y_t = u_t + γ((1 − λ)V_{t+1} + λY_{t+1}), Y_D = V_D, λ the weight; a game's last slot has no future.

    λ = 1 is the paper's: the discounted payoffs inside the window, and γ^{D−t}·V at its end.
    """

    def back(carry: tuple[Array, Array], slot: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
        later, value_later = carry
        payoff, value, ends = slot
        future = (1 - weight) * value_later + weight * later
        target = payoff + discount * jnp.where(ends, 0.0, future)
        return (target, value), target

    return jax.lax.scan(back, (after, after), (payoffs, values, last), reverse=True)[1]


Objective: TypeAlias = Callable[[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."], float], Array]
"""(log π now, log π when it was played, advantage, ε) → what each slot adds to the actor's objective."""


def paper(now: Array, then: Array, advantage: Array, clip: float) -> Array:
    """log π · C, C = min(fA, η(f)A) a mere weight (Eqs. 12-15): clipped samples still push."""
    ratio = jnp.exp(now - then)
    weight = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
    return now * jax.lax.stop_gradient(weight)


def ppo(now: Array, then: Array, advantage: Array, clip: float) -> Array:
    """min(fA, clip(f)A): the surrogate, whose gradient is zero where it is clipped."""
    ratio = jnp.exp(now - then)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def a2c(now: Array, then: Array, advantage: Array, clip: float) -> Array:
    """log π · A: the plain policy gradient."""
    del then, clip
    return now * advantage


ESTIMATORS: Registry[Objective] = Registry("estimator", {"paper": paper, "ppo": ppo, "a2c": a2c})
TARGETS: Registry[Target] = Registry("target", {"td-lambda": td_lambda})
