"""Model-based policy gradient: a silo learns how precision comes about, and improves its own play in imagination.

A real federation plays hundreds of slots, not a hundred thousand. All silos see all contributions and the precision of
every slot, and each knows what it earned. That is enough to learn what a plan of one's own would earn, if the others
went on as they do.
"""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents.actors import PlanActor
from potluck.agents.earnings import Earnings, Games, Seen, earnings_of
from potluck.agents.learner import Act, Diagnostics, Window
from potluck.agents.precision_model import Law, ensemble, fit, turns
from potluck.devices import gathered

SURVEY = 96
"""Games before any law is fitted, unless a run has too few."""
LEAST, EPSILON = 1e-12, 1e-16
"""Of a slot's weight γ^t, and Adam's ε: who climbs must see slots that a discount makes small."""
NEAR, FAR, BENDS = 0.02, 0.2, 5
"""How far a game is played from the plan: from so much to so much; bends of a changed stretch."""
CONVENTIONS, LATE = 3, 0.2
"""How many plans are surveyed near, and what all bring in the end of two of them."""
Plan: TypeAlias = Float[Array, " slots"]
Plans: TypeAlias = Float[Array, "slots silos"]
"""Of all silos, in their order."""


class Others(eqx.Module):
    """How all silos act, and what the mechanism answers, slot by slot, over the last windows.

    Of contributions the median counts: who explores around a corner of [0, 1] is seen there, where the mean is not.
    """

    contributions: Plans
    signal: Float[Array, " slots"]


class Laws(eqx.Module):
    """What a silo believes of precision: members of two ensembles.

    Formulas know little and err alike; networks see what each silo brings and err where few games speak. A plan that
    both believe in rests on the games more than on the form of a law.
    """

    formulas: Law
    networks: Law

    def __call__(self, plans: Plans) -> Float[Array, "members slots"]:
        """P of every slot, as each of them thinks."""
        return jnp.concatenate([jax.vmap(lambda law: law(plans))(laws) for laws in (self.formulas, self.networks)])


class AgentState(eqx.Module):
    """All that one silo knows."""

    seat: Int[Array, ""]
    """Which silo it is."""
    plan: Plan
    seen: Seen
    laws: Laws
    earnings: Earnings
    others: Others
    windows: Int[Array, ""]
    """How many it has learnt from."""
    ascents: Int[Array, ""]
    """How often it has improved its plan."""


class MemoryState(eqx.Module):
    """How far a game is, and what is played in it while exploring."""

    slot: Int[Array, ""]
    plan: Plan


class ModelBased(eqx.Module):
    """How one silo learns. `others`, `own`, `precision` and `signal` are where z_n has them of the newest slot."""

    silos: int
    slots: int
    others: int
    own: int
    precision: int
    signal: int | None
    discount: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.95)
    room: int = 512
    """Games on record."""
    survey: int = SURVEY
    """Games before any law is fitted."""
    members: int = 4
    """Of each kind."""
    units: int = 32
    batch: int = 32
    first_fit: int = 2000
    """Steps of the first fit."""
    later_fit: int = 128
    """Steps of a later fit at least, which begins where the last ended."""
    fit_slots: int = 16_384
    """Slots that a later fit goes through at least, in no more steps than the first: short games need more."""
    fit_stride: float = 5e-3
    decay: float = 0.3
    """Of the law's network, which would learn the noise of few games."""
    beginnings: int = 4
    """Ascents that begin from taking turns."""
    together: int = 300
    """Steps of such an ascent, in which all silos are imagined to climb."""
    alone: int = 60
    """Steps of a later one, in which the others stay."""
    stride: float = 0.05
    """The first of an ascent."""
    doubt: float = 0.3
    """Deviations of the members' opinions that a plan's worth is lowered by."""
    recent: float = 0.5
    """Weight of the last window in what the others are thought to do."""

    central = False

    def init(self, key: PRNGKeyArray) -> AgentState:
        """Its laws begin with public numbers: from the same public record all silos learn the same law, and so expect
        the same of one another.
        """
        del key
        return AgentState(
            seat=jnp.asarray(0),
            plan=jnp.full(self.slots, 0.5),
            seen=Seen.blank(self.room, self.slots, self.silos),
            laws=Laws(
                ensemble(self.silos, jax.random.key(0), self.members, units=0),
                ensemble(self.silos, jax.random.key(0), self.members, self.units),
            ),
            earnings=Earnings.nothing(self.silos),
            others=Others(jnp.zeros((self.slots, self.silos)), jnp.zeros(self.slots)),
            windows=jnp.asarray(0),
            ascents=jnp.asarray(0),
        )

    def seated(self, state: AgentState, player: Int[Array, ""]) -> AgentState:
        """It must know whose turn it is."""
        seated: AgentState = eqx.tree_at(lambda s: s.seat, state, player)
        return seated

    def initial_memory(self, state: AgentState) -> MemoryState:
        return MemoryState(jnp.asarray(0), state.plan)

    def act(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[MemoryState, Act]:
        """Keep to a plan that is drawn when the game begins, near the present plan.

        While surveying, in every other window any plan, and one near a convention in those between.
        """
        del observation
        convention = conventions(self.slots, self.silos)[state.windows // 2 % CONVENTIONS, :, state.seat]
        around = jnp.where(state.ascents > 0, state.plan, convention)
        anything = (state.ascents == 0) & (state.windows % 2 == 0)
        drawn = jnp.where(anything, varied(key, self.slots), near(around, key))
        memory = MemoryState(memory.slot, jnp.where(memory.slot == 0, drawn, memory.plan))
        memory, action = _follow(memory, memory.plan)
        return memory, Act(action, action, jnp.zeros_like(action))

    def play(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[MemoryState, Float[Array, " action"]]:
        """Keep to the present plan."""
        del observation
        return _follow(memory, state.plan)

    def update(self, state: AgentState, window: Window[MemoryState]) -> tuple[AgentState, MemoryState, Diagnostics]:
        """Record the games, learn from all on record, improve the plan. Errors are those before learning from them."""
        return self.updated(state, window, self.public(state, window))

    def public(self, state: AgentState, window: Window[MemoryState]) -> Laws:
        """The laws that all silos learn from contributions and precision."""
        games = self._games(state.seat, window)
        record = state.seen.public.after(games.contributions, games.precision)
        later = min(self.first_fit, max(self.later_fit, self.fit_slots // (self.batch * self.slots)))
        steps = jnp.where(state.ascents == 0, self.first_fit, later)
        luck = jax.random.fold_in(jax.random.key(1), record.games)
        steps = jnp.where(record.games >= self.survey, steps, 0)

        def learnt(laws: Law) -> Law:
            return fit(laws, record, luck, steps, self.batch, self.fit_stride, self.decay)

        return Laws(learnt(state.laws.formulas), learnt(state.laws.networks))

    def updated(
        self, state: AgentState, window: Window[MemoryState], known: Laws
    ) -> tuple[AgentState, MemoryState, Diagnostics]:
        """`update`, where the law is known."""
        games = self._games(state.seat, window)
        fresh = state.seen.public.games == 0
        guessed = jax.vmap(state.laws, out_axes=1)(games.contributions)
        paid = state.earnings(games.contributions, games.precision, games.signal, state.seat)
        seen = state.seen.after(games)
        others = jax.tree.map(
            lambda before, now: jnp.where(fresh, now, (1 - self.recent) * before + self.recent * now),
            state.others,
            Others(jnp.median(games.contributions, axis=0), games.signal.mean(0)),
        )
        state = AgentState(
            seat=state.seat,
            plan=state.plan,
            seen=seen,
            laws=known,
            earnings=earnings_of(seen, state.seat),
            others=others,
            windows=state.windows + 1,
            ascents=state.ascents + (seen.public.games >= self.survey),
        )
        plan, believed = self._improved(state)
        return (
            eqx.tree_at(lambda s: s.plan, state, plan),
            window.memory_after,
            {
                "precision_error": _deviation(guessed.mean(0) - games.precision),
                "disagreement": jnp.sqrt(guessed.var(0).mean()),
                "payoff_error": _deviation(paid - games.payoff),
                "imagined_payoff": believed,
            },
        )

    def export(self, state: AgentState) -> PlanActor:
        """Its plan."""
        return PlanActor(state.plan[:, None])

    def _games(self, seat: Int[Array, ""], window: Window[MemoryState]) -> Games:
        """What was contributed, reached and earned in the window's games, on all devices.

        z_n tells of a slot after it: of all but the last in the observations, of the last in what is seen afterwards.
        What the silo brought counts, which may be less than it decided: who is absent brings nothing.
        """
        after = jnp.concatenate([window.observation[:, 1:], window.critic_observation_after[:, None]], axis=1)
        rest = after[..., self.others : self.others + self.silos - 1]
        places = jnp.arange(self.silos)
        everybody = jnp.concatenate([after[..., self.own, None], rest], axis=-1)
        everybody = everybody[..., jnp.where(places == seat, 0, places + (places < seat))]
        precision = after[..., self.precision]
        signal = jnp.zeros_like(precision) if self.signal is None else after[..., self.signal]
        here = Games(everybody, precision, signal, window.payoff)
        everywhere: Games = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), gathered(here))
        return everywhere

    def _improved(self, state: AgentState) -> tuple[Plan, Float[Array, ""]]:
        """The plan after an ascent, where there was one, and what it is believed to earn in the long term.

        In the first ascents all silos are imagined to climb, from taking turns: each as if its terms were one's own,
        since nobody knows another's. Where an average weighs a silo by what it brings, one that brings everything helps
        as much as all do, and of the equilibria those in which silos take turns earn most (docs/learning.md). Later the
        others stay as they play, and the silo goes 1/N of its way: all move at once, and whole steps would overshoot.
        """
        seat = state.seat
        present = jnp.any(state.seen.public.contributions > 0, axis=(0, 1)).astype(float)
        own = (jnp.arange(self.silos) == seat).astype(float)
        expected = state.others.contributions.at[:, seat].set(state.plan)
        ready, beginning = state.ascents > 0, state.ascents <= self.beginnings
        together = self._climb(
            state, turns(self.slots, self.silos) * present, present, jnp.where(ready & beginning, self.together, 0)
        )
        alone = self._climb(state, expected, own, jnp.where(beginning, 0, self.alone))
        later = state.plan + (alone[:, seat] - state.plan) / self.silos
        plan = jnp.where(ready, jnp.where(beginning, together[:, seat], later), state.plan)
        believed = self._worth_of_precision(state, expected.at[:, seat].set(plan)) + self._paid(
            state, plan, expected, seat
        )
        return plan, believed

    def _climb(self, state: AgentState, begun: Plans, who: Float[Array, " silos"], steps: Int[Array, ""]) -> Plans:
        """So many steps of Adam, shorter and shorter, of those who climb."""
        optimiser = optax.scale_by_adam(eps=EPSILON)

        def step(at: Int[Array, ""], carry: tuple[Plans, optax.OptState]) -> tuple[Plans, optax.OptState]:
            plans, moments = carry
            change, moments = optimiser.update(self._slopes(state, plans) * who, moments)
            stride = self.stride * (1 + jnp.cos(jnp.pi * at / steps)) / 2
            return jnp.clip(plans + stride * change, 0, 1), moments

        reached: Plans = jax.lax.fori_loop(0, steps, step, (begun, optimiser.init(begun)))[0]
        return reached

    def _slopes(self, state: AgentState, plans: Plans) -> Plans:
        """Of what each silo is believed to earn on one's own terms, in its own contributions.

        All earn alike by precision, so one slope tells what a silo's contribution earns it there; what it is paid for
        the contribution itself comes in addition.
        """

        def paid(silo: Int[Array, ""]) -> Plan:
            slope: Plan = jax.grad(lambda own: self._paid(state, own, plans, silo))(plans[:, silo])
            return slope

        by_precision: Plans = jax.grad(lambda plans: self._worth_of_precision(state, plans))(plans)
        return by_precision + jax.vmap(paid, out_axes=1)(jnp.arange(self.silos))

    def _worth_of_precision(self, state: AgentState, plans: Plans) -> Float[Array, ""]:
        """Mean − deviation of what the members think that precision earns in the long term."""
        each = jax.vmap(lambda precision: state.earnings.of_precision(precision) @ self._weights)(state.laws(plans))
        return each.mean() - self.doubt * jnp.sqrt(each.var() + 1e-6)

    def _paid(self, state: AgentState, own: Plan, plans: Plans, silo: Int[Array, ""]) -> Float[Array, ""]:
        """What a silo earns in the long term beside that, by a plan of its own among those of the others."""
        plans = plans.at[:, silo].set(own)
        return state.earnings(plans, jnp.zeros(self.slots), state.others.signal, silo) @ self._weights

    @property
    def _weights(self) -> Float[Array, " slots"]:
        """γ^t / Σγ^t."""
        weights = jnp.maximum(self.discount ** jnp.arange(self.slots), LEAST)
        return weights / weights.sum()


def surveyed_of(games: int) -> int:
    """Of so many games in all, at most half are a survey: something must be left to learn from it."""
    return min(SURVEY, max(games // 2, 1))


def _follow(memory: MemoryState, plan: Plan) -> tuple[MemoryState, Float[Array, " 1"]]:
    action = plan[jnp.minimum(memory.slot, len(plan) - 1)][None]
    return MemoryState(memory.slot + 1, memory.plan), action


def _deviation(error: Float[Array, "games slots"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(error**2))


def conventions(slots: int, silos: int) -> Float[Array, "conventions slots silos"]:
    """Plans for all that need no agreement: turns all along; all at first, then a little; turns, then a little."""
    time, alternate = jnp.arange(slots)[:, None] / slots, turns(slots, silos)
    return jnp.stack([
        alternate,
        jnp.where(time < 1 / 3, jnp.ones_like(alternate), LATE),
        jnp.where(time < 2 / 3, alternate, LATE),
    ])  # fmt: skip


def varied(key: PRNGKeyArray, slots: int) -> Plan:
    """A plan at any level, often near 0 or 1, that rises or falls, is noisy, or leaves slots out."""
    of_all, of_noise, of_gaps = jax.random.split(key, 3)
    level, fall, rough, gaps = jax.random.uniform(of_all, (4,))
    plan = jnp.sin(level * jnp.pi / 2) ** 2 + 1.5 * (fall - 0.3) * jnp.linspace(0.5, -0.5, slots)
    plan += 0.3 * rough * jax.random.normal(of_noise, (slots,))
    off = (gaps < 0.3) & (jax.random.uniform(of_gaps, (slots,)) < 0.4)
    return jnp.where(off, 0.0, jnp.clip(plan, 0, 1))


def near(plan: Plan, key: PRNGKeyArray) -> Plan:
    """A plan that differs a little: in single slots, in all, or in stretches."""
    of_size, single, whole, bends = jax.random.split(key, 4)
    size = NEAR * (FAR / NEAR) ** jax.random.uniform(of_size, (3,))
    slots = len(plan)
    stretch = jnp.interp(jnp.linspace(0, BENDS - 1, slots), jnp.arange(BENDS), jax.random.normal(bends, (BENDS,)))
    moves = jax.random.normal(single, (slots,)), jax.random.normal(whole, ()), stretch
    return jnp.clip(plan + sum(far * move for far, move in zip(size, moves, strict=True)), 0, 1)
