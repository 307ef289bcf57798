"""A question's way: selection, phases, predictions, rankers."""

import gzip
import json
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import teach_ranker
from crs_lib.core import tables
from crs_lib.data.logs import Quirk
from crs_lib.metrics import evidence
from crs_lib.realtalk import agent, corpus, describe, index, learning, scoring, search
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.index import TopicSegment
from crs_lib.retrieval import encoders
from tests.helpers import refused, table
from tests.helpers.onnx_model import mean_of_tokens

WIDTH = len(search.NAMES)


def story(built, chosen, scores, bar=0.0, **limits):
    """The ids of each phase."""
    teller = agent.Story(built, scores, agent.Limits(bar, **limits))
    return [phase.ids for phase in teller.tell(chosen)]


def ids_of(phases):
    """The ids of some phases in one list."""
    return list(chain.from_iterable(phases))


def five_messages(make_chat):
    talk = [("Ann", f"cat {i}") for i in range(5)]
    return index.build(make_chat(talk), "hashing")


def answered(built, **settings):
    """The predictions of the hand order under these settings."""
    return list(agent.predict(built, search.Hand(), RealTalkConfig(**settings)))


def dump(records):
    """The records as lines of JSON."""
    return [json.dumps(record, sort_keys=True) for record in records]


# ── selection and phases ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("reach", "most", "fact"), table(__file__, "reaches"))
def test_a_fact_keeps_what_is_near(reach, most, fact):
    scores = np.array([4.0, 2.6, 2.4, 1.0])
    assert agent.facts([5, 3, 8, 1], scores, reach, most) == fact
    assert agent.facts([], np.zeros(0), reach, most) == []


@pytest.mark.parametrize(("scores", "least", "most", "size"), table(__file__, "narratives"))
def test_a_narrative_keeps_what_the_scores_call_for(scores, least, most, size):
    ranked = list(range(len(scores)))
    chosen = agent.narrative(ranked, np.array(scores, float), least, most, 1.0)
    assert chosen == ranked[:size]


SCORES = st.lists(st.floats(-20, 20), min_size=1, max_size=30)


@given(SCORES, st.integers(1, 30), st.floats(0.1, 5))
def test_a_narrative_is_the_start_of_the_ranking_within_its_bound(scores, most, unit):
    falling = np.array(sorted(scores, reverse=True))
    ranked = list(range(len(scores)))
    chosen = agent.narrative(ranked, falling, 0, most, unit)
    assert chosen == ranked[: len(chosen)]
    assert 1 <= len(chosen) <= most


def test_the_old_preview_sees_three_messages_of_a_segment_and_none_of_the_next():
    segments = []
    for start, end in ((0, 6), (6, 8), (8, 12)):
        segments.append(TopicSegment(start, end, 1, ()))
    owner = np.repeat([0, 1, 2], [6, 2, 4])
    deep = agent.preview([5, 7, 0], owner, segments, 10)
    assert deep == [0, 7]  # 5 is the sixth of its segment
    short = agent.preview([5, 6, 7, 8, 9], owner, segments, 10)
    assert short == [6, 7, 8, 9]


def test_every_covered_segment_gives_its_best_message():
    owner = np.array([0, 0, 1, 2])
    ranked = [1, 2, 0, 3]
    assert agent.covering([1], ranked, owner, 2) == [1, 2]
    assert agent.covering([1], ranked, owner, 0) == [1]


def test_phases_are_in_order_grounded_and_inside_their_times(built):
    chosen = list(range(0, 300, 10))
    scores = {position: 1.0 - position / 1000 for position in chosen}
    limits = agent.Limits(0.0, least=1)
    phases = agent.Story(built, scores, limits).tell(chosen)
    assert built.chat.positions(ids_of(phase.ids for phase in phases)) == chosen
    assert len(phases) <= 8
    for phase in phases:
        messages = built.chat.at(built.chat.positions(phase.ids))
        times = [message.time.isoformat() for message in messages]
        assert phase.start == min(times)
        assert phase.end == max(times)
        assert phase.title
        assert phase.summary


def ten_sessions(make_chat):
    sessions = [[("Ann", f"cat {i}"), ("Ben", f"dog {i}")] for i in range(10)]
    return index.build(make_chat(*sessions), "hashing")


@pytest.mark.parametrize(("chosen", "phases"), table(__file__, "phases"))
def test_a_phase_ends_with_its_session(make_chat, chosen, phases):
    scores = dict.fromkeys(chosen, 1.0)
    parts = story(ten_sessions(make_chat), chosen, scores, least=1)
    assert list(map(list, parts)) == phases


def test_eight_phases_are_the_most(make_chat):
    positions = list(range(20))
    scores = dict.fromkeys(positions, 1.0)
    phases = story(ten_sessions(make_chat), positions, scores, least=1)
    assert len(phases) == 8
    assert len(ids_of(phases)) == 20


def test_uncertain_messages_beyond_the_cap_go(make_chat):
    scores = {0: 5.0, 1: 4.0, 2: 0.1, 3: 3.0, 4: 0.2}
    limits = agent.Limits(1.0, soft_cap=2)
    (phase,) = agent.Story(five_messages(make_chat), scores, limits).tell(scores)
    assert phase.ids == ("D1:1", "D1:2", "D1:4")  # three certain ones stay, two uncertain ones go
    assert phase.uncertain == 0


def test_every_covered_segment_of_a_phase_keeps_an_id_under_the_cap(make_chat):
    built = five_messages(make_chat)
    built.__dict__["owner"] = np.array([0, 0, 0, 1, 2])
    scores = {0: 9.0, 1: 8.0, 2: 7.0, 3: 0.1, 4: 0.2}
    (phase,) = story(built, scores, scores, 8.5, soft_cap=3)
    assert phase == ("D1:1", "D1:4", "D1:5")
    (by_margin,) = story(built, scores, scores, 7.5, soft_cap=3)
    assert by_margin == ("D1:1", "D1:2", "D1:4", "D1:5")


def test_small_phases_are_filled_from_their_segments_and_sessions_and_else_joined(make_chat):
    sessions = []
    for i in range(3):
        sessions.append([("Ann", f"cat {i} {k}") for k in range(4)])
    built = index.build(make_chat(*sessions), "hashing")
    scores = {0: 5.0, 4: 4.0, 1: 1.0, 2: 3.0, 8: 2.0}  # of the second session only one is a candidate
    chosen = [0, 4, 8]
    (joined,) = story(built, chosen, scores)
    assert joined == ("D1:1", "D1:2", "D1:3", "D2:1", "D3:1")
    assert story(built, [0], {0: 1.0}) == [("D1:1",)]  # there is no more
    scores |= dict.fromkeys((5, 7, 9, 10, 11), 0.5)
    first, second, third = story(built, chosen, scores)
    assert first == ("D1:1", "D1:2", "D1:3")
    assert second == ("D2:1", "D2:2", "D2:4")
    assert third == ("D3:1", "D3:2", "D3:3")
    few = story(built, chosen, scores, most=5)  # no room for all nine
    assert len(ids_of(few)) == 5


# ── predictions ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_checkpoints_are_nested_and_lists_long_enough(built, predictions):
    for record in predictions:
        ranked = record["ranked"]
        selected = record["selected"]
        candidates = record["candidates"]
        scores = record["scores"]
        reranked = set(ranked[: record["kept"]])
        assert set(selected) <= reranked
        assert reranked <= set(candidates)
        assert len(candidates) == built.size // 4
        assert len(ranked) == 200
        assert len(set(ranked)) == 200
        assert 1 <= len(selected) <= 9
        assert len(scores) == record["kept"]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_narratives_are_told_in_phases_of_three_or_more(predictions):
    for record in predictions:
        ids = ids_of(phase["ids"] for phase in record["phases"])
        assert len(ids) <= 30
        assert len(set(ids)) == len(ids)
        assert set(ids) == set(record["narrative"])
        for phase in record["phases"]:
            assert len(phase["ids"]) >= 3
            assert phase["conclusion"]


@pytest.mark.slow
def test_stored_scores_change_no_byte_and_are_read_not_made(sample, monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_DATA", str(tmp_path))

    def lines():
        built = index.build(sample, "hashing")
        return dump(answered(built, questions=6))

    first = lines()
    with monkeypatch.context() as patch:
        patch.setattr(encoders, "best_matches", lambda *_: pytest.fail("made again"))
        assert lines() == first
    store = tmp_path / "processed" / "realtalk" / "scores.sqlite"
    store.write_bytes(b"no database" * 1000)
    assert lines() == first
    assert store.with_suffix(".damaged").is_file()


def test_annotations_cannot_reach_predictions(sample, predictions):
    """Evidence and answers shuffled: the same bytes."""
    questions = []
    for question, other in zip(sample.questions, reversed(sample.questions), strict=True):
        changed = replace(question, answer="something else", evidence=other.evidence, category=1)
        questions.append(changed)
    shuffled = replace(sample, questions=tuple(questions))
    again = answered(index.build(shuffled, "hashing"))
    assert dump(again) == dump(predictions)


def test_the_trace_names_every_visit_its_form_and_the_state_after_it(predictions):
    for record in predictions:
        trace = record["trace"]
        nodes = [entry["node"] for entry in trace]
        n_more = record["timings"]["rounds"] - 1
        again = ["explorer", "retriever", "grader"] * n_more
        assert nodes == ["planner", "retriever", "grader", *again, "selector", "generator"]
        for entry in trace:
            assert entry["form"] == "rule"
        *_, selector, generator = trace
        assert selector["selected"] == record["selected"]
        assert generator["answer"] == record["answer"]["text"]
        assert generator["phases"] == len(record["phases"])
        assert record["made_with"]["engine"].startswith("langgraph ")


@pytest.mark.parametrize(("text", "model", "nodes"), table(__file__, "forms"))
def test_forms_are_named_node_by_node(text, model, nodes):
    forms = agent.node_forms(text, model)
    assert [node for node, form in forms.items() if form == "model"] == nodes


def test_a_form_that_cannot_be_is_refused(built):
    refused("'selectr=model' is no NODE=FORM", agent.node_forms, "selectr=model", model=True)
    config = RealTalkConfig(forms="selector=model")
    refused("no language model is named; give llm=SPEC", agent.Agent, built, config=config)


def test_a_question_does_not_depend_on_the_others_and_has_a_limit(built, predictions):
    pipeline = agent.Agent(built)
    limit = r"has 50,001, the limit is 50,000 characters .* CRS_MOST_QUESTION_CHARACTERS=50001"
    long = "Where did Mira " + "and Tobias " * 400 + "go?"
    (alone,) = pipeline.ask([built.chat.questions[6].text])
    assert built.chat.ids(alone.ranked) == predictions[6]["ranked"]
    refused(limit, pipeline.ask, ["x" * 50_001])
    assert len(pipeline.ask([long])) == 1


def test_lists_go_back_to_retrieval(built, monkeypatch):
    questions = ["What sounds does Tobias record?", "When is the wedding?"]
    sounds, wedding = agent.Agent(built).ask(questions)
    assert 2 <= sounds.rounds <= 3
    assert wedding.rounds == 1
    monkeypatch.setattr(agent, "ROUNDS", 1)
    sounds, _ = agent.Agent(built).ask(questions)
    assert sounds.rounds == 1


@pytest.mark.slow
def test_the_new_selection_finds_more_than_the_old_preview(sample, built):
    preview = answered(built, selection="preview")
    coverage = answered(built, single=1.5)
    old = scoring.questions(preview, [sample], "valid")
    new = scoring.questions(coverage, [sample], "valid")
    for before, after in zip(preview, coverage, strict=True):
        assert before["candidates"] == after["candidates"]
    assert new["recall"].mean() > old["recall"].mean()
    assert new["size"].sum() < old["size"].sum()


def test_attribution_sums_to_the_gold_ids(sample, predictions):
    rows = scoring.questions(predictions, [sample], "valid")
    ends = scoring.attribution(rows, "category", "chat")
    ids = ends["ids"]
    in_buckets = ends[[*evidence.BUCKETS]].sum(axis=1)
    assert in_buckets.tolist() == ids.tolist()
    assert ids[0] == 67 + 2
    assert ids[ends["by"] == "category"].sum() == 67 + 2
    recall = rows["recall"]
    assert recall[rows["gold"] == 0].isna().all()


def test_sets_are_means_over_questions_with_gold(sample, predictions):
    rows = scoring.questions(predictions, [sample], "valid")
    means = scoring.means(rows, ("recall", "precision", "size")).iloc[0]
    assert means["n"] == 37
    assert means["excluded"] == 2
    assert means["recall"] == pytest.approx(0.444, abs=1e-3)
    assert means["precision"] == pytest.approx(0.279, abs=1e-3)
    assert means["size"] == pytest.approx(3.757, abs=1e-3)


def test_predictions_round_trip_and_unknown_ids_are_refused(sample, predictions, tmp_path):
    path = tmp_path / "p.jsonl"
    assert tables.write_jsonl(path, predictions) == len(sample.questions)
    assert dump(scoring.read(path, [sample])) == dump(predictions)
    tables.write_jsonl(path, [{**predictions[0], "selected": ["D99:1"]}])
    refused(r"line 1: .* has no message 'D99:1'", scoring.read, path, [sample])
    tables.write_jsonl(path, [{"chat": sample.name}])
    refused(r"keys .* are missing", scoring.read, path, [sample])


MESSAGE = st.tuples(st.sampled_from(["Ann", "Ben", ""]), st.text(max_size=20))
TALK = st.lists(MESSAGE, min_size=1, max_size=8)
QUESTION = st.text(min_size=1, max_size=30)


@settings(max_examples=15, deadline=None)
@given(TALK, QUESTION)
@pytest.mark.slow
def test_any_chat_and_question_get_an_answer(messages, question):
    entries = []
    for i, (speaker, text) in enumerate(messages):
        entries.append({"clean_text": text, "speaker": speaker, "dia_id": f"D1:{i}"})
    record = {"session_1": entries, "qa": [{"question": question}]}
    chat = corpus.parse_chat(record, "c")
    records = answered(index.build(chat, "hashing"))
    assert len(records) == bool(question.strip())
    for record in records:
        assert set(record["selected"]) <= set(chat.position)


def test_a_trace_names_every_gold_message_and_where_it_ends(sample, predictions):
    rows = describe.trace(sample, predictions[4])
    assert rows["id"].tolist() == ["D5:1", "D10:1", "D10:3"]
    assert rows["kept"].tolist() == (rows["bucket"] == "kept").tolist()


# ── rankers ──────────────────────────────────────────────────────────────────────────────────────────


def made_up_groups(rng, count=60):
    for _ in range(count):
        rows = rng.normal(size=(40, WIDTH)).astype(np.float32)
        yield learning.TrainingQuestion(rows, (rows[:, 7] > 1.2).astype(np.int8))


@pytest.fixture
def groups():
    """Candidates of made-up questions; gold is what has a high seventh feature."""
    return list(made_up_groups(np.random.default_rng(0)))


@pytest.fixture
def rows():
    """Candidates of another question, drawn behind those of the groups."""
    rng = np.random.default_rng(0)
    list(made_up_groups(rng))
    return rng.normal(size=(300, WIDTH)).astype(np.float32)


def scores_of(ranker, rows):
    return ranker.score(rows, np.zeros(len(rows), np.float32))


@pytest.mark.slow
def test_a_learned_ranker_prefers_what_was_gold_and_is_cached(groups, rows, tmp_path):
    pytest.importorskip("lightgbm")
    scores = scores_of(learning.learn(groups, "made up", tmp_path), rows)
    again = scores_of(learning.learn(groups, "made up", tmp_path), rows)
    assert np.array_equal(again, scores)
    assert np.corrcoef(scores, rows[:, 7] > 1.2)[0, 1] > 0.7
    assert len(list(tmp_path.glob("*.json"))) == 1
    nothing = groups[0]._replace(gold=np.zeros(40, np.int8))
    refused("no training question", learning.learn, [nothing], "", tmp_path)


def test_a_question_whose_gold_lies_behind_the_best_candidates_teaches_what_is_none(
    groups, tmp_path, monkeypatch
):
    monkeypatch.setattr(search, "has_trees", lambda: False)
    monkeypatch.setattr(learning, "DEEPEST", 20)
    behind = np.repeat([0, 1], 20).astype(np.int8)
    questions = [groups[0]._replace(gold=behind), *groups[1:]]
    learning.learn(questions, "made up", tmp_path)
    (path,) = tmp_path.iterdir()
    learned = json.loads(path.read_text())["linear"]
    assert learned == learning.fit(questions)["linear"]
    assert learned != learning.fit(groups[1:])["linear"]


def test_without_lightgbm_what_is_learnt_is_scikit_learns_regression(groups, rows, tmp_path, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr(search, "has_trees", lambda: False)
    ranker = learning.learn(groups, "made up", tmp_path)
    features = np.concatenate([group.features for group in groups]).astype(np.float64)
    gold = np.concatenate([group.gold for group in groups])
    mean = features.mean(axis=0)
    scale = features.std(axis=0)
    scaled = np.clip((features - mean) / scale, -4, 4)
    model = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000)
    model.fit(scaled, gold)
    of_rows = np.clip((rows - mean) / scale, -4, 4)
    expected = model.decision_function(of_rows)
    assert ranker.name == "linear"
    assert ranker.origin == "made up"
    assert np.allclose(scores_of(ranker, rows), expected, atol=1e-2)


def test_one_huge_feature_counts_four_deviations_and_no_more():
    third = np.eye(WIDTH)[3]
    linear = search.LinearModel(np.zeros(WIDTH), np.ones(WIDTH), third, 0.0)
    huge = np.zeros((3, WIDTH), np.float32)
    huge[:, 3] = [2, 4, 20_000]
    scores = scores_of(search.Learned(linear, (), ""), huge)
    assert scores.tolist() == [2, 4, 4]


@pytest.fixture
def ship(monkeypatch, tmp_path):
    """Puts a record in the place of the package's rankers."""
    monkeypatch.setattr(search, "SHIPPED", tmp_path / "rankers.json.gz")
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))

    def put(record):
        text = json.dumps(record)
        search.SHIPPED.write_bytes(gzip.compress(text.encode()))

    return put


def test_the_shipped_ranker_serves_new_chats_and_never_its_teachers(
    sample, make_chat, groups, ship, monkeypatch
):
    assert search.shipped("hashing") is None
    record = {"features": search.features_key(), "origin": "made up", "sketches": [sample.sketch]}
    ship({**record, "rankers": {"hashing": learning.fit(groups, (0,))}})
    part = replace(sample, messages=sample.messages[:10])
    for chat in (part, sample):
        ranker = learning.choose_ranker("auto", index.build(chat, "hashing"))
        assert ranker.origin == "no training data"
    other = make_chat([("Ann", "quite another talk about kites")])
    ranker = learning.choose_ranker("auto", index.build(other, "hashing"))
    assert ranker.origin == "made up"
    assert search.shipped("minilm") is None
    monkeypatch.setattr(search, "features_key", lambda: "changed")
    assert search.shipped("hashing") is None


@pytest.mark.parametrize("encoder", index.STUDIED)
def test_what_ships_fits_the_features(encoder):
    ready = search.shipped(encoder)
    assert len(ready.sketches) == 7
    rows = np.zeros((3, WIDTH), np.float32)
    assert len(scores_of(ready.ranker, rows)) == 3


def test_what_ships_holds_no_text():
    record = json.loads(gzip.decompress(search.SHIPPED.read_bytes()))
    assert set(record) == {"features", "origin", "rankers", "sketches"}
    for number in ids_of(record["sketches"]):
        assert type(number) is int


def test_a_chat_is_recognised_though_changed_and_never_teaches_its_own_ranker(sample, make_chat):
    half = replace(sample, messages=sample.messages[:160])
    shouted = [(message.speaker, f" {message.text.upper()} !") for message in sample.messages]
    loud = make_chat(shouted)
    for changed in (half, loud):
        assert learning.same_talk(changed, sample)
        assert learning.same_talk(sample, changed)
    other = make_chat([("Ann", "a talk about something else entirely")])
    assert not learning.same_talk(other, sample)
    renamed = replace(sample, name="other")
    assert learning.for_chat(renamed, [sample], pytest.fail).name == "hand"


def test_strangers_share_nobody_with_a_chat(make_chat):
    chat = make_chat([("Ann", "a")])
    other = make_chat([("Eve", "a")])
    strangers = replace(other, speakers=("Eve", "Zoe"))
    half = replace(other, speakers=("Eve", "Ben"))
    assert learning.not_of(chat, [chat, strangers, half]) == [strangers]


def test_without_training_data_the_hand_order_is_taken_and_said(built, monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    assert learning.choose_ranker("auto", built).origin == "no training data"
    words = "no training chats" if search.has_trees() else "LightGBM"
    refused(words, learning.choose_ranker, "learned", built)


@pytest.mark.slow
def test_teaching_makes_a_ranker_that_knows_its_teachers_again(sample, ship):
    pytest.importorskip("lightgbm")
    record = teach_ranker.teach([sample], ["hashing"])
    ship(record)
    ready = search.shipped("hashing")
    assert ready.ranker.origin == record["origin"]
    assert sample.name in record["origin"]
    beginning = replace(sample, messages=sample.messages[:40])
    assert corpus.resembles(beginning.sketch, ready.sketches[0])


def test_a_cross_encoder_in_onnx_ranks_the_candidates(built, tmp_path):
    """Its one logit orders them: here the mean number of a pair's tokens, of texts that say "lift" the highest."""
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    levels = tokenizers.models.WordLevel({"[UNK]": 0, "lift": 900}, unk_token="[UNK]")
    words = tokenizers.Tokenizer(levels)
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(mean_of_tokens())
    config = RealTalkConfig(ranker=f"onnx:{tmp_path}", window=1, nodes=2)
    ranker = learning.choose_ranker(config.ranker, built)
    scores = ranker.score(None, None, "a b", ["lift c", "c"])
    assert scores.tolist() == [225.0, 0.0]
    (result,) = agent.Agent(built, ranker, config).ask(["What sounds does Tobias record?"])
    best = result.ranked[0]
    assert "lift" in built.chat.texts[best]
    assert result.scores[0] > result.scores[-1]
    assert len(set(built.owner[result.selected])) <= 2  # the node limit


@pytest.mark.parametrize(("question", "share"), table(__file__, "untimed"))
def test_a_chat_without_times_says_so_and_is_less_sure(make_chat, question, share):
    talk = [("Ann", "I bought a red bicycle at the market."), ("Ben", "Lovely, I baked two loaves of bread.")]
    timed = make_chat(talk, qa=[{"question": question}])
    broken = Quirk("broken time", ("session_1",), "kept")
    untimed = replace(timed, quirks=(broken, broken))
    assert timed.time_note == ""
    assert untimed.time_note.startswith("times: 0 of 2 messages of Chat_1_Ann_Ben")
    sure = []
    for chat in (timed, untimed):
        built = index.build(chat, "hashing")
        (record,) = answered(built)
        sure.append(agent.confidence(built, record))
    assert sure[1] == pytest.approx(share * sure[0])
