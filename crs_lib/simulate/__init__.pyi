from .config import (
    DEFAULT_SYSTEMS,
    FAILED,
    RAW_CATALOG,
    STUDY,
    SimulateConfig,
    dialogue_file,
    dialogues,
    failed_sessions,
    iter_dialogues,
    run_folder,
)
from .conversation import arms_of, scenario, session
from .logged import ImportConfig, Imported, import_logs
from .run import prepare, simulate
from .shifts import SHIFTS

__all__ = [
    "DEFAULT_SYSTEMS",
    "FAILED",
    "RAW_CATALOG",
    "SHIFTS",
    "STUDY",
    "ImportConfig",
    "Imported",
    "SimulateConfig",
    "arms_of",
    "dialogue_file",
    "dialogues",
    "failed_sessions",
    "import_logs",
    "iter_dialogues",
    "prepare",
    "run_folder",
    "scenario",
    "session",
    "simulate",
]
