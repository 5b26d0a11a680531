"""The files of a consortium on one machine: keys, the roster, and every silo's own folder. For trials and tests."""

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import tomli_w

from potluck.errors import PotluckError
from potluck.ledger import new_key, public_key
from potluck.scenario import Scenario, Terms, render
from potluck.training.files import write_private_bytes, write_text


@dataclass(frozen=True)
class Consortium:
    """Where everything is. In a real one every silo has its folder on a machine of its own."""

    folder: Path
    names: tuple[str, ...]

    @property
    def scenario(self) -> Path:
        """What all have agreed on."""
        return self.folder / "scenario.toml"

    @property
    def ledger(self) -> Path:
        """The coordinator's ledger."""
        return self.folder / "ledger.db"

    @property
    def key(self) -> Path:
        """The coordinator's private key."""
        return self.folder / "coordinator.key"

    @property
    def roster(self) -> Path:
        """Every silo's name and public key, in order."""
        return self.folder / "silos.toml"

    def terms(self, silo: int | str) -> Path:
        """A silo's private file."""
        return self.folder / f"silo-{silo}" / "silo.toml"

    def state(self, silo: int | str) -> Path:
        """What a silo's agent remembers."""
        return self.folder / f"silo-{silo}" / "agent.state"

    def choose(self, silo: int, agent: str | float | Path) -> None:
        """Let another agent decide for a silo."""
        values = tomllib.loads(self.terms(silo).read_text(encoding="utf-8"))
        write_private(self.terms(silo), tomli_w.dumps({**values, "agent": _said(agent)}))


def make_consortium(
    folder: Path, scenario: Scenario, agents: Sequence[str | float | Path], terms: Terms | None = None
) -> Consortium:
    """Keys for all, and for each silo a private file with the terms that the scenario draws for it.

    Made in a folder of its own, then moved into place with the roster last: who is killed at it can ask again, and a
    consortium that has a roster is whole. The folder itself cannot be renamed into place, it may be in use.
    """
    terms = scenario.draw(jax.random.key(scenario.seed)) if terms is None else terms
    found = Consortium(folder, tuple(f"silo-{silo}" for silo in range(scenario.silos.count)))
    making = Consortium(folder / "consortium.part", found.names)
    if not making.roster.exists():
        shutil.rmtree(making.folder, ignore_errors=True)
        taken = [*folder.glob("coordinator.key*"), *(folder / name for name in found.names if (folder / name).exists())]
        if taken:
            raise PotluckError(f": {taken[0]} is there already; name another folder", field="out")
        _write(making, scenario, agents, terms)
    for place in sorted(making.folder.iterdir(), key=lambda place: place == making.roster):
        place.replace(folder / place.name)
    making.folder.rmdir()
    return found


def _write(found: Consortium, scenario: Scenario, agents: Sequence[str | float | Path], terms: Terms) -> None:
    found.folder.mkdir(parents=True)
    found.scenario.write_text(render(scenario), encoding="utf-8")
    coordinator = public_key(new_key(found.key)).hex()
    roster = {}
    for silo, name in enumerate(found.names):
        place = found.terms(silo)
        place.parent.mkdir(mode=0o700)
        roster[name] = public_key(new_key(place.with_name("silo.key"))).hex()
        values = {
            "profit": float(terms.profit[silo]),
            "energy": float(terms.energy[silo]),
            "energy_price": float(scenario.energy_price),
            "communication": float(terms.communication[silo]),
            "samples": float(terms.samples[silo]),
            "key": "silo.key",
            "coordinator": coordinator,
            "agent": _said(agents[silo]),
        }
        write_private(place, tomli_w.dumps(values))
    write_text(found.roster, tomli_w.dumps(roster))


def _said(agent: str | float | Path) -> str | float:
    """As a terms file says it; a policy's file may lie anywhere."""
    return str(agent.resolve()) if isinstance(agent, Path) else agent


def write_private(place: Path, text: str) -> None:
    """Text that only its owner may read; who reads it meanwhile finds the old one or the new one."""
    write_private_bytes(place, text.encode())
