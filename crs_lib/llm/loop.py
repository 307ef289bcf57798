"""One background event loop a process: async clients serve plain calls, also inside a running notebook."""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_LOCK = threading.Lock()
_RUNNING: dict[int, asyncio.AbstractEventLoop] = {}


def background() -> asyncio.AbstractEventLoop:
    """The process's loop, started on first use; a forked child gets its own."""
    with _LOCK:
        if os.getpid() not in _RUNNING:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="llm-calls", daemon=True)
            thread.start()
            atexit.register(_stop, loop, thread)
            _RUNNING[os.getpid()] = loop
        return _RUNNING[os.getpid()]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do the work on the background loop and wait; an interrupt cancels it."""
    waited_for = asyncio.run_coroutine_threadsafe(work, background())
    try:
        return waited_for.result()
    except BaseException:
        waited_for.cancel()
        raise


async def awaited(work: Coroutine[Any, Any, T]) -> T:
    """The same for a caller that has an event loop of its own."""
    if asyncio.get_running_loop() is background():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, background()))


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if not thread.is_alive():
        return
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=5)
    if not loop.is_running():
        loop.close()
