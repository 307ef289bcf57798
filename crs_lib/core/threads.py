"""One thread for products of matrices: the same numbers whatever the number of cores."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal


@contextmanager
def one_thread(api: Literal["blas", "openmp"] | None = "blas") -> Iterator[None]:
    """Inside, the libraries of this kind (None: of both) run on one thread."""
    with _pools(len(sys.modules)).limit(limits=1, user_api=api):
        yield


@lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """The thread pools of all loaded libraries, looked up anew only after an import: a look takes 3 ms."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()
