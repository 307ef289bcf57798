"""Every reader of what comes from outside, fed with damaged things: only InputError and RunError leave it, in one line.

``CRS_FUZZ=2000`` sets how many damaged things are read in all (200 by default), ``CRS_FUZZ_SEED`` where they begin.
"""

import copy
import importlib
import json
import os
import pkgutil
import random
from collections import deque

import numpy as np
import pandas as pd
import pytest
import yaml

import crs_lib
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.safety import READERS
from crs_lib.core.tables import sha256

CASES = int(os.environ.get("CRS_FUZZ", "200"))
SEED = int(os.environ.get("CRS_FUZZ_SEED", "1"))

for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

FILMS = {
    f"Film {n}": {"year": str(1980 + n), "genre": ["Drama", "Comedy"], "starring": ["A B"], "plot": "A plot."}
    for n in range(4)
}
TALK = {
    "session_id": "00000", "model_name": "m", "true_genre": "Drama", "shift_events": [{"turn": 1, "type": "x"}],
    "conversation": [
        {"speaker": "USER", "text": "a drama", "user_meta": {"constraints": {"genre": "Drama"}}},
        {"speaker": "SYSTEM", "text": "Film 1", "constraints": {}, "rec_titles": ["Film 1"]},
    ],
}  # fmt: skip
CALL = {
    "role": "crs", "model": "m", "error": None, "cache_hit": False, "tokens_in": 3, "tokens_out": 4, "seconds": 1.0,
    "attempts": 1, "text": "x", "request": "r",
}  # fmt: skip
CHAT = {
    "name": {"speaker_1": "A", "speaker_2": "B"},
    "session_1": [{"clean_text": "hello", "speaker": "A", "date_time": "29.12.2023, 18:22:00", "dia_id": "D1:1"}],
    "session_1_date_time": "29.12.2023, 18:22:00",
    "qa": [{"question": "who?", "answer": "A", "evidence": ["D1:1"], "category": 1}],
}  # fmt: skip
PLAN = {
    "primary_outcome": "topic_adaptation_score", "contrasts": [["a", "b"]], "smallest_effect": 0.1, "alpha": 0.05,
}  # fmt: skip
BOOK = {
    "nbformat": 4, "nbformat_minor": 5, "metadata": {},
    "cells": [{"cell_type": "code", "id": "a", "source": "x: int = 1", "metadata": {"tags": ["parameters"]}, "outputs": [], "execution_count": None}],
}  # fmt: skip
SWEEP = {
    "notebooks": ["03_simulate"], "run": "s-{seed}", "parameters": {"n_sessions": 2}, "grid": {"seed": [1, 2]},
}  # fmt: skip


def lines(value):
    return "\n".join(json.dumps(one) for one in (value if isinstance(value, list) else [value])) + "\n"


def parquet(value):
    """The films as a table; what is damaged is damaged as text of the file, or as a column of other things."""
    rows = [{"item_id": str(i), "title": t, "year": r.get("year"), "genre": r.get("genre")}
            for i, (t, r) in enumerate(value.items()) if isinstance(r, dict)]  # fmt: skip
    return pd.DataFrame(rows).astype(str).to_parquet()


def topics(place, read):
    np.save(place.parent / "exp_elog_beta.npy", np.arange(6.0).reshape(2, 3))
    (place.parent / "dictionary.tsv").write_bytes(place.read_bytes())
    return read(place.parent)


def nouns(place, read):
    (place.parent / "noun.exc").write_bytes(place.read_bytes())
    return read(place.parent)


def run_folder(*parts):
    folder = paths.run_folder("movies", "fuzz").joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def of_run(place, read):
    """A run whose dialogues, or failures, are the damaged thing; the manifest fits what is there."""
    folder, names = run_folder(), ("dialogues.jsonl", "failed_sessions.csv")
    for name in names:
        (folder / name).write_bytes(place.read_bytes())
    stage = {"status": "finished", "outputs": {name: sha256(folder / name) for name in names}}
    tables.write_json(folder / "manifest.json", {"stages": {"simulate": stage}})
    return read("fuzz")


def of_manifest(place, read):
    (run_folder() / "manifest.json").write_bytes(place.read_bytes())
    return read("fuzz")


def of_key(place, read):
    """The key of a page, or labels beside a sound key."""
    key = place.read_bytes() if place.suffix == ".json" else json.dumps(KEY).encode()
    (run_folder("annotation") / "key.json").write_bytes(key)
    return read("fuzz") if place.suffix == ".json" else read([place], "fuzz")


def plain(place, read):
    return read(place)


QUESTION = {"id": "a", "systems": ["m"], "session_id": "0", "shift": 2, "turns": [2]}
KEY = {"kind": "single", "page": "p", "questions": [QUESTION]}
LABEL = {"item": "a", "rater": "AB", "value": 3, "page": "p", "seconds": 2.5}
MEMORY = {
    "question_id": "a", "question": "What?", "answer": "x", "answer_session_ids": ["s"], "haystack_session_ids": ["s"],
    "haystack_dates": ["2023/05/20 (Sat) 02:21"], "haystack_sessions": [[{"role": "user", "content": "x", "has_answer": True}]],
}  # fmt: skip
MANIFEST = {
    "stages": {"simulate": {"status": "finished", "outputs": {"dialogues.jsonl": "0"}, "inputs": {}, "parameters": {}}},
}  # fmt: skip
# Reader: the name of a file, a whole thing, how it is written, and how the reader is called.
SAMPLES = [
    ("catalog.sources.load", "films.json", FILMS, json.dumps, plain),
    ("catalog.sources.load", "films.parquet", FILMS, parquet, plain),
    ("catalog.sources.raw", "films.json", FILMS, json.dumps, plain),
    ("thesis.catalog.ThesisCatalog.load", "films.json", FILMS, json.dumps, plain),
    ("cli.run.read_parameters", "values.yaml", {"run": "x", "n": 3}, yaml.safe_dump, plain),
    ("core.tables.read_jsonl", "x.jsonl", [TALK, TALK], lines, plain),
    ("core.tables.read_table", "results.jsonl", [{"model": "m", "session_id": "1", "x": 1.0}], lines, lambda place, read: read(place, tables.RESULTS)),
    ("core.tables.read_table", "turns.parquet", FILMS, parquet, lambda place, read: read(place, tables.CATALOG)),
    ("core.tables.read_table", "means.csv", "model,metric,mean\nm,x,0.5\n", str, lambda place, read: read(place, tables.MODEL_METRICS)),
    ("judge.rating.read_scores", "x_judge.csv", "model,proactiveness,coherence,personalization\nm,4,5,3\n", str, plain),
    ("judge.run.dialogue_lines", "dialogues.jsonl", [TALK], lines, plain),
    ("llm.calls.usage", "llm_calls.jsonl", [CALL, CALL], lines, plain),
    ("llm.calls._replies", "llm_calls.jsonl", [CALL], lines, lambda place, read: read(tables.read_jsonl(place))),
    ("data.logs.read", "log.jsonl", [TALK], lines, plain),
    ("data.logs.read", "log.json", TALK, json.dumps, plain),
    ("data.logs.readable", "log.json", [TALK, TALK], json.dumps, lambda place, read: read(place, lambda one: None)),
    ("notebooks.runner.load", "01_x.ipynb", BOOK, json.dumps, plain),
    ("notebooks.sweeps.read", "s.yaml", SWEEP, yaml.safe_dump, plain),
    ("realtalk.arcs.read", "arcs.json", {"format": "crs-arc-1", "cases": [{"name": "a", "chat": "c", "question": "q", "phases": [["1"], ["2"]]}]}, json.dumps, lambda place, read: read(place, [])),
    ("realtalk.corpus.read_chat", "Chat_1_A.json", CHAT, json.dumps, plain),
    ("realtalk.corpus.read_chats", "locomo10.json", [CHAT], json.dumps, plain),
    ("realtalk.corpus.read_chats", "longmemeval_s.json", [MEMORY], json.dumps, plain),
    ("retrieval.runs.read_run", "a.run", "t Q0 d1 1 2.5 x\nt Q0 d2 2 -1e3 x\n", str, plain),
    ("retrieval.runs.read_folder", "a.txt", "t Q0 d1 1 2.5 x\n", str, lambda place, read: read(place.parent)),
    ("retrieval.runs.read_qrels", "qrels.txt", "t 0 d1 1\nt 0 d2 0\n", str, plain),
    ("retrieval.store.read_header", "index.json", {"kind": "kind", "n": 2}, json.dumps, lambda place, read: read(place.parent, "kind")),
    ("simulate.config.iter_dialogues", "dialogues.jsonl", [TALK], lines, of_run),
    ("simulate.config.iter_dialogues", "manifest.json", MANIFEST, json.dumps, of_manifest),
    ("simulate.config.failed_sessions", "failed.csv", "model,session_id,error\nm,00001,gone\n", str, of_run),
    ("stats.plan.read_plan", "plan.yaml", PLAN, yaml.safe_dump, lambda place, read: read(safety.read_yaml(place))),
    ("validity.labels.read_key", "key.json", KEY, json.dumps, of_key),
    ("validity.labels.read", "labels.jsonl", [LABEL, LABEL], lines, of_key),
    ("thesis.topics.TopicModel.load", "dictionary.tsv", "0\tfilm\t1\n1\tplot\t2\n2\tstar\t1\n", str, topics),
    ("thesis.replay._noun_lemmas", "index.noun", "dog n 1 0\nmice mouse\n", str, nouns),
]  # fmt: skip
ODD = (
    None, True, False, 0, -1, 2**63, 10**40, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "a\0b", "²", "\x1b[31m",
    [], {}, [[]], [None], {"": None}, [1, "a", None], {"a": {"a": {"a": []}}}, "~nosuchuser/x", "{x:99999999}", "x" * 5_000,
)  # fmt: skip


def damaged_value(value, draw):
    """The value with one to three of its parts replaced, removed or moved."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 3)):
        if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
            return draw.choice(ODD)
        node = value
        while True:
            key = draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
            inner = node[key]
            if not isinstance(inner, dict | list) or not inner or draw.random() < 0.3:
                break
            node = inner
        change = draw.random()
        if change < 0.7:
            node[key] = draw.choice(ODD)
        elif change < 0.85:
            del node[key]
        elif isinstance(node, dict):
            node[draw.choice(["", "\ud800", "x" * 300, "0"])] = node.pop(key)
        else:
            node.extend(copy.deepcopy(node))
    return value


def damaged_text(data, draw):
    """The bytes cut, doubled, with others put in, or nested without end."""
    place = draw.randrange(len(data) + 1)
    return draw.choice([
        data[:place], b"", data + data, data[place:], b"\xef\xbb\xbf" + data, data[:place] + b"\0" + data[place:],
        data[:place] + bytes([draw.randrange(256)]) + data[place + 1 :], data[:place] + b"\xff\xfe" + data[place:],
        b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"9" * 5_000, data.replace(b'"', b"'"),
        data.replace(b"1", b"9" * 5_000), data.replace(b": ", b": \\ud800", 1), b"PAR1" + data, b"null", b"&a [*a, *a]",
    ])  # fmt: skip


def reader(name):
    """The reader of a name, as its callers call it."""
    module, function = name.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(f"crs_lib.{module}"), function)
    except ModuleNotFoundError:
        module, kind = module.rsplit(".", 1)
        return getattr(getattr(importlib.import_module(f"crs_lib.{module}"), kind), function)


def test_every_reader_has_a_sample():
    known = {name for name in READERS if name.startswith("crs_lib.")}
    assert {f"crs_lib.{name}" for name, *_ in SAMPLES} == known


@pytest.mark.parametrize("case", SAMPLES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_only_our_errors_leave_a_reader(case, tmp_path, monkeypatch):
    name, file, sample, written, call = case
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    read, place = reader(name), tmp_path / file
    for number in range(max(1, CASES // len(SAMPLES))):
        draw = random.Random(f"{SEED} {name} {file} {number}")
        told = f"CRS_FUZZ_SEED={SEED}, case {number}"
        in_parts = draw.random() < 0.6 and not isinstance(sample, str)
        try:
            made = written(damaged_value(sample, draw) if in_parts else sample)
        except (ValueError, TypeError, AttributeError, OverflowError, yaml.YAMLError):
            assert in_parts, told
            continue  # this form cannot hold the damage
        data = made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")
        data = data if in_parts else damaged_text(data, draw)
        place.write_bytes(data)
        try:
            found = call(place, read)
            deque(found if hasattr(found, "__next__") else (), maxlen=0)  # all that it gives
        except (InputError, RunError) as error:
            assert str(error) and "\n" not in str(error) and len(str(error)) <= 1_200, told
        except BaseException as error:
            raise AssertionError(f"{told}: {type(error).__name__} left {name}: {data[:300]!r}") from error
