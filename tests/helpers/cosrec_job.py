"""A generation by models as a job for a process that may be killed.

``python tests/helpers/cosrec_job.py`` writes 500 conversations against a server that fails in a fifth of its
calls, once in one piece and once killed ten times, and says whether the files are equal and what was asked twice:
requests that were in flight at a kill, apart from requests whose answer the call log already held.
``--conversations 30 --faults 0.2`` makes it smaller.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from crs_lib.cosrec.generate import generate
from crs_lib.cosrec.settings import GenerateSettings
from crs_lib.llm import Recorder
from crs_lib.llm.client import LOG
from tests.helpers.jobs import killed_when
from tests.helpers.ollama_server import Faults, OllamaServer

MODELS = {"writer:1": "c" * 64, "asker:1": "d" * 64}
FILES = ("generated.jsonl", "raw/conversations.jsonl", "raw/profiles.jsonl", "raw/keywords.jsonl")
# Faults after which the same request is sent again. An empty reply is asked for with another seed, so that the
# text would depend on when the fault came.
KINDS = ("drop", "429", "500", "503", "broken")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["crs_lib.cosrec.generate", __name__])


def answer(prompt, schema, seed):
    """What a model that follows the prompts would write; every thirtieth breaks the rules."""
    spoilt = seed % 30 == 0
    if "what matters to this person" in prompt:
        return f"This buyer wants things that last ({seed})."
    if "Which general preferences" in prompt:
        return "no braces" if spoilt else "{durable; easy to clean}"
    if "a shop's search log" in prompt:
        return "one two three four five six seven eight nine" if spoilt else f"thing {seed % 97}"
    title = re.search(r'the assistant names "([^"]+)"', prompt)[1]
    turns = "".join(f"U: And what about point {i} of {seed}?\nS: Point {i} is fine.\n" for i in range(4))
    end = "U: Thanks." if spoilt else f"U: Which one then?\nS: Take the {title}.\nU: I will, thank you."
    return f"U: I need something, number {seed}.\nS: What for?\n{turns}{end}"


def work(folder, url, run, conversations, source="sample"):
    """One start of the generation."""
    os.environ["CRS_RESULTS"] = str(folder)
    config = GenerateSettings(
        run=run, source=str(source), conversations=conversations, writer="ollama:writer:1", query_writer="ollama:asker:1",
        retries=9, llm={"host": url, "slots": 8},
    )  # fmt: skip
    return generate(config, progress=False)


class Kills(NamedTuple):
    """How often a job was killed, and how many requests came in again although their answer was recorded."""

    times: int
    asked_again: int


def killed_until_done(server, job, targets):
    """Start the job again and again, each time killed once so many requests came in."""
    times, again = 0, 0
    for target in [*targets, None]:
        recorded, before = _recorded(Path(job[0]) / "cosrec" / job[2]), server.chats
        killed, ended = killed_when(CONTEXT, work, job, lambda to=target: to and server.chats >= to)
        times += killed
        again += sum(_request(body) in recorded for body in server.bodies[before:])
    assert ended == 0, f"the last start ended with {ended}"
    return Kills(times, again)


def _recorded(folder):
    """What the call log holds an answer to, as the server knows requests: model and seed."""
    if not (folder / LOG).is_file():
        return set()
    rows = Recorder(folder / LOG).rows()
    return {(row["model"].removeprefix("ollama:"), row["seed"]) for row in rows if not row["error"]}


def _request(body):
    """Model and seed; of a body that broke off at a kill, neither."""
    return body.get("model"), body.get("options", {}).get("seed")


def contents(folder):
    return {name: (Path(folder) / name).read_bytes() for name in FILES}


def answered_twice(folder):
    """Requests that a model answered more than once, and all that it answered, from the call log."""
    rows = [json.loads(line) for line in (Path(folder) / "llm_calls.jsonl").read_text().splitlines()]
    sent = Counter(
        (row["model"], row["request"]) for row in rows if not row["cache_hit"] and not row["error"]
    )
    return sum(n > 1 for n in sent.values()), len(sent)


def server(share, delay=0.0):
    faults = {name: Faults(rate=share, kinds=KINDS, seed=n) for n, name in enumerate(MODELS)}
    return OllamaServer(MODELS, answer=answer, faults=faults, delay=delay)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--faults", type=float, default=0.2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with server(given.faults) as one:
            started = time.time()
            whole = contents(work(folder, one.url, "whole", given.conversations))
            failed = sum(one.given.values())
            print(
                f"one piece: {one.chats} requests, {failed} failed, {time.time() - started:.0f} s", flush=True
            )
            n = one.chats
        with server(given.faults) as other:
            targets = sorted(random.Random(1).sample(range(1, n), 10))
            job = (folder, other.url, "killed", given.conversations)
            kills = killed_until_done(other, job, targets)
            found = Path(folder) / "cosrec" / "killed"
            failed = sum(other.given.values())
            print(f"killed {kills.times} times: {other.chats} requests, {failed} failed")
            twice, answered = answered_twice(found)
            print(f"equal bytes: {contents(found) == whole}; {answered} requests answered")
            print(f"in flight at a kill, asked again: {other.chats - failed - answered}")
            print(f"answered and recorded, asked again: {kills.asked_again}; recorded twice: {twice}")


if __name__ == "__main__":
    main()
