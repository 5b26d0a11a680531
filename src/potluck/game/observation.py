"""What one silo sees, computed from what that silo has: z_n, field by field."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from potluck.errors import PotluckError
from potluck.game.record import Own, Record
from potluck.registry import Registry
from potluck.scenario.description import PAPER_OBSERVATION


class View(eqx.Module):
    """One silo before a slot: the public record, what it has of its own, who it is and how far the game is."""

    record: Record
    own: Own
    silo: Int[Array, ""] | int
    slot: Int[Array, ""] | int
    """Slots that are over, t."""
    horizon: int = eqx.field(static=True)
    """T."""


@dataclass(frozen=True)
class ObservationField:
    """A part of z_n: [H, k], k numbers of every slot of the record, or [k], said once.

    `low` and `high` bound it. Where they are left out, the bounds are what it reads of the smallest and of the largest
    view that there can be, which is right for what grows with what it reads.
    """

    read: Callable[[View], Float[Array, "..."]]
    low: float | None = None
    high: float | None = None


def others(view: View) -> Float[Array, "history others"]:
    """What the others contributed, d_j, j ≠ n, in order."""
    places = jnp.arange(view.record.contributions.shape[1] - 1)
    return view.record.contributions[:, places + (places >= view.silo)]


def communication(view: View) -> Float[Array, "history 1"]:
    """Its own communication cost, C_n."""
    return view.own.communication[:, None]


def signal(view: View) -> Float[Array, "history 1"]:
    """What the mechanism sent to all; under redistribution α."""
    return view.record.signal[:, None]


def precision(view: View) -> Float[Array, "history 1"]:
    """The precision reached, P."""
    return view.record.precision[:, None]


def own_contribution(view: View) -> Float[Array, "history 1"]:
    """What it contributed itself, d_n."""
    return view.record.contributions[:, view.silo, None]


def own_samples(view: View) -> Float[Array, " 1"]:
    """Its own |D_n| in the coming slot."""
    return view.own.samples[None]


def own_terms(view: View) -> Float[Array, " 2"]:
    """What precision earns it and what its whole data costs it, p_n and κ v_n |D_n|."""
    return jnp.stack([view.own.profit, view.own.cost])


def own_place(view: View) -> Float[Array, " 1"]:
    """Which silo it is, n, counted from 0."""
    return jnp.asarray(view.silo, dtype=float)[None]


def slot(view: View) -> Float[Array, " 1"]:
    """How much of the game is over, t/T."""
    return jnp.asarray(view.slot / view.horizon)[None]


FIELDS = (others, communication, signal, precision, own_contribution, own_samples, own_terms, own_place, slot)
OBSERVATIONS: Registry[ObservationField] = Registry(
    "observation", {field.__name__: ObservationField(field) for field in FIELDS}, ObservationField
)
"""By the names that a scenario's `observation` lists."""


def observe_one(
    record: Record,
    own: Own,
    silo: Int[Array, ""] | int,
    slot: Int[Array, ""] | int,
    horizon: int,
    names: tuple[str, ...] = PAPER_OBSERVATION,
) -> Float[Array, " observation"]:
    """z_n of silo n after `slot` slots: of every slot on record, newest first, the fields that have a number for each;
    then those said once.
    """
    view = View(record, own, silo, slot, horizon)
    return _in_a_row([OBSERVATIONS[name].read(view) for name in names])


def observation_size(names: tuple[str, ...], history: int, silos: int) -> int:
    """Numbers in z_n; a field that has neither shape is named."""
    size = 0
    for name in names:
        shape = _shape(OBSERVATIONS[name], history, silos)
        if len(shape) != 1 and (len(shape) != 2 or shape[0] != history):
            raise PotluckError(
                f"{name} must read [{history}, k] numbers of the record, or [k], got shape {shape}", field="observation"
            )
        size += math.prod(shape)
    return size


def newest(names: tuple[str, ...], history: int, silos: int) -> dict[str, slice]:
    """Where in z_n each field's numbers of the newest slot are; fields said once are not among them."""
    shapes = {name: _shape(OBSERVATIONS[name], history, silos) for name in names}
    places, at = {}, 0
    for name, shape in shapes.items():
        if len(shape) == 2:
            places[name] = slice(at, at + shape[1])
            at += shape[1]
    return places


@cache
def _shape(field: ObservationField, history: int, silos: int) -> tuple[int, ...]:
    view = View(Record.blank(history, silos), Own(jnp.zeros(history), *(jnp.zeros(()),) * 3), 0, 0, 1)
    shape: tuple[int, ...] = jax.eval_shape(field.read, view).shape
    return shape


def bounds_of(
    least: View, most: View, names: tuple[str, ...]
) -> tuple[Float[np.ndarray, " observation"], Float[np.ndarray, " observation"]]:
    """The least and the most that each number of z_n can be, given views of extremes."""

    def bound(view: View, side: str) -> Float[np.ndarray, " observation"]:
        fields = [OBSERVATIONS[name] for name in names]
        read = [(field.read(view), getattr(field, side)) for field in fields]
        parts = [numbers if given is None else jnp.full_like(numbers, given) for numbers, given in read]
        return np.asarray(_in_a_row(parts), np.float32)

    return bound(least, "low"), bound(most, "high")


def _in_a_row(parts: list[Float[Array, "..."]]) -> Float[Array, " observation"]:
    per_slot = [part for part in parts if part.ndim == 2]
    flat = [jnp.concatenate(per_slot, axis=1).reshape(-1)] if per_slot else []
    return jnp.concatenate([*flat, *(part for part in parts if part.ndim == 1)])
