"""The rules that set transfers, one file each, and how a slot is settled by any of them."""

from potluck.mechanisms.build import build_mechanism
from potluck.mechanisms.cost_sharing import CostSharing, CostSharingConfig
from potluck.mechanisms.none import NoTransfers, NoTransfersConfig
from potluck.mechanisms.per_silo import PerSilo, PerSiloConfig
from potluck.mechanisms.proportional import Proportional, ProportionalConfig
from potluck.mechanisms.redistribution import Redistribution, RedistributionConfig
from potluck.mechanisms.schedules import Schedule, first_gains
from potluck.mechanisms.settlement import Settlement, facts_of, first_state, settle_slot
from potluck.registry import Registry
from potluck.scenario.fields import AtLeastOne, NonNegative, Positive, Share
from potluck.scenario.mechanism import Declared, Facts, Kind, Mechanism, MechanismConfig, Need, Separable

__all__ = [
    "MECHANISMS",
    "AtLeastOne",
    "CostSharing",
    "CostSharingConfig",
    "Declared",
    "Facts",
    "Kind",
    "Mechanism",
    "MechanismConfig",
    "Need",
    "NoTransfers",
    "NonNegative",
    "PerSilo",
    "Positive",
    "Proportional",
    "Redistribution",
    "Schedule",
    "Separable",
    "Settlement",
    "Share",
    "build_mechanism",
    "facts_of",
    "first_gains",
    "first_state",
    "settle_slot",
]

MECHANISMS: Registry[type[MechanismConfig]] = Registry(
    "mechanism",
    {
        "redistribution": RedistributionConfig,
        "none": NoTransfersConfig,
        "per-silo": PerSiloConfig,
        "cost-sharing": CostSharingConfig,
        "proportional": ProportionalConfig,
    },
    MechanismConfig,
)
