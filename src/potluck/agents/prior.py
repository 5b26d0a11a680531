"""What other federations taught: their laws of precision, and which of them the record of a game speaks for.

The shape of a law (how fast returns diminish, how an average weighs silos, how it wobbles) is taken from federations
that were surveyed. Its level, which is where precision begins and ends, is this game's own, and so is how narrow each
silo's data is. Before the first slot every law is as likely as any other; after each slot those that explain the record
count more.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from potluck.agents.linear import inverse_and_determinant
from potluck.agents.precision_model import SMALL, WIDEST, Formula, Plan, brought

SETTLED = 0.1
"""The part of the noise that is left where precision is 1."""
LEAST_NOISE = 0.03
"""No two federations are so alike that one's law explains the other better than this."""
CEILING, GAP = 0.05, 0.3
"""Deviations of this game's ceiling from that of a law like it, and of e^gap as a share of it."""
SMALLEST_GAP = 0.2
"""The least share of it that a game may take."""
NARROWNESS = (0.0, 0.7)
"""Deviation of how narrow a silo's data is, which is 0 at least: silos are alike, or they differ."""
OUT_OF_THE_QUESTION = -1e30
"""Evidence of a law in which rounding has left none."""
EVIDENCE = 0.5
"""What a slot counts for: what precision strays by in one slot, it mostly strays by in the next."""
Numbers = Float[Array, "numbers"]


class Coverage(eqx.Module):
    """e^size·(1 + x)^fading·Σ_n b_n (s_n² − 1/N²): what a model lacks that has learnt from few silos of late.

    s_n is silo n's part of what was learnt: s ← s + r·(d/Σd − s) with r = 1 − exp(−q·e^renewal), from equal parts on.
    Where silos take turns all are covered, though an average is of one at a time. b_n is how narrow silo n's data is:
    1 like any other's, less where it stands for what the others hold too.
    """

    size: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-3.0)
    renewal: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-1.0)
    fading: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.0)

    def __call__(
        self, plan: Plan, far: Float[Array, " slots"], progress: Float[Array, " slots"]
    ) -> Float[Array, "slots silos"]:
        """What multiplies b in every slot, from all contributions, q and log(1 + x)."""
        silos = plan.shape[1]
        parts = (plan + SMALL / silos) / (plan.sum(1, keepdims=True) + SMALL)
        renewed = 1 - jnp.exp(-jnp.exp(self.renewal) * far)

        def slot(covered: Float[Array, " silos"], now: tuple[Array, Array]) -> tuple[Array, Array]:
            covered = covered + now[0] * (now[1] - covered)
            return covered, covered**2 - 1 / silos**2

        uneven = jax.lax.scan(slot, jnp.full(silos, 1 / silos), (renewed, parts))[1]
        return jnp.exp(jnp.minimum(self.size + self.fading * progress, WIDEST))[:, None] * uneven


class SharedLaw(eqx.Module):
    """P of every slot by the formula less what is not covered: thirteen numbers, the same for any number of silos.

    All silos count alike in an average, since nobody knows how much another holds.
    """

    formula: Formula = eqx.field(default_factory=Formula)
    coverage: Coverage = eqx.field(default_factory=Coverage)

    def __call__(self, plan: Plan, narrow: Float[Array, " silos"]) -> Float[Array, " slots"]:
        """Where silos' data is as narrow as that."""
        slots = brought(plan, jnp.ones(plan.shape[1]))
        lacking = self.coverage(plan, slots.far, self.formula.so_far(slots)) @ narrow
        return self.formula.precision(slots, jnp.zeros(len(plan))) - lacking


class OwnLaw(eqx.Module):
    """A law at the level of one game, among silos whose data is as narrow as its record tells."""

    numbers: Numbers
    narrow: Float[Array, " silos"]

    def __call__(self, plan: Plan) -> Float[Array, " slots"]:
        """P of every slot."""
        return law_of(self.numbers)(plan, self.narrow)


def numbers_of(law: SharedLaw) -> Numbers:
    """In a row."""
    return ravel_pytree(law)[0]


def law_of(numbers: Numbers) -> SharedLaw:
    found: SharedLaw = ravel_pytree(SharedLaw())[1](numbers)
    return found


def expected(numbers: Numbers, plan: Plan) -> Float[Array, " slots"]:
    """P of every slot, by a law whose numbers are in a row, among silos whose data is alike."""
    return law_of(numbers)(plan, jnp.ones(plan.shape[1]))


def unit(precision: Float[Array, "*slots"]) -> Float[Array, "*slots"]:
    """1.1 − P_t, in which noise is measured: a model that knows little strays more, by luck of its first weights."""
    return 1 + SETTLED - precision


class Record(eqx.Module):
    """One game so far, and what is planned of the rest."""

    plan: Plan
    """What all brought; in slots that are not over, what they are expected to bring."""
    precision: Float[Array, " slots"]
    over: Bool[Array, " slots"]
    """Which slots are on record."""


class Prior(eqx.Module):
    """Laws of federations, and by how much precision went astray from each."""

    laws: Float[Array, "laws numbers"]
    noise: Float[Array, " laws"]

    @staticmethod
    def in_order(laws: Float[Array, "laws numbers"], noise: Float[Array, " laws"]) -> "Prior":
        """By what laws expect where four silos bring half: then even distances are representative."""
        half = jnp.full((30, 4), 0.5)
        order = jnp.argsort(jax.vmap(lambda law: expected(law, half).mean())(laws))
        return Prior(laws[order], noise[order])

    def members(self, record: Record, count: int) -> OwnLaw:
        """A sample of the posterior over laws: `count` of them, likely ones several times.

        Every law is asked twice: with silos that are alike, and with silos that differ. The sample is taken at even
        distances of the cumulated likelihoods: no luck is needed, and all silos take the same.
        """

        def either(law: Numbers, noise: Float[Array, ""]) -> tuple[OwnLaw, Float[Array, "2"]]:
            return jax.vmap(lambda narrowness: level(law, noise, record, narrowness))(jnp.array(NARROWNESS))

        each = jax.vmap(either)(self.laws, self.noise)
        own, evidence = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), each)
        upto = jnp.cumsum(jax.nn.softmax(EVIDENCE * evidence))
        at = jnp.searchsorted(upto, upto[-1] * (jnp.arange(count) + 0.5) / count)
        chosen: OwnLaw = jax.tree.map(lambda leaf: leaf[jnp.minimum(at, len(evidence) - 1)], own)
        return chosen


def level(
    law: Numbers, noise: Float[Array, ""], record: Record, narrowness: Float[Array, ""]
) -> tuple[OwnLaw, Float[Array, ""]]:
    """The law with the ceiling c, the e^gap and the b of every silo that suit a game, and the logarithm of how likely
    it makes the game.

    P_t = c − e^g·y_t − n_t − Σ_n b_n·l_{n,t} is linear in all of them: y_t = (1 + x_t)^(−exponent) is what the progress
    x_t leaves of the gap, n_t the wobble, l_{n,t} what `Coverage` multiplies b_n with. A Gaussian prior has deviations
    δ of size S = (CEILING, GAP·e^g, narrowness, …) from the law's own numbers. With e_t = P_t − P̂_t and
    z_t = S·(1, −y_t, −l_t), all in units of the noise, δ = S·m with m = A⁻¹Zᵀe and A = I + ZᵀZ. The evidence is
    −½|e − Zm|² − ½|m|² − ½ log det A − Σ log noise, in which nothing cancels.
    """
    shared, silos = law_of(law), record.plan.shape[1]
    formula = shared.formula
    slots = brought(record.plan, jnp.ones(silos))
    progress = formula.so_far(slots)
    shrinks = jnp.exp(formula.gap - formula.exponent * progress)
    lacking = shared.coverage(record.plan, slots.far, progress)
    deviation = jnp.maximum(noise, LEAST_NOISE) * unit(record.precision)
    counts = jnp.where(record.over, 1 / deviation, 0.0)
    missed = counts * (record.precision - expected(law, record.plan))
    moves = [CEILING * jnp.ones_like(shrinks)[:, None], -GAP * shrinks[:, None], -narrowness * lacking]
    known = counts[:, None] * jnp.concatenate(moves, axis=1)
    spread, logarithm = inverse_and_determinant(jnp.eye(2 + silos) + known.T @ known)
    by = spread @ (known.T @ missed)
    rest = missed - known @ by
    evidence = -(rest @ rest + by @ by + logarithm) / 2 - jnp.sum(jnp.where(record.over, jnp.log(deviation), 0.0))
    own = eqx.tree_at(
        lambda law: (law.formula.ceiling, law.formula.gap),
        shared,
        (formula.ceiling + CEILING * by[0], formula.gap + jnp.log(jnp.maximum(1 + GAP * by[1], SMALLEST_GAP))),
    )
    narrow = jnp.maximum(1 + narrowness * by[2:], 0.0)
    return OwnLaw(numbers_of(own), narrow), jnp.where(jnp.isfinite(evidence), evidence, OUT_OF_THE_QUESTION)
