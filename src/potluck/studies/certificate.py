"""How close learnt play is to an equilibrium of the long-term game, and what it is worth.

Nobody can prove a best response in a game without formulas, so the gain is that of the best deviation found: constant
contributions, a learner trained against the frozen others, and on the curve the best plan for all slots by ascent.
"""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from potluck.economy import jain_index
from potluck.errors import PotluckError
from potluck.scenario import CurvePrecision
from potluck.studies import deviations
from potluck.studies.deviations import CONSTANTS, Played, evaluated, planned_for_all
from potluck.studies.intervals import RESAMPLES, Interval, interval
from potluck.studies.plain import plain_values
from potluck.studies.planning import Watcher
from potluck.training.config import RunConfig
from potluck.training.run import Trained, train_in, trained

STAY = "none"
"""Where no deviation found was better than what was learnt."""


@dataclass(frozen=True)
class SiloCertificate:
    """What one silo earns and could still gain by deviating alone, in money per slot."""

    silo: int
    payoff: Interval
    """Long-term. Not taking part earns nothing, so it is rational where this is 0 or more."""
    contribution: Interval
    transfer: Interval
    """What it is paid by the others, or pays them where it is below 0; part of its payoff."""
    gain: Interval
    """Of the best deviation found over what it has learnt; chosen on some games, measured on others."""
    found_by: str
    """What kind of deviation was best: the one behind most of the gain over seeds."""
    stake: float
    """Spread of its payoff over constant contributions, the others frozen."""
    payoff_wpr: Interval | None = None
    """What it earns without redistribution."""

    @property
    def share(self) -> float:
        """Gain as a share of the stake; NaN where nothing is at stake."""
        return self.gain.mean / self.stake if self.stake > 0 else math.nan


@dataclass(frozen=True)
class Bounds:
    """What the same budget of play reaches without redistribution, and the best plan for all that was found."""

    wpr: Played
    planner: Played


def _welfare(played: Played) -> Float[np.ndarray, " seeds"]:
    return np.asarray(played.welfare.mean((1, 2)))


@dataclass(frozen=True)
class Certificate:
    """NashConv and what every result must carry."""

    agent: str
    seeds: int
    games: int
    slots: int
    """That each seed had learnt from."""
    deviator_slots: int
    broken_deviators: int
    """Of those trained, how many ended without a payoff that is a number: their gains count as none."""
    silos: list[SiloCertificate]
    nash_conv_interval: Interval
    welfare: Interval
    """Per slot, every slot alike; payoffs are discounted as silos discount them."""
    jain_index: Interval
    """Of payoffs."""
    budget_residual: float
    """Largest |Σ u − W| of a slot: what transfers create or destroy, and single-precision rounding."""
    welfare_wpr: Interval | None = None
    welfare_planner: Interval | None = None
    gain_share: Interval | None = None
    """(W − W_wpr) / (W_planner − W_wpr); None where no bounds were asked for or a planner gains nothing."""

    @property
    def nash_conv(self) -> float:
        """Σ_n gain_n."""
        return self.nash_conv_interval.mean

    @property
    def stake(self) -> float:
        """Σ_n stake_n."""
        return sum(silo.stake for silo in self.silos)

    @property
    def share(self) -> float:
        """NashConv as a share of the stakes."""
        return self.nash_conv / self.stake if self.stake > 0 else math.nan

    @property
    def price_of_anarchy(self) -> float | None:
        """W_planner / W."""
        if self.welfare_planner is None:
            return None
        return self.welfare_planner.mean / self.welfare.mean if self.welfare.mean > 0 else math.inf


def certify(
    run: Trained,
    *,
    games: int = 128,
    slots: int = 20_000,
    against: Bounds | None = None,
    watch: Watcher = lambda *_: None,
) -> Certificate:
    """Certify learnt play. `slots` is the budget of each trained deviator; 0 trains none."""
    if run.config.joint:
        raise PotluckError(f"{run.config.agent} sets all contributions, so nobody can deviate from it")
    if games < 2:
        raise PotluckError(f"games must be 2 or more: some to choose a deviation, some to measure it, got {games}")
    watch("play", 0.0)
    own = evaluated(run, games)
    constants = deviations.constant_deviations(run, games, watch)
    tried = {f"constant {level:g}": values for level, values in zip(CONSTANTS, constants, strict=True)}
    if slots > 0:
        tried["trained"] = deviations.trained_deviations(run, games, slots, watch)
    if isinstance(run.config.scenario.precision, CurvePrecision):
        tried["plan"] = deviations.planned_deviations(run, games, watch)
    gains, found_by = found_gains(own.payoffs, tried)
    levels = constants.mean((1, 2))
    stakes = levels.max(0) - levels.min(0)
    payoffs = own.payoffs.mean(1)
    return Certificate(
        agent=run.config.agent,
        seeds=run.config.seeds,
        games=games,
        slots=run.slots,
        deviator_slots=slots,
        broken_deviators=int((~np.isfinite(tried["trained"]).all(1)).sum()) if slots > 0 else 0,
        nash_conv_interval=interval(gains.sum(1)),
        silos=[
            SiloCertificate(
                silo=n,
                payoff=interval(payoffs[:, n]),
                contribution=interval(own.contributions.mean((1, 2))[:, n]),
                transfer=interval(own.transfers.mean((1, 2))[:, n]),
                gain=interval(gains[:, n]),
                found_by=found_by[n],
                stake=float(stakes[n]),
                payoff_wpr=None if against is None else interval(against.wpr.payoffs.mean(1)[:, n]),
            )
            for n in range(len(stakes))
        ],
        welfare=interval(_welfare(own)),
        jain_index=interval(np.array([float(jain_index(seed)) for seed in jnp.asarray(payoffs)])),
        budget_residual=float(np.abs(own.slot_payoffs.sum(-1, dtype=float) - own.welfare).max()),
        welfare_wpr=None if against is None else interval(_welfare(against.wpr)),
        welfare_planner=None if against is None else interval(_welfare(against.planner)),
        gain_share=None if against is None else gain_share(*map(_welfare, (own, against.wpr, against.planner))),
    )


def found_gains(
    own: Float[np.ndarray, "seeds games silos"], tried: dict[str, Float[np.ndarray, "seeds games silos"]]
) -> tuple[Float[np.ndarray, "seeds silos"], list[str]]:
    """Of the deviation that is best in half of the games, what it gains in the others: choosing must not flatter it."""
    kinds = [STAY, *tried]
    values = np.stack([own, *tried.values()]).astype(float)
    values = np.where(np.isfinite(values), values, -np.inf)  # a deviator that broke down gains nothing
    half = values.shape[2] // 2
    choice = values[:, :, :half].mean(2).argmax(0)
    measured = values[:, :, half:].mean(2)
    gains = np.maximum(np.take_along_axis(measured, choice[None], axis=0)[0] - measured[0], 0.0)
    found = [np.bincount(silo, gained, len(kinds)) for silo, gained in zip(choice.T, gains.T, strict=True)]
    return gains, [kinds[int(total.argmax())] for total in found]


def gain_share(
    own: Float[np.ndarray, " seeds"], wpr: Float[np.ndarray, " wpr_seeds"], planner: Float[np.ndarray, " plans"]
) -> Interval | None:
    """(W − W_wpr) / (W_planner − W_wpr) with its bootstrap interval; None where there is nothing to gain."""
    stake = float(planner.mean() - wpr.mean())
    if stake <= 0:
        return None
    random = np.random.default_rng(0)
    reached, without, best = (random.choice(part, (RESAMPLES, len(part))).mean(1) for part in (own, wpr, planner))
    draws = (reached - without) / np.where(best > without, best - without, np.nan)
    low, high = np.nanquantile(draws, [0.025, 0.975]) if np.isfinite(draws).any() else (math.nan, math.nan)
    return Interval(float((own.mean() - wpr.mean()) / stake), float(low), float(high))


def bounds(run: Trained, folder: Path, *, games: int = 128, watch: Watcher = lambda *_: None) -> Bounds:
    """WPR, trained as long as the run in `folder` was into a folder within it, or reused; and a planner's play."""
    wpr = run if run.config.agent == "wpr" else bound(without(run.config), folder / "wpr", watch)
    planner = planned_for_all(run, games, watch)
    watch("play of the bounds", 0.0)
    return Bounds(evaluated(wpr, games), planner)


def without(config: RunConfig) -> RunConfig:
    """The same budget without redistribution."""
    return dataclasses.replace(config, agent="wpr")


def bound(config: RunConfig, folder: Path, watch: Watcher = lambda *_: None) -> Trained:
    """Train a bound, go on with it, or take it as it is."""
    for progress in train_in(folder, config, "remove it, or ask for no bounds"):
        watch(f"training {config.agent}", progress.chunk / progress.chunks)
    return trained(folder)


def plain(certificate: Certificate) -> dict[str, Any]:
    """A certificate as JSON-ready values; what is not finite is null."""
    values: dict[str, Any] = plain_values(certificate)
    for entry, silo in zip(values["silos"], certificate.silos, strict=True):
        entry["gain_share_of_stake"] = silo.share
        entry["rational_against_leaving"] = silo.payoff.mean >= 0
        entry["gain_over_wpr"] = None if silo.payoff_wpr is None else silo.payoff.mean - silo.payoff_wpr.mean
    values |= {
        "nash_conv": certificate.nash_conv,
        "stake": certificate.stake,
        "nash_conv_share_of_stake": certificate.share,
        "price_of_anarchy": certificate.price_of_anarchy,
    }
    finite: dict[str, Any] = plain_values(values)
    return finite
