"""One silo's policy as a single file, for use in a deployment.

It holds what decides, and nothing else: the actor and how it scales what the silo itself sees, which is the mean and
deviation of each number in z_n. No critic, no payoffs, no terms.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from potluck.agents.actors import ACTORS, Actor
from potluck.errors import PotluckError, file_faults, reason
from potluck.training.files import read_arrays, write_arrays

if TYPE_CHECKING:  # a deployment that loads a policy needs no federation
    from potluck.training.run import Trained

MARK = b"potluck policy 2\n"


class LoadedPolicy:
    """A silo's policy at work: `start()` before a game, then `decide(observation)` in every slot of it.

    Between two slots `memory` is all that it keeps: who stores it can go on in another process.
    """

    def __init__(self, actor: Actor, observation_size: int, about: dict[str, Any]) -> None:
        self.observation_size = observation_size
        self.about = about
        """Which agent and silo it comes from, and what it must be shown: N, H and the scenario's `observation`."""
        self.actor = actor
        self._step = eqx.filter_jit(lambda actor, memory, seen: actor(memory, seen))
        self.start()

    def start(self) -> None:
        """Forget the game before."""
        self.memory = self.actor.initial_memory()

    def decide(self, observation: ArrayLike) -> float:
        """Contribution d in [0, 1] of the coming slot, from z_n as `potluck.game.observe_one` writes it."""
        seen = np.asarray(observation, np.float32)
        if seen.shape != (self.observation_size,):
            raise PotluckError(
                f"must be {self.observation_size} numbers, got shape {list(seen.shape)}", field="observation"
            )
        if not np.isfinite(seen).all():
            raise PotluckError(f"must be finite, got {seen[~np.isfinite(seen)][0]}", field="observation")
        self.memory, shares = self._step(self.actor, self.memory, seen)
        return float(shares[0])


def export_policy(run: "Trained", silo: int, seed: int, place: str | Path) -> None:
    """Write silo `silo` of training seed `seed` to a file."""
    scenario = run.config.scenario
    if not 0 <= silo < scenario.silos.count:
        raise PotluckError(f"must be 0 to {scenario.silos.count - 1}, got {silo}", field="silo")
    if run.config.joint:
        raise PotluckError(f": {run.config.agent} decides for all silos; no single one can use it", field="silo")
    setup, agents = run.of_seed(seed)
    actor = setup.learner.export(jax.tree.map(lambda leaf: leaf[silo], agents))
    about = {
        "agent": run.config.agent,
        "silo": silo,
        "silos": scenario.silos.count,
        "history": scenario.history,
        "observation": scenario.observation,
    }
    header = {
        "actor": actor.kind,
        "settings": actor.settings,
        "observation_size": setup.environment.observation_size,
        "about": about,
    }
    with file_faults(place, "name another place"):
        write_arrays(Path(place), MARK, header, actor)


def load_policy(path: str | Path) -> LoadedPolicy:
    """Read an exported policy; it needs nothing but its file."""

    def empty(header: dict[str, Any]) -> Any:
        return eqx.filter_eval_shape(lambda: ACTORS[header["actor"]](**header["settings"]))

    try:
        header, actor = read_arrays(Path(path), MARK, empty)
        policy = LoadedPolicy(actor, int(header["observation_size"]), header["about"])
    except FileNotFoundError:
        raise PotluckError(f"{path}: no such file; write one with `potluck export`") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {reason(fault)}") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise PotluckError(f"{path}: not a policy that can be used ({fault}); export it again") from None
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(actor, eqx.is_inexact_array))):
        raise PotluckError(f"{path}: not a policy that can be used (its numbers are wrong); export it again")
    return policy
