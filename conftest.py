"""Every test, and every notebook under nbval, works in folders of its own and never on real results."""

import os
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
_TEMPORARY = Path(tempfile.mkdtemp(prefix="crs-tests-"))

os.environ["CRS_RESULTS"] = str(_TEMPORARY / "results")
os.environ["CRS_FIGURES"] = str(_TEMPORARY / "figures")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
os.environ["CRS_PROGRESS"] = "off"
for _name in ("JPY_SESSION_NAME", "CRS_PREFIX", "CRS_DATA"):
    os.environ.pop(_name, None)


def pytest_configure():
    """A property is about values; how long one example takes on a busy machine is no failure."""
    from hypothesis import settings

    settings.register_profile("crs", deadline=None)
    settings.load_profile("crs")


def pytest_unconfigure():
    """Remove what the tests wrote; kernels that are just ending may still hold a file."""
    shutil.rmtree(_TEMPORARY, ignore_errors=True)
