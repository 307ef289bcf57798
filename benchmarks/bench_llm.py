"""The cost of our own code per LLM call, and whether it keeps a server busy.

``python benchmarks/bench_llm.py`` starts the test server in a process of its own (no model: it waits 0 or
50 ms and answers by rule) and prints milliseconds per call and the share of time in which 8 slots work, for
several numbers of calls that are sent at once (a run sends twice as many as there are slots).
"""

import tempfile
import time
from pathlib import Path

import httpx
from model_server import server, shown, stats

from crs_lib.llm import LLM, Cache, LLMError, Recorder, Reply, Request

PROMPT = "The user wants a quiet drama.\n" * 40 + "Choose:\n- Heat (1995)\n- Ronin (1998)\n"


def requests(n: int, round_: int) -> list[Request]:
    return [Request.ask("crs", f"{PROMPT}{round_}/{i}", seed=i, tags={"session": i}) for i in range(n)]


def check(replies: list[Reply | LLMError]) -> None:
    wrong = [reply for reply in replies if isinstance(reply, LLMError)]
    assert not wrong, f"{len(wrong)} calls failed, the first with: {wrong[0]}"


def raw(url: str, n: int) -> float:
    """CPU milliseconds a call of the bare HTTP client with the same body, connection kept open."""
    body = {"model": "tiny", "stream": False, "messages": [{"role": "user", "content": PROMPT}]}
    with httpx.Client(base_url=url, trust_env=False) as client:
        client.post("/api/chat", json=body)
        started = time.process_time()
        for _ in range(n):
            client.post("/api/chat", json=body).json()
        return (time.process_time() - started) / n * 1000


def overhead(url: str, folder: Path, n: int, round_: int) -> dict[str, float]:
    """CPU milliseconds a call: plain, with cache and log, and from the cache."""
    found = {}
    cache, recorder = Cache(folder / f"c{round_}.sqlite"), Recorder(folder / f"r{round_}.sqlite")
    plain = LLM("ollama:tiny", host=url)
    full = LLM("ollama:tiny", host=url, cache=cache, recorder=recorder)
    for name, llm, batch in (
        ("plain", plain, requests(n, round_)),
        ("cache and log", full, requests(n, round_)),
        ("from the cache", full, requests(n, round_)),
    ):
        llm.complete(Request.ask("crs", "warm up"))
        started = time.process_time()
        for request in batch:
            llm.complete(request)
        found[name] = (time.process_time() - started) / n * 1000
    plain.close()
    full.close()
    return found


def busy(url: str, at_once: int, n: int, round_: int) -> float:
    """Share of the server's 8 slots that work, from 0 to 1, while so many calls are sent at once."""
    with LLM("ollama:tiny", host=url, slots=at_once) as llm:
        check(llm.gather(requests(8, -round_ - 1)))
        before = stats(url)["busy"]
        started = time.perf_counter()
        check(llm.gather(requests(n, round_)))
        wall = time.perf_counter() - started
        return (stats(url)["busy"] - before) / (8 * wall)


def main(rounds: int = 7) -> None:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, server(0.0, 64) as url:
        for round_ in range(rounds):
            found.setdefault("bare HTTP client", []).append(raw(url, 200))
            for name, value in overhead(url, Path(folder), 200, round_).items():
                found.setdefault(name, []).append(value)
    print("CPU time of our process for one call, one at a time")
    for name, values in found.items():
        shown(name, values, "ms")
    own = [a - b for a, b in zip(found["cache and log"], found["bare HTTP client"], strict=True)]
    shown("ours beyond the HTTP client", own, "ms")
    print("share of the time in which 8 slots of a server work that takes 50 ms an answer")
    with server(0.05, 8) as url:
        shares: dict[int, list[float]] = {8: [], 10: [], 16: []}
        for round_ in range(rounds):
            for place, (at_once, values) in enumerate(shares.items()):
                values.append(100 * busy(url, at_once, 400, len(shares) * round_ + place))
    for at_once, values in shares.items():
        shown(f"{at_once} calls sent at once", values, "% ")


if __name__ == "__main__":
    main()
