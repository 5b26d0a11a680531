"""One silo's policy as a single file, for use in a deployment.

It holds what decides, and nothing else: the actor and how it scales what the silo itself sees, which is the mean and
spread of each number in z_n: of the others' contributions, of its own C, of α and P. No critic, no payoffs, no terms.
"""

import dataclasses
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from potluck.agents.moments import Moments
from potluck.agents.networks import MemorySize, Network
from potluck.agents.policies import POLICIES
from potluck.agents.policy_gradient import Learned, PolicyGradient
from potluck.agents.simple import Best, Fixed
from potluck.errors import PotluckError
from potluck.training.files import read_whole, write_whole

if TYPE_CHECKING:  # a deployment that loads a policy needs no federation
    from potluck.training.run import Trained

__all__ = ["LoadedPolicy", "export_policy", "load_policy"]

MARK = b"potluck policy 1\n"


class Actor(eqx.Module):
    """What decides: a network and the scale of its inputs, or the same contribution every time (no network)."""

    network: Network | None
    scale: Moments
    constant: Any
    policy: str = eqx.field(static=True)

    def rest(self) -> Any:
        """What is remembered before a game."""
        return None if self.network is None else self.network.rest()

    def __call__(self, recall: Any, observation: Any) -> tuple[Any, Any]:
        """d of one slot, without exploring."""
        if self.network is None:
            return recall, self.constant
        recall, raw = self.network(recall, self.scale.standard(observation))
        return recall, POLICIES[self.policy].centre(raw.reshape(2, 1))[0]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the arrays of a file are the arrays of."""

    observation_size: int
    policy: str
    hidden: tuple[int, int] | None
    """None where the contribution is always the same."""
    memory: tuple[int, int, int, int] | None
    """Words, width, heads, hidden."""

    def empty(self) -> Actor:
        """An actor of this shape."""
        network = None
        if self.hidden is not None:
            memory = None if self.memory is None else MemorySize(*self.memory)
            network = Network.create(self.observation_size, 2, self.hidden, memory, jax.random.key(0))
        return Actor(network, Moments.none(self.observation_size), jnp.zeros(()), self.policy)


class LoadedPolicy:
    """A silo's policy at work: `start()` before a game, then `decide(observation)` in every slot of it."""

    def __init__(self, actor: Actor, shape: Shape, about: dict[str, Any]) -> None:
        self.observation_size = shape.observation_size
        self.about = about
        """Which run and silo it comes from, and what it must be shown: N, H and the scenario's `observation`."""
        self._actor = actor
        self._step = eqx.filter_jit(lambda actor, recall, seen: actor(recall, seen))
        self.start()

    def start(self) -> None:
        """Forget the game before."""
        self._recall = self._actor.rest()

    def decide(self, observation: ArrayLike) -> float:
        """Contribution d in [0, 1] of the coming slot, from z_n as `potluck.game` writes it."""
        seen = np.asarray(observation, np.float32)
        if seen.shape != (self.observation_size,):
            raise PotluckError(f"observation must be {self.observation_size} numbers, got shape {list(seen.shape)}")
        if not np.isfinite(seen).all():
            raise PotluckError(f"observation must be finite, got {seen[~np.isfinite(seen)][0]}")
        self._recall, share = self._step(self._actor, self._recall, seen)
        return float(share)


def export_policy(run: "Trained", silo: int, seed: int, place: Path) -> None:
    """Write silo `silo` of training seed `seed` to a file."""
    scenario = run.plan.scenario
    if not 0 <= silo < scenario.silos.count:
        raise PotluckError(f"--silo must be 0 to {scenario.silos.count - 1}, got {silo}")
    if run.plan.joint:
        raise PotluckError(f"--silo: {run.plan.agent} sets what all silos contribute; no single one can use it")
    learned = jax.tree.map(lambda leaf: leaf[run.row(seed), silo], run.runs.learned)
    actor, shape = _actor(run.seated.learner, learned, run.seated.environment.observation_size)
    about = {
        "agent": run.plan.agent,
        "silo": silo,
        "seed": seed,
        "silos": scenario.silos.count,
        "history": scenario.history,
        "observation": scenario.observation.model_dump(),
    }
    described = json.dumps({"shape": dataclasses.asdict(shape), "about": about}).encode()
    leaves = {f"leaf{n}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(eqx.filter(actor, eqx.is_array)))}
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, described=np.frombuffer(described, np.uint8), **leaves)
    try:
        write_whole(place, content.getbuffer(), MARK)
    except OSError as fault:
        raise PotluckError(
            f"{place}: {(fault.strerror or str(fault)).lower()}; name another place with --out"
        ) from None


def load_policy(path: str | Path) -> LoadedPolicy:
    """Read an exported policy; it needs nothing but its file."""
    try:
        payload = read_whole(Path(path), MARK)
        with np.load(io.BytesIO(payload), allow_pickle=False) as file:
            described = json.loads(file["described"].tobytes())
            shape = Shape(**described["shape"])
            empty, rest = eqx.partition(shape.empty(), eqx.is_array)
            expected, tree = jax.tree.flatten(empty)
            leaves = [file[f"leaf{n}"] for n in range(len(expected))]
    except FileNotFoundError:
        raise PotluckError(f"{path}: no such file; write one with `potluck export`") from None
    except OSError as fault:
        raise PotluckError(f"{path}: {(fault.strerror or str(fault)).lower()}") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise PotluckError(f"{path}: not a policy that can be used ({fault}); export it again") from None
    for leaf, wanted in zip(leaves, expected, strict=True):
        if leaf.shape != wanted.shape or not np.isfinite(leaf).all():
            raise PotluckError(f"{path}: not a policy that can be used (its numbers are wrong); export it again")
    actor = eqx.combine(jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in leaves]), rest)
    return LoadedPolicy(actor, shape, described["about"])


def _actor(learner: Any, learned: Any, observation_size: int) -> tuple[Actor, Shape]:
    """The part of one player's knowledge that decides."""
    if isinstance(learner, PolicyGradient) and isinstance(learned, Learned):
        remembers, size = learned.actor.memory is not None, learner.memory_size
        memory = (size.words, size.width, size.heads, size.hidden) if remembers else None
        shape = Shape(observation_size, learner.policy, learner.hidden, memory)
        return Actor(learned.actor, learned.observations, jnp.zeros(()), learner.policy), shape
    if isinstance(learned, Best):
        constant = learned.action[0]
    elif isinstance(learner, Fixed):
        constant = jnp.asarray(learner.action)
    else:
        raise PotluckError(f"--silo: {type(learner).__name__} has no policy that can be exported")
    shape = Shape(observation_size, "gaussian", None, None)
    return Actor(None, Moments.none(observation_size), constant, "gaussian"), shape
