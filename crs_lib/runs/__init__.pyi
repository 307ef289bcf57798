from .folder import (
    Stage,
    StageSpec,
    Study,
    as_written,
    code_version,
    entry,
    finished,
    manifest_at,
    only_one,
    output,
    read_manifest,
    stage,
)
from .jobs import Part, Start, job

__all__ = [
    "Part",
    "Stage",
    "StageSpec",
    "Start",
    "Study",
    "as_written",
    "code_version",
    "entry",
    "finished",
    "job",
    "manifest_at",
    "only_one",
    "output",
    "read_manifest",
    "stage",
]
