"""Batches: what comes out, and every bad input refused with nothing written over."""

import hashlib
import itertools
import json
import re
import sqlite3
from unittest.mock import Mock

import pandas as pd
import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.runs import dask, jobs
from crs_lib.runs.ledger import pack
from crs_lib.simulate.logged import same_users, user_of
from crs_lib.systems.base import World
from tests.helpers import refused
from tests.helpers.sample import simulated

SMALL = {"run": "r", "systems": ["tracker", "echo"], "n_sessions": 2, "n_turns": 6, "seed": 3, "voices": "A"}
GENRES, SPOKEN = ("Drama", "Comedy", "War"), ("English", "French", "Polish")
FILMS = {
    f"Invented Film {i}": {
        "year": str(1980 + i % 20), "genre": [GENRES[i % 3]], "actor": [f"Ada Quill{i % 5}", f"Ben Orr{i % 7}"],
        "director": [f"Zoe Tarn{i % 4}"], "writer": [f"Mo Reed{i % 6}"], "language": [SPOKEN[i % 2]], "plot": "Things happen.",
    }
    for i in range(40)
}  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path / "movies"


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "films.json"
    path.write_text(json.dumps(FILMS))
    return path


@pytest.fixture(scope="module")
def world(films):
    catalog = sources.load(films)
    return World(catalog, Grounder(catalog))


@pytest.fixture
def do(films):
    return lambda **changes: simulated(**{**SMALL, "catalog": str(films), **changes})


def everything(folder):
    """All files of a folder but the manifest, which tells of the refusal, and the data base's own two."""
    skip = ("manifest.json", ".lock", "-wal", "-shm")
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(skip)}


def test_a_batch_is_every_system_with_every_user_in_order_in_the_thesis_s_form(results, films, do, world):
    folder = do()
    assert folder == results / "r"
    wanted = [(system, f"{n:05d}") for system in ("tracker", "echo") for n in range(2)]
    assert [(d.model_name, d.session_id) for d in simulate.dialogues("r")] == wanted
    assert {"catalog.parquet", "dialogues.jsonl", "ledger.sqlite"} <= set(everything(folder))
    entry = runs.Run("movies", "r").finished("simulate", "03_simulate")
    assert entry["counts"] == {"sessions": 4, "systems": 2, "done": 4}
    assert entry["inputs"] == {"catalog": sources.content_hash(sources.load(films))}
    assert entry["outputs"]["dialogues.jsonl"] == tables.sha256(folder / "dialogues.jsonl")
    record = json.loads((folder / "dialogues.jsonl").read_text().splitlines()[0])
    assert list(record)[:5] == ["session_id", "model_name", "true_genre", "conversation", "shift_events"]
    users, systems = record["conversation"][0::2], record["conversation"][1::2]
    assert [turn["speaker"] for turn in record["conversation"]] == ["USER", "SYSTEM"] * 6
    assert all({"text", "user_meta"} <= set(turn) for turn in users)
    assert all({"text", "constraints", "rec_titles"} <= set(turn) for turn in systems)
    assert (record["seed"], record["arm"]) == (3, "shift")
    by_id = {item.item_id: item.title for item in world.catalog.items}
    assert all([by_id[i] for i in turn["rec_ids"]] == turn["rec_titles"] for turn in systems)
    assert Dialogue.from_json(record).to_json() == record


def test_a_session_depends_on_its_own_address_only(world):
    config = simulate.SimulateConfig(**SMALL)
    alone = simulate.session(world, "tracker", 1, config).dumps()
    for other in ("random", "oracle"):
        simulate.session(world, other, 0, config)
    assert simulate.session(world, "tracker", 1, config).dumps() == alone
    plan = simulate.scenario(world, 1, config)
    assert simulate.session(world, "tracker", 1, config, plan).dumps() == alone
    assert simulate.session(world, "tracker", 1, config.changed(seed=4)).dumps() != alone


@pytest.mark.subprocess
def test_started_again_or_with_more_workers_it_makes_the_same_bytes(results, do):
    before = everything(do(n_sessions=4))
    assert everything(do(n_sessions=4)) == before
    two = everything(do(run="two", n_sessions=4, workers=2))
    assert two["dialogues.jsonl"] == before["dialogues.jsonl"]


@pytest.mark.parametrize(("change", "message"), [
    *(({name: 0}, f"{name} is 0; input should be greater than or equal to 1")
      for name in ("n_sessions", "n_turns", "workers")),
    ({"seed": -1}, "seed -1 is not usable; give a whole number >= 0"),
    ({"systems": ["trackr"]}, r"unknown policy 'trackr'; did you mean 'tracker'\?"),
    ({"arms": ["both"]}, r"arms is \['both'\]; each must be one of shift, straight, fresh"),
    ({"arms": ["fresh", "shift"]}, r"arms is \['fresh', 'shift'\]; give each arm once, shift or none first"),
    ({"shift_types": []}, r"shift_types is \[\]; give a list"),
    ({"shift_typs": ["switch"]}, r"unknown setting 'shift_typs'; did you mean 'shift_types'\?"),
    ({"shift_first": [6, 4]}, r"shift_first is \[6, 4\]; give two whole numbers, the least \(from 2\)"),
    ({"shift_gap": [3]}, r"shift_gap is \[3\]; give two whole numbers, the least \(from 1\)"),
    ({"rates": {"hesitaton": 0.2}}, r"rates: unknown setting 'hesitaton'; did you mean 'hesitation'\?"),
    ({"rates": {"question": 2}}, r"rates: question is 2; input should be less than or equal to 1"),
    ({"insist": "no"}, "insist is 'no'; input should be a valid boolean"),
    ({"shift_types": ["swich"]}, r"unknown shift type 'swich'; did you mean 'switch'\?"),
    ({"run": "../away"}, "run name '../away' cannot be a folder"),
    ({"catalog": "nowhere.json"}, "no catalogue at 'nowhere.json'; give 'sample'"),
])  # fmt: skip
def test_a_bad_setting_is_refused_before_anything_is_written(results, change, message, do):
    refused(message, do, **change)
    assert not results.exists()


def test_a_body_that_is_no_dialogue_is_not_exported_whatever_its_hash(results, do):
    folder = do()
    for body in ("no JSON", "[" * 100_000, '{"conversation": [1]}', "null"):
        kept = pack(body)
        change = "UPDATE sessions SET body = ?, hash = ? WHERE system = 'echo' AND session = 1"
        with sqlite3.connect(folder / "ledger.sqlite") as db:
            db.execute(change, (kept, hashlib.sha256(kept).hexdigest()))
        db.close()
        refused("session 1 of 'echo' in the ledger is no dialogue", do, error=RunError)


def test_a_cluster_that_is_gone_is_told_and_not_that_its_logs_are(results, monkeypatch):
    monkeypatch.setattr(jobs, "sessions", Mock(side_effect=RunError("the scheduler went away")))
    monkeypatch.setattr(dask, "on_every_machine", Mock(side_effect=OSError("no logs to be had")))
    with pytest.raises(RunError, match="the scheduler went away") as caught:
        simulated(run="far", systems=["template"], n_sessions=1, n_turns=2, scheduler="tcp://127.0.0.1:1")
    assert caught.value.__notes__ == ["after it: OSError: no logs to be had"]


def test_every_knob_of_the_user_is_in_the_manifest_and_changes_the_dialogues(results, do):
    two = {"n_turns": 12, "systems": ["echo", "random"]}
    plain = (do(run="plain", **two) / "dialogues.jsonl").read_bytes()
    knobs = {
        "shift_first": [3, 3], "shift_gap": [2, 2], "shift_types": ["replace", "switch"],
        "rates": {"hesitation": 0.5, "question": 0}, "insist": False, "voices": "quoting",
    }  # fmt: skip
    for name, value in knobs.items():
        folder = do(run=f"with-{name}", **two, **{name: value})
        kept = runs.Run("movies", f"with-{name}").manifest()["stages"]["simulate"]["parameters"][name]
        assert kept == (value | {"contradiction": 0.05} if name == "rates" else value)
        assert (folder / "dialogues.jsonl").read_bytes() != plain


def thesis(number, model="alpha", replies=("Try Kites.", "Try Orchards.")):
    """A session in the thesis's older form."""
    said = [text for reply in replies for text in ("A comedy, please.", reply)]
    turns = [{"speaker": ("USER", "SYSTEM")[place % 2], "text": text} for place, text in enumerate(said)]
    return {"session_id": number, "model_name": model, "conversation": turns}


KIT = {
    "conversation_id": "kit-1", "agent": {"id": "kit"},
    "conversation": [
        {"participant": "AGENT", "utterance": "Hello."}, {"participant": "USER", "utterance": "A comedy."},
        {"participant": "AGENT", "utterance": "Kites."},
    ],
}  # fmt: skip
TWO = [{"role": "USER", "utterance": "Hi"}, {"role": "ASST", "utterance": "Kites."}]
ARENA = {"conv_id": "arena_7", "dialogue": TWO}
CONCEPT = {
    "system": "barcor", "file": "9_1.json", "target": ["Kites"],
    "turns": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Kites.", "rec_items": [3, 1]},
    ],
}  # fmt: skip
IEVALM = {
    "conv_id": "77_1",
    "simulator_dialog": {"context": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Kites."}]},
}  # fmt: skip
SIMULATED = {
    "system": "moviebot", "users": "abus", "index": 4,
    "turns": [{"participant": "USER", "utterance": "Hi"}, {"participant": "AGENT", "utterance": "Kites."}],
}  # fmt: skip

# The user closes the talk: there is no reply to score.
SILENT = SIMULATED | {"index": 5, "turns": SIMULATED["turns"][::-1]}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def imported(logs, **settings):
    return simulate.import_logs(simulate.ImportConfig(logs=str(logs), **settings))


def lines(path, *records):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))


@pytest.mark.slow
@pytest.mark.subprocess
def test_mixed_forms_become_one_run_that_is_scored(place, capsys):
    lines(place / "a.jsonl", thesis(0), "{broken", thesis(1), {"what": 1})
    lines(place / "b.jsonl", KIT, ARENA, CONCEPT, IEVALM, SIMULATED, SILENT)
    assert main(["import", "--logs", str(place), "--run", "mixed"]) == 0
    out = capsys.readouterr().out
    assert "2 conversations could not be read" in out and "skipped.csv" in out
    assert re.search(r"a\.jsonl, line 2 .*not JSON", out)
    sessions = {(d.model_name, d.session_id) for d in simulate.iter_dialogues("mixed")}
    assert sessions == {
        ("alpha", "00000"), ("alpha", "00001"), ("kit", "kit-1"), ("arena", "arena_7"), ("barcor", "9_1"),
        ("unnamed", "77_1"), ("moviebot", "abus-4"), ("moviebot", "abus-5"),
    }  # fmt: skip
    skipped = pd.read_csv(simulate.run_folder("mixed") / "skipped.csv")
    assert list(skipped["place"]) == ["a.jsonl, line 2", "a.jsonl, line 4"]
    counts = runs.Run("movies", "mixed").manifest()["stages"]["simulate"]["counts"]
    assert (counts["sessions"], counts["systems"], counts["skipped"]) == (8, 6, 2)
    evaluate.evaluate(evaluate.EvaluateConfig(run="mixed"))
    results = evaluate.read("mixed", "results")
    assert len(results) == 8
    assert results["item_recovery_rate"].isna().all()  # no log tells of a shift: undefined, not 0
    assert main(["trace", "--run", "mixed"]) == 0  # the session without a reply has no scored turn


@pytest.mark.slow
def test_strict_stops_at_once_nothing_usable_is_an_error_and_other_logs_need_another_run(place):
    lines(place / "a.jsonl", thesis(0), "{broken")
    refused(r"a\.jsonl, line 2: not JSON", imported, place, run="strict", strict=True)
    assert len(imported(place, run="strict").skipped) == 1  # the failed one is in no way
    lines(place / "a.jsonl", "{broken")
    refused(r"no conversation of .* can be read; the first: a\.jsonl, line 1", imported, place, run="r")
    lines(place / "a.jsonl", thesis(0))
    imported(place, run="r")
    imported(place, run="r")
    lines(place / "a.jsonl", thesis(1))
    refused("made with other parameters", imported, place, error=RunError, run="r")


def test_models_of_one_name_are_two_systems_and_bare_sessions_take_their_place(place):
    lines(place / "first.jsonl", thesis(0), thesis(1))
    lines(place / "second.jsonl", thesis(0), thesis(1), thesis(1))
    found = imported(place, run="twice")
    assert found.systems[["system", "sessions"]].to_numpy().tolist() == [["alpha", 2], ["alpha (second)", 2]]
    assert "was already read" in found.skipped["reason"].iloc[0]
    bare = {"conversation": thesis(0)["conversation"]}
    lines(place / "a.jsonl", bare, bare)
    imported(place / "a.jsonl", run="bare", system="mine")
    talks = [(d.model_name, d.session_id) for d in simulate.iter_dialogues("bare")]
    assert talks == [("mine", "00000"), ("mine", "00001")]


def test_systems_come_in_the_order_asked_for(place):
    lines(place / "all.jsonl", thesis(0), "{broken", thesis(0, "beta"), thesis(1), thesis(0, "gamma:2b"))
    assert len(imported(place, run="ordered", order="gamma:2b, beta").skipped) == 1
    names = [talk.model_name for talk in simulate.iter_dialogues("ordered")]
    assert names == ["gamma:2b", "beta", "alpha", "alpha"]
    refused(r"order names 'betta'.*did you mean 'beta'", imported, place, run="misspelt", order="betta")


def test_a_model_without_a_usable_session_and_a_catalogue_that_lacks_most_titles_are_said(place, capsys):
    lines(place / "a.jsonl", thesis(0), thesis(1))
    lines(place / "b.jsonl", thesis(0, "beta", replies=()), thesis(1, "beta", replies=()))
    assert main(["import", "--logs", str(place), "--run", "half"]) == 0
    lines(place / "c.jsonl", {**thesis(0, "mute"), "conversation": thesis(0)["conversation"][:1]})
    assert main(["import", "--logs", str(place), "--run", "mute"]) == 0
    out = capsys.readouterr().out
    assert "no usable session: beta" in out and "no usable session: mute" in out
    assert {d.model_name for d in simulate.iter_dialogues("half")} == {"alpha"}
    record = thesis(0)
    for turn in record["conversation"][1::2]:
        turn["rec_titles"] = ["No Film of Ours", "Nor This One"]
    lines(place / "a.jsonl", record)
    assert main(["import", "--logs", str(place / "a.jsonl"), "--run", "foreign"]) == 2
    refusal = capsys.readouterr().err
    assert "titles that replies list: 0 of 2 match" in refusal
    assert "'No Film of Ours' (nearest: " in refusal
    assert "--catalog FILE" in refusal


def first_words(place, asks):
    """Logs of two systems with a session a row of ``asks``: what the user of each says first."""
    rows = [thesis(number, model) for number in range(len(asks)) for model in ("alpha", "beta")]
    for row, text in zip(rows, itertools.chain(*asks), strict=True):
        row["conversation"][0]["text"] = text
    lines(place / "logs.jsonl", *rows)


def test_systems_are_paired_where_they_met_the_same_users_and_a_mixture_is_refused(place):
    first_words(place, [(f"A comedy, {n}.", f"A drama, {n}.") for n in range(8)])
    imported(place, run="apart")
    sessions = {talk.session_id for talk in simulate.iter_dialogues("apart")}
    assert len(sessions) == 16 and "alpha:00003" in sessions
    assert runs.Run("movies", "apart").entry("simulate")["counts"]["users"] == "different for each system"
    first_words(place, [(f"Number {n}.", f"number {n}") for n in range(8)])
    imported(place, run="paired")
    assert len({talk.session_id for talk in simulate.iter_dialogues("paired")}) == 8
    assert "users" not in runs.Run("movies", "paired").entry("simulate")["counts"]
    first_words(place, [(f"Number {n}.", f"Number {n % 4}.") for n in range(8)])
    refused(r"mixed: of 8 pairs.*4 have the same user and 4 do not", imported, place, run="half")
    # logged constraints decide where words differ
    talks = [{"a": '{"genre": "drama"}', "b": '{"genre": "drama"}'}] * 10
    assert same_users(talks) and not same_users([{"a": "x", "b": "y"}] * 10)
    wish = thesis(1)
    wish["conversation"][0]["user_meta"] = {"constraints": {"genre": "drama"}}
    assert user_of(Dialogue.from_json(wish)) == '{"genre": "drama"}'
