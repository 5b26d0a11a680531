"""What other federations taught: their laws of precision, and which of them the record of a game speaks for.

The shape of a law (how fast returns diminish, how an average weighs silos, how it wobbles) is taken from federations
that were surveyed. Its level, which is where precision begins and ends, is this game's own. Before the first slot every
law is as likely as any other; after each slot those that explain the record count more.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from potluck.agents.precision_model import SMALL, WIDEST, Formula, Plan, brought

SETTLED = 0.1
"""The part of the noise that is left where precision is 1."""
LEAST_NOISE = 0.03
"""No two federations are so alike that one's law explains the other better than this."""
CEILING, GAP = 0.05, 0.3
"""Deviations of this game's ceiling from that of a law like it, and of e^gap as a share of it."""
SMALLEST_GAP = 0.2
"""The least share of it that a game may take."""
EVIDENCE = 0.5
"""What a slot counts for: what precision strays by in one slot, it mostly strays by in the next."""
Numbers = Float[Array, "numbers"]


class Coverage(eqx.Module):
    """e^size·(Σ_n s_n² − 1/N)·(1 + x)^fading: what a model lacks that has learnt from few silos of late.

    s_n is silo n's part of what was learnt: s ← s + r·(d/Σd − s) with r = 1 − exp(−q·e^renewal), from equal parts on.
    Where silos take turns all are covered, though an average is of one at a time.
    """

    size: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-3.0)
    renewal: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=-1.0)
    fading: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.0)

    def __call__(
        self, plan: Plan, far: Float[Array, " slots"], progress: Float[Array, " slots"]
    ) -> Float[Array, " slots"]:
        """Of every slot, from all contributions, q and log(1 + x)."""
        silos = plan.shape[1]
        parts = (plan + SMALL / silos) / (plan.sum(1, keepdims=True) + SMALL)
        renewed = 1 - jnp.exp(-jnp.exp(self.renewal) * far)

        def slot(covered: Float[Array, " silos"], now: tuple[Array, Array]) -> tuple[Array, Array]:
            covered = covered + now[0] * (now[1] - covered)
            return covered, jnp.sum(covered**2) - 1 / silos

        uneven = jax.lax.scan(slot, jnp.full(silos, 1 / silos), (renewed, parts))[1]
        return jnp.exp(jnp.minimum(self.size + self.fading * progress, WIDEST)) * uneven


class SharedLaw(eqx.Module):
    """P of every slot by the formula less what is not covered: thirteen numbers, the same for any number of silos.

    All silos count alike, since nobody knows how much another holds.
    """

    formula: Formula = eqx.field(default_factory=Formula)
    coverage: Coverage = eqx.field(default_factory=Coverage)

    def __call__(self, plan: Plan) -> Float[Array, " slots"]:
        slots = brought(plan, jnp.ones(plan.shape[1]))
        lacking = self.coverage(plan, slots.far, self.formula.so_far(slots))
        return self.formula.precision(slots, jnp.zeros(len(plan))) - lacking


def numbers_of(law: SharedLaw) -> Numbers:
    """In a row."""
    return ravel_pytree(law)[0]


def law_of(numbers: Numbers) -> SharedLaw:
    found: SharedLaw = ravel_pytree(SharedLaw())[1](numbers)
    return found


def expected(numbers: Numbers, plan: Plan) -> Float[Array, " slots"]:
    """P of every slot, by a law whose numbers are in a row."""
    return law_of(numbers)(plan)


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

    def members(self, record: Record, count: int) -> Float[Array, "members numbers"]:
        """Laws that the record speaks for, at the level of this game, each as often as it is likely.

        They are taken at even distances of the summed likelihoods: no luck is needed, and all silos take the same.
        """
        levelled, evidence = jax.vmap(lambda law, noise: level(law, noise, record))(self.laws, self.noise)
        upto = jnp.cumsum(jax.nn.softmax(EVIDENCE * evidence))
        at = jnp.searchsorted(upto, upto[-1] * (jnp.arange(count) + 0.5) / count)
        return levelled[jnp.minimum(at, len(self.laws) - 1)]


def level(law: Numbers, noise: Float[Array, ""], record: Record) -> tuple[Numbers, Float[Array, ""]]:
    """The law with the ceiling c and the e^gap that suit a game, and the logarithm of how likely it makes the game.

    P_t = c − e^g·y_t − n_t is linear in both. So with deviations δ from the law's own, e_t = P_t − P̂_t and
    z_t = (1, −y_t), all in units of the noise, δ = (ZᵀZ + S⁻²)⁻¹Zᵀe, and the evidence is
    ½ eᵀZδ − ½ eᵀe − ½ log det(I + S²ZᵀZ) − Σ log noise.
    """
    formula = law_of(law).formula
    gap = jnp.exp(formula.gap)
    slots = brought(record.plan, jnp.ones(record.plan.shape[1]))
    shrinks = jnp.exp(-formula.exponent * formula.so_far(slots))
    deviation = jnp.maximum(noise, LEAST_NOISE) * unit(record.precision)
    counts = jnp.where(record.over, 1 / deviation, 0.0)
    missed = counts * (record.precision - expected(law, record.plan))
    one, other = counts * CEILING, -counts * shrinks * GAP * gap
    a, b, d = 1 + one @ one, one @ other, 1 + other @ other
    of_one, of_other, determinant = one @ missed, other @ missed, a * d - b * b
    by = jnp.stack([d * of_one - b * of_other, a * of_other - b * of_one]) / determinant
    explained = by @ jnp.stack([of_one, of_other]) - missed @ missed - jnp.log(determinant)
    evidence = explained / 2 - jnp.sum(jnp.where(record.over, jnp.log(deviation), 0.0))
    own = eqx.tree_at(
        lambda law: (law.formula.ceiling, law.formula.gap),
        law_of(law),
        (formula.ceiling + CEILING * by[0], formula.gap + jnp.log(jnp.maximum(1 + GAP * by[1], SMALLEST_GAP))),
    )
    return numbers_of(own), evidence
