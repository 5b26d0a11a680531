"""The copy task: 1 to 8 words of 6 bits, then a mark, then blanks while the words are to be repeated."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from potluck.agents.dnc import DNC, Controller, DNCSize

BITS, LONGEST, HIDDEN, BATCH, ITERATIONS = 6, 8, 64, 16, 4000


class Episode(eqx.Module):
    """What is shown, what is to be said, and when."""

    shown: Float[Array, "steps inputs"]
    said: Float[Array, "steps bits"]
    due: Bool[Array, " steps"]


def episode(key: PRNGKeyArray) -> Episode:
    for_length, for_bits = jax.random.split(key)
    length = jax.random.randint(for_length, (), 1, LONGEST + 1)
    words = jax.random.bernoulli(for_bits, shape=(LONGEST, BITS)).astype(jnp.float32)
    step = jnp.arange(2 * LONGEST + 1)
    heard = jnp.where((step < length)[:, None], words[step.clip(0, LONGEST - 1)], 0)
    due = (step > length) & (step <= 2 * length)
    said = jnp.where(due[:, None], words[(step - length - 1).clip(0, LONGEST - 1)], 0)
    return Episode(jnp.concatenate([heard, (step == length)[:, None]], axis=1), said, due)


class LSTM(eqx.Module):
    """The controller without the memory."""

    cell: eqx.nn.LSTMCell
    output: eqx.nn.Linear

    def initial(self) -> tuple[Array, Array]:
        return jnp.zeros(HIDDEN), jnp.zeros(HIDDEN)

    def __call__(self, state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        state = self.cell(x, state)
        return state, self.output(state[0])


def logits(network: Any, shown: Float[Array, "steps inputs"]) -> Float[Array, "steps bits"]:
    outputs: Array = jax.lax.scan(lambda state, x: network(state, x), network.initial(), shown)[1]
    return outputs


def loss(network: Any, key: PRNGKeyArray) -> Float[Array, ""]:
    episodes = jax.vmap(episode)(jax.random.split(key, BATCH))
    guesses = jax.vmap(lambda shown: logits(network, shown))(episodes.shown)
    surprise: Array = optax.sigmoid_binary_cross_entropy(guesses, episodes.said).mean(-1)
    return (surprise * episodes.due).sum() / episodes.due.sum()


@eqx.filter_jit
def bit_error_after_training(network: Any, key: PRNGKeyArray) -> Float[Array, ""]:
    """Share of wrong bits in 1,000 fresh episodes after all iterations of Adam at 1e-3."""
    weights, form = eqx.partition(network, eqx.is_array)
    adam = optax.adam(1e-3)

    def step(carry: tuple[Any, optax.OptState], key: PRNGKeyArray) -> tuple[tuple[Any, optax.OptState], None]:
        weights, memory = carry
        gradient = jax.grad(lambda weights: loss(eqx.combine(weights, form), key))(weights)
        change, memory = adam.update(gradient, memory)
        return (optax.apply_updates(weights, change), memory), None

    for_training, for_test = jax.random.split(key)
    keys = jax.random.split(for_training, ITERATIONS)
    (weights, _), _ = jax.lax.scan(step, (weights, adam.init(weights)), keys)
    fresh = jax.vmap(episode)(jax.random.split(for_test, 1000))
    guesses = jax.vmap(lambda shown: logits(eqx.combine(weights, form), shown))(fresh.shown)
    wrong = ((guesses > 0) != fresh.said).mean(-1)
    return (wrong * fresh.due).sum() / fresh.due.sum()


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
def test_a_dnc_learns_to_copy(controller: Controller) -> None:
    for_weights, for_work = jax.random.split(jax.random.key(0))
    dnc = DNC.create(BITS + 1, BITS, DNCSize(16, 12, 1, HIDDEN), controller, for_weights)
    assert bit_error_after_training(dnc, for_work) < 0.01


@pytest.mark.slow
def test_an_lstm_of_the_same_size_does_not_learn_to_copy() -> None:
    for_cell, for_output, for_work = jax.random.split(jax.random.key(0), 3)
    lstm = LSTM(eqx.nn.LSTMCell(BITS + 1, HIDDEN, key=for_cell), eqx.nn.Linear(HIDDEN, BITS, key=for_output))
    assert bit_error_after_training(lstm, for_work) > 0.05
