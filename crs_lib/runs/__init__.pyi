from .folder import Stage, code_version, finished, only_one, read_manifest, stage

__all__ = [
    "Stage",
    "code_version",
    "finished",
    "only_one",
    "read_manifest",
    "stage",
]
