"""Runs, their log and commands; the nodes' model forms."""

import json
import logging
import re
from itertools import chain

import pandas as pd
import pytest

from crs_lib import figures, runs
from crs_lib.cli import app
from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, Reply, Retry
from crs_lib.realtalk import agent, commands, compare, experiments, forms, scoring, search, study
from crs_lib.realtalk.config import RealTalkConfig
from tests.helpers import refused, table
from tests.helpers.ollama_server import Faults, OllamaServer

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"
pytestmark = pytest.mark.slow  # they share runs that take seconds
MESSAGE = {"clean_text": "I ski in the Alps", "speaker": "Ann", "dia_id": "D1:1", "date_time": "never"}
NAMES = {"speaker_1": "Ann", "speaker_2": "Ben"}
QUESTION = "What sounds does Tobias record?"
RULES = ("--encoder", "hashing", "--ranker", "hand")


def chat_file(path, messages, qa):
    path.write_text(json.dumps({"name": NAMES, "session_1": messages, "qa": qa}))
    return str(path)


def record(run, recall, precision=0.0, **settings):
    """A finished evaluation as the stage would leave it."""
    config = RealTalkConfig(run=run, **settings)
    parameters = config.values()
    del parameters["run"]
    counts = {"recall": recall, "precision": precision, "n": 10, "split": config.split, "repeated": False}
    with runs.stage("realtalk", run, "evaluate", parameters) as stage:
        stage.counts.update(counts)


# ── runs and their log ───────────────────────────────────────────────────────────────────────────────


def test_a_run_goes_from_corpus_to_log():
    config = RealTalkConfig(run="r", data=str(CHAT))
    evidence = study.describe_corpus(config)["evidence"].set_index("reading")
    assert evidence["ids"].to_dict() == {"strict": 62, "valid": 67, "repaired": 68}
    study.predict(config)
    scores = study.evaluate(config)
    manifest = json.loads((paths.run_folder("realtalk", "r") / "manifest.json").read_text())
    assert set(manifest["stages"]) == {"corpus", "query", "evaluate"}
    contract = tables.Contract("experiments.csv", experiments.COLUMNS, ("experiment_id",))
    log = paths.results() / "realtalk" / "experiments.csv"
    (row,) = tables.read_table(log, contract).to_dict("records")
    assert row["experiment_id"] == "r"
    assert row["config_changes"] == f"data={CHAT} encoder=hashing ranker=hand split=all"
    assert row["encoder"] == "hashing"
    assert row["ranker"] == "hand"
    assert row["recall"] == pytest.approx(scores["summary"]["recall"].iloc[0])
    assert pd.isna(row["train_recall"])  # the sample is neither
    assert pd.isna(row["test_recall"])
    refused("22_realtalk_query", study.evaluate, RealTalkConfig(run="empty"), error=RunError)


def test_recall_stands_under_its_own_split_and_the_best_is_chosen_on_train():
    record("one", 0.5, data="realtalk", split="train", keep=30)
    record("two", 0.6, data="realtalk", split="train", encoder="minilm")
    record("three", 0.9, data="realtalk", split="test", final=True)
    log = experiments.log().set_index("experiment_id")
    assert log.loc["one", "train_recall"] == 0.5
    assert log["test_recall"].notna().sum() == 1
    assert log.loc["one", "config_changes"] == "encoder=hashing keep=30 ranker=hand"
    assert log["train_recall"].astype(float).idxmax() == "two"


def is_repeated(**settings):
    return experiments.check_test_split(RealTalkConfig(data="realtalk", **settings))


def test_test_chats_are_scored_once_on_purpose():
    for split in ("test", "all"):
        refused("final=true", is_repeated, split=split, error=RunError)
    assert not is_repeated(split="train")
    assert not is_repeated(split="test", final=True)
    record("first", 0.5, data="realtalk", split="test", final=True)
    refused(r"already scored .*run 'first'", is_repeated, split="test", final=True, error=RunError)
    assert is_repeated(split="test", final=True, force=True)
    assert not is_repeated(split="test", final=True, keep=20)
    config = RealTalkConfig(run="strict", data="realtalk", split="test")
    refused("final=true", study.REALTALK.run, "evaluate", config, error=RunError)


def test_test_chats_are_known_wherever_they_lie(make_chat, tmp_path):
    assert experiments.is_test([make_chat([("Ann", "a")], name="Chat_9_Ann_Ben")])
    assert not experiments.is_test([make_chat([("Ann", "a")], name="Chat_3_Ann_Ben")])
    qa = [{"question": "Does Ann ski?", "evidence": ["D1:1"]}]
    chat_file(tmp_path / "Chat_8_Ann_Ben.json", [MESSAGE], qa)
    config = RealTalkConfig(run="sneaky", data=str(tmp_path))
    study.predict(config)
    refused("test split", study.evaluate, config, error=RunError)


def test_a_missing_test_split_names_the_command_that_gets_it():
    config = RealTalkConfig(data=str(CHAT), split="test", final=True)
    refused("data get realtalk-test", study.chats, config)


@pytest.mark.parametrize(("name", "value", "words"), table(__file__, "settings"))
def test_config_says_what_was_expected(name, value, words):
    refused(rf"{name} is .*; {words}", RealTalkConfig, **{name: value})


def test_a_run_is_scored_by_its_own_cases_and_trade_off_or_by_others():
    config = RealTalkConfig(run="first", data=str(CHAT), questions=2, against="base")
    study.predict(config)
    assert study.of_run("first").against == "base"
    changed = study.of_run("first", against="other", arc_cases="cases.jsonl")
    assert changed.against == "other"
    assert changed.arc_cases == "cases.jsonl"


@pytest.mark.parametrize(("setting", "refusal"), table(__file__, "missing_files"))
def test_own_cases_and_prompts_that_are_not_there_are_refused_before_a_question(setting, refusal, tmp_path):
    missing = {setting: str(tmp_path / "nowhere")}
    config = RealTalkConfig(run="own", data=str(CHAT), **missing)
    refused(refusal, study.predict, config)
    assert not (paths.run_folder("realtalk", "own") / "predictions.jsonl").exists()


UNSUPPORTED = {"question": "Where does Ann ski?", "evidence": ["D77:1"]}


@pytest.mark.parametrize("qa", [[], [UNSUPPORTED]])
def test_a_chat_without_evidence_is_answered_and_not_scored(tmp_path, qa):
    config = RealTalkConfig(run="own", data=chat_file(tmp_path / "own.json", [MESSAGE], qa))
    assert len(study.predict(config)) == len(qa)
    refused("has evidence that exists in its chat", study.evaluate, config)
    refused("nothing to score", compare.table, config, "keep", [20])


@pytest.mark.parametrize(("run", "recall", "precision", "against", "verdict"), table(__file__, "tradeoffs"))
def test_a_trade_off_is_declared_beside_its_run_and_checked(run, recall, precision, against, verdict):
    declared = "precision -0.05 for recall +0.1"
    record("base", 0.5, precision=0.40)
    record(run, recall, precision=precision, against=against, tradeoff=declared)
    log = experiments.log().set_index("experiment_id")
    assert log.loc[run, "verdict"] == verdict
    assert log.loc[run, "tradeoff"] == declared
    assert log.loc["base", "verdict"] == ""


def test_a_finished_run_has_its_figure():
    refused("run 23_realtalk_evaluate -p run new", study.read, "new", "attribution", error=RunError)
    config = RealTalkConfig(run="new")
    study.predict(config)
    ids = study.evaluate(config)["attribution"]["ids"]
    losses = study.read("new", "attribution")
    assert losses["ids"].tolist() == ids.tolist()
    assert set(losses["n_ids"]) == {ids.max()}
    first, *others = figures.make("realtalk_losses", losses).axes[0].get_yticklabels()
    assert first.get_text() == f"all, {ids.max()} ids"
    for label in others:
        assert label.get_text().startswith("category ")  # chats have no bar of their own


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────


def do(name, *words):
    app.do(["realtalk", name, *words])


def test_predict_command_reports_what_is_broken_and_answers_all_the_same(tmp_path, capsys):
    odd = MESSAGE | {"dia_id": "D1:2", "speaker": "Eve", "clean_text": ""}
    qa = [{"question": "Where does Ann ski?"}]
    qa.append({"question": "Who?", "answer": "x", "evidence": ["D77:1", ""]})
    source = chat_file(tmp_path / "any name.json", [MESSAGE, MESSAGE, odd], qa)
    out = tmp_path / "out.jsonl"
    do("predict", "--chat", source, "--out", str(out), *RULES)
    printed = capsys.readouterr().out
    for kind in ("broken time: 2", "duplicate id: 1", "empty text: 1", "unknown speaker: 1"):
        assert kind in printed
    first, second = map(json.loads, out.read_text().splitlines())
    assert first["ranked"][0] == "D1:1"
    assert second["qa_index"] == 1
    assert set(scoring.KEYS) <= set(first)


def test_a_value_of_another_type_is_named_with_its_lever():
    words = r"keep is .many.; input should be a valid integer"
    refused(words, do, "compare", "keep", "20", "many", "--data", str(CHAT))


@pytest.mark.parametrize(("encoder", "ranker", "setting", "hints"), table(__file__, "fallbacks"))
def test_what_auto_fell_back_to_is_said_with_the_way_out(encoder, ranker, setting, hints):
    first, *lines = commands.made_with(encoder, [ranker], "auto", setting)
    assert first == f"encoder: {encoder}; ranker: {ranker}"
    for hint, line in zip(hints, lines, strict=True):
        assert hint in line


def test_what_was_asked_for_needs_no_way_out():
    assert commands.made_with("hashing", ["hand"], "hashing", "hand") == ["encoder: hashing; ranker: hand"]


def test_evaluate_command_prints_its_figures(capsys):
    do("evaluate", "--data", str(CHAT), *RULES, "--run", "x")
    printed = capsys.readouterr().out
    for heading in ("reading 'valid'", "Where gold ids end", "ARC"):
        assert heading in printed


def test_a_split_is_said_in_words():
    refused("final=true", do, "evaluate", "--test-only", error=RunError)
    refused("exclude each other", do, "evaluate", "--test-only", "--train-only")
    refused("no chat of split 'train'", do, "evaluate", "--train-only", "--data", str(CHAT), *RULES)


# ── model forms ──────────────────────────────────────────────────────────────────────────────────────


class Scripted:
    """A model that replies by role, and notes what it was asked."""

    spec = "scripted"

    def __init__(self, **replies):
        self.replies = replies
        self.requests = []

    def complete(self, request):
        self.requests.append(request)
        reply = self.replies.get(request.role.split()[-1], "{}")
        return Reply(reply(request) if callable(reply) else reply)

    def texts(self):
        return [request.messages[-1].content for request in self.requests]

    def shown_ids(self):
        """The ids that it might name, of all prompts."""
        return list(chain.from_iterable(map(ids_in, self.requests)))


def ids_in(request):
    """The ids that a selector's prompt lets the model name."""
    return request.schema["properties"]["ids"]["items"]["enum"]


def ask(built, llm, *nodes, question=QUESTION, **settings):
    """A question's result where a model decides at some nodes."""
    with_model = ",".join(f"{node}=model" for node in nodes)
    config = RealTalkConfig(forms=with_model, **settings)
    form = forms.LLMForm(llm, config)
    (result,) = agent.Agent(built, search.Hand(), config, form).ask([question])
    return result


def by_rules(built, question=QUESTION, config=None):
    """A question's result by the rules alone."""
    (result,) = agent.Agent(built, search.Hand(), config).ask([question])
    return result


@pytest.fixture
def offline(built):
    return by_rules(built)


def best_segments(built, result, count=8):
    return list(agent.best_of_segments(result.ranked, built.owner))[:count]


def test_a_planner_rewords(built):
    reply = json.dumps({"kind": "list", "statement": "I recorded the old lift", "several": True})
    result = ask(built, Scripted(planner=reply), "planner")
    assert result.plan.first_person == "I recorded the old lift"
    assert result.plan.speakers == ("Tobias",)
    entry = result.trace[0]
    assert entry["node"] == "planner"
    assert entry["form"] == "model"
    assert entry["kind"] == "list"
    assert entry["speakers"] == ["Tobias"]
    assert entry["searched"] == "I recorded the old lift"


def test_a_retriever_searches_wider_and_an_explorer_follows_rules_alone(built, offline):
    reply = json.dumps({"wordings": ["I bought a kayak on the lake"]})
    result = ask(built, Scripted(retriever=reply), "retriever")
    assert result.ranked != offline.ranked
    assert len(result.candidates) == len(offline.candidates)
    refused("the explorer follows rules alone", ask, built, Scripted(), "explorer")


@pytest.mark.parametrize("question", [QUESTION, "What did Tobias and Mira buy?"])
def test_a_grader_puts_those_it_names_first_in_one_call_and_keeps_the_order_of_the_others(built, question):
    ruled = by_rules(built, question)
    llm = Scripted(grader='{"numbers": [21, 3, 21]}')  # one twice
    result = ask(built, llm, "grader", question=question)
    first = [ruled.ranked[20], ruled.ranked[2]]
    assert result.ranked == list(dict.fromkeys([*first, *ruled.ranked]))
    assert result.scores == ruled.scores
    assert result.rounds == ruled.rounds
    assert result.selected[0] == first[0]
    (text,) = llm.texts()
    shown = re.findall(r"^\d+ \| .*", text, re.MULTILINE)
    assert len(shown) == forms.GRADED
    assert shown[20].startswith("21 | ")
    assert built.chat.texts[first[0]][:100] in shown[20]


def naming(built, position):
    """A selector that names one message wherever it is shown."""
    name = built.chat.messages[position].id

    def reply(request):
        ids = {name}.intersection(ids_in(request))
        return json.dumps({"ids": list(ids)})

    return reply


def test_a_selector_may_name_a_message_deep_in_a_segment(built, offline):
    leading = set(built.owner[offline.ranked[:3]])
    deep = []
    for position in offline.candidates:
        number = built.owner[position]
        if number in leading and position - built.segments[number].start > 3:
            deep.append(position)
    result = ask(built, Scripted(selector=naming(built, deep[0])), "selector")
    assert deep[0] in result.selected
    assert deep[0] in result.reranked
    assert 3 <= len(result.selected) <= forms.MOST


@pytest.mark.parametrize("view", ["windowed", "preview+ids"])
def test_a_selector_may_name_what_no_search_brought_up(built, offline, view):
    """Whatever a prompt shows may be chosen; it joins the candidates, so checkpoints stay nested."""
    segment = built.segments[best_segments(built, offline)[0]]
    inside = range(segment.start, segment.end)
    missed = min(set(inside).difference(offline.candidates))
    selector = Scripted(selector=naming(built, missed))
    result = ask(built, selector, "selector", view=view)
    assert missed in result.selected
    assert missed in result.reranked
    assert missed in result.candidates


def test_a_windowed_selector_sees_its_segments_whole_and_the_old_preview_three_messages(built, offline):
    numbers = best_segments(built, offline)
    llm = Scripted(selector='{"ids": []}')
    old = Scripted(selector='{"ids": []}')
    ask(built, llm, "selector")
    ask(built, old, "selector", view="preview")
    inside = []
    for number in numbers:
        inside += range(built.segments[number].start, built.segments[number].end)
    seen = built.chat.positions(llm.shown_ids())
    previewed = built.chat.positions(old.shown_ids())
    assert sorted(seen) == sorted(inside)  # all of them, candidates or not, each once
    assert set(previewed) < set(seen)
    for position in previewed:
        assert position - built.segments[built.owner[position]].start < agent.PREVIEWED
    for text in llm.texts():
        assert len(text) < forms.WINDOW + 1500


def test_a_node_is_shown_with_all_of_its_ids_and_a_preview_of_eight_messages(built, offline):
    llm = Scripted(selector='{"ids": []}')
    ask(built, llm, "selector", view="preview+ids")
    text = "\n".join(llm.texts())
    listed = re.findall("^all_message_ids: (.*)", text, re.MULTILINE)
    sizes = 0
    for number, ids in zip(best_segments(built, offline), listed, strict=True):
        segment = built.segments[number]
        inside = range(segment.start, segment.end)
        assert ids.split(", ") == built.chat.ids(inside)
        sizes += min(8, len(inside))
    assert len(re.findall("^D", text, re.MULTILINE)) == sizes
    assert ", ".join(listed) == ", ".join(llm.shown_ids())


def test_every_covered_segment_gives_an_id_by_rule_and_after_a_model(built, offline):
    best = best_segments(built, offline, 4)
    ruled = by_rules(built, config=RealTalkConfig(covered=4))
    assert set(built.owner[ruled.selected]) >= set(best)
    reply = naming(built, offline.ranked[0])
    result = ask(built, Scripted(selector=reply), "selector", covered=4)
    assert set(built.owner[result.selected]) >= set(best)


def test_a_generator_writes_the_answer(built):
    llm = Scripted(generator='{"answer": "the old lift", "found": true}')
    answer = ask(built, llm, "generator").answer
    assert answer.text == "the old lift"
    assert answer.form == "written"
    assert answer.ids


def test_a_generator_abstains(built):
    answer = ask(built, Scripted(generator='{"answer": "", "found": false}'), "generator").answer
    assert answer.text is None
    assert answer.why == "the model found no answer"


def test_a_model_titles_phases_and_says_what_they_came_to(built):
    def tell(request):
        n = request.schema["properties"]["titles"]["minItems"]
        return json.dumps({"titles": ["The lift"] * n, "conclusions": ["It was sold."] * n})

    answer = '{"answer": "the old lift", "found": true}'
    phases = ask(built, Scripted(generator=answer, teller=tell), "generator").phases
    assert {phase.title for phase in phases} == {"The lift"}
    assert {phase.conclusion for phase in phases} == {"It was sold."}


@pytest.mark.parametrize("junk", table(__file__, "junk"))
def test_unreadable_replies_leave_the_rule_result_with_a_note(built, offline, junk):
    roles = dict.fromkeys(agent.WITH_A_MODEL, junk)
    result = ask(built, Scripted(**roles), *roles)
    same_as_ruled(result, offline)
    noted = {entry["node"] for entry in result.trace if "note" in entry}
    assert noted >= {"planner", "grader", "selector", "generator"}


def same_as_ruled(result, ruled):
    for part in ("ranked", "selected", "phases", "answer"):
        assert getattr(result, part) == getattr(ruled, part)


def ask_a_model_that_fails(built, host, **retry):
    """Two questions answered with a model that fails, each beside what the rules say."""
    questions = ["When is the wedding?", "How old is Tobias?"]
    llm = LLM("ollama:tiny", host=host, retry=Retry(waits=0, first=0.0, **retry))
    results = agent.Agent(built, search.Hand(), None, forms.LLMForm(llm)).ask(questions)
    for question, result in zip(questions, results, strict=True):
        same_as_ruled(result, by_rules(built, question))
        for entry in result.trace:
            assert entry["form"] == "rule" or entry["note"]


def test_without_a_server_one_notice_is_logged_and_every_question_has_the_rule_result(built, caplog):
    with caplog.at_level(logging.WARNING, logger="crs_lib.realtalk"):
        ask_a_model_that_fails(built, "http://127.0.0.1:9")
    assert sum("no language model" in notice.message for notice in caplog.records) == 1


@pytest.mark.parametrize("fault", table(__file__, "faults"))
def test_a_server_that_misbehaves_leaves_every_question_the_rule_result_with_a_note(built, fault):
    with OllamaServer(faults=Faults(rate=1.0, kinds=[fault])) as server:
        ask_a_model_that_fails(built, server.url, seeds=0)
        assert server.chats > 0


def calls(run):
    lines = (paths.run_folder("realtalk", run) / "llm_calls.jsonl").read_text().splitlines()
    return list(map(json.loads, lines))


def test_a_second_run_with_a_model_sends_nothing_and_fewer_segments_are_fewer_calls(monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    settings = {"data": str(CHAT), "llm": "ollama:tiny", "questions": 1}
    with OllamaServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        first = study.predict(RealTalkConfig(run="first", **settings))
        sent = server.chats
        assert study.predict(RealTalkConfig(run="again", **settings)) == first
        assert server.chats == sent
        assert sent > 3
        study.predict(RealTalkConfig(run="few", segments=1, forms="selector=model", **settings))
        assert server.chats - sent == 1
    assert len(calls("first")) == len(calls("again")) == sent
    assert {call["cache_hit"] for call in calls("again")} == {True}


@pytest.mark.parametrize(("name", "slots"), table(__file__, "slots"))
def test_prompts_ask_for_what_the_code_gives(name, slots):
    assert sorted(prompts.wanted(f"realtalk/{name}")) == slots


def test_prompts_of_a_folder_take_the_place_of_the_shipped_ones(built, tmp_path):
    (tmp_path / "select.txt").write_text("MINE $messages")
    llm = Scripted(selector='{"ids": []}')
    ask(built, llm, "selector", prompts=str(tmp_path))
    assert llm.requests
    for text in llm.texts():
        assert text.startswith("MINE")
