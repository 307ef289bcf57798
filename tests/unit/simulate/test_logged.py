"""Logs as runs: every form makes a run that later stages take; what cannot be read is skipped and named."""

import json
import re

import pandas as pd
import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.__main__ import main
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.simulate.logged import same_users, user_of


def thesis(number, model="alpha", replies=("Try Kites.", "Try Orchards.")):
    """A session in the thesis's older form."""
    turns = [
        turn
        for reply in replies
        for turn in ({"speaker": "USER", "text": "A comedy, please."}, {"speaker": "SYSTEM", "text": reply})
    ]
    return {"session_id": number, "model_name": model, "conversation": turns}


KIT = {
    "conversation_id": "kit-1", "agent": {"id": "kit"},
    "conversation": [
        {"participant": "AGENT", "utterance": "Hello."}, {"participant": "USER", "utterance": "A comedy."},
        {"participant": "AGENT", "utterance": "Kites."},
    ],
}  # fmt: skip
ARENA = {
    "conv_id": "arena_7",
    "dialogue": [{"role": "USER", "utterance": "Hi"}, {"role": "ASST", "utterance": "Kites."}],
}
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
SILENT = SIMULATED | {
    "index": 5,
    "turns": [{"participant": "AGENT", "utterance": "Hello."}, {"participant": "USER", "utterance": "Bye."}],
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


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
    counts = runs.read_manifest("movies", "mixed")["stages"]["simulate"]["counts"]
    assert (counts["sessions"], counts["systems"], counts["skipped"]) == (8, 6, 2)
    evaluate.evaluate(evaluate.EvaluateConfig(run="mixed"))
    results = evaluate.read("mixed", "results")
    assert len(results) == 8
    assert results["item_recovery_rate"].isna().all()  # no log tells of a shift: undefined, not 0
    assert main(["trace", "--run", "mixed"]) == 0  # the session without a reply has no scored turn


@pytest.mark.slow
def test_strict_stops_at_the_first_conversation_that_cannot_be_read(place):
    lines(place / "a.jsonl", thesis(0), "{broken")
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: not JSON"):
        simulate.import_logs(simulate.ImportConfig(logs=str(place), run="strict", strict=True))
    found = simulate.import_logs(
        simulate.ImportConfig(logs=str(place), run="strict")
    )  # the failed one is in no way
    assert len(found.skipped) == 1


def test_models_of_one_name_are_two_systems_and_bare_sessions_take_their_place(place):
    lines(place / "first.jsonl", thesis(0), thesis(1))
    lines(place / "second.jsonl", thesis(0), thesis(1), thesis(1))
    found = simulate.import_logs(simulate.ImportConfig(logs=str(place), run="twice"))
    assert list(found.systems["system"]) == ["alpha", "alpha (second)"]
    assert list(found.systems["sessions"]) == [2, 2]
    assert "was already read" in found.skipped["reason"].iloc[0]
    bare = {"conversation": thesis(0)["conversation"]}
    lines(place / "a.jsonl", bare, bare)
    simulate.import_logs(simulate.ImportConfig(logs=str(place / "a.jsonl"), run="bare", system="mine"))
    found = [(d.model_name, d.session_id) for d in simulate.iter_dialogues("bare")]
    assert found == [("mine", "00000"), ("mine", "00001")]


def test_systems_come_in_the_order_asked_for(place):
    lines(place / "all.jsonl", thesis(0), "{broken", thesis(0, "beta"), thesis(1), thesis(0, "gamma:2b"))
    config = simulate.ImportConfig(logs=str(place), run="ordered", order="gamma:2b, beta")
    found = simulate.import_logs(config)
    assert [d.model_name for d in simulate.iter_dialogues("ordered")] == [
        "gamma:2b", "beta", "alpha", "alpha",
    ]  # fmt: skip
    assert len(found.skipped) == 1
    with pytest.raises(InputError, match=r"order names 'betta'.*did you mean 'beta'"):
        simulate.import_logs(simulate.ImportConfig(logs=str(place), run="misspelt", order="betta"))


def test_a_model_without_a_usable_session_is_said_and_the_rest_is_read(place, capsys):
    lines(place / "a.jsonl", thesis(0), thesis(1))
    lines(place / "b.jsonl", thesis(0, "beta", replies=()), thesis(1, "beta", replies=()))
    assert main(["import", "--logs", str(place), "--run", "half"]) == 0
    lines(place / "c.jsonl", {**thesis(0, "mute"), "conversation": thesis(0)["conversation"][:1]})
    assert main(["import", "--logs", str(place), "--run", "mute"]) == 0
    out = capsys.readouterr().out
    assert "no usable session: beta" in out and "no usable session: mute" in out
    assert {d.model_name for d in simulate.iter_dialogues("half")} == {"alpha"}


@pytest.mark.slow
def test_nothing_usable_is_an_error_and_other_logs_need_another_run(place):
    lines(place / "a.jsonl", "{broken")
    with pytest.raises(InputError, match=r"no conversation of .* can be read; the first: a\.jsonl, line 1"):
        simulate.import_logs(simulate.ImportConfig(logs=str(place), run="r"))
    lines(place / "a.jsonl", thesis(0))
    simulate.import_logs(simulate.ImportConfig(logs=str(place), run="r"))
    simulate.import_logs(simulate.ImportConfig(logs=str(place), run="r"))
    lines(place / "a.jsonl", thesis(1))
    with pytest.raises(RunError, match="made with other parameters"):
        simulate.import_logs(simulate.ImportConfig(logs=str(place), run="r"))


def test_a_catalogue_that_lacks_most_titles_is_said(place, capsys):
    record = thesis(0)
    for turn in record["conversation"][1::2]:
        turn["rec_titles"] = ["No Film of Ours", "Nor This One"]
    lines(place / "a.jsonl", record)
    assert main(["import", "--logs", str(place), "--run", "foreign"]) == 0
    assert "only 0 % of the titles that replies list" in capsys.readouterr().out


class TestPairing:
    """Whether systems met the same users is tested on the logs before anything is paired."""

    @staticmethod
    def logs(place, asks):
        """Two systems with a session a row of ``asks``: what the user of each says first."""
        place.mkdir()
        rows = []
        for number, said in enumerate(asks):
            for model, text in zip(("alpha", "beta"), said, strict=True):
                row = thesis(number, model)
                row["conversation"][0] = {"speaker": "USER", "text": text}
                rows.append(json.dumps(row))
        (place / "logs.jsonl").write_text("\n".join(rows) + "\n")
        return str(place)

    def test_sessions_of_different_users_share_no_scenario(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
        place = self.logs(tmp_path / "apart", [(f"A comedy, {n}.", f"A drama, {n}.") for n in range(8)])
        simulate.import_logs(simulate.ImportConfig(logs=place, run="apart"))
        sessions = {talk.session_id for talk in simulate.iter_dialogues("apart")}
        assert len(sessions) == 16 and "alpha:00003" in sessions
        assert runs.entry("movies", "apart", "simulate")["counts"]["users"] == "different for each system"

    def test_the_same_users_stay_paired(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
        place = self.logs(tmp_path / "paired", [(f"Number {n}.", f"number {n}") for n in range(8)])
        simulate.import_logs(simulate.ImportConfig(logs=place, run="paired"))
        assert len({talk.session_id for talk in simulate.iter_dialogues("paired")}) == 8
        assert "users" not in runs.entry("movies", "paired", "simulate")["counts"]

    def test_a_mixture_is_refused_with_its_counts(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
        place = self.logs(tmp_path / "half", [(f"Number {n}.", f"Number {n % 4}.") for n in range(8)])
        with pytest.raises(InputError, match=r"mixed: of 8 pairs.*4 have the same user and 4 do not"):
            simulate.import_logs(simulate.ImportConfig(logs=place, run="half"))

    def test_logged_constraints_decide_where_words_differ(self, tmp_path):
        talks = [{"a": '{"genre": "drama"}', "b": '{"genre": "drama"}'}] * 10
        assert same_users(talks) and not same_users([{"a": "x", "b": "y"}] * 10)
        wish = thesis(1)
        wish["conversation"][0]["user_meta"] = {"constraints": {"genre": "drama"}}
        assert user_of(Dialogue.from_json(wish)) == '{"genre": "drama"}'
