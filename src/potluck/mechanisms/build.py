"""From a scenario's words to its mechanism, tried before anything is built on it."""

import math
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from potluck.errors import PotluckError
from potluck.mechanisms.settlement import Settlement, facts_of, first_state, settle_slot
from potluck.scenario.description import Scenario
from potluck.scenario.mechanism import Declared, Facts, Mechanism, Need
from potluck.scenario.terms import Terms

NEEDS = frozenset(get_args(Need))
SLACK = 1e-4
"""Share of what is moved that single precision may add to the sum of transfers, or to a signal."""


def build_mechanism(scenario: Scenario, terms: Terms) -> Mechanism[Any]:
    """The mechanism that a scenario describes, where silos declare the truth; one that cannot settle is named."""
    cost = jnp.asarray(scenario.energy_price, dtype=float) * terms.energy * terms.samples
    kind = scenario.mechanism.kind
    try:
        mechanism = scenario.mechanism.build(Declared(terms.profit, cost))
        try_out(mechanism, terms.samples)
    except PotluckError as fault:
        raise PotluckError(f"{kind} {fault.message}", field="mechanism") from fault
    except Exception as fault:  # whatever a mechanism from outside may do
        reason = " ".join(str(fault).split())[:200]
        raise PotluckError(f"{kind} fails: {type(fault).__name__}: {reason}", field="mechanism") from fault
    return mechanism


def try_out(mechanism: Mechanism[Any], held: Float[Array, " silos"]) -> None:
    """Settle a few slots, corners among them, and look at the answers: shapes, numbers, budget, signal."""
    if not mechanism.needs <= NEEDS:
        raise PotluckError(f"needs {', '.join(sorted(mechanism.needs - NEEDS))}; it can be told {', '.join(NEEDS)}")
    facts = example(mechanism, held)
    _check_shapes(mechanism, jax.tree.map(lambda leaf: leaf[0], facts))
    settled = jax.device_get(_settle_all(mechanism, facts))
    _check_numbers(mechanism, facts, settled)


def example(mechanism: Mechanism[Any], held: Float[Array, " silos"]) -> Facts:
    """Facts of sixty slots, six kinds in turn: nobody contributes, all bring everything, one alone, unequal shares."""
    silos = len(held)
    ramp = jnp.linspace(0.1, 0.9, silos, dtype=held.dtype)
    alone = jnp.zeros_like(ramp).at[0].set(1.0)
    plays = (jnp.zeros_like(ramp), ramp, jnp.ones_like(ramp), alone, ramp[::-1], 1 - alone)
    slots = [
        facts_of(mechanism, play, held, jnp.asarray(reached, held.dtype), jnp.where(play > 0, 0.1 * play - 0.02, 0))
        for play, reached in zip(plays, (0.1, 0.5, 0.6, 0.55, 0.55, 0.7), strict=True)
    ]
    stacked: Facts = jax.tree.map(lambda *numbers: jnp.stack(numbers * 10), *slots)
    return stacked


@eqx.filter_jit
def _settle_all(mechanism: Mechanism[Any], facts: Facts) -> Settlement:
    def slot(state: Any, told: Facts) -> tuple[Any, Settlement]:
        settled = settle_slot(mechanism, state, told)
        return settled.state, settled

    return jax.lax.scan(slot, first_state(mechanism, facts.precision[0]), facts)[1]


def _check_shapes(mechanism: Mechanism[Any], told: Facts) -> None:
    before = jax.eval_shape(lambda: first_state(mechanism, told.precision))
    settled = jax.eval_shape(lambda state: mechanism.settle(state, told), before)
    if not isinstance(settled, tuple) or len(settled) != 3:
        raise PotluckError("must settle a slot by three answers: its state, the transfers and the signal")
    after, transfers, signal = settled
    silos = told.contributions.shape
    if transfers.shape != silos:
        raise PotluckError(f"must give one transfer per silo, shape {silos}, got {transfers.shape}")
    if signal.shape != ():
        raise PotluckError(f"must give one number as its signal, shape (), got {signal.shape}")
    one, other = (str(jax.tree.structure(state)) for state in (before, after))
    if one != other:
        raise PotluckError(f"must keep the form of its state: init gives {one}, settle gives {other}")
    for first, second in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            raise PotluckError(f"must keep the form of its state: init gives {_form(first)}, settle {_form(second)}")


def _check_numbers(mechanism: Mechanism[Any], facts: Facts, settled: Settlement) -> None:
    for slot, contributions in enumerate(np.asarray(facts.contributions)):
        play = ", ".join(f"{share:.2g}" for share in contributions[:8])
        for name, numbers in (("transfers", settled.transfers[slot]), ("a signal", settled.signal[slot])):
            if not np.isfinite(numbers).all():
                raise PotluckError(f"must give finite numbers, got {name} {numbers} where silos bring {play}")
    moved = np.abs(settled.transfers).sum(axis=1).max()
    worst = int(np.argmax(np.abs(settled.residual)))
    if mechanism.balanced and abs(settled.residual[worst]) > SLACK * moved:
        play = ", ".join(f"{share:.2g}" for share in np.asarray(facts.contributions)[worst][:8])
        raise PotluckError(
            f"must give transfers that sum to zero, or say that it is not balanced: they sum to "
            f"{settled.residual[worst]:.4g} where silos bring {play}"
        )
    low, high = mechanism.signal_bounds()
    if math.isnan(low) or math.isnan(high) or low > high:
        raise PotluckError(f"must bound its signal by the least and the most, got {low} and {high}")
    least, most = float(settled.signal.min()), float(settled.signal.max())
    slack = SLACK * max(abs(least), abs(most))
    if least < low - slack or most > high + slack:
        raise PotluckError(f"must keep its signal between its bounds {low:g} and {high:g}, got {least:g} to {most:g}")


def _form(leaf: jax.ShapeDtypeStruct) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
