"""A game that has nothing to do with federations."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class Quadratic(eqx.Module):
    """Two players, one slot: u_n = −(a_n − b_n − c·a_other)². Nash: a_n = (b_n + c·b_other) / (1 − c²)."""

    base: Float[Array, " 2"]
    pull: Float[Array, ""]
    bonus: Float[Array, " 2"]
    """Paid whatever is played."""
    sight: Float[Array, " 2"]
    """All that each player sees."""

    @classmethod
    def create(cls, pull: float = -0.5, bonus: float = 0.0, sight: float = 0.0) -> "Quadratic":
        """`bonus` and `sight` are the second player's."""
        return cls(jnp.array([0.9, 0.6]), jnp.array(pull), jnp.array([0.0, bonus]), jnp.array([0.0, sight]))

    def nash(self) -> Float[Array, " 2"]:
        """Where neither wants to move."""
        return (self.base + self.pull * self.base[::-1]) / (1 - self.pull**2)

    @property
    def players(self) -> int:
        """Two."""
        return 2

    @property
    def observation_size(self) -> int:
        """One number."""
        return 1

    @property
    def action_size(self) -> int:
        """One number."""
        return 1

    @property
    def horizon(self) -> int:
        """One slot."""
        return 1

    def reset(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """A game has no state."""
        del key
        return jnp.zeros(())

    def observe(self, state: Float[Array, ""]) -> Float[Array, "2 1"]:
        """The same every time."""
        return state + self.sight[:, None]

    def step(
        self, state: Float[Array, ""], actions: Float[Array, "2 1"], key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, " 2"], Float[Array, " 2"]]:
        """Pay both."""
        del key
        action = actions[:, 0]
        return state, -((action - self.base - self.pull * action[::-1]) ** 2) + self.bonus, action
