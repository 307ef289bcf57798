"""Whole experiments with models: killed at random points, under faults, with hostile answers, asked twice."""

import json
import os
import random

import pytest

from crs_lib import evaluate, llm, simulate
from crs_lib import judge as judging
from crs_lib.core.errors import RunError
from crs_lib.core.rng import address_seed
from crs_lib.llm import template
from crs_lib.report import report
from crs_lib.simulate.config import FAILED
from tests.helpers import cosrec_job, jobs, llm_job, refused
from tests.helpers.cosrec_data import part_of_sample
from tests.helpers.ollama_server import NOISE, Faults, OllamaServer
from tests.helpers.sample import simulated

SIZE = (2, 2, 4)  # models, sessions, turns
LONG = "CRS_LONG" in os.environ  # the sizes of docs/running-llms.md and docs/cosrec.md


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.full
def test_killed_at_random_it_ends_as_if_nothing_had_happened_and_asks_nothing_twice(results):
    size, times = ((2, 12, 10), 280) if LONG else (SIZE, 10)
    with llm_job.Marking(llm_job.models(2)) as server:
        whole = llm_job.contents(llm_job.work(results, server.url, "whole", *size, agent=True))
        n = len(set(server.asked))
    assert len(whole) == 5  # dialogues and scores of the run and of the imported one, and the judge's
    with llm_job.Marking(llm_job.models(2), delay=0.01) as server:
        targets = sorted(random.Random(7).sample(range(1, n), times))
        job = (results, server.url, "killed", *size, None, True)
        kills = llm_job.killed_until_done(server, job, targets)
        folder = results / "movies" / "killed"
        assert kills.times == times
        assert kills.again == 0
        assert llm_job.contents(folder) == whole
        for name in llm_job.FILES:
            assert llm_job.duplicates(folder, name) == (0, 2 * size[1])
        # Made again are only calls that were under way when the process died: at most 8 a kill.
        assert len(set(server.asked)) == n == len(kills.kept)
        assert kills.lost <= times * 8
        before = server.chats
        assert llm_job.killed_at_moments(job, [0.05, 0.2]) == 2  # where nothing is asked: evaluation, import
        for ledger in ("ledger.sqlite", "ledger-judge.sqlite"):
            (folder / ledger).unlink()
        llm_job.work(*job)
        assert server.chats == before  # all from the cache
        assert llm_job.contents(folder) == whole


def test_a_finished_run_needs_no_server(results):
    with OllamaServer(llm_job.models(1)) as server:
        whole = llm_job.contents(llm_job.work(results, server.url, "whole", 1, 1, 2))
    assert llm_job.contents(llm_job.work(results, server.url, "whole", 1, 1, 2)) == whole


def test_other_weights_under_the_same_name_do_not_continue_a_run(results):
    models = {"m0:1": "0" * 64, "user:1": "a" * 64}
    with OllamaServer(models) as server, pytest.raises(Exception, match="judge:1"):
        llm_job.work(results, server.url, "whole", 1, 1, 2)  # the judge is not there: simulated, not judged
    manifest = results / "movies" / "whole" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"failed"'))
    described = r"other parameters \(input weights of ollama:m0:1: '000000000000' there"
    models = {**llm_job.models(1), "m0:1": "9" * 64}
    with OllamaServer(models) as server, pytest.raises(Exception, match=described):
        llm_job.work(results, server.url, "whole", 1, 1, 2)


def test_with_a_fifth_of_the_calls_failing_no_session_is_lost_and_nothing_stands_in(results, monkeypatch):
    monkeypatch.setattr(llm.Retry, "pause", lambda *_: 0.0)
    size = (6, 20, 20) if LONG else (2, 3, 5)
    names = llm_job.models(size[0])
    faults = {name: Faults(rate=0.2, seed=number) for number, name in enumerate(names)}
    with OllamaServer(names, faults=faults) as server:
        folder = llm_job.work(results, server.url, "faults", *size)
    failed = sum(server.given.values())
    assert failed > 0.1 * server.chats
    assert [llm_job.duplicates(folder, name) for name in llm_job.FILES] == [(0, size[0] * size[1])] * 3
    calls = llm_job.log_of(folder)
    assert sum(len(row["tried"]) for row in calls) == failed  # every failure is on record
    assert all(len(dialogue.turns) == 2 * size[2] for dialogue in simulate.dialogues("faults"))
    assert llm_job.stand_ins(folder, calls) == []
    usage = judging.usage("faults")
    assert usage["failed"].sum() == 0
    assert usage["attempts"].sum() == usage["calls"].sum() - usage["cache_hits"].sum() + failed


def test_sessions_that_fail_are_said_counted_and_done_at_the_next_start(results):
    with OllamaServer(llm_job.models(2)) as server:
        server.faults["m1:1"] = Faults(plan=["400"])
        with pytest.raises(Exception, match=r"1 of 4 sessions failed; .* of 'ollama:m1:1': refused"):
            llm_job.work(results, server.url, "some", *SIZE)
        folder = results / "movies" / "some"
        assert not (folder / "dialogues.jsonl").exists()
        stage = json.loads((folder / "manifest.json").read_text())["stages"]["simulate"]
        assert stage["status"] == "failed"
        assert stage["counts"]["done"] == 3
        assert stage["counts"]["failed"] == 1
        assert [row["error"] for row in llm_job.log_of(folder)].count("refused") == 1
        llm_job.work(results, server.url, "some", *SIZE)
    assert llm_job.duplicates(folder, "dialogues.jsonl") == (0, 4)


class Stubborn:
    """A model that answers the first reply of session 1 with rubbish, with so many seeds."""

    def __init__(self, seeds):
        self.bad = {address_seed(7, "movies", 1, "crs", 1)}
        seed = min(self.bad)
        for number in range(1, seeds):
            seed = address_seed(seed, "attempt", number)
            self.bad.add(seed)

    def __call__(self, prompt, schema, seed):
        return "{" if schema and seed in self.bad else template.answer(prompt, schema, seed)


@pytest.mark.full
def test_a_session_that_failed_is_tried_with_more_seeds_at_the_next_start(results):
    with OllamaServer(llm_job.models(1), answer=Stubborn(4)) as server:
        with pytest.raises(RunError, match=r"1 of 2 sessions failed; .*session 1 .*'ollama:m0:1': bad reply"):
            llm_job.work(results, server.url, "some", 1, 2, 4)
        folder = llm_job.work(results, server.url, "some", 1, 2, 4)
    assert llm_job.duplicates(folder, "dialogues.jsonl") == (0, 2)
    assert not (folder / FAILED).exists()


@pytest.mark.full
def test_a_run_can_do_without_a_session_that_never_ends_well(results):
    """It is listed with its error, and it has a row of nulls in the results: nothing goes missing unsaid."""
    with OllamaServer(llm_job.models(2), answer=Stubborn(999)) as server:
        refused(r"llm=\{'max_failed': …\}", llm_job.work, results, server.url, "some", *SIZE, error=RunError)
        with pytest.raises(RunError, match="2 of 4 sessions failed"):
            llm_job.work(results, server.url, "some", *SIZE, llm={"max_failed": 1})
        llm_job.work(results, server.url, "some", *SIZE, llm={"max_failed": 2})
    lost = [("ollama:m0:1", "00001"), ("ollama:m1:1", "00001")]
    stored = [(entry.model_name, entry.session_id) for entry in simulate.dialogues("some")]
    assert stored == [(model, "00000") for model, _ in lost]
    assert [(row["model"], row["session_id"]) for row in simulate.failed_sessions("some")] == lost
    result = evaluate.read("some", "results")
    assert len(result) == 4
    rows = result[result["item_tas"].isna()]
    assert list(zip(rows["model"], rows["session_id"], strict=True)) == lost
    assert all(row["failed"].startswith("bad reply") for row in rows["detail"])
    table = evaluate.read("some", "model_metrics").query("metric == 'item_tas'")
    assert table[["n", "n_missing"]].to_numpy().tolist() == [[1, 1], [1, 1]]
    assert report.write("some").is_file()


@pytest.mark.full
def test_hostile_answers_go_through_every_stage(results):
    """HTML, braces, control characters, half an emoji and a megabyte as every reply and utterance."""
    rubbish = NOISE + "x" * 1_000_000

    def answer(prompt, schema, seed):
        return template.answer(prompt, schema, seed) if schema else rubbish

    with OllamaServer(llm_job.models(1), answer=answer) as server:
        folder = llm_job.work(results, server.url, "hostile", 1, 1, 2, llm={"structured": False})
    (dialogue,) = simulate.dialogues("hostile")
    replies = [turn.text for turn in dialogue.turns[1::2]]
    assert all(text.startswith("<script>") and len(text) > 1_000_000 for text in replies)
    assert {turn.user_meta["worded_by"] for turn in dialogue.turns[0::2]} == {"template"}
    assert "<script>" not in dialogue._repr_html_()
    calls = (folder / "llm_calls.jsonl").read_text().splitlines()
    assert max(map(len, calls)) < 150_000
    assert any(json.loads(line)["text_cut"] for line in calls)


def test_no_key_reaches_any_file(results, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-very-secret-key")
    with OllamaServer(llm_job.models(1)) as server:
        folder = llm_job.work(results, server.url, "keys", 1, 1, 2)
        assert not any("sk-very-secret" in str(headers) for headers in server.headers)
    for path in folder.rglob("*"):
        assert b"sk-very-secret" not in (path.read_bytes() if path.is_file() else b"")


@pytest.mark.parametrize("spec", ["m0:1", "m1:1"])
def test_a_run_is_replayed_without_any_model(results, spec):
    with OllamaServer(llm_job.models(2)) as server:
        llm_job.work(results, server.url, "whole", *SIZE)
    simulated(
        run="again",
        catalog=llm_job.catalogue(results),
        systems=[f"replay:whole@ollama:{spec}"],
        n_sessions=SIZE[1],
        n_turns=SIZE[2],
        user_llm="replay:whole@ollama:user:1",
    )
    heard = [d.turns for d in simulate.dialogues("whole") if d.model_name == f"ollama:{spec}"]
    assert [d.turns for d in simulate.dialogues("again")] == heard


def test_a_server_that_speaks_openai_is_a_system_too(results):
    with OllamaServer(["m0:1"]) as server:
        simulated(
            run="openai",
            catalog=llm_job.catalogue(results),
            systems=["openai:m0:1"],
            n_sessions=2,
            n_turns=3,
            llm={"host": server.url},
        )
        judging.judge_run("openai", ["openai:m0:1"], canaries=(), llm={"host": server.url}, progress=False)
        assert server.counts["/api/tags"] == 0  # nothing of Ollama's was asked
    assert [d.model_name for d in simulate.dialogues("openai")] == ["openai:m0:1"] * 2
    assert len(judging.scores_of("openai")) == 2


@pytest.mark.full
def test_a_generation_killed_under_faults_ends_the_same_and_what_it_lacks_is_said_first(results):
    size, times = (500, 10) if LONG else (5, 3)
    source = "sample" if LONG else part_of_sample(results / "source", products=40, passages=60)
    with cosrec_job.server(0.2) as server:
        whole = cosrec_job.contents(cosrec_job.work(results, server.url, "whole", size, source))
        n = server.chats
        assert sum(server.given.values()) > 0
    with cosrec_job.server(0.2, delay=0.02) as server:
        targets = sorted(random.Random(3).sample(range(1, n), times))
        job = cosrec_job.CONTEXT, cosrec_job.work, (results, server.url, "killed", size, source)
        killed = jobs.killed_until_done(*job, targets, lambda: server.chats)
    folder = results / "cosrec" / "killed"
    assert killed >= times - 1
    assert cosrec_job.contents(folder) == whole
    twice, answered = cosrec_job.answered_twice(folder)
    assert twice == 0
    assert answered >= size * 6  # a query, a draft, and two prompts for each of two buyers
    with cosrec_job.server(0.0) as server:
        del server.models["asker:1"]
        refused("cosrec product_query", cosrec_job.work, results, server.url, "none", 2, error=RunError)
        assert server.chats == 0
