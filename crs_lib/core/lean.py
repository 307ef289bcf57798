"""Imports of libraries without a slow part of theirs that nothing here uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any


class _WithoutIris(MetaPathFinder):
    """Finds no grammar of IRIs, which jsonschema (and so nbformat) uses where it is installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "rfc3987_syntax":
            raise ModuleNotFoundError(fullname)


@contextmanager
def without_iris() -> Iterator[None]:
    """Inside, jsonschema is imported without its grammar of IRIs, a second of work."""
    finder = _WithoutIris()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
