"""The command line: options are made from settings, every command has help, every error of a user is one message."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, ClassVar

import argcomplete
import nbformat
import pandas as pd
import pytest

import crs_lib
from crs_lib import notebooks
from crs_lib.__main__ import main
from crs_lib.cli import commands, names, run
from crs_lib.cli.commands import Command, Takes
from crs_lib.core import paths
from crs_lib.core.clients import ClientCommand, clients
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, OneOf, Seed, Settings
from tests.helpers import refused

GONE = [name for client in clients() for name in client.gone]
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


class Jobs(Command):
    """Take the fields of a job."""

    takes = (Takes(f"{__name__}:Job"),)


class FewFields(Command):
    """Take two of them, one with another default."""

    takes = (Takes(f"{__name__}:Job", "n_turns share"),)
    usual: ClassVar[dict[str, Any]] = {"share": 0.1}


class Own(Command):
    """Do it.

    All of it.
    """

    positional = ("name", "more")

    name: str
    """who does it"""
    more: tuple[str, ...] = ()
    p: tuple[list[str], ...] = ()
    n_runs: int = 3
    """how often"""
    out: Path | None = None
    log: tuple[str, ...] = ()
    import_: bool = False


class Asks(Command):
    """Take a name behind a list."""

    positional = ("name",)
    takes = (Takes(f"{__name__}:Job", "systems"),)

    name: str


@pytest.fixture
def seen(monkeypatch):
    """What a command was executed with: its own fields, and the settings that it takes."""
    calls = []
    monkeypatch.setattr(Command, "execute", lambda command, settings: calls.append((command, settings)))
    return calls


def do(kind, words):
    commands.do(ClientCommand("do", "", f"{__name__}:{kind.__name__}"), words.split())


@pytest.fixture
def parsed(seen):
    def settings(words, kind=Jobs):
        do(kind, words)
        return seen.pop()[1]

    return settings


@pytest.fixture
def own(seen):
    def fields(words):
        do(Own, words)
        return seen.pop()[0].values()

    return fields


def test_every_field_is_an_option_and_what_is_not_given_is_absent(parsed):
    words = "--source a --turns 7 --share 1 --systems tracker,ollama:a:1 --sizes 1,2 --way slow --final"
    assert Job(**parsed(f'{words} --least 0 --llm {{"slots":8}}')) == Job(
        source="a", n_turns=7, share=1.0, systems=("tracker", "ollama:a:1"), sizes=(1, 2), way="slow",
        final=True, least=0, llm={"slots": 8},
    )  # fmt: skip
    assert parsed("--source a") == {"source": "a"}
    assert parsed("--n-turns 4", FewFields) == {"n_turns": 4, "share": 0.1}


@pytest.mark.parametrize(
    "words", ["--systems a,b c", "--systems a b,c", "--systems a b --systems c", "--systems a, b, c"]
)
def test_a_list_takes_words_and_commas(parsed, words):
    assert parsed(f"--source x {words}")["systems"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "words", ["r --systems a,b", "--systems a,b r", "--systems a b r", "--systems a b -- r"]
)
def test_a_name_may_stand_behind_a_list(seen, words):
    do(Asks, words)
    command, settings = seen.pop()
    assert command.name == "r"
    assert settings == {"systems": ["a", "b"]}


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
def test_a_wrong_value_is_the_settings_error(parsed, words, message):
    refused(message, Job, **parsed(f"--source a {words}"))


def test_fields_of_the_command_are_options_too(own, tmp_path):
    usual = {"more": (), "p": (), "n_runs": 3, "out": None, "log": (), "import_": False}
    assert own("a") == {"name": "a", **usual}
    assert own("a b c -p x 1 -p y 2 --runs 4 --import") == {
        "name": "a", **usual, "more": ("b", "c"), "p": (["x", "1"], ["y", "2"]), "n_runs": 4, "import_": True,
    }  # fmt: skip
    assert own(f"a --log r s --log t --out {tmp_path}")["log"] == ("r", "s", "t")
    assert own("a --out ~/x")["out"] == Path.home() / "x"
    refused("n_runs is 'many'; input should be a valid integer", own, "a --runs many")


def test_the_help_says_what_a_field_is_its_choices_and_its_default(capsys, parsed):
    with pytest.raises(SystemExit):
        parsed("")
    assert "--source" in capsys.readouterr().err  # without default, it must be given
    for kind in (Jobs, Own):
        with pytest.raises(SystemExit):
            do(kind, "--help")
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "--source SOURCE where it begins --turns N turns of a session (default: 20)",
        "--share X 100 % or less (default: 0.5)",
        "--systems A,B [A,B ...] who answers (default: tracker, echo) --sizes A,B [A,B ...] context sizes --way",
        "--way WAY how; fast or slow (default: fast) --final for good --least N at least",
        "--llm JSON settings", "Do it. All of it.", "name who does it", "--runs N how often (default: 3)",
    ):  # fmt: skip
        assert part in shown


def program(*arguments, **options):
    line = [sys.executable, "-m", "crs_lib", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, **options)


def listed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_every_command_and_every_group_has_a_help_that_says_what_it_does(capsys):
    shown = listed(capsys)
    assert len(names.commands()) > 20
    for command in names.commands().values():
        assert f"{command.name} {command.summary}" in shown
        assert command.summary in listed(capsys, *command.name.split())
    group = listed(capsys, "realtalk")
    assert "realtalk evaluate" in group
    assert "validity" not in group


def test_every_option_of_a_command_has_a_line_of_help():
    for command in names.commands().values():
        for setting in commands.options_of(commands.command_class(command)).values():
            assert setting.help, f"{command.name}: {setting.name}"
            assert "\n" not in setting.help


@pytest.mark.subprocess
def test_the_help_imports_neither_pandas_nor_pydantic():
    code = "import sys; from crs_lib.cli import names; names.headings(); print({'pandas', 'pydantic', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("words", "expected"), [
    ([], {"compare", "validity", "data"}), (["data"], {"get", "import", "score"}), (["validity"], {"gate", "annotate"}),
    (["show"], {"figures", "report", "trace", "--run"}), (["data", "score"], {"--logs", "--convention"}),
    (["leaderboard"], {"--runs", "--out"}),
])  # fmt: skip
def test_a_shell_is_offered_commands_then_options_and_names(words, expected):
    finder = argcomplete.CompletionFinder(commands.parser_after(words), always_complete_options=True)
    offered = finder._get_completions(["crs", *words], "", "", None)
    assert expected <= {word.strip() for word in offered}


@pytest.mark.subprocess
def test_the_program_answers_a_shell(tmp_path):
    line = "crs cosrec ind"
    asks = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    asks["_ARGCOMPLETE_STDOUT_FILENAME"] = str(tmp_path / "answer")
    done = program(env={**os.environ, **asks})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "answer").read_text().strip() == "index"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_what_a_shell_evaluates(capsys, shell):
    with pytest.raises(SystemExit) as ended:
        main(["--completion", shell])
    assert ended.value.code == 0
    assert "_ARGCOMPLETE" in capsys.readouterr().out


def test_the_version_is_that_of_the_package_and_of_the_citation(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"crs-lib {crs_lib.__version__}\n")
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        assert crs_lib.__version__ in (paths.ROOT / name).read_text(encoding="utf-8")


def test_an_old_name_works_and_says_the_new_one(capsys):
    listed(capsys)
    present = {
        old: new for old, new in names.old_names().items() if not any(new.startswith(gone) for gone in GONE)
    }
    assert len(present) > 30
    for old, new in present.items():
        command, options = names.find([*old.split(), "--seed", "1"])
        assert [*command.name.split(), *options] == [*new.split(), "--seed", "1"]
        assert capsys.readouterr().err == f"{old} is now: crs {new}\n"


@pytest.mark.parametrize("words", GONE)
def test_a_command_that_is_gone_says_where_it_went(words, capsys):
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith(f"InputError: {words} is gone: ")


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
    assert process.stderr.read() == b""
    assert process.wait() == 141
    done = program("run", "03_simualte_", "-p", "seed", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("InputError: unknown notebook '03_simualte_'")
    assert "Traceback" not in done.stderr
    assert program("dance").returncode == program().returncode == 2


def test_values_come_from_the_file_and_then_from_the_line(tmp_path):
    (tmp_path / "p.yaml").write_text("count: 3\nloud: true\n")
    values = run.parameter_values(str(_book(tmp_path)), [["count", "4"], ["run", "007"]], tmp_path / "p.yaml")
    assert values == {"count": 4, "loud": True, "run": "007"}


def _book(folder):
    source = 'run: str = "a"  # name\ncount: int = 1  # words\nloud: bool = False  # shout'
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    path = folder / "01_hello.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


@pytest.mark.subprocess
def test_it_works_from_any_folder(tmp_path):
    done = program("run", "--parameters", str(_book(tmp_path)), cwd=tmp_path)
    assert done.returncode == 0
    assert "count (int)  words [1]" in done.stdout


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
    assert main(["logs", str(path)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("no quirks")
    assert main(["logs", str(tmp_path / "nowhere")]) == 2
    assert "expected a file or a folder" in capsys.readouterr().err
