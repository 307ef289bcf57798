"""Registries as they were: what a test registers is gone when the test ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crs_lib.core.settings import Registry
from crs_lib.metrics.base import FACTS, METRICS


@contextmanager
def restored(*registries: Registry[Any]) -> Iterator[None]:
    """The registries, and the metrics, get back the members that they have now."""
    tables = []
    for registry in (METRICS, FACTS, *registries):
        len(registry)  # what the files register is known before it is written down
        tables.append(registry._entries)
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, members in zip(tables, before, strict=True):
            table.clear()
            table.update(members)
