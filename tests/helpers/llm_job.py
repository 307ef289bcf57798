"""The whole LLM experiment as one job for a process that may be killed: simulate, judge, evaluate, import."""

import hashlib
import json
import multiprocessing
import os
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from crs_lib import evaluate, simulate
from crs_lib import judge as judging
from crs_lib.core import paths
from crs_lib.llm.client import CACHE
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.logged import ImportConfig, import_logs
from tests.helpers import jobs
from tests.helpers.ollama_server import OllamaServer

FILES = ("dialogues.jsonl", "judge_scores.jsonl", "results.jsonl")
IMPORTED = "-imported"
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "asyncio",
        "httpx",
        "ollama",
        "sklearn",
        "scipy.stats",
        "crs_lib.llm.ollama",
        "crs_lib.judge.run",
        "crs_lib.evaluate.run",
        "crs_lib.systems.agent",
        "crs_lib.systems.search",
        __name__,
    ]
)


def models(n):
    """n models of different weights, the user's and the judge's."""
    digests = {f"m{number}:1": f"{number}" * 64 for number in range(n)}
    return {**digests, "user:1": "a" * 64, "judge:1": "b" * 64}


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
    if body["messages"][-1]["role"] == "tool":
        return []
    return [("search_films", {"text": "a film"})]


def imported(run):
    """The run (or its folder) that the dialogues of a run are imported into."""
    return f"{run}{IMPORTED}"


def work(folder, url, run, n_models, n_sessions, n_turns, llm=None, agent=False):
    """Simulate, judge and evaluate under one run name; what is finished is not done again. With ``agent`` the
    last model is one that searches, and the dialogues are imported into a run of their own, which is
    evaluated too.
    """
    os.environ["CRS_RESULTS"] = str(folder)
    systems = [f"ollama:m{i}:1" for i in range(n_models)]
    if agent:
        systems[-1] = f"agent:{systems[-1]}"
        llm = {"retriever": "bm25", **(llm or {})}
    size = {"n_sessions": n_sessions, "n_turns": n_turns, "catalog": catalogue(folder)}
    values = {"user_llm": "ollama:user:1", "llm": {"host": url, "slots": 4, **(llm or {})}, **size}
    simulate.simulate(SimulateConfig(run=run, systems=systems, **values), progress=False)
    how = {"llm": {"host": url, "slots": 4}, "canaries": (), "progress": False}
    judging.judge_run(run, ["ollama:judge:1"], **how)
    evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    if agent:
        log = simulate.run_folder(run) / "dialogues.jsonl"
        import_logs(ImportConfig(logs=str(log), run=imported(run), catalog=catalogue(folder)))
        evaluate.evaluate(evaluate.EvaluateConfig(run=imported(run)))
    return simulate.run_folder(run)


def judge_only(folder, url, run):
    """Judge a finished run, canaries among its dialogues."""
    os.environ["CRS_RESULTS"] = str(folder)
    llm = {"host": url, "slots": 4}
    judging.judge_run(run, ["ollama:judge:1"], n_canaries=2, llm=llm, progress=False)


class Marking(OllamaServer):
    """Each answer carries a mark of its question in place of the count of its tokens, which the call cache keeps."""

    def __init__(self, *models, **settings):
        super().__init__(*models, tools=searches, **settings)
        self.asked = []

    def fault(self, body, headers):
        self.asked.append(_mark(body))
        return super().fault(body, headers)

    def tokens(self, body, text):
        return _mark(body)


def _mark(body):
    return int.from_bytes(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[:6])


@dataclass
class Kills:
    """How often a job was killed, and what had become of its questions then. ``again`` are requests whose
    answer was in the call cache at a kill before: none, or an answer was lost. ``lost`` are requests under
    way: their answer was not yet kept.
    """

    times: int = 0
    again: int = 0
    lost: int = 0
    stored: set[int] = field(default_factory=set)
    looked_at: int = 0

    def count(self, server, cache):
        """Add the life that made the latest requests."""
        requests = server.asked[self.looked_at :]
        self.looked_at += len(requests)
        self.again += sum(mark in self.stored for mark in requests)
        self.stored = _kept(cache)
        self.lost += len(set(requests) - self.stored)


def _kept(cache):
    if not cache.exists():
        return set()
    with closing(sqlite3.connect(cache, timeout=60)) as reader, suppress(sqlite3.OperationalError):
        return {json.loads(reply)["tokens_out"] for (reply,) in reader.execute("SELECT reply FROM replies")}
    return set()  # killed before the table was made


def killed_until_done(server, job, targets, task=work):
    """Start the job again and again, each time killed once so many different questions were asked. Returns
    what had become of the questions at each kill.
    """
    kills = Kills()
    cache = Path(job[0]) / "movies" / job[2] / CACHE

    def requests() -> int:
        return len(set(server.asked))

    def count() -> None:
        kills.count(server, cache)

    kills.times = jobs.killed_until_done(CONTEXT, task, job, targets, requests, count)
    return kills


def killed_at_moments(job, moments):
    """Start the job, each time killed after so many seconds; how often it was really killed."""

    def killed(moment):
        ends = time.monotonic() + moment
        return jobs.killed_when(CONTEXT, work, job, lambda: time.monotonic() >= ends)[0]

    return sum(map(killed, moments))


def contents(folder):
    """What the final files hold, by name; those of the run that it was imported into come with it."""
    files = {(0, name): (Path(folder) / name).read_bytes() for name in FILES}
    second = Path(imported(str(folder)))
    if second.exists():
        for name in (FILES[0], FILES[2]):
            files[1, name] = (second / name).read_bytes()
    return files


def duplicates(folder, name):
    """Sessions that occur twice in a file of JSON lines."""
    keys = []
    for row in rows_of(Path(folder) / name):
        keys.append((row.get("model") or row.get("model_name"), row["session_id"]))
    return len(keys) - len(set(keys)), len(keys)


def rows_of(path):
    """The objects of a file of JSON lines."""
    return list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))


def log_of(folder):
    """The rows of a run's call log."""
    return rows_of(Path(folder) / "llm_calls.jsonl")


def stand_ins(folder, rows):
    """Texts of a run's dialogues that no model wrote and that are not flagged as the template's."""
    written = {}
    for row in rows:
        if not row["error"]:
            written.setdefault((row["role"], row["model"]), set()).add(row["text"])
    unknown = []
    for dialogue in simulate.dialogues(Path(folder).name):
        replies = {json.loads(text)["reply"].strip() for text in written["crs", dialogue.model_name]}
        utterances = written["user", "ollama:user:1"]
        for pair in dialogue.pairs():
            if pair.system.text not in replies:
                unknown.append(pair.system.text)
            if pair.user.user_meta["worded_by"] != "template" and pair.user.text not in utterances:
                unknown.append(pair.user.text)
    return unknown
