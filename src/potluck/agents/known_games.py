"""Games whose answer is known, to try a learner on. They have nothing to do with federations."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents.environment import Environment
from potluck.registry import Registry


class Cournot(eqx.Module):
    """Firms choose quantities q: u_n = q_n·(1 − Σq − c_n). A firm sees what all sold in the slot before.

    Nash in every slot: q_n = (1 + Σc)/(N + 1) − c_n.
    """

    costs: Float[Array, " players"]

    action_size, horizon = 1, 8

    def __init__(self, costs: Sequence[float] = (0.0, 0.1, 0.2)) -> None:
        self.costs = jnp.asarray(costs)

    def nash(self) -> Float[np.ndarray, " players"]:
        """What each sells where nobody wants to sell another quantity."""
        costs = np.asarray(self.costs, float)
        return np.asarray((1 + costs.sum()) / (len(costs) + 1) - costs)

    @property
    def players(self) -> int:
        """N."""
        return len(self.costs)

    @property
    def observation_size(self) -> int:
        """N quantities."""
        return len(self.costs)

    def reset(self, key: PRNGKeyArray) -> Float[Array, " players"]:
        """Nothing was sold."""
        del key
        return jnp.zeros_like(self.costs)

    def observe(self, state: Float[Array, " players"]) -> Float[Array, "players players"]:
        return jnp.broadcast_to(state, (self.players, self.players))

    def step(
        self, state: Float[Array, " players"], actions: Float[Array, "players 1"], key: PRNGKeyArray
    ) -> tuple[Float[Array, " players"], Float[Array, " players"], dict[str, Array]]:
        del state, key
        sold = actions[:, 0]
        price = 1 - sold.sum()
        return sold, sold * (price - self.costs), {"price": price}


class LinearQuadratic(eqx.Module):
    """x' = A·x + Σ_n b_n·f_n + noise, u_n = −(x·Q_n·x + r·f_n²), f_n = f̂·(2a_n − 1); all see x.

    With one player the best force is linear in x (Riccati), with several the Nash equilibrium in feedback is (coupled
    Riccati equations), as long as no force meets its bound f̂.
    """

    drift: Float[Array, "2 2"]
    push: Float[Array, "players 2"]
    price: Float[Array, "players 2"]
    """Diagonal of Q_n."""
    effort: Float[Array, ""]
    """r."""
    bound: Float[Array, ""]
    """f̂."""
    noise: Float[Array, ""]

    action_size, observation_size, horizon = 1, 2, 16

    def __init__(
        self,
        push: Sequence[Sequence[float]] = ((0.0, 0.5),),
        price: Sequence[Sequence[float]] = ((1.0, 0.2),),
        noise: float = 0.05,
    ) -> None:
        self.drift = jnp.array([[1.0, 0.5], [0.0, 0.9]])
        self.push, self.price = jnp.asarray(push), jnp.asarray(price)
        self.effort, self.bound, self.noise = jnp.array(0.3), jnp.array(3.0), jnp.asarray(noise)

    @property
    def players(self) -> int:
        """Who push."""
        return len(self.push)

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """Anywhere in a square."""
        return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)

    def observe(self, state: Float[Array, " 2"]) -> Float[Array, "players 2"]:
        return jnp.broadcast_to(state, (self.players, 2))

    def step(
        self, state: Float[Array, " 2"], actions: Float[Array, "players 1"], key: PRNGKeyArray
    ) -> tuple[Float[Array, " 2"], Float[Array, " players"], dict[str, Array]]:
        force = self.bound * (2 * actions[:, 0] - 1)
        after = self.drift @ state + force @ self.push + self.noise * jax.random.normal(key, (2,))
        return after, -(self.price @ state**2 + self.effort * force**2), {}


def riccati(game: LinearQuadratic, discount: float) -> Float[np.ndarray, "slots players 2"]:
    """Gains K of the Nash equilibrium in feedback, f_n = −K_n·x; one player's are the optimum."""
    drift, push, price = (np.asarray(part, float) for part in (game.drift, game.push, game.price))
    effort, count = float(game.effort), len(push)
    value, gains = np.zeros((count, 2, 2)), []
    for _ in range(game.horizon):
        ahead = discount * np.einsum("ni,nij->nj", push, value)
        found = np.linalg.solve(effort * np.eye(count) + ahead @ push.T, ahead @ drift)
        closed = drift - push.T @ found
        now = np.stack([np.diag(own) for own in price]) + effort * np.einsum("ni,nj->nij", found, found)
        value = now + discount * np.einsum("ji,njk,kl->nil", closed, value, closed)
        gains.append(found)
    return np.stack(gains[::-1])


class Pendulum(eqx.Module):
    """Swing a pendulum up and hold it there with a torque too weak to lift it: Gym's dynamics, as gymnax has them.

    ω' = ω + (3g/2l·sin θ + 3/ml²·f)·dt, θ' = θ + ω'·dt, u = −(θ² + 0.1·ω² + 0.001·f²), θ = 0 upright, |f| ≤ 2, |ω| ≤ 8.
    """

    players, observation_size, action_size, horizon = 1, 3, 1, 200

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """Any angle, a little speed."""
        return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([jnp.pi, 1.0])

    def observe(self, state: Float[Array, " 2"]) -> Float[Array, "1 3"]:
        angle, speed = state
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])[None]

    def step(
        self, state: Float[Array, " 2"], actions: Float[Array, "1 1"], key: PRNGKeyArray
    ) -> tuple[Float[Array, " 2"], Float[Array, " 1"], dict[str, Array]]:
        del key
        (angle, speed), torque = state, 4 * actions[0, 0] - 2
        from_top = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        paid = -(from_top**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = jnp.clip(speed + (15 * jnp.sin(angle) + 3 * torque) * 0.05, -8.0, 8.0)
        return jnp.stack([angle + 0.05 * speed, speed]), paid[None], {}


ENVIRONMENTS: Registry[Callable[..., Environment[Any, Any]]] = Registry(
    "environment", {"cournot": Cournot, "linear-quadratic": LinearQuadratic, "pendulum": Pendulum}
)
"""What makes an environment from its settings, which are numbers, texts and lists of them."""
