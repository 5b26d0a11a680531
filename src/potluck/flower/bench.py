"""What Potluck costs in a slot: the same Flower app without it and with it, by turns on the same federation."""

import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp

from potluck.agents.actors import NetworkActor
from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium, make_consortium
from potluck.flower.federation import Federation, deployed, simulated
from potluck.flower.up import example_app
from potluck.game import game
from potluck.scenario import Scenario
from potluck.training.export import MARK
from potluck.training.files import write_arrays

Engine: TypeAlias = Literal["simulation", "deployment"]
ROUND = re.compile(r"\[ROUND (\d+)/")
LOOKING = 0.05


@dataclass(frozen=True)
class Cost:
    """Seconds per slot on one engine: of every run, the slots between its second and its last."""

    engine: Engine
    slots: int
    plain: tuple[float, ...]
    potluck: tuple[float, ...]

    @property
    def overhead(self) -> float:
        """How much longer the median slot takes with Potluck, as a share of one without."""
        return statistics.median(self.potluck) / statistics.median(self.plain) - 1


def costs(
    engine: Engine, scenario: Scenario, slots: int, repeats: int, folder: Path, say: Callable[[str], None]
) -> Cost:
    """Run the digits app by turns without and with Potluck; all silos bring everything, as a policy file decides."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = _generous_policy(folder / "generous.potluck", scenario)
    consortium = make_consortium(folder / "consortium", scenario, [policy] * scenario.silos.count)
    apps = {"plain": _plain_app(folder / "plain"), "potluck": example_app()}
    taken: dict[str, list[float]] = {"plain": [], "potluck": []}
    with _started(engine, consortium) as federation:
        for repeat in range(repeats):
            for name, app in apps.items():
                say(f"{engine}, {name}, run {repeat + 1} of {repeats}")
                taken[name].append(_seconds_per_slot(federation, consortium, app, f"{name}-{repeat}", slots))
    return Cost(engine, slots, tuple(taken["plain"]), tuple(taken["potluck"]))


@contextmanager
def _started(engine: Engine, consortium: Consortium) -> Iterator[Federation]:
    nodes = simulated(consortium.folder, len(consortium.names)) if engine == "simulation" else deployed(consortium)
    with nodes as federation:
        yield federation


def _plain_app(folder: Path) -> Path:
    """The example as it is without Potluck."""
    shutil.copytree(example_app(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    described = (folder / "pyproject.toml").read_text()
    for part in ("server", "client"):
        described = described.replace(f"flower_digits.{part}:app", f"flower_digits.plain:{part}")
    (folder / "pyproject.toml").write_text(described)
    return folder


def _generous_policy(place: Path, scenario: Scenario) -> Path:
    """A policy like those that are trained, but for its last bias: it brings everything."""
    size = game(scenario).observation_size
    actor = NetworkActor.empty(size, 1, "gaussian", (210, 50), None)
    actor = eqx.tree_at(lambda a: a.network.head.bias, actor, jnp.array([100.0, 0.0]))
    about = {
        "agent": "mpgd",
        "silo": 0,
        "silos": scenario.silos.count,
        "history": scenario.history,
        "observation": list(scenario.observation),
    }
    anything: list[None] = [None] * size
    header = {"actor": actor.kind, "settings": actor.settings, "low": anything, "high": anything, "about": about}
    write_arrays(place, MARK, header, actor)
    return place


def _seconds_per_slot(federation: Federation, consortium: Consortium, app: Path, name: str, slots: int) -> float:
    """From the start of the second slot to that of the last: start-up and compilation are not Potluck's cost."""
    config: dict[str, str | int | float] = {
        "scenario": str(consortium.scenario),
        "ledger": str(consortium.ledger),
        "run": name,
        "num-server-rounds": slots,
        "terms": str(consortium.terms("{partition-id}")),
        "agent-state": str(consortium.state("{partition-id}")),
    }
    federation.start_run(app, config, name)
    begun: dict[int, float] = {}
    while federation.group.running(name):
        said = federation.group.log(name).read_text(errors="replace")
        for slot in ROUND.findall(said):
            begun.setdefault(int(slot), time.monotonic())
        time.sleep(LOOKING)
    if federation.group.code(name) != 0 or slots not in begun:
        raise PotluckError(f"the run failed: {federation.group.last_words(name)}; see {federation.group.log(name)}")
    return (begun[slots] - begun[2]) / (slots - 2)
