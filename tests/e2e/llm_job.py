"""The whole LLM experiment as one job for a process that may be killed: simulate, judge, evaluate.

``python tests/e2e/llm_job.py`` runs the size of the issue once, killed ten times, and says what came out.
"""

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crs_lib import paths
from crs_lib.movies import evaluate, judging, simulate
from crs_lib.movies.simulate import SimulateConfig

FILES = ("dialogues.jsonl", "judge_scores.jsonl", "results.jsonl")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["crs_lib.movies.judging", "crs_lib.movies.evaluate", __name__])


def models(n):
    """n models of different weights, the user's and the judge's."""
    return {f"m{i}:1": f"{i}" * 64 for i in range(n)} | {"user:1": "a" * 64, "judge:1": "b" * 64}


def catalogue(folder):
    """The first 150 films of the sample as a file: a small catalogue is loaded in a moment."""
    path = Path(folder) / "films.json"
    if not path.exists():
        films = json.loads((paths.samples() / "movies.json").read_text(encoding="utf-8"))
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(dict(list(films.items())[:150])), encoding="utf-8")
        aside.replace(path)
    return str(path)


def work(folder, url, run, n_models, n_sessions, n_turns, llm=None):
    """Simulate, judge and evaluate under one run name; what is finished is not done again."""
    os.environ["CRS_RESULTS"] = str(folder)
    config = SimulateConfig(
        run, catalogue(folder), systems=[f"ollama:m{i}:1" for i in range(n_models)], n_sessions=n_sessions, n_turns=n_turns,
        user_llm="ollama:user:1", llm={"host": url, "slots": 4, **(llm or {})},
    )  # fmt: skip
    simulate.simulate(config, progress=False)
    judging.judge_run(run, ["ollama:judge:1"], llm={"host": url, "slots": 4}, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run))
    return simulate.run_folder(run)


def killed_until_done(server, job, targets):
    """Start the job again and again, each time killed once the server has got so many requests.

    Returns how often it was really killed before it ended by itself.
    """
    kills = 0
    for target in [*targets, None]:
        process = CONTEXT.Process(target=work, args=job)
        process.start()
        while process.is_alive() and (target is None or server.chats < target):
            time.sleep(0.002)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
    assert process.exitcode == 0, f"the last start ended with {process.exitcode}"
    return kills


def contents(folder):
    """What the final files hold, by name."""
    return {name: (Path(folder) / name).read_bytes() for name in FILES}


def duplicates(folder, name):
    """Sessions that occur twice in a file of JSON lines."""
    rows = [json.loads(line) for line in (Path(folder) / name).read_text().splitlines()]
    keys = [(row.get("model") or row.get("model_name"), row["session_id"]) for row in rows]
    return len(keys) - len(set(keys)), len(keys)


def main():
    """6 models x 20 sessions x 20 turns and a judge, in one piece and killed ten times."""
    from ollama_server import OllamaServer

    size = (6, 20, 20)
    with tempfile.TemporaryDirectory() as folder:
        with OllamaServer(models(6)) as server:
            started = time.time()
            whole = contents(work(folder, server.url, "whole", *size))
            print(f"one piece: {server.chats} requests, {time.time() - started:.0f} s", flush=True)
            n = server.chats
        with OllamaServer(models(6)) as server:
            targets = sorted(random.Random(1).sample(range(1, n), 10))
            kills = killed_until_done(server, (folder, server.url, "killed", *size), targets)
            found = Path(folder) / "movies" / "killed"
            print(f"killed {kills} times: {server.chats} requests, equal: {contents(found) == whole}")
            print({name: duplicates(found, name) for name in FILES})
            before = server.chats
            (found / "ledger.sqlite").unlink()
            (found / "ledger-judge.sqlite").unlink()
            work(folder, server.url, "killed", *size)
            print(
                f"again without ledgers: {server.chats - before} requests, equal: {contents(found) == whole}"
            )


if __name__ == "__main__":
    main()
