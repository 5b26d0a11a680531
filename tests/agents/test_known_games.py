"""Known games have the answers that they are known for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float
from numpy.testing import assert_allclose

from potluck.agents import Environment
from potluck.agents.known_games import ENVIRONMENTS, Cournot, LinearQuadratic, Pendulum, riccati

TWO = LinearQuadratic(push=((0.0, 0.5), (0.3, 0.3)), price=((1.0, 0.2), (0.2, 1.0)), noise=0.0)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_known_game_is_an_environment(name: str) -> None:
    game = ENVIRONMENTS[name]()
    assert isinstance(game, Environment)
    state = game.reset(jax.random.key(0))
    assert game.observe(state).shape == (game.players, game.observation_size)
    _, paid, _ = game.step(state, jnp.full((game.players, game.action_size), 0.5), jax.random.key(1))
    assert paid.shape == (game.players,)


def test_cournot_by_hand() -> None:
    game = Cournot()
    assert_allclose(game.nash(), [0.325, 0.225, 0.125], rtol=1e-6)
    # price 1 − 0.8 = 0.2: 0.5·0.2, 0.2·(0.2 − 0.1), 0.1·(0.2 − 0.2)
    _, paid, told = game.step(jnp.zeros(3), jnp.array([[0.5], [0.2], [0.1]]), jax.random.key(0))
    assert_allclose(paid, [0.1, 0.02, 0.0], atol=1e-6)
    assert told["price"] == pytest.approx(0.2)


def test_no_firm_gains_by_selling_another_quantity() -> None:
    game, nash = Cournot(), Cournot().nash()

    def paid(sold: Float[np.ndarray, " players"]) -> Float[np.ndarray, " players"]:
        return np.asarray(game.step(jnp.zeros(3), jnp.asarray(sold, jnp.float32)[:, None], jax.random.key(0))[1])

    for firm in range(3):
        for quantity in np.linspace(0, 1, 21):
            other = nash.copy()
            other[firm] = quantity
            assert paid(other)[firm] <= paid(nash)[firm] + 1e-6


@pytest.mark.parametrize("game", [LinearQuadratic(noise=0.0), TWO])
def test_no_other_force_in_any_slot_gains(game: LinearQuadratic) -> None:
    gains = riccati(game, 0.9)

    def paid(changes: Float[np.ndarray, "slots players"]) -> Float[np.ndarray, " players"]:
        """Discounted, in double precision, from a corner of the square."""
        drift, push, price = (np.asarray(part, float) for part in (game.drift, game.push, game.price))
        state, total = np.array([1.0, -0.7]), np.zeros(game.players)
        for slot, (gain, change) in enumerate(zip(gains, changes, strict=True)):
            force = -gain @ state + change
            total -= 0.9**slot * (price @ state**2 + float(game.effort) * force**2)
            state = drift @ state + force @ push
        return total

    stay = np.zeros(gains.shape[:2])
    for slot in range(game.horizon):
        for player in range(game.players):
            for change in (-0.1, -0.01, 0.01, 0.1):
                other = stay.copy()
                other[slot, player] = change
                assert paid(other)[player] < paid(stay)[player]


def test_a_pendulum_at_rest_upright_earns_nothing_and_stays() -> None:
    game = Pendulum()
    after, paid, _ = game.step(jnp.zeros(2), jnp.array([[0.5]]), jax.random.key(0))
    assert_allclose(after, [0.0, 0.0], atol=1e-6)
    assert paid[0] == 0
    # hanging, pushed with all torque: ω = 15·sin π·0.05 + 3·2·0.05 = 0.3, θ = π + 0.05·0.3; u = −(π² + 0.004)
    after, paid, _ = game.step(jnp.array([jnp.pi, 0.0]), jnp.array([[1.0]]), jax.random.key(0))
    assert_allclose(after, [np.pi + 0.015, 0.3], atol=1e-5)
    assert paid[0] == pytest.approx(-(np.pi**2 + 0.004), rel=1e-5)
