"""The law of precision, learnt from games that were played: an ensemble of formulas, with a small network or without.

A plan fixes all contributions, so precision can be predicted from them alone. A power law of the progress so far
explains most of it. An average of few, or of those who went far, wobbles: what is lost so heals when many bring a
little late. A recurrent network learns the rest.
"""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.devices import device_count, device_index, everywhere

MEMBERS, UNITS = 4, 32
"""Of an ensemble, unless told otherwise."""
BATCH, FIT_STEP = 64, 5e-3
"""Games per step of a fit, and the first stride of Adam for a network, likewise."""
FORMULA = 4.0
"""How many times as far a law's few named numbers go in a step."""
ASCENT_STEPS, ASCENT_STEP = 300, 0.03
DOUBT = 1.0
"""Standard deviations of the members' opinions that a plan's worth is lowered by."""
NOISE = 0.01
"""Of the precision of a slot, about: the unit of the loss."""
SMALL = 1e-3
"""Of what is brought: nothing is divided by less."""
WIDEST = 2.0
"""log of the most that an average can lack: far more than there is, so that no number becomes infinite."""
TURN, BETWEEN = 1.0, 0.3
"""What a silo brings when it is its turn and when it is not."""
Plan: TypeAlias = Float[Array, "slots silos"]


class Wobble(eqx.Module):
    """n_t = n_{t−1} + r_t·(ν_t − n_{t−1}): what an average of models that went apart is short of.

    Let q = Σwd²/Σwd, how far the average goes, and m = Σ(wd)²/(Σwd)², one over how many it is taken of. Then
    ν = e^size · m^a · q^b · (1 + progress)^fading with a and b the softplus of `averaging` and `distance`, and
    r = 1 − exp(−q·e^renewal) of it is new.
    """

    size: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-3.0)
    renewal: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1.0)
    averaging: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.5)
    distance: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-2.0)
    fading: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.0)

    def __call__(
        self, far: Float[Array, " slots"], few: Float[Array, " slots"], progress: Float[Array, " slots"]
    ) -> Float[Array, " slots"]:
        """n of every slot, from q, m and log(1 + progress)."""
        of_few = jax.nn.softplus(self.averaging) * jnp.log(few)
        of_far = jax.nn.softplus(self.distance) * jnp.log(far + SMALL)
        fresh = jnp.exp(jnp.minimum(self.size + of_few + of_far + self.fading * progress, WIDEST))
        share = 1 - jnp.exp(-jnp.exp(self.renewal) * far)

        def slot(wobble: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            wobble = wobble + now[0] * (now[1] - wobble)
            return wobble, wobble

        return jax.lax.scan(slot, jnp.zeros(()), (share, fresh))[1]


class Brought(eqx.Module):
    """What the law knows of every slot's contributions, weighed by w."""

    all: Float[Array, " slots"]
    """What all bring, (1/N)·Σ_n w_n d_n."""
    far: Float[Array, " slots"]
    """q, what one brings as an average weighs it, Σ_n w_n d_n² / Σ_n w_n d_n."""
    few: Float[Array, " slots"]
    """m, one over how many the average is taken of."""


def brought(plan: Plan, weights: Float[Array, " silos"]) -> Brought:
    weighed = plan * weights
    total, squares = weighed.sum(1), (weighed**2).sum(1)
    return Brought(
        all=total / len(weights),
        far=(weighed * plan).sum(1) / (total + SMALL),
        few=(squares + SMALL) / (total**2 + SMALL),
    )


class Formula(eqx.Module):
    """P_t = c − exp(g − b·log(1 + x_t) + h_t) − n_t: x_t is the progress so far, n_t the wobble, h_t what is left.

    An average weighs a silo by what it brings, so a slot's progress is made of what all bring and of what one brings as
    the average weighs it. How much each counts is learnt. The ten numbers are the same for any number of silos.
    """

    ceiling: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1.0)
    gap: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.0)
    exponent: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.5)
    progress: Float[Array, " 2"] = eqx.field(converter=jnp.asarray, default=(1.0, 2.0))
    """log of what the two numbers weigh."""
    wobble: Wobble = eqx.field(default_factory=Wobble)

    def so_far(self, slots: Brought) -> Float[Array, " slots"]:
        """log(1 + x_t)."""
        return jnp.log1p(jnp.cumsum(jnp.stack([slots.all, slots.far], axis=1) @ jnp.exp(self.progress)))

    def precision(self, slots: Brought, rest: Float[Array, "*slots"]) -> Float[Array, " slots"]:
        """P of every slot, where h is `rest`."""
        progress = self.so_far(slots)
        expected = self.ceiling - jnp.exp(self.gap - self.exponent * progress + rest)
        return expected - self.wobble(slots.far, slots.few, progress)


class Law(eqx.Module):
    """P of every slot by the formula, with a recurrent network for h that sees what each silo brings.

    Without units it is the formula alone, which but for w is the same for any number of silos.
    """

    formula: Formula
    data: Float[Array, " silos"]
    """log w."""
    cell: eqx.nn.GRUCell | None
    head: Float[Array, " units"]

    def __init__(self, silos: int, key: PRNGKeyArray, units: int = UNITS) -> None:
        self.formula, self.data = Formula(), jnp.zeros(silos)
        self.cell = eqx.nn.GRUCell(7 + 3 * silos, units, key=key) if units else None
        self.head = jnp.zeros(units)

    def __call__(self, plan: Plan) -> Float[Array, " slots"]:
        """P of every slot."""
        weights = jnp.exp(self.data)
        slots, weighed = brought(plan, weights), plan * weights
        if (cell := self.cell) is None:
            return self.formula.precision(slots, jnp.zeros(len(plan)))
        some = 1 - jnp.exp(-8 * plan)
        noticed = (weighed * some).sum(1) / (weighed.sum(1) + SMALL)
        each = plan, jnp.sqrt(plan + SMALL), some
        seen = [slots.far, slots.few, self.formula.so_far(slots), noticed, *(part.mean(1) for part in each)]
        told = jnp.concatenate([jnp.stack(seen, axis=1), *each], axis=1)

        def slot(memory: Float[Array, " units"], now: Float[Array, " inputs"]) -> tuple[Array, Array]:
            memory = cell(now, memory)
            return memory, self.head @ memory

        return self.formula.precision(slots, jax.lax.scan(slot, jnp.zeros_like(self.head), told)[1])


class Record(eqx.Module):
    """Games that were played, with room for those to come; where there is none left, the oldest give way."""

    contributions: Float[Array, "room slots silos"]
    precision: Float[Array, "room slots"]
    games: Int[Array, ""]
    """All that were ever seen."""

    @staticmethod
    def blank(room: int, slots: int, silos: int) -> "Record":
        return Record(jnp.zeros((room, slots, silos)), jnp.zeros((room, slots)), jnp.asarray(0))

    def after(
        self, contributions: Float[Array, "games slots silos"], precision: Float[Array, "games slots"]
    ) -> "Record":
        """With some more games."""
        places = self.places(len(precision))
        return Record(
            self.contributions.at[places].set(contributions[-len(places) :]),
            self.precision.at[places].set(precision[-len(places) :]),
            self.games + len(precision),
        )

    @property
    def kept(self) -> Int[Array, ""]:
        """How many of them are still there."""
        return jnp.minimum(self.games, len(self.precision))

    def places(self, games: int) -> Int[Array, " kept"]:
        """Where the last of so many more games go: all of them, or as many as there is room for."""
        room = len(self.precision)
        return (self.games + jnp.arange(games)[-room:]) % room


def turns(slots: int, silos: int) -> Plan:
    """One silo after the other brings everything: where an ascent ends well (docs/learning.md, taking turns)."""
    return jnp.where(jnp.arange(slots)[:, None] % silos == jnp.arange(silos), TURN, BETWEEN)


def ensemble(silos: int, key: PRNGKeyArray, members: int = MEMBERS, units: int = UNITS) -> Law:
    """Laws that know nothing, side by side on a leading axis."""
    laws: Law = eqx.filter_vmap(lambda key: Law(silos, key, units))(jax.random.split(key, members))
    return laws


@eqx.filter_jit
def fit(
    laws: Law,
    record: Record,
    key: PRNGKeyArray,
    steps: Int[Array, ""],
    batch: int = BATCH,
    first_stride: Float[Array, ""] | float = FIT_STEP,
    decay: float = 0.0,
) -> Law:
    """Descend the mean of (P̂_t − P_t)² over slots and games, whole games in which a law is told nothing but d, plus
    `decay` times the squares of the network's last weights: then it speaks only where many games do.

    Members weigh the games differently (a Bayesian bootstrap), so they disagree where few games speak. Devices that
    share the games of a program share a batch too.
    """
    optimiser = optax.scale_by_adam(b2=0.99)
    shared = batch % device_count() == 0
    part = batch // device_count() if shared else batch
    begin = part * device_index() if shared else 0

    def one(law: Law, member: Int[Array, ""]) -> Law:
        weights = jax.random.exponential(jax.random.key(member), record.precision.shape[:1])
        luck = jax.random.fold_in(key, member)
        strides = _strides(law, first_stride)

        def loss(law: Law, games: Int[Array, " batch"]) -> Float[Array, ""]:
            error = (jax.vmap(law)(record.contributions[games]) - record.precision[games]) / NOISE
            return jnp.mean(weights[games] * jnp.mean(error**2, axis=1)) + decay * jnp.sum(law.head**2)

        def step(at: Int[Array, ""], carry: tuple[Law, optax.OptState]) -> tuple[Law, optax.OptState]:
            law, state = carry
            games = jax.random.randint(jax.random.fold_in(luck, at), (batch,), 0, record.kept)
            gradient = jax.grad(loss)(law, jax.lax.dynamic_slice_in_dim(games, begin, part))
            change, state = optimiser.update(jax.tree.map(everywhere, gradient), state)
            now = (1 + jnp.cos(jnp.pi * at / steps)) / 2
            return jax.tree.map(lambda leaf, stride, by: leaf - now * stride * by, law, strides, change), state

        fitted: Law = jax.lax.fori_loop(0, steps, step, (law, optimiser.init(law)))[0]
        return fitted

    fitted: Law = jax.vmap(one)(laws, jnp.arange(len(laws.head)))
    return fitted


def _strides(law: Law, stride: Float[Array, ""] | float) -> Law:
    """The stride of every number: that of the network, more for those that have a name."""
    named = jax.tree.map(lambda _: FORMULA * stride, (law.formula, law.data))
    strides: Law = eqx.tree_at(lambda law: (law.formula, law.data), jax.tree.map(lambda _: stride, law), named)
    return strides


class Worth(eqx.Module):
    """Welfare of a slot is linear in what happens in it: W_t = p·P_t + Σ_n c_n d_{n,t} + w."""

    precision: Float[Array, ""]
    contributions: Float[Array, " silos"]
    rest: Float[Array, ""]

    def __call__(self, plan: Plan, precision: Float[Array, " slots"]) -> Float[Array, ""]:
        """Its mean over slots."""
        return self.precision * precision.mean() + (plan @ self.contributions).mean() + self.rest


def worth_of(
    welfare: Float[np.ndarray, "games slots"],
    precision: Float[np.ndarray, "games slots"],
    contributions: Float[np.ndarray, "games slots silos"],
) -> Worth:
    """By least squares: exact where terms stay, their mean where they are drawn anew; absent silos cost nothing."""
    known = np.concatenate([precision[..., None], contributions, np.ones((*precision.shape, 1))], axis=2, dtype=float)
    found = np.linalg.lstsq(known.reshape(welfare.size, -1), welfare.ravel().astype(float), rcond=None)[0]
    return Worth(*(jnp.asarray(part, jnp.float32) for part in (found[0], found[1:-1], found[-1])))


@eqx.filter_jit
def ascend(
    laws: Law, worth: Worth, present: Float[Array, " silos"], starts: Float[Array, "starts slots silos"]
) -> tuple[Float[Array, "starts slots silos"], Float[Array, " starts"]]:
    """From every start climb mean − deviation of what the members think a plan is worth: where they have seen little,
    they are not believed. The plans, and what is believed of them.
    """
    optimiser = optax.adam(optax.cosine_decay_schedule(ASCENT_STEP, ASCENT_STEPS))

    def believed(plan: Plan) -> Float[Array, ""]:
        each = jax.vmap(lambda law: worth(plan, law(plan)))(laws)
        return each.mean() - DOUBT * jnp.sqrt(each.var() + 1e-6)

    def from_there(begun: Plan) -> tuple[Plan, Float[Array, ""]]:
        def step(carry: tuple[Plan, optax.OptState], _: None) -> tuple[tuple[Plan, optax.OptState], None]:
            plan, state = carry
            change, state = optimiser.update(-jax.grad(believed)(plan), state)
            return (jnp.clip(plan + change, 0, 1) * present, state), None

        plan = jax.lax.scan(step, (begun, optimiser.init(begun)), None, ASCENT_STEPS)[0][0]
        return plan, believed(plan)

    reached: tuple[Array, Array] = jax.vmap(from_there)(starts * present)
    return reached
