"""Arrays kept on disk under all that decides them: the chat, the encoder, the question, the code."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, prompts
from crs_lib.core.tables import fingerprint, of_files
from crs_lib.realtalk.dates import WORDS
from crs_lib.retrieval import store

Floats = NDArray[np.float32]
T = TypeVar("T")


def stored(
    keys: Iterable[Sequence[Any]], items: Sequence[T], make: Callable[[list[T]], list[Floats]]
) -> list[Floats]:
    """The array of each item, (rows, columns) float32: from ``scores.sqlite``, or made and stored.

    ``keys`` are all facts, as JSON can hold them, that decide an item's array; ``make`` gets the missing
    items, once each. What is read has the bytes of what was made.
    """
    names = [json.dumps(key, sort_keys=True) for key in keys]
    item_of = dict(zip(names, items, strict=True))
    path = paths.data() / "processed" / "realtalk" / "scores.sqlite"

    def make_missing(missing: Sequence[str]) -> list[Floats]:
        return make([item_of[name] for name in missing])

    return store.vectors(path, names, make_missing, np.float32)


@cache
def source_digest(*modules: ModuleType) -> str:
    """64 hex digits of the source of some modules and of the words: a change makes anew what they made."""
    files = [Path(str(module.__file__)) for module in modules]
    return fingerprint([prompts.lists(WORDS), of_files(files)])
