"""A data set is cut to what the silo brings."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.federation.fedavg import samples_of
from potluck.flower import contributed, contributed_samples
from potluck.flower.trim import bringing


@given(st.floats(0, 1, width=32), st.integers(1, 5000))
def test_as_many_samples_are_brought_as_the_engine_would_train_on(share: float, held: int) -> None:
    with bringing(share) as slot:
        count = contributed_samples(held)
    assert count == int(samples_of(jnp.array([share], jnp.float32), jnp.array([held]))[0])
    assert (slot.samples, slot.held) == (count, held)


def test_outside_of_a_slot_everything_is_brought() -> None:
    data = [1, 2, 3]
    assert contributed(data) is data
    assert contributed_samples(7) == 7


def test_arrays_are_cut_alike_and_without_repetition() -> None:
    x, y = np.arange(100).reshape(100, 1), np.arange(100)
    with bringing(0.25):
        a, b = contributed(x, y)
    assert len(b) == 25 == len(set(b.tolist()))
    np.testing.assert_array_equal(a[:, 0], b)


def test_every_slot_draws_anew() -> None:
    with bringing(0.5):
        assert set(contributed(list(range(200)))) != set(contributed(list(range(200))))


def test_several_data_sets_add_up() -> None:
    with bringing(0.5) as slot:
        assert len(contributed(list(range(100)))) == 50
        assert len(contributed(list(range(30)))) == 15
        assert contributed_samples(10) == 5
    assert (slot.samples, slot.held) == (70, 140)


class OneAtATime:
    """A data set that is read one sample at a time, as PyTorch's are."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, at: int) -> int:
        assert isinstance(at, int)
        return at * at


def test_a_data_set_that_is_read_one_at_a_time_becomes_a_part_of_itself() -> None:
    with bringing(0.3):
        part = contributed(OneAtATime())
    assert len(part) == 3
    assert {part[at] for at in range(3)} <= {at * at for at in range(10)}


def test_unequal_lengths_and_empty_data_are_named() -> None:
    with bringing(0.5), pytest.raises(PotluckError, match="equally long"):
        contributed([1, 2], [1, 2, 3])
    with bringing(0.5), pytest.raises(PotluckError, match="empty"):
        contributed([])


def test_a_data_loader_keeps_its_settings() -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(OneAtATime(), batch_size=2, shuffle=True, drop_last=True)
    with bringing(0.5):
        cut = contributed(loader)
    assert len(cut.dataset) == 5
    assert (cut.batch_size, cut.drop_last) == (2, True)
    assert isinstance(cut.sampler, data.RandomSampler)
    assert len(list(cut)) == 2
    patient = data.DataLoader(OneAtATime(), num_workers=1, persistent_workers=True, prefetch_factor=3)
    with bringing(0.5):
        again = contributed(patient)
    assert (again.num_workers, again.persistent_workers, again.prefetch_factor) == (1, True, 3)
    odd = data.DataLoader(OneAtATime(), sampler=data.SubsetRandomSampler([1, 2]))
    with bringing(0.5), pytest.raises(PotluckError, match="sampler of its own"):
        contributed(odd)


def test_less_than_a_batch_is_a_batch_also_where_the_last_is_dropped() -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(OneAtATime(), batch_size=4, drop_last=True)
    with bringing(0.2):
        assert [len(batch) for batch in contributed(loader)] == [2]
    with bringing(0.5):
        assert [len(batch) for batch in contributed(loader)] == [4]
