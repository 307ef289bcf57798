import argparse
import json
import logging

import pytest

from crs_lib import prompts, runs
from crs_lib.cli import realtalk
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.realtalk import compare, experiments, plan, predictions, query, ranker, stages
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.llm_advice import LLMAdvice, judge_answer


def record(run, recall, **asked):
    """A finished evaluation as the stage would leave it."""
    config = RealTalkConfig(run=run, **asked)
    with runs.stage("realtalk", run, "evaluate", stages._asked(config)) as stage:
        stage.counts.update({"recall": recall, "n": 10, "split": config.split, "repeated": False})


def test_a_run_goes_from_corpus_to_log(tmp_path):
    config = RealTalkConfig(run="r")
    shown = stages.describe_corpus(config)
    assert shown["evidence"].set_index("reading")["ids"].to_dict() == {
        "strict": 62,
        "valid": 67,
        "repaired": 68,
    }
    stages.predict(config)
    scored = stages.evaluate(config)
    folder = paths.run_folder("realtalk", "r")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["stages"]) == {"corpus", "query", "evaluate"}
    log = experiments.log()
    assert log["experiment_id"].tolist() == ["r"] and log["config_changes"].tolist() == ["defaults"]
    assert log["recall"].iloc[0] == pytest.approx(scored["summary"]["recall"].iloc[0])
    assert log[["train_recall", "test_recall"]].isna().all().all()  # the sample is neither
    written = tables.read_table(paths.results() / "realtalk" / "experiments.csv", experiments_contract())
    assert len(written) == 1


def experiments_contract():
    return tables.Contract("experiments.csv", experiments.COLUMNS, ("experiment_id",))


def test_predictions_on_disk_are_the_same_bytes_twice():
    for run in ("a", "b"):
        stages.predict(RealTalkConfig(run=run))
    one, two = (paths.run_folder("realtalk", r) / "predictions.jsonl" for r in ("a", "b"))
    assert one.read_bytes() == two.read_bytes()


def test_scores_need_predictions_first():
    with pytest.raises(RunError, match="22_realtalk_query"):
        stages.evaluate(RealTalkConfig(run="empty"))


def test_recall_stands_under_its_own_split_and_the_best_is_chosen_on_train():
    record("one", 0.5, data="realtalk", split="train", keep=30)
    record("two", 0.6, data="realtalk", split="train", encoder="minilm")
    record("three", 0.9, data="realtalk", split="test", final=True)
    log = experiments.log().set_index("experiment_id")
    assert log.loc["one", "train_recall"] == 0.5 and log["test_recall"].notna().sum() == 1
    assert log.loc["one", "config_changes"] == "data=realtalk keep=30"
    assert experiments.best(experiments.log())["experiment_id"] == "two"


def test_the_test_split_is_scored_once_and_only_on_purpose():
    levers = RealTalkConfig(data="realtalk", split="test").levers()
    check = experiments.check_test_split
    with pytest.raises(RunError, match="final=true"):
        check("realtalk", "test", levers, final=False, force=False)
    with pytest.raises(RunError, match="final=true"):
        check("realtalk", "all", levers, final=False, force=False)
    assert check("realtalk", "train", levers, final=False, force=False) is False
    assert check("realtalk", "test", levers, final=True, force=False) is False
    record("first", 0.5, data="realtalk", split="test", final=True)
    with pytest.raises(RunError, match=r"already scored .*run 'first'"):
        check("realtalk", "test", levers, final=True, force=False)
    assert check("realtalk", "test", levers, final=True, force=True) is True  # marked as repeated
    other = RealTalkConfig(data="realtalk", split="test", keep=20).levers()
    assert check("realtalk", "test", other, final=True, force=False) is False


def test_test_chats_are_known_by_name_wherever_they_lie(make_chat):
    assert experiments.is_test([make_chat([("Ann", "a")], name="Chat_9_Ann_Ben")])
    assert not experiments.is_test([make_chat([("Ann", "a")], name="Chat_3_Ann_Ben")])


def test_scoring_a_test_chat_from_another_folder_is_refused_too(tmp_path):
    chat = {
        "session_1": [{"clean_text": "I ski", "speaker": "Ann", "dia_id": "D1:1"}],
        "qa": [{"question": "Does Ann ski?", "evidence": ["D1:1"]}],
    }
    (tmp_path / "Chat_8_Ann_Ben.json").write_text(json.dumps(chat))
    config = RealTalkConfig(run="sneaky", data=str(tmp_path))
    stages.predict(config)
    with pytest.raises(RunError, match="test split"):
        stages.evaluate(config)


@pytest.mark.parametrize(
    "wrong", [{"split": "dev"}, {"reading": "loose"}, {"encoder": "bert"}, {"ranker": "x"}, {"mode": "y"}]
)
def test_config_says_what_was_expected(wrong):
    with pytest.raises(InputError, match=rf"{next(iter(wrong))} is .*; give "):
        RealTalkConfig(**wrong)


def run_cli(function, *arguments):
    parser = argparse.ArgumentParser()
    function(parser)
    chosen = parser.parse_args(list(arguments))
    chosen.do(chosen)


def test_predict_command_reports_what_is_broken_and_answers_all_the_same(tmp_path, capsys):
    message = {"clean_text": "I ski in the Alps", "speaker": "Ann", "dia_id": "D1:1", "date_time": "never"}
    chat = {
        "session_1": [message, message, {**message, "dia_id": "D1:2", "speaker": "Eve", "clean_text": ""}],
        "name": {"speaker_1": "Ann", "speaker_2": "Ben"},
        "qa": [
            {"question": "Where does Ann ski?"},
            {"question": "Who?", "answer": "x", "evidence": ["D77:1", ""]},
        ],
    }
    source, out = tmp_path / "any name.json", tmp_path / "out.jsonl"
    source.write_text(json.dumps(chat))
    run_cli(
        realtalk.predict, "--chat", str(source), "--out", str(out), "--encoder", "hashing", "--ranker", "hand"
    )
    said = capsys.readouterr().out
    for kind in ("broken time: 2", "duplicate id: 1", "empty text: 1", "unknown speaker: 1"):
        assert kind in said
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["qa_index"] for line in lines] == [0, 1] and lines[0]["ranked"][0] == "D1:1"
    assert set(predictions.KEYS) <= set(lines[0])


@pytest.mark.parametrize("qa", [[], [{"question": "Where does Ann ski?", "evidence": ["D77:1"]}]])
def test_a_chat_without_evidence_is_answered_and_not_scored(tmp_path, qa):
    message = {"clean_text": "I ski", "speaker": "Ann", "dia_id": "D1:1", "date_time": "01.01.2024, 10:00:00"}
    chat = {"session_1": [message], "name": {"speaker_1": "Ann", "speaker_2": "Ben"}, "qa": qa}
    source = tmp_path / "own.json"
    source.write_text(json.dumps(chat))
    config = RealTalkConfig(run="own", data=str(source))
    assert len(stages.predict(config)) == len(qa)
    with pytest.raises(InputError, match="has evidence that exists in its chat"):
        stages.evaluate(config)
    with pytest.raises(InputError, match="nothing to score"):
        compare.table(config, "keep", [20])


def test_a_value_of_another_type_is_named_with_its_lever():
    with pytest.raises(InputError, match="keep is .many.; give a whole number >= 1"):
        run_cli(realtalk.compare, "keep", "20", "many", "--data", "sample")


@pytest.mark.parametrize(
    "encoder, ranked_by, given, told",
    [
        ("minilm", "learned", "auto", []),
        ("hashing", "hand", "auto", ["MiniLM is not installed", "set CRS_MIRROR"]),
        ("minilm", "linear", "auto", ["LightGBM is not installed"]),
        ("hashing", "hand", "hand", []),
    ],
)
def test_what_auto_fell_back_to_is_said_with_the_way_out(encoder, ranked_by, given, told):
    asked = argparse.Namespace(encoder="hashing" if given == "hand" else "auto", ranker=given)
    first, *hints = realtalk.made_with(encoder, [ranked_by], asked)
    assert first == f"encoder: {encoder}; ranker: {ranked_by}"
    assert len(hints) == len(told) and all(word in hint for word, hint in zip(told, hints, strict=True))


def test_evaluate_command_prints_its_figures(capsys):
    run_cli(realtalk.evaluate, "--data", "sample", "--encoder", "hashing", "--ranker", "hand", "--run", "x")
    said = capsys.readouterr().out
    assert "reading 'valid'" in said and "Where gold ids end" in said and "ARC" in said
    with pytest.raises(RunError, match="final=true"):
        run_cli(realtalk.evaluate, "--test-only")


# ── language models ──────────────────────────────────────────────────────────────────────────────────


class Scripted:
    """Answers each role with a fixed text, or raises."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def complete(self, request):
        from crs_lib.llm import Reply

        self.asked.append(request)
        answer = self.answers[request.role.split()[-1]]
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)


def ask(built, llm, question="What sounds does Tobias record?"):
    return query.Pipeline(built, ranker.Hand(), advice=LLMAdvice(llm)).ask([question])[0]


def test_a_grader_sees_every_id_whole_and_decides_the_order(built):
    llm = Scripted({"planner": "{}", "grader": '{"ids": ["D99:9", "%s"]}', "generator": "{}"})
    offline = query.Pipeline(built, ranker.Hand()).ask(["What sounds does Tobias record?"])[0]
    wanted = built.chat.messages[offline.ranked[20]].id
    llm.answers["grader"] = json.dumps({"ids": ["D99:9", wanted, wanted]})
    found = ask(built, llm)
    assert built.chat.messages[found.ranked[0]].id == wanted  # an id that was not shown is ignored
    assert set(found.ranked) == set(offline.ranked)
    prompt = next(r for r in llm.asked if r.role == "realtalk grader").messages[-1].content
    shown = [m.id for m in built.chat.messages if f"\n{m.id} | " in prompt or prompt.count(f"{m.id} | ")]
    assert len(shown) >= 30


def test_a_planner_may_change_the_wording_and_not_the_people(built):
    said = json.dumps({"kind": "list", "statement": "I recorded the old lift", "several": True})
    found = ask(built, Scripted({"planner": said, "grader": "{}", "generator": "{}"}))
    assert found.plan.first_person == "I recorded the old lift" and found.plan.speakers == ("Tobias",)


def test_a_generator_titles_phases_and_keeps_their_ids(built):
    quiet = ask(built, Scripted({"planner": "{}", "grader": "{}", "generator": "{}"}))
    texts = [{"title": f"t{i}", "summary": "s"} for i in range(len(quiet.phases))]
    found = ask(
        built, Scripted({"planner": "{}", "grader": "{}", "generator": json.dumps({"phases": texts})})
    )
    assert [p.title for p in found.phases] == [t["title"] for t in texts]
    assert [p.ids for p in found.phases] == [p.ids for p in quiet.phases]


@pytest.mark.parametrize(
    "junk", ["", "not json", "[]", '{"ids": 3}', '{"ids": [null, {}]}', '{"phases": [1]}']
)
def test_unreadable_replies_leave_the_offline_result(built, junk):
    offline = query.Pipeline(built, ranker.Hand()).ask(["What sounds does Tobias record?"])[0]
    found = ask(built, Scripted({"planner": junk, "grader": junk, "generator": junk}))
    assert (found.ranked, found.selected, found.phases) == (offline.ranked, offline.selected, offline.phases)


def test_without_a_server_one_notice_is_logged_and_the_offline_result_stands(built, caplog):
    from crs_lib.llm import LLM, LLMError, Retry

    assert issubclass(LLMError, Exception)
    offline = query.Pipeline(built, ranker.Hand()).ask(["When is the wedding?", "How old is Tobias?"])
    llm = LLM("ollama:nothing", host="http://127.0.0.1:9", retry=Retry(waits=0, first=0.0))
    with caplog.at_level(logging.WARNING, logger="crs_lib.realtalk"):
        found = query.Pipeline(built, ranker.Hand(), advice=LLMAdvice(llm)).ask(
            ["When is the wedding?", "How old is Tobias?"]
        )
    assert [r.ranked for r in found] == [r.ranked for r in offline]
    assert len([r for r in caplog.records if "no language model" in r.message]) == 1


def test_an_answer_judge_says_yes_no_or_nothing():
    for text, verdict in (
        ('{"same": true}', True),
        ('{"same": false}', False),
        ("maybe", None),
        ('{"same": 1}', None),
    ):
        assert judge_answer(Scripted({"judge": text}), "q?", "a", "b") is verdict


def test_prompts_ask_for_what_the_code_gives():
    assert sorted(prompts.wanted("realtalk/grade")) == ["messages", "question"]
    assert sorted(prompts.wanted("realtalk/plan")) == ["question", "speakers"]
    assert sorted(prompts.wanted("realtalk/tell")) == ["phases", "question"]
    assert plan.KINDS[0] == "when"
