"""What a silo compiles to decide is kept beside its state: in a deployment every slot is another process."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

FOLDER, LEAST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


@contextlib.contextmanager
def compiled_beside(place: Path) -> Iterator[None]:
    """Within, JAX keeps what it compiles in `place`.compiled. What the app compiles is the app's own business.

    A cache that this process has already is used as it is.
    """
    least, folder = getattr(jax.config, LEAST), place.with_name(f"{place.name}.compiled")
    if getattr(jax.config, FOLDER) is not None or not _made(folder):
        yield
        return
    _keep_in(str(folder), 0.0)
    try:
        yield
    finally:
        _keep_in(None, least)


def _made(folder: Path) -> bool:
    """A full disk costs the time to compile, and nothing else."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True


def _keep_in(folder: str | None, least: float) -> None:
    """JAX looks at these once, unless it is told to forget what it saw."""
    jax.config.update(FOLDER, folder)
    jax.config.update(LEAST, least)
    compilation_cache.reset_cache()
