import itertools
import json
import logging

import numpy as np
import pytest

from crs_lib import figures, runs
from crs_lib.cli import app
from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import LLM, Reply, Retry
from crs_lib.realtalk import agent, commands, compare, experiments, forms, scoring, search, study, wording
from crs_lib.realtalk.config import RealTalkConfig
from tests.helpers import refused
from tests.helpers.ollama_server import Faults, OllamaServer

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"
pytestmark = pytest.mark.slow  # they share runs that take seconds


MESSAGE = {"clean_text": "I ski in the Alps", "speaker": "Ann", "dia_id": "D1:1", "date_time": "never"}
NAMES = {"speaker_1": "Ann", "speaker_2": "Ben"}
QUESTION = "What sounds does Tobias record?"


def chat_file(path, messages, qa):
    path.write_text(json.dumps({"name": NAMES, "session_1": messages, "qa": qa}))
    return str(path)


def record(run, recall, precision=None, **asked):
    """A finished evaluation as the stage would leave it."""
    config = RealTalkConfig(run=run, **asked)
    with runs.stage("realtalk", run, "evaluate", study._settings(config)) as stage:
        counts = {"recall": recall, "n": 10, "split": config.split, "repeated": False}
        stage.counts.update(counts | ({"precision": precision} if precision else {}))


def test_a_run_goes_from_corpus_to_log_and_scores_need_predictions_first(tmp_path):
    config = RealTalkConfig(run="r", data=str(CHAT))
    shown = study.describe_corpus(config)
    assert shown["evidence"].set_index("reading")["ids"].to_dict() == {
        "strict": 62, "valid": 67, "repaired": 68,
    }  # fmt: skip
    study.predict(config)
    scored = study.evaluate(config)
    manifest = json.loads((paths.run_folder("realtalk", "r") / "manifest.json").read_text())
    assert set(manifest["stages"]) == {"corpus", "query", "evaluate"}
    log = experiments.log()
    assert log["experiment_id"].tolist() == ["r"] and log["config_changes"].tolist() == [
        f"data={CHAT} encoder=hashing ranker=hand split=all"
    ]
    assert log["encoder"].tolist() == ["hashing"]
    assert log["ranker"].tolist() == ["hand"]
    assert log["recall"].iloc[0] == pytest.approx(scored["summary"]["recall"].iloc[0])
    assert log[["train_recall", "test_recall"]].isna().all().all()  # the sample is neither
    contract = tables.Contract("experiments.csv", experiments.COLUMNS, ("experiment_id",))
    assert len(tables.read_table(paths.results() / "realtalk" / "experiments.csv", contract)) == 1
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


def test_test_chats_are_scored_once_on_purpose_wherever_they_lie(make_chat, tmp_path):
    def check(**asked):
        return experiments.check_test_split(RealTalkConfig(data="realtalk", **asked))

    for split in ("test", "all"):
        refused("final=true", check, split=split, error=RunError)
    assert check(split="train") is False
    assert check(split="test", final=True) is False
    record("first", 0.5, data="realtalk", split="test", final=True)
    refused(r"already scored .*run 'first'", check, split="test", final=True, error=RunError)
    assert check(split="test", final=True, force=True) is True  # marked as repeated
    assert check(split="test", final=True, keep=20) is False
    config = RealTalkConfig(run="around", data="realtalk", split="test")
    refused("final=true", study.REALTALK.run, "evaluate", config, error=RunError)
    for number, is_test in ((9, True), (3, False)):
        assert experiments.is_test([make_chat([("Ann", "a")], name=f"Chat_{number}_Ann_Ben")]) is is_test
    qa = [{"question": "Does Ann ski?", "evidence": ["D1:1"]}]
    chat_file(tmp_path / "Chat_8_Ann_Ben.json", [MESSAGE], qa)
    config = RealTalkConfig(run="sneaky", data=str(tmp_path))
    study.predict(config)
    refused("test split", study.evaluate, config, error=RunError)


@pytest.mark.parametrize(("name", "value", "told"), [
    ("split", "dev", "give "), ("reading", "loose", "give "), ("encoder", "bert", "give "), ("ranker", "x", "string should match pattern"),
    ("share", 0, "input should be greater than 0"), ("single", -1, "input should be greater than or equal to 0"),
    ("engine", "magic", "give one of auto, langgraph"),
])  # fmt: skip
def test_config_says_what_was_expected(name, value, told):
    refused(rf"{name} is .*; {told}", RealTalkConfig, **{name: value})


def run_cli(name, *words):
    app.do(["realtalk", name, *words])


def test_predict_command_reports_what_is_broken_and_answers_all_the_same(tmp_path, capsys):
    messages = [MESSAGE, MESSAGE, {**MESSAGE, "dia_id": "D1:2", "speaker": "Eve", "clean_text": ""}]
    asked = {"question": "Who?", "answer": "x", "evidence": ["D77:1", ""]}
    source = chat_file(tmp_path / "any name.json", messages, [{"question": "Where does Ann ski?"}, asked])
    out = tmp_path / "out.jsonl"
    run_cli("predict", "--chat", source, "--out", str(out), "--encoder", "hashing", "--ranker", "hand")
    said = capsys.readouterr().out
    for kind in ("broken time: 2", "duplicate id: 1", "empty text: 1", "unknown speaker: 1"):
        assert kind in said
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["qa_index"] for line in lines] == [0, 1]
    assert lines[0]["ranked"][0] == "D1:1"
    assert set(scoring.KEYS) <= set(lines[0])


@pytest.mark.parametrize("qa", [[], [{"question": "Where does Ann ski?", "evidence": ["D77:1"]}]])
def test_a_chat_without_evidence_is_answered_and_not_scored(tmp_path, qa):
    config = RealTalkConfig(run="own", data=chat_file(tmp_path / "own.json", [MESSAGE], qa))
    assert len(study.predict(config)) == len(qa)
    refused("has evidence that exists in its chat", study.evaluate, config)
    refused("nothing to score", compare.table, config, "keep", [20])


def test_a_value_of_another_type_is_named_with_its_lever():
    with pytest.raises(InputError, match=r"keep is .many.; input should be a valid integer"):
        run_cli("compare", "keep", "20", "many", "--data", str(CHAT))


@pytest.mark.parametrize("encoder, ranked_by, given, told", [
    ("minilm+gte-small+tuned", "learned", "auto", []),
    ("minilm+tuned", "learned", "auto", ["gte-small is not here"]),
    ("minilm", "learned", "auto", ["gte-small is not here", "MiniLM's weights are not here"]),
    ("hashing", "hand", "auto", ["MiniLM is not installed", "set CRS_MIRROR"]),
    ("minilm+gte-small+tuned", "linear", "auto", ["LightGBM is not installed"]),
    ("hashing", "hand", "hand", []),
    ("minilm", "hand", "hand", []),
])  # fmt: skip
def test_what_auto_fell_back_to_is_said_with_the_way_out(encoder, ranked_by, given, told):
    asked = "hashing" if (encoder, given) == ("hashing", "hand") else "auto"
    first, *hints = commands.made_with(encoder, [ranked_by], asked, given)
    assert first == f"encoder: {encoder}; ranker: {ranked_by}"
    assert len(hints) == len(told)
    assert all(word in hint for word, hint in zip(told, hints, strict=True))


def test_evaluate_command_prints_its_figures(capsys):
    run_cli("evaluate", "--data", str(CHAT), "--encoder", "hashing", "--ranker", "hand", "--run", "x")
    said = capsys.readouterr().out
    assert "reading 'valid'" in said
    assert "Where gold ids end" in said
    assert "ARC" in said
    refused("final=true", run_cli, "evaluate", "--test-only", error=RunError)
    refused("exclude each other", run_cli, "evaluate", "--test-only", "--train-only")
    rules = ("--encoder", "hashing", "--ranker", "hand")
    refused("no chat of split 'train'", run_cli, "evaluate", "--train-only", "--data", str(CHAT), *rules)


def test_a_missing_test_split_names_the_command_that_gets_it():
    config = RealTalkConfig(data=str(CHAT), split="test", final=True)
    refused("data get realtalk-test", study.chats, config)


def test_a_run_is_scored_by_its_own_cases_and_trade_off_or_by_others():
    study.predict(RealTalkConfig(run="first", data=str(CHAT), questions=2, against="base"))
    assert study.of_run("first").against == "base"
    changed = study.of_run("first", against="other", arc_cases="cases.jsonl")
    assert changed.against == "other"
    assert changed.arc_cases == "cases.jsonl"


class Scripted:
    spec = "scripted"

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def complete(self, request):
        self.asked.append(request)
        answer = self.answers.get(request.role.split()[-1], "{}")
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer(request) if callable(answer) else answer)


def ask(built, llm, *nodes, view="windowed", question=QUESTION):
    settings = RealTalkConfig(forms=",".join(f"{node}=model" for node in nodes))
    pipeline = agent.Agent(built, search.Hand(), settings, forms.LLMForm(llm, RealTalkConfig(view=view)))
    return pipeline.ask([question])[0]


@pytest.fixture
def offline(built):
    return agent.Agent(built, search.Hand()).ask([QUESTION])[0]


def test_a_planner_rewords_a_retriever_searches_wider_and_an_explorer_follows_rules_alone(built, offline):
    said = json.dumps({"kind": "list", "statement": "I recorded the old lift", "several": True})
    found = ask(built, Scripted(planner=said), "planner")
    assert found.plan.first_person == "I recorded the old lift"
    assert found.plan.speakers == ("Tobias",)
    assert found.trace[0] == {
        "node": "planner", "form": "model", "kind": "list", "speakers": ["Tobias"],
        "searched": "I recorded the old lift",
    }  # fmt: skip
    said = json.dumps({"wordings": ["I bought a kayak on the lake"]})
    found = ask(built, Scripted(retriever=said), "retriever")
    assert found.ranked != offline.ranked
    assert len(found.candidates) == len(offline.candidates)
    refused("the explorer follows rules alone", ask, built, Scripted(), "explorer")


@pytest.mark.parametrize("question", [QUESTION, "What did Tobias and Mira buy?"])
def test_a_grader_puts_those_it_names_first_in_one_call_and_keeps_the_order_of_the_rest(built, question):
    ruled = agent.Agent(built, search.Hand()).ask([question])[0]
    llm = Scripted(grader='{"numbers": [21, 3, 21]}')  # one twice
    found = ask(built, llm, "grader", question=question)
    first = [ruled.ranked[20], ruled.ranked[2]]
    assert found.ranked == [*first, *(place for place in ruled.ranked if place not in first)]
    assert (found.scores, found.rounds) == (ruled.scores, ruled.rounds)
    assert found.selected[0] == first[0]
    (asked,) = llm.asked
    shown = [line for line in asked.messages[-1].content.splitlines() if line.partition(" | ")[0].isdigit()]
    assert len(shown) == forms.GRADED
    assert shown[20].startswith("21 | ")
    assert built.chat.messages[first[0]].text[:100] in shown[20]


def naming(built, place):
    """A selector that names one message wherever it is shown."""

    def answer(request):
        known = request.schema["properties"]["ids"]["items"]["enum"]
        return json.dumps({"ids": [i for i in built.chat.ids([place]) if i in known]})

    return answer


def test_a_selector_may_keep_a_message_deep_in_a_segment(built, offline):
    deep = next(
        p for p in offline.candidates if p - built.segments[built.owner[p]].start > 3
        and int(built.owner[p]) in [int(built.owner[q]) for q in offline.ranked[:3]]
    )  # fmt: skip
    found = ask(built, Scripted(selector=naming(built, deep)), "selector")
    assert deep in found.selected
    assert 3 <= len(found.selected) <= forms.MOST
    assert deep in found.reranked


def test_a_generator_writes_the_answer_or_abstains(built):
    told = ask(built, Scripted(generator='{"answer": "the old lift", "found": true}'), "generator").answer
    assert (told.text, told.form) == ("the old lift", "written")
    assert told.ids
    none = ask(built, Scripted(generator='{"answer": "", "found": false}'), "generator").answer
    assert none.text is None
    assert none.why == "the model found no answer"


@pytest.mark.parametrize("junk", [
    "", "not json", "[]", '{"ids": 3, "numbers": [99]}', '{"ids": [null, {}], "numbers": [true]}', '{"answer": 1}',
    '{"numbers": []}',
])  # fmt: skip
def test_unreadable_replies_leave_the_rule_result_with_a_note(built, offline, junk):
    roles = dict.fromkeys(agent.WITH_A_MODEL, junk)
    found = ask(built, Scripted(**roles), *roles)
    assert (found.ranked, found.selected, found.phases) == (offline.ranked, offline.selected, offline.phases)
    assert found.answer == offline.answer
    noted = {entry["node"]: "note" in entry for entry in found.trace}  # the last visit of each node
    assert all(noted[node] for node in ("planner", "grader", "selector", "generator"))


@pytest.fixture
def without_model(built):
    """Two questions answered with a model that fails, each beside what the rules say."""

    def asked(host, model, **retry):
        questions = ["When is the wedding?", "How old is Tobias?"]
        form = forms.LLMForm(LLM(f"ollama:{model}", host=host, retry=Retry(waits=0, first=0.0, **retry)))
        found = agent.Agent(built, search.Hand(), None, form).ask(questions)
        for one, ruled in zip(found, agent.Agent(built, search.Hand()).ask(questions), strict=True):
            for part in ("ranked", "selected", "phases", "answer"):
                assert getattr(one, part) == getattr(ruled, part)
            assert all(entry["note"] for entry in one.trace if entry["form"] == "model")

    return asked


def test_without_a_server_one_notice_is_logged_and_every_question_has_the_rule_result(without_model, caplog):
    with caplog.at_level(logging.WARNING, logger="crs_lib.realtalk"):
        without_model("http://127.0.0.1:9", "nothing")
    assert len([r for r in caplog.records if "no language model" in r.message]) == 1


@pytest.mark.parametrize("fault", ["prose", "empty", "cut", "noise", "broken", "drop", "500", "404"])
def test_a_server_that_misbehaves_leaves_every_question_the_rule_result_with_a_note(without_model, fault):
    with OllamaServer(faults=Faults(rate=1.0, kinds=[fault])) as server:
        without_model(server.url, "tiny", seeds=0)
        assert server.chats > 0


def test_a_second_run_with_a_model_sends_nothing_and_fewer_segments_are_fewer_calls(monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    asked = {"data": str(CHAT), "llm": "ollama:tiny", "questions": 1}
    with OllamaServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        first = study.predict(RealTalkConfig(run="first", **asked))
        sent = server.chats
        assert study.predict(RealTalkConfig(run="again", **asked)) == first
        assert server.chats == sent > 3
        study.predict(RealTalkConfig(run="few", segments=1, forms="selector=model", **asked))
        assert server.chats - sent == 1
    rows = [json.loads(line) for line in _calls("again")]
    assert len(rows) == len(_calls("first")) == sent
    assert all(row["cache_hit"] for row in rows)


def _calls(run):
    return (paths.run_folder("realtalk", run) / "llm_calls.jsonl").read_text().splitlines()


def test_prompts_ask_for_what_the_code_gives():
    for name in ("grade", "select", "answer"):
        assert sorted(prompts.wanted(f"realtalk/{name}")) == ["messages", "question"]
    assert sorted(prompts.wanted("realtalk/plan")) == ["question", "speakers"]
    assert sorted(prompts.wanted("realtalk/tell")) == ["phases", "question"]
    assert wording.KINDS[0] == "when"


def test_a_finished_run_has_its_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    refused("run 23_realtalk_evaluate -p run drawn", study.read, "drawn", "attribution", error=RunError)
    config = RealTalkConfig(run="drawn")
    study.predict(config)
    shown = study.evaluate(config)
    losses = study.read("drawn", "attribution")
    assert losses["ids"].tolist() == shown["attribution"]["ids"].tolist()
    assert set(losses["n_ids"]) == {shown["attribution"]["ids"].max()}
    rows = [text.get_text() for text in figures.make("realtalk_losses", losses).axes[0].get_yticklabels()]
    assert rows[0] == f"all, {losses['ids'].max()} ids"
    assert all(row.startswith("category ") for row in rows[1:])  # chats have no bar of their own


def test_a_trade_off_is_declared_beside_its_run_and_checked():
    declared = "precision -0.05 for recall +0.1"
    record("base", 0.5, precision=0.40)
    record("good", 0.6, precision=0.36, against="base", tradeoff=declared)
    record("dear", 0.7, precision=0.30, against="base", tradeoff=declared)
    record("poor", 0.55, precision=0.40, against="base", tradeoff=declared)
    record("lost", 0.55, precision=0.40, against="gone", tradeoff=declared)
    log = experiments.log().set_index("experiment_id")
    assert log["verdict"].to_dict() == {
        "base": "", "good": "kept", "dear": "broken", "poor": "broken", "lost": ""
    }  # fmt: skip
    assert log.loc["good", "tradeoff"] == declared


def test_the_windowed_selector_sees_its_segments_whole_and_may_name_what_no_search_found(built, offline):
    seen = {}
    for view in ("windowed", "preview"):
        llm = Scripted(selector='{"ids": []}')
        ask(built, llm, "selector", view=view)
        ids = [i for r in llm.asked for i in r.schema["properties"]["ids"]["items"]["enum"]]
        assert len(ids) == len(set(ids))
        seen[view] = {built.chat.position[i] for i in ids}
        assert all(len(r.messages[-1].content) < forms.WINDOW + 1500 for r in llm.asked)
    owners = list(dict.fromkeys(int(built.owner[p]) for p in offline.ranked))[:8]
    inside = {p for p in range(built.size) if int(built.owner[p]) in owners}
    assert seen["windowed"] == inside > seen["preview"]  # all of them, candidates or not
    starts = [built.segments[o].start for o in owners]
    assert all(min(p - s for s in starts if p >= s) < agent.PREVIEWED for p in seen["preview"])
    # what a segment is offered with may be chosen; it joins the candidates, so checkpoints stay nested
    segment = built.segments[int(built.owner[offline.ranked[0]])]
    lost = next(p for p in range(segment.start, segment.end) if p not in offline.candidates)
    found = ask(built, Scripted(selector=naming(built, lost)), "selector")
    assert lost in found.selected
    assert lost in found.reranked
    assert lost in found.candidates


def test_a_node_is_offered_with_all_of_its_ids_and_a_preview_of_eight_messages(built, offline):
    llm = Scripted(selector='{"ids": []}')
    ask(built, llm, "selector", view="preview+ids")
    best = dict.fromkeys(int(built.owner[position]) for position in offline.ranked)
    numbers = list(best)[:8]
    ids = []
    shown = []
    for request in llm.asked:
        ids += request.schema["properties"]["ids"]["items"]["enum"]
        for line in request.messages[-1].content.splitlines():
            if line.startswith("all_message_ids: "):
                shown.append(line.removeprefix("all_message_ids: ").split(", "))
    segments = [built.segments[number] for number in numbers]
    assert shown == [built.chat.ids(range(segment.start, segment.end)) for segment in segments]
    assert ids == list(itertools.chain.from_iterable(shown))
    messages = [line for request in llm.asked for line in request.messages[-1].content.splitlines()]
    previewed = sum(line.startswith("D") for line in messages)
    assert previewed == sum(min(8, segment.end - segment.start) for segment in segments)


def test_every_covered_segment_gives_an_id_by_rule_and_by_model(built, offline):
    owner = built.owner
    assert agent.covering([5], [5, 6, 0], np.array([0, 0, 0, 0, 0, 1, 2]), 2) == [5, 6]
    best = list(dict.fromkeys(int(owner[position]) for position in offline.ranked))[:4]
    ruled = agent.Agent(built, search.Hand(), RealTalkConfig(covered=4)).ask([QUESTION])[0]
    assert {int(owner[position]) for position in ruled.selected} >= set(best)
    form = forms.LLMForm(Scripted(selector=naming(built, offline.ranked[0])), RealTalkConfig(covered=4))
    config = RealTalkConfig(forms="selector=model")
    named = agent.Agent(built, search.Hand(), config, form).ask([QUESTION])[0]
    assert {int(owner[position]) for position in named.selected} >= set(best)


def test_a_model_titles_phases_and_says_what_they_came_to(built):
    def tell(request):
        n = request.schema["properties"]["titles"]["minItems"]
        return json.dumps({"titles": ["The lift"] * n, "conclusions": ["It was sold."] * n})

    answer = '{"answer": "the old lift", "found": true}'
    told = ask(built, Scripted(generator=answer, teller=tell), "generator").phases
    assert {(phase.title, phase.conclusion) for phase in told} == {("The lift", "It was sold.")}


def test_prompts_of_a_folder_take_the_place_of_the_shipped_ones(built, tmp_path):
    (tmp_path / "select.txt").write_text("MINE $messages")
    llm = Scripted(selector='{"ids": []}')
    config = RealTalkConfig(forms="selector=model", prompts=str(tmp_path))
    form = forms.LLMForm(llm, config)
    agent.Agent(built, search.Hand(), config, form).ask(["When is the wedding?"])
    assert llm.asked
    assert all(one.messages[-1].content.startswith("MINE") for one in llm.asked)
