from .config import (
    RAW_CATALOG,
    STUDY,
    SimulateConfig,
    dialogue_file,
    dialogues,
    failed_dialogues,
    failed_sessions,
    iter_dialogues,
    run_folder,
    run_named,
)
from .logged import ImportConfig, import_logs
from .run import arms_of, prepare, scenario, session, simulate
from .shifts import SHIFTS

__all__ = [
    "RAW_CATALOG",
    "SHIFTS",
    "STUDY",
    "ImportConfig",
    "SimulateConfig",
    "arms_of",
    "dialogue_file",
    "dialogues",
    "failed_dialogues",
    "failed_sessions",
    "import_logs",
    "iter_dialogues",
    "prepare",
    "run_folder",
    "run_named",
    "scenario",
    "session",
    "simulate",
]
