"""Scores against raters, success and judges, on small conversations: agreement and biases worked out."""

import json

import numpy as np
import pandas as pd
import pytest

from crs_lib import data as logs
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.stats.effects import spearman
from crs_lib.validity import agreement, raters, revisions
from tests.helpers.films import grounder

TEN = grounder()


@pytest.fixture
def rated(tmp_path):
    """Two conversations, three raters: all but one rating of the first reply are the same."""
    said = (
        "SYSTEM\tHello", "USER\tI want drama films", "SYSTEM\tTry Cold Orchard (1962)",
        "USER   Thanks, great",  # in some rows blanks stand for the tab
    )  # fmt: skip
    head = ["ConvId", *(f"utterance{i}" for i in range(4))]
    rows = [["AB", *said, value, 2, 3] for value in (4, 4, 1)] + [["CD", *said, 0, 2, 3] for _ in range(3)]
    turns = pd.DataFrame(rows, columns=[*head, "relevance1", "interestingness1", "overall1"])
    turns.to_csv(tmp_path / raters.TURNS, index=False)
    longer = ["AB", "USER\tHi", *said[:3], 4]  # the whole conversation begins before the rated stretch
    whole = pd.DataFrame([longer, ["CD", *said, 2]], columns=[*head, "dialogue-overall"])
    whole.to_csv(tmp_path / raters.DIALOGUES, index=False)
    return tmp_path


def test_every_rating_of_every_rater_is_read_at_its_place(rated):
    talks = list(raters.conversations("abredial", rated))
    given = raters.ratings(talks)
    relevance = given[given["construct"] == "relevance"]
    assert relevance["value"].tolist() == [4, 4, 1, 0, 0, 0]
    assert relevance["item"].unique().tolist() == ["AB 3", "CD 2"]
    rows = pd.DataFrame([row for one in agreement.score(talks, TEN) for row in one.rated])
    assert rows["relevance"].dropna().tolist() == [3.0, 0.0]  # (4 + 4 + 1)/3
    assert rows.groupby("conv_id")["dialogue_overall"].first().to_dict() == {"AB": 4.0, "CD": 2.0}


def test_a_ceiling_is_one_rater_against_the_others(rated):
    given = raters.ratings(raters.conversations("abredial", rated))
    found = raters.ceiling(given, resamples=50).set_index("construct")
    # the others' means: 2.5, 2.5, 4 for AB, 0 for CD
    expected = spearman(np.array([4.0, 4, 1, 0, 0, 0]), np.array([2.5, 2.5, 4, 0, 0, 0]))
    assert found.loc["relevance", "spearman"] == pytest.approx(expected)
    assert found.loc["relevance", ["n_ratings", "n_items"]].tolist() == [6, 2]
    assert np.isnan(found.loc["overall", "spearman"])  # nothing varies


def test_a_table_without_its_columns_is_refused(tmp_path):
    pd.DataFrame([["AB", "USER\thi"]], columns=["ConvId", "utterance0"]).to_csv(tmp_path / raters.TURNS)
    with pytest.raises(InputError, match=r"annotated_turns.csv: no column 'relevance1'"):
        next(raters.conversations("abredial", tmp_path))
    (tmp_path / raters.TURNS).unlink()
    with pytest.raises(InputError, match=r"annotated_turns.csv: cannot be read"):
        next(raters.conversations("abredial", tmp_path))


USS = [
    ["USER\tI want drama films\tx\t3,3,3", "SYSTEM\tHave you seen Lantern Street (1999)?\t\t",
     "USER\tno%3F a comedy then\tx\t2,4,", "SYSTEM\tLantern Street (1999)\t\t", "USER\tgreat\tx\t5,4,3",
     "USER\tbye\tx\t1,1,1", "USER\tOVERALL\t\t4,4,4"],
    ["USER\ta drama\tx\t3", "SYSTEM\tCold Orchard (1962)\t\t", "USER\tor a comedy\tx\t3",
     "SYSTEM\tCold Orchard (1962)\t\t", "USER\tno\tx\t1"],
]  # fmt: skip


@pytest.fixture
def uss(tmp_path):
    (tmp_path / "redial.txt").write_text("\n\n".join("\n".join(rows) for rows in USS) + "\n")
    return tmp_path / "redial.txt"


def test_the_satisfaction_of_what_people_say_next_belongs_to_the_reply_before(uss):
    first, _ = talks = list(raters.conversations("uss", uss))
    assert first.turns[2].text == "no? a comedy then"
    assert [len(one.session_id) for one in talks] == [12, 12]  # hashes of the text: places differ in a half
    rows = pd.DataFrame([row for one in agreement.score(talks, TEN) for row in one.rated])
    # the next turn's mean; of a merged turn the mean of its utterances: (4 + 1)/2
    assert rows["satisfaction_next"].tolist() == [3.0, 2.5, 3.0, 1.0]
    assert raters.ratings(talks)["value"].tolist()[:5] == [3, 3, 3, 2, 4]


def test_utterances_of_iard_stand_in_their_order_with_titles_in_quotation_marks(tmp_path):
    said = {"R2": ("recommender", 2, "Yes, @12 <Cold Orchard (1962)> ?"), "S1": ("seeker", 1, "a drama?")}
    keys = ("role", "utterance_pos", "utterance_text")
    info = {name: dict(zip(keys, one, strict=True)) for name, one in said.items()}
    (tmp_path / "iard.json").write_text(json.dumps({"7": {"dialogue_info": info}}))
    (talk,) = raters.conversations("iard", tmp_path / "iard.json")
    assert [turn.text for turn in talk.turns] == ["a drama?", 'Yes, "Cold Orchard (1962)" ?']
    (tmp_path / "iard.json").write_text(json.dumps({"7": {"dialogue_info": {"S1": {}}}}))
    with pytest.raises(InputError, match=r"iard.json: not the data set 'iard'"):
        list(raters.conversations("iard", tmp_path / "iard.json"))


def corpus(rows):
    """Rows of the corpus: data set, conversation, turn, kind, labels by preference."""
    keys = ("dataset", "conversation", "turn", "kind", "wishes")
    return lambda: pd.DataFrame([dict(zip(keys, row, strict=True)) for row in rows])


def test_a_revision_is_scored_by_the_change_that_is_heard(uss, monkeypatch):
    talks = {one.turns[0].text: one.session_id for one in raters.conversations("uss", uss)}
    kept = {"genre=Drama": ["k", "k", "d"]}
    rows = [("uss", talks["I want drama films"], 2, "replace", {}), ("uss", talks["a drama"], 2, "refine", kept),
            ("uss", talks["a drama"], 4, "reject", {}), ("uss", "not here", 0, "refine", {})]  # fmt: skip
    monkeypatch.setattr(revisions, "_corpus", corpus(rows))
    monkeypatch.setattr(revisions.raters.datasets, "locate", lambda name: uss)
    monkeypatch.setattr(revisions, "RATINGS", {"uss": ("satisfaction_next",)})
    found = revisions.replies(TEN)
    assert found["role"].tolist() == ["first request", "revision", "first request", "revision"]
    comedy, drama = found.loc[1], found.loc[3]
    assert comedy["uptake"] == pytest.approx(1.0) and comedy["release"] == pytest.approx(1.0)
    assert drama["uptake"] < 0  # a drama for one who now asks for a comedy
    assert np.isnan(found.loc[0, "uptake"]) and comedy["misfit"] == 0
    # with the label the drama stays: the film shown meets what was kept, not what is new
    assert drama["uptake, readers' labels"] < 0.5
    monkeypatch.setattr(revisions, "_corpus", corpus(rows[3:]))
    with pytest.raises(InputError, match="'uss': none of the 1 conversations of the corpus"):
        revisions.replies(TEN)


def made_up(n, seed):
    """Replies to revisions of ``n`` conversations whose rating is the uptake, with noise."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {name: draw.normal(size=2 * n) for name in (*revisions.MEASURES, "satisfaction_next")}
    )
    frame["relevance"] = frame["uptake"] + 0.3 * draw.normal(size=2 * n)
    frame["conv_id"] = [f"c{i // 2}" for i in range(2 * n)]
    frame = frame.assign(
        dataset="crsarena", system=np.where(draw.random(2 * n) < 0.5, "a", "b"), interestingness=0.0
    )
    frame["role"] = np.where(np.arange(2 * n) % 2, revisions.REVISION, revisions.FIRST)
    frame["half"] = [revisions.HALVES[raters.share_of(name, 2)] for name in frame["conv_id"]]
    for name in revisions.VARIANTS[1:]:
        frame[name] = draw.normal(size=2 * n)
    return frame


def test_the_study_chooses_on_one_half_and_reports_both():
    found = revisions.study(made_up(80, 3), resamples=50)
    assert found.choice.set_index("variant")["chosen"].to_dict() == {
        "uptake": True, "uptake, else gain": False, "uptake, else gain, else 0": False,
    }  # fmt: skip
    row = found.agreement.query("rating == 'crsarena: relevance' and measure == 'n_films'").set_index("half")
    assert row.loc["development", "n"] + row.loc["confirmation", "n"] == row.loc["both", "n"] == 80
    assert row.loc["confirmation", "diff_low"] > 0  # uptake tells more than the number of films
    slope = found.model.query("model == 'uptake' and term == 'uptake'").iloc[0]
    assert slope["low"] > 0.5 and found.systems["n"].sum() == 80


def test_the_committed_tables_hold_statistics_and_the_choice_that_the_page_tells(tmp_path):
    found = revisions.committed()
    assert found.choice.set_index("variant")["chosen"].to_dict()["uptake"]
    counts = found.agreement.query("rating == 'all sets' and measure == 'turn'").set_index("half")["n"]
    assert counts["both"] >= 150 and counts["confirmation"] >= 150
    revisions.write(found, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (paths.samples() / "revisions_study.jsonl").read_text()


def test_aspects_are_those_of_the_published_run_files():
    path = paths.samples() / "revisions.jsonl"
    assert set(agreement.OF_REPLY) == {"relevance", "interestingness"}
    assert set(agreement.OF_DIALOGUE) == {
        "understanding", "task_completion", "interest_arousal", "efficiency", "dialogue_overall",
    }  # fmt: skip
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    allowed = {"dataset", "conversation", "turn", "reply", "kind", "kinds", "scope", "scopes", "wishes"}
    assert all(set(row) == allowed and " " not in row["conversation"] for row in rows)  # ids, no sentence


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
    assert len(frame) == 12
    found = raters.prediction(frame, resamples=20).set_index(["criterion", "level", "predictor"])
    assert found.loc[("in_text", "reply", "satisfaction"), "within"] == 1.0
    assert raters.systems(frame)["in_list"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert raters.missed(frame, 1)["in_text"].tolist() == [True, False]
    with pytest.raises(InputError, match="no reply logs success"):
        raters.success([], TEN)


@pytest.mark.external
def test_scores_beside_the_ceiling_of_raters():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "abredial").is_dir():
        pytest.skip("no AB-ReDial here; name a folder with it in CRS_MIRROR")
    films = Grounder(sources.load(mirror / "crsarena" / "redial_id2info.json"))
    rows = agreement.rate(raters.conversations("abredial"), films)
    shown = agreement.agreement(rows, resamples=10).set_index("level")
    assert shown.loc["reply", "spearman"] >= 0.45
    assert shown.loc["dialogue", "spearman"] >= 0.30
