"""Runs side by side in one compiled program: seeds of one run, or cells and seeds of a sweep.

A lane is one of them. Arrays that differ between lanes have a leading axis of lanes; those that all lanes have in
common, such as a data set, are kept once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from potluck.training.files import plain

T = TypeVar("T")
Result = TypeVar("Result")


class Lanes(eqx.Module, Generic[T]):
    """Several modules of one shape: `tree` with a leading axis on the leaves that `own` marks."""

    tree: T
    own: PyTree[bool]
    count: int

    def some(self, numbers: range) -> "Lanes[T]":
        """Those of several lanes, one beside the other."""
        own, common = eqx.partition(self.tree, self.own)
        part: T = eqx.combine(jax.tree.map(lambda leaf: leaf[numbers.start : numbers.stop], own), common)
        return Lanes(part, self.own, len(numbers))

    def lane(self, number: int) -> T:
        own, common = eqx.partition(self.tree, self.own)
        one: T = eqx.combine(jax.tree.map(lambda leaf: leaf[number], own), common)
        return one


def signature(module: Any) -> tuple[Any, list[Any]]:
    """Structure, static fields, and the shape and type of every array: what is compiled in."""
    leaves, structure = jax.tree.flatten(module)
    return structure, [(leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf for leaf in leaves]


def alike(one: Any, other: Any) -> bool:
    """Whether two modules can be lanes of one program."""
    return bool(signature(one) == signature(other))


def stack(modules: Sequence[T]) -> Lanes[T]:
    """Lanes of modules that are alike."""
    if not all(alike(modules[0], other) for other in modules[1:]):
        raise ValueError("lanes must have the same structure and shapes")
    columns = list(zip(*(jax.tree.leaves(module) for module in modules), strict=True))
    structure = jax.tree.structure(modules[0])
    own = [not _same(column) for column in columns]
    leaves = [jnp.stack(column) if apart else column[0] for column, apart in zip(columns, own, strict=True)]
    return Lanes(jax.tree.unflatten(structure, leaves), jax.tree.unflatten(structure, own), len(modules))


def _same(column: Sequence[Any]) -> bool:
    first = column[0]
    if not eqx.is_array(first):
        return True
    return all(other is first or np.array_equal(plain(first), plain(other)) for other in column[1:])


def each_lane(function: Callable[..., Result], lanes: Lanes[Any], *by_lane: Any) -> Result:
    """`vmap` of function(module, …) over lanes and over the leading axis of what comes with them."""
    own, common = eqx.partition(lanes.tree, lanes.own)
    arrays, rest = eqx.partition(by_lane, eqx.is_array)

    def one(own: Any, arrays: Any) -> Result:
        return function(eqx.combine(own, common), *eqx.combine(arrays, rest))

    mapped: Result = jax.vmap(one)(own, arrays)
    return mapped
