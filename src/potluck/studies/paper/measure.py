"""What lanes have learnt, played without exploration and put to the test: numbers that JSON can carry."""

from collections.abc import Generator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from potluck.studies.deviations import CONSTANTS, Played, forced_ways, unilateral
from potluck.studies.judgement import found_gains
from potluck.training.lanes import Lanes
from potluck.training.loop import Setup


def measure(
    lanes: Lanes[Setup], agents: Any, discount: float, games: int, *, deviations: bool, slots: bool
) -> Generator[dict[str, Any]]:
    """Lane by lane: welfare and payoffs; with `deviations` NashConv over constants and the stakes, with `slots` every
    slot's means.

    Beside it what the same game is worth where everybody brings everything.
    """
    environment = lanes.tree.environment
    players, size = environment.players, environment.action_size
    free, everything = np.full((players, size), np.nan, np.float32), np.ones((players, size), np.float32)
    ways = np.stack([free, everything])
    if deviations:
        ways = np.concatenate([ways, unilateral(players, size)])
    for played in forced_ways(lanes, agents, ways, discount, games):
        found = {**_means(played, 0), "everything": _means(played, 1)}
        if deviations:
            found |= _nash_conv(played, players)
        if slots:
            found |= {
                "precision": played.precision[0].mean(0).tolist(),
                "contributions": played.contributions[0].mean(0).tolist(),
            }
        yield found


def _means(played: Played, way: int) -> dict[str, Any]:
    return {
        "welfare": float(played.welfare[way].mean(dtype=float)),
        "games": played.welfare[way].mean(1, dtype=float).tolist(),
        "payoffs": played.payoffs[way].mean(0, dtype=float).tolist(),
        "transfers": played.transfers[way].mean((0, 1), dtype=float).tolist(),
    }


def _nash_conv(played: Played, players: int) -> dict[str, Any]:
    """What each silo could gain by keeping to a constant alone, and its stake: the spread over the constants."""
    alone = played.payoffs[2:].reshape(len(CONSTANTS), players, -1, players)
    tried: Float[np.ndarray, "constants games players"] = np.einsum("cngn->cgn", alone)
    named = {f"constant {level:g}": values[None] for level, values in zip(CONSTANTS, tried, strict=True)}
    gains, _ = found_gains(played.payoffs[:1], named)
    levels = tried.mean(1, dtype=float)
    return {"gains": gains[0].tolist(), "stakes": (levels.max(0) - levels.min(0)).tolist()}


def strangers(agents: Any) -> Any:
    """Players who have never met, seed by seed: silo n as it learnt in the n-th seed after this one."""
    seeds, players = jax.tree.leaves(agents)[0].shape[:2]
    whose = (np.arange(seeds)[:, None] + np.arange(players)) % seeds
    return jax.tree.map(lambda leaf: leaf[whose, np.arange(players)], agents)
