"""How the tests are shared out among processes: the files marked slow begin first (the Makefile keeps files whole)."""

import gc


def pytest_collection_modifyitems(items):
    """The files that hold a test marked slow come first; all else keeps its order."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What is loaded by now stays: the garbage collector, which libraries call by hand, need not go over it."""
    gc.collect()
    gc.freeze()
