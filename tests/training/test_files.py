"""Arrays in a file: everything that a learner may keep in its state comes back."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.training.files import read_arrays, write_arrays

MARK = b"test\n"
TREE = {
    "key": jax.random.key(7),
    "keys": jax.random.split(jax.random.key(1), 3),
    "flags": jnp.array([True, False]),
    "counts": jnp.array([[1, -2]], jnp.int32),
    "scalar": jnp.asarray(0.5),
    "half": jnp.array([1.5, -2.0], jnp.bfloat16),
    "none": jnp.zeros((0, 3)),
    "text": "static",
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", MARK, {"said": 1}, TREE)
    about, found = read_arrays(tmp_path / "a", MARK, lambda _: TREE)
    assert about == {"said": 1}
    assert found["text"] == "static"
    for name in ("key", "keys"):
        assert found[name].dtype == TREE[name].dtype  # type: ignore[attr-defined]
        assert bool(jnp.all(jax.random.key_data(found[name]) == jax.random.key_data(TREE[name])))  # type: ignore[arg-type]
    for name in ("flags", "counts", "scalar", "half", "none"):
        np.testing.assert_array_equal(found[name], TREE[name])


def test_a_shorter_file_is_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", MARK, {}, {"x": jnp.zeros(3)})
    with pytest.raises(ValueError, match="other shapes: float32\\[3\\] for float32\\[4\\]"):
        read_arrays(tmp_path / "a", MARK, lambda _: {"x": jnp.zeros(4)})
    with pytest.raises(ValueError, match="more arrays than belong there"):
        read_arrays(tmp_path / "a", MARK, lambda _: {"x": None})
