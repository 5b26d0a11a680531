"""The scenarios people start from. The paper's constants live here and nowhere else."""

from collections.abc import Callable

from potluck.registry import Registry
from potluck.scenario.description import Scenario, Silos, mechanism_of
from potluck.scenario.fields import Normal

PAPER_SILOS = Silos(
    count=4,
    profit=Normal(mean=1000, deviation=10),
    energy=Normal(mean=4, deviation=0.2),
    communication=Normal(mean=0.5, deviation=0.02),
    samples=Normal(mean=2000, deviation=50),
)


def _paper() -> Scenario:
    """The paper's silos at an energy price at which contributing is worth a thought: κ = 0.0025."""
    return Scenario(energy_price=0.0025, silos=PAPER_SILOS)


def _dilemma() -> Scenario:
    """Energy eight times dearer, κ = 0.02: free-riding is severe, and its best intensity is 36.5."""
    return Scenario(energy_price=0.02, silos=PAPER_SILOS, mechanism=mechanism_of("redistribution", intensity=36.5))


def _literal() -> Scenario:
    """The paper's constants as printed, κ = 1: a silo's whole data costs 8000 against a revenue below 1000."""
    return Scenario(energy_price=1.0, silos=PAPER_SILOS)


def _percent() -> Scenario:
    """The printed constants with profit paid per percentage point of precision."""
    return Scenario(energy_price=1.0, precision_unit="percent", silos=PAPER_SILOS)


def _per_thousand() -> Scenario:
    """The printed constants with energy counted per thousand samples."""
    silos = PAPER_SILOS.model_copy(update={"energy": Normal(mean=0.004, deviation=0.0002)})
    return Scenario(energy_price=1.0, silos=silos)


def _lineage() -> Scenario:
    """The horizon and history of the predecessor's public code: 400 slots, of which silos see the last 5."""
    return Scenario(energy_price=0.0025, horizon=400, history=5, discount=0.95, silos=PAPER_SILOS)


PRESETS: Registry[Callable[[], Scenario]] = Registry(
    "preset",
    {
        "paper": _paper,
        "dilemma": _dilemma,
        "literal": _literal,
        "percent": _percent,
        "per-thousand": _per_thousand,
        "lineage": _lineage,
    },
)


def preset(name: str) -> Scenario:
    return PRESETS[name]()
