"""Scores against raters, success and judges, on small conversations: agreement and biases worked out."""

import json

import numpy as np
import pandas as pd
import pytest

from crs_lib import data as logs
from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.validity import agreement, raters
from tests.helpers.films import grounder
from tests.helpers.sample import simulated

TEN = grounder()


@pytest.fixture
def rated(tmp_path):
    """Two conversations, three raters: all but one rating of the first reply are the same."""
    said = (
        "SYSTEM\tHello", "USER\tI want drama films", "SYSTEM\tTry Cold Orchard (1962)", "USER\tThanks, great",
    )  # fmt: skip
    head = ["ConvId", *(f"utterance{i}" for i in range(4))]
    rows = [["AB", *said, value, 2, 3] for value in (4, 4, 1)] + [["CD", *said, 0, 2, 3] for _ in range(3)]
    turns = pd.DataFrame(rows, columns=[*head, "relevance1", "interestingness1", "overall1"])
    turns.to_csv(tmp_path / raters.TURNS, index=False)
    last = ["AB", "USER   I want drama films", *said[2:], "", 4]
    whole = pd.DataFrame([last], columns=[*head, "dialogue-overall"])
    whole.to_csv(tmp_path / raters.DIALOGUES, index=False)
    return tmp_path


def test_every_rating_of_every_rater_is_read(rated):
    found = raters.abredial(raters.TURNS, rated)
    relevance = found.ratings[found.ratings["construct"] == "relevance"]
    assert relevance["value"].tolist() == [4, 4, 1, 0, 0, 0]
    assert relevance["item"].unique().tolist() == ["AB 2", "CD 2"]
    rows = agreement.rate(found.dialogues, TEN)
    assert rows["relevance"].tolist() == [3.0, 0.0]  # (4 + 4 + 1)/3
    whole = raters.abredial(raters.DIALOGUES, rated)
    assert agreement.rate(whole.dialogues, TEN)["dialogue_overall"].tolist() == [4.0]


def test_a_ceiling_is_one_rater_against_the_others(rated):
    found = raters.ceiling(raters.abredial(raters.TURNS, rated).ratings, resamples=50).set_index("construct")
    # the others' means: 2.5, 2.5, 4 for AB, 0 for CD
    expected = agreement.spearman(np.array([4.0, 4, 1, 0, 0, 0]), np.array([2.5, 2.5, 4, 0, 0, 0]))
    assert found.loc["relevance", "spearman"] == pytest.approx(expected)
    assert found.loc["relevance", ["n_ratings", "n_items"]].tolist() == [6, 2]
    assert np.isnan(found.loc["overall", "spearman"])  # nothing varies


def test_a_table_without_its_columns_is_refused(tmp_path):
    pd.DataFrame([["AB", "USER\thi"]], columns=["ConvId", "utterance0"]).to_csv(tmp_path / raters.TURNS)
    with pytest.raises(InputError, match=r"annotated_turns.csv: no column 'relevance1'"):
        raters.abredial(raters.TURNS, tmp_path)
    with pytest.raises(InputError, match=r"annotated_dialogues.csv: cannot be read"):
        raters.abredial(raters.DIALOGUES, tmp_path)


def test_an_item_is_the_film_that_replies_name_while_it_ranks_first():
    ranked = [[7, 8], [7, 9], [7], [8], [8], [8], [9, 7]]
    named = [(1,), (1,), (2,), (3,), (4,), (5,), (6,)]
    texts = list("abcdefg")
    assert raters._resolved(ranked, named, texts) == {7: 1}  # 2 of 3; 8 is split, 9 was seen once
    assert raters._resolved(ranked, named, ["a"] * 7) == {}  # one reply said three times is one


def lines(path, talks):
    (path / "talks.jsonl").write_text("\n".join(map(json.dumps, talks)))
    return logs.read(path / "talks.jsonl")


def concept(system, file, hits):
    turns = []
    for place, hit in enumerate(hits):
        film = "Cold Orchard (1962)" if hit else "Lantern Street (1999)"
        turns += [{"role": "user", "content": "I want drama films"}, {
            "role": "assistant", "content": f"{system} {file} {place}: try {film}", "rec_items": [1 if hit else 2],
            "rec_success_rec": hit, "rec_success_dialogue": hit,
        }]  # fmt: skip
    return {"system": system, "file": file, "target": ["Cold Orchard (1962)"], "turns": turns}


@pytest.mark.slow
def test_success_is_predicted_from_words_and_from_ranked_items(tmp_path):
    outcomes = ([True, False], [False, False], [True, True])
    talks = [
        concept(system, f"{i}.json", hits) for system in ("kbrd", "barcor") for i, hits in enumerate(outcomes)
    ]
    frame = raters.success(lines(tmp_path, talks), TEN)
    assert len(frame) == 12 and frame["found"].tolist() == [1.0] * 12
    assert frame["ranked_satisfaction"].tolist() == frame["in_list"].astype(float).tolist()
    found = raters.prediction(frame, resamples=20).set_index(["criterion", "level", "predictor"])
    assert found.loc[("in_text", "reply", "satisfaction"), "within"] == 1.0
    assert found.loc[("in_list", "reply", "ranked_satisfaction"), "within"] == 1.0
    assert raters.systems(frame)["in_list"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert raters.missed(frame, 1)["in_text"].tolist() == [True, False]
    with pytest.raises(InputError, match="no reply logs success"):
        raters.success([], TEN)


def judged_talk(system, simulator, index, good):
    said = (("USER", "I want drama films"), ("AGENT", ("no idea", "Cold Orchard (1962)?")[good]),
            ("USER", ("no", "thanks, great")[good]))  # fmt: skip
    turns = [{"participant": who, "utterance": text, "dialogue_acts": []} for who, text in said]
    scores = dict.fromkeys(raters.JUDGE, 1 + 2 * good)
    users = f"{system}_{simulator}_x"
    return {"system": system, "users": users, "index": index, "turns": turns, "scores": scores}


def test_a_judge_is_met_simulator_by_simulator(tmp_path):
    talks = [
        judged_talk(system, simulator, index, good=index < n)
        for system, n in (("a", 1), ("b", 2), ("c", 3))
        for simulator in ("ABUS", "Dual_LLM")
        for index in range(4)
    ]
    rows = raters.judged(lines(tmp_path, talks), TEN)
    assert rows["simulator"].value_counts().to_dict() == {"ABUS": 12, "Dual_LLM": 12}
    found = raters.with_judge(rows, resamples=20).set_index(["simulator", "judge", "score"])
    assert found.loc[("ABUS", "OVERALL_SAT", "dialogue_adaptation"), "spearman"] == pytest.approx(1.0)
    assert raters.survival(rows)["tau"].tolist() == pytest.approx([1.0] * 3)
    with pytest.raises(InputError, match="no conversation carries a judge's scores"):
        raters.judged([], TEN)


@pytest.mark.slow
def test_the_two_views_of_a_run_differ_only_in_the_state():
    systems = ("oracle", "random", "sticky")
    simulated(run="bridge", systems=systems, n_sessions=6, n_turns=8)
    rows = raters.views(simulate.iter_dialogues("bridge"), Grounder(evaluate.catalog_of("bridge")))
    exact = rows[(rows["joint"] == 1) & (rows["turn"] == 1)]  # the same state, the same score
    assert exact["logged"].tolist() == exact["heard"].tolist() != []
    found = raters.bridge(rows, resamples=20).set_index("system")
    assert found.loc["all", "joint"] > 0.5
    assert found.loc["all", "spearman, turns"] > 0.7
    assert found.loc["oracle", "logged"] == pytest.approx(1.0)


@pytest.mark.external
def test_scores_beside_the_ceiling_of_raters():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "abredial").is_dir():
        pytest.skip("no AB-ReDial here; name a folder with it in CRS_MIRROR")
    films = Grounder(sources.load(mirror / "crsarena" / "redial_id2info.json"))
    for name, level, goal in ((raters.TURNS, "reply", 0.45), (raters.DIALOGUES, "dialogue", 0.25)):
        found = raters.abredial(name, mirror / "abredial")
        rows = agreement.rate(found.dialogues, films)
        shown = agreement.agreement(rows, resamples=10).set_index("level")
        assert shown.loc[level, "spearman"] >= goal


def talk(number, overall, reply):
    turns = [{"speaker": "USER", "text": "a drama"}, {"speaker": "SYSTEM", "text": reply}]
    body = {"session_id": str(number), "model_name": "s", "conversation": turns}
    rating = {"dial_level_aggregated": {"dialogue_overall": overall}} if overall is not None else {}
    return Dialogue.from_json({**body, "annotations": rating})


TALKS = [talk(i, i % 5 + 1, f"{'word ' * (5 - i % 5)}{i}") for i in range(10)]


def honest(request):
    """Scores what people think (the reply's last number tells); of a pair the first place always wins."""
    text = request.messages[-1].content
    if "Conversation A" in text:
        return json.dumps({"better": "A"})
    number = int([line for line in text.splitlines() if line.startswith("Recommender")][-1].split()[-1])
    return json.dumps({"score": number % 5 + 1})


def test_agreement_and_biases_of_a_judge(tmp_path):
    row = raters.ask(TALKS, "scripted", tmp_path / "honest", {"answers": honest}).iloc[0]
    assert (row["n"], row["unusable"]) == (10, 0)
    assert row["spearman"] == pytest.approx(1.0)
    assert row["verbosity"] == pytest.approx(0.0)  # it likes words as little as people do
    assert row["position"] == 1.0  # the first place wins in both orders
    row = raters.ask(TALKS[:4], "scripted", tmp_path / "mute", {"answers": lambda request: "well"}).iloc[0]
    assert (row["n"], row["unusable"]) == (0, 8)  # answers that cannot be read are missing
    assert np.isnan(row["spearman"]) and np.isnan(row["position"])


def test_only_rated_conversations_are_drawn():
    assert len(raters.chosen([*TALKS, talk(99, None, "no")], 100)) == 10
    assert raters.chosen(TALKS, 4) == raters.chosen(TALKS, 4)
    with pytest.raises(InputError, match="no conversation carries a rating"):
        raters.chosen([talk(1, None, "no")], 3)
