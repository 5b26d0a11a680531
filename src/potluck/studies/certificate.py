"""How close learnt play is to an equilibrium of the long-term game, and what it is worth."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from potluck.economy import jain_index
from potluck.errors import PotluckError
from potluck.studies.bounds import Bounds, bound, bounds, without
from potluck.studies.deviations import Played
from potluck.studies.intervals import RESAMPLES, Interval, interval
from potluck.studies.judgement import found_gains, imagination_of, judge
from potluck.studies.plain import plain_values
from potluck.studies.planning import Watcher
from potluck.training.run import Trained

__all__ = [
    "Bounds",
    "Certificate",
    "SiloCertificate",
    "bound",
    "bounds",
    "certify",
    "found_gains",
    "gain_share",
    "plain",
    "without",
]


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


def _welfare(played: Played) -> Float[np.ndarray, " seeds"]:
    return np.asarray(played.welfare.mean((1, 2), dtype=float))


@dataclass(frozen=True)
class EquilibriumCertificate:
    """The best equilibrium without redistribution that was found, and what play gains over it."""

    welfare: Interval
    """Over games."""
    nash_conv_share: float
    found_by: str
    gain_share: Interval | None
    """(W − W_equilibrium) / (W_planner − W_equilibrium); None where both are closer than the interval."""


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
    nash_conv_share_wpr: float | None = None
    """NashConv of WPR as a share of its stake: WPR as learnt need not be an equilibrium."""
    welfare_planner: Interval | None = None
    planner_found_by: str | None = None
    """By search, or as the play of a learner that earns more in these games."""
    welfare_reacting: Interval | None = None
    """Of a planner that sees precision within the game, and reacts; None on the curve, where there is no luck in it."""
    reacting_gain: Interval | None = None
    """What it earns more than the plan, in the same games, with its 95% interval over games."""
    gain_share: Interval | None = None
    """(W − W_wpr) / (W_planner − W_wpr); None where no bounds were asked for, or both are closer than the interval."""
    equilibrium: "EquilibriumCertificate | None" = None

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
    slots: int = 5_000,
    imagine: bool | None = None,
    against: Bounds | None = None,
    watch: Watcher = lambda *_: None,
) -> Certificate:
    """Certify learnt play. `slots` is the budget of each trained deviator; 0 trains none, and then no deviation is
    imagined either unless that is asked for.
    """
    if run.config.joint:
        raise PotluckError(f"{run.config.agent} sets all contributions, so nobody can deviate from it")
    if games < 2:
        raise PotluckError(f"games must be 2 or more: some to choose a deviation, some to measure it, got {games}")
    imagination = None
    if slots > 0 if imagine is None else imagine:
        imagination = imagination_of(run) if against is None else against.imagination
        imagination = imagination and imagination.apart()
    judged = judge(run, games=games, slots=slots, imagination=imagination, watch=watch)
    own, gains, stakes = judged.own, judged.gains, judged.stakes
    payoffs = own.payoffs.mean(1)
    return Certificate(
        agent=run.config.agent,
        seeds=run.config.seeds,
        games=games,
        slots=run.slots,
        deviator_slots=slots,
        broken_deviators=judged.broken,
        nash_conv_interval=interval(gains.sum(1)),
        silos=[
            SiloCertificate(
                silo=n,
                payoff=interval(payoffs[:, n]),
                contribution=interval(own.contributions.mean((1, 2))[:, n]),
                transfer=interval(own.transfers.mean((1, 2))[:, n]),
                gain=interval(gains[:, n]),
                found_by=judged.found_by[n],
                stake=float(stakes[n]),
                payoff_wpr=None if against is None else interval(against.wpr.payoffs.mean(1)[:, n]),
            )
            for n in range(len(stakes))
        ],
        welfare=interval(_welfare(own)),
        jain_index=interval(np.array([float(jain_index(seed)) for seed in jnp.asarray(payoffs)])),
        budget_residual=float(np.abs(own.slot_payoffs.sum(-1, dtype=float) - own.welfare).max()),
        **({} if against is None else _compared(own, against)),
    )


def _compared(own: Played, against: Bounds) -> dict[str, Any]:
    """Play beside its bounds."""
    wpr, planner, reacting, unpaid = against.wpr, against.planner, against.reacting, against.equilibrium
    found: dict[str, Any] = {
        "welfare_wpr": interval(_welfare(wpr)),
        "nash_conv_share_wpr": against.wpr_share,
        "welfare_planner": interval(_welfare(planner)),
        "planner_found_by": against.planner_found_by,
        "gain_share": gain_share(_welfare(own), _welfare(wpr), _above(planner, wpr)),
    }
    if reacting is not None:
        found["welfare_reacting"] = interval(_welfare(reacting))
        found["reacting_gain"] = interval((_games(reacting) - _games(planner))[0])
    if unpaid is not None:
        found["equilibrium"] = EquilibriumCertificate(
            welfare=interval(_welfare(unpaid.played)),
            nash_conv_share=unpaid.share,
            found_by=unpaid.found_by,
            gain_share=gain_share(_welfare(own), _welfare(unpaid.played), _above(planner, unpaid.played)),
        )
    return found


def _games(played: Played) -> Float[np.ndarray, "seeds games"]:
    return np.asarray(played.welfare.mean(2, dtype=float))


def _above(planner: Played, other: Played) -> Float[np.ndarray, " games"]:
    """The planner's welfare, game by game, without the luck that both have in common in the same games."""
    level = _games(other).mean(0)
    return np.asarray(_games(planner)[0] - level + level.mean())


def gain_share(
    own: Float[np.ndarray, " seeds"], wpr: Float[np.ndarray, " wpr_seeds"], planner: Float[np.ndarray, " plans"]
) -> Interval | None:
    """(W − W_wpr) / (W_planner − W_wpr) with its bootstrap interval; None where planner and WPR are closer than the
    interval of their difference: a share of next to nothing says nothing.
    """
    random = np.random.default_rng(0)
    reached, without, best = (random.choice(part, (RESAMPLES, len(part))).mean(1) for part in (own, wpr, planner))
    if np.quantile(best - without, 0.025) <= 0:
        return None
    draws = (reached - without) / np.where(best > without, best - without, np.nan)
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return Interval(float((own.mean() - wpr.mean()) / (planner.mean() - wpr.mean())), float(low), float(high))


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
