"""What a person's own file may hold, and what becomes of it."""

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given

from potluck.errors import PotluckError
from potluck.federation import Dataset, load, run
from tests.federation.conftest import federation

COUNT = 60


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return path


def loaded(folder: Path, **arrays: Any) -> Dataset:
    return load(f"folder:{saved(folder, **arrays)}")


def table(count: int = COUNT) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that two columns tell apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, count)
    return rng.normal(size=(count, 2)) + 4 * y[:, None], y


def test_a_column_of_large_numbers_does_not_drown_the_others(tmp_path: Path) -> None:
    x, y = table(300)
    wide = np.column_stack([x, np.random.default_rng(1).uniform(0, 1e6, 300)])
    np.testing.assert_array_equal(loaded(tmp_path, X=wide, y=y).images[:, :, :2], loaded(tmp_path, X=x, y=y).images)
    fed = federation(task=f"folder:{saved(tmp_path, X=wide, y=y)}", samples=50, batch_size=10)
    assert run(fed, np.ones(4), jax.random.key(0), 15).precision[-1] > 0.9


def test_the_range_is_that_of_the_training_part(tmp_path: Path) -> None:
    x, y = np.tile(np.arange(COUNT, dtype=float)[:, None], 3), np.arange(COUNT) % 2
    data = loaded(tmp_path, X=x, y=y)
    assert (data.images.min(), data.images.max()) == (0, 255)
    secret = np.random.default_rng(0).permutation(COUNT)[: COUNT // 5]
    x[secret[0]] = 1e9
    x[secret[1]] = -1e9
    beyond = loaded(tmp_path, X=x, y=y)
    np.testing.assert_array_equal(beyond.images, data.images)
    assert beyond.test_images[:2, 0, 0, 0].tolist() == [255, 0]


@pytest.mark.parametrize(("dtype", "most"), [("float16", 6e4), ("float32", 3e38), ("int8", 127), ("int64", 2**62)])
def test_a_range_wider_than_its_own_type_is_mapped_whole(tmp_path: Path, dtype: str, most: float) -> None:
    x = np.full((COUNT, 2, 2), most, dtype)
    x[::2] = -most
    data = loaded(tmp_path, X=x, y=np.arange(COUNT) % 2)
    np.testing.assert_array_equal(data.images[:, 0, 0, 0], np.where(data.labels == 1, 255, 0))


def test_images_share_one_range_and_uint8_stays(tmp_path: Path) -> None:
    x, y = np.zeros((COUNT, 2, 2)), np.arange(COUNT) % 2
    x[:, 0, 0], x[:, 1, 1] = 1.0, 0.2
    assert loaded(tmp_path, X=x, y=y).images[0, :, :, 0].tolist() == [[255, 0], [0, 51]]
    kept = np.full((COUNT, 2, 2, 3), 7, np.uint8)
    assert (loaded(tmp_path, X=kept, y=y).test_images == 7).all()


X, Y = table()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X + 1j, "y": Y}, "X must hold numbers of shape .* got complex128"),
        ({"X": X > 0, "y": Y}, "X must hold numbers of shape .* got bool"),
        ({"X": np.where(Y[:, None] > 0, X * 0 + 1.7e308, -1.7e308), "y": Y}, "X ranges too widely"),
        ({"X": X[:0], "y": Y[:0]}, r"X is empty, its shape is \(0, 2\)"),
        ({"X": X[:, :0], "y": Y}, r"X is empty, its shape is \(60, 0\)"),
        ({"X": X, "y": np.where(Y > 0, Y, np.nan)}, "y has NaN or infinite"),
        ({"X": X, "y": Y + 0.5}, r"y must hold whole numbers or text, got \d\.5"),
        ({"X": X, "y": Y + 0j}, "y must hold whole numbers or text, got complex128"),
        ({"X": X, "y": Y * 0}, "y has one class only"),
        ({"X": X, "y": Y, "silo": np.where(Y > 0, Y, np.inf)}, "silo has NaN or infinite"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        loaded(tmp_path, **arrays)


@pytest.mark.parametrize("y", [Y.astype(float), np.array(["cat", "dog", "eel"])[Y], Y - 7, Y > 0])
def test_classes_may_be_whole_numbers_or_text(tmp_path: Path, y: np.ndarray) -> None:
    data = loaded(tmp_path, X=X, y=y)
    assert sorted(set(data.labels)) == list(range(data.classes))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40).filter(lambda sizes: sum(sizes) >= 10))
def test_holding_out_leaves_every_silo_a_sample(sizes: list[int]) -> None:
    silo = np.repeat(np.arange(len(sizes)), sizes)
    count = len(silo)
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"X": np.arange(2 * count).reshape(-1, 2), "y": np.arange(count) % 2, "silo": silo}
        if max(sizes) == 1:
            with pytest.raises(PotluckError, match="every silo has one sample only"):
                loaded(Path(folder), **arrays)
            return
        data = loaded(Path(folder), **arrays)
    assert data.silo is not None
    assert set(data.silo) == set(range(len(sizes)))
    assert len(data.labels) + len(data.test_labels) == count
    assert 1 <= len(data.test_labels) <= round(count / 5)


def test_a_silo_with_one_sample_trains_on_it(tmp_path: Path) -> None:
    x, y = table()
    unlucky = np.random.default_rng(0).permutation(COUNT)[0]
    silo = (np.arange(COUNT) == unlucky).astype(int)
    fed = federation(
        task=f"folder:{saved(tmp_path, X=x, y=y, silo=silo)}", silos=2, partition="natural", samples=None, batch_size=10
    )
    assert run(fed, np.ones(2), jax.random.key(0), 1).precision.shape == (1,)


def test_without_small_silos_the_first_fifth_of_the_deck_is_held_out(tmp_path: Path) -> None:
    x, y = table()
    order = np.random.default_rng(0).permutation(COUNT)
    for arrays in ({}, {"silo": np.arange(COUNT) % 3}):
        data = loaded(tmp_path, X=x, y=y, **arrays)
        np.testing.assert_array_equal(data.test_labels, y[order[: COUNT // 5]])
        np.testing.assert_array_equal(data.labels, y[order[COUNT // 5 :]])
