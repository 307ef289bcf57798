"""Batches: what comes out, and every bad input refused with nothing written over."""

import contextlib
import hashlib
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
from tests.helpers import refused, table
from tests.helpers.sample import simulated

SMALL = {"run": "r", "systems": ["tracker", "echo"], "n_sessions": 2, "n_turns": 6, "seed": 3, "voices": "A"}
GENRES = ("Drama", "Comedy", "War")
LANGUAGES = ("English", "French", "Polish")


def film(number):
    """The record of an invented film."""
    return {
        "year": str(1980 + number % 20),
        "genre": [GENRES[number % 3]],
        "actor": [f"Ada Quill{number % 5}", f"Ben Orr{number % 7}"],
        "director": [f"Zoe Tarn{number % 4}"],
        "writer": [f"Mo Reed{number % 6}"],
        "language": [LANGUAGES[number % 2]],
        "plot": "Things happen.",
    }


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path / "movies"


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "films.json"
    records = {f"Invented Film {number}": film(number) for number in range(40)}
    path.write_text(json.dumps(records))
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
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(skip)}


def test_a_batch_is_every_system_with_every_user_in_order(results, films, do):
    folder = do()
    assert folder == results / "r"
    talks = [(talk.model_name, talk.session_id) for talk in simulate.dialogues("r")]
    assert talks == [("tracker", "00000"), ("tracker", "00001"), ("echo", "00000"), ("echo", "00001")]
    assert {"catalog.parquet", "dialogues.jsonl", "ledger.sqlite"} <= set(everything(folder))
    entry = runs.Run("movies", "r").finished("simulate", "03_simulate")
    assert entry["counts"] == {"sessions": 4, "systems": 2, "done": 4}
    assert entry["inputs"] == {"catalog": sources.content_hash(sources.load(films))}
    assert entry["outputs"]["dialogues.jsonl"] == tables.sha256(folder / "dialogues.jsonl")


def test_a_dialogue_is_written_in_the_thesis_s_form(do, world):
    with (do() / "dialogues.jsonl").open() as file:
        record = json.loads(file.readline())
    assert list(record)[:5] == ["session_id", "model_name", "true_genre", "conversation", "shift_events"]
    assert record["seed"] == 3
    assert record["arm"] == "shift"
    assert Dialogue.from_json(record).to_json() == record
    turns = record["conversation"]
    assert [turn["speaker"] for turn in turns] == ["USER", "SYSTEM"] * 6
    titles = {item.item_id: item.title for item in world.catalog.items}
    for user, system in zip(turns[0::2], turns[1::2], strict=True):
        assert {"text", "user_meta"} <= set(user)
        assert {"text", "constraints", "rec_titles"} <= set(system)
        assert [titles[item] for item in system["rec_ids"]] == system["rec_titles"]


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


@pytest.mark.parametrize(("change", "message"), table(__file__, "refused_settings"))
def test_a_bad_setting_is_refused_before_anything_is_written(results, change, message, do):
    refused(message, do, **change)
    assert not results.exists()


@pytest.mark.parametrize("body", ["no JSON", "[" * 100_000, '{"conversation": [1]}', "null"], ids=range(4))
def test_a_body_that_is_no_dialogue_is_not_exported_whatever_its_hash(do, body):
    folder = do()
    packed = pack(body)
    change = "UPDATE sessions SET body = ?, hash = ? WHERE system = 'echo' AND session = 1"
    with contextlib.closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(change, (packed, hashlib.sha256(packed).hexdigest()))
    refused("session 1 of 'echo' in the ledger is no dialogue", do, error=RunError)


def test_a_cluster_that_is_gone_is_told_and_not_that_its_logs_are(results, monkeypatch):
    monkeypatch.setattr(jobs, "sessions", Mock(side_effect=RunError("the scheduler went away")))
    monkeypatch.setattr(dask, "on_every_machine", Mock(side_effect=OSError("no logs to be had")))
    with pytest.raises(RunError, match="the scheduler went away") as caught:
        simulated(run="far", systems=["template"], n_sessions=1, n_turns=2, scheduler="tcp://127.0.0.1:1")
    assert caught.value.__notes__ == ["after it: OSError: no logs to be had"]


@pytest.mark.parametrize(("name", "value"), table(__file__, "settings"))
def test_every_setting_of_the_user_is_in_the_manifest_and_changes_the_dialogues(do, name, value):
    batch = {"n_turns": 12, "systems": ["echo", "random"]}
    plain = do(run="plain", **batch)
    folder = do(run="other", **batch, **{name: value})
    parameters = runs.Run("movies", "other").entry("simulate")["parameters"]
    if name == "rates":
        value = value | {"contradiction": 0.05}
    assert parameters[name] == value
    assert (folder / "dialogues.jsonl").read_bytes() != (plain / "dialogues.jsonl").read_bytes()


def thesis(number, model="alpha", replies=("Try Kites.", "Try Orchards.")):
    """A session in the thesis's older form."""
    turns = []
    for reply in replies:
        turns.append({"speaker": "USER", "text": "A comedy, please."})
        turns.append({"speaker": "SYSTEM", "text": reply})
    return {"session_id": number, "model_name": model, "conversation": turns}


@pytest.fixture
def logs(tmp_path):
    """An empty folder of logs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def imported(logs, **settings):
    return simulate.import_logs(simulate.ImportConfig(logs=str(logs), **settings))


def lines(path, *records):
    """Write a log, a record a line; a text is a line as it is."""
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(texts) + "\n")


def sessions_of(run):
    """The system and id of each session of a run."""
    return [(talk.model_name, talk.session_id) for talk in simulate.iter_dialogues(run)]


@pytest.mark.slow
@pytest.mark.subprocess
def test_mixed_forms_become_one_run_that_is_scored(logs, capsys):
    lines(logs / "a.jsonl", thesis(0), "{broken", thesis(1), {"what": 1})
    lines(logs / "b.jsonl", *table(__file__, "log_forms"))
    assert main(["import", "--logs", str(logs), "--run", "mixed"]) == 0
    printed = capsys.readouterr().out
    assert "2 conversations could not be read" in printed
    assert "skipped.csv" in printed
    assert re.search(r"a\.jsonl, line 2 .*not JSON", printed)
    assert sorted(sessions_of("mixed")) == sorted(map(tuple, table(__file__, "sessions_of_forms")))
    skipped = pd.read_csv(simulate.run_folder("mixed") / "skipped.csv")
    assert list(skipped["place"]) == ["a.jsonl, line 2", "a.jsonl, line 4"]
    counts = runs.Run("movies", "mixed").entry("simulate")["counts"]
    assert counts["sessions"] == 8
    assert counts["systems"] == 6
    assert counts["skipped"] == 2
    evaluate.evaluate(evaluate.EvaluateConfig(run="mixed"))
    results = evaluate.read("mixed", "results")
    assert len(results) == 8
    assert results["item_recovery_rate"].isna().all()  # no log tells of a shift: undefined, not 0
    assert main(["trace", "--run", "mixed"]) == 0  # the session without a reply has no scored turn


@pytest.mark.slow
def test_a_strict_import_stops_at_the_first_fault(logs):
    lines(logs / "a.jsonl", thesis(0), "{broken")
    refused(r"a\.jsonl, line 2: not JSON", imported, logs, run="strict", strict=True)
    assert len(imported(logs, run="strict").skipped) == 1  # the failed one is in no way


@pytest.mark.slow
def test_logs_without_a_usable_conversation_are_refused(logs):
    lines(logs / "a.jsonl", "{broken")
    refused(r"no conversation of .* can be read; the first: a\.jsonl, line 1", imported, logs, run="r")


@pytest.mark.slow
def test_other_logs_need_another_run(logs):
    lines(logs / "a.jsonl", thesis(0))
    imported(logs, run="r")
    imported(logs, run="r")
    lines(logs / "a.jsonl", thesis(1))
    refused("made with other parameters", imported, logs, error=RunError, run="r")


def test_models_of_one_name_are_two_systems(logs):
    lines(logs / "first.jsonl", thesis(0), thesis(1))
    lines(logs / "second.jsonl", thesis(0), thesis(1), thesis(1))
    account = imported(logs, run="twice")
    assert account.systems[["system", "sessions"]].to_numpy().tolist() == [
        ["alpha", 2],
        ["alpha (second)", 2],
    ]
    assert "was already read" in account.skipped["reason"].iloc[0]


def test_a_session_without_a_name_is_named_by_its_place(logs):
    bare = {"conversation": thesis(0)["conversation"]}
    lines(logs / "a.jsonl", bare, bare)
    imported(logs / "a.jsonl", run="bare", system="mine")
    assert sessions_of("bare") == [("mine", "00000"), ("mine", "00001")]


def test_systems_come_in_the_order_asked_for(logs):
    lines(logs / "all.jsonl", thesis(0), "{broken", thesis(0, "beta"), thesis(1), thesis(0, "gamma:2b"))
    assert len(imported(logs, run="ordered", order="gamma:2b, beta").skipped) == 1
    names = [system for system, _ in sessions_of("ordered")]
    assert names == ["gamma:2b", "beta", "alpha", "alpha"]
    refused(r"order names 'betta'.*did you mean 'beta'", imported, logs, run="misspelt", order="betta")


def test_a_system_without_a_usable_session_is_told(logs, capsys):
    lines(logs / "a.jsonl", thesis(0), thesis(1))
    lines(logs / "b.jsonl", thesis(0, "beta", replies=()), thesis(1, "beta", replies=()))
    assert main(["import", "--logs", str(logs), "--run", "half"]) == 0
    assert "no usable session: beta" in capsys.readouterr().out
    assert {system for system, _ in sessions_of("half")} == {"alpha"}
    mute = thesis(0, "mute")
    del mute["conversation"][1:]
    lines(logs / "c.jsonl", mute)
    assert main(["import", "--logs", str(logs), "--run", "mute"]) == 0
    assert "no usable session: mute" in capsys.readouterr().out


def test_a_catalogue_that_lacks_most_titles_is_refused(logs, capsys):
    record = thesis(0)
    for turn in record["conversation"][1::2]:
        turn["rec_titles"] = ["No Film of Ours", "Nor This One"]
    lines(logs / "a.jsonl", record)
    assert main(["import", "--logs", str(logs / "a.jsonl"), "--run", "foreign"]) == 2
    refusal = capsys.readouterr().err
    assert "titles that replies list: 0 of 2 match" in refusal
    assert "'No Film of Ours' (nearest: " in refusal
    assert "--catalog FILE" in refusal


def first_words(logs, alpha, beta):
    """Logs of two systems with eight sessions; the users' first words are patterns for the number."""
    records = []
    for number in range(8):
        for model, words in (("alpha", alpha), ("beta", beta)):
            record = thesis(number, model)
            record["conversation"][0]["text"] = words(number)
            records.append(record)
    lines(logs / "logs.jsonl", *records)


def test_systems_with_other_users_are_told_apart(logs):
    first_words(logs, "A comedy, {}.".format, "A drama, {}.".format)
    imported(logs, run="apart")
    sessions = {session for _, session in sessions_of("apart")}
    assert len(sessions) == 16
    assert "alpha:00003" in sessions
    assert runs.Run("movies", "apart").entry("simulate")["counts"]["users"] == "different for each system"


def test_systems_that_met_the_same_users_are_paired(logs):
    first_words(logs, "Number {}.".format, "number {}".format)
    imported(logs, run="paired")
    assert len({session for _, session in sessions_of("paired")}) == 8
    assert "users" not in runs.Run("movies", "paired").entry("simulate")["counts"]


def test_a_mixture_of_same_and_other_users_is_refused(logs):
    first_words(logs, "Number {}.".format, lambda number: f"Number {number % 4}.")
    refused(r"mixed: of 8 pairs.*4 have the same user and 4 do not", imported, logs, run="half")


def test_logged_constraints_decide_where_words_differ():
    alike = {"a": '{"genre": "drama"}', "b": '{"genre": "drama"}'}
    assert same_users([alike] * 10)
    assert not same_users([{"a": "x", "b": "y"}] * 10)
    record = thesis(1)
    record["conversation"][0]["user_meta"] = {"constraints": {"genre": "drama"}}
    assert user_of(Dialogue.from_json(record)) == '{"genre": "drama"}'
