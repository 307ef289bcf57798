"""Odd names, damaged runs, few handles and closed outputs: one sentence, no traceback, no bad advice."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from crs_lib.__main__ import main
from crs_lib.core import paths
from tests.helpers.sample import scored

LONG, NO_TEXT = "x" * 300, os.fsdecode(b"\xff\xfe.json")
ODD = (LONG, "loop", NO_TEXT, "folder", "pipe", "/dev/zero", "loop/x", "log.jsonl/x", "a\0b")
COMMANDS = (
    "data import @", "data score --logs @ --catalog sample --out o", "catalog export --catalog @ --out o.jsonl",
    "catalog export --out @/y", "run @", "run 03_simulate -f @", "sweep @", "cosrec index --products @ --out ix",
    "cosrec index --products log.jsonl --out @", "cosrec catalogue --metas @ --reviews @ --out p.jsonl",
    "cosrec intents --train @ --test @ --out i.jsonl", "realtalk predict --chat @ --out p.jsonl --encoder hashing",
    "validity people rated --dialogues @ --catalog sample --out o.json", "judge @ --report", "show trace --run @",
    "thesis tables --logs @ --catalog sample --run q", "catalog topics --catalog @",
    "simulate -p systems exec:@", "chat tracker --simulated --catalog @",
)  # fmt: skip
SWEEPS = ("finish: figures", "finish: [a]", "run: x\nrun: y", "grid: &a {seed: *a}", "notebooks: 3")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    Path("log.jsonl").write_text("{}\n")
    Path("loop").symlink_to("pool")
    Path("pool").symlink_to("loop")
    Path("folder").mkdir()
    os.mkfifo("pipe")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_what_is_odd_is_one_sentence(capsys):
    for words in COMMANDS:
        for odd in (one for one in ODD if (words, one) != (COMMANDS[3], "folder")):  # a folder may hold it
            given = [word.replace("@", odd) for word in words.split()]
            assert main(given) == 2, given
            shown = capsys.readouterr().err
            assert "Traceback" not in shown and "damaged" not in shown and len(shown) < 1_200, (given, shown)
    for text in SWEEPS:
        Path("s.yaml").write_text(
            f"notebooks: [01_catalog]\n{'' if text.startswith('run') else 'run: r'}\n{text}\n"
        )
        assert main(["sweep", "s.yaml"]) == 2, text
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_run_whose_files_lack_parts_is_one_sentence(capsys):
    run = paths.run_folder("movies", scored("faulty", systems=("oracle",), n_sessions=2, n_turns=4))
    manifest, words = run / "manifest.json", ["show", "trace", "report", "--run", "faulty"]
    whole = json.loads(manifest.read_text())
    for change in ({"packages": 3}, {"code": [1]}, {"stages": {"simulate": {}}}):
        manifest.write_text(json.dumps({**whole, **change}))
        assert main(words) == 2, change
    manifest.write_text(json.dumps(whole))
    turns = (run / "turns.parquet").read_bytes()
    pd.DataFrame({"x": [1]}).to_parquet(run / "turns.parquet")
    assert main(words) == 2
    (run / "turns.parquet").write_bytes(turns)
    (run / "llm_calls.jsonl").write_text("{}\n")
    assert main(["simulate", "--estimate", "--log", "faulty", "-p", "systems", "ollama:x"]) == 2
    (run / "llm_calls.jsonl").unlink()
    (run / ".lock").write_text("garbage " * 200)
    assert main(["simulate", "-p", "run", "faulty", "-p", "systems", "oracle"]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown and "its file .lock" in shown
    (run / ".lock").unlink()


def started(words, *, limit=None, flags=(), **streams):
    """A command in a process of its own, with so many file handles."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    few = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) if limit else None
    return subprocess.run(
        [sys.executable, *flags, "-m", "crs_lib", *words], env=env, preexec_fn=few, text=True,
        stderr=subprocess.PIPE, timeout=120, check=False, **streams,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("limit", [12, 16, 24])
def test_with_few_file_handles_nothing_is_called_damaged(limit):
    run = paths.run_folder("movies", scored("handles", systems=("oracle",), n_sessions=2, n_turns=4))
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file() and path.name != ".lock"}
    done = started(
        ["validity", "annotate", "--run", "handles", "--n", "2"], limit=limit, stdout=subprocess.DEVNULL
    )
    assert not [word for word in ("damaged", "remove", "Move it away") if word in done.stderr], done.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.subprocess
def test_closed_and_full_outputs_and_no_docstrings(tmp_path):
    words = ["catalog", "export", "--out"]
    closed = started([*words, str(tmp_path / "a.jsonl")], flags=["-OO"], stdout=None, close_fds=True)
    assert closed.returncode == 0 and (tmp_path / "a.jsonl").stat().st_size > 1_000
    shell = f'"{sys.executable}" -m crs_lib {" ".join(words)} "{tmp_path}/b.jsonl" >&-'
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    done = subprocess.run(
        ["sh", "-c", shell], env=env, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "b.jsonl").stat().st_size > 1_000
    with open("/dev/full", "w") as full:
        told = started([*words, str(tmp_path / "c.jsonl")], stdout=full)
    assert told.returncode == 2 and "RunError: No space left on device" in told.stderr
    assert "Traceback" not in told.stderr
