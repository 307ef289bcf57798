"""The wheel's own step: notebooks and samples travel with the package, into ``crs_lib/shipped``."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
SHIPPED = {"notebooks": HERE / "notebooks", "samples": HERE / "data" / "samples"}
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "*.failed.ipynb")


class WithNotebooks(build_py):
    """Builds the package, and copies what it runs on beside it; an editable install reads the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name, source in SHIPPED.items():
                target = Path(self.build_lib) / "crs_lib" / "shipped" / name
                shutil.copytree(source, target, ignore=LEFT_OUT, dirs_exist_ok=True)


setup(cmdclass={"build_py": WithNotebooks})
