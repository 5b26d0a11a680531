"""The differentiable neural computer once more, with loops and an explicit sort in NumPy.

Every function is analytic, so that a complex step (f(x + ih).imag / h) gives its derivative to the last digit;
taking the real part is then what stopping a gradient is elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = Any  # an array, real or complex

EPSILON = 1e-6


def sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


def softplus(x: Values) -> Values:
    return np.log(1 + np.exp(x))


def softmax(x: Values) -> Values:
    grown = np.exp(x - x.real.max())
    return grown / grown.sum()


def length(x: Values) -> Values:
    return np.sqrt((x * x).sum() + EPSILON)


def content(contents: Values, key: Values, strength: Values) -> Values:
    cosines = [(key * word).sum() / (length(key) * length(word) + EPSILON) for word in contents]
    return softmax(strength * np.array(cosines))


def allocation(usage: Values) -> Values:
    used = EPSILON + (1 - EPSILON) * usage
    weights = np.zeros_like(used)
    product = np.ones((), used.dtype)
    for word in np.argsort(usage.real, kind="stable"):
        weights[word] = (1 - used[word]) * product
        product = product * used[word]
    return weights


@dataclass
class Memory:
    contents: Values
    usage: Values
    link: Values
    precedence: Values
    write: Values
    reads: Values

    @classmethod
    def empty(cls, words: int, width: int, heads: int) -> "Memory":
        shapes = [(words, width), (words,), (words, words), (words,), (words,), (heads, words)]
        return cls(*(np.zeros(shape, complex) for shape in shapes))


def access(memory: Memory, raw: Values) -> tuple[Memory, Values]:
    """One step of the memory, asked by the controller's RW + 3W + 5R + 3 numbers."""
    words, width = memory.contents.shape
    heads = len(memory.reads)
    cuts = np.cumsum([heads * width, width, width, width, heads, 1, 1, heads, 1])
    keys, write_key, vector, erase, free, allocate, gate, strengths, strength, modes = np.split(raw, cuts)

    usage = np.zeros(words, complex)
    for i in range(words):
        before = memory.write[i].real
        usage[i] = memory.usage[i] + before - memory.usage[i] * before
        for head in range(heads):
            usage[i] = usage[i] * (1 - sigmoid(free)[head] * memory.reads[head, i])

    share = sigmoid(allocate)
    found = content(memory.contents, write_key, softplus(strength))
    write = sigmoid(gate) * (share * allocation(usage) + (1 - share) * found)

    contents, link = memory.contents.copy(), np.zeros((words, words), complex)
    for i in range(words):
        contents[i] = contents[i] * (1 - write[i] * sigmoid(erase)) + write[i] * vector
        for j in range(words):
            if i != j:
                link[i, j] = (1 - write[i] - write[j]) * memory.link[i, j] + write[i] * memory.precedence[j]

    reads = np.zeros((heads, words), complex)
    for head, last in enumerate(memory.reads):
        backward, forward, matching = softmax(modes.reshape(heads, 3)[head])
        matched = content(contents, keys.reshape(heads, width)[head], softplus(strengths)[head])
        reads[head] = backward * (link.T @ last) + forward * (link @ last) + matching * matched

    precedence = (1 - write.sum()) * memory.precedence + write
    return Memory(contents, usage, link, precedence, write, reads), reads @ contents


def run(
    weights: Mapping[str, Values], xs: Sequence[Values], words: int, width: int, heads: int
) -> tuple[Values, list[Memory]]:
    """Outputs and memories of a whole sequence; an LSTM controller where the weights have one, gates i, f, g, o."""
    hidden = cell = np.zeros(weights["interface.weight"].shape[1], complex)
    memory, reads = Memory.empty(words, width, heads), np.zeros((heads, width), complex)
    outputs, memories = [], []
    for x in xs:
        seen = np.concatenate([x, reads.ravel()])
        if "controller.weight_hh" in weights:
            gates = weights["controller.weight_ih"] @ seen + weights["controller.weight_hh"] @ hidden
            keep, forget, new, show = np.split(gates + weights["controller.bias"], 4)
            cell = sigmoid(forget) * cell + sigmoid(keep) * np.tanh(new)
            hidden = sigmoid(show) * np.tanh(cell)
        else:
            hidden = np.tanh(weights["controller.weight"] @ seen + weights["controller.bias"])
        memory, reads = access(memory, weights["interface.weight"] @ hidden + weights["interface.bias"])
        told = np.concatenate([hidden, reads.ravel()])
        outputs.append(weights["output.weight"] @ told + weights["output.bias"])
        memories.append(memory)
    return np.array(outputs), memories
