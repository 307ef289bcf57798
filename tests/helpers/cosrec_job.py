"""A generation by models as a job for a process that may be killed."""

import json
import multiprocessing
import os
import re
from collections import Counter
from pathlib import Path

from crs_lib.cosrec.generate import generate
from crs_lib.cosrec.settings import GenerateSettings
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
    lines = [f"U: I need something, number {seed}.", "S: What for?"]
    for point in range(4):
        lines += [f"U: And what about point {point} of {seed}?", f"S: Point {point} is fine."]
    if spoilt:
        lines.append("U: Thanks.")
    else:
        lines += ["U: Which one then?", f"S: Take the {title}.", "U: I will, thank you."]
    return "\n".join(lines)


def work(folder, url, run, conversations, source="sample"):
    os.environ["CRS_RESULTS"] = str(folder)
    config = GenerateSettings(
        run=run, source=str(source), conversations=conversations, writer="ollama:writer:1", query_writer="ollama:asker:1",
        retries=9, llm={"host": url, "slots": 8},
    )  # fmt: skip
    return generate(config, progress=False)


def contents(folder):
    return {name: (Path(folder) / name).read_bytes() for name in FILES}


def answered_twice(folder):
    """Requests that a model answered more than once, and all that it answered, from the call log."""
    sent = Counter()
    for line in (Path(folder) / "llm_calls.jsonl").read_text().splitlines():
        row = json.loads(line)
        if not row["cache_hit"] and not row["error"]:
            sent[row["model"], row["request"]] += 1
    return sum(times > 1 for times in sent.values()), len(sent)


def server(share, delay=0.0):
    faults = {}
    for seed, name in enumerate(MODELS):
        faults[name] = Faults(rate=share, kinds=KINDS, seed=seed)
    return OllamaServer(MODELS, answer=answer, faults=faults, delay=delay)
