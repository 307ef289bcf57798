"""All tests: the files marked slow begin first, and a test that starts a process says so with a mark."""

import gc
import os
import sys
from collections import Counter

import pytest

import tests.helpers.scripted  # noqa: F401 (a backend for tests, registered before any system is)

STARTED: list[str] = []  # the programs that were started since the last test ended
# A manifest names the commit; libraries ask for the processor; matplotlib lists the fonts of a new machine once.
ALLOWED = ("git", "uname", "lscpu", "fc-list")


def _note(event, arguments):
    if event == "subprocess.Popen":
        STARTED.append(os.path.basename(os.fsdecode(arguments[0])))


sys.addaudithook(_note)


@pytest.fixture(autouse=True)
def processes_are_marked(request):
    """Fail a test that starts a program without the mark "subprocess", which ``make check`` leaves out."""
    yield
    started = [name for name in STARTED if name not in ALLOWED]
    STARTED.clear()
    if started and not request.node.get_closest_marker("subprocess"):
        pytest.fail(f"this test starts {', '.join(started)}; mark it with pytest.mark.subprocess")


def pytest_collection_modifyitems(items):
    """The files with the most tests marked slow come first (``make test`` keeps files whole); else in order."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish():
    """Freeze loaded modules: the garbage collector, which libraries call by hand, then passes over them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def world():
    """The world of the sample catalogue, which no test changes."""
    from tests.helpers.sample import WORLD

    return WORLD
