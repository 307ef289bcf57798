"""Scores of conversations with people: wishes heard, replies judged on paper, agreement, the run file."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from crs_lib import logs
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.grounding.grounder import Grounder
from crs_lib.trust import heard as human_wishes
from crs_lib.trust import human, human_model, human_scores
from crs_lib.trust.human_scores import ReplyFeatures, adaptation
from tests.helpers.films import grounder

TEN = grounder()


def code(name, value):
    return TEN.catalog.code(name, value)


DRAMA, COMEDY, QUILL = code("genre", "Drama"), code("genre", "Comedy"), code("actor", "Ada Quill")


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("I like drama films with Ada Quill", {DRAMA, QUILL}, set()),
        ("a comedy, but not a drama film please", {COMEDY}, {DRAMA}),
        ("I don't like comedy films. I want drama films", {DRAMA}, {COMEDY}),
        ("what can you recommend?", set(), set()),
        ("a film from 1962", set(), set()),  # years are left out
    ],
)
def test_wishes_are_heard_with_their_sign(text, wanted, unwanted):
    heard = human_wishes.hear(TEN, text)
    assert (set(heard.wanted) & {DRAMA, COMEDY, QUILL}, set(heard.unwanted)) == (wanted, unwanted)
    assert "1962" not in {TEN.key(c).split("=")[1] for c in heard.wanted}


def test_wishes_are_carried_replaced_and_taken_back():
    listener = human_wishes.Listener(TEN)
    assert DRAMA in listener.listen("I want drama films").constraints
    assert DRAMA in listener.listen("something else please").constraints
    assert listener.listen("a comedy film then").constraints == {COMEDY}
    state = listener.listen("no comedy film any more")
    assert state == (frozenset(), {COMEDY}, False)


def test_a_film_that_is_liked_stands_for_its_genres_until_a_wish_is_said():
    listener = human_wishes.Listener(TEN)
    liked = {code("genre", "War"), DRAMA}
    assert listener.listen("I loved Iron Valley").constraints == liked
    asked = listener.listen("Who directed Paper Kites?")
    assert (asked.constraints, asked.asks_about) == (liked, True)
    assert listener.listen("give me a comedy film").constraints == {COMEDY}


def test_a_year_in_brackets_is_no_title():
    assert [TEN.catalog.items[i].title for i in human_wishes.films(TEN, "Her (1988), 1947 (1990) and Iron Valley (1947)")] == [
        "Her", "1947", "Iron Valley",
    ]  # fmt: skip
    assert human_wishes.films(TEN, "something like Iron Valley (1947)") == (5,)


NOTHING = ReplyFeatures(0, 0.0, math.nan, 0.0, False, False, False, False)


@pytest.mark.parametrize(
    ("change", "known", "expected"),
    [
        ({"n_films": 2, "met": 1.0, "novel": 1.0}, True, 1.0),
        ({"n_films": 2, "met": 0.5, "novel": 1.0}, True, 0.75),  # (1 + 0.5)/2 · 1 · 1
        ({"n_films": 2, "met": 0.5, "novel": 0.0, "unwanted": 0.5}, True, 0.1875),  # 0.75 · 0.5 · 0.5
        ({"n_films": 1, "met": 0.0, "novel": 1.0}, False, 0.75),  # no wish known: H is ½
        ({"elicits": True}, False, 1.0),
        ({"elicits": True, "elicited_before": True}, False, 0.5),
        ({"elicits": True}, True, 0.0),  # asks for what was said
        ({"answers": True}, True, 0.5),
        ({}, True, 0.0),
        ({"n_films": 2, "met": 1.0, "novel": 1.0, "repeats": True}, True, 0.0),
    ],
)
def test_a_reply_is_judged_on_paper(change, known, expected):
    assert adaptation(NOTHING._replace(**change), wishes_known=known) == pytest.approx(expected)


def talk(number, *said, relevance=(), overall=None, system="alpha"):
    turns = [
        {"turn_ind": i, "role": "USER" if i % 2 == 0 else "ASST", "utterance": text}
        for i, text in enumerate(said)
    ]
    for turn, value in zip(turns[1::2], relevance, strict=False):
        turn["turn_level_aggregated"] = {"relevance": value}
    record = {"conv_id": f"{system}_{number}", "dialogue": turns}
    return record | ({"dial_level_aggregated": {"dialogue_overall": overall}} if overall is not None else {})


def read(tmp_path, *records):
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(list(records)))
    return list(logs.read(path))


GOOD = ("I want drama films", "How about Cold Orchard (1962)?", "more please", "Harbour Lights (1951) then.")
BAD = ("I want drama films", "What kind of films do you like?", "drama films!", "Lantern Street (1999).")


def test_a_conversation_is_scored_reply_by_reply_without_looking_ahead(tmp_path):
    good, bad = read(tmp_path, talk(1, *GOOD), talk(2, *BAD))
    rows = pd.DataFrame([row for scored in human_scores.score([good, bad], TEN) for row in scored])
    # met and new: 1, 1; asks for what was said: 0; a comedy for a drama wish: (1 + 0)/2 · 1
    assert rows["heard_adaptation"].tolist() == [1.0, 1.0, 0.0, 0.5]
    assert rows["satisfaction"].tolist() == [1.0, 1.0, 0.0, 0.0]
    (short,) = human_scores.score([good.head(1)], TEN)
    assert short[0] == {**rows.iloc[0].to_dict(), **short[0]}


def test_every_system_utterance_gets_a_prediction_merged_and_opening_ones_too(tmp_path):
    record = talk(3, *GOOD)
    record["dialogue"].insert(0, {"turn_ind": 0, "role": "ASST", "utterance": "Hi! What films do you like?"})
    record["dialogue"].append({"turn_ind": 5, "role": "ASST", "utterance": "Enjoy!"})
    for place, turn in enumerate(record["dialogue"]):
        turn["turn_ind"] = place
    dialogues = read(tmp_path, record)
    (entry,) = human.run_file(dialogues, human.rate(dialogues, TEN))
    assert [turn["turn_ind"] for turn in entry["turns"]] == [0, 2, 4, 5]
    values = [turn["turn_level_pred"]["relevance"] for turn in entry["turns"]]
    assert values == [1.0, 1.0, 1.0, 1.0]
    assert entry["dial_level_pred"] == {"dialogue_overall": 1.0}
    assert entry["conv_id"] == "alpha_3"


def test_agreement_needs_ratings_and_reads_them(tmp_path):
    plain = read(tmp_path, talk(1, *GOOD))
    with pytest.raises(InputError, match="no reply carries a human rating"):
        human.agreement(human.rate(plain, TEN))
    talks = [talk(i, *GOOD, relevance=(2, 2), overall=4, system=s) for i, s in enumerate(("alpha", "beta"))]
    talks += [talk(i, *BAD, relevance=(0, 1), overall=1, system=s) for i, s in ((7, "gamma"), (8, "delta"))]
    rows = human.rate(read(tmp_path, *talks), TEN)
    table = human.agreement(rows).set_index("level")
    assert table.loc["reply", "spearman"] == pytest.approx(1.0)
    assert table.loc["dialogue", ["n", "coverage"]].tolist() == [4, 1.0]
    assert table.loc["system", "p_exact"] == pytest.approx(8 / 24)  # ties: 8 of 24 orders are as extreme


@pytest.mark.parametrize("seed", range(3))
def test_correlations_agree_with_scipy(seed):
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 4, 40).astype(float), draw.random(40)
    assert human.spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y)[0])
    few, other = draw.random(5), draw.random(5)
    exact = scipy_stats.permutation_test(
        (few,), lambda a: scipy_stats.spearmanr(a, other)[0], permutation_type="pairings"
    )  # fmt: skip
    assert human.exact_p(few, other) == pytest.approx(min(1.0, exact.pvalue), abs=0.02)
    assert math.isnan(human.spearman(np.ones(5), few))


def test_partial_correlation_takes_out_what_is_given():
    draw = np.random.default_rng(1)
    length = draw.random(200)
    x, y = length + 0.01 * draw.random(200), length + 0.01 * draw.random(200)
    assert human.spearman(x, y) > 0.95
    assert abs(human.partial(x, y, length[:, None])) < 0.3


def rated(n=60):
    draw = np.random.default_rng(0)
    columns = human_model._NOW
    rows = pd.DataFrame({name: draw.random(n) for name in columns})
    rows["conv_id"] = [f"c{i // 3}" for i in range(n)]
    rows["system"] = [f"s{i // 15}" for i in range(n)]
    return rows.assign(rating=2 * rows["met"])


def test_a_head_is_the_forest_it_was_fitted_as_and_survives_the_disk(tmp_path):
    from sklearn.ensemble import RandomForestRegressor

    rows = rated()
    found, y = human_model.features(rows), rows["rating"].to_numpy()
    head = human_model.fit(found, y)
    forest = RandomForestRegressor(
        human_model.TREES, min_samples_leaf=human_model.LEAF,
        max_features=human_model.SHARE, random_state=0,
    ).fit(found.to_numpy(dtype=np.float32), y)  # fmt: skip
    np.testing.assert_allclose(head.predict(found), forest.predict(found.to_numpy(dtype=np.float32)))
    head.save(tmp_path / "head.npz")
    np.testing.assert_array_equal(human_model.load(tmp_path / "head.npz").predict(found), head.predict(found))
    with pytest.raises(InputError, match="needs the columns met"):
        head.predict(found.drop(columns="met"))
    (tmp_path / "bad.npz").write_bytes(b"no head")
    with pytest.raises(InputError, match=r"bad.npz is no head"):
        human_model.load(tmp_path / "bad.npz")


def test_features_never_look_ahead_unless_asked():
    rows = rated()
    whole = human_model.features(rows)
    first = human_model.features(rows[rows.index % 3 == 0])
    pd.testing.assert_frame_equal(whole[rows.index % 3 == 0], first)
    ahead = human_model.features(rows, lookahead=True)
    assert ahead.loc[0, "next_user_words"] == rows.loc[1, "user_words"]
    assert ahead.loc[2, "next_user_words"] == human_model.UNDEFINED  # the last of its conversation


def test_out_of_fold_predictions_never_saw_their_own_conversation():
    rows = rated()
    found = human_model.features(rows)
    noise = np.random.default_rng(2).random(20).repeat(3)  # a rating that only its conversation knows
    predicted = human_model.out_of_fold(found, noise, rows["conv_id"], 5)
    assert abs(human.spearman(predicted, noise)) < 0.4
    with pytest.raises(InputError, match="20 groups for 30 folds"):
        human_model.out_of_fold(found, noise, rows["conv_id"], 30)
    with pytest.raises(InputError, match="at least 20"):
        human_model.fit(found[:5], noise[:5])


def test_a_catalogue_keyed_by_id_is_read_with_years_and_actors(tmp_path):
    records = {
        "11": {"name": "Harbour Lights (1951)", "genre": ["drama"], "star": ["Ada Quill"], "director": ["Zoe Tarn"]},
        "12": {"name": "(2015)", "genre": ["drama"], "star": ["Cy Hale"], "director": []},
        "13": {"name": "1947 (1990)", "genre": ["war"], "star": [None, "Stig"], "plot": "A winter."},
    }  # fmt: skip
    path = tmp_path / "films.json"
    path.write_text(json.dumps(records))
    found = sources.load(path)
    assert [(item.item_id, item.title, item.year) for item in found.items] == [
        ("11", "Harbour Lights", 1951),
        ("13", "1947", 1990),
    ]
    assert found.items[1].values["actor"] == ("Stig",)
    assert found.items[0].values["genre"] == ("Drama",)


def films_file(tmp_path):
    path = tmp_path / "films.json"
    path.write_text(
        json.dumps({item.title: TEN.catalog.record(i) for i, item in enumerate(TEN.catalog.items)})
    )
    return path


def test_the_command_writes_a_run_file_with_and_without_ratings(tmp_path, capsys):
    talks = [talk(i, *GOOD, relevance=(2, i % 3), overall=3, system=f"s{i % 2}") for i in range(24)]
    plain = [{**one, "dialogue": [{k: v for k, v in t.items() if k != "turn_level_aggregated"} for t in one["dialogue"]]}
             for one in talks]  # fmt: skip
    for name, records in (("rated", talks), ("plain", plain)):
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    at = ["--catalog", str(films_file(tmp_path)), "--out", str(tmp_path / "run.json")]
    head = str(tmp_path / "head.npz")
    common = ["score-human", *at, "--dialogues"]
    assert main([*common, str(tmp_path / "rated.json"), "--train", head, "--folds", "3"]) == 0
    assert "reply, within systems" in capsys.readouterr().out
    unsupervised = json.loads((tmp_path / "run.json").read_text())
    assert main([*common, str(tmp_path / "plain.json"), "--head", head]) == 0
    assert "learned_head" in capsys.readouterr().out
    by_head = json.loads((tmp_path / "run.json").read_text())
    assert [one["conv_id"] for one in by_head] == [one["conv_id"] for one in unsupervised]
    assert unsupervised[0]["turns"][0] == {"turn_ind": 1, "turn_level_pred": {"relevance": 1.0}}
    assert by_head[0]["turns"][0]["turn_level_pred"]["relevance"] != 1.0
    (tmp_path / "none.json").write_text("[]")
    assert main([*common, str(tmp_path / "none.json")]) == 2
    assert "no reply to score" in capsys.readouterr().err


def test_the_command_scores_dialoguekit_files_utterance_by_utterance(tmp_path, capsys):
    said = [
        ("AGENT", "What kind of movies do you like?"),  # an opening: it asks while nothing is known
        ("USER", "Hello,"), ("USER", "I would like a comedy."),  # merged into one turn
        ("AGENT", "Sure!"), ("AGENT", "Try \"Cold Orchard\" (1962)."),  # one reply in two parts
        ("USER", "Thanks"), ("AGENT", ""),
    ]  # fmt: skip
    talks = [{
        "conversation_id": "c1",
        "conversation": [{"participant": who, "utterance": text} for who, text in said],
    }]  # fmt: skip
    (tmp_path / "kit.json").write_text(json.dumps({"agent": {"id": "MovieBot"}, "dialogues": talks}))
    out = tmp_path / "run.json"
    at = ["--catalog", str(films_file(tmp_path)), "--out", str(out)]
    assert main(["score-human", "--dialogues", str(tmp_path / "kit.json"), *at]) == 0
    assert "1 dialogues, 2 replies" in capsys.readouterr().out
    (found,) = json.loads(out.read_text())
    scores = [(turn["turn_ind"], turn["turn_level_pred"]["relevance"]) for turn in found["turns"]]
    assert found["conv_id"] == "c1"
    assert [place for place, _ in scores] == [0, 3, 4, 6]  # every utterance of the agent, by its place
    assert scores[0] == (0, 1.0)
    assert scores[1][1] == scores[2][1] > scores[3][1] == 0
    assert found["dial_level_pred"]["dialogue_overall"] == pytest.approx((scores[1][1] + 0) / 2)


@pytest.mark.external
def test_people_agree_with_the_unsupervised_score():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "crsarena").is_dir():
        pytest.skip("no CRSArena-Eval here; name a folder with it in CRS_MIRROR")
    dialogues = list(logs.read(mirror / "crsarena" / "crs_arena_eval_redial.json"))
    films = Grounder(sources.load(mirror / "crsarena" / "redial_id2info.json"))
    table = human.agreement(human.rate(dialogues, films)).set_index("level")
    assert table.loc["reply, wish known", "spearman"] >= 0.42
    assert table.loc["reply", "spearman"] >= 0.40
    assert table.loc["dialogue", "spearman"] >= 0.50
    assert table.loc["system", "pearson"] >= 0.85
    assert table.loc["reply", "coverage"] == 1.0
