"""Files that are complete or not there: written beside their place, renamed into it, and arrays with a hash."""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.lib.format import read_array_header_1_0, read_magic

HASH = 32
Tree = TypeVar("Tree")


def write_arrays(place: Path, mark: bytes, about: dict[str, Any], tree: Any, *, private: bool = False) -> None:
    """A mark, a hash, a line of JSON, then the arrays of a tree; a fault leaves what was there before.

    Where it is `private`, nobody but its owner may read it.
    """
    content = io.BytesIO()
    content.write(json.dumps(about).encode() + b"\n")
    eqx.tree_serialise_leaves(content, jax.tree.map(plain, eqx.filter(tree, eqx.is_array)))
    payload = content.getbuffer()
    _replace(place, mark, hashlib.sha256(payload).digest(), payload, private=private)


def read_arrays(place: Path, mark: bytes, like: Callable[[dict[str, Any]], Tree]) -> tuple[dict[str, Any], Tree]:
    """What was written, given a tree of its shape; a ValueError where the file is not as it was written."""
    content = place.read_bytes()
    if not content.startswith(mark):
        raise ValueError("it is another kind of file")
    written, payload = content[len(mark) :][:HASH], content[len(mark) + HASH :]
    if hashlib.sha256(payload).digest() != written:
        raise ValueError("its hash is wrong")
    line, _, arrays = payload.partition(b"\n")
    about = json.loads(line)
    wanted, rest = eqx.partition(like(about), lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    stream = io.BytesIO(arrays)
    numbers = jax.tree.map(lambda leaf: _read_array(stream, _plain_shape(leaf)), wanted)
    if stream.read(1):
        raise ValueError("it holds more arrays than belong there")
    found: Tree = eqx.combine(jax.tree.map(_keyed, numbers, wanted), rest)
    return about, found


def _read_array(stream: io.BytesIO, wanted: jax.ShapeDtypeStruct | Array) -> Array:
    """One array, of the shape that is expected and no other: a file cannot ask for memory, nor unpack to more."""
    read_magic(stream)
    shape, fortran, dtype = read_array_header_1_0(stream)
    if dtype.kind == "V" and dtype.itemsize == wanted.dtype.itemsize:  # bfloat16 has no name in the format
        dtype = wanted.dtype
    if (shape, dtype) != (wanted.shape, wanted.dtype) or fortran:
        raise ValueError(f"its arrays have other shapes: {dtype}{list(shape)} for {wanted.dtype}{list(wanted.shape)}")
    content = stream.read(math.prod(shape) * dtype.itemsize)
    return jnp.asarray(np.frombuffer(content, dtype).reshape(shape))


def write_text(place: Path, text: str) -> None:
    """Text for people and programs; a fault leaves what was there before."""
    _replace(place, text.encode(), private=False)


def write_private_bytes(place: Path, content: bytes) -> None:
    """What only its owner may read; a fault leaves what was there before."""
    _replace(place, content, private=True)


def _replace(place: Path, *parts: bytes | memoryview, private: bool) -> None:
    if place.exists() and not place.is_file():  # to rename onto a device would do away with it
        raise OSError(errno.EINVAL, "not a file that can be replaced", str(place))
    beside = place.with_name(f"{place.name}.part")
    try:
        with os.fdopen(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666), "wb"
        ) as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def plain(leaf: Any) -> Any:
    """Random keys as the numbers behind them."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _plain_shape(leaf: Array | jax.ShapeDtypeStruct) -> Array | jax.ShapeDtypeStruct:
    """Shape and kind of the numbers behind a leaf."""
    return jax.eval_shape(plain, leaf) if _is_key(leaf) else leaf


def _keyed(leaf: Any, wanted: Any) -> Any:
    return jax.random.wrap_key_data(leaf) if _is_key(wanted) else leaf
