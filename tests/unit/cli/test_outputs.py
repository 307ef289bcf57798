"""No command writes over what it reads, over a file of a run or over a committed notebook."""

import inspect
import os
import shutil
from pathlib import Path

import pytest

from crs_lib.__main__ import main
from crs_lib.cli import app
from crs_lib.core import paths

ELSEWHERE = {"cosrec catalogue": {"metas", "reviews"}}  # folders, whose files crs_lib.cosrec.catalogue keeps
WRITING = [one for one in app.COMMANDS if one.facts.get("writes")]


def options(one, fact):
    return list(dict.fromkeys(entry.partition("/")[0] for entry in one.facts.get(fact, "").split()))


@pytest.mark.parametrize("one", app.COMMANDS, ids=lambda one: one.name)
def test_every_command_says_which_options_are_files(one):
    own = app._own(inspect.signature(one.make).parameters, {})
    files = {field.name for field in app.fields_of(own) if Path in field.kinds}
    taken = {field.name for source in one.facts.get("takes", ()) for field in app._taken(source)}
    files |= {"catalog", "logs"} & (taken | set(own.model_fields)) if one.facts.get("writes") else set()
    if not one.facts.get("writes"):
        files -= {"f", "chat", "train", "dialogues"}  # read, and nothing is written that an option names
    assert files - ELSEWHERE.get(one.name, set()) <= {*options(one, "reads"), *options(one, "writes")}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A run, notebooks that are committed, and a file and a folder that commands read."""
    run, books, folder = tmp_path / "results" / "movies" / "r", tmp_path / "books", tmp_path / "in"
    for place in (run, books, folder):
        place.mkdir(parents=True)
    for name in ("manifest.json", "dialogues.jsonl", "catalog.parquet", ".lock", "turns.parquet"):
        (run / name).write_text(name)
    shutil.copy(paths.notebooks() / "01_catalog.ipynb", books / "01_catalog.ipynb")
    (folder / "one.jsonl").write_text("{}\n")
    os.link(run / "turns.parquet", tmp_path / "hard.parquet")
    (tmp_path / "link").symlink_to(run / "manifest.json")
    (tmp_path / "books.ipynb").symlink_to(books / "01_catalog.ipynb")
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(paths, "notebooks", lambda: books)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(one, given):
    """A command line with these options, and something for every other one that is required."""
    found, parameters = one.name.split(), inspect.signature(one.make).parameters
    required = {
        name: "x" for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    }
    required |= {"validity people": {"part": "rated"}, "catalog": {"kind": "export"}}.get(one.name, {})
    if "catalog" in options(one, "reads"):
        required["catalog"] = "sample"
    positional = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for name, value in (required | given).items():
        flag = [] if name in positional else [f"-{name}" if len(name) == 1 else f"--{name.rstrip('_')}"]
        found += [*flag, str(value)]
    return found


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("one", WRITING, ids=lambda one: one.name)
def test_no_output_is_an_input_a_file_of_a_run_or_a_committed_notebook(one, world, capsys):
    before = contents(world)
    run = world / "results" / "movies" / "r"
    places = [(name, {}) for name in ("results/movies/r/manifest.json", "link", run / ".." / "r" / ".lock", "books.ipynb",
                                      "books/01_catalog.ipynb", run / "dialogues.jsonl", run)]  # fmt: skip
    for name in set(options(one, "reads")) & set(inspect.signature(one.make).parameters):
        places += [
            ("in/one.jsonl", {name: "in/one.jsonl"}),
            ("in/../in/one.jsonl", {name: world / "in" / "one.jsonl"}),
        ]
        places += [("in/one.jsonl", {name: "in"})]
    if "catalog" in options(one, "reads"):
        places += [
            ("in/one.jsonl", {"catalog": "in/one.jsonl+plot"}),
            ("in/one.jsonl+plot", {"catalog": "in/one.jsonl+plot"}),
        ]
    for entry in one.facts["writes"].split():
        option, _, file = entry.partition("/")
        for place, given in places:
            if file:  # the folder is named: the file within is a link to the place
                shutil.rmtree("out", ignore_errors=True)
                Path("out").mkdir()
                (Path("out") / file).symlink_to((world / place).absolute())
            assert main(words(one, given | {option: "out" if file else place})) == 2, (place, given)
            assert "give another output" in capsys.readouterr().err, (place, given)
    shutil.rmtree("out", ignore_errors=True)
    assert contents(world) == before


def test_a_notebook_is_not_executed_into_another_ones_place(world, capsys):
    shutil.copy("books/01_catalog.ipynb", "books/02_users.ipynb")
    assert main(["run", "01_catalog", "-o", "books/02_users.ipynb"]) == 2
    assert "is a committed notebook and would be written over" in capsys.readouterr().err
