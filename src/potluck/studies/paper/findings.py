"""What a study has found, read once, and the numbers that tables and verdicts share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from potluck.studies.intervals import Interval
from potluck.studies.paper import adapt
from potluck.studies.paper.plan import StudyConfig, same_as
from potluck.studies.paper.results import read_result, result_file
from potluck.studies.paper.statistics import bca, difference

Row = dict[str, Any]
Table = list[Row]


@dataclass(frozen=True)
class Findings:
    """All results of a study, read once."""

    config: StudyConfig
    cells: Mapping[str, Any]
    """By the names of `StudyConfig.cells`."""
    planners: Mapping[str, Any]
    adapted: Mapping[str, Any]
    """By scheme, as far as it is done; empty where the federation could not change."""
    adapted_planners: Sequence[Any]
    equilibria: Mapping[str, Any] = field(default_factory=dict)
    """World by world the best equilibrium without redistribution that was found."""

    @classmethod
    def read(cls, config: StudyConfig, folder: Path) -> "Findings":
        cells = config.cells()
        return cls(
            config,
            {name: read_result(folder, same_as(cells, name)) for name in cells},
            {world: read_result(folder, f"{world}/planner") for world in config.worlds},
            {
                scheme: read_result(folder, f"adapt/{scheme}")
                for scheme in config.schemes
                if config.changes and result_file(folder, f"adapt/{scheme}").exists()
            },
            [read_result(folder, f"adapt/planner-{stage}") for stage in range(len(adapt.STAGES))]
            if config.changes
            else [],
            {
                world: read_result(folder, f"{world}/equilibrium")
                for world in config.worlds
                if result_file(folder, f"{world}/equilibrium").exists()
            },
        )

    def last(self, cell: str) -> list[dict[str, Any]]:
        """Every seed's play after the whole training."""
        seeds: list[dict[str, Any]] = self.cells[cell]["milestones"][-1]["seeds"]
        return seeds

    def welfare(self, world: str, scheme: str) -> Float[np.ndarray, " seeds"]:
        """Of play without exploration; who plays at random never plays otherwise."""
        if scheme == "random":
            return np.array([np.mean(seed) for seed in self.cells[f"{world}/random"]["curve"]["welfare"]])
        if scheme == "fixed:1":
            return np.array([seed["everything"]["welfare"] for seed in self.last(f"{world}/mpgd")])
        return welfare_in(self.last(f"{world}/{scheme}"))

    def shares(self, world: str, own: Float[np.ndarray, " seeds"]) -> Row:
        """Of the planner's gain, over WPR as it was learnt and over the best equilibrium without redistribution that
        was found; how far WPR is from an equilibrium. No share is given of a gain that is within its interval.
        """
        planned, wpr, row = self.planned(world), self.last(f"{world}/wpr"), Row()
        share = gain_share(own, welfare_in(wpr), beside(planned, games_of(wpr)))
        row |= spread_of(share, "gain_share") if share else {}
        if world in self.equilibria:
            unpaid = self.unpaid(world)
            share = gain_share(own, unpaid, beside(planned, np.array(self.equilibria[world]["games"])))
            row |= spread_of(share, "gain_share_over_equilibrium") if share else {}
        return row | {"wpr_share_of_stake": share_of_stake(wpr).mean}

    def unpaid(self, world: str) -> Float[np.ndarray, " games"]:
        """Welfare of the best equilibrium without redistribution, game by game, beside MPGD."""
        return beside(np.array(self.equilibria[world]["games"]), games_of(self.last(f"{world}/mpgd")))

    def planned(self, world: str) -> Float[np.ndarray, " games"]:
        """The planner's welfare in each game: its luck is the games'."""
        return np.array(self.planners[world]["games"])


def games_of(seeds: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, " games"]:
    """Welfare of every game, mean over seeds, which play the same games."""
    return np.asarray(np.mean([seed["games"] for seed in seeds], axis=0))


def beside(games: Float[np.ndarray, " games"], compared: Float[np.ndarray, " games"]) -> Float[np.ndarray, " games"]:
    """What a plan earns in each game without the luck that who is compared with it has in the same game."""
    return np.asarray(games - compared + compared.mean())


def spread_of(found: Interval, name: str) -> Row:
    """Three columns."""
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def gain_share(
    own: Float[np.ndarray, " seeds"], wpr: Float[np.ndarray, " wpr_seeds"], planned: Float[np.ndarray, " games"]
) -> Interval | None:
    """(W − W_wpr) / (W_planner − W_wpr); None where planner and WPR are closer than their intervals, and 0 of WPR."""
    gap = difference(planned, wpr)
    if gap.low <= 0:
        return None
    if np.array_equal(own, wpr):
        return Interval(0.0, 0.0, 0.0)

    def share(own: Any, wpr: Any, planned: Any, axis: int) -> Any:
        return (own.mean(axis) - wpr.mean(axis)) / (planned.mean(axis) - wpr.mean(axis))

    return bca(share, own, wpr, planned)


def share_of_stake(seeds: Sequence[Mapping[str, Any]]) -> Interval:
    """NashConv of play, over what is at stake."""
    gains, stakes = (np.array([sum(seed[name]) for seed in seeds]) for name in ("gains", "stakes"))
    return bca(lambda gains, stakes, axis: gains.mean(axis) / stakes.mean(axis), gains, stakes, paired=True)


def welfare_of(found: Findings, cell: str) -> Float[np.ndarray, " seeds"]:
    """After the whole training."""
    return welfare_in(found.last(cell))


def welfare_in(seeds: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, " seeds"]:
    return np.array([seed["welfare"] for seed in seeds])
