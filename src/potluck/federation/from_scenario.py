"""The precision source that a scenario describes, and a scenario moved to the data that a task has."""

import math

import numpy as np

from potluck.errors import PotluckError
from potluck.federation.build import build, defaults_of, federation_config, ownable
from potluck.federation.curve import CurveSource, curve
from potluck.federation.data import Dataset
from potluck.federation.dynamics import Redraw
from potluck.federation.fedavg import FedAvg
from potluck.federation.fetching import load
from potluck.scenario import CurvePrecision, FederationConfig, Normal, Scenario, Terms

REACH = 5
"""Deviations above the mean that a drawn size may reach before the data runs out."""


def precision_source(scenario: Scenario, terms: Terms, seed: int, data: Dataset | None = None) -> CurveSource | FedAvg:
    """Where the scenario's precision comes from, for silos of these sizes; `seed` splits the data."""
    config, sizes = scenario.precision, scenario.silos.samples
    drawn = sizes if isinstance(sizes, Normal) else None
    each_slot = "samples" in scenario.silos.redraw and drawn is not None
    if isinstance(config, CurvePrecision):
        anew = drawn is not None and (each_slot or scenario.silos.drawn == "episode")
        return CurveSource(curve(config), terms.samples, scenario.terms.samples if anew else None, each_slot)
    still = config.dynamics == "static" and not each_slot
    return build(
        config,
        silos=scenario.silos.count,
        # Local sets that change have one nominal size, so that federations of different seeds have one shape.
        samples=np.asarray(terms.samples).astype(int) if still or drawn is None else max(round(drawn.mean), 1),
        data=data,
        dynamics=Redraw(drawn.mean, drawn.deviation) if each_slot and drawn else None,
        capacity=math.ceil(drawn.mean + REACH * drawn.deviation) if drawn and still else 0,
        seed=seed,
    )


def asked(config: FederationConfig, model: str | None, dtype: str | None) -> FederationConfig:
    """With the model and the type that are named."""
    named = {name: value for name, value in (("model", model), ("dtype", dtype)) if value is not None}
    return federation_config(config, **named) if named else config


def on_task(
    scenario: Scenario, task: str, data: Dataset | None = None, model: str | None = None, dtype: str | None = None
) -> Scenario:
    """Move a scenario to a task with real training, of the model and in the type that are named, or as they are.

    Where the task has less data than the silos would hold, sizes shrink and κ grows in proportion, so that a silo's
    whole data costs what it did; the mechanism shrinks with them.
    """
    data = load(task) if data is None else data
    silos = scenario.silos
    config = scenario.precision
    if isinstance(config, CurvePrecision):
        config = FederationConfig(learning_rate=defaults_of(data).learning_rate)
    config = asked(config, model, dtype)
    if len(data.labels) < silos.count:
        raise PotluckError(
            f": {silos.count} silos are more than the {len(data.labels)} samples of {task}", field="silos.count"
        )
    # What a stream's windows leave free is what enters them next, one sample in twenty.
    fill = 20 / 21 if config.dynamics == "stream" else 1.0
    natural = config.partition == "natural" and data.silo is not None
    even = [len(data.labels) // silos.count] * silos.count
    most = ownable(data, even, "natural") if natural else even
    samples, share = _shrunk(silos.samples, [max(math.floor(fill * own), 1) for own in most], shared=not natural)
    return scenario.model_copy(
        update={
            "energy_price": scenario.energy_price / share,
            "silos": silos.model_copy(update={"samples": samples}),
            "mechanism": scenario.mechanism.scaled(share),
            "precision": config.model_copy(update={"task": task}),
        }
    )


def _shrunk(
    sizes: float | tuple[float, ...] | Normal, room: list[int], *, shared: bool
) -> tuple[float | tuple[float, ...] | Normal, float]:
    """Sizes that fit into what falls to each silo, or into all of it if `shared`; and their share of the old ones."""
    if isinstance(sizes, Normal):
        # Samples come whole: the largest draw must fit into what falls to every silo.
        least = min(room)
        share = min(1.0, least / (sizes.mean + REACH * sizes.deviation))
        while math.ceil(sizes.mean * share + REACH * (sizes.deviation * share)) > least:
            share = math.nextafter(share, 0)  # what rounding added
        return Normal(mean=sizes.mean * share, deviation=sizes.deviation * share), share
    silos = len(room)
    held = np.maximum(np.round(np.broadcast_to(sizes, silos)), 1).astype(int)
    if held.sum() <= sum(room) if shared else (held <= room).all():
        return sizes, 1.0
    if shared:
        # One sample for every silo, and the rest in proportion.
        fitting = 1 + (held - 1) * (sum(room) - silos) // (held.sum() - silos)
    else:
        tightest = int(np.argmin(room / held))
        fitting = np.maximum(held * room[tightest] // held[tightest], 1)
    kept = tuple(map(float, fitting)) if isinstance(sizes, tuple) else float(fitting[0])
    return kept, float(fitting.sum() / held.sum())
