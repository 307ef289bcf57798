"""The cost of our own code per turn of a worded dialogue, and whether whole sessions keep a server busy.

``python benchmarks/bench_llm_sessions.py`` prints CPU milliseconds per turn of everything but the model
(user, tracker, candidates, prompt, reading the reply, cache, log), without and with the HTTP client, beside
the rule-based tracker, and the share of time in which the 8 slots of a server that takes 50 ms an answer work
while a batch runs with ``slots=8``.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from model_server import busy, server, shown, stats

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.llm import LLM, Cache, Recorder, Request
from crs_lib.llm.client import Pool
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World
from crs_lib.systems.settings import ModelSettings

SESSIONS, TURNS = 3, 20
MODEL = "ollama:tiny"


def answer(request: Request) -> str:
    """A model that takes no time: two of the films on offer."""
    assert request.schema is not None
    ids = request.schema["properties"]["recommended"]["items"]["enum"]
    return json.dumps({"reply": "How about the first two of these? They suit you.", "recommended": ids[:2]})


def per_turn(world: World, spec: str, url: str) -> float:
    """CPU milliseconds a turn, with a fresh cache and log, their files open."""
    with tempfile.TemporaryDirectory() as folder:
        cache, log = Cache(Path(folder) / "cache.sqlite"), Recorder(Path(folder) / "log.sqlite")
        made = {
            "scripted": LLM("scripted", answers=answer, cache=cache, recorder=log),
            MODEL: LLM(MODEL, host=url, cache=cache, recorder=log),
        }
        mine = World(world.catalog, world.grounder, Pool(None, models=made), ModelSettings())
        config = SimulateConfig(systems=[spec], n_sessions=SESSIONS, n_turns=TURNS)
        assert len(cache) == len(log.drain()) == 0
        started = time.process_time()
        for number in range(SESSIONS):
            dialogue = simulate.session(mine, spec, number, config)
            assert len(dialogue.turns) == 2 * TURNS
        spent = (time.process_time() - started) / (SESSIONS * TURNS) * 1000
        made[MODEL].close()
        cache.close()
        log.close()
    return spent


def busy_share(url: str, seed: int, user: str) -> float:
    """Share of the server's 8 slots that work between a tenth and nine tenths of a batch's requests."""
    config = SimulateConfig(
        run=f"bench-{seed}{'-user' if user else ''}", systems=[MODEL], n_sessions=40, n_turns=10, seed=seed,
        llm={"host": url, "slots": 8}, user_llm=user,
    )  # fmt: skip
    calls = config.n_sessions * config.n_turns * (2 if user else 1)

    def counted() -> tuple[float, float]:
        found = stats(url)
        return found["chats"], found["busy"]

    return busy(counted, calls, 8, lambda: simulate.simulate(config, progress=False))


def main(rounds: int = 9) -> None:
    catalog = sources.load("sample")
    world = World(catalog, Grounder(catalog))
    found: dict[str, list[float]] = {"tracker": [], "scripted": [], MODEL: []}
    with server(0.0, 8) as url:
        for spec in found:
            per_turn(world, spec, url)
        for round_ in range(rounds):
            for spec in list(found)[:: 1 if round_ % 2 else -1]:
                found[spec].append(per_turn(world, spec, url))
    shown("turn of the rule-based tracker", found["tracker"], "ms")
    shown("worded turn, everything but the model", found["scripted"], "ms")
    shown("the same and the HTTP client", found[MODEL], "ms")
    print("share of the time in which 8 slots of a server work that takes 50 ms an answer, slots=8")
    with tempfile.TemporaryDirectory() as folder, server(0.05, 8) as url:
        os.environ["CRS_RESULTS"] = folder
        for name, user in (("worded replies", ""), ("worded replies and a worded user", MODEL)):
            shown(name, [100 * busy_share(url, seed, user) for seed in range(5)], "% ")


if __name__ == "__main__":
    main()
