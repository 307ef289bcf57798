from .folder import (
    Stage,
    as_written,
    code_version,
    finished,
    manifest_at,
    only_one,
    output,
    read_manifest,
    stage,
)
from .study import StageSpec, Study

__all__ = [
    "Stage",
    "StageSpec",
    "Study",
    "as_written",
    "code_version",
    "finished",
    "manifest_at",
    "only_one",
    "output",
    "read_manifest",
    "stage",
]
