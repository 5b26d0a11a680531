from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def double_precision() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)
