"""Two hidden layers, a memory after them where one is wanted, and a linear head."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from potluck.agents import dnc

__all__ = ["MemorySize", "Network"]


class MemorySize(eqx.Module):
    """How large a differentiable neural computer is."""

    words: int = 10
    width: int = 16
    heads: int = 1
    hidden: int = 64


class Network(eqx.Module):
    """y = head(h + memory(h)), h = tanh(W₂ tanh(W₁ x)); without a memory y = head(h)."""

    layers: tuple[eqx.nn.Linear, eqx.nn.Linear]
    memory: dnc.DNC | None
    head: eqx.nn.Linear

    @classmethod
    def create(
        cls, inputs: int, outputs: int, hidden: tuple[int, int], memory: MemorySize | None, key: PRNGKeyArray
    ) -> "Network":
        """Fresh weights; the head starts near zero, so that at first nothing is preferred."""
        first, second, remembered, last = jax.random.split(key, 4)
        head = eqx.nn.Linear(hidden[1], outputs, key=last)
        return cls(
            layers=(eqx.nn.Linear(inputs, hidden[0], key=first), eqx.nn.Linear(hidden[0], hidden[1], key=second)),
            memory=None
            if memory is None
            else dnc.DNC.create(
                hidden[1],
                hidden[1],
                words=memory.words,
                width=memory.width,
                heads=memory.heads,
                hidden=memory.hidden,
                controller="feedforward",
                key=remembered,
            ),
            head=eqx.tree_at(lambda h: (h.weight, h.bias), head, (0.1 * head.weight, jnp.zeros(outputs))),
        )

    def rest(self) -> dnc.State | None:
        """What is remembered before a game."""
        return None if self.memory is None else self.memory.initial()

    def features(self, x: Float[Array, " inputs"]) -> Float[Array, " hidden"]:
        """The hidden layers, which remember nothing."""
        return jnp.tanh(self.layers[1](jnp.tanh(self.layers[0](x))))

    def __call__(
        self, recall: dnc.State | None, x: Float[Array, " inputs"]
    ) -> tuple[dnc.State | None, Float[Array, " outputs"]]:
        """One slot."""
        hidden = self.features(x)
        if self.memory is not None and recall is not None:
            recall, remembered = self.memory(recall, hidden)
            hidden = hidden + remembered
        return recall, self.head(hidden)

    def unroll(
        self, recall: dnc.State | None, xs: Float[Array, "slots inputs"], first: Bool[Array, " slots"]
    ) -> tuple[dnc.State | None, Float[Array, "slots outputs"]]:
        """A window of one game, forgetting wherever a new one begins. Only the memory goes slot by slot."""
        hidden = jax.vmap(self.features)(xs)
        if self.memory is not None and recall is not None:
            memory = self.memory

            def slot(recall: dnc.State, seen: tuple[Array, Array]) -> tuple[dnc.State, Array]:
                return memory(forget(seen[1], memory.initial(), recall), seen[0])

            kept, remembered = jax.lax.scan(slot, recall, (hidden, first))
            recall, hidden = kept, hidden + remembered
        return recall, jax.vmap(self.head)(hidden)


def forget(begins: Bool[Array, ""], rest: dnc.State, recall: dnc.State) -> dnc.State:
    """Start afresh where a game begins."""
    chosen: dnc.State = jax.tree.map(lambda new, old: jnp.where(begins, new, old), rest, recall)
    return chosen
