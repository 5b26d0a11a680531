"""The differentiable neural computer (Graves et al. 2016): a controller beside a memory it reads, writes and frees.

Everything is for one sequence at one step; batching is `vmap` outside, time is `scan`. Conventions are those of
DeepMind's implementation: strengths are softplus, usage sends no gradient to the write weights, ε = 1e-6.
"""

from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

EPSILON = 1e-6

Controller: TypeAlias = Literal["feedforward", "lstm"]


class DNCSize(eqx.Module):
    """How large a differentiable neural computer is: words × width, read heads, hidden units of the controller."""

    words: int = 10
    width: int = 16
    heads: int = 1
    hidden: int = 64


class Memory(eqx.Module):
    """What is stored, how full each word is, in which order words were written, and where heads were last."""

    contents: Float[Array, "words width"]
    usage: Float[Array, " words"]
    link: Float[Array, "words words"]
    precedence: Float[Array, " words"]
    write: Float[Array, " words"]
    reads: Float[Array, "heads words"]

    @classmethod
    def empty(cls, words: int, width: int, heads: int) -> "Memory":
        """Nothing written, nothing used, no head anywhere."""
        return cls(
            contents=jnp.zeros((words, width)),
            usage=jnp.zeros(words),
            link=jnp.zeros((words, words)),
            precedence=jnp.zeros(words),
            write=jnp.zeros(words),
            reads=jnp.zeros((heads, words)),
        )


class Interface(eqx.Module):
    """What the controller asks of the memory in one step, every part in its range."""

    read_keys: Float[Array, "heads width"]
    read_strengths: Float[Array, " heads"]
    write_key: Float[Array, " width"]
    write_strength: Float[Array, ""]
    erase: Float[Array, " width"]
    write_vector: Float[Array, " width"]
    free_gates: Float[Array, " heads"]
    allocation_gate: Float[Array, ""]
    write_gate: Float[Array, ""]
    read_modes: Float[Array, "heads 3"]  # backward, forward, content


def interface_size(width: int, heads: int) -> int:
    """RW + 3W + 5R + 3."""
    return heads * width + 3 * width + 5 * heads + 3


def parse(raw: Float[Array, " size"], width: int, heads: int) -> Interface:
    """Cut a vector of RW + 3W + 5R + 3 numbers into an interface: sigmoid gates, softplus strengths, softmax modes.

    Numbers in the same range lie side by side, so that each function is called once.
    """
    sizes = (heads * width + 2 * width, width + heads + 2, heads + 1, 3 * heads)
    vectors, gates, strengths, modes = jax.lax.split(raw, sizes)
    read_keys, write_key, write_vector = jax.lax.split(vectors, (heads * width, width, width))
    erase, free_gates, (allocation_gate, write_gate) = jax.lax.split(jax.nn.sigmoid(gates), (width, heads, 2))
    strengths = jax.nn.softplus(strengths)
    return Interface(
        read_keys=read_keys.reshape(heads, width),
        read_strengths=strengths[:heads],
        write_key=write_key,
        write_strength=strengths[heads],
        erase=erase,
        write_vector=write_vector,
        free_gates=free_gates,
        allocation_gate=allocation_gate,
        write_gate=write_gate,
        read_modes=jax.nn.softmax(modes.reshape(heads, 3)),
    )


def content(
    contents: Float[Array, "words width"], keys: Float[Array, "*heads width"], strengths: Float[Array, "*heads"]
) -> Float[Array, "*heads words"]:
    """softmax_i(β·cos(k, M_i)), with lengths √(Σx² + ε): an empty word has a gradient."""
    lengths = jnp.sqrt((keys**2).sum(-1) + EPSILON)[..., None] * jnp.sqrt((contents**2).sum(-1) + EPSILON)
    return jax.nn.softmax(strengths[..., None] * (keys @ contents.T) / (lengths + EPSILON))


def next_usage(memory: Memory, free_gates: Float[Array, " heads"]) -> Float[Array, " words"]:
    """Usage u ← (u + w − u∘w)∘Π_r(1 − f_r w_r), from the weights of the step before."""
    written = memory.usage + (1 - memory.usage) * jax.lax.stop_gradient(memory.write)
    return written * (1 - free_gates[:, None] * memory.reads).prod(0)


def allocation(usage: Float[Array, " words"]) -> Float[Array, " words"]:
    """a_j = (1 − u_j)·Π u_i over the words i that are freer than j, ties by index; u is first kept off 0 by ε.

    The product is a sum of logarithms over all pairs: a sort under `vmap` costs XLA more than the rest of a step.
    """
    used = EPSILON + (1 - EPSILON) * usage
    index = jnp.arange(len(usage))
    freer = (usage[:, None] < usage) | ((usage[:, None] == usage) & (index[:, None] < index))
    return (1 - used) * jnp.exp(jnp.log(used) @ freer)


def next_link(
    link: Float[Array, "words words"], precedence: Float[Array, " words"], write: Float[Array, " words"]
) -> Float[Array, "words words"]:
    """L_ij ← (1 − w_i − w_j)L_ij + w_i p_j off the diagonal, L_ii = 0: word i was written right after word j."""
    grown = (1 - write[:, None] - write) * link + write[:, None] * precedence
    return jnp.where(jnp.eye(len(write), dtype=bool), 0, grown)


def access(memory: Memory, interface: Interface) -> tuple[Memory, Float[Array, "heads width"]]:
    """Free, write, link and read, in this order; returns the memory afterwards and one vector per read head.

    w = g_w(g_a·a + (1 − g_a)·c), M ← M∘(1 − w eᵀ) + w vᵀ, p ← (1 − Σw)p + w, and a head's weights mix
    backward Lᵀw_r, forward L w_r and content.
    """
    usage = next_usage(memory, interface.free_gates)
    alike = content(memory.contents, interface.write_key, interface.write_strength)
    gate = interface.allocation_gate
    write = interface.write_gate * (gate * allocation(usage) + (1 - gate) * alike)
    contents = memory.contents * (1 - jnp.outer(write, interface.erase)) + jnp.outer(write, interface.write_vector)
    link = next_link(memory.link, memory.precedence, write)
    before, after = jnp.split(memory.reads @ jnp.concatenate([link, link.T], axis=1), 2, axis=1)
    found = content(contents, interface.read_keys, interface.read_strengths)
    backward, forward, matching = interface.read_modes.T[..., None]
    reads = backward * before + forward * after + matching * found
    precedence = (1 - write.sum()) * memory.precedence + write
    memory = Memory(contents=contents, usage=usage, link=link, precedence=precedence, write=write, reads=reads)
    return memory, reads @ contents


class State(eqx.Module):
    """Between two steps: the memory, what was last read from it, and an LSTM controller's (hidden, cell)."""

    memory: Memory
    reads: Float[Array, "heads width"]
    controller: tuple[Float[Array, " hidden"], Float[Array, " hidden"]] | None


class DNC(eqx.Module):
    """h = controller([x, reads]); the memory answers interface(h); y = output([h, reads])."""

    controller: eqx.nn.Linear | eqx.nn.LSTMCell
    interface: eqx.nn.Linear
    output: eqx.nn.Linear
    size: DNCSize = eqx.field(static=True)

    @classmethod
    def create(cls, inputs: int, outputs: int, size: DNCSize, controller: Controller, key: PRNGKeyArray) -> "DNC":
        """Fresh weights around an empty memory."""
        for_controller, for_interface, for_output = jax.random.split(key, 3)
        layer, read = eqx.nn.LSTMCell if controller == "lstm" else eqx.nn.Linear, size.heads * size.width
        return cls(
            controller=layer(inputs + read, size.hidden, key=for_controller),
            interface=eqx.nn.Linear(size.hidden, interface_size(size.width, size.heads), key=for_interface),
            output=eqx.nn.Linear(size.hidden + read, outputs, key=for_output),
            size=size,
        )

    def initial(self) -> State:
        lstm, rest = isinstance(self.controller, eqx.nn.LSTMCell), jnp.zeros(self.size.hidden)
        return State(
            memory=Memory.empty(self.size.words, self.size.width, self.size.heads),
            reads=jnp.zeros((self.size.heads, self.size.width)),
            controller=(rest, rest) if lstm else None,
        )

    def __call__(self, state: State, x: Float[Array, " inputs"]) -> tuple[State, Float[Array, " outputs"]]:
        """One step of one sequence."""
        seen = jnp.concatenate([x, state.reads.ravel()])
        if isinstance(self.controller, eqx.nn.LSTMCell):
            kept = self.controller(seen, state.controller)
            hidden = kept[0]
        else:
            kept, hidden = None, jnp.tanh(self.controller(seen))
        memory, reads = access(state.memory, parse(self.interface(hidden), self.size.width, self.size.heads))
        return State(memory, reads, kept), self.output(jnp.concatenate([hidden, reads.ravel()]))
