"""How the tests are shared out among processes: a file stays whole, and the files marked slow begin first."""

import gc

import pytest


def pytest_collection_modifyitems(items):
    """The files that hold a test marked slow come first; all else keeps its order."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What is loaded by now stays: the garbage collector, which libraries call by hand, need not go over it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One process takes a whole file, so that what its tests share is made once; files go out in order."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)
