"""Run independent tasks here, in local processes, or on a Dask cluster; failures are collected."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

from crs_lib.core.errors import InputError

Call = tuple["partial[Any]", int]


def run_all(calls: Sequence[Call], workers: int, scheduler: str, seen: Callable[[int], object]) -> list[str]:
    """Do every call (with the size that it adds to the progress); returns the errors, in the calls' order.

    A failing task does not stop the others. With ``scheduler`` (the address of a Dask scheduler) the
    workers must see the same folders.
    """
    errors: dict[int, str] = {}
    if scheduler:
        _on_cluster(calls, scheduler, seen, errors)
    elif workers == 1 or len(calls) < 2:
        for number, (call, _) in enumerate(calls):
            try:
                call(seen=seen)
            except Exception as error:
                errors[number] = _told(error)
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(calls)), context) as pool:
            futures = {pool.submit(call): number for number, (call, _) in enumerate(calls)}
            for future in as_completed(futures):
                _settle(future, futures[future], calls, seen, errors)
    return [errors[number] for number in sorted(errors)]


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {error}"


def _settle(
    future: Any, number: int, calls: Sequence[Call], seen: Callable[[int], object], errors: dict[int, str]
) -> None:
    try:
        future.result()
    except Exception as error:
        errors[number] = _told(error)
    else:
        seen(calls[number][1])


def _on_cluster(
    calls: Sequence[Call], scheduler: str, seen: Callable[[int], object], errors: dict[int, str]
) -> None:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError('a scheduler needs dask.distributed: pip install "crs-lib[dist]"') from error
    with Client(scheduler) as client:
        futures = {client.submit(call, pure=False): number for number, (call, _) in enumerate(calls)}
        for future in as_completed(list(futures)):
            _settle(future, futures[future], calls, seen, errors)
