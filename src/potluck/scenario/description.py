"""What a person writes down about a run: plain numbers, checked once, frozen."""

from typing import Annotated, Any, Literal, TypeVar

from jaxtyping import Array, PRNGKeyArray
from pydantic import Discriminator, Field, SerializeAsAny, Tag, ValidationError, field_validator, model_validator

from potluck.errors import PotluckError
from potluck.registry import family
from potluck.scenario.explain import first_fault
from potluck.scenario.federation import FederationConfig
from potluck.scenario.fields import (
    MOST_MONEY,
    AtLeastOne,
    Described,
    NonNegative,
    Normal,
    Positive,
    Share,
    largest_of,
    one_per_silo,
)
from potluck.scenario.mechanism import MechanismConfig
from potluck.scenario.terms import Terms, TermsDraw

Number = TypeVar("Number")


def _shape(value: Any) -> str:
    """Tell a constant from a list from a distribution, so that an error speaks of the form that was written."""
    if isinstance(value, list | tuple):
        return "list"
    return "normal" if isinstance(value, dict | Normal) else "constant"


OnePerSilo = Annotated[
    Annotated[Number, Tag("constant")] | Annotated[tuple[Number, ...], Tag("list")] | Annotated[Normal, Tag("normal")],
    Discriminator(_shape),
]


class Silos(Described):
    """Who takes part. Each term is a constant, a list with one number per silo, or { mean, deviation }."""

    count: Annotated[int, Field(strict=True, ge=2, le=256, description="number of silos N")] = 4
    profit: Annotated[
        OnePerSilo[Positive], Field(description="p, money per unit of precision, the paper's word for accuracy")
    ]
    energy: Annotated[OnePerSilo[NonNegative], Field(description="v, energy per sample")]
    communication: Annotated[OnePerSilo[NonNegative], Field(description="C, money per slot")]
    samples: Annotated[OnePerSilo[AtLeastOne], Field(description="|D|, local samples")]
    redraw: Annotated[
        tuple[Literal["communication", "samples"], ...], Field(description="terms drawn anew in every slot")
    ] = ("communication",)
    drawn: Annotated[
        Literal["run", "episode"],
        Field(description="terms once for a run (paper), or anew for every game, so that a policy meets other silos"),
    ] = "run"

    @model_validator(mode="after")
    def _one_number_per_silo(self) -> "Silos":
        for name in ("profit", "energy", "communication", "samples"):
            if fault := one_per_silo(name, getattr(self, name), self.count):
                raise ValueError(fault)
        return self


class CurvePrecision(Described):
    """Precision from a concave saturating law of the samples trained on so far (no federation is run)."""

    source: Annotated[
        Literal["curve"], Field(description="where precision P, accuracy on held-out data, comes from")
    ] = "curve"
    initial: Annotated[Share, Field(description="precision of the untrained model")] = 0.1
    ceiling: Annotated[Share, Field(description="precision approached with endless data")] = 0.8641
    scale: Annotated[Positive, Field(description="samples after which returns begin to diminish")] = 224.8
    exponent: Annotated[Positive, Field(description="power with which the distance to the ceiling shrinks")] = 0.4975

    @model_validator(mode="after")
    def _rises(self) -> "CurvePrecision":
        if self.ceiling <= self.initial:
            raise ValueError(f"ceiling must exceed initial ({self.initial:g}), got {self.ceiling:g}")
        return self


Source = Annotated[
    Annotated[CurvePrecision, Tag("curve")] | Annotated[FederationConfig, Tag("fedavg")],
    Discriminator(lambda v: v.get("source", "curve") if isinstance(v, dict) else getattr(v, "source", "curve")),
]


PAPER_OBSERVATION = ("others", "communication", "signal", "precision")


def mechanism_of(kind: str, **options: Any) -> MechanismConfig:
    """The description of a mechanism of this kind, its options checked."""
    try:
        found: MechanismConfig = family("mechanism")[kind].model_validate({"kind": kind, **options})
    except ValidationError as fault:
        raise PotluckError(f".{first_fault(fault, family('mechanism')[kind])}", field="mechanism") from None
    return found


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
    mechanism: SerializeAsAny[MechanismConfig] = Field(default_factory=lambda: mechanism_of("redistribution"))
    precision: Source = CurvePrecision()
    observation: Annotated[
        tuple[str, ...],
        Field(
            min_length=1,
            description="what a silo sees, of the last H slots where there is a number for each",
            json_schema_extra={"family": "observation"},
        ),
    ] = PAPER_OBSERVATION

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, value: Any) -> Any:
        """What older files say elsewhere."""
        if isinstance(value, dict) and "schedule" in value:
            raise ValueError(
                "schedule is no table of its own: write schedule (its rule) and smoothing under [mechanism], "
                "of kind redistribution or per-silo"
            )
        return value

    @field_validator("mechanism", mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any) -> Any:
        """The registry knows what may be said of each kind."""
        if not isinstance(value, dict):
            return value
        kind = value.get("kind", "redistribution")
        known = family("mechanism")
        if not isinstance(kind, str) or kind not in known:
            hint = "; one of your own must be registered first" if isinstance(kind, str) else ""
            raise ValueError(f"kind must be one of {', '.join(known)}, got {kind!r}{hint}")
        try:
            return known[kind].model_validate({"kind": kind, **value})
        except ValidationError as fault:
            raise ValueError(first_fault(fault, known[kind])) from None

    @field_validator("observation")
    @classmethod
    def _known_observations(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = family("observation")
        for name in names:
            if name not in known:
                raise ValueError(f"must name {', '.join(known)}, got {name!r}")
        return names

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Scenario":
        moves = isinstance(self.precision, FederationConfig) and self.precision.dynamics != "static"
        if moves and "samples" in self.silos.redraw:
            raise ValueError("precision.dynamics must be static where silos.redraw names samples, or leave samples out")
        bill = self.energy_price * largest_of(self.silos.energy) * largest_of(self.silos.samples)
        if bill > MOST_MONEY:
            raise ValueError(
                f"energy_price must be lower: energy_price × energy × samples may cost {bill:g} per slot, and "
                f"{MOST_MONEY:g} is the most"
            )
        if fault := self.mechanism.misfit(self.silos.count):
            raise ValueError(f"mechanism.{fault}")
        return self

    @property
    def terms(self) -> TermsDraw:
        """How each silo's private terms are drawn."""
        return TermsDraw.from_scenario(self)

    def draw(self, key: PRNGKeyArray | Array) -> Terms:
        """Each silo's private terms, p, v, C and |D|."""
        return self.terms.draw(key)
