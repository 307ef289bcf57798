from .config import DEFAULT_SYSTEMS, STUDY, SimulateConfig
from .conversation import scenario, session
from .finished import FAILED, dialogues, failed_sessions, iter_dialogues, run_folder
from .run import prepare, simulate
from .shifts import SHIFTS

__all__ = [
    "DEFAULT_SYSTEMS",
    "FAILED",
    "SHIFTS",
    "STUDY",
    "SimulateConfig",
    "dialogues",
    "failed_sessions",
    "iter_dialogues",
    "prepare",
    "run_folder",
    "scenario",
    "session",
    "simulate",
]
