"""One event loop in the background: threads share it, forks get their own, errors come through."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from crs_lib.llm import LLM, Request, loop
from tests.helpers.ollama_server import OllamaServer


async def address() -> int:
    return id(asyncio.get_running_loop())


def test_threads_share_one_model_and_fill_its_slots() -> None:
    prompts = [f"Say this:\nhello {i}\n" for i in range(24)]
    server = OllamaServer(delay=0.02)
    with server, LLM("ollama:tiny", host=server.url, slots=8) as llm, ThreadPoolExecutor(12) as pool:
        texts = list(pool.map(lambda prompt: llm.complete(Request.ask("crs", prompt)).text, prompts))
    assert texts == [f"hello {i}" for i in range(24)]
    assert 1 < server.most_at_once <= 8


def test_the_loop_is_one_for_all_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({*pool.map(lambda _: loop.run(address()), range(8))}) == 1
    assert asyncio.run(loop.awaited(address())) == loop.run(address())


def test_errors_come_through() -> None:
    async def fails() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        loop.run(fails())


def test_an_interrupt_cancels_what_is_waited_for() -> None:
    cancelled = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(waits())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(10)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_its_own() -> None:
    loop.run(address())
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if loop.run(asyncio.sleep(0, "well")) == "well" else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
