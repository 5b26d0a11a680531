"""How local sets change, and that only the current one is trained on."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.errors import PotluckError
from potluck.federation.dynamics import Redraw, Static, Stream
from potluck.federation.fedavg import shuffled
from tests.federation.conftest import federation, pictures

POOL = jnp.array([3000, 2000, 2500, 10])


def test_static_is_the_whole_pool_for_ever() -> None:
    window = Static().init(POOL, jax.random.key(0))
    assert_array_equal(window.size, POOL)
    assert Static().step(window, POOL, jax.random.key(1)) is window


def test_redraw_draws_sizes_around_the_mean_and_never_more_than_the_pool() -> None:
    rule = Redraw()
    keys = jax.random.split(jax.random.key(0), 2000)
    sizes = np.asarray(jax.vmap(lambda key: rule.init(POOL, key).size)(keys))
    assert abs(sizes[:, 0].mean() - 2000) < 5
    assert abs(sizes[:, 0].std() - 50) < 3
    assert (sizes <= np.asarray(POOL)).all()
    assert (sizes[:, 3] == 10).all()
    assert sizes.max() <= rule.bound(3000) == 2250


def test_a_stream_drops_its_oldest_samples_for_new_ones() -> None:
    rule = Stream(window=100, arrivals=30)
    window = rule.init(POOL, jax.random.key(0))
    after = rule.step(window, POOL, jax.random.key(1))
    before, now = ({(int(w.start[0]) + i) % 3000 for i in range(int(w.size[0]))} for w in (window, after))
    assert len(before & now) == 70
    assert_array_equal(after.size, [100, 100, 100, 10])


@pytest.mark.parametrize("dynamics", ["static", "redraw", "stream"])
def test_only_distinct_samples_of_the_current_set_are_drawn(dynamics: str) -> None:
    fed = federation(silos=3, samples=100, dynamics=dynamics, epochs=2)
    state = fed.init(jax.random.key(4))
    for n in range(3):
        silo, window = (jax.tree.map(lambda a, n=n: a[n], tree) for tree in (fed.silos, state.window))
        count = int(window.size) // 2
        drawn = np.asarray(fed.draw(silo, jnp.array(count), jax.random.key(n), window))[:, :count]
        current = {(int(window.start) + i) % int(silo.pool) for i in range(int(window.size))}
        assert set(drawn[0]) <= current
        assert len(set(drawn[0])) == count
        assert set(drawn[1]) == set(drawn[0])
        assert list(drawn[1]) != list(drawn[0])


@pytest.mark.parametrize("dynamics", ["redraw", "stream"])
def test_by_default_there_is_something_to_change_to(dynamics: str) -> None:
    fed = federation(dynamics=dynamics)
    assert_array_equal(fed.silos.pool, [350] * 4)
    keys = jax.random.split(jax.random.key(0), 400)
    sizes = np.asarray(jax.vmap(lambda key: fed.init(key).window.size)(keys))
    assert abs(sizes.mean() - 175) < 1
    assert sizes.max() < 350
    window = fed.init(jax.random.key(0)).window
    after = fed.dynamics.step(window, fed.silos.pool, jax.random.key(1))
    assert (np.asarray(after.start) != np.asarray(window.start)).all()


@pytest.mark.parametrize(("dynamics", "times"), [("redraw", 2), ("stream", 4)])
def test_silos_keep_their_own_sizes_while_local_sets_change(dynamics: str, times: int) -> None:
    sizes = np.array([100, 20, 50, 80])
    fed = federation(samples=sizes.tolist(), partition="quantity", dynamics=dynamics)
    assert_array_equal(fed.silos.pool, times * sizes)
    keys = jax.random.split(jax.random.key(0), 2000)
    drawn = np.asarray(jax.vmap(lambda key: fed.init(key).window.size)(keys))
    assert_allclose(drawn.mean(axis=0), sizes, atol=0.5)
    if dynamics == "redraw":
        assert_allclose(drawn.std(axis=0), sizes / 40, rtol=0.15)
    else:
        window = fed.init(jax.random.key(0)).window
        moved = fed.dynamics.step(window, fed.silos.pool, keys[0]).start - window.start
        assert_array_equal(moved % fed.silos.pool, [5, 1, 2, 4])


def test_a_users_silos_change_in_their_own_proportions() -> None:
    data = dataclasses.replace(pictures(samples=120, side=4, channels=1), silo=np.repeat([0, 1], [16, 80]))
    fed = federation(data, silos=2, partition="natural", dynamics="stream")
    assert_array_equal(fed.silos.pool, [16, 80])
    assert_array_equal(fed.init(jax.random.key(0)).window.size, [8, 40])
    shared = federation(data, silos=4, dynamics="redraw")
    assert_array_equal(shared.silos.pool, [24] * 4)
    assert shared.dynamics.bound(24) < 24


def test_what_nobody_holds_is_shared_out_in_proportion() -> None:
    fed = federation(samples=[700, 100, 100, 200], partition="quantity", dynamics="redraw")
    # 300 of 1,400 samples are left: 700 + 300·7/11, and so on, in whole samples
    assert_array_equal(fed.silos.pool, [890, 127, 127, 254])
    assert fed.init(jax.random.key(0)).window.size[0] > 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dynamics": "stream", "samples": 350},
            "stream needs 367 samples to choose from in silo 0, which would own 350",
        ),
        (
            {"dynamics": "redraw", "samples": [1000, 100, 100, 200]},
            "redraw needs 1125 samples .* would own 1000; lower",
        ),
        ({"dynamics": Redraw()}, "redraw needs 2250 samples"),
        ({"dynamics": Stream((10, 20), 1)}, "2 sizes for 4 silos"),
        ({"dynamics": "redraw", "samples": -1}, "samples must be 1 or more, got -1"),
    ],
)
def test_dynamics_that_could_change_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        federation(**options)


@pytest.mark.parametrize("capacity", [1, 2, 350, 2000, 5000])
def test_a_shuffle_is_a_permutation_with_the_live_part_first(capacity: int) -> None:
    count = max(capacity // 3, 1)
    order = np.asarray(shuffled(jax.random.key(0), jnp.array(count), capacity))
    assert sorted(order) == list(range(capacity))
    assert sorted(order[:count]) == list(range(count))


def test_every_sample_is_as_likely_to_be_drawn_first() -> None:
    keys = jax.random.split(jax.random.key(0), 20_000)
    first = np.asarray(jax.vmap(lambda key: shuffled(key, jnp.array(8), 10)[0])(keys))
    counts = np.bincount(first, minlength=10)
    # χ² with 7 degrees of freedom exceeds 24 once in a thousand
    assert ((counts[:8] - 2500) ** 2 / 2500).sum() < 24
    assert counts[8:].sum() == 0


def test_impossible_dynamics_say_why() -> None:
    with pytest.raises(PotluckError, match="dynamics must be 'static', 'redraw' or 'stream', got 'drift'"):
        federation(dynamics="drift")
    with pytest.raises(PotluckError, match="dynamics: redraw needs mean ≥ 1"):
        Redraw(mean=float("nan"))
    with pytest.raises(PotluckError, match="dynamics: stream needs window ≥ 1"):
        Stream(0, 100)
    with pytest.raises(PotluckError, match="redraw needs mean ≥ 1"):
        Redraw(mean=(100.0, float("nan")))
    with pytest.raises(PotluckError, match="stream needs window ≥ 1"):
        Stream(-5, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sizes", [[50] * 4, np.full(4, 50)], ids=["list", "array"])
def test_sizes_of_ones_own_may_come_in_any_form(sizes: Any) -> None:
    for rule in (Stream(sizes, 2), Redraw(sizes, 1.0)):
        assert hash(rule) == hash(dataclasses.replace(rule))
        assert federation(samples=50, dynamics=rule).dynamics == rule


def test_sizes_that_vary_widely_have_pools_that_hold_the_largest() -> None:
    """N(60, 20) reaches 160, more than twice its mean; the digits have 350 for each of four silos."""
    fed = federation(samples=60, dynamics=Redraw(60.0, 20.0))
    assert_array_equal(fed.silos.pool, [160] * 4)
    assert_array_equal(federation(samples=60, dynamics=Redraw(60.0, 1.5)).silos.pool, [120] * 4)
