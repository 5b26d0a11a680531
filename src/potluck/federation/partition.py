"""Who holds which samples: disjoint, exact in size, and the same for the same seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from potluck.errors import PotluckError
from potluck.scenario.federation import PartitionName

Indices = Int[np.ndarray, " size"]


def partition(
    kind: PartitionName,
    labels: Int[np.ndarray, " samples"],
    sizes: Sequence[int],
    *,
    concentration: float = 0.5,
    silo: Int[np.ndarray, " samples"] | None = None,
    seed: int = 0,
) -> list[Indices]:
    """Give silo n exactly `sizes[n]` samples as `kind` says; `quantity` is `iid` with sizes that differ.

    Each silo's indices come in random order, so that any stretch of them is as good a sample as any other.
    """
    check_sizes(sizes)
    rng = np.random.default_rng(seed)
    if kind == "natural":
        return natural(silo, sizes, rng)
    if sum(sizes) > len(labels):
        raise PotluckError(
            f": {len(sizes)} silos ask for {sum(sizes)} samples and the task has {len(labels)}; lower samples or silos",
            field="partition",
        )
    if kind == "dirichlet":
        return dirichlet(labels, sizes, concentration, rng)
    return iid(len(labels), sizes, rng)


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse a federation without silos, and a silo without samples."""
    if not len(sizes):
        raise PotluckError("must be 1 or more, got 0", field="silos")
    for n, size in enumerate(sizes):
        if size < 1:
            raise PotluckError(f": silo {n} would hold {size}; give every silo 1 or more", field="samples")


def iid(samples: int, sizes: Sequence[int], rng: np.random.Generator) -> list[Indices]:
    """Deal a shuffled deck."""
    order = rng.permutation(samples)[: sum(sizes)]
    return np.split(order, np.cumsum(sizes)[:-1])


def dirichlet(
    labels: Int[np.ndarray, " samples"], sizes: Sequence[int], concentration: float, rng: np.random.Generator
) -> list[Indices]:
    """Label skew: silo n wants class shares q_n ~ Dir(concentration) and takes what is left of each class.

    Silos choose in random order; where a class has run out, the shortfall is spread over the classes that have not.
    """
    if not 0 < concentration < np.inf:
        raise PotluckError(
            f"must be positive and finite, got {concentration} (small is skewed, large is even)", field="concentration"
        )
    classes = np.unique(labels)
    decks = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
    left = np.array([len(deck) for deck in decks])
    shares: list[Indices] = [np.empty(0, int)] * len(sizes)
    for n in rng.permutation(len(sizes)):
        wish = rng.dirichlet(np.full(len(classes), concentration))
        counts = _fill(sizes[n], wish, left, rng)
        hands = [deck[have - take : have] for deck, have, take in zip(decks, left, counts, strict=True)]
        shares[n] = rng.permutation(np.concatenate(hands))
        left = left - counts
    return shares


def _fill(
    size: int, wish: np.ndarray, left: Int[np.ndarray, " classes"], rng: np.random.Generator
) -> Int[np.ndarray, " classes"]:
    """Return how many of each class: as wished where possible, `size` in all, never more than is left."""
    counts = np.zeros_like(left)
    while (need := size - counts.sum()) > 0:
        room = left - counts
        weight = np.where(room > 0, np.maximum(wish, 1e-9), 0.0)
        counts += np.minimum(rng.multinomial(need, weight / weight.sum()), room)
    return counts


def natural(silo: Int[np.ndarray, " samples"] | None, sizes: Sequence[int], rng: np.random.Generator) -> list[Indices]:
    """The split that the data came with; each silo gives `sizes[n]` of its own."""
    if silo is None:
        raise PotluckError(": natural needs a silo column, which only folder:PATH.npz can have", field="partition")
    if len(sizes) != (found := int(silo.max()) + 1):
        raise PotluckError(f": the silo column names {found} silos and the run has {len(sizes)}", field="partition")
    decks = [rng.permutation(np.flatnonzero(silo == n)) for n in range(found)]
    for n, (deck, size) in enumerate(zip(decks, sizes, strict=True)):
        if size > len(deck):
            raise PotluckError(
                f": silo {n} has {len(deck)} samples of its own and is asked for {size}", field="partition"
            )
    return [deck[:size] for deck, size in zip(decks, sizes, strict=True)]
