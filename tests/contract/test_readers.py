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
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import yaml

import crs_lib
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.safety import READERS
from crs_lib.core.tables import sha256
from tests.helpers import table

CASES = int(os.environ.get("CRS_FUZZ", "200"))
SEED = int(os.environ.get("CRS_FUZZ_SEED", "1"))
SAMPLES = table(__file__, "samples")
ROWS = table(__file__, "readers")

for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)


def lines(value):
    """JSON lines of a list, or of what was one."""
    values = value if isinstance(value, list) else [value]
    return "".join(f"{json.dumps(part)}\n" for part in values)


def parquet(value):
    """The films as a table; what is damaged is damaged as text of the file, or as a column of other things."""
    rows = []
    for title, film in value.items():
        if isinstance(film, dict):
            row = {"item_id": str(len(rows)), "title": title}
            rows.append({**row, "year": film.get("year"), "genre": film.get("genre")})
    return pd.DataFrame(rows).astype(str).to_parquet()


WRITERS = {"json": json.dumps, "lines": lines, "yaml": yaml.safe_dump, "parquet": parquet, "text": str}


def topics(path, read):
    """A topic model whose dictionary is the damaged thing."""
    np.save(path.parent / "exp_elog_beta.npy", np.arange(6.0).reshape(2, 3))
    (path.parent / "dictionary.tsv").write_bytes(path.read_bytes())
    return read(path.parent)


def nouns(path, read):
    """WordNet's nouns, of which both files are the damaged thing."""
    (path.parent / "noun.exc").write_bytes(path.read_bytes())
    return read(path.parent)


def run_folder(*parts):
    folder = paths.run_folder("movies", "fuzz").joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def of_run(path, read):
    """A run whose dialogues and failures are the damaged thing; the manifest fits what is there."""
    folder = run_folder()
    outputs = {}
    for name in ("dialogues.jsonl", "failed_sessions.csv"):
        (folder / name).write_bytes(path.read_bytes())
        outputs[name] = sha256(folder / name)
    stage = {"status": "finished", "outputs": outputs}
    tables.write_json(folder / "manifest.json", {"stages": {"simulate": stage}})
    return read("fuzz")


def of_manifest(path, read):
    (run_folder() / "manifest.json").write_bytes(path.read_bytes())
    return read("fuzz")


def of_labels(path, read):
    """The key of a page, or labels beside a sound key."""
    is_key = path.suffix == ".json"
    key = path.read_bytes() if is_key else SAMPLES["key"].encode()
    (run_folder("annotation") / "key.json").write_bytes(key)
    return read("fuzz") if is_key else read([path], "fuzz")


CALLS = {
    "file": lambda path, read: read(path),
    "folder": lambda path, read: read(path.parent),
    "folder of a kind": lambda path, read: read(path.parent, "kind"),
    "results": lambda path, read: read(path, tables.RESULTS),
    "catalog": lambda path, read: read(path, tables.CATALOG),
    "means": lambda path, read: read(path, tables.MODEL_METRICS),
    "rows": lambda path, read: read(tables.read_jsonl(path)),
    "lenient": lambda path, read: read(path, id),
    "without chats": lambda path, read: read(path, []),
    "parsed": lambda path, read: read(safety.read_yaml(path)),
    "run": of_run,
    "manifest": of_manifest,
    "labels": of_labels,
    "topics": topics,
    "nouns": nouns,
}
ODD = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**40,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "a\0b",
    "²",
]
ODD += [
    "\x1b[31m",
    [],
    {},
    [[]],
    [None],
    {"": None},
    [1, "a", None],
    {"a": {"a": {"a": []}}},
    "~nosuchuser/x",
]
ODD += ["{x:99999999}", "x" * 5_000]
ODD_KEYS = ("", "\ud800", "x" * 300, "0")
ODD_FILES = (
    b"",
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"9" * 5_000,
    b"null",
    b"&a [*a, *a]",
)


def is_branch(value):
    """Whether a value has parts."""
    return isinstance(value, dict | list) and len(value) > 0


def part_of(value, draw):
    """A container somewhere in a value, and a key in it."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw.choice(keys)
        if not is_branch(value[key]) or draw.random() < 0.3:
            return value, key
        value = value[key]


def damage(value, draw):
    """Replace, remove or move one part of a value."""
    parent, key = part_of(value, draw)
    change = draw.random()
    if change < 0.7:
        parent[key] = draw.choice(ODD)
    elif change < 0.85:
        del parent[key]
    elif isinstance(parent, dict):
        parent[draw.choice(ODD_KEYS)] = parent.pop(key)
    else:
        parent.extend(copy.deepcopy(parent))


def damaged_value(value, draw):
    """The value with one to three of its parts replaced, removed or moved."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 3)):
        if not is_branch(value) or draw.random() < 0.1:
            return draw.choice(ODD)
        damage(value, draw)
    return value


def damaged_text(data, draw):
    """The bytes cut, doubled, with others put in, or nested without end."""
    cut = draw.randrange(len(data) + 1)
    before, after = data[:cut], data[cut:]
    damages = [before, after, data + data, b"\xef\xbb\xbf" + data, b"PAR1" + data, before + b"\0" + after]
    damages += [before + bytes([draw.randrange(256)]) + after[1:], before + b"\xff\xfe" + after]
    damages += [data.replace(b'"', b"'"), data.replace(b"1", b"9" * 5_000)]
    damages.append(data.replace(b": ", b": \\ud800", 1))
    return draw.choice([*damages, *ODD_FILES])


def reader(name):
    """The reader of a name, as its callers call it."""
    module, function = name.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(f"crs_lib.{module}"), function)
    except ModuleNotFoundError:
        module, kind = module.rsplit(".", 1)
        return getattr(getattr(importlib.import_module(f"crs_lib.{module}"), kind), function)


def test_every_reader_has_a_sample():
    ours = {name for name in READERS if name.startswith("crs_lib.")}
    assert {f"crs_lib.{row[0]}" for row in ROWS} == ours


def damaged(sample, writer, draw):
    """The bytes of a file that holds a sample with damage; ValueError where this form cannot hold it."""
    in_parts = draw.random() < 0.6 and writer != "text"
    value = sample if writer == "text" else json.loads(sample)
    if not in_parts:
        return damaged_text(encoded(WRITERS[writer](value)), draw)
    try:
        return encoded(WRITERS[writer](damaged_value(value, draw)))
    except (TypeError, AttributeError, OverflowError, yaml.YAMLError) as error:
        raise ValueError(sample) from error


def encoded(content):
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(("name", "file", "writer", "call", "sample"), ROWS)
def test_only_our_errors_leave_a_reader(name, file, writer, call, sample, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    path = tmp_path / file
    for number in range(max(1, CASES // len(ROWS))):
        case = f"CRS_FUZZ_SEED={SEED}, case {number}"
        try:
            path.write_bytes(
                damaged(SAMPLES[sample], writer, random.Random(f"{SEED} {name} {file} {number}"))
            )
        except ValueError:
            continue
        try:
            content = CALLS[call](path, reader(name))
            if isinstance(content, Iterator):
                deque(content, maxlen=0)  # all that it gives
        except (InputError, RunError) as error:
            assert str(error), case
            assert "\n" not in str(error), case
            assert len(str(error)) <= 1_200, case
        except BaseException as error:
            shown = path.read_bytes()[:300]
            raise AssertionError(f"{case}: {type(error).__name__} left {name}: {shown!r}") from error
