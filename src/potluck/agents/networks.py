"""Two hidden layers, a differentiable neural computer after them where one is wanted, and a linear head."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from potluck.agents.dnc import DNC, DNCSize, State


class Network(eqx.Module):
    """y = head(h + dnc(h)), h = tanh(W₂ tanh(W₁ x)); without a differentiable neural computer y = head(h)."""

    layers: tuple[eqx.nn.Linear, eqx.nn.Linear]
    dnc: DNC | None
    head: eqx.nn.Linear

    @classmethod
    def create(
        cls, inputs: int, outputs: int, hidden: tuple[int, int], dnc: DNCSize | None, key: PRNGKeyArray
    ) -> "Network":
        """Fresh weights; the head starts near zero, so that at first nothing is preferred."""
        first, second, remembered, last = jax.random.split(key, 4)
        head = eqx.nn.Linear(hidden[1], outputs, key=last)
        return cls(
            layers=(eqx.nn.Linear(inputs, hidden[0], key=first), eqx.nn.Linear(hidden[0], hidden[1], key=second)),
            dnc=None if dnc is None else DNC.create(hidden[1], hidden[1], dnc, "feedforward", remembered),
            head=eqx.tree_at(lambda h: (h.weight, h.bias), head, (0.1 * head.weight, jnp.zeros(outputs))),
        )

    def initial_memory(self) -> State | None:
        return None if self.dnc is None else self.dnc.initial()

    def features(self, x: Float[Array, " inputs"]) -> Float[Array, " hidden"]:
        """The hidden layers, which remember nothing."""
        return jnp.tanh(self.layers[1](jnp.tanh(self.layers[0](x))))

    def __call__(
        self, memory: State | None, x: Float[Array, " inputs"]
    ) -> tuple[State | None, Float[Array, " outputs"]]:
        """One slot."""
        hidden = self.features(x)
        if self.dnc is not None and memory is not None:
            memory, remembered = self.dnc(memory, hidden)
            hidden = hidden + remembered
        return memory, self.head(hidden)

    def unroll(
        self, memory: State | None, xs: Float[Array, "slots inputs"], first: Bool[Array, " slots"]
    ) -> tuple[State | None, Float[Array, "slots outputs"]]:
        """A window of one game, forgetting wherever a new one begins. Only the memory goes slot by slot."""
        hidden = jax.vmap(self.features)(xs)
        if self.dnc is not None and memory is not None:
            dnc = self.dnc

            def slot(memory: State, seen: tuple[Array, Array]) -> tuple[State, Array]:
                hidden, begins = seen
                kept = jax.tree.map(lambda new, old: jnp.where(begins, new, old), dnc.initial(), memory)
                return dnc(kept, hidden)

            kept, remembered = jax.lax.scan(slot, memory, (hidden, first))
            memory, hidden = kept, hidden + remembered
        return memory, jax.vmap(self.head)(hidden)
