"""No command writes over what it reads, no failed one takes an earlier result, no damaged file is read."""

import itertools
import json
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest

from crs_lib import catalog, evaluate, judge, llm, runs, simulate
from crs_lib.__main__ import main
from crs_lib.core import tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.notebooks import sweeps
from crs_lib.runs.ledger import Ledger
from tests.helpers import llm_job

TALK = {
    "session_id": "1", "model_name": "m", "true_genre": "Drama", "shift_events": [],
    "conversation": [{"speaker": "USER", "text": "a drama"}, {"speaker": "SYSTEM", "text": "yes", "rec_titles": []}],
}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(TALK) + "\n")
    return path


def test_an_output_that_is_an_input_is_refused_before_anything_is_opened(log, tmp_path, capsys):
    before = log.read_bytes()
    (tmp_path / "link").symlink_to(log)
    assert main(["data", "score", "--logs", str(log), "--catalog", "sample", "--out", str(tmp_path)]) == 2
    assert main(["data", "import", str(log), "--quirks", str(tmp_path / "link")]) == 2
    assert capsys.readouterr().err.count("give another output") == 2
    assert log.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == [
        "link",
        "results.jsonl",
    ]


@pytest.mark.slow
def test_an_empty_log_takes_nothing_from_an_earlier_result(tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_text(json.dumps(TALK) + "\n")
    words = ["data", "score", "--logs", str(log), "--catalog", "sample", "--out", str(out)]
    assert main(words) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    log.write_text("\n")
    assert main(words) == 2
    assert "there is no dialogue to score" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_files_that_belong_together_take_their_names_together(tmp_path):
    tables.write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(InputError, match="nothing to write"), tables.together():
        tables.write_json(tmp_path / "a.json", {"new": 1})
        tables.write_parquet(tmp_path / "b.parquet", iter([]))
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    with tables.together():
        tables.write_json(tmp_path / "a.json", {"new": 1})
        tables.write_parquet(tmp_path / "b.parquet", pd.DataFrame({"x": [1]}))
        assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.parquet"]


@pytest.mark.slow
def test_dialogues_that_were_cut_or_doubled_are_neither_scored_nor_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    config = simulate.SimulateConfig(run="r", systems=["oracle"], n_sessions=2, n_turns=3)
    path = simulate.simulate(config, progress=False) / "dialogues.jsonl"
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole + whole, b""):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"dialogues.jsonl of run 'r' is not as it .*03_simulate -p run r"):
            evaluate.evaluate(evaluate.EvaluateConfig(run="r"))
        assert main(["judge", "r", "--judges", "template"]) == 2
    simulate.simulate(config, progress=False)
    assert path.read_bytes() == whole
    for damaged in ("[]", "null", '{"stages": []}', '{"stages": {"simulate": 3}}', "\x00", "[" * 9_000):
        path.with_name("manifest.json").write_text(damaged)
        with pytest.raises(RunError, match=r"manifest\.json is damaged"):
            runs.read_manifest("movies", "r")


FILM = {"year": "1999", "genre": ["Drama"], "starring": ["A B"], "plot": "A plot."}
# Words of a command, and a part of the one sentence that refuses them. Files are those of ``outside_files``.
REFUSED = [
    ("catalog topics --catalog sample --seed -1", "seed is -1; input should be greater than or equal to 0"),
    ("catalog topics --catalog sample --seed 4294967296", "seed is 4294967296; input should be less than"),
    ("simulate --scheduler nope://", "scheduler is 'nope://'"),
    ("data score --logs ~nosuchuser/x --catalog sample --out o", "'~nosuchuser/x' is no path: its user does not exist"),
    ("data score --logs a\0b --catalog sample --out o", "'a\\x00b'"),
    ("data score --logs log.jsonl --catalog ~nosuchuser/x.json --out o", "'~nosuchuser/x.json'"),
    ("data score --logs /proc/self/mem --catalog sample --out o", "mem: cannot be read (Input/output error)"),
    ("data score --logs log.jsonl --catalog empty.parquet --out o", "empty.parquet must hold at least one film"),
    ("data score --logs log.jsonl --catalog plots.json --out o", "field 'plot' must be one text, got ['a', 'b']"),
    ("data score --logs log.jsonl --catalog names.json --out o", "field 'name' must be one text, got ['a', 'b']"),
    ("data score --logs log.jsonl --catalog titles.json --out o", "field 'title' must be one text, got {'a': 1}"),
    ("data score --logs log.jsonl --catalog by_id.json --out o", "item '1': field 'name' must be one text"),
    ("catalog topics --catalog plots.json", "plots.json, film 'F': field 'plot' must be one text"),
    ("data score --logs twice.jsonl --catalog sample --out o", "the key 'session_id' stands twice"),
    ("data score --logs events.jsonl --catalog sample --out o", "'shift_events' is [5], expected a list of objects"),
    ("data import events.jsonl", "'shift_events' is [5], expected a list of objects"),
    ("realtalk evaluate --teachers nobody", "teachers is 'nobody'; give one of realtalk, "),
    ("realtalk evaluate --compare teachers nobody realtalk", "teachers is 'nobody'; give one of realtalk, "),
    ("run 03_simulate -f keys.yaml", "'keys.yaml' must map names of parameters to values"),
    ("run 03_simulate -f code.yaml", "could not determine a constructor for the tag"),
    ("run 03_simulate -p run {seed.__class__}", "run name '{seed.__class__}' cannot be a folder"),
    ("simulate -p systems ollama:x -p llm {\"timeout\":[]}", "llm: timeout is []; input should be a valid number"),
    ("simulate -p systems ollama:x -p llm {\"timeout\":1e400}", "'llm' is {'timeout': inf}"),
    ("simulate -p systems ollama:x -p llm {\"host\":5}", "llm: host is 5; input should be a valid string"),
    ("simulate -p systems ollama:x -p llm {\"host\":\"\\u0000\"}", "address cannot be read"),
    ("simulate -p systems ollama:x -p llm {\"host\":\"http://h:99999\"}", "address cannot be read"),
    ("simulate -p systems hybrid:x.npz", "unknown encoder 'x.npz'"),
]  # fmt: skip


@pytest.fixture
def outside_files(tmp_path, monkeypatch):
    """Files that are wrong, in the folder where the command is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    Path("log.jsonl").write_text(json.dumps(TALK) + "\n")
    Path("twice.jsonl").write_text(json.dumps(TALK)[:-1] + ', "session_id": "2"}\n')
    Path("events.jsonl").write_text(json.dumps(TALK | {"shift_events": [5]}) + "\n")
    for name, record in [("plots", {"plot": ["a", "b"]}), ("names", {"name": ["a", "b"]}), ("titles", {"title": {"a": 1}})]:  # fmt: skip
        Path(f"{name}.json").write_text(json.dumps({"F": FILM | record, "G": FILM}))
    Path("by_id.json").write_text(json.dumps({"1": {"name": ["a"], "star": ["A"]}}))
    catalog.load("sample").save(Path("empty.parquet"))
    pd.read_parquet("empty.parquet").iloc[:0].to_parquet("empty.parquet")
    Path("keys.yaml").write_text("1: 2\n")
    Path("code.yaml").write_text("run: !!python/object/apply:os.system [touch was_run]\n")


@pytest.mark.usefixtures("outside_files")
def test_what_is_wrong_is_refused_in_one_sentence(capsys):
    """One after the other in one process: no case takes more than a moment."""
    for words, says in REFUSED:
        assert main(words.split(" ")) == 2, words
        shown = capsys.readouterr().err
        message = shown.strip().split("\n  - ")  # a run that cannot start lists what is missing
        assert says in shown and all("\n" not in line for line in message), shown
        assert "Traceback" not in shown and len(shown) < 1_200
    assert not Path("was_run").exists() and not list(Path("o").glob("*"))  # nothing ran, nothing was written


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_whose_folder_is_removed_says_so_at_the_next_session_and_begins_anew(
    tmp_path, monkeypatch, replaced
):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    config = simulate.SimulateConfig(run="r", systems=["echo"], n_sessions=25, n_turns=2)
    recorded, record = [], Ledger.record

    def remove(ledger, batch):
        record(ledger, batch)
        recorded.append(len(batch))
        if len(recorded) == 1:
            shutil.rmtree(ledger.path.parent)
            if replaced:
                ledger.path.parent.mkdir()
                ledger.path.write_bytes(b"")

    monkeypatch.setattr(Ledger, "record", remove)
    with pytest.raises(RunError, match=r"ledger.sqlite was removed or replaced; put the folder back"):
        simulate.simulate(config, progress=False)
    assert recorded == [10]  # the first chunk alone was made in vain
    if replaced:
        (tmp_path / "movies" / "r" / "ledger.sqlite").unlink()
    assert len((simulate.simulate(config, progress=False) / "dialogues.jsonl").read_text().splitlines()) == 25


def test_a_clock_that_goes_backwards_changes_no_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    clock = itertools.count(2_000_000_000, -3_600)

    def made(run):
        config = simulate.SimulateConfig(
            run=run, catalog=llm_job.catalogue(tmp_path), systems=["template"], n_sessions=1, n_turns=3,
            user_llm="template",
        )  # fmt: skip
        folder = simulate.simulate(config, progress=False)
        judge.judge_run(run, ["template"], progress=False)
        evaluate.evaluate(evaluate.EvaluateConfig(run=run))
        return [
            (folder / name).read_bytes()
            for name in ("dialogues.jsonl", "judge_scores.jsonl", "results.jsonl")
        ]

    forwards = made("forwards")
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    assert made("backwards") == forwards
    calls = llm.usage(tables.read_jsonl(tmp_path / "movies" / "backwards" / "llm_calls.jsonl"))
    assert calls["failed"].sum() == 0 and (calls["seconds"] >= 0).all()


def test_a_sweep_without_end_is_refused_with_its_limit(tmp_path):
    path = tmp_path / "s.yaml"
    grid = f"grid: {{seed: {list(range(300))}, n_turns: {list(range(1, 300))}}}"
    for run, cells, says in [
        (
            "x-{seed}-{n_turns}",
            grid,
            "89,700, the limit is 10,000 runs of one sweep; raise it with CRS_MOST_SWEEP_CELLS",
        ),
        ("x-{seed:99999999}", "grid: {seed: [1]}", "cannot be a folder"),
    ]:
        path.write_text(f'notebooks: [03_simulate]\nrun: "{run}"\n{cells}\n')
        with pytest.raises(InputError, match=says):
            sweeps.read(path)
