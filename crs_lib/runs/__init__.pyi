from .folder import Stage, finished, only_one, read_manifest, stage

__all__ = [
    "Stage",
    "finished",
    "only_one",
    "read_manifest",
    "stage",
]
