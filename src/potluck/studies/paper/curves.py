"""What learning curves tell: how soon a scheme gets to where it goes, and how it takes a change of the federation."""

import numpy as np
from jaxtyping import Bool, Float

from potluck.studies.paper import adapt
from potluck.studies.paper.findings import Findings, Table, spread_of
from potluck.studies.paper.statistics import difference, mean

NEARLY = 0.95
SMOOTH = 5
"""Points of a learning curve that are averaged before it is asked when it got there."""
CLEAR = 3.0
"""Standard errors of the rise from the first point to the last: by less, nothing can be seen to have been learnt."""


def smoothed(values: Float[np.ndarray, " points"], most: int = SMOOTH) -> Float[np.ndarray, " points"]:
    """Each point's mean with those beside it, `most` in all; fewer at the ends."""
    sums, ends = np.cumsum(np.concatenate([[0.0], values])), np.arange(len(values))
    first, last = np.maximum(ends - most // 2, 0), np.minimum(ends + most // 2 + 1, len(values))
    return np.asarray((sums[last] - sums[first]) / (last - first))


def slots_to(found: Findings, world: str, scheme: str) -> Float[np.ndarray, " seeds"]:
    """Slots until a seed's welfare, smoothed, has made 95% of its way from the first to the last point.

    NaN where it has not clearly risen.
    """
    curve = found.cells[f"{world}/{scheme}"]["curve"]
    slots = np.array(curve["slots"], float)
    return np.array([_reached(np.array(seed), slots) for seed in curve["welfare"]])


def _reached(values: Float[np.ndarray, " points"], slots: Float[np.ndarray, " points"]) -> float:
    smooth = smoothed(values)
    rise = smooth[-1] - smooth[0]
    if not rise > CLEAR * noise_of(values) * (2 / (SMOOTH // 2 + 1)) ** 0.5:
        return float("nan")
    return float(slots[np.argmax(smooth - smooth[0] >= NEARLY * rise)])


def noise_of(values: Float[np.ndarray, " points"]) -> float:
    """Deviation of a point from a smooth curve, by how neighbours differ."""
    return float(np.diff(values).std() / 2**0.5) if len(values) > 1 else 0.0


def adaptivity(found: Findings) -> Table:
    """Welfare through the change as a share of what a planner gains over WPR in the same stage."""
    rows = []
    for scheme, cell in found.adapted.items():
        slots = cell["curve"]["slots"]
        for slot, stage, values in zip(slots, stages_of(found, scheme), gained(found, scheme).T, strict=True):
            row = {"scheme": scheme, "slots": slot, "stage": adapt.STAGES[stage]}
            rows.append(row | (spread_of(mean(values), "gain_share") if np.isfinite(values).all() else {}))
    return rows


def stages_of(found: Findings, scheme: str) -> list[int]:
    """Which stage each point of the curve belongs to."""
    cell = found.adapted[scheme]
    return [int(np.searchsorted(cell["turns"], slot, side="left")) for slot in cell["curve"]["slots"]]


def gained(found: Findings, scheme: str) -> Float[np.ndarray, "seeds points"]:
    """(W − W_wpr) / (W_planner − W_wpr), WPR's being where it ends each stage; NaN in a stage whose planner and WPR are
    closer than their interval.
    """
    stages, of_wpr = (np.array(stages_of(found, name)) for name in (scheme, "wpr"))
    unpaid = np.array(found.adapted["wpr"]["curve"]["welfare"])
    own = np.array(found.adapted[scheme]["curve"]["welfare"])
    shares = np.full_like(own, np.nan)
    for stage, planner in enumerate(found.adapted_planners):
        inside = stages == stage
        if inside.any() and (of_wpr == stage).any():
            level, best = late(unpaid[:, of_wpr == stage]).mean(1), np.array(planner["games"])
            if difference(best, level).low > 0:
                shares[:, inside] = (own[:, inside] - level.mean()) / (best.mean() - level.mean())
    return shares


def late(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The last fifth of a stage."""
    return values[..., -a_fifth(values.shape[-1]) :]


def a_fifth(points: int) -> int:
    return max(1, points // 5)


def recoveries(found: Findings) -> Table:
    """After each change: how deep the share of the planner's gain falls, and how soon 95% of the old one is back.

    WPR is what shares are counted from, and has none of its own.
    """
    rows = []
    for scheme in found.adapted:
        shares, stages = gained(found, scheme), np.array(stages_of(found, scheme))
        if scheme == "wpr" or not np.isfinite(shares).all():
            continue
        slots = np.array(found.adapted[scheme]["curve"]["slots"], float)
        before = late(shares[:, stages == 0]).mean(1)
        for stage in (1, 2):
            inside = stages == stage
            if not inside.any():
                continue
            begun = slots[np.argmax(inside) - 1]
            most = min(SMOOTH, a_fifth(int(inside.sum())))  # no wider than the end that verdicts are on
            own = np.stack([smoothed(seed, most) for seed in shares[:, inside]])
            back, took = _back(own, before, slots[inside] - begun)
            rows.append(
                {
                    "scheme": scheme,
                    "stage": adapt.STAGES[stage],
                    **spread_of(mean(before), "share_before"),
                    **spread_of(mean(own.min(1)), "lowest_share"),
                    **spread_of(mean(late(shares[:, inside]).mean(1)), "share_after"),
                    "seeds_back": int(back.sum()),
                    "seeds": len(back),
                    **(spread_of(mean(took[back]), "slots_to_95") if back.any() else {}),
                }
            )
    return rows


def regained(before: Float[np.ndarray, " seeds"]) -> Float[np.ndarray, " seeds"]:
    """95% of a share; of a negative one, as much below it."""
    return np.asarray(before - (1 - NEARLY) * np.abs(before))


def _back(
    own: Float[np.ndarray, "seeds points"], before: Float[np.ndarray, " seeds"], since: Float[np.ndarray, " points"]
) -> tuple[Bool[np.ndarray, " seeds"], Float[np.ndarray, " seeds"]]:
    """Who is back after its lowest point, and how many slots after the change; who never fell below is back at once."""
    enough = own >= regained(before)[:, None]
    lowest = np.arange(own.shape[1]) >= own.argmin(1)[:, None]
    again = enough & lowest
    never_fell = enough.all(1)
    took = np.where(never_fell, 0.0, since[again.argmax(1)])
    return again.any(1) | never_fell, took
