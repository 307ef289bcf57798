"""The whole LLM experiment as one job for a process that may be killed: simulate, judge, evaluate, import.

``PYTHONPATH=. python tests/helpers/llm_job.py`` runs 6 models, 20 sessions and 20 turns once, and killed ten times,
and says what came out; with ``--faults 0.2`` it runs them once against a server that fails in 20 % of the calls.
``--kills 200`` does it with 2 models, one of them an agent, 10 sessions and 10 turns: four fifths of the kills
come at random requests, the others at random moments of evaluation and import.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from crs_lib import evaluate, simulate
from crs_lib import judge as judging
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.logged import ImportConfig, import_logs

FILES = ("dialogues.jsonl", "judge_scores.jsonl", "results.jsonl")
IMPORTED = "-imported"
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([
    "asyncio", "httpx", "ollama", "sklearn", "scipy.stats", "crs_lib.llm.ollama", "crs_lib.judge.run",
    "crs_lib.evaluate.run", "crs_lib.systems.agent", "crs_lib.systems.film_search", __name__,
])  # fmt: skip


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


def searches(body):
    """The tool calls of an agent's model: one search, then it replies."""
    asked = [message["role"] for message in body["messages"]]
    return [] if asked[-1] == "tool" else [("search_films", {"text": "a film"})]


def imported(run):
    """The run (or its folder) that the dialogues of a run are imported into."""
    return f"{run}{IMPORTED}"


def work(folder, url, run, n_models, n_sessions, n_turns, llm=None, agent=False):
    """Simulate, judge and evaluate under one run name; what is finished is not done again.

    With ``agent`` the last model is one that searches, and the dialogues are imported into a run of their own,
    which is evaluated too.
    """
    os.environ["CRS_RESULTS"] = str(folder)
    systems = [f"ollama:m{i}:1" for i in range(n_models)]
    if agent:
        systems[-1] = f"agent:{systems[-1]}"
        llm = {"retriever": "bm25", **(llm or {})}
    config = SimulateConfig(
        run, catalogue(folder), systems=systems, n_sessions=n_sessions, n_turns=n_turns, user_llm="ollama:user:1",
        llm={"host": url, "slots": 4, **(llm or {})},
    )  # fmt: skip
    simulate.simulate(config, progress=False)
    judging.judge_run(run, ["ollama:judge:1"], llm={"host": url, "slots": 4}, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run))
    if agent:
        log = simulate.run_folder(run) / "dialogues.jsonl"
        import_logs(ImportConfig(str(log), imported(run), catalogue(folder)))
        evaluate.evaluate(evaluate.EvaluateConfig(imported(run)))
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
            if kills % 20 == 0:
                print(f"killed {kills} times: {server.chats} requests", flush=True)
        process.join()
    assert process.exitcode == 0, f"the last start ended with {process.exitcode}"
    return kills


def killed_at_moments(job, moments):
    """Start the job, each time killed after so many seconds; how often it was really killed."""
    kills = 0
    for moment in moments:
        process = CONTEXT.Process(target=work, args=job)
        process.start()
        process.join(moment)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
    return kills


def contents(folder):
    """What the final files hold, by name; those of the run that it was imported into come with it."""
    more = Path(imported(str(folder)))
    files = [(Path(folder), name) for name in FILES]
    files += [(more, name) for name in (FILES[0], FILES[2]) if more.exists()]
    return {(place.name.count(IMPORTED), name): (place / name).read_bytes() for place, name in files}


def duplicates(folder, name):
    """Sessions that occur twice in a file of JSON lines."""
    rows = [json.loads(line) for line in (Path(folder) / name).read_text().splitlines()]
    keys = [(row.get("model") or row.get("model_name"), row["session_id"]) for row in rows]
    return len(keys) - len(set(keys)), len(keys)


def under_faults(folder, size, share, starts=5):
    """The job against a server that fails in a share of the calls, started again where sessions failed.

    Returns the run's folder, how often it was started, and the server with its counts.
    """
    from tests.helpers.ollama_server import Faults, OllamaServer

    names = models(size[0])
    faults = {name: Faults(rate=share, seed=number) for number, name in enumerate(names)}
    with OllamaServer(names, faults=faults) as server:
        start = 1
        while True:
            try:
                return work(folder, server.url, "faults", *size), start, server
            except RunError as error:
                print(f"start {start}: {error}", flush=True)
                if start == starts:
                    raise
                start += 1


def log_of(folder):
    """The rows of a run's call log."""
    return [json.loads(line) for line in (Path(folder) / "llm_calls.jsonl").read_text().splitlines()]


def stand_ins(folder, rows):
    """Texts of a run's dialogues that no model wrote, and the utterances that are flagged as the template's."""
    written = {}
    for row in rows:
        if not row["error"]:
            written.setdefault((row["role"], row["model"]), set()).add(row["text"])
    unknown, flagged = [], 0
    for dialogue in simulate.dialogues(Path(folder).name):
        replies = {json.loads(text)["reply"].strip() for text in written["crs", dialogue.model_name]}
        unknown += [turn.text for turn in dialogue.turns[1::2] if turn.text not in replies]
        for turn in dialogue.turns[0::2]:
            flagged += turn.user_meta["worded_by"] == "template"
            if (
                turn.user_meta["worded_by"] != "template"
                and turn.text not in written["user", "ollama:user:1"]
            ):
                unknown.append(turn.text)
    return unknown, flagged


def main():
    """6 models x 20 sessions x 20 turns and a judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=float, default=0.0, help="share of the calls that fail")
    parser.add_argument("--kills", type=int, default=0, help="kill a smaller job so often")
    given = parser.parse_args()
    size = (6, 20, 20)
    if given.kills:
        return killed_everywhere((2, 10, 10), given.kills)
    return shaken(size, given.faults) if given.faults else killed(size)


def killed_everywhere(size, kills):
    """In one piece, then killed so often at requests and in the stages that make none; what came out."""
    from tests.helpers.ollama_server import OllamaServer

    draw, tail = random.Random(2), kills // 5
    with tempfile.TemporaryDirectory() as folder:
        with OllamaServer(models(size[0]), tools=searches) as server:
            whole = contents(work(folder, server.url, "whole", *size, agent=True))
            n, started = server.chats, time.perf_counter()
            work(folder, server.url, "whole", *size, agent=True)
            seconds = time.perf_counter() - started
        print(f"one piece: {n} requests; the stages without requests take {seconds:.2f} s", flush=True)
        with OllamaServer(models(size[0]), tools=searches, delay=0.01) as server:
            job, began = (folder, server.url, "killed", *size, None, True), time.time()
            targets = sorted(draw.sample(range(1, n), kills - tail))
            at_requests = killed_until_done(server, job, targets)
            found, asked = Path(folder) / "movies" / "killed", server.chats
            print(f"killed {at_requests} times at requests: {asked} requests", flush=True)
            at_moments = killed_at_moments(job, [draw.uniform(0, seconds) for _ in range(tail)])
            work(*job)
            print(f"killed {at_moments} times in evaluation and import: {server.chats - asked} requests")
            print(f"{time.time() - began:.0f} s; equal bytes: {contents(found) == whole}")
            print({name: duplicates(found, name) for name in FILES})
            for ledger in ("ledger.sqlite", "ledger-judge.sqlite"):
                (found / ledger).unlink()
            before = server.chats
            work(*job)
            print(f"without ledgers: {server.chats - before} requests, equal: {contents(found) == whole}")


def shaken(size, share):
    """One run under faults, and what its files say of them."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.time()
        found, starts, server = under_faults(folder, size, share)
        rows = log_of(found)
        failures = sum(len(row["tried"]) + bool(row["error"]) for row in rows)
        unknown, flagged = stand_ins(found, rows)
        print(f"{server.chats} requests, {sum(server.given.values())} of them failed: {dict(server.given)}")
        print(f"{starts} starts, {time.time() - started:.0f} s; {failures} failures in the log")
        print(f"doubles and lines of each file: { {name: duplicates(found, name) for name in FILES} }")
        print(f"texts that no model wrote: {len(unknown)}; utterances flagged as the template's: {flagged}")


def killed(size):
    """In one piece, killed ten times, and again without its ledgers."""
    from tests.helpers.ollama_server import OllamaServer

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
