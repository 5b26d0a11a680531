"""Every agent by its name: how it is built, who decides, and what it changes about the scenario."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, get_args

import jax.numpy as jnp

from potluck.agents.dnc import DNCSize
from potluck.agents.environment import Sizes
from potluck.agents.estimators import ESTIMATORS, TARGETS
from potluck.agents.imagined import ImaginedPlay
from potluck.agents.learner import Learner
from potluck.agents.model_based import SURVEY, ModelBased, surveyed_of
from potluck.agents.policies import POLICIES
from potluck.agents.policy_gradient import Placement, PolicyGradient
from potluck.agents.pretrained import OBSERVED, Pretrained, pretrained
from potluck.agents.prior_file import load_prior, load_survey
from potluck.agents.simple import Fixed, Greedy, Random, Solved
from potluck.errors import PotluckError
from potluck.registry import Registry
from potluck.scenario import Scenario, mechanism_of


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be chosen about a policy-gradient agent; None is the agent's own way."""

    estimator: str | None = None
    target: str | None = None
    policy: str | None = None
    dnc: str | None = None

    def __post_init__(self) -> None:
        for name, known in self.choices().items():
            given = getattr(self, name)
            if given is not None and given not in known:
                raise PotluckError(f"must be one of {', '.join(known)}, got {given!r}", field=name)

    @staticmethod
    def choices() -> Mapping[str, tuple[str, ...]]:
        """What each may be."""
        return {
            "estimator": tuple(ESTIMATORS),
            "target": tuple(TARGETS),
            "policy": tuple(POLICIES),
            "dnc": get_args(Placement),
        }

    @property
    def chosen(self) -> dict[str, str]:
        """Those that are not left to the agent."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@dataclasses.dataclass(frozen=True)
class PublicRules:
    """What every silo of a federation knows of the game."""

    history: int
    """H."""
    mechanism: Mapping[str, Any]
    """As a scenario describes it."""


@dataclasses.dataclass(frozen=True)
class Brief:
    """What an agent is told when it is built for one player of an environment."""

    environment: Sizes
    discount: float
    updates: int
    """Windows that it will learn from."""
    options: Options = dataclasses.field(default_factory=Options)
    argument: str = ""
    """What follows the colon in its name, as in fixed:0.5."""
    scenario: Scenario | None = None
    """For those that solve, or must know where in z_n to find what; an environment of one's own has none."""
    window: int = 0
    """Slots of a window; 0 where it is not known yet."""
    rules: PublicRules | None = None
    """What all know of the game, where there is no scenario."""
    games: int = 0
    """That are played at once; 0 where it is not known."""

    @property
    def known(self) -> PublicRules | None:
        """The rules, from wherever they are."""
        if self.scenario is None:
            return self.rules
        return PublicRules(self.scenario.history, self.scenario.mechanism.model_dump(mode="json"))


@dataclasses.dataclass(frozen=True)
class AgentSpec:
    """One kind of agent."""

    build: Callable[[Brief], Learner[Any, Any]]
    help: str
    joint: bool = False
    """One player decides for all silos, sees what all of them see and earns the welfare: a bound, not a member."""
    adapt: Callable[[Scenario], Scenario] = lambda scenario: scenario
    """The scenario that it plays."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Which of `Options` it has a choice of, and its own way of each."""
    observes: tuple[str, ...] | None = None
    """Names of what it must see; None is what the scenario shows."""
    rests_on: Callable[[str], str] | None = None
    """A digest of what it reads, from the argument in its name: with another file it is another agent."""
    also_observes: tuple[str, ...] = ()
    """What it sees beside that, where the scenario does not show it anyway."""
    usage: str | None = None
    """How its name is written where it takes an argument, such as fixed:D."""
    whole_games: bool = False
    """Of a federation it learns from whole games only, however long they are."""

    def played(self, scenario: Scenario) -> Scenario:
        """The scenario as it plays and sees it."""
        scenario = self.adapt(scenario)
        seen = scenario.observation if self.observes is None else self.observes
        seen = (*seen, *(name for name in self.also_observes if name not in seen))
        return scenario if seen == scenario.observation else scenario.model_copy(update={"observation": seen})


def _policy_gradient(brief: Brief, **ways: Any) -> PolicyGradient:
    """MPGD, but for `ways`; what was chosen comes before both."""
    seen, ways = brief.environment.observation_size, {**ways, **brief.options.chosen}
    return PolicyGradient(
        observation_size=seen,
        action_size=brief.environment.action_size,
        critic_observation_size=seen * brief.environment.players if ways.get("central") else seen,
        updates=jnp.asarray(brief.updates),
        **{"discount": jnp.asarray(brief.discount), **ways},
    )


def learner_like(help_: str, *, joint: bool = False, without: tuple[str, ...] = (), **ways: Any) -> AgentSpec:
    """A relative of MPGD; `without` names the options that it has no choice of."""
    own = {field.name: field.default for field in dataclasses.fields(PolicyGradient)} | ways
    names = [field.name for field in dataclasses.fields(Options)]  # what each may be is looked up when it is asked for
    options = {name: str(own[name]) for name in names if name not in without}
    return AgentSpec(functools.partial(_policy_gradient, **ways), help_, joint=joint, options=options)


def _fixed(brief: Brief) -> Fixed:
    try:
        share = float(brief.argument)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        name = f"fixed:{brief.argument}" if brief.argument else "fixed"
        raise PotluckError(f": fixed needs a contribution in [0, 1], such as fixed:0.5, got {name!r}", field="agent")
    return Fixed(brief.environment.action_size, share)


def _nash(brief: Brief) -> Solved:
    if brief.scenario is None:
        raise PotluckError(": nash is solved from a scenario's formula, and there is none here", field="agent")
    from potluck.economy import equilibrium  # only here: a deployment that loads a policy needs no federation
    from potluck.game import stage_game

    play = equilibrium(stage_game(brief.scenario)).contributions
    return Solved(brief.environment.action_size, jnp.asarray(play, jnp.float32)[:, None])


def _imagined(brief: Brief) -> ImaginedPlay:
    """Where nobody says what the numbers that are seen mean."""
    sizes = brief.environment
    return ImaginedPlay(
        observation_size=sizes.observation_size,
        action_size=sizes.action_size,
        slots=sizes.horizon,
        updates=jnp.asarray(brief.updates),
        discount=jnp.asarray(brief.discount),
        players=sizes.players,
    )


def _model_based(brief: Brief) -> ModelBased | ImaginedPlay:
    if brief.scenario is None and brief.rules is not None:
        raise PotluckError(": mbpg does not learn in a deployment; export its plan and name the file", field="agent")
    if brief.scenario is None:
        return _imagined(brief)
    slots, silos, names = brief.environment.horizon, brief.scenario.silos.count, brief.scenario.observation
    if brief.window not in (0, slots):
        raise PotluckError(f"must be a whole game, {slots} slots, for mbpg, got {brief.window}", field="window")
    from potluck.game.observation import newest  # only here: a deployment that loads a policy needs no federation

    places = newest(tuple(names), brief.scenario.history, silos)
    for needed in ("others", "own_contribution", "precision"):
        if needed not in places:
            raise PotluckError(f"must have {needed!r}: mbpg learns precision from contributions", field="observation")
    return ModelBased(
        silos=silos,
        slots=slots,
        others=places["others"].start,
        own=places["own_contribution"].start,
        precision=places["precision"].start,
        signal=places["signal"].start if "signal" in places else None,
        discount=jnp.asarray(brief.discount),
        survey=surveyed_of(brief.updates * brief.games) if brief.games else SURVEY,
    )


def _pretrained(brief: Brief) -> Pretrained:
    if brief.known is None:
        raise PotluckError(": pretrained is made for a federation, which this game is not", field="agent")
    sizes, rules = brief.environment, brief.known
    prior, mechanism = load_prior(brief.argument or None), mechanism_of(**rules.mechanism)
    return pretrained(prior, mechanism, sizes.players, sizes.horizon, rules.history, brief.discount)


def without_transfers(scenario: Scenario) -> Scenario:
    """The same silos without any transfers (WPR)."""
    return scenario.model_copy(update={"mechanism": mechanism_of("none")})


_MPGD = learner_like("clipped policy gradient with a DNC; sees only its own (the default)")

AGENTS: Registry[AgentSpec] = Registry(
    "agent",
    {
        "mpgd": _MPGD,
        "wpr": dataclasses.replace(_MPGD, help="the same learners without redistribution", adapt=without_transfers),
        "maa2c": learner_like(
            "advantage actor-critic with a DNC: no clipping, one epoch",
            without=("estimator",),
            estimator="a2c",
            epochs=1,
            actor_rate=3e-3,  # docs/learning.md, tuning
            critic_rate=3e-3,
        ),
        "mappo": learner_like(
            "PPO whose critic sees what all silos see: breaks privacy on purpose",
            estimator="ppo",
            dnc="none",
            central=True,
        ),
        "lineage": learner_like(
            "MPGD with the published predecessor's sizes and rates",
            estimator="paper",
            dnc_size=DNCSize(words=10, width=32, heads=1, hidden=64),
            epochs=5,
            actor_rate=3e-5,
            critic_rate=3e-5,
            clip=0.1,
            td_lambda=1.0,
            logit_penalty=0.0,
        ),
        "mbpg": AgentSpec(
            _model_based,
            "learns how precision comes about and improves in imagined play: for few slots; sees only its own",
            also_observes=("own_contribution",),
            whole_games=True,
        ),
        "pretrained": AgentSpec(
            _pretrained,
            "for silos that have never met: begins with what other federations taught, learns within the game",
            observes=OBSERVED,
            rests_on=lambda file: load_survey(file or None).digest,
            usage="pretrained[:FILE]",
        ),
        "greedy": AgentSpec(
            lambda brief: Greedy(brief.environment.action_size),
            "one slot in ten at random, else what has earned most in a slot so far",
        ),
        "planner": learner_like(
            "one learner decides for all, sees all and maximises welfare: a bound, not a member",
            joint=True,
            dnc="none",
            discount=1.0,  # it bounds welfare over the whole game
        ),
        "nash": AgentSpec(
            _nash,
            "the solved equilibrium of one slot, in every slot; on the curve, where there is a formula to solve",
        ),
        "random": AgentSpec(lambda brief: Random(brief.environment.action_size, 0.5), "anything"),
        "fixed": AgentSpec(_fixed, "contribution D in every slot, such as fixed:0.5", usage="fixed:D"),
    },
    AgentSpec,
)


def find_agent(name: str, options: Options) -> tuple[AgentSpec, str]:
    """The named agent, and the argument in its name; refused where it has no choice of what was chosen."""
    kind, colon, argument = name.partition(":")
    if kind not in AGENTS or (colon and (AGENTS[kind].usage is None or not argument)):
        known = ", ".join(AGENTS[each].usage or each for each in AGENTS)
        raise PotluckError(f"must be one of {known}, got {name!r}", field="agent")
    spec = AGENTS[kind]
    for option in options.chosen:
        if option not in spec.options:
            raise PotluckError(f": {kind} has no choice of it; leave it out", field=option)
    return spec, argument
