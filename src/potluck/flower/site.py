"""A silo's own file: its private terms, its key, and what its site allows. It never leaves the silo."""

import tomllib
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context
from pydantic import Field, PrivateAttr, ValidationError

from potluck.errors import PotluckError, reason
from potluck.ledger import read_key, read_public
from potluck.scenario.explain import first_fault
from potluck.scenario.fields import AtLeastOne, Described, NonNegative, Positive, Share


class Site(Described):
    """What a silo knows of itself, as its own people write it down."""

    profit: Annotated[Positive, Field(description="p, money per unit of precision")]
    energy: Annotated[NonNegative, Field(description="v, energy per sample")]
    energy_price: Annotated[NonNegative, Field(description="κ, money per unit of energy")]
    communication: Annotated[NonNegative, Field(description="C, money per slot")]
    samples: Annotated[
        AtLeastOne | None, Field(description="|D|, for agents that look at it before they first train")
    ] = None
    key: Annotated[str, Field(description="file of the silo's private key, beside this one")]
    coordinator: Annotated[str, Field(description="the coordinator's public key, or a file of it beside this one")]
    cap: Annotated[Share, Field(description="the largest share that the site allows; 0 is a veto")] = 1.0
    agent: Annotated[
        str | Share | None, Field(description="who decides here: a policy file, an agent's name, or a fixed share")
    ] = None
    _folder: Path = PrivateAttr(default=Path())

    def beside(self, name: str) -> Path:
        """A file that is named relative to this one."""
        return self._folder / name

    def private_key(self) -> Ed25519PrivateKey:
        """The silo signs with it."""
        return read_key(self.beside(self.key))

    def coordinator_key(self) -> bytes:
        """Settlements must be signed with it."""
        file = self.beside(self.coordinator)
        return read_public(str(file) if file.is_file() else self.coordinator)


def read_site(place: Path) -> Site:
    """Read a silo's file; refused where others than its owner may read or change it."""
    try:
        if place.stat().st_mode & 0o077:
            raise PotluckError(f"{place}: others may read these private terms; forbid it with: chmod 600 {place}")
        site = Site.model_validate(tomllib.loads(place.read_text(encoding="utf-8")))
        site._folder = place.parent
        return site
    except OSError as fault:
        raise PotluckError(f"{place}: {reason(fault)}; name the silo's terms file") from None
    except ValidationError as fault:
        raise PotluckError(f"{place}: {first_fault(fault, Site)}") from None
    except ValueError as fault:
        raise PotluckError(f"{place}: not a TOML file that can be read: {fault}") from None


def named_file(context: Context, name: str) -> Path:
    """The file that --node-config names, such as terms="/srv/silo.toml".

    Simulated nodes have no config of their own: there the run's config names it, with {partition-id} in it. Where a
    node has files of its own, who submits a run names none of them.
    """
    own = any(file in context.node_config for file in ("terms", "agent-state"))
    pattern = (context.node_config if own else context.run_config).get(name)
    if not pattern:
        raise PotluckError(f"is not named; start the SuperNode with --node-config '{name}=\"FILE\" …'", field=name)
    try:
        return Path(str(pattern).format_map(dict(context.node_config)))
    except (KeyError, ValueError, IndexError):
        raise PotluckError(f": {pattern!r} names what --node-config does not say", field=name) from None
