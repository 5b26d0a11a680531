import json
from pathlib import Path

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.federation.curve import Curve, Progress, Stepwise, Sustained, curve, fit
from potluck.scenario import CurvePrecision

KEY = jax.random.key(0)
MEASURED = Path(__file__).parents[2] / "docs" / "data" / "fmnist-learning-curves.json"


def law() -> Curve:
    return curve(CurvePrecision(initial=0.1, ceiling=0.9, scale=100.0, exponent=0.5))


def test_level_by_hand() -> None:
    # 300 samples: 0.9 − 0.8·(1 + 3)^(−½) = 0.5
    assert_allclose(law().level(jnp.array(300.0)), 0.5, rtol=1e-6)


def test_slots_add_up() -> None:
    source = Stepwise(law(), jnp.array([100.0, 200.0]))
    state, _ = source.train(source.init(KEY), jnp.array([1.0, 0.5]), KEY)
    state, precision = source.train(state, jnp.array([0.0, 0.5]), KEY)
    assert float(state.trained) == 300.0
    assert_allclose(precision, 0.5, rtol=1e-6)


def test_a_slot_without_contributions_changes_nothing() -> None:
    source = Stepwise(law(), jnp.array([100.0, 200.0]))
    state, precision = source.train(source.init(KEY), jnp.zeros(2), KEY)
    assert float(state.trained) == 0.0
    assert_allclose([precision, source.measure(state)], 0.1, rtol=1e-6)


def test_sustained_precision_is_the_mean_over_the_slots_of_a_game() -> None:
    samples, played = jnp.array([100.0, 200.0]), jnp.array([0.3, 0.9])
    source = Stepwise(law(), samples)

    def slot(state: Progress, key: Array) -> tuple[Progress, Array]:
        return source.train(state, played, key)

    _, precisions = jax.lax.scan(slot, source.init(KEY), jax.random.split(KEY, 30))
    assert_allclose(Sustained(law(), samples, 30)(played), precisions.mean(), rtol=1e-5)


@eqx.filter_jit
def bends(source: Curve, trained: Array) -> tuple[Array, Array]:
    return jax.grad(source.level)(trained), jax.grad(jax.grad(source.level))(trained)


@given(st.floats(0.01, 3), st.floats(1, 1e5), st.floats(0, 1e6))
def test_more_data_never_hurts_and_helps_less_and_less(exponent: float, scale: float, trained: float) -> None:
    rises, bend = bends(curve(CurvePrecision(exponent=exponent, scale=scale)), jnp.asarray(trained))
    assert float(rises) >= 0
    assert float(bend) <= 0


def test_fit_recovers_a_known_law() -> None:
    known, contributed = law(), np.array([50.0, 200.0, 1000.0, 4000.0])
    means = [float(Sustained(known, jnp.array([x]), 30)(jnp.ones(1))) for x in contributed]
    found = fit(contributed, np.array(means), slots=30, initial=0.1)
    assert_allclose([found.ceiling, found.scale, found.exponent], [0.9, 100.0, 0.5], rtol=1e-2)


def test_the_default_law_is_the_fit_to_measured_fashion_mnist() -> None:
    """Common contributions of at least 5%: below, a slot is one mini-batch however little is brought."""
    runs = json.loads(MEASURED.read_text())["runs"]
    common = sorted({run["contributions"][0] for run in runs if len(set(run["contributions"])) == 1})
    shares = np.array([share for share in common if share >= 0.05])
    means = np.array([np.mean([r["precision"] for r in runs if r["contributions"] == [share] * 4]) for share in shares])
    found, default = fit(shares * 8000, means, slots=30, initial=0.1), CurvePrecision()
    assert_allclose(
        [default.ceiling, default.scale, default.exponent], [found.ceiling, found.scale, found.exponent], rtol=1e-3
    )
    sustained = [float(Sustained(curve(default), jnp.full(4, 2000.0), 30)(jnp.full(4, share))) for share in shares]
    assert_allclose(sustained, means, atol=5e-4)
