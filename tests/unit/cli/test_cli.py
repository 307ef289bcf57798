"""The command line: every command has help, every error of a user is one message and exit code 2."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

import crs_lib
from crs_lib import __main__ as cli
from crs_lib import notebooks
from crs_lib.__main__ import main
from crs_lib.cli import app, run
from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError, RunError


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "crs_lib", *arguments], capture_output=True, text=True, check=False
    )


def listed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_every_command_and_every_group_has_a_help_that_says_what_it_does(capsys):
    shown = listed(capsys)
    assert len(app.COMMANDS) > 20
    for one in app.COMMANDS:
        assert f"{one.name} {one.summary}" in shown and one.summary in listed(capsys, *one.name.split())
    assert "realtalk evaluate" in listed(capsys, "realtalk")
    assert {name.split()[0] for name in app.COMMANDS.names()} == {
        word for words in app._GROUPS.values() for word in words.split()
    }


def test_the_version_is_that_of_the_package_and_of_the_citation(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"crs-lib {crs_lib.__version__}\n"
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        assert crs_lib.__version__ in (paths.ROOT / name).read_text(encoding="utf-8")


def test_an_old_name_works_and_says_the_new_one(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    for old, new in prompts.lists("old_commands").items():
        capsys.readouterr()
        found, rest = app.find([*old.split(), "--seed", "1"])
        name = new.partition(" --")[0].removesuffix(" figures").removesuffix(" report").removesuffix(" trace")
        assert found.name in name
        assert [*found.name.split(), *rest] == [*new.split(), "--seed", "1"]
        assert capsys.readouterr().err == f"{old} is now: crs {new}\n"


SAID = "seed -1 is not usable; give a whole number >= 0"


@pytest.mark.parametrize(("error", "code", "message"), [
    (InputError(SAID), 2, f"InputError: {SAID}\n"),
    (RunError(SAID), 2, f"RunError: {SAID}\n"),
    (KeyboardInterrupt(), 130, "\nstopped; what was finished is stored, the same command continues\n"),
    (ZeroDivisionError(), None, ""),  # a defect is not hidden
])  # fmt: skip
def test_errors_are_one_message_without_traceback(monkeypatch, capsys, error, code, message):
    def refuse(*_):
        raise error

    monkeypatch.setattr(notebooks, "refresh", refuse)
    if code:
        assert cli.main(["run", "--refresh"]) == code
    else:
        with pytest.raises(type(error)):
            cli.main(["run", "--refresh"])
    assert capsys.readouterr() == ("", message)


@pytest.mark.subprocess
def test_a_reader_that_goes_away_is_no_error_to_talk_about():
    process = subprocess.Popen(
        [sys.executable, "-m", "crs_lib", "data", "get"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.subprocess
def test_a_wrong_command_line_is_refused_by_the_real_program():
    done = command("run", "03_simualte_", "-p", "seed", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("InputError: unknown notebook '03_simualte_'")
    assert "Traceback" not in done.stderr
    assert command("dance").returncode == 2
    assert command().returncode == 2


@pytest.mark.parametrize(("text", "message"), [
    ("a: [", "p.yaml is not YAML"), ("- 1", "must map names"), ("", "must map names"),
    (None, "p.yaml: cannot be read"),
])  # fmt: skip
def test_a_parameter_file_must_be_one(tmp_path, text, message):

    path = tmp_path / "p.yaml"
    if text is not None:
        path.write_text(text)
    book = _book(tmp_path)
    with pytest.raises(InputError, match=message):
        run._given_values(str(book), [], path)


def test_values_come_from_the_file_and_then_from_the_line(tmp_path):

    (tmp_path / "p.yaml").write_text("count: 3\nloud: true\n")
    found = run._given_values(str(_book(tmp_path)), [["count", "4"], ["run", "007"]], tmp_path / "p.yaml")
    assert found == {"count": 4, "loud": True, "run": "007"}


def _book(folder):
    import nbformat

    cell = nbformat.v4.new_code_cell(
        'run: str = "a"  # name\ncount: int = 1  # words\nloud: bool = False  # shout',
        metadata={"tags": ["parameters"]},
    )
    path = folder / "01_hello.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


@pytest.mark.subprocess
def test_it_works_from_any_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "crs_lib", "run", "--parameters", str(_book(tmp_path))],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip
    assert "count (int)  words [1]" in done.stdout


def talk(number, *replies):
    """A session in the thesis's form with these replies."""
    turns = [
        turn
        for reply in replies
        for turn in ({"speaker": "USER", "text": "a film"}, {"speaker": "SYSTEM", "text": reply})
    ]
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


def test_a_clean_log_says_so_and_a_missing_one_is_an_error(tmp_path, capsys):
    path = tmp_path / "logs.json"
    path.write_text(json.dumps([talk(0, "See Kites.", "See Orchards.")]))
    assert main(["logs", str(path)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("no quirks")
    assert main(["logs", str(tmp_path / "nowhere")]) == 2
    assert "expected a file or a folder" in capsys.readouterr().err
