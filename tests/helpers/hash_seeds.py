"""What a program prints must not hang on Python's hash seed, which orders sets and differs from start to start."""

import os
import subprocess
import sys

from crs_lib.core import paths


def printed(code, *arguments):
    """What ``code`` prints under the hash seeds 0, 1 and 2; fails where that differs."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *arguments], env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE, text=True, cwd=paths.ROOT,
        )
        for seed in "012"
    ]  # fmt: skip
    texts = {process.communicate()[0].strip() for process in started}
    assert not any(process.returncode for process in started)
    assert len(texts) == 1, "the hash seed changes what is printed"
    return texts.pop()
