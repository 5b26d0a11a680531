"""What the server makes of the silos' mean model, by name: optax transformations of the step towards it.

With w̄ = Σ_n (x_n / Σ_j x_j) w_n, the server descends the pseudo-gradient −Δ = w − w̄ (Reddi et al., Adaptive Federated
Optimization, 2021; with optax's corrections for moments that start at zero).
"""

from typing import Protocol, TypeAlias, runtime_checkable

import optax
from jaxtyping import Array, Float

from potluck.registry import Registry

Scalar: TypeAlias = Float[Array, ""] | float
EPSILON = 1e-3
"""Of the adaptive ones, which keeps weights that hardly move from moving by a whole step."""


@runtime_checkable
class Aggregation(Protocol):
    """Makes the server's optimiser; what a person leaves out takes the default that is written here."""

    def __call__(
        self, server_learning_rate: Scalar = ..., server_momentum: Scalar = ...
    ) -> optax.GradientTransformation:
        """An optimiser for −Δ."""


def fedavg(server_learning_rate: Scalar = 1.0, server_momentum: Scalar = 0.0) -> optax.GradientTransformation:
    """w ← w + Δ = w̄, the mean itself: neither number has a part in it."""
    del server_learning_rate, server_momentum
    return optax.sgd(1.0)


def fedavgm(server_learning_rate: Scalar = 1.0, server_momentum: Scalar = 0.9) -> optax.GradientTransformation:
    """v ← βv + Δ, w ← w + ηv."""
    return optax.sgd(server_learning_rate, momentum=server_momentum)


def fedadam(server_learning_rate: Scalar = 0.03, server_momentum: Scalar = 0.9) -> optax.GradientTransformation:
    """m ← βm + (1 − β)Δ, v ← 0.99v + 0.01Δ², w ← w + η m̂ / (√v̂ + ε)."""
    return optax.adam(server_learning_rate, b1=server_momentum, b2=0.99, eps=EPSILON)


def fedyogi(server_learning_rate: Scalar = 0.03, server_momentum: Scalar = 0.9) -> optax.GradientTransformation:
    """As fedadam with v ← v − 0.01 sign(v − Δ²)Δ², which forgets a large step more slowly."""
    return optax.yogi(server_learning_rate, b1=server_momentum, b2=0.99, eps=EPSILON)


AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", {"fedavg": fedavg, "fedavgm": fedavgm, "fedadam": fedadam, "fedyogi": fedyogi}
)
