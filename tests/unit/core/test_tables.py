"""Tables: contracts that name what is wrong, and writing that never leaves half a file."""

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.core.rng import address_seed, check_seed, stream
from crs_lib.core.store import DamageError, Store, locked
from tests.helpers import refused

FRAME = pd.DataFrame({"model": ["a", "a"], "session_id": ["1", "2"], "turn": [1, 1], "tas": [0.1, np.nan]})
WRITERS = {
    "x.jsonl": lambda path: tables.write_jsonl(path, [{"a": 1}, '{"raw": 2}']),
    "x.json": lambda path: tables.write_json(path, {"b": 1, "a": (1, 2)}),
    "x.csv": lambda path: tables.write_csv(path, FRAME),
    "x.parquet": lambda path: tables.write_parquet(path, FRAME),
}
FULL = """
import resource, signal, sys
from pathlib import Path
from crs_lib.core import tables
from crs_lib.core.errors import RunError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    tables.write_jsonl(Path(sys.argv[1]), ({"text": "x" * 1000} for _ in range(1000)))
except RunError as error:
    print(error)
"""
_numbers = st.floats() | st.integers() | st.none() | st.text(max_size=3) | st.booleans()
_held = lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3)  # noqa: E731
TABLE = "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY) WITHOUT ROWID"
NAMES = st.lists(st.text(max_size=8) | st.integers(-5, 10**6), max_size=4)


def test_a_contract_names_missing_columns_and_repeated_rows():
    lacking, twice = FRAME.drop(columns="turn"), pd.concat([FRAME, FRAME.tail(1)])
    refused(r"turns.parquet: columns \['turn'\] are missing; it has", tables.TURNS.check, lacking)
    refused(r"two rows for .*'session_id': '2'", tables.TURNS.check, twice)


@pytest.mark.parametrize("name", WRITERS)
def test_writing_twice_gives_the_same_bytes_and_leaves_nothing_aside(tmp_path, name):
    path = tmp_path / "new" / "folder" / name
    WRITERS[name](path)
    first = path.read_bytes()
    WRITERS[name](path)
    assert path.read_bytes() == first
    assert os.listdir(path.parent) == [name]


def test_what_is_written_can_be_read_with_ten_digits_and_in_pieces(tmp_path):
    digits = tmp_path / "digits.csv"
    assert tables.write_jsonl(tmp_path / "x.jsonl", [{"a": "ç"}, '{"raw": 2}']) == 2
    assert list(tables.read_jsonl(tmp_path / "x.jsonl")) == [{"a": "ç"}, {"raw": 2}]
    tables.write_json(tmp_path / "x.json", {"b": 1, "a": float("inf")})
    assert (tmp_path / "x.json").read_text() == '{\n "a": null,\n "b": 1\n}\n'
    for name in ("x.csv", "x.parquet"):
        WRITERS[name](tmp_path / name)
        read = tables.read_table(tmp_path / name, tables.TURNS)
        assert read["tas"].tolist() == pytest.approx([0.1, np.nan], abs=0, rel=0, nan_ok=True)
    tables.write_csv(digits, pd.DataFrame({"x": [1 / 3, 1e-12, 2.0]}))
    assert digits.read_text() == "x\n0.3333333333\n1e-12\n2\n"
    pieces = (FRAME.iloc[i : i + 1] for i in range(len(FRAME)))
    assert tables.write_parquet(tmp_path / "pieces.parquet", pieces) == 2
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "pieces.parquet"), FRAME)
    lists = [pd.DataFrame({"x": [[]]}), pd.DataFrame({"x": [["genre=war"]]})]
    tables.write_parquet(tmp_path / "lists.parquet", iter(lists))
    assert [list(x) for x in pd.read_parquet(tmp_path / "lists.parquet")["x"]] == [[], ["genre=war"]]


def test_an_error_while_writing_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.jsonl"
    tables.write_jsonl(path, [{"a": 1}])

    def broken():
        yield {"a": 2}
        raise ValueError("half way")

    refused("half way", tables.write_jsonl, path, broken(), error=ValueError)
    assert path.read_text() == '{"a": 1}\n'
    assert os.listdir(tmp_path) == ["x.jsonl"]


@pytest.mark.subprocess
def test_a_full_disk_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.jsonl"
    tables.write_jsonl(path, [{"a": 1}])
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert "could not write x.jsonl: File too large; nothing changed" in done.stdout
    assert path.read_text() == '{"a": 1}\n'
    assert os.listdir(tmp_path) == ["x.jsonl"]


@pytest.mark.parametrize(("text", "message"), [
    ('{"a": 1}\n{"a": \n', "line 2: not JSON"), ("[1]\n", "line 1: expected an object"),
    ("\n\n3\n", "line 3"),
])  # fmt: skip
def test_a_broken_line_is_named(tmp_path, text, message):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    refused(rf"x.jsonl, {message}", list, tables.read_jsonl(path))


def test_missing_tables_and_folders_that_cannot_be_made_are_named(tmp_path):
    path, way = tmp_path / "turns.parquet", tmp_path / "file"
    refused(r"no turns.parquet in '", tables.read_table, path, tables.TURNS, error=RunError)
    way.write_text("in the way")
    says = r"could not write x.jsonl: .*; nothing changed"
    refused(says, tables.write_jsonl, way / "sub" / "x.jsonl", [{"a": 1}], error=RunError)


@given(st.recursive(_numbers, _held))
def test_whatever_it_is_json_can_hold_it(value):
    text = json.dumps(tables.finite(value), allow_nan=False)
    assert tables.finite(json.loads(text)) == tables.finite(value)


def test_numpy_numbers_become_plain_ones():
    value = {1: np.float64("nan"), "b": (np.int32(3), np.bool_(True), [np.float32(0.5), float("-inf")])}
    assert tables.finite(value) == {"1": None, "b": [3, True, [0.5, None]]}
    assert type(tables.finite(np.int32(3))) is int


def test_a_table_is_read_in_columns(tmp_path):
    frame = pd.DataFrame({"model": "m", "session_id": list("aabbccd"), "turn": [1, 2] * 3 + [1]})
    frame = frame.assign(long="same", x=range(7))
    path = tmp_path / "t.parquet"
    tables.write_parquet(path, frame)
    whole = tables.read_table(path, tables.TURNS, repeated=("long", "absent"))
    assert whole["long"].tolist() == ["same"] * 7
    assert whole["long"].memory_usage(index=False) < frame["long"].memory_usage(index=False)
    pd.testing.assert_frame_equal(whole.astype({"long": "str"}), frame)
    assert tables.read_table(path, tables.TURNS, columns=["x"])["x"].tolist() == list(range(7))
    says = r"parquet: columns \['y'\] are missing; it has \["
    refused(says, tables.read_table, path, tables.TURNS, columns=["y"])


def test_lines_are_read_column_by_column_and_what_a_row_lacks_is_missing(tmp_path):
    path = tmp_path / "results.jsonl"
    rows = [
        {"model": "m", "session_id": "1", "tas": 0.5, "weights": "w"},
        {"model": "m", "session_id": "2", "weights": "w", "late": None},
        {"model": "m", "session_id": "3", "tas": None, "weights": "w", "late": 3},
    ]
    tables.write_jsonl(path, rows)
    results = tables.read_table(path, tables.RESULTS, repeated=("weights",))
    pd.testing.assert_frame_equal(results.astype({"weights": "str"}), pd.DataFrame(rows))
    assert tables.read_table(path, tables.RESULTS, columns=["late"])["late"].tolist()[2] == 3
    tables.write_jsonl(path, [rows[0], rows[0]])
    refused("two rows for", tables.read_table, path, tables.RESULTS, columns=["tas"])


def store(path, **options):
    return Store(path, TABLE, "word list", **options)


def words(given):
    return [word for (word,) in given.do("SELECT word FROM words ORDER BY word")]


def test_what_is_stored_is_there_for_the_next_process(tmp_path):
    path = tmp_path / "new" / "words.sqlite"
    with store(path) as first:
        assert not path.exists()  # opened when it is used
        first.do("INSERT INTO words VALUES (?)", ("a",))
        first.many("INSERT INTO words VALUES (?)", [("c",), ("b",)])
        assert list(first.stream("SELECT word FROM words WHERE word > ?", ("a",))) == [("b",), ("c",)]
    assert words(first) == ["a", "b", "c"]  # closed, and opened again
    assert words(store(path, guarded=True)) == ["a", "b", "c"]


def test_threads_and_forks_share_a_store(tmp_path):
    one = store(tmp_path / "words.sqlite")
    words(one)

    def add(names):
        for name in names:
            one.do("INSERT INTO words VALUES (?)", (name,))

    workers = [threading.Thread(target=add, args=(["a", "b"],)), threading.Thread(target=add, args=(["c"],))]
    workers.append(multiprocessing.get_context("fork").Process(target=add, args=(["d"],)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert words(one) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, guarded):
    path = tmp_path / "words.sqlite"
    path.write_bytes(b"no database, only text" * 100)
    with pytest.raises(DamageError, match=r"word list .*words\.sqlite.*Move it away"):
        words(store(path, guarded=guarded))
    assert path.read_bytes() == b"no database, only text" * 100


def test_a_guarded_file_that_was_replaced_is_not_written(tmp_path):
    path = tmp_path / "words.sqlite"
    one = store(path, guarded=True)
    path.rename(tmp_path / "away")
    refused("removed or replaced", one.many, "INSERT INTO words VALUES (?)", [("a",)], error=RunError)
    one.close()


def test_a_folder_is_locked_for_one_at_a_time(tmp_path):
    busy = pytest.raises(RunError, match="busy; wait")
    with locked(tmp_path / "run", "busy; wait"), busy, locked(tmp_path / "run", "busy; wait"):
        pass
    with locked(tmp_path / "run", "busy; wait"):
        pass
    (tmp_path / "file").write_text("")
    refused(r"cannot be written .* CRS_RESULTS", locked(tmp_path / "file", "busy").__enter__, error=RunError)


def test_the_numbers_are_fixed_and_hashed_as_the_documentation_says():
    """A change here changes every published result: the streams are part of the file formats."""
    assert stream(7, "movies", 3, "user").integers(0, 1000, 5).tolist() == [656, 809, 753, 886, 949]
    assert address_seed(7, "movies") == 459369972
    digest = hashlib.sha256(b'[7, "movies", 3, "user"]').digest()
    expected = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    assert (stream(7, "movies", 3, "user").random(4) == expected.random(4)).all()
    assert check_seed(np.int32(5)) == 5
    assert stream(np.int64(5), "x").random() == stream(5, "x").random()
    # 500 neighbours: under independence |r| exceeds 0.15 in fewer than 1 of 1,000 draws.
    draws = np.array([stream(1, "movies", session, "user").random() for session in range(501)])
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.15
    assert 0.45 < draws.mean() < 0.55


@given(seed=st.integers(0, 2**70), names=NAMES)
def test_an_address_gives_the_same_stream_whatever_came_before(seed, names):
    first = stream(seed, *names).random(3)
    stream(seed, "something", "else").random(100)
    np.random.default_rng(0).random(10)
    assert (stream(seed, *names).random(3) == first).all()
    assert 0 <= address_seed(seed, *names) == address_seed(seed, *names) < 2**31 - 1


@given(seed=st.integers(0, 2**40), one=NAMES, two=NAMES)
@pytest.mark.slow
def test_other_addresses_give_other_streams(seed, one, two):
    near = (["a", "b"], ["ab"]), (["a", "b"], ["b", "a"]), ([1], ["1"]), ([], [""]), (["a", ""], ["a"])
    for first, second in ((one, two), *near):
        same = [(type(name), name) for name in first] == [(type(name), name) for name in second]
        assert (stream(seed, *first).integers(0, 2**63) == stream(seed, *second).integers(0, 2**63)) == same


def test_a_seed_is_a_whole_number_from_zero():
    for seed in (-1, 1.0, "1", None, True, np.float64(2)):
        refused("give a whole number >= 0", stream, seed, "x")
