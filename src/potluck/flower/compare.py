"""What a trained run earns on a real federation, beside what the simulator predicted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from potluck.agents import find_agent
from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium
from potluck.flower.state import read_about
from potluck.flower.up import Trial, play
from potluck.ledger import Row
from potluck.training.evaluation import episode
from potluck.training.export import export_policy
from potluck.training.run import Trained, trained

GAMES = 32
"""Games that a prediction is the mean of; each begins with other weights."""


@dataclass(frozen=True)
class Comparison:
    """Money per slot, the mean of a game: deployed, and as the simulator predicted with its least and most."""

    run: str
    agent: str
    mechanism: str
    slots: int
    welfare: float
    payoffs: tuple[float, ...]
    precision: float
    contribution: float
    predicted_welfare: float
    predicted_range: tuple[float, float]
    predicted_payoffs: tuple[float, ...]
    predicted_precision: float
    predicted_contribution: float


def predict(found: Trained, slots: int) -> dict[str, np.ndarray]:
    """Welfare, payoffs, precision and contributions of the first `slots` slots, the mean over each of 32 games."""
    setup, agents = found.of_seed(found.config.scenario.seed)
    keys = jax.random.split(jax.random.key(0), GAMES)
    payoffs, report = eqx.filter_jit(jax.vmap(lambda key: episode(setup, agents, key)))(keys)
    return {
        "payoffs": np.asarray(payoffs[:, :slots]).mean(axis=1),
        "precision": np.asarray(report.precision[:, :slots]).mean(axis=1),
        "contribution": np.asarray(report.contributions[:, :slots]).mean(axis=(1, 2)),
    }


def compare(folder: Path, slots: int, out: Path, watch: Callable[[list[Row]], None] = lambda _: None) -> Comparison:
    """Export every silo's policy, play them on a federation of their own, and ask each silo what it earned."""
    found = trained(folder)
    config = found.config
    scenario = find_agent(config.agent, config.options)[0].adapt(config.federation)
    out.mkdir(parents=True, exist_ok=True)
    policies = tuple(out / f"silo-{silo}.potluck" for silo in range(scenario.silos.count))
    for silo, place in enumerate(policies):
        export_policy(found, silo, scenario.seed, place)
    settled: list[list[Row]] = []
    federation = Consortium(out / "federation", tuple(place.stem for place in policies))
    before = _paid(federation)

    def keep(rows: list[Row]) -> None:
        settled.append(rows)
        watch(rows)

    play(Trial(scenario, slots, policies, federation.folder), keep)
    payoffs = tuple(map(_per_slot, federation.names, before, _paid(federation)))
    expected = predict(found, slots)
    total = expected["payoffs"].sum(axis=1)
    brought = [row.contribution or 0.0 for rows in settled for row in rows]
    return Comparison(
        run=str(folder),
        agent=config.agent,
        mechanism=scenario.mechanism.kind,
        slots=len(settled),
        welfare=sum(payoffs),
        payoffs=payoffs,
        precision=float(np.mean([rows[0].precision for rows in settled])),
        contribution=float(np.mean(brought)),
        predicted_welfare=float(total.mean()),
        predicted_range=(float(total.min()), float(total.max())),
        predicted_payoffs=tuple(map(float, expected["payoffs"].mean(axis=0))),
        predicted_precision=float(expected["precision"].mean()),
        predicted_contribution=float(expected["contribution"].mean()),
    )


@dataclass(frozen=True)
class _Paid:
    """A silo's whole life: slots that it was paid for, and the payoff of all of them."""

    slots: int
    earned: float


def _paid(consortium: Consortium) -> list[_Paid]:
    """As every silo's own file says; a silo that never played has none."""
    places = [consortium.state(silo) for silo in range(len(consortium.names))]
    found = [read_about(place) if place.exists() else {} for place in places]
    return [_Paid(about.get("slots", 0), about.get("earned", 0.0)) for about in found]


def _per_slot(name: str, before: _Paid, after: _Paid) -> float:
    """Payoff per slot of this run alone: in a folder that was played in before, silos bring an account along."""
    if after.slots == before.slots:
        raise PotluckError(f"{name} was paid for no slot, so nothing can be compared; see its log")
    return (after.earned - before.earned) / (after.slots - before.slots)
