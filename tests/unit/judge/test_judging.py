"""Judges over a run: resumed, extended, counted; their scores in the results."""

import json
import shutil
from contextlib import contextmanager

import pytest

from crs_lib import judge as judging
from crs_lib import runs, simulate
from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.llm.client import CACHE, LOG
from crs_lib.simulate.config import SimulateConfig
from tests.helpers import llm_job, refused, table
from tests.helpers.ollama_server import Faults, OllamaServer

pytestmark = pytest.mark.slow  # they share runs that take seconds
THREE_ALIKE = r"3 sessions of .* failed in a row in the same way"
CONSTRUCTS = {"proactiveness", "coherence", "personalization"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of two systems, three sessions each; no test writes to it."""
    results = tmp_path_factory.mktemp("finished")
    config = SimulateConfig(run="judged", systems=["tracker", "popular"], n_sessions=3, n_turns=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(results))
        simulate.simulate(config, progress=False)
    return results


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of the finished run in a folder of its own."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return "judged"


@pytest.fixture
def server():
    with OllamaServer({"j:1": "a" * 64, "k:1": "b" * 64}) as running:
        yield running


def entry_of(run):
    """What the manifest says of the judgement of a run."""
    return runs.Run("movies", run).entry("judge")


@contextmanager
def changed_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    yield manifest["stages"]
    tables.write_json(folder / "manifest.json", manifest)


def judge(run, server, judges=("ollama:j:1",), samples=1, llm=None, **more):
    llm = {"host": server.url, **(llm or {})}
    more = {"canaries": (), **more}
    return judging.judge_run(run, list(judges), samples, llm=llm, progress=False, **more)


def test_every_dialogue_is_scored_for_every_construct(run, server):
    folder = judge(run, server, samples=2)
    assert server.chats == 6 * 3 * 2  # dialogues x constructs x samples
    scores = judging.scores_of(run)
    assert set(scores) == {(d.model_name, d.session_id) for d in simulate.dialogues(run)}
    for outcome in scores.values():
        assert set(outcome["judge"]) == CONSTRUCTS
        assert outcome["scores"] == 6
        assert outcome["missing"] == 0
        for value in outcome["judge"].values():
            assert 1 <= value <= 5
    assert len(judging.score_table(run)) == 36
    calls = list(tables.read_jsonl(folder / "llm_calls.jsonl"))
    assert len(calls) == 36
    usage = judging.usage(run).iloc[0]
    assert usage["role"] == "judge"
    assert usage["model"] == "ollama:j:1"
    assert usage["calls"] == 36
    assert usage["failed"] == 0


def scores_in(folder):
    return (folder / judging.SCORES).read_bytes()


def test_what_was_asked_is_not_asked_again(run, server):
    folder = judge(run, server, samples=2)
    first = scores_in(folder)
    assert scores_in(judge(run, server, samples=2)) == first
    for name in (judging.SCORES, "ledger-judge.sqlite"):  # without the ledger the cache answers
        (folder / name).unlink()
    assert scores_in(judge(run, server, samples=2)) == first
    assert server.chats == 36
    assert (folder / CACHE).exists()
    assert (folder / LOG).exists()
    judge(run, server, ["ollama:j:1", "ollama:k:1"], samples=2)
    assert server.counts["chat j:1"] == 36
    assert server.counts["chat k:1"] == 36
    assert {len(record["scores"]) for record in judging.read_records(run)} == {12}


def test_a_reply_that_stays_unreadable_is_missing_and_counted(run, server):
    by_rule = server.answer

    def mute_on_coherence(prompt, schema, seed):
        return "Five points!" if "coherence" in schema["properties"] else by_rule(prompt, schema, seed)

    server.answer = mute_on_coherence
    judge(run, server)
    for outcome in judging.scores_of(run).values():
        assert outcome["judge"]["coherence"] is None
        assert outcome["judge"]["proactiveness"] is not None
        assert outcome["scores"] == 3
        assert outcome["missing"] == 1
    table = judging.score_table(run)
    assert table.loc[table["score"].isna(), "flag"].tolist() == ["unreadable"] * 6
    assert entry_of(run)["counts"]["missing"] == 6
    assert server.chats == 6 * (1 + 1 + 3)  # an unusable reply is asked for again under two other seeds


def test_canaries_are_judged_apart(run, server):
    judge(run, server, canaries=["forged_end"], n_canaries=1)
    kinds = sorted(row["canary"] for row in judging.read_records(run))
    assert kinds == [""] * 6 + ["forged_end"] * 2
    assert len(judging.scores_of(run)) == 6


def test_scores_enter_a_result_and_what_was_not_judged_stays(run, server):
    result = {"model": "tracker", "session_id": "00001", "detail": {"n": 1}}
    result["judge"] = dict.fromkeys(CONSTRUCTS)
    assert judging.add_scores(result, judging.scores_of(run)) == result
    judge(run, server)
    scores = judging.scores_of(run)
    added = judging.add_scores(result, scores)
    assert added["judge"] == scores["tracker", "00001"]["judge"]
    assert added["detail"] == {"n": 1, "judge_scores": 3, "judge_missing": 0}
    assert result["judge"]["coherence"] is None
    assert judging.add_scores({**result, "model": "other"}, scores)["judge"]["coherence"] is None


def test_scores_of_other_dialogues_are_refused(run, server):
    with changed_manifest(judge(run, server)) as stages:
        stages["simulate"]["outputs"]["dialogues.jsonl"] = "0" * 64
    refused("older dialogues", judging.scores_of, run, error=RunError)


def test_expected_scores_are_replayed_from_the_log_of_a_run(run, tmp_path):
    requests = {"expected": True}
    folder = judging.judge_run(run, ["template"], canaries=(), llm=requests, progress=False)
    table = judging.score_table(run)
    calls = (folder / "llm_calls.jsonl").read_text().splitlines()
    assert len(calls) == len(table) == 6 * 3
    assert table["score"].between(1, 5).all()
    assert all(sum(json.loads(line)["probabilities"].values()) == 1 for line in calls)
    shutil.copytree(folder, folder.with_name("kept"))
    judging.judge_run(run, ["replay:kept"], canaries=(), llm=requests, progress=False)
    keys = ["model", "session_id", "construct"]
    both = judging.score_table(run).pivot_table(index=keys, columns="judge", values="score")
    assert (both["template"] == both["replay:kept"]).all()
    assert len(both) == 18


def test_no_judges_no_work_and_no_dialogues_say_what_makes_them(run, tmp_path, monkeypatch):
    judging.judge_run(run, [])
    assert judging.scores_of(run) == {}
    assert judging.shown_scores(run)["note"].tolist() == ["run 'judged' was not judged"]
    assert judging.reliability_of(run)["note"].tolist() == ["run 'judged' has no judge scores to check"]
    assert "judge" not in runs.Run("movies", run).manifest()["stages"]
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    with pytest.raises(RunError, match="no finished 03_simulate in run 'nowhere'"):
        judging.judge_run("nowhere", ["template"])


@pytest.mark.parametrize(("arguments", "message"), table(__file__, "refused_settings"))
def test_bad_settings_say_what_to_do(arguments, message):
    refused(message, judging.judge_run, "nowhere", **arguments)


def test_the_models_settings_are_those_that_were_given(run, server):
    server.context = 4096
    refused("has a context of 4096 tokens, num_ctx asks for 8192", judge, run, server, error=RunError)
    requests = {"num_ctx": 4096, "num_predict": 300, "temperature": 0.1}
    folder = judge(run, server, llm=requests)
    assert server.chats == 18
    for body in server.bodies:
        del body["options"]["seed"]
        assert body["options"] == requests
    assert requests.items() <= entry_of(run)["parameters"]["settings"].items()
    for record in judging.read_records(run):
        assert requests.items() <= record["settings"].items()
    first = scores_in(folder)
    judge(run, server, llm={**requests, "slots": 7})  # how, not what
    assert server.chats == 18
    assert scores_in(folder) == first
    judge(run, server, llm={**requests, "temperature": 0.2})
    assert server.chats == 36


def test_a_judge_that_thinks_is_asked_apart_from_one_that_does_not(run, server):
    for calls, think in ((18, True), (36, False), (36, True), (36, False)):
        judge(run, server, llm={"think": think})
        assert server.chats == calls
        assert entry_of(run)["parameters"]["settings"]["think"] is think
        for record in judging.read_records(run):
            assert record["settings"]["think"] is think
    assert [body["think"] for body in server.bodies] == [True] * 18 + [False] * 18


def test_a_later_judge_joins_the_earlier_ones(run, server):
    together = (judge(run, server, ["ollama:j:1", "ollama:k:1"]) / judging.SCORES).read_bytes()
    folder = simulate.run_folder(run)
    for name in (judging.SCORES, "ledger-judge.sqlite"):
        (folder / name).unlink()
    with changed_manifest(folder) as stages:
        del stages["judge"]
    judge(run, server, ["ollama:k:1"])
    judge(run, server, ["ollama:j:1"])
    assert scores_in(folder) == together
    entry = entry_of(run)
    assert entry["parameters"]["judges"] == ["ollama:j:1", "ollama:k:1"]
    assert entry["inputs"]["weights of ollama:j:1"] == "a" * 64
    assert entry["inputs"]["weights of ollama:k:1"] == "b" * 64
    assert {outcome["scores"] for outcome in judging.scores_of(run).values()} == {6}


def test_judges_that_were_asked_otherwise_or_saw_less_are_kept_apart(run, server):
    judge(run, server, ["ollama:j:1"], samples=2)
    server.faults["k:1"] = Faults(plan=["400"])
    refused("1 of 6 sessions failed", judge, run, server, ["ollama:k:1"], error=RunError)
    judge(run, server, ["ollama:j:1"])
    table = judging.score_table(run)
    assert set(table["judge"]) == {"ollama:j:1"}  # k judged five of six
    assert set(table["sample"]) == {0}
    judge(run, server, ["ollama:k:1"])
    assert set(judging.score_table(run)["judge"]) == {"ollama:j:1", "ollama:k:1"}
    before = server.chats
    judge(run, server, ["ollama:j:1"], samples=2)
    assert server.chats == before
    assert set(judging.score_table(run)["judge"]) == {"ollama:j:1"}


def test_of_a_judge_with_new_weights_only_the_new_scores_count(run, server):
    judge(run, server)
    server.models["j:1"] = "c" * 64
    judge(run, server, canaries=["forged_end"], n_canaries=1)  # asks the server, so the digest is the new one
    judge(run, server, ["ollama:k:1"])
    table = judging.score_table(run)
    assert set(table["judge"]) == {"ollama:j:1", "ollama:k:1"}
    weights = {"ollama:j:1": "c", "ollama:k:1": "b"}
    for record in judging.read_records(run):
        assert len(record["scores"]) == (3 if record["canary"] else 6)
        for score in record["scores"]:
            assert score["digest"].startswith(weights[score["judge"]])


def test_a_finished_judgement_needs_no_server(run, server):
    judge(run, server, ["ollama:j:1"], canaries=["forged_end"])
    judge(run, server, ["ollama:k:1"])
    first = (simulate.run_folder(run) / judging.SCORES).read_bytes()
    nobody = {"host": "http://127.0.0.1:9"}
    for judges in (["ollama:j:1"], ["ollama:k:1", "ollama:j:1"]):
        judge(run, server, judges, llm=nobody)
        assert (simulate.run_folder(run) / judging.SCORES).read_bytes() == first
    with pytest.raises(RunError, match="ollama serve"):
        judge(run, server, ["ollama:j:1"], llm={**nobody, "temperature": 0.3})


def test_a_later_judge_that_fails_takes_nothing_from_the_earlier_one(run, server):
    judge(run, server)
    scores = judging.scores_of(run)
    server.faults["k:1"] = Faults(plan=["400"] * 18)
    refused(THREE_ALIKE, judge, run, server, ["ollama:k:1"], error=RunError)
    assert entry_of(run)["status"] == "failed"
    assert judging.scores_of(run) == scores
    assert set(judging.score_table(run)["judge"]) == {"ollama:j:1"}
    server.faults["k:1"] = Faults()  # its plan was not used up: the judge was asked no more after three alike
    judge(run, server, ["ollama:k:1"])
    assert {outcome["scores"] for outcome in judging.scores_of(run).values()} == {6}


def test_scores_of_dialogues_that_are_gone_do_not_outlive_a_failure(run, server):
    folder = judge(run, server)
    with (folder / "dialogues.jsonl").open("a") as file:
        file.write((folder / "dialogues.jsonl").read_text().splitlines()[0] + "\n")
    with changed_manifest(folder) as stages:
        stages["simulate"]["outputs"]["dialogues.jsonl"] = tables.sha256(folder / "dialogues.jsonl")
    server.faults["k:1"] = Faults(plan=["400"] * 21)
    refused(THREE_ALIKE, judge, run, server, ["ollama:k:1"], error=RunError)
    assert judging.scores_of(run) == {}
    refused("was not judged; do it with", judging.read_records, run, error=RunError)


@pytest.mark.subprocess
def test_a_judge_that_is_killed_in_mid_run_loses_no_answer_and_scores_nothing_twice(run, tmp_path):
    """Six dialogues and four canaries, three constructs each: 30 questions, and a kill after each few of them."""
    with llm_job.Marking({"judge:1": "b" * 64}, delay=0.01) as server:
        job = (tmp_path, server.url, run)
        kills = llm_job.killed_until_done(server, job, range(1, 30, 4), llm_job.judge_only)
        folder = tmp_path / "movies" / run
        scores = scores_in(folder)
        n_asked = len(server.asked)
        llm_job.judge_only(*job)
        assert len(server.asked) == n_asked
    assert kills.times >= 5
    assert kills.again == 0, "an answer that had arrived was asked for again"
    assert len(set(server.asked)) == 30
    assert len(server.asked) <= 30 + kills.lost
    records = judging.read_records(run)
    assert len(records) == 10
    assert {record["missing"] for record in records} == {0}
    keys = [(record["model"], record["session_id"], record["canary"]) for record in records]
    assert len(keys) == len(set(keys))
    for name in (judging.SCORES, "ledger-judge.sqlite", CACHE, LOG):
        (folder / name).unlink()
    with llm_job.Marking({"judge:1": "b" * 64}) as unbroken:
        llm_job.judge_only(tmp_path, unbroken.url, run)
    assert scores_in(folder) == scores
