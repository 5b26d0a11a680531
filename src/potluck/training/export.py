"""One silo's policy as a single file, for use in a deployment.

It holds what decides, and nothing else: the actor and how it scales what the silo itself sees, which is the mean and
deviation of each number in z_n. No critic, no payoffs, no terms.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from potluck.agents import find_agent
from potluck.agents.actors import ACTORS, Actor
from potluck.errors import PotluckError, file_faults, reason
from potluck.scenario import CurvePrecision, Scenario
from potluck.training.files import read_arrays, write_arrays

if TYPE_CHECKING:  # a deployment that loads a policy needs no federation
    from potluck.training.run import Trained

MARK = b"potluck policy 3\n"


class LoadedPolicy:
    """A silo's policy at work: `start()` before a game, then `decide(observation)` in every slot of it.

    Between two slots `memory` is all that it keeps: who stores it can go on in another process.
    """

    def __init__(
        self, actor: Actor, about: dict[str, Any], low: Sequence[float | None], high: Sequence[float | None]
    ) -> None:
        self.observation_size = len(low)
        self._low = np.array([-np.inf if bound is None else bound for bound in low])
        self._high = np.array([np.inf if bound is None else bound for bound in high])
        self.about = about
        """Which agent and silo it comes from, and what it must be shown: N, H and the scenario's `observation`."""
        self.actor = actor
        self.start()

    def start(self) -> None:
        """Forget the game before."""
        self.memory = self.actor.initial_memory()

    def decide(self, observation: ArrayLike) -> float:
        """Contribution d in [0, 1] of the coming slot, from z_n as `potluck.game.observe_one` writes it."""
        return float(self.act(observation)[0])

    def act(self, observation: ArrayLike) -> Float[np.ndarray, " action"]:
        """All numbers of the coming slot's action: in a game of one's own there may be several."""
        seen = np.asarray(observation, np.float32)
        if seen.shape != (self.observation_size,):
            raise PotluckError(
                f"must be {self.observation_size} numbers, got shape {list(seen.shape)}", field="observation"
            )
        if not np.isfinite(seen).all():
            raise PotluckError(f"must be finite, got {seen[~np.isfinite(seen)][0]}", field="observation")
        outside = np.flatnonzero((seen < self._low) | (seen > self._high))
        if len(outside):
            at = int(outside[0])
            bounds = f"[{self._low[at]:g}, {self._high[at]:g}]"
            raise PotluckError(
                f": number {at} must be in {bounds}, got {seen[at]:g}; observe_one writes shares, not percent",
                field="observation",
            )
        self.memory, shares = _step(self.actor, self.memory, jnp.asarray(seen))
        return np.asarray(shares)


@eqx.filter_jit
def _step(actor: Actor, memory: Any, seen: Float[Array, " observation"]) -> tuple[Any, Float[Array, " action"]]:
    """Compiled once for all policies of a form."""
    return actor(memory, seen)


def export_policy(run: "Trained", silo: int, seed: int, place: str | Path) -> None:
    """Write silo `silo` of training seed `seed` to a file."""
    config, silos = run.config, run.lanes.tree.environment.players
    played = config.scenario
    if isinstance(played, Scenario):
        played = find_agent(config.agent, config.options)[0].played(played)
    if run.config.joint:
        raise PotluckError(f": {run.config.agent} decides for all silos; no single one can use it", field="silo")
    if not 0 <= silo < silos:
        raise PotluckError(f"must be 0 to {silos - 1}, got {silo}", field="silo")
    if not Path(place).name or Path(place).is_dir():
        raise PotluckError(f": {str(place)!r} is a folder; name a file", field="out")
    setup, agents = run.of_seed(seed)
    actor = setup.learner.export(jax.tree.map(lambda leaf: leaf[silo], agents))
    about: dict[str, Any] = {"agent": run.config.agent.partition(":")[0], "silo": silo, "silos": silos}
    if isinstance(played, Scenario):
        about |= {"history": played.history, "observation": played.observation}
        low, high = _bounds(tuple(played.observation), played.history, silos, silo)
    else:
        about |= {"environment": played.model_dump(mode="json")}
        low = high = [None] * run.lanes.tree.environment.observation_size
    header = {"actor": actor.kind, "settings": actor.settings, "low": low, "high": high, "about": about}
    with file_faults(place, "name another place"):
        write_arrays(Path(place), MARK, header, actor)


def untrained(scenario: Scenario, agent: str = "pretrained") -> "Trained":
    """What silos that have never met begin with, as a run that has learnt nothing more. It does not hang on what the
    federation trains, so nobody's data is read.
    """
    from potluck.training.config import RunConfig, setup
    from potluck.training.loop import Runs
    from potluck.training.run import Trained

    config = RunConfig(scenario.model_copy(update={"precision": CurvePrecision()}), agent, seeds=1)
    return Trained(config, setup(config), Runs(None, None, None))


def _bounds(
    names: tuple[str, ...], history: int, silos: int, silo: int
) -> tuple[list[float | None], list[float | None]]:
    """The least and the most of every number in z_n; None where only the silo, the mechanism or a field's author could
    know.
    """
    from potluck.game import Own, Record
    from potluck.game.observation import FIELDS, OBSERVATIONS, View, bounds_of

    def extreme(share: float, unknown: float) -> View:
        shares = jnp.full((history, silos), share)
        record = Record(shares, jnp.full(history, unknown), shares[:, 0])
        return View(record, Own(jnp.full(history, unknown), *(jnp.asarray(unknown),) * 3), silo, int(share), 1)

    known = tuple(OBSERVATIONS[name].read in FIELDS or OBSERVATIONS[name].low is not None for name in names)
    low, high = bounds_of(extreme(0.0, -jnp.inf), extreme(1.0, jnp.inf), names)
    if not all(known):
        return [None] * len(low), [None] * len(high)
    plain = [[float(bound) if np.isfinite(bound) else None for bound in side] for side in (low, high)]
    return plain[0], plain[1]


def load_policy(path: str | Path) -> LoadedPolicy:
    """Read an exported policy; it needs nothing but its file."""

    def empty(header: dict[str, Any]) -> Any:
        return eqx.filter_eval_shape(lambda: ACTORS[header["actor"]](**header["settings"]))

    try:
        header, actor = read_arrays(Path(path), MARK, empty)
        if not len(header["low"]) == len(header["high"]) == getattr(actor, "observation_size", len(header["low"])):
            raise ValueError("it sees another number of things than it decides from")
        policy = LoadedPolicy(actor, header["about"], header["low"], header["high"])
    except FileNotFoundError:
        raise PotluckError(f"{path}: no such file; write one with `potluck export`") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {reason(fault)}") from None
    except Exception as fault:  # whatever was in those bytes
        said = " ".join(str(fault).split())[:200]
        raise PotluckError(f"{path}: not a policy that can be used ({said}); export it again") from None
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(actor, eqx.is_inexact_array))):
        raise PotluckError(f"{path}: not a policy that can be used (its numbers are wrong); export it again")
    return policy
