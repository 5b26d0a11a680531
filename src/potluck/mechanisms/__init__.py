"""The rules that set transfers, one file each, and how a slot is settled by any of them."""

from potluck.mechanisms.basis import ComparingConfig
from potluck.mechanisms.build import build_mechanism, try_out
from potluck.mechanisms.cost_sharing import CostSharing, CostSharingConfig
from potluck.mechanisms.none import NoTransfers, NoTransfersConfig
from potluck.mechanisms.per_silo import PerSilo, PerSiloConfig
from potluck.mechanisms.proportional import Proportional, ProportionalConfig
from potluck.mechanisms.redistribution import Redistribution, RedistributionConfig
from potluck.mechanisms.schedules import Gains, Schedule, first_gains
from potluck.mechanisms.settlement import Settlement, facts_of, first_state, settle_slot
from potluck.registry import Registry
from potluck.scenario.fields import AtLeastOne, NonNegative, Positive, Share
from potluck.scenario.mechanism import Declared, Facts, Kind, Mechanism, MechanismConfig, Need, Separable

__all__ = [
    "MECHANISMS",
    "AtLeastOne",
    "ComparingConfig",
    "CostSharing",
    "CostSharingConfig",
    "Declared",
    "Facts",
    "Gains",
    "Kind",
    "Mechanism",
    "MechanismConfig",
    "Need",
    "NoTransfers",
    "NoTransfersConfig",
    "NonNegative",
    "PerSilo",
    "PerSiloConfig",
    "Positive",
    "Proportional",
    "ProportionalConfig",
    "Redistribution",
    "RedistributionConfig",
    "Schedule",
    "Separable",
    "Settlement",
    "Share",
    "build_mechanism",
    "facts_of",
    "first_gains",
    "first_state",
    "settle_slot",
    "try_out",
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
