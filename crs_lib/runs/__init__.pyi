from .folder import (
    Run,
    Stage,
    StageSpec,
    Study,
    code_version,
    manifest_at,
    only_one,
    restore,
    stage,
)
from .jobs import Part, Start, job

__all__ = [
    "Part",
    "Run",
    "Stage",
    "StageSpec",
    "Start",
    "Study",
    "code_version",
    "job",
    "manifest_at",
    "only_one",
    "restore",
    "stage",
]
