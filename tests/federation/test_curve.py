import json
from pathlib import Path

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.errors import PotluckError
from potluck.federation.curve import Curve, CurveSource, MeanCurve, Progress, curve, fit
from potluck.scenario import CurvePrecision
from tests.federation.conftest import marginals

KEY = jax.random.key(0)
MEASURED = Path(__file__).parents[2] / "docs" / "data" / "fmnist-learning-curves.json"


def law() -> Curve:
    return curve(CurvePrecision(initial=0.1, ceiling=0.9, scale=100.0, exponent=0.5))


def test_level_by_hand() -> None:
    # 300 samples: 0.9 − 0.8·(1 + 3)^(−½) = 0.5
    assert_allclose(law().level(jnp.array(300.0)), 0.5, rtol=1e-6)


def test_slots_add_up() -> None:
    source = CurveSource(law(), jnp.array([100.0, 200.0]))
    state, _ = source.train(source.init(KEY), jnp.array([1.0, 0.5]), KEY)
    state, measured = source.train(state, jnp.array([0.0, 0.5]), KEY)
    assert float(state.trained) == 300.0
    assert_allclose(measured.precision, 0.5, rtol=1e-6)
    assert measured.marginal is None


def test_marginal_precision_by_hand() -> None:
    source = CurveSource(law(), jnp.array([100.0, 200.0]))
    state, _ = source.train(source.init(KEY), jnp.array([1.0, 0.5]), KEY)
    _, measured = source.train(state, jnp.array([0.0, 0.5]), KEY, marginal=True)
    # 300 samples with silo 1's last 100 and 200 without: 0.5 − (0.9 − 0.8·3^(−½))
    assert_allclose(marginals(measured), [0.0, 0.5 - (0.9 - 0.8 / 3**0.5)], rtol=1e-5)


def test_a_slot_without_contributions_changes_nothing() -> None:
    source = CurveSource(law(), jnp.array([100.0, 200.0]))
    state, measured = source.train(source.init(KEY), jnp.zeros(2), KEY)
    assert float(state.trained) == 0.0
    assert_allclose([measured.precision, source.measure(state)], 0.1, rtol=1e-6)


def test_sustained_precision_is_the_mean_over_the_slots_of_a_game() -> None:
    samples, played = jnp.array([100.0, 200.0]), jnp.array([0.3, 0.9])
    source = CurveSource(law(), samples)

    def slot(state: Progress, key: Array) -> tuple[Progress, Array]:
        state, measured = source.train(state, played, key)
        return state, measured.precision

    _, precisions = jax.lax.scan(slot, source.init(KEY), jax.random.split(KEY, 30))
    assert_allclose(MeanCurve(law(), samples, 30)(played), precisions.mean(), rtol=1e-5)


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
    means = [float(MeanCurve(known, jnp.array([x]), 30)(jnp.ones(1))) for x in contributed]
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
    sustained = [float(MeanCurve(curve(default), jnp.full(4, 2000.0), 30)(jnp.full(4, share))) for share in shares]
    assert_allclose(sustained, means, atol=5e-4)


@pytest.mark.parametrize("initial", [0.9, 0.95, 1 - 1e-9])
def test_a_curve_that_begins_high_is_fitted(initial: float) -> None:
    found = fit(np.array([50.0, 200.0, 1000.0]), np.full(3, initial), slots=30, initial=initial)
    assert initial < found.ceiling <= 1


def test_a_curve_that_begins_at_the_top_is_refused() -> None:
    with pytest.raises(PotluckError, match="precision is 1 before any training"):
        fit(np.array([50.0, 200.0]), np.ones(2), slots=30, initial=1.0)
