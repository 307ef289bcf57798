"""Registries as they were: what a test registers is gone when the test ends."""

from contextlib import contextmanager

from crs_lib.metrics.base import FACTS, METRICS


@contextmanager
def restored(*registries):
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
