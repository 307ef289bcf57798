"""Scores kept on disk under all that decides them: the chat, the encoder, the question, and the code."""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths
from crs_lib.retrieval import store

Floats = NDArray[np.float32]


def arrays(names: Sequence[str], make: Callable[[list[str]], list[Floats]]) -> list[Floats]:
    """The arrays of some names, (rows, columns) float32: from ``scores.sqlite``, or made and stored.

    ``make`` gets each missing name once. What is read has the bytes of what was made.
    """
    path = paths.data() / "processed" / "realtalk" / "scores.sqlite"
    return store.vectors(path, names, make, np.float32)


def key(*facts: Any) -> str:
    """One key for facts that JSON can hold; equal facts have equal keys."""
    return json.dumps(facts, sort_keys=True)


@cache
def source_digest(*modules: ModuleType) -> str:
    """64 hex digits of the source of some modules: a change makes anew all that they made."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()
