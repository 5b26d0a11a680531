"""A data set cut to what the silo brings in this slot."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from potluck.errors import PotluckError


@dataclass
class Bringing:
    """The contribution of the slot that is being trained, and what it came to."""

    share: float
    """d."""
    held: int | None = None
    """|D|, of all data sets that the app showed; it stays in the silo."""
    samples: int | None = None
    """x, of all of them."""


KEPT = (
    "batch_size",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "persistent_workers",
    "prefetch_factor",
)
"""Settings of a DataLoader that hold for a part of its data too."""
_SLOT: ContextVar[Bringing | None] = ContextVar("slot", default=None)


@contextmanager
def bringing(share: float) -> Iterator[Bringing]:
    """A slot in which the app may bring this share of its data."""
    slot = Bringing(share)
    token = _SLOT.set(slot)
    try:
        yield slot
    finally:
        _SLOT.reset(token)


def contributed_samples(held: int) -> int:
    """x = d·|D| to the nearest sample, at least one where d > 0; all of them outside of a slot.

    For an app that chooses its samples itself; `contributed` chooses and cuts. To be asked once for each data set:
    what is brought of several adds up.
    """
    slot = _SLOT.get()
    if slot is None:
        return held
    if held < 1:
        raise PotluckError("the data set is empty; a silo without data cannot take part")
    nearest = int(np.round(np.float32(slot.share) * np.float32(held)))
    count = int(np.clip(nearest, int(slot.share > 0), held))
    slot.held, slot.samples = (slot.held or 0) + held, (slot.samples or 0) + count
    return count


def contributed(data: Any, *more: Any) -> Any:
    """The part of the data that the silo brings in this slot, drawn at random anew in every slot.

    Takes a list or tuple, NumPy arrays (several are cut alike: `x, y = contributed(x, y)`), a data set of PyTorch or
    Hugging Face, or a PyTorch DataLoader, which keeps its settings. Outside of a slot, all of it. Data that are cut
    one after the other are several data sets, whose samples add up.
    """
    wholes = (data, *more)
    lengths = {len(_samples_of(whole)) for whole in wholes}
    if len(lengths) > 1:
        raise PotluckError(f"data that are cut together must be equally long, got {sorted(lengths)}")
    held = lengths.pop()
    count = contributed_samples(held)
    if count == held:
        return wholes if more else data
    chosen = np.random.default_rng().permutation(held)[:count]
    parts = tuple(_cut(whole, chosen) for whole in wholes)
    return parts if more else parts[0]


def _samples_of(data: Any) -> Any:
    """What has one entry per sample: of a DataLoader, its data set."""
    return data.dataset if hasattr(data, "dataset") and hasattr(data, "batch_sampler") else data


def _cut(data: Any, chosen: np.ndarray) -> Any:
    if _samples_of(data) is not data:
        return _cut_loader(data, chosen)
    if isinstance(data, np.ndarray):
        return data[chosen]
    if isinstance(data, list | tuple):
        return type(data)([data[at] for at in chosen])
    if hasattr(data, "select"):  # Hugging Face
        return data.select(chosen)
    if hasattr(data, "__array__"):  # tensors, JAX arrays
        return data[chosen]
    if hasattr(data, "__getitem__"):
        return Part(data, chosen)
    raise PotluckError(f"a {type(data).__name__} cannot be cut; cut it yourself to contributed_samples(len(data))")


class Part(Sequence[Any]):
    """Some samples of a data set that is read one sample at a time; PyTorch takes it as a data set."""

    def __init__(self, whole: Any, chosen: np.ndarray) -> None:
        self._whole, self._chosen = whole, chosen

    def __len__(self) -> int:
        """How many."""
        return len(self._chosen)

    def __getitem__(self, at: Any) -> Any:
        """One of them."""
        return self._whole[int(self._chosen[at])]


def _cut_loader(loader: Any, chosen: np.ndarray) -> Any:
    """The same DataLoader over fewer samples: shuffled if it was.

    Less than a batch is one batch also where the loader drops the last: a silo trains on what it brings.
    """
    from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

    if loader.batch_size is None or not isinstance(loader.sampler, RandomSampler | SequentialSampler):
        raise PotluckError("a DataLoader with a sampler of its own cannot be cut; cut its data set with contributed()")
    settings = {name: copy.copy(getattr(loader, name)) for name in KEPT}
    settings["drop_last"] = loader.drop_last and len(chosen) >= loader.batch_size
    shuffle = isinstance(loader.sampler, RandomSampler)
    return DataLoader(_cut(loader.dataset, chosen), shuffle=shuffle, generator=loader.generator, **settings)
