"""Imports of libraries without a slow part of theirs that nothing here uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_IRIS = "rfc3987_syntax"


@contextmanager
def without_iris() -> Iterator[None]:
    """Inside, jsonschema (and so nbformat) is imported without its grammar of IRIs, a second of work."""
    if _IRIS in sys.modules:
        yield
        return
    sys.modules[_IRIS] = None  # type: ignore[assignment]  # an import of it fails, which jsonschema expects
    try:
        yield
    finally:
        del sys.modules[_IRIS]
