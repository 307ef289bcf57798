"""What comes from outside is made valid, bounded, and named where it is wrong."""

import errno
import gzip
import io
import json
import os
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import one_line, printable
from crs_lib.runs.folder import manifest_at
from tests.helpers import refused

ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates and controls included
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {"CRS_DATA": paths.data, "CRS_RESULTS": paths.results, "CRS_FIGURES": paths.figures}
SLUGS = {
    "ollama:llama3:instruct": "ollama-llama3-instruct", "noisy:0.3": "noisy-0.3", "Amélie / ça": "Amelie-ca",
    "../../etc": "etc", "...": "unnamed", "": "unnamed", "東京": "922642ef", "東 a": "a-45311d50",
}  # fmt: skip


@given(ANY)
def test_every_text_becomes_valid_and_a_valid_one_stays(text):
    cleaned = safety.valid(text)
    assert cleaned.encode().decode() == cleaned == safety.valid(cleaned)
    assert "\0" not in cleaned
    if "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text):
        assert cleaned == text


@given(JSON)
def test_json_is_read_as_the_standard_library_reads_it(value):
    text = json.dumps(value)
    expected = json.loads(text.replace("\\u0000", "\\ufffd"))
    assert repr(safety.loads(text, "here")) == repr(expected)
    assert repr(safety.loads(text.encode(), "here", unique=True)) == repr(expected)


def test_surrogates_are_joined_or_marked_in_keys_too():
    marked = {"a\ud800b": "a\ufffdb", "\ud83d\ude00": "😀", "\0x": "\ufffdx", "\udc00": "\ufffd"}
    assert {text: safety.valid(text) for text in marked} == marked
    text = '{"a\\ud800": ["\\udfff", "\\ud83d\\ude00"]}'
    assert safety.loads(text, "here") == {"a\ufffd": ["\ufffd", "😀"]}


@pytest.mark.parametrize(("text", "says"), [
    ("[" * 300 + "]" * 300, "nested more than 200 deep"),
    ("[" * 200_000 + "]" * 200_000, "nested more than 200 deep"),
    ('{"a":' * 250 + "1" + "}" * 250, "nested more than 200 deep"),
    ("9" * 5_000, "number out of range"), ("9" * 50, "a whole number of 50 digits"),
    (str(2**63), "a whole number of 19 digits"), ("{", "not JSON"), ("", "not JSON"),
    (b"\xff\xfe", "not UTF-8"),
])  # fmt: skip
def test_json_that_cannot_be_held_is_named(text, says):
    with pytest.raises(InputError, match=says) as caught:
        safety.loads(text, "films.json, line 3")
    assert str(caught.value).startswith("films.json, line 3: ")
    assert "\n" not in str(caught.value)


def test_a_key_that_stands_twice_is_refused_where_asked():
    assert safety.loads('{"a": 1, "a": 2}', "here") == {"a": 2}
    refused("the key 'a' stands twice", safety.loads, '[{"a": 1, "b": 0, "a": 2}]', "here", unique=True)


def test_a_limit_is_stated_and_a_variable_raises_it(monkeypatch):
    monkeypatch.setenv("CRS_MOST_JSON_BYTES", "10")
    with pytest.raises(InputError, match=r"here: it has 12, the limit is 10 bytes .* CRS_MOST_JSON_BYTES=12"):
        safety.loads('"0123456789"', "here")
    monkeypatch.setenv("CRS_MOST_JSON_BYTES", "12")
    monkeypatch.setenv("CRS_MOST_LINE_CHARACTERS", "12")
    assert safety.loads('"0123456789"', "here") == "0123456789"
    endless = safety.lines(io.StringIO(f"1234\n{'1' * 20}\n"), "x")
    assert next(endless) == (1, "1234\n")
    refused("x, line 2: it has more than", next, endless)
    for wrong in ("0", "-1", "many", "²", "1" * 30):
        monkeypatch.setenv("CRS_MOST_JSON_BYTES", wrong)
        refused("CRS_MOST_JSON_BYTES is", safety.limit, "json_bytes")


def test_a_compressed_file_may_not_unpack_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(safety, "_PIECE", 1_000)
    small, bomb = tmp_path / "small.jsonl.gz", tmp_path / "bomb.jsonl.gz"
    small.write_bytes(gzip.compress(b"1\n\n2\n"))
    bomb.write_bytes(gzip.compress(b"0" * 10_000_000))
    with safety.open_text(small) as file:
        assert list(safety.lines(file, "small")) == [(1, "1\n"), (3, "2\n")]
    with safety.open_text(bomb) as file:
        refused(r"bomb.jsonl.gz: it unpacks to more than .* CRS_MOST_UNPACKED_RATIO", file.read)
    monkeypatch.setenv("CRS_MOST_UNPACKED_RATIO", "2000")
    with safety.open_text(bomb) as file:
        assert len(file.read()) == 10_000_000


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    for name, says in ((".", "cannot be read"), ("no", "No such"), ("latin.json", "UTF-8")):
        path = tmp_path / name
        refused(f"^{path.name}: .*{says}", safety.read_json, path)
    (tmp_path / "list.json").write_text("[1]")
    refused(r"list.json: expected a JSON object, it holds a list", safety.read_object, tmp_path / "list.json")


@pytest.mark.parametrize("error", [
    KeyError("x"), TypeError("t\nu"), RecursionError(), OSError(13, "broken"), ValueError("v" * 9_000),
])  # fmt: skip
def test_a_reader_lets_out_one_sentence(error, tmp_path):
    def read(path):
        raise error

    def stream(path):
        yield 1
        raise error

    for function in (read, lambda path: list(safety.reader("a list")(stream)(path))):
        with pytest.raises(InputError, match=r"^films.json cannot be read as a ") as caught:
            safety.reader("a catalogue")(function)(tmp_path / "films.json")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1_000


def test_a_reader_keeps_the_words_of_our_own_errors_on_one_line():
    @safety.reader("a list")
    def read(what):
        raise what

    refused(r"^one\\ntwo$", read, RunError("one\ntwo"), error=RunError)
    refused("defect", read, RuntimeError("defect"), error=RuntimeError)


def test_what_steers_a_terminal_is_shown_as_an_escape():
    text = "a\x1b[31mred\x07\x00\x9b\u202eb\ud800\r"
    assert printable(text) == "a\\x1b[31mred\\x07\\x00\\x9b\\u202eb\\ud800\\r"
    assert printable("two\nlines\tand é 映画") == "two\nlines\tand é 映画"
    assert one_line("a\nb" * 900, 20) == "a\\nba\\nba\\nba\\nba\\n…"
    for kind in (InputError, RunError):
        error = kind(text)
        assert str(error) == printable(text)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(("text", "says"), [
    ("a: 1\nb: 2\na: 3\n", "the key 'a' stands twice"), ("a: {b: 1, 'b': 2}\n", "the key 'b' stands twice"),
    ("a: &x [1]\nb: *x\n", "an alias of what stands in line 1"), ("&x {a: *x}\n", "an alias"),
    ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)), "an alias"),
    ("a: [" * 5_000, "is not YAML"), ("? [1, 2]\n: 3\n? {a: 1}\n: 2", "is not YAML"),
])  # fmt: skip
def test_yaml_holds_each_key_once_and_no_alias(tmp_path, text, says):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    refused(rf"a\.yaml is not YAML: .*{says}|{says}", safety.read_yaml, path)
    path.write_text("a: {b: [1, x], c: null}\nd: yes\n")
    assert safety.read_yaml(path) == {"a": {"b": [1, "x"], "c": None}, "d": True}
    path.write_text("")
    assert safety.read_yaml(path) is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EIO])
def test_a_fault_of_the_machine_is_no_damage(tmp_path, monkeypatch, number):
    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    (tmp_path / "manifest.json").write_text('{"stages": {}}')
    monkeypatch.setattr(Path, "read_text", fails)
    with pytest.raises(RunError, match=re.escape(os.strerror(number))) as refusal:
        manifest_at(tmp_path / "manifest.json")
    assert "damaged" not in str(refusal.value)
    assert "remove" not in str(refusal.value)
    with pytest.raises(RunError, match=re.escape(os.strerror(number))), safety.faults("a table"):
        fails()


def test_folders_lie_in_the_repository_unless_a_variable_moves_them_and_samples_stay(monkeypatch, tmp_path):
    for variable, folder in FOLDERS.items():
        name = variable.removeprefix("CRS_").lower()
        monkeypatch.delenv(variable, raising=False)
        assert folder() == ROOT / name
        monkeypatch.setenv(variable, "")  # set but empty counts as unset
        assert folder() == ROOT / name
        monkeypatch.setenv(variable, str(tmp_path / "a" / ".." / "b"))
        assert folder() == tmp_path / "b"
    monkeypatch.setenv("CRS_DATA", str(tmp_path))
    assert (paths.samples(), paths.external()) == (ROOT / "data" / "samples", tmp_path / "external")
    monkeypatch.delenv("CRS_MIRROR", raising=False)
    assert paths.mirror() is None
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    assert paths.mirror() == tmp_path


def test_a_run_name_that_could_leave_its_folder_is_refused():
    for good in ("demo", "007", "a.b_c-d", "x" * 100):
        assert paths.run_folder("movies", good) == paths.results() / "movies" / good
    for run in ("", ".", "..", "-x", "../other", "a/b", "a\\b", "a b", "a:b", "x" * 101, "a\n", "é"):
        refused("cannot be a folder", paths.run_folder, "movies", run)


@given(st.text())
def test_a_slug_is_a_usable_file_name_and_stable(name):
    assert {name: paths.slug(name) for name in SLUGS} == SLUGS
    slug = paths.slug(name)
    assert slug == paths.slug(slug)
    assert slug.isascii()
    assert slug not in ("", ".", "..")
    assert not set(slug) & set('/\\:*?"<>| \0')


def test_paths_are_shown_relative_and_those_that_no_file_can_have_refused(tmp_path):
    assert paths.shown(ROOT / "results" / "movies") == "results/movies"
    assert paths.shown(tmp_path) == tmp_path.as_posix()
    for wrong in ("a\0b", "~nosuchuser9/x"):
        refused(r"is no path|does not exist here", paths.given, wrong)
    assert paths.given("~").is_absolute()
    assert paths.given(tmp_path) == tmp_path


def test_an_output_may_not_be_an_input_by_any_name(tmp_path):
    source = tmp_path / "in.json"
    source.write_text("1")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for out in (source, tmp_path / "x" / ".." / "in.json", tmp_path / "soft", tmp_path / "hard"):
        refused("give another output", paths.apart, [tmp_path / "fine", out], [tmp_path / "other", source])
    paths.apart([tmp_path / "out.json"], [source])
