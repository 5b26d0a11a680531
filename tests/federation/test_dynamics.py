"""How local sets change, and that only the current one is trained on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from potluck.errors import PotluckError
from potluck.federation import build
from potluck.federation.dynamics import Redraw, Static, Stream, dynamics
from potluck.federation.fedavg import shuffled

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


@pytest.mark.parametrize("changing", ["static", "redraw", "stream"])
def test_only_distinct_samples_of_the_current_set_are_drawn(changing: str) -> None:
    fed = build("digits", silos=3, samples=100, changing=changing, epochs=2)
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
    with pytest.raises(PotluckError, match="'drift' is not one of static, redraw, stream"):
        dynamics("drift")
    with pytest.raises(PotluckError, match="redraw needs mean ≥ 1"):
        dynamics("redraw", mean=float("nan"))
    with pytest.raises(PotluckError, match="stream needs window ≥ 1"):
        dynamics("stream", window=0)
