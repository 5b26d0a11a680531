"""Best responses and equilibria in imagination: on the law of precision and the payoffs that played games tell of.

What is found here is only believed. Whoever uses it plays it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from potluck.agents.earnings import Earnings, Seen, earnings_of
from potluck.agents.precision_model import DOUBT, Law, Record, ensemble, fit
from potluck.devices import mesh_over
from potluck.game import Planner
from potluck.studies.planning import FIRST_FIT, NEXT_FIT, Plan, near, played, simple, varied

SURVEY = 128
"""Games of plans that differ as much as they can."""
BATCH, ROOM = 64, 512
"""Games that are played at once, and that are learnt from in one program."""
STEPS, STEP = 300, 0.03
"""Of an ascent."""


class Told(eqx.Module):
    """What games tell: one row for each."""

    contributions: Float[np.ndarray, "games slots silos"]
    precision: Float[np.ndarray, "games slots"]
    signal: Float[np.ndarray, "games slots"]
    payoffs: Float[np.ndarray, "games slots silos"]
    transfers: Float[np.ndarray, "games slots silos"]

    @property
    def welfare(self) -> Float[np.ndarray, "games slots"]:
        """What all earn; money that is only moved, or comes from outside, is none."""
        return np.asarray((self.payoffs - self.transfers).sum(-1))


class Model(eqx.Module):
    """What is believed of a game: members of an ensemble on the law's leading axis, silos on that of earnings."""

    laws: Law
    earnings: Earnings
    weights: Float[Array, " slots"]
    """γ^t / Σγ^t."""

    def opinions(self, plan: Plan, signal: Float[Array, " slots"]) -> Float[Array, "members silos"]:
        """What each member thinks that each silo earns in the long term."""
        silos = plan.shape[1]

        def opinion(law: Law) -> Float[Array, " silos"]:
            precision = law(plan)

            def of(earnings: Earnings, silo: Int[Array, ""]) -> Float[Array, ""]:
                return self.weights @ earnings(plan, precision, signal, silo)

            return jax.vmap(of)(self.earnings, jnp.arange(silos))

        return jax.vmap(opinion)(self.laws)

    def worth(self, plan: Plan, signal: Float[Array, " slots"]) -> Float[Array, " silos"]:
        """Mean − deviation of the opinions."""
        each = self.opinions(plan, signal)
        return each.mean(0) - DOUBT * jnp.sqrt(each.var(0) + 1e-6)


@dataclass
class Imagination:
    """A game for all, what it has told so far, and the law that was learnt from it."""

    planner: Planner
    discount: float
    told: list[Told] = field(default_factory=list)
    laws: Law | None = None
    first_fit: int = FIRST_FIT
    """Steps of the first fit, and of later ones."""
    next_fit: int = NEXT_FIT

    def apart(self) -> "Imagination":
        """The same from here on, which what is played in another does not change."""
        return replace(self, told=list(self.told))

    def survey(self) -> None:
        """Play plans that differ as much as they can, unless that was done."""
        if not self.told:
            self.play(varied(jax.random.split(self.key(0), SURVEY), self.planner.horizon, self.planner.action_size))

    def near(self, plans: Float[Array, "plans slots silos"]) -> None:
        """Play games near plans, in turn."""
        games = BATCH * -(-len(plans) // BATCH)
        self.play(near(plans, jax.random.split(self.key(0), games)))

    def play(self, plans: Float[Array, "games slots silos"]) -> None:
        """A batch at a time, so that any number of games is one program."""
        keys = jax.random.split(self.key(1), len(plans))
        for first in range(0, len(plans), BATCH):
            part = slice(first, first + BATCH)
            self.tell(played(self.planner, plans[part], keys[part], mesh_over(BATCH))[1])

    def tell(self, report: Any) -> None:
        """What the slots of a batch of games reported."""
        names = ("contributions", "precision", "signal", "payoffs", "transfers")
        self.told.append(Told(*(np.asarray(getattr(report, name)) for name in names)))

    def model(self, *, paid: bool = True) -> Model:
        """Learn from all that was told; a later law begins where the last ended. Silos get transfers where `paid`."""
        told: Told = jax.tree.map(lambda *parts: _padded(np.concatenate(parts)), *self.told)
        games = jnp.asarray(BATCH * len(self.told))
        begun = ensemble(self.planner.action_size, self.key(2)) if self.laws is None else self.laws
        steps = self.first_fit if self.laws is None else self.next_fit
        record = Record(jnp.asarray(told.contributions), jnp.asarray(told.precision), games)
        self.laws = fit(begun, record, self.key(3), jnp.asarray(steps))
        signal, payoffs = (told.signal, told.payoffs) if paid else (0 * told.signal, told.payoffs - told.transfers)
        weights = self.discount ** jnp.arange(self.planner.horizon)
        return Model(self.laws, _paid(record, jnp.asarray(signal), jnp.asarray(payoffs)), weights / weights.sum())

    def key(self, purpose: int) -> Array:
        """Of what is drawn next for a purpose."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(2**31 + 1), purpose), len(self.told))


def _padded(rows: np.ndarray) -> np.ndarray:
    """With room for games to come: what is compiled for one number of games serves for more."""
    room = np.zeros((ROOM * -(-len(rows) // ROOM), *rows.shape[1:]), rows.dtype)
    room[: len(rows)] = rows
    return room


@jax.jit
def _paid(record: Record, signal: Float[Array, "games slots"], payoffs: Float[Array, "games slots silos"]) -> Earnings:
    """What every silo is paid, by least squares."""

    def of(silo: Int[Array, ""]) -> Earnings:
        return earnings_of(Seen(record, signal, payoffs[..., silo]), silo)

    found: Earnings = jax.vmap(of)(jnp.arange(payoffs.shape[-1]))
    return found


@eqx.filter_jit
def responses(
    model: Model,
    plays: Float[Array, "seeds slots silos"],
    signals: Float[Array, "seeds slots"],
    begun: Float[Array, "seeds slots silos"],
) -> tuple[Float[Array, "seeds slots silos"], Float[Array, "seeds slots silos"]]:
    """Of every seed and silo two plans, one per column, while the others play as they do.

    The bold one is that which is believed best, from several starts. The careful one begins with what the silo does and
    changes a slot only as long as the members agree on its slope: |mean| above their deviation.
    """
    seeds, slots, silos = plays.shape
    starts = jnp.concatenate([simple(slots, 1)[..., 0], jnp.zeros((2, slots))])

    def of(seed: Int[Array, ""], silo: Int[Array, ""]) -> tuple[Array, Array]:
        def among(own: Float[Array, " slots"]) -> Plan:
            return plays[seed].at[:, silo].set(own)

        def worth(own: Float[Array, " slots"]) -> Float[Array, ""]:
            return model.worth(among(own), signals[seed])[silo]

        def agreed(own: Float[Array, " slots"]) -> Float[Array, " slots"]:
            each = jax.jacrev(lambda own: model.opinions(among(own), signals[seed])[:, silo])(own)
            return jnp.where(jnp.abs(each.mean(0)) > each.std(0), each.mean(0), 0.0)

        present = plays[seed, :, silo]
        known = starts.at[-2].set(present).at[-1].set(begun[seed, :, silo])
        reached, believed = jax.vmap(lambda own: ascent(jax.grad(worth), worth, own))(known)
        return reached[jnp.argmax(believed)], ascent(agreed, worth, present)[0]

    every = jax.vmap(jax.vmap(of, (None, 0)), (0, None))(jnp.arange(seeds), jnp.arange(silos))
    bold, careful = (jnp.swapaxes(plans, 1, 2) for plans in every)
    return bold, careful


def ascent(
    slope: Callable[[Array], Array], worth: Callable[[Array], Array], begun: Array, steps: int = STEPS
) -> tuple[Array, Array]:
    """Follow a slope within [0, 1]; where that ends, and what it is worth there."""
    optimiser = optax.adam(optax.cosine_decay_schedule(STEP, steps))

    def step(carry: tuple[Array, optax.OptState], _: None) -> tuple[tuple[Array, optax.OptState], None]:
        plan, state = carry
        change, state = optimiser.update(-slope(plan), state)
        return (jnp.clip(plan + change, 0, 1), state), None

    reached = jax.lax.scan(step, (begun, optimiser.init(begun)), None, steps)[0][0]
    return reached, worth(reached)


def equilibrium(payoffs: Callable[[Plan], Float[Array, " silos"]], begun: Plan, steps: int = STEPS) -> Plan:
    """Every silo climbs its own long-term payoff, all at once: d_{n,t} follows ∂u_n/∂d_{n,t}.

    Without transfers, and with those of one lagged α, that climbs a weighted potential, so it comes to rest, and where
    it does no silo gains by a small change of its own plan.
    """

    def slope(plan: Plan) -> Plan:
        return jnp.einsum("ntn->tn", jax.jacrev(payoffs)(plan))

    return ascent(slope, lambda plan: payoffs(plan).sum(), begun, steps)[0]


@eqx.filter_jit
def equilibria(
    model: Model, starts: Float[Array, "starts slots silos"], signal: Float[Array, " slots"]
) -> Float[Array, "starts slots silos"]:
    """Where all silos come to rest in imagination, from every start."""
    return jax.vmap(lambda begun: equilibrium(lambda plan: model.worth(plan, signal), begun))(starts)
