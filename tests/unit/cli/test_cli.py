"""The command line: options are made from settings, every command has help, every error of a user is one message."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import nbformat
import pandas as pd
import pytest

import crs_lib
from crs_lib import notebooks
from crs_lib.__main__ import main
from crs_lib.cli import app, run
from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Entry, Field, OneOf, Seed, Settings
from tests.helpers import refused

SAID = "seed -1 is not usable; give a whole number >= 0"


class Job(Settings):
    """A job."""

    source: Annotated[str, Field(description="where it begins")]
    n_turns: Annotated[int, Field(ge=1, description="turns of a session")] = 20
    share: Annotated[float, Field(gt=0, le=1, description="100 % or less")] = 0.5
    systems: Annotated[tuple[str, ...], Field(description="who answers")] = ("tracker", "echo")
    sizes: Annotated[tuple[Seed, ...], Field(description="context sizes")] = ()
    way: Annotated[str, OneOf(("fast", "slow")), Field(description="how")] = "fast"
    final: Annotated[bool, Field(description="for good")] = False
    least: Annotated[int | None, Field(description="at least")] = None
    llm: Annotated[Mapping[str, Any], Field(description="settings")] = {}


def parsed(words, fields="", **defaults):
    """What a function that takes the fields of a job is called with."""
    seen = {}

    def do(**given: Any) -> None:
        seen.update(given)

    app._do(Entry("do", do, "", {"takes": [f"{__name__}:Job {fields}"], "defaults": defaults}), words.split())
    return seen


def own(words):
    """What a function with parameters of its own is called with."""
    seen = {}

    def do(
        name: str, more: tuple[str, ...] = (), *, p: tuple[list[str], ...] = (), n_runs: int = 3,
        out: Path | None = None, log: tuple[str, ...] = (), import_: bool = False,
    ) -> None:  # fmt: skip
        """Do it.

        All of it.

        name: who does it
        n_runs: how often
        """
        seen.update(name=name, more=more, p=p, n_runs=n_runs, out=out, log=log, import_=import_)

    app._do(Entry("do", do, ""), words.split())
    return seen


def test_every_field_is_an_option_and_what_is_not_given_is_absent():
    words = "--source a --turns 7 --share 1 --systems tracker,ollama:a:1 --sizes 1,2 --way slow --final"
    assert Job(**parsed(f'{words} --least 0 --llm {{"slots":8}}')) == Job(
        source="a", n_turns=7, share=1.0, systems=("tracker", "ollama:a:1"), sizes=(1, 2), way="slow",
        final=True, least=0, llm={"slots": 8},
    )  # fmt: skip
    assert parsed("--source a") == {"source": "a"}
    assert parsed("--n-turns 4", "n_turns share", share=0.1) == {"n_turns": 4, "share": 0.1}


@pytest.mark.parametrize(("words", "message"), [
    ("--turns two", "n_turns is 'two'; input should be a valid integer"),
    ("--turns 0", "n_turns is 0; input should be greater than or equal to 1"),
    ("--turns 1.5", "n_turns is '1.5'; input should be a valid integer"),
    ("--share nan", "share is nan; input should be a finite number"),
    ("--sizes 1,b", "sizes is '1,b'; give a list"),
    ("--way fats", "way is 'fats'; give one of fast, slow; did you mean 'fast'"),
    ("--llm 8", "llm is 8; input should be a valid dictionary"),
    ("--llm {", "llm is '{'; input should be a valid dictionary"),
])  # fmt: skip
def test_a_wrong_value_is_the_settings_error(words, message):
    refused(message, Job, **parsed(f"--source a {words}"))


def test_parameters_of_the_function_are_options_too(tmp_path):
    usual = {"more": (), "p": (), "n_runs": 3, "out": None, "log": (), "import_": False}
    assert own("a") == {"name": "a", **usual}
    assert own("a b c -p x 1 -p y 2 --runs 4 --import") == {
        "name": "a", **usual, "more": ("b", "c"), "p": (["x", "1"], ["y", "2"]), "n_runs": 4, "import_": True,
    }  # fmt: skip
    assert own(f"a --log r s --log t --out {tmp_path}")["log"] == ("r", "s", "t")
    assert own("a --out ~/x")["out"] == Path.home() / "x"
    refused("n_runs is 'many'; input should be a valid integer", own, "a --runs many")


def test_the_help_says_what_a_field_is_its_choices_and_its_default(capsys):
    with pytest.raises(SystemExit):
        parsed("")
    assert "--source" in capsys.readouterr().err  # without default, it must be given
    for one in (parsed, own):
        with pytest.raises(SystemExit):
            one("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "--source SOURCE where it begins --turns N turns of a session (default: 20)",
        "--share X 100 % or less (default: 0.5)",
        "--systems A,B who answers (default: tracker, echo) --sizes A,B context sizes --way",
        "--way WAY how; fast or slow (default: fast) --final for good --least N at least",
        "--llm JSON settings", "Do it. All of it.", "name who does it", "--runs N how often (default: 3)",
    ):  # fmt: skip
        assert part in shown


def command(*arguments, **options):
    line = [sys.executable, "-m", "crs_lib", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, **options)


def listed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_every_command_and_every_group_has_a_help_that_says_what_it_does(capsys):
    shown = listed(capsys)
    assert len(app.COMMANDS) > 20
    for one in app.COMMANDS:
        assert f"{one.name} {one.summary}" in shown and one.summary in listed(capsys, *one.name.split())
    assert "realtalk evaluate" in listed(capsys, "realtalk")
    assert {name.split()[0] for name in app.COMMANDS.names()} == {*" ".join(app._GROUPS.values()).split()}


def test_the_version_is_that_of_the_package_and_of_the_citation(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"crs-lib {crs_lib.__version__}\n")
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        assert crs_lib.__version__ in (paths.ROOT / name).read_text(encoding="utf-8")


def test_an_old_name_works_and_says_the_new_one(capsys):
    listed(capsys)
    for old, new in prompts.lists("old_commands").items():
        found, rest = app.find([*old.split(), "--seed", "1"])
        assert found.name in re.sub(r" (figures|report|trace)$", "", new.partition(" --")[0])
        assert [*found.name.split(), *rest] == [*new.split(), "--seed", "1"]
        assert capsys.readouterr().err == f"{old} is now: crs {new}\n"


@pytest.mark.parametrize(("error", "code", "message"), [
    (InputError(SAID), 2, f"InputError: {SAID}\n"), (RunError(SAID), 2, f"RunError: {SAID}\n"),
    (KeyboardInterrupt(), 130, "\nstopped; what was finished is stored, the same command continues\n"),
    (ZeroDivisionError(), None, ""),  # a defect is not hidden
])  # fmt: skip
def test_errors_are_one_message_without_traceback(monkeypatch, capsys, error, code, message):
    def refuse(*_):
        raise error

    monkeypatch.setattr(notebooks, "refresh", refuse)
    with nullcontext() if code else pytest.raises(type(error)):
        assert main(["run", "--refresh"]) == code
    assert capsys.readouterr() == ("", message)


@pytest.mark.subprocess
def test_the_real_program_refuses_a_wrong_line_and_a_reader_may_go_away():
    line = [sys.executable, "-m", "crs_lib", "data", "get"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 141
    done = command("run", "03_simualte_", "-p", "seed", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("InputError: unknown notebook '03_simualte_'")
    assert "Traceback" not in done.stderr
    assert command("dance").returncode == command().returncode == 2


def test_values_come_from_the_file_and_then_from_the_line(tmp_path):
    (tmp_path / "p.yaml").write_text("count: 3\nloud: true\n")
    found = run._given_values(str(_book(tmp_path)), [["count", "4"], ["run", "007"]], tmp_path / "p.yaml")
    assert found == {"count": 4, "loud": True, "run": "007"}


def _book(folder):
    source = 'run: str = "a"  # name\ncount: int = 1  # words\nloud: bool = False  # shout'
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    path = folder / "01_hello.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


@pytest.mark.subprocess
def test_it_works_from_any_folder(tmp_path):
    done = command("run", "--parameters", str(_book(tmp_path)), cwd=tmp_path)
    assert done.returncode == 0 and "count (int)  words [1]" in done.stdout


def talk(number, *replies):
    """A session in the thesis's form with these replies."""
    asks = {"speaker": "USER", "text": "a film"}
    turns = [turn for reply in replies for turn in (asks, {"speaker": "SYSTEM", "text": reply})]
    return {"session_id": f"{number:05d}", "model_name": "made-up", "conversation": turns}


def test_sessions_and_quirks_are_counted_and_every_case_is_written(tmp_path, capsys):
    sessions = [talk(0, "See Kites.", "See Kites."), talk(1, "N/A is a film", "Noted.", "The user wants it.")]
    path = tmp_path / "logs.json"
    path.write_text(json.dumps(sessions))
    assert main(["logs", str(path), "--quirks", str(tmp_path / "quirks.csv")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["made-up", "2", "5", "0"]
    kinds = ("N/A in text", "other length", "repeated reply", "speaks of the user")
    shown = [line for line in out if line.split()[:1] == ["made-up"]][1:]
    assert [next(kind for kind in kinds if kind in line) for line in shown] == list(kinds)
    cases = pd.read_csv(tmp_path / "quirks.csv", keep_default_na=False)
    repeated = cases[cases["quirk"] == "repeated reply"].iloc[0]
    assert (repeated["session"], repeated["turn"], repeated["detail"]) == (0, "2", "as in turn 1")
    assert set(cases["quirk"]) == set(kinds)
    path.write_text(json.dumps([talk(0, "See Kites.", "See Orchards.")]))
    assert main(["logs", str(path)]) == 0 and capsys.readouterr().out.rstrip().endswith("no quirks")
    assert main(["logs", str(tmp_path / "nowhere")]) == 2
    assert "expected a file or a folder" in capsys.readouterr().err
