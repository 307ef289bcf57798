import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import teach_ranker
from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk
from crs_lib.realtalk import agent, corpus, index, learning, scoring, search
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.describe import trace
from crs_lib.retrieval import encoders
from tests.helpers import refused
from tests.helpers.onnx_model import mean_of_tokens


def story(index, chosen, scores, bar, **limits):
    return agent.Story(index, scores, agent.Limits(bar, **limits)).tell(chosen)


def dump(records):
    """The records as bytes; the engine that ran the nodes is the only thing that may differ."""
    whole = [{**r, "made_with": {k: v for k, v in r["made_with"].items() if k != "engine"}} for r in records]
    return [json.dumps(r, sort_keys=True) for r in whole]


def test_a_fact_keeps_what_is_near_and_a_narrative_what_the_scores_call_for():
    ranked, scores = [5, 3, 8, 1], np.array([4.0, 2.6, 2.4, 1.0])
    assert agent.facts(ranked, scores, 1.5, 10) == [5, 3]  # 2.6 >= 4 - 1.5 > 2.4
    assert agent.facts(ranked, scores, 2.5, 10) == [5, 3, 8]  # 2.4 >= 4 - 2.5
    assert agent.facts(ranked, scores, 5.0, 10) == ranked
    assert agent.facts(ranked, scores, 9.0, 2) == [5, 3]
    assert agent.facts([], np.zeros(0), 1.5, 10) == []
    ranked = list(range(10))
    clear = np.array([9.0, 5, 4, 3, 2, 1, 1, 1, 1, 1])
    assert agent.narrative(ranked, clear, 1, 8, 1.0) == [0]  # e^0 holds over 99 % of all weight
    alike = np.zeros(10)
    assert agent.narrative(ranked, alike, 1, 9, 1.0) == ranked[:9]  # 99 % of ten equals are ten
    assert agent.narrative(ranked, alike, 1, 3, 1.0) == [0, 1, 2]
    assert agent.narrative(ranked, clear, 3, 8, 1.0) == [0, 1, 2]  # never less than the fact
    assert agent.narrative([], np.zeros(0), 0, 8, 1.0) == []
    falling = np.array([0.0, -2, -3])  # weights 1, e^-4, e^-6: 97.9 %, then 99.8 % of all
    assert agent.narrative([0, 1, 2], falling, 0, 30, 1.0) == [0, 1]
    owner, starts = np.array([0] * 6 + [1] * 4), [0, 6]
    assert agent.preview([5, 7, 0], owner, starts, 10) == [0, 7]  # 5 is the best, but sixth of its node


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30), st.integers(1, 30), st.floats(0.1, 5))
def test_a_narrative_is_the_start_of_the_ranking_within_its_bound(scores, most, unit):
    falling = np.array(sorted(scores, reverse=True))
    ranked = list(range(len(scores)))
    chosen = agent.narrative(ranked, falling, 0, most, unit)
    assert chosen == ranked[: len(chosen)]
    assert 1 <= len(chosen) <= most


def test_phases_are_in_order_grounded_and_inside_their_times(built):
    chosen = list(range(0, 300, 10))
    told = story(built, chosen, dict.fromkeys(chosen, 1.0), 0.5, least=1)
    assert [i for phase in told for i in phase.ids] == built.chat.ids(chosen)
    assert len(told) == 8
    for phase in told:
        times = [built.chat.messages[built.chat.position[i]].time.isoformat() for i in phase.ids]
        assert phase.start == min(times)
        assert phase.end == max(times)
        assert phase.uncertain == 0
        assert phase.summary.split(": ", 1)[1][:20] in " ".join(m.text for m in built.chat.messages)


def test_a_phase_ends_with_its_session_eight_are_the_most_and_their_cap_is_soft(make_chat):
    chat = make_chat(*[[("Ann", f"cat {i}"), ("Ben", f"dog {i}")] for i in range(10)])
    built = index.build(chat, "hashing")
    assert agent._cut(built, [0, 1, 4, 5, 6]) == [[0, 1], [4, 5], [6]]
    assert agent._cut(built, [2, 3]) == [[2, 3]]  # one session: one phase, however many messages
    assert agent._cut(built, [3]) == [[3]]
    assert agent._cut(built, []) == []
    parts = agent._cut(built, list(range(20)))
    assert len(parts) == 8
    assert [p for part in parts for p in part] == list(range(20))
    built = index.build(make_chat([("Ann", f"cat {i}") for i in range(5)]), "hashing")
    scores = {0: 5.0, 1: 4.0, 2: 0.1, 3: 3.0, 4: 0.2}
    (phase,) = story(built, [0, 1, 2, 3, 4], scores, bar=1.0, soft_cap=2)
    assert phase.ids == ("D1:1", "D1:2", "D1:4")  # three certain ones stay, two uncertain ones go
    assert phase.uncertain == 0


@pytest.mark.slow
def test_checkpoints_are_nested_lists_long_enough_and_two_runs_identical(built, told):
    for record in told:
        assert set(record["selected"]) <= set(record["ranked"][: record["kept"]]) <= set(record["candidates"])
        assert len(record["candidates"]) == built.size // 4
        assert len(record["ranked"]) == len(set(record["ranked"])) == 200
        assert 1 <= len(record["selected"]) <= 9
        inside = [i for phase in record["phases"] for i in phase["ids"]]
        assert len(inside) == len(set(inside)) <= 30
        assert set(inside) == set(record["narrative"])
        assert all(len(phase["ids"]) >= 3 and phase["conclusion"] for phase in record["phases"])
        assert len(record["scores"]) == record["kept"]
        assert record["scores"] == sorted(record["scores"], reverse=True)
    assert dump(list(agent.predict(index.build(built.chat, "hashing"), search.Hand()))) == dump(told)


@pytest.mark.slow
def test_kept_scores_change_no_byte_and_are_read_not_made(sample, monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_DATA", str(tmp_path))

    def lines():
        built = index.build(sample, "hashing")
        return [json.dumps(r) for r in agent.predict(built, search.Hand(), RealTalkConfig(questions=6))]

    made = lines()
    with monkeypatch.context() as patch:
        for owner, name in ((search, "_score"), (encoders, "max_sim")):
            patch.setattr(owner, name, lambda *_: pytest.fail("made again"))
        assert lines() == made
    kept = tmp_path / "processed" / "realtalk" / "scores.sqlite"
    kept.write_bytes(b"no database" * 1000)
    assert lines() == made
    assert kept.with_suffix(".damaged").is_file()


@pytest.mark.slow
def test_annotations_cannot_reach_predictions(sample, told):
    """Evidence and answers shuffled, event summaries gone: the same bytes."""
    shuffled = [
        type(q)(q.index, q.text, "something else", sample.questions[-i - 1].evidence, 1)
        for i, q in enumerate(sample.questions)
    ]
    other = type(sample)(sample.name, sample.schema, sample.speakers, sample.messages, tuple(shuffled), ())
    assert dump(agent.predict(index.build(other, "hashing"), search.Hand())) == dump(told)


def test_the_trace_names_every_visit_its_form_and_the_state_after_it(told):
    for record in told:
        visited = [entry["node"] for entry in record["trace"]]
        again = ["explorer", "retriever", "grader"] * (record["timings"]["rounds"] - 1)
        assert visited == ["planner", "retriever", "grader", *again, "selector", "generator"]
        assert {entry["form"] for entry in record["trace"]} == {"rule"}
        last = record["trace"][-1]
        assert last["answer"] == record["answer"]["text"]
        assert last["phases"] == len(record["phases"])
        assert record["trace"][-2]["selected"] == record["selected"]
        assert record["made_with"]["engine"].startswith("langgraph ")


def test_forms_are_named_node_by_node(built):
    assert set(agent.node_forms("auto", model=False).values()) == {"rule"}
    by = agent.node_forms("auto", model=True)
    assert [n for n, form in by.items() if form == "model"] == ["planner", "selector", "generator"]
    assert agent.node_forms("selector=model", model=True)["planner"] == "rule"
    every = agent.node_forms("model", model=True)
    assert {node for node, form in every.items() if form == "model"} == set(agent.WITH_A_MODEL)
    refused("'selectr=model' is no NODE=FORM", agent.node_forms, "selectr=model", model=True)
    with pytest.raises(InputError, match="no language model is named; give llm=SPEC"):
        agent.Agent(built, config=RealTalkConfig(forms="selector=model"))


def test_a_question_does_not_depend_on_the_others_and_has_a_limit(built, told, monkeypatch):
    pipeline = agent.Agent(built)
    (alone,) = pipeline.ask([built.chat.questions[6].text])
    assert built.chat.ids(alone.ranked) == told[6]["ranked"]
    limit = r"has 50,001, the limit is 50,000 characters .* CRS_MOST_QUESTION_CHARACTERS=50001"
    refused(limit, pipeline.ask, ["x" * 50_001])
    assert len(pipeline.ask(["Where did Mira " + "and Tobias " * 400 + "go?"])) == 1


def test_lists_go_back_to_retrieval(built, monkeypatch):
    questions = ["What sounds does Tobias record?", "When is the wedding?"]
    rounds = [one.rounds for one in agent.Agent(built).ask(questions)]
    assert 2 <= rounds[0] <= 3
    assert rounds[1] == 1
    monkeypatch.setattr(agent, "ROUNDS", 2)
    assert [one.rounds for one in agent.Agent(built).ask(questions)] == [2, 1]


@pytest.mark.slow
def test_the_new_selection_finds_more_than_the_old_preview(sample, built, told):
    old = list(agent.predict(built, search.Hand(), RealTalkConfig(selection="preview")))
    assert [r["candidates"] for r in old] == [r["candidates"] for r in told]
    new = list(agent.predict(built, search.Hand(), RealTalkConfig(single=1.5)))
    new_recall, old_recall = (scoring.questions(r, [sample], "valid")["recall"].mean() for r in (new, old))
    assert new_recall > old_recall
    assert sum(len(r["selected"]) for r in new) < sum(len(r["selected"]) for r in old)


def test_attribution_sums_to_the_gold_ids(sample, told):
    rows = scoring.questions(told, [sample], "valid")
    table = scoring.attribution(rows, "category", "chat")
    ends = ["unresolvable", "lost at candidates", "lost at reranking", "lost at selection", "kept"]
    parts = table[ends].sum(axis=1)
    assert parts.tolist() == table["ids"].tolist()
    assert table["ids"].iloc[0] == 67 + 2
    assert table[table["by"] == "category"]["ids"].sum() == table["ids"].iloc[0]
    sets = scoring.means(rows, ("recall", "precision", "size")).round(3)  # by the default reach
    assert sets.iloc[0, 1:].tolist() == [37, 2, 0.444, 0.279, 3.757]  # without gold: excluded and counted
    assert rows.loc[rows["gold"] == 0, "recall"].isna().all()


def test_predictions_round_trip_and_unknown_ids_are_refused(sample, told, tmp_path):
    path = tmp_path / "p.jsonl"
    assert tables.write_jsonl(path, told) == len(sample.questions)
    assert dump(scoring.read(path, [sample])) == dump(told)
    tables.write_jsonl(path, [{**told[0], "selected": ["D99:1"]}])
    refused(r"line 1: .* has no message 'D99:1'", scoring.read, path, [sample])
    tables.write_jsonl(path, [{"chat": sample.name}])
    refused(r"keys .* are missing", scoring.read, path, [sample])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["Ann", "Ben", ""]), st.text(max_size=20)), min_size=1, max_size=8),
    st.text(min_size=1, max_size=30),
)
@pytest.mark.slow
def test_any_chat_and_question_get_an_answer(messages, question):
    entries = [{"clean_text": t, "speaker": s, "dia_id": f"D1:{i}"} for i, (s, t) in enumerate(messages)]
    chat = corpus.parse_chat({"session_1": entries, "qa": [{"question": question}]}, "c")
    records = list(agent.predict(index.build(chat, "hashing"), search.Hand()))
    assert len(records) == (1 if question.strip() else 0)
    for record in records:
        assert set(record["selected"]) <= set(chat.position)


def test_a_trace_names_every_gold_message_and_where_it_ends(sample, told):
    rows = trace(sample, told[4])
    assert rows["id"].tolist() == ["D5:1", "D10:1", "D10:3"]
    assert (rows["kept"] == (rows["bucket"] == "kept")).all()
    assert set(rows["bucket"]) <= {
        "kept", "lost at selection", "lost at reranking", "lost at candidates",
    }  # fmt: skip


@pytest.mark.slow
def test_a_learned_ranker_prefers_what_was_gold_and_is_cached(tmp_path):
    pytest.importorskip("lightgbm")
    groups, _, rows, scores = learned_twice(tmp_path)
    assert np.corrcoef(scores, rows[:, 7] > 1.2)[0, 1] > 0.7
    assert len(list(tmp_path.glob("*.json"))) == 1
    with pytest.raises(InputError, match="no training question"):
        learning.learn([groups[0]._replace(gold=np.zeros(40, np.int8))], "", tmp_path)


def made_up_groups(rng, count=60):
    for _ in range(count):
        rows = rng.normal(size=(40, len(search.NAMES))).astype(np.float32)
        yield learning.TrainingQuestion(rows, (rows[:, 7] > 1.2).astype(np.int8))


def learned_twice(folder):
    """A ranker learnt from made-up groups, again from its cache, and what both score."""
    rng = np.random.default_rng(0)
    groups = list(made_up_groups(rng))
    found, again = (learning.learn(groups, "made up", folder) for _ in range(2))
    rows = rng.normal(size=(300, len(search.NAMES))).astype(np.float32)
    scores = found.score(rows, np.zeros(300, np.float32))
    assert np.array_equal(again.score(rows, np.zeros(300, np.float32)), scores)
    return groups, found, rows, scores


def test_without_lightgbm_what_is_learnt_is_linear_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "has_trees", lambda: False)
    groups, found, rows, scores = learned_twice(tmp_path)
    assert (found.name, found.origin) == ("linear", "made up")
    assert np.corrcoef(scores, rows[:, 7])[0, 1] > 0.7
    # scikit-learn's own probabilities on the same features
    from sklearn.linear_model import LogisticRegression

    x = np.concatenate([g.features for g in groups]).astype(np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    clipped = np.clip((x - mean) / scale, -4, 4)
    gold = np.concatenate([g.gold for g in groups])
    model = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000).fit(clipped, gold)
    assert np.allclose(scores, model.decision_function(np.clip((rows - mean) / scale, -4, 4)), atol=1e-2)
    # one huge feature counts four deviations and no more
    width = len(search.NAMES)
    linear = search.LinearModel(np.zeros(width), np.ones(width), np.eye(width)[3], 0.0)
    huge = np.zeros((3, width), np.float32)
    huge[:, 3] = [2, 4, 20_000]
    assert search.Learned(linear, (), "").score(huge, huge).tolist() == [2, 4, 4]


def test_the_shipped_ranker_serves_new_chats_and_never_its_teachers(sample, monkeypatch, tmp_path):
    monkeypatch.setattr(search, "SHIPPED", tmp_path / "rankers.json.gz")
    assert search.shipped("hashing") is None
    groups = list(made_up_groups(np.random.default_rng(0)))
    record = {"features": search.features_key(), "origin": "made up", "sketches": [sample.sketch]}
    record["rankers"] = {"hashing": learning.fit(groups, (0,))}
    search.SHIPPED.write_bytes(gzip.compress(json.dumps(record).encode()))
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    chat = type(sample)("new", sample.schema, sample.speakers, sample.messages[:10], (), ())
    assert learning.choose_ranker("auto", index.build(chat, "hashing")).origin == "no training data"
    assert learning.choose_ranker("auto", index.build(sample, "hashing")).origin == "no training data"
    said = {"clean_text": "quite another talk about kites", "speaker": "A", "dia_id": "D1:1"}
    other = corpus.parse_chat({"session_1": [said]}, "o")
    found = learning.choose_ranker("auto", index.build(other, "hashing"))
    assert found.origin == "made up"
    assert search.shipped("minilm") is None
    monkeypatch.setattr(search, "features_key", lambda: "changed")
    assert search.shipped("hashing") is None


def test_what_ships_fits_the_features_and_holds_no_text():
    for encoder in index.STUDIED:
        found = search.shipped(encoder)
        assert found is not None
        assert len(found.sketches) == 7
        rows = np.zeros((3, len(search.NAMES)), np.float32)
        assert found.ranker.score(rows, np.zeros(3, np.float32)).shape == (3,)
    record = json.loads(gzip.decompress(search.SHIPPED.read_bytes()))
    assert set(record) == {"features", "origin", "rankers", "sketches"}
    assert all(isinstance(n, int) for sketch in record["sketches"] for n in sketch)


def test_a_chat_is_recognised_though_changed_and_never_teaches_its_own_ranker(sample, make_chat):
    half = type(sample)("half", sample.schema, sample.speakers, sample.messages[:160], (), ())
    assert learning.same_talk(half, sample)
    assert learning.same_talk(sample, half)
    assert not learning.same_talk(make_chat([("Ann", "a talk about something else entirely")]), sample)
    loud = make_chat([(m.speaker, f" {m.text.upper()} !") for m in sample.messages])
    assert learning.same_talk(loud, sample)
    renamed = type(sample)("other", sample.schema, sample.speakers, sample.messages, (), ())
    assert learning.for_chat(renamed, [sample], lambda c: pytest.fail("must not be indexed")).name == "hand"


def test_without_training_data_the_hand_order_is_taken_and_said(built, monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    assert learning.choose_ranker("auto", built).origin == "no training data"
    refused(
        "no training chats" if search.has_trees() else "LightGBM", learning.choose_ranker, "learned", built
    )


@pytest.mark.slow
def test_teaching_makes_a_ranker_that_knows_its_teachers_again(sample, monkeypatch, tmp_path):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(search, "SHIPPED", tmp_path / "rankers.json.gz")
    record = teach_ranker.teach([sample], ["hashing"])
    search.SHIPPED.write_bytes(gzip.compress(json.dumps(record).encode()))
    found = search.shipped("hashing")
    assert found is not None
    assert found.ranker.origin == record["origin"]
    assert sample.name in record["origin"]
    assert corpus.resembles(replace(sample, messages=sample.messages[:40]).sketch, found.sketches[0])


def test_small_phases_are_filled_from_their_segments_and_sessions_and_else_joined(make_chat):
    chat = make_chat(*[[("Ann", f"cat {i} {k}") for k in range(4)] for i in range(3)])
    built = index.build(chat, "hashing")
    scores = {0: 5.0, 4: 4.0, 1: 1.0, 2: 3.0, 8: 2.0}  # of the second session only one is a candidate
    told = story(built, [0, 4, 8], scores, bar=0.0)
    assert [phase.ids for phase in told] == [("D1:1", "D1:2", "D1:3", "D2:1", "D3:1")]
    scores |= dict.fromkeys((5, 7, 9, 10, 11), 0.5)
    told = story(built, [0, 4, 8], scores, bar=0.0)
    assert [phase.ids for phase in told] == [
        ("D1:1", "D1:2", "D1:3"), ("D2:1", "D2:2", "D2:4"), ("D3:1", "D3:2", "D3:3")
    ]  # fmt: skip
    few = story(built, [0, 4, 8], scores, bar=0.0, most=5)  # no room for all nine
    assert sum(len(phase.ids) for phase in few) == 5
    assert story(built, [0], {0: 1.0}, bar=0.0)[0].ids == ("D1:1",)  # there is no more


def test_every_covered_segment_keeps_an_id_under_the_cap():
    class Four:
        owner = np.array([0, 0, 0, 1, 2])

    scores = {0: 9.0, 1: 8.0, 2: 7.0, 3: 0.1, 4: 0.2}
    for bar, kept in ((8.5, [0, 3, 4]), (7.5, [0, 1, 3, 4])):  # 1 by the margin
        told = agent.Story(Four, scores, agent.Limits(bar, soft_cap=3))
        assert told.capped([0, 1, 2, 3, 4]) == kept


def test_a_cross_encoder_in_onnx_ranks_the_candidates(built, tmp_path):
    """Its one logit orders them: here the mean number of a pair's tokens, of texts that say "lift" the highest."""
    made = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    words = made.Tokenizer(made.models.WordLevel({"[UNK]": 0, "lift": 900}, unk_token="[UNK]"))
    words.pre_tokenizer = made.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(mean_of_tokens())
    config = RealTalkConfig(ranker=f"onnx:{tmp_path}", window=1, nodes=2)
    found = learning.choose_ranker(config.ranker, built)
    assert found.score(None, None, "a b", ["lift c", "c"]).tolist() == [225.0, 0.0]
    (told,) = agent.Agent(built, found, config).ask(["What sounds does Tobias record?"])
    assert "lift" in built.chat.messages[told.ranked[0]].text
    assert told.scores[0] > told.scores[-1]
    assert len({int(built.owner[place]) for place in told.selected}) <= 2  # the node limit


def test_a_chat_without_times_says_so_and_is_less_sure(make_chat, tmp_path, capsys):
    said = [("Ann", "I bought a red bicycle at the market."), ("Ben", "Lovely, I baked two loaves of bread.")]
    timed = make_chat(said)
    untimed = replace(timed, quirks=tuple(Quirk("broken time", ("session_1",), "kept") for _ in range(2)))
    assert timed.time_note == ""
    assert untimed.time_note.startswith("times: 0 of 2 messages of Chat_1_Ann_Ben")
    for question, share in {"When did Ann buy the bicycle?": 0.0, "What did Ben bake?": 0.5}.items():
        sure = {}
        for chat in (timed, untimed):
            built = index.build(
                replace(chat, questions=(corpus.ChatQuestion(0, question, None, (), 0),)), "hashing"
            )
            (record,) = agent.predict(built, search.Hand())
            sure[chat is timed] = agent.confidence(built, record)
        assert sure[False] == pytest.approx(share * sure[True])
