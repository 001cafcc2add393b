"""Doctor: what this machine can give, each layer and limit of each isolation level tried just now in a real sandbox."""

from cellhouse.doctor.examination import SECONDS, Patient, examine
from cellhouse.doctor.report import (
    CgroupReport,
    DoctorReport,
    EnvironmentReport,
    FindingReport,
    LayerReport,
    LayerStatus,
    LevelReport,
    LevelStatus,
    LimitProbeReport,
    MachineReport,
    PolicyReport,
    ProbeOutcome,
    ProbeReport,
    SessionsReport,
    StateReport,
)

__all__ = [
    "SECONDS",
    "CgroupReport",
    "DoctorReport",
    "EnvironmentReport",
    "FindingReport",
    "LayerReport",
    "LayerStatus",
    "LevelReport",
    "LevelStatus",
    "LimitProbeReport",
    "MachineReport",
    "Patient",
    "PolicyReport",
    "ProbeOutcome",
    "ProbeReport",
    "SessionsReport",
    "StateReport",
    "examine",
]
