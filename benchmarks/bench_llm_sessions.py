"""What our own code costs per turn of a worded dialogue, and whether whole sessions keep a server busy.

``python benchmarks/bench_llm_sessions.py`` prints CPU milliseconds per turn of everything but the model
(tracker, candidates, prompt, reading the reply, cache, log), beside the rule-based tracker, and the share of
time in which the 8 slots of a server that takes 50 ms an answer work while a batch runs.
"""

import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import httpx
from model_server import server

from crs_lib.llm import LLM, Cache, Recorder, Request
from crs_lib.llm.pool import Pool
from crs_lib.movies import simulate, sources
from crs_lib.movies.grounding import Grounder
from crs_lib.movies.llm_settings import LLMSettings
from crs_lib.movies.simulate import SimulateConfig
from crs_lib.movies.systems import World

SESSIONS, TURNS = 3, 20


def answer(request: Request) -> str:
    """A model that takes no time: two of the films on offer."""
    assert request.schema is not None
    ids = request.schema["properties"]["recommended"]["items"]["enum"]
    return json.dumps({"reply": "How about the first two of these? They suit you.", "recommended": ids[:2]})


def per_turn(world: World, spec: str, folder: Path) -> float:
    """CPU milliseconds a turn, with a fresh cache and log."""
    cache, log = Cache(folder / "cache.sqlite"), Recorder(folder / "log.sqlite")
    llm = LLM("scripted", answers=answer, cache=cache, recorder=log)
    mine = World(world.catalog, world.grounder, Pool(None, made={"scripted": llm}), LLMSettings())
    config = SimulateConfig(systems=[spec], n_sessions=SESSIONS, n_turns=TURNS)
    started = time.process_time()
    for number in range(SESSIONS):
        dialogue = simulate.session(mine, spec, number, config)
        assert len(dialogue.turns) == 2 * TURNS
    spent = (time.process_time() - started) / (SESSIONS * TURNS) * 1000
    cache.close()
    log.close()
    return spent


def busy(url: str, seed: int) -> float:
    """Share of the server's 8 slots that work from a batch's first tenth of requests to its last."""
    config = SimulateConfig(
        f"bench-{seed}", systems=["ollama:tiny"], n_sessions=40, n_turns=10, seed=seed,
        llm={"host": url, "slots": 10},
    )  # fmt: skip
    before = stats(url)["chats"]
    marks: list[tuple[float, float]] = []

    def watch() -> None:
        for share in (0.1, 0.9):
            while stats(url)["chats"] < before + share * config.n_sessions * config.n_turns:
                time.sleep(0.02)
            marks.append((time.perf_counter(), stats(url)["busy"]))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    simulate.simulate(config, progress=False)
    watcher.join()
    (began, worked_before), (ended, worked) = marks
    return (worked - worked_before) / (8 * (ended - began))


def stats(url: str) -> dict[str, float]:
    """What the server counted so far."""
    found: dict[str, float] = httpx.get(f"{url}/stats", trust_env=False).json()
    return found


def shown(name: str, values: list[float], unit: str) -> None:
    low, middle, high = statistics.quantiles(values, n=4)
    print(f"{name:>36}  {middle:8.3f} {unit}   quartiles {low:.3f} to {high:.3f}")


def main(rounds: int = 7) -> None:
    catalog = sources.load("sample")
    world = World(catalog, Grounder(catalog))
    found: dict[str, list[float]] = {"scripted": [], "tracker": []}
    for round_ in range(rounds):
        for spec in ("scripted", "tracker") if round_ % 2 else ("tracker", "scripted"):
            with tempfile.TemporaryDirectory() as folder:
                found[spec].append(per_turn(world, spec, Path(folder)))
    shown("worded turn, everything but the model", found["scripted"], "ms")
    shown("turn of the rule-based tracker", found["tracker"], "ms")
    with tempfile.TemporaryDirectory() as folder, server(0.05, 8) as url:
        os.environ["CRS_RESULTS"] = folder
        shown("8 slots of a 50 ms server at work", [100 * busy(url, seed) for seed in range(3)], "% ")


if __name__ == "__main__":
    main()
