"""Who decides in a silo: a fixed share, an exported policy, or a learner that goes on learning.

A decider is pure but for what it reads from its file: its state is a tree of arrays, which the silo's state file keeps
between two slots. Every slot may run in a process of its own.
"""

import copy
import dataclasses
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from potluck.agents import AGENTS, Act, Brief, Learner, Options, PublicRules, Window, find_agent, window_length
from potluck.agents.pretrained import PretrainedActor
from potluck.errors import PotluckError
from potluck.flower.site import Site
from potluck.flower.wire import Rules
from potluck.game.observation import observation_size
from potluck.scenario import mechanism_of
from potluck.training.export import LoadedPolicy, load_policy

UPDATES = 500
"""Windows over which a learner's rates fall to a tenth: nobody knows how long a federation will last."""


@dataclass(frozen=True)
class Situation:
    """What a silo decides from."""

    observation: Float[Array, " observation"]
    """z_n."""
    first: bool
    """Whether a game begins with the slot."""
    last: bool
    """Whether it ends with it."""


@runtime_checkable
class Decider(Protocol):
    """What turns observations into contributions, and payoffs into better ones."""

    @property
    def name(self) -> str:
        """Who it is; a state that another one left is not taken over."""
        ...

    @property
    def observes(self) -> tuple[str, ...] | None:
        """Names of what it must see; None is what the run's rules name. All of it is public or the silo's own."""
        ...

    def init(self) -> PyTree:
        """What it knows before it has seen anything."""
        ...

    def shape(self) -> PyTree:
        """The shape of what it knows, for who reads it from a file."""
        ...

    def decide(self, state: PyTree, situation: Situation, cap: float) -> tuple[PyTree, float]:
        """The contribution of the coming slot, at most `cap`."""
        ...

    def paid(self, state: PyTree, payoff: float | None) -> PyTree:
        """What the last decision earned; None for a slot in which it did not count."""
        ...


class FixedShare:
    """The same share in every slot."""

    observes = None

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise PotluckError(
                f"must be a share in [0, 1], a policy file or an agent's name, got {share}", field="agent"
            )
        self._share = share
        self.name = "fixed"

    def init(self) -> None:
        """Nothing to know."""

    shape = init

    def decide(self, state: None, situation: Situation, cap: float) -> tuple[None, float]:
        """The share."""
        del situation
        return state, min(self._share, cap)

    def paid(self, state: None, payoff: float | None) -> None:
        """Nothing to learn."""
        del payoff
        return state


class Policy:
    """An exported policy: it decides and does not learn."""

    def __init__(self, policy: LoadedPolicy) -> None:
        self._policy = policy
        self.name = f"policy {policy.about.get('agent')} {policy.observation_size}"
        self.observes: tuple[str, ...] | None = tuple(policy.about["observation"])

    def init(self) -> PyTree:
        """An empty memory."""
        return self._policy.actor.initial_memory()

    def shape(self) -> PyTree:
        """Like any memory of it."""
        return self._policy.memory

    def decide(self, state: PyTree, situation: Situation, cap: float) -> tuple[PyTree, float]:
        """As it was trained to."""
        self._policy.memory = state
        if situation.first:
            self._policy.start()
        share = self._policy.decide(situation.observation)
        return self._policy.memory, min(share, cap)

    def paid(self, state: PyTree, payoff: float | None) -> PyTree:
        """It has learnt what it will."""
        del payoff
        return state


class LearnerState(eqx.Module):
    """A learner, and the window of play that it will learn from next."""

    agent: PyTree
    memory: PyTree
    before: PyTree
    """Memory state before the window."""
    key: PRNGKeyArray
    observation: Float[Array, "slots observation"]
    act: Act
    payoff: Float[Array, " slots"]
    first: Bool[Array, " slots"]
    last: Bool[Array, " slots"]
    slots: Int[Array, ""]
    """Slots of the window that were decided and paid."""
    decided: Bool[Array, ""]
    """Whether one more was decided and is not paid yet."""


class Learning:
    """A learner that explores, is paid, and updates itself after every window of slots.

    A slot whose payoff never came breaks the window: what was gathered of it is dropped, what was learnt stays.
    """

    def __init__(
        self, name: str, learner: Learner[Any, Any], size: int, depth: int, observes: tuple[str, ...] | None = None
    ) -> None:
        self.name, self.observes = f"{name} {size} {depth}", observes
        self._learner, self._size, self._depth = learner, size, depth

    def init(self) -> LearnerState:
        """A fresh learner; what it draws at random is its own."""
        seed = int.from_bytes(os.urandom(4), "little")
        making, key = jax.random.split(jax.random.key(seed))
        agent = self._learner.init(making)
        memory = self._learner.initial_memory(agent)
        empty = jnp.zeros((self._depth, 1))
        return LearnerState(
            agent=agent,
            memory=memory,
            before=memory,
            key=key,
            observation=jnp.zeros((self._depth, self._size)),
            act=Act(empty, empty, empty),
            payoff=jnp.zeros(self._depth),
            first=jnp.zeros(self._depth, bool),
            last=jnp.zeros(self._depth, bool),
            slots=jnp.asarray(0),
            decided=jnp.asarray(False),
        )

    def shape(self) -> PyTree:
        """Of arrays that nobody fills."""
        return eqx.filter_eval_shape(self.init)

    def decide(self, state: LearnerState, situation: Situation, cap: float) -> tuple[LearnerState, float]:
        """Learn from the window if it is full, then draw from the policy."""
        seen = jnp.asarray(situation.observation, jnp.float32)
        if bool(state.decided):  # and never paid
            state = _empty(state)
        if int(state.slots) >= self._depth:
            state = _empty(eqx.filter_jit(_updated)(self._learner, state, seen))
        at = int(state.slots)
        if situation.first:
            memory = self._learner.initial_memory(state.agent)
            before = memory if at == 0 else state.before
            # The run before this one ended early: that was the end of its game.
            last = state.last if at == 0 else state.last.at[at - 1].set(True)
            state = dataclasses.replace(state, memory=memory, before=before, last=last)
        key, drawing = jax.random.split(state.key)
        memory, act = eqx.filter_jit(self._learner.act)(state.agent, state.memory, seen, drawing)
        share = min(float(act.action[0]), cap)
        kept = Act(jnp.full_like(act.action, share), act.raw, act.log_density)
        state = dataclasses.replace(
            state,
            memory=memory,
            key=key,
            observation=state.observation.at[at].set(seen),
            act=jax.tree.map(lambda all_, one: all_.at[at].set(one), state.act, kept),
            first=state.first.at[at].set(situation.first),
            last=state.last.at[at].set(situation.last),
            decided=jnp.asarray(True),
        )
        return state, share

    def paid(self, state: LearnerState, payoff: float | None) -> LearnerState:
        """One more slot of the window is complete, or the window is broken; what nobody waits for changes nothing."""
        if payoff is None:
            return _empty(state)
        if not bool(state.decided):
            return state
        paid = state.payoff.at[int(state.slots)].set(payoff)
        return dataclasses.replace(state, payoff=paid, slots=state.slots + 1, decided=jnp.asarray(False))


def _empty(state: LearnerState) -> LearnerState:
    """The window begins anew where the learner stands."""
    nothing = jnp.zeros_like(state.last)
    return dataclasses.replace(
        state, before=state.memory, slots=jnp.asarray(0), decided=jnp.asarray(False), last=nothing
    )


def _updated(learner: Learner[Any, Any], state: LearnerState, after: Float[Array, " observation"]) -> LearnerState:
    """Learn from one game's window; `after` is what the silo sees when it is over."""

    def game(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[None], tree)

    window = Window(
        observation=game(state.observation),
        critic_observation=game(state.observation),
        act=game(state.act),
        payoff=game(state.payoff),
        first=state.first,
        last=state.last,
        critic_observation_after=game(after),
        memory=game(state.before),
        memory_after=game(state.memory),
    )
    agent, memory, _ = learner.update(state.agent, window)
    return dataclasses.replace(state, agent=agent, memory=jax.tree.map(lambda leaf: leaf[0], memory))


@dataclass(frozen=True)
class Seat:
    """What a learner is told of the game when it is built: sizes."""

    observation_size: int
    horizon: int
    players: int
    action_size: int = 1


def decider(agent: str | float | Path, site: Site, rules: Rules, silos: int, size: int) -> Decider:
    """Who decides here. The site's own file has the last word, then what the app was given."""
    chosen = agent if site.agent is None else site.agent
    if isinstance(chosen, int | float):
        return FixedShare(float(chosen))
    file = site.beside(str(chosen))
    if file.is_file():
        known = file.stat()
        policy = _loaded(file, known.st_ino, known.st_size, known.st_mtime_ns)
        return Policy(_fitting(copy.copy(policy), file, rules, silos))
    name = str(chosen)
    if name.partition(":")[0] not in AGENTS and (Path(name).suffix or os.sep in name):
        raise PotluckError(f"{file}: no such file; write one with `potluck export`")
    return named(name, rules, silos, size)


@functools.lru_cache
def _loaded(file: Path, *_: int) -> LoadedPolicy:
    """Read once while the file stays as it is: a process of the simulation engine plays many slots."""
    return load_policy(file)


def named(name: str, rules: Rules, silos: int, size: int) -> Decider:
    """An agent by its name; refused where no single silo can be it."""
    spec, argument = find_agent(name, Options())
    if name.startswith("fixed:"):
        return FixedShare(float(argument))
    if spec.observes is not None:
        size = observation_size(spec.observes, rules.history, silos)
    public = PublicRules(rules.history, rules.mechanism)
    brief = Brief(Seat(size, rules.horizon, silos), rules.discount, UPDATES, argument=argument, rules=public)
    if spec.joint:
        raise PotluckError(f": {name} decides for all silos; no single one can use it", field="agent")
    learner = spec.build(brief)
    if learner.central:
        raise PotluckError(f": {name} needs to see what other silos see; take mpgd", field="agent")
    return Learning(name, learner, size, window_length(rules.horizon), spec.observes)


def _fitting(policy: LoadedPolicy, file: Path, rules: Rules, silos: int) -> LoadedPolicy:
    """Refused where it was trained for other silos or another memory; what it must see is shown to it."""
    wanted = {"silos": silos, "history": rules.history}
    for name, value in wanted.items():
        if (trained := policy.about.get(name)) != value:
            raise PotluckError(f"{file}: was trained with {name} {trained}, and this run has {value}; export another")
    if isinstance(policy.actor, PretrainedActor):
        mechanism = mechanism_of(**rules.mechanism).model_dump(mode="json")
        played = {"horizon": rules.horizon, "mechanism": mechanism, "discount": round(rules.discount, 6)}
        for name, value in policy.actor.plans_for.items():
            if value != played[name]:
                raise PotluckError(f"{file}: plans for {name} {value}, and this run has {played[name]}; export another")
    return policy
