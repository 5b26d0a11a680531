"""How a run is compiled and sharded: which matrix products it gets, on which cores, with which keys."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.federation import run, run_games, runs
from tests.federation.conftest import fashion, federation


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing compiled before, and nothing left for others."""
    runs._compiled.cache_clear()
    yield
    runs._compiled.cache_clear()


def test_library_products_are_for_large_layers_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[bool] = []

    def watched(function: Callable[..., Any], library: bool) -> Callable[..., Any]:
        chosen.append(library)
        return function

    monkeypatch.setattr(runs, "_compiled", watched)
    runs.compiled(runs.trace, fashion())
    runs.compiled(runs.trace, federation())
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    runs.compiled(runs.trace, fashion())
    assert chosen == [True, False, False]


@pytest.mark.usefixtures("fresh")
def test_the_library_is_what_xla_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    inner = eqx.filter_jit

    def watched(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        asked.append(options.get("compiler_options"))
        return inner(function, **options)

    monkeypatch.setattr(eqx, "filter_jit", watched)
    runs._compiled(runs.trace, True)
    runs._compiled(runs.trace, False)
    assert asked == [runs.LIBRARY_PRODUCTS, None]


@pytest.mark.usefixtures("fresh")
def test_a_version_of_xla_without_the_library_trains_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fed, key = fashion(), jax.random.key(0)
    plain = runs._compiled(runs.trace, False)(runs.shard(fed), np.ones((2, 4), np.float32), key)
    monkeypatch.setattr(runs, "LIBRARY_PRODUCTS", {"xla_cpu_no_such_option": "1"})
    assert_array_equal(run(fed, np.ones(4), key, 2).precision, plain.precision)


def test_a_run_with_library_products_may_be_part_of_a_larger_program() -> None:
    fed, keys = fashion(), jax.random.split(jax.random.key(0), 2)
    alone = run(fed, np.ones(4), keys[0], 2).precision
    assert_allclose(jax.jit(lambda key: run(fed, np.ones(4), key, 2).precision)(keys[0]), alone, atol=0.02)
    games = jax.jit(lambda keys: run_games(fed, np.ones((2, 4)), keys, 2).precision)(keys)
    assert_allclose(games[0], alone, atol=0.02)


def test_no_key_is_used_twice() -> None:
    fed = federation(dynamics="redraw", epochs=2)
    with jax.debug_key_reuse(True):
        run(fed, np.ones(4), jax.random.key(0), 2)
