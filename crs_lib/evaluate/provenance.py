"""The provenance of a table, as columns of the table: two ways of counting cannot be confused."""

import importlib.metadata
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from crs_lib.metrics.conventions import Convention

_PACKAGES = ("crs-lib", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Provenance:
    """The columns that every written table carries; see :func:`of`."""

    convention: str
    extractor: str
    embedder: str
    weights: str
    versions: str
    input_hash: str

    def columns(self) -> dict[str, str]:
        """The columns by name."""
        return asdict(self)


NAMES = tuple(field.name for field in fields(Provenance))


def of(
    convention: Convention, extractor: str, embedder: str, inputs: dict[str, str], **chosen: Any
) -> Provenance:
    """The provenance of a scoring: ``inputs`` are names and content hashes of the files read.

    ``embedder`` names the concept embedding, the sentence space or the topic model.
    ``weights`` holds the weights of the composites and the other settings (``chosen``) as JSON.
    """
    weights = {name: getattr(convention, name)._asdict() for name in ("tas", "items", "cas")}
    return Provenance(
        convention=convention.name,
        extractor=extractor,
        embedder=embedder or "none",
        weights=json.dumps(weights | chosen, sort_keys=True),
        versions=", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
        input_hash=", ".join(f"{name} {digest[:16]}" for name, digest in sorted(inputs.items())),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
