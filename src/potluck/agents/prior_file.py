"""A prior as a file: the laws that it rests on, in JSON that people can read, and where they come from."""

import hashlib
import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from potluck.agents.prior import Prior, SharedLaw
from potluck.errors import PotluckError, reason

MARK, VERSION = "potluck prior", 2
LARGEST = 30.0
"""Of a law's numbers, some of which are exponents: far more than any federation has."""
FEWEST = 4
"""Federations that a prior rests on, at least."""
REMEDY = "make one with `potluck pretrain`"


@dataclass(frozen=True)
class Surveyed:
    """One federation: its task, its law's numbers in their order, and how far precision went astray."""

    task: str
    law: tuple[float, ...]
    noise: float


@dataclass(frozen=True)
class Survey:
    """Federations that were surveyed, and what they were drawn from."""

    about: dict[str, Any]
    federations: tuple[Surveyed, ...] = field(default=())

    @property
    def prior(self) -> Prior:
        """What they have in common."""
        laws = jnp.array([one.law for one in self.federations], jnp.float32)
        return Prior.in_order(laws, jnp.array([one.noise for one in self.federations], jnp.float32))

    @property
    def digest(self) -> str:
        """Of all that it says."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def text(self) -> str:
        """As a file holds it."""
        rows = [
            {"task": one.task, "law": dict(zip(names(), one.law, strict=True)), "noise": one.noise}
            for one in self.federations
        ]
        return json.dumps({MARK: VERSION, "about": self.about, "federations": rows}, indent=1) + "\n"


def names() -> list[str]:
    """The numbers of a law by name, in their order."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(SharedLaw())[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        found += [name] if np.ndim(leaf) == 0 else [f"{name}.{at}" for at in range(len(leaf))]
    return found


def read_survey(text: str) -> Survey:
    """Read it back; a ValueError says what is wrong."""
    written = json.loads(text)
    if not isinstance(written, dict) or MARK not in written:
        raise ValueError("it is another kind of file")
    if written[MARK] != VERSION:
        raise ValueError(f"it is of version {written[MARK]}, and this Potluck reads version {VERSION}")
    federations = tuple(_surveyed(row) for row in written["federations"])
    return Survey(dict(written["about"]), federations)


def _surveyed(row: dict[str, Any]) -> Surveyed:
    law, noise = tuple(float(row["law"][name]) for name in names()), float(row["noise"])
    if len(row["law"]) != len(law) or not (np.abs([*law, noise]) <= LARGEST).all() or noise <= 0:
        raise ValueError("its numbers are wrong")
    return Surveyed(str(row["task"]), law, noise)


def load_survey(path: str | Path | None = None, fewest: int = FEWEST) -> Survey:
    """A file of one's own, or the one that ships with Potluck."""
    place = resources.files("potluck.agents") / "prior.json" if path is None else Path(path)
    try:
        survey = read_survey(place.read_text(encoding="utf-8"))
        if len(survey.federations) < fewest:
            raise ValueError(f"it rests on {len(survey.federations)} federations, and {fewest} are the fewest")
    except FileNotFoundError:
        raise PotluckError(f"{place}: no such file; {REMEDY}") from None
    except OSError as fault:
        raise PotluckError(f"{place}: {reason(fault)}; {REMEDY}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as fault:
        said = f"{fault} is missing" if isinstance(fault, KeyError) else " ".join(str(fault).split())[:200]
        raise PotluckError(f"{place}: not a prior that can be used ({said}); {REMEDY}") from None
    return survey


def load_prior(path: str | Path | None = None) -> Prior:
    return load_survey(path).prior
