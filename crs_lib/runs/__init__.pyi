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

__all__ = [
    "Stage",
    "as_written",
    "code_version",
    "finished",
    "manifest_at",
    "only_one",
    "output",
    "read_manifest",
    "stage",
]
