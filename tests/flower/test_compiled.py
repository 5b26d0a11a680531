"""What a silo compiles is kept for its next process, and nothing else is."""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.flower.compiled import FOLDER, compiled_beside


@pytest.fixture
def without_a_cache() -> Iterator[None]:
    """As a silo's process begins; the tests have one of their own."""
    before = getattr(jax.config, FOLDER)
    jax.config.update(FOLDER, None)
    yield
    jax.config.update(FOLDER, before)


def compile_anew(number: float) -> None:
    """A program that nobody has compiled yet."""
    jax.jit(lambda x: x * np.float32(number) + jnp.sin(x)).lower(jnp.ones(3)).compile()


@pytest.mark.usefixtures("without_a_cache")
def test_only_what_is_compiled_within_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "agent.state.compiled"
    with compiled_beside(tmp_path / "agent.state"):
        compile_anew(1.25)
    files = {file.name for file in kept.iterdir()}
    assert files
    assert kept.stat().st_mode & 0o077 == 0
    compile_anew(2.25)
    assert {file.name for file in kept.iterdir()} == files
    assert getattr(jax.config, FOLDER) is None


@pytest.mark.usefixtures("without_a_cache")
def test_where_nothing_can_be_kept_nothing_else_is_lost(tmp_path: Path) -> None:
    (tmp_path / "agent.state.compiled").write_text("in the way")
    with compiled_beside(tmp_path / "agent.state"):
        compile_anew(3.25)


@pytest.mark.usefixtures("without_a_cache")
def test_a_cache_of_the_apps_own_is_left_alone(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    jax.config.update(FOLDER, own)
    with compiled_beside(tmp_path / "agent.state"):
        assert getattr(jax.config, FOLDER) == own
    assert getattr(jax.config, FOLDER) == own
    assert not (tmp_path / "agent.state.compiled").exists()
