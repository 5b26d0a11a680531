"""The game as learners meet it: players with observations, actions in [0, 1] and payoffs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.game.game import Game, Slot, State


class Report(eqx.Module):
    """What is worth following of a slot."""

    welfare: Float[Array, ""]
    precision: Float[Array, ""]
    signal: Float[Array, ""]
    contributions: Float[Array, " silos"]
    payoffs: Float[Array, " silos"]
    transfers: Float[Array, " silos"]


def report(slot: Slot) -> Report:
    earned = slot.payoff
    return Report(earned.welfare, slot.precision, slot.signal, slot.contributions, earned.total, earned.transfer)


class Playing(eqx.Module):
    """What every way to play the game has in common."""

    game: Game

    @property
    def horizon(self) -> int:
        """T."""
        return self.game.horizon

    def reset(self, key: PRNGKeyArray) -> State:
        return self.game.reset(key)


class Members(Playing):
    """Every silo is a player: it sees z_n, decides d_n and earns u_n."""

    action_size = 1

    @property
    def players(self) -> int:
        """N."""
        return self.game.silos

    @property
    def observation_size(self) -> int:
        """Of z_n."""
        return self.game.observation_size

    def observe(self, state: State) -> Float[Array, "players observation"]:
        return self.game.observe(state)

    def step(
        self, state: State, actions: Float[Array, "players 1"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, " players"], Report]:
        """One slot; u_n."""
        state, slot = self.game.step(state, actions[:, 0], key)
        return state, slot.payoff.total, report(slot)


class Planner(Playing):
    """One player decides for all silos, sees what all of them see, and earns the welfare. A bound, not a member."""

    players = 1

    @property
    def observation_size(self) -> int:
        """All observations in a row."""
        return self.game.silos * self.game.observation_size

    @property
    def action_size(self) -> int:
        """A contribution for every silo."""
        return self.game.silos

    def observe(self, state: State) -> Float[Array, "1 observation"]:
        return self.game.observe(state).reshape(1, -1)

    def step(
        self, state: State, actions: Float[Array, "1 silos"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, " 1"], Report]:
        """One slot; W."""
        state, slot = self.game.step(state, actions[0], key)
        return state, jnp.atleast_1d(slot.payoff.welfare), report(slot)
