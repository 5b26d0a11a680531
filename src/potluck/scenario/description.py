"""What a person writes down about a run: plain numbers, checked once, frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray

    from potluck.scenario.terms import Terms

__all__ = [
    "CurvePrecision",
    "FedAvgPrecision",
    "Mechanism",
    "Normal",
    "Observation",
    "Scenario",
    "Schedule",
    "Silos",
]

LARGEST = 1e12
"""Beyond it sums lose their last digits and no federation is described."""

Positive = Annotated[float, Field(strict=True, gt=0, le=LARGEST)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=LARGEST)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
AtLeastOne = Annotated[float, Field(strict=True, ge=1, le=LARGEST)]
Number = TypeVar("Number")


class Described(BaseModel):
    """Frozen, closed (an unknown key is a mistake, not a wish) and finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Normal(Described):
    """Drawn from N(mean, deviation²), truncated to be positive."""

    mean: Positive
    deviation: NonNegative


def _shape(value: Any) -> str:
    """Tell a constant from a list from a distribution, so that an error speaks of the form that was written."""
    if isinstance(value, list | tuple):
        return "list"
    return "normal" if isinstance(value, dict | Normal) else "constant"


Drawn = Annotated[
    Annotated[Number, Tag("constant")] | Annotated[tuple[Number, ...], Tag("list")] | Annotated[Normal, Tag("normal")],
    Discriminator(_shape),
]


class Silos(Described):
    """Who takes part. Each term is a constant, a list with one number per silo, or { mean, deviation }."""

    count: Annotated[int, Field(strict=True, ge=2, le=256, description="number of silos N")] = 4
    profit: Annotated[Drawn[Positive], Field(description="p, money per unit of precision")]
    energy: Annotated[Drawn[NonNegative], Field(description="v, energy per sample")]
    communication: Annotated[Drawn[NonNegative], Field(description="C, money per slot")]
    samples: Annotated[Drawn[AtLeastOne], Field(description="|D|, local samples")]
    redraw: Annotated[
        tuple[Literal["communication", "samples"], ...], Field(description="terms drawn anew in every slot")
    ] = ("communication",)
    drawn: Annotated[
        Literal["run", "episode"],
        Field(description="terms once for a run (paper), or anew for every game, so that a policy meets other silos"),
    ] = "run"

    @model_validator(mode="after")
    def _one_number_per_silo(self) -> Self:
        for name in ("profit", "energy", "communication", "samples"):
            numbers = getattr(self, name)
            if isinstance(numbers, tuple) and len(numbers) != self.count:
                raise ValueError(f"{name} must list one number per silo: {self.count} needed, got {len(numbers)}")
        return self


class Mechanism(Described):
    """How payoff is redistributed from those who bring less to those who bring more."""

    kind: Annotated[
        Literal["redistribution", "none"], Field(description="redistribution, or none for no transfers (WPR)")
    ] = "redistribution"
    basis: Annotated[
        Literal["fraction", "samples"],
        Field(description="what transfers compare: shares d of one's data (paper), or absolute samples x"),
    ] = "fraction"
    unit: Annotated[
        Positive, Field(description="samples that count as one unit of contribution, under basis samples")
    ] = 2000.0
    intensity: Annotated[
        Annotated[NonNegative, Tag("uniform")] | Annotated[tuple[tuple[NonNegative, ...], ...], Tag("matrix")],
        Discriminator(lambda value: "matrix" if isinstance(value, list | tuple) else "uniform"),
        Field(description="α0, money per unit of difference: one number, or a symmetric matrix with one per pair"),
    ] = 5.0

    @field_validator("intensity")
    @classmethod
    def _symmetric(cls, intensity: float | tuple[tuple[float, ...], ...]) -> float | tuple[tuple[float, ...], ...]:
        if isinstance(intensity, tuple):
            size = len(intensity)
            if any(len(row) != size for row in intensity):
                raise ValueError(f"must be a square matrix, one row and one column per silo, got {size} rows")
            for n in range(size):
                for j in range(n):
                    if intensity[n][j] != intensity[j][n]:
                        raise ValueError(
                            f"must be symmetric so that the budget balances: entry [{n}][{j}] is {intensity[n][j]:g} "
                            f"but [{j}][{n}] is {intensity[j][n]:g}"
                        )
        return intensity


class Schedule(Described):
    """How the intensity moves from slot to slot."""

    rule: Annotated[
        Literal["gain", "constant", "printed"],
        Field(description="gain (lagged, smoothed, clamped to [0, α0]), constant, or the paper's printed rule"),
    ] = "gain"
    smoothing: Annotated[
        Annotated[float, Field(strict=True, ge=0, lt=1)],
        Field(description="weight of the past in the gain rule's moving average"),
    ] = 0.5


class CurvePrecision(Described):
    """Precision from a concave saturating law of the samples trained on so far (no federation is run)."""

    source: Annotated[Literal["curve"], Field(description="where precision comes from")] = "curve"
    initial: Annotated[Share, Field(description="precision of the untrained model")] = 0.1
    ceiling: Annotated[Share, Field(description="precision approached with endless data")] = 0.8641
    scale: Annotated[Positive, Field(description="samples after which returns begin to diminish")] = 224.8
    exponent: Annotated[Positive, Field(description="power with which the distance to the ceiling shrinks")] = 0.4975

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.ceiling <= self.initial:
            raise ValueError(f"ceiling must exceed initial ({self.initial:g}), got {self.ceiling:g}")
        return self


class FedAvgPrecision(Described):
    """Precision from a federation that really trains, measured on held-out data."""

    source: Annotated[Literal["fedavg"], Field(description="where precision comes from")] = "fedavg"
    task: Annotated[str, Field(description="digits, fmnist, cifar10 or folder:PATH.npz")] = "digits"
    model: Annotated[Literal["logistic", "mlp", "cnn"], Field(description="what is trained")] = "mlp"
    learning_rate: Annotated[Positive, Field(description="of the silos' SGD")] = 0.05
    partition: Annotated[
        Literal["iid", "dirichlet", "quantity", "natural"], Field(description="how data falls to the silos")
    ] = "iid"
    held_out: Annotated[
        int, Field(strict=True, ge=1, description="held-out samples that precision is measured on, at most")
    ] = 2000
    concentration: Annotated[Positive, Field(description="of dirichlet: small is skewed, large is even")] = 0.5
    dynamics: Annotated[
        Literal["static", "stream"],
        Field(description="local sets stay, or samples come and go; silos.redraw = ['samples'] draws them anew"),
    ] = "static"

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in {"digits", "fmnist", "cifar10"} and not task.startswith("folder:"):
            raise ValueError(f"must be digits, fmnist, cifar10 or folder:PATH.npz, got {task!r}")
        return task


Source = Annotated[
    Annotated[CurvePrecision, Tag("curve")] | Annotated[FedAvgPrecision, Tag("fedavg")],
    Discriminator(lambda v: v.get("source", "curve") if isinstance(v, dict) else getattr(v, "source", "curve")),
]


class Observation(Described):
    """What a silo sees beyond the paper's {d of the others, own C, α, P} of each past slot; all off in the paper."""

    own_contribution: Annotated[bool, Field(strict=True, description="its own past contributions")] = False
    own_samples: Annotated[bool, Field(strict=True, description="its own |D| in the coming slot")] = False
    slot: Annotated[bool, Field(strict=True, description="how much of the game is over")] = False


class Scenario(Described):
    """One run: who takes part on which terms, by which mechanism, for how long."""

    seed: Annotated[int, Field(strict=True, ge=0, lt=2**32, description="same seed, same result")] = 0
    horizon: Annotated[int, Field(strict=True, ge=1, le=10_000, description="slots in a game, T")] = 30
    history: Annotated[int, Field(strict=True, ge=1, le=1000, description="past slots a silo sees, H")] = 7
    discount: Annotated[Share, Field(description="weight of the next slot's payoff in this one's, γ")] = 0.95
    energy_price: Annotated[NonNegative, Field(description="money per unit of energy, κ")]
    precision_unit: Annotated[
        Literal["fraction", "percent"], Field(description="what profit is paid per: all of precision, or a point of it")
    ] = "fraction"
    silos: Silos
    mechanism: Mechanism = Mechanism()
    schedule: Schedule = Schedule()
    precision: Source = CurvePrecision()
    observation: Observation = Observation()

    @model_validator(mode="after")
    def _one_way_for_data_to_change(self) -> Self:
        if (
            isinstance(self.precision, FedAvgPrecision)
            and self.precision.dynamics == "stream"
            and "samples" in self.silos.redraw
        ):
            raise ValueError("precision.dynamics must be static where silos.redraw names samples, or leave samples out")
        return self

    @model_validator(mode="after")
    def _matrix_fits_the_silos(self) -> Self:
        intensity = self.mechanism.intensity
        if isinstance(intensity, tuple) and len(intensity) != self.silos.count:
            raise ValueError(
                f"mechanism.intensity must have one row per silo: {self.silos.count} needed, got {len(intensity)}"
            )
        return self

    def draw(self, key: PRNGKeyArray | Array) -> Terms:
        """Each silo's private terms, p, v, C and |D|."""
        from potluck.scenario.terms import draw

        return draw(self, key)

    def redraw(self, terms: Terms, key: PRNGKeyArray | Array) -> Terms:
        """The same silos in the next slot: the terms named in `silos.redraw` are drawn anew."""
        from potluck.scenario.terms import redraw

        return redraw(self, terms, key)
