"""No command writes over what it reads, no failed one takes an earlier result, no damaged file is read."""

import json

import pandas as pd
import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.__main__ import main
from crs_lib.core import tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.notebooks import sweeps

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
    assert main(["score", "--logs", str(log), "--catalog", "sample", "--out", str(tmp_path)]) == 2
    assert main(["logs", str(log), "--quirks", str(tmp_path / "link")]) == 2
    assert capsys.readouterr().err.count("give another output") == 2
    assert log.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == [
        "link",
        "results.jsonl",
    ]


def test_an_empty_log_takes_nothing_from_an_earlier_result(tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_text(json.dumps(TALK) + "\n")
    words = ["score", "--logs", str(log), "--catalog", "sample", "--out", str(out)]
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
        with pytest.raises(
            RunError, match=r"dialogues.jsonl of run 'r' is not as it was .* run 03_simulate -p run r"
        ):
            evaluate.evaluate(evaluate.EvaluateConfig(run="r"))
        assert main(["judge", "r", "--judges", "template"]) == 2
    simulate.simulate(config, progress=False)
    assert path.read_bytes() == whole
    for damaged in ("[]", "null", '{"stages": []}', '{"stages": {"simulate": 3}}', "\x00", "[" * 9_000):
        path.with_name("manifest.json").write_text(damaged)
        with pytest.raises(RunError, match=r"manifest\.json is damaged"):
            runs.read_manifest("movies", "r")


def test_a_sweep_without_end_is_refused_with_its_limit(tmp_path):
    path = tmp_path / "s.yaml"
    grid = f"grid: {{seed: {list(range(300))}, n_turns: {list(range(1, 300))}}}"
    for run, cells, says in [
        (
            "x-{seed}-{n_turns}",
            grid,
            "89,700, the limit is 10,000 runs of one sweep; raise it with CRS_MOST_SWEEP_CELLS",
        ),
        ("x-{seed:99999999}", "grid: {seed: [1]}", "names of parameters alone"),
    ]:
        path.write_text(f'notebooks: [03_simulate]\nrun: "{run}"\n{cells}\n')
        with pytest.raises(InputError, match=says):
            sweeps.read(path)
