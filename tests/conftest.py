import os
from collections.abc import Iterator
from pathlib import Path

# Before JAX is imported, and for every process that a test starts: compiling takes longer than what most tests compile
# for, so the compiler hardly optimises. `make slow` compiles as users do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import pytest
from hypothesis import settings

from potluck.devices import use_cores
from potluck.registry import HOMES, family

# Before any test module starts JAX: many of them check what is spread over two devices.
use_cores(2)

# What one test or worker compiled is kept for the next.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# Seeded by the test itself: a failure on one machine is a failure on all. Compilation makes first examples slow.
# `make slow` asks for more examples than `make test`.
examples = int(os.environ.get("EXAMPLES", "20"))
settings.register_profile("potluck", max_examples=examples, deadline=None, derandomize=True, print_blob=True)
settings.load_profile("potluck")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take longest begin first, so that nobody waits for them at the end."""
    items.sort(key=lambda item: not any(part in item.nodeid for part in ("flower", "studies/paper", "stage_games")))


@pytest.fixture(autouse=True, scope="module")
def families_as_shipped() -> Iterator[None]:
    """Members that a module registers leave with it: no test depends on which others its worker ran before."""
    families = [family(name) for name in HOMES]
    before = [dict(members._added) for members in families]
    yield
    if before != [members._added for members in families]:
        jax.clear_caches()  # compiled programs know a member by its name
    for members, added in zip(families, before, strict=True):
        members._added.clear()
        members._added.update(added)
