"""Games small enough to follow by hand, and how to play one through."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.federation import load
from potluck.game import Game, Slot, State
from potluck.scenario import CurvePrecision, FederationConfig, Normal, Scenario, Silos, mechanism_of

DIGITS = load("digits")

THREE = Silos(
    count=3,
    profit=(1000.0, 900.0, 800.0),
    energy=(1.0, 2.0, 3.0),
    communication=(0.4, 0.6, 0.7),
    samples=(100.0, 200.0, 300.0),
    redraw=(),
)
DRAWN = Silos(
    count=3,
    profit=Normal(mean=1000, deviation=10),
    energy=Normal(mean=4, deviation=0.2),
    communication=Normal(mean=0.5, deviation=0.02),
    samples=Normal(mean=100, deviation=5),
)
REAL = FederationConfig(task="digits", held_out=397)


def by_hand(**changes: Any) -> Scenario:
    """P(K) = 0.9 − 0.8 / (1 + K/100), K the samples trained on so far; H = 2, T = 5, κ = 0.01, α0 = 6."""
    described: dict[str, Any] = {
        "horizon": 5,
        "history": 2,
        "energy_price": 0.01,
        "silos": THREE,
        "mechanism": mechanism_of("redistribution", intensity=6.0, schedule="gain", smoothing=0.5),
        "precision": CurvePrecision(initial=0.1, ceiling=0.9, scale=100.0, exponent=1.0),
    }
    return Scenario(**(described | changes))


class Play(eqx.Module):
    """A game played through: what happened in its slots, and what was seen before each of them and at the end."""

    slots: Slot
    seen: Float[Array, "slots+1 silos observation"]
    states: State
    """After each slot."""


def play_through(game: Game, contributions: Float[Array, "slots silos"], key: PRNGKeyArray) -> Play:
    """The game of this key, with contributions that are settled beforehand."""
    beginning, playing = jax.random.split(key)
    first = game.reset(beginning)

    def slot(state: State, given: tuple[Array, PRNGKeyArray]) -> tuple[State, tuple[Slot, Array, State]]:
        state, happened = game.step(state, *given)
        return state, (happened, game.observe(state), state)

    keys = jax.random.split(playing, len(contributions))
    _, (slots, seen, states) = jax.lax.scan(slot, first, (contributions, keys))
    return Play(slots, jnp.concatenate([game.observe(first)[None], seen]), states)


play = eqx.filter_jit(play_through)


def random_contributions(slots: int, silos: int, seed: int = 0) -> Float[Array, "slots silos"]:
    """Some of them 0, some 1, the others in between."""
    return jnp.clip(jax.random.uniform(jax.random.key(seed), (slots, silos), minval=-0.2, maxval=1.2), 0.0, 1.0)
