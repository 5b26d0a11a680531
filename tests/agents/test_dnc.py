"""The DNC against a reference of our own, against DeepMind's numbers, at its edges, and on the copy task."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array, Float
from numpy.testing import assert_allclose

from potluck.agents.dnc import (
    DNC,
    Controller,
    DNCSize,
    Interface,
    Memory,
    State,
    access,
    allocation,
    interface_size,
    parse,
)
from tests.agents import dnc_reference as reference

WORDS, WIDTH, HEADS, HIDDEN = 8, 6, 2, 12
INPUTS, OUTPUTS = 3, 4
CONTROLLERS: tuple[Controller, ...] = get_args(Controller)


def small(controller: Controller, seed: int = 0) -> DNC:
    return DNC.create(INPUTS, OUTPUTS, DNCSize(WORDS, WIDTH, HEADS, HIDDEN), controller, jax.random.key(seed))


def play(dnc: DNC, xs: Float[Array, "steps inputs"]) -> tuple[State, Float[Array, "steps outputs"], Memory]:
    """The state at the end, every output, every memory."""

    def step(state: State, x: Array) -> tuple[State, tuple[Array, Memory]]:
        state, y = dnc(state, x)
        return state, (y, state.memory)

    state, (ys, memories) = jax.lax.scan(step, dnc.initial(), xs)
    return state, ys, memories


def named(tree: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of a module by their path, such as `interface.weight`."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf) for path, leaf in leaves}


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def tolerance(request: pytest.FixtureRequest) -> Iterator[float]:
    """Both precisions of JAX, and how well the reference must be met in each."""
    with jax.enable_x64(request.param):
        yield 1e-9 if request.param else 1e-5


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_twenty_steps_are_those_of_the_reference(controller: Controller, tolerance: float) -> None:
    dnc, xs = small(controller), 2 * jax.random.normal(jax.random.key(1), (20, INPUTS))
    _, ys, memories = jax.jit(play)(dnc, xs)
    expected, states = reference.run(named(dnc), list(np.asarray(xs)), WORDS, WIDTH, HEADS)
    assert_allclose(ys, expected.real, rtol=0, atol=tolerance)
    # Words written alike differ by less than a rounding error, so which comes first is not comparable.
    usage = np.array([state.usage.real for state in states])
    assert_allclose(np.sort(memories.usage), np.sort(usage), rtol=0, atol=tolerance)
    assert_allclose(memories.write.sum(-1), [state.write.real.sum() for state in states], rtol=0, atol=tolerance)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_gradients_over_twenty_steps_are_those_of_the_reference(controller: Controller, tolerance: float) -> None:
    dnc, xs = small(controller), 2 * jax.random.normal(jax.random.key(1), (20, INPUTS))
    rng = np.random.default_rng(2)
    told = rng.normal(size=(20, OUTPUTS)) / 20

    def loss(both: tuple[DNC, Array]) -> Array:
        return (play(*both)[1] * told).sum()

    gradient = jax.jit(jax.grad(loss))((dnc, xs))
    slopes = named(gradient[0]) | {"xs": np.asarray(gradient[1])}
    weights = named(dnc) | {"xs": np.asarray(xs)}
    for name, slope in slopes.items():
        direction = rng.normal(size=slope.shape) / np.sqrt(slope.size)
        moved = weights | {name: weights[name] + 1e-30j * direction}
        outputs, _ = reference.run(moved, list(moved["xs"]), WORDS, WIDTH, HEADS)
        expected = (outputs * told).sum().imag / 1e-30
        assert_allclose((slope * direction).sum(), expected, rtol=tolerance, atol=tolerance, err_msg=name)


def golden() -> dict[str, np.ndarray[Any, Any]]:
    """Six steps of DeepMind's memory access with their gradients."""
    with np.load(Path(__file__).with_name("dnc_memory_access.npz"), allow_pickle=False) as file:
        return dict(file)


def asked(weights: dict[str, Array], x: Float[Array, " inputs"], width: int, heads: int) -> Interface:
    """The interface of DeepMind's module, which has one linear layer for each part, in the order of `parse`."""
    vectors = ["read_keys", "write_keys", "write_vectors"]
    gates = ["erase_vectors", "free_gate", "allocation_gate", "write_gate"]
    parts = [*vectors, *gates, "read_strengths", "write_strengths", "read_mode"]
    raw = jnp.concatenate([x @ weights[f"{part}__w"] + weights[f"{part}__b"] for part in parts])
    return parse(raw, width, heads)


def test_values_and_gradients_are_deepminds() -> None:
    file = golden()
    heads, width = file["out"].shape[-2:]
    words = file["s_usage"].shape[-1]
    weights = {name[2:]: jnp.asarray(value) for name, value in file.items() if name.startswith("p_")}

    def sequence(weights: dict[str, Array], xs: Array) -> tuple[Array, Memory]:
        def step(memory: Memory, x: Array) -> tuple[Memory, tuple[Array, Memory]]:
            memory, read = access(memory, asked(weights, x, width, heads))
            return memory, (read, memory)

        return jax.lax.scan(step, Memory.empty(words, width, heads), xs)[1]

    def loss(weights: dict[str, Array], xs: Array) -> tuple[Array, tuple[Array, Memory]]:
        read, memories = jax.vmap(partial(sequence, weights), 1, 1)(xs)
        return ((read - file["tgt"]) ** 2).sum(), (read, memories)

    run = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    (value, (read, memories)), (slopes, slope_xs) = run(weights, jnp.asarray(file["x"]))
    assert_allclose(read, file["out"], rtol=0, atol=1e-5)
    assert_allclose(value, file["loss"], rtol=1e-5)
    assert_allclose(np.sort(memories.usage), np.sort(file["s_usage"]), rtol=0, atol=1e-5)
    assert_allclose(slope_xs, file["gx"], rtol=0, atol=1e-5)
    for name, slope in slopes.items():
        assert_allclose(slope, file[f"g_{name}"], rtol=0, atol=1e-5, err_msg=name)


def test_the_interface_has_rw_3w_5r_3_numbers() -> None:
    assert interface_size(width=16, heads=4) == 4 * 16 + 3 * 16 + 5 * 4 + 3
    assert parse(jnp.zeros(interface_size(16, 4)), 16, 4).read_keys.shape == (4, 16)


def finite(tree: Any) -> bool:
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))


def full() -> Memory:
    """Every word used, alike, and under the heads of the last step."""
    even, one = jnp.full(WORDS, 1 / WORDS), jnp.zeros(WORDS).at[0].set(1)
    return Memory(
        contents=jnp.ones((WORDS, WIDTH)),
        usage=jnp.ones(WORDS),
        link=jnp.outer(one, even).at[0, 0].set(0),
        precedence=even,
        write=one,
        reads=jnp.stack([one, even]),
    )


@pytest.mark.parametrize("raw", [0.0, 30.0, -30.0])
@pytest.mark.parametrize("memory", [Memory.empty(WORDS, WIDTH, HEADS), full()], ids=["zero memory", "full memory"])
def test_nothing_is_nan_at_the_edges(memory: Memory, raw: float) -> None:
    def loss(both: tuple[Memory, Array]) -> tuple[Array, Any]:
        after, read = access(both[0], parse(both[1], WIDTH, HEADS))
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(after)) + read.sum(), after

    size = interface_size(WIDTH, HEADS)
    assert finite(jax.jit(jax.value_and_grad(loss, has_aux=True))((memory, jnp.full(size, raw))))


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_nothing_is_nan_over_500_steps(controller: Controller) -> None:
    def loss(both: tuple[DNC, Array]) -> tuple[Array, Any]:
        _, ys, memories = play(*both)
        return (ys**2).mean(), memories

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))
    for scale in (0.0, 1.0, 30.0):
        xs = scale * jax.random.normal(jax.random.key(3), (500, INPUTS))
        assert finite(run((small(controller), xs)))


@jax.jit
def wander(seed: Array, scale: Array) -> Memory:
    """Memories of 24 steps in which the controller asks for anything."""
    raws = scale * jax.random.normal(jax.random.key(seed), (24, interface_size(WIDTH, HEADS)))

    def step(memory: Memory, raw: Array) -> tuple[Memory, Memory]:
        memory, _ = access(memory, parse(raw, WIDTH, HEADS))
        return memory, memory

    return jax.lax.scan(step, Memory.empty(WORDS, WIDTH, HEADS), raws)[1]


@given(st.integers(0, 2**31 - 1), st.floats(0, 20))
def test_weights_usage_and_links_stay_in_their_ranges(seed: int, scale: float) -> None:
    memories = wander(jnp.asarray(seed), jnp.asarray(scale, jnp.float32))
    slack = 1e-5
    for weights in (memories.write, memories.reads, memories.precedence):
        assert weights.min() >= -slack
        assert weights.sum(-1).max() <= 1 + slack
    assert memories.usage.min() >= -slack
    assert memories.usage.max() <= 1 + slack
    assert memories.link.min() >= -slack
    assert memories.link.sum(-1).max() <= 1 + slack
    assert memories.link.sum(-2).max() <= 1 + slack
    assert not jnp.diagonal(memories.link, axis1=-2, axis2=-1).any()


usages = st.lists(
    st.floats(0, 1, width=32, allow_subnormal=False) | st.sampled_from([0.0, 0.5, 1.0]), min_size=WORDS, max_size=WORDS
)
allocated = jax.jit(lambda usage, told: jax.value_and_grad(lambda u: allocation(u) @ told)(usage))


@given(usages)
def test_allocation_and_its_gradient_are_those_of_a_sort(usage: list[float]) -> None:
    assert_allclose(jax.jit(allocation)(jnp.array(usage)), reference.allocation(np.array(usage)), rtol=0, atol=1e-6)
    told = np.linspace(-1, 1, WORDS)
    _, slopes = allocated(jnp.array(usage), jnp.asarray(told, jnp.float32))
    steps = np.array(usage) + 1e-30j * np.eye(WORDS)
    expected = [reference.allocation(step).imag @ told / 1e-30 for step in steps]
    assert_allclose(slopes, expected, rtol=0, atol=1e-5)


def test_allocation_by_hand() -> None:
    # order: word 1 (0), word 0 (0.5), word 2 (1): 1, then 0.5·0, then 0
    assert_allclose(allocation(jnp.array([0.5, 0.0, 1.0])), [0.0, 1.0, 0.0], atol=2e-6)


def test_the_emptiest_word_is_written_first_however_empty_they_are() -> None:
    assert allocation(jnp.array([1e-10, 0.5, 1e-12])).argmax() == 2


def test_a_vmapped_cell_does_what_single_cells_do() -> None:
    dnc, xs = small("lstm"), jax.random.normal(jax.random.key(4), (5, 7, INPUTS))
    outputs = jax.jit(lambda x: play(dnc, x)[1])
    assert_allclose(jax.vmap(outputs)(xs), jnp.stack([outputs(x) for x in xs]), atol=1e-6)
