"""Scores of conversations with people: wishes heard, replies on paper, against raters, success and judges."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from crs_lib import data as logs
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.stats.effects import partial_spearman, spearman
from crs_lib.validity import agreement, heard, raters, revisions
from crs_lib.validity.agreement import _on_paper
from crs_lib.validity.heard import reaction
from tests.helpers import refused
from tests.helpers.films import grounder

TEN = grounder()


def code(name, value):
    return TEN.catalog.code(name, value)


DRAMA, COMEDY, YEAR = code("genre", "Drama"), code("genre", "Comedy"), code("year", "1962")
QUILL, TARN = code("actor", "Ada Quill"), code("director", "Zoe Tarn")


@pytest.mark.parametrize(("text", "wanted", "unwanted"), [
    ("I like drama films with Ada Quill", {DRAMA, QUILL}, set()),
    ("a comedy, but not a drama film please", {COMEDY}, {DRAMA}),
    ("I don't like comedy films. I want drama films", {DRAMA}, {COMEDY}),
    ("what can you recommend?", set(), set()),
    ("a film made after 1962", set(), set()),  # a bound is no year
    ("a film from 1962 on", set(), set()),
    ("a film from 1962", {YEAR}, set()),  # that very year
    ("not drama films. No: drama films it is", {DRAMA}, set()),  # the last word counts
    ("swap drama films for comedy films", {COMEDY}, set()),
    ("those are not comedy films", {COMEDY}, set()),  # a correction: the wish stays
    ("it isn't a drama film", {DRAMA}, set()),
    ("they don't make comedy films like that any more", {COMEDY}, set()),
    ("I don't really like comedy films", set(), {COMEDY}), ("not a comedy film this time", set(), {COMEDY}),
    ("something funny for tonight", {COMEDY}, set()),  # a kind of film that is no catalogue value
    ("nothing too funny", set(), {COMEDY}),
    ("films directed by Zoe Tarn", {TARN}, set()),  # a writer, too: the words before the name tell the role
])  # fmt: skip
def test_wishes_are_heard_with_their_sign(text, wanted, unwanted):
    found = heard._hear(TEN, text)
    assert (set(found.wanted), set(found.unwanted)) == (wanted, unwanted)


def test_wishes_are_carried_replaced_taken_back_and_given_up():
    def said(*texts):
        listener = heard.Listener(TEN)
        return [listener.listen(text)[:3] for text in texts]

    drama, comedy = ({DRAMA}, set(), False), ({COMEDY}, set(), False)
    texts = "I want drama films", "something else please", "a comedy film then", "no comedy film please"
    assert said(*texts) == [drama, drama, comedy, (set(), {COMEDY}, False)]
    texts = "drama films with Ada Quill", "Ada Quill is not required any more", "forget the rest, a comedy"
    assert said(*texts)[1:] == [drama, comedy]
    liked = {code("genre", "War"), DRAMA}  # of a film that is liked, until a wish is said
    texts = "I loved Iron Valley", "Who directed Paper Kites?", "give me a comedy film"
    assert said(*texts) == [(liked, set(), False), (liked, set(), True), comedy]


def test_a_year_in_brackets_is_no_title():
    named = heard.films(TEN, "Her (1988), 1947 (1990) and Iron Valley (1947)")
    assert [TEN.catalog.items[film].title for film in named] == ["Her", "1947", "Iron Valley"]
    assert heard.films(TEN, "something like Iron Valley (1947)") == (5,)


@pytest.mark.parametrize(("text", "expected"), [
    ("Great, thanks! I will watch it", 1.0), ("No, that's boring", 0.0),
    ("No, I have never seen it", math.nan),  # not seen is not turned down
    ("I haven't, but it sounds good", 1.0), ("I liked it but I don't want another", 0.5),
    ("a drama", math.nan), ("Love Again (1990)", 1.0),
])  # fmt: skip
def test_reactions_are_read_from_cues(text, expected):
    assert reaction(text) == pytest.approx(expected, nan_ok=True)
    assert math.isnan(reaction(text, [(0, len(text))]))  # words inside a title are no reaction


@pytest.mark.parametrize(("change", "known", "expected"), [
    ({"n_films": 2, "gain": 1.0, "novel": 1.0}, True, 1.0),
    ({"n_films": 2, "gain": 0.5, "novel": 1.0}, True, 0.75),  # (1 + 0.5)/2 · 1
    ({"n_films": 2, "gain": -0.5, "novel": 0.0}, True, 0.25),  # (1 + 0)/2 · ½
    ({"n_films": 1, "novel": 1.0}, False, 0.75),  # no wish known: G is ½
    ({"n_films": 1, "novel": 1.0, "invited": False}, False, 0.375),  # nobody asked
    ({"elicits": True}, False, 0.75), ({"elicits": True, "elicited_before": True}, False, 0.375),
    ({"elicits": True}, True, 0.0),  # asks for what was said
    ({"answers": True}, True, 0.5), ({"closes": True}, True, 0.5), ({}, True, 0.0),
    ({"n_films": 2, "gain": 1.0, "novel": 1.0, "repeats": True}, True, 0.0),
])  # fmt: skip
def test_a_reply_is_judged_on_paper(change, known, expected):
    assert _on_paper(known, **change) == pytest.approx(expected)


def test_a_reaction_counts_half_and_only_where_films_are_named():
    assert [agreement._received(0.5, *given) for given in ((1, 2), (1, 0), (math.nan, 2))] == [0.75, 0.5, 0.5]
    # paper: sqrt((1 + 0)/2) = 0.7071; reactions: (1 + ½)/2 = 0.75
    rows = [{"heard_relevance": 1.0, "reaction": 1.0}, {"heard_relevance": 0.0, "reaction": math.nan}]
    assert agreement._whole(rows) == pytest.approx((0.5**0.5 + 0.75) / 2)
    assert math.isnan(agreement._whole([]))


def talk(number, *said, relevance=(), overall=None, system="alpha"):
    turns = [{"turn_ind": i, "role": ("USER", "ASST")[i % 2], "utterance": t} for i, t in enumerate(said)]
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


def frame(dialogues):
    return pd.DataFrame([row for one in agreement.score(dialogues, TEN) for row in one.rows])


def test_a_reply_is_scored_by_the_gain_and_what_is_said_next_moves_the_score_received(tmp_path):
    good, bad = read(tmp_path, talk(1, *GOOD), talk(2, *BAD))
    rows = frame([good, bad])
    # met and new: 1, 1; asks for what was said: 0; a comedy for a drama wish: (1 + 0)/2 · 1
    assert rows["heard_relevance"].tolist() == [1.0, 1.0, 0.0, 0.5]
    assert rows["satisfaction"].tolist() == [1.0, 1.0, 0.0, 0.0]
    later = ["reaction", "received_relevance"]  # only these look at what is said next
    pd.testing.assert_frame_equal(frame([good.head(1)]).drop(columns=later), rows.head(1).drop(columns=later))
    (with_log,) = score_all([agreement.logged(good, TEN)], TEN, conventions.get("default"))
    assert [row["normalised_gain"] for row in with_log.turns] == rows["normalised_gain"].tolist()[:2]
    reactions = ("Great, thanks, I will watch it", "No, that is boring")
    liked, hated = (talk(number, *GOOD[:2], said, "Enjoy!") for number, said in enumerate(reactions))
    rows = frame(read(tmp_path, liked, hated))
    assert rows["heard_relevance"].tolist() == [1.0, 0.5, 1.0, 0.0]  # "Enjoy!" returns the thanks
    assert rows["received_relevance"].tolist() == [1.0, 0.5, 0.5, 0.0]


def test_every_system_utterance_gets_a_prediction_merged_and_opening_ones_too(tmp_path):
    record = talk(3, *GOOD)
    record["dialogue"].insert(0, {"role": "ASST", "utterance": "Hi! What films do you like?"})
    record["dialogue"].append({"role": "ASST", "utterance": "Enjoy!"})
    record["dialogue"] = [turn | {"turn_ind": place} for place, turn in enumerate(record["dialogue"])]
    (scored,) = agreement.score(read(tmp_path, record), TEN)
    # relevance, and interest: (1 + ¼ for a question)·.9^(turn − 1)
    values = {0: (0.75, 0.75), 2: (1.0, 1.25), 4: (1.0, 0.9), 5: (1.0, 0.9)}
    aspects = {i: {"relevance": r, "interestingness": w} for i, (r, w) in values.items()}
    turns = [{"turn_ind": i, "turn_level_pred": pred} for i, pred in aspects.items()]
    whole = {  # (1 + ½)/2: nobody reacted; so much of the start as of the whole
        "understanding": 0.75, "task_completion": 0.75, "interest_arousal": 0.75,
        "efficiency": (0.75 + 1) / 2, "dialogue_overall": 0.75,
    }  # fmt: skip
    assert scored.entry == {"conv_id": "alpha_3", "turns": turns, "dial_level_pred": whole}


def test_agreement_needs_ratings_and_reads_them(tmp_path):
    plain = read(tmp_path, talk(1, *GOOD))
    refused("no reply carries a human rating", agreement.agreement, agreement.rate(plain, TEN))
    talks = [talk(i, *GOOD, relevance=(2, 2), overall=4, system=s) for i, s in enumerate(("alpha", "beta"))]
    talks += [talk(i, *BAD, relevance=(0, 1), overall=1, system=s) for i, s in ((7, "gamma"), (8, "delta"))]
    rows = agreement.rate(read(tmp_path, *talks), TEN)
    table = agreement.agreement(rows, resamples=50).set_index("level")
    assert table.loc[["reply", "system"], "spearman"].tolist() == pytest.approx([1.0, 1.0])
    assert table.loc["dialogue", ["n", "coverage"]].tolist() == [4, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_correlations_agree_with_scipy(seed):
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 4, 40).astype(float), draw.random(40)
    assert spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y)[0])
    assert math.isnan(spearman(np.ones(5), draw.random(5)))


def test_partial_correlation_takes_out_what_is_given():
    draw = np.random.default_rng(1)
    length = draw.random(200)
    x, y = length + 0.01 * draw.random(200), length + 0.01 * draw.random(200)
    assert spearman(x, y) > 0.95 and abs(partial_spearman(x, y, length[:, None])) < 0.3


def test_a_catalogue_keyed_by_id_is_read_with_years_and_actors(tmp_path):
    records = {
        "11": {"name": "Harbour Lights (1951)", "genre": ["drama"], "star": ["Ada Quill"], "director": ["Zoe Tarn"]},
        "12": {"name": "(2015)", "genre": ["drama"], "star": ["Cy Hale"], "director": []},
        "13": {"name": "1947 (1990)", "genre": ["war"], "star": [None, "Stig"], "plot": "A winter."},
    }  # fmt: skip
    (tmp_path / "films.json").write_text(json.dumps(records))
    first, second = sources.load(tmp_path / "films.json").items
    assert (first.item_id, first.title, first.year) == ("11", "Harbour Lights", 1951)
    assert (second.item_id, second.title, second.year) == ("13", "1947", 1990)
    assert (first.values["genre"], second.values["actor"]) == (("Drama",), ("Stig",))


@pytest.fixture
def score(tmp_path):
    """Run the command on a file's content; the exit code, and what it wrote."""
    films = {item.title: TEN.catalog.record(i) for i, item in enumerate(TEN.catalog.items)}
    (tmp_path / "films.json").write_text(json.dumps(films))

    def run(content, *more):
        (tmp_path / "talks.json").write_text(json.dumps(content))
        at = ["--catalog", str(tmp_path / "films.json"), "--out", str(tmp_path / "run.json")]
        code = main(["score-human", *at, "--dialogues", str(tmp_path / "talks.json"), *more])
        return code, json.loads((tmp_path / "run.json").read_text())

    return run


@pytest.mark.slow
def test_the_command_writes_a_run_file_with_and_without_ratings(score, capsys):
    talks = [talk(i, *GOOD, relevance=(2, i % 3), overall=3, system=f"s{i % 2}") for i in range(24)]
    plain = [talk(i, *GOOD, system=f"s{i % 2}") for i in range(24)]
    code, with_ratings = score(talks)
    shown = capsys.readouterr().out
    told = "reply, within systems", "G-Eval", "dialogue_overall"
    assert code == 0 and all(words in shown for words in told)
    assert score(plain) == (0, with_ratings)  # ratings are never read for scores
    assert "spearman" not in capsys.readouterr().out
    assert with_ratings[0]["turns"][0]["turn_level_pred"] == {"relevance": 1.0, "interestingness": 1.25}
    assert score([])[0] == 2
    assert "no reply to score" in capsys.readouterr().err


def test_odd_conversations_are_scored_or_reported_and_never_fatal(score, capsys):
    nameless = {k: v for k, v in talk(1, *GOOD).items() if k != "conv_id"}
    deaf = talk(2, "I want drama films")  # nobody answers
    mute = {**talk(3), "dialogue": [{"turn_ind": 0, "role": "ASST", "utterance": "Hello?"}]}
    talks = [talk(0, *GOOD), nameless, deaf, mute]
    code, found = score(talks)
    shown = capsys.readouterr().out
    assert code == 0 and "3 dialogues, 4 replies" in shown and "1 of them without a reply" in shown
    assert "1 conversations not scored" in shown and "the user says nothing" in shown
    assert [one["dial_level_pred"]["dialogue_overall"] for one in found] == [0.75, 0.75, 0.0]
    assert score(talks, "--strict") == (2, found)  # the file stays


def test_the_command_scores_dialoguekit_files_utterance_by_utterance(score, capsys):
    said = [
        ("AGENT", "What kind of movies do you like?"),  # an opening: it asks while nothing is known
        ("USER", "Hello,"), ("USER", "I would like a comedy."),  # merged into one turn
        ("AGENT", "Sure!"), ("AGENT", "Try \"Cold Orchard\" (1962)."),  # one reply in two parts
        ("USER", "Thanks"), ("AGENT", ""),
    ]  # fmt: skip
    turns = [{"participant": who, "utterance": text} for who, text in said]
    talks = [{"conversation_id": "c1", "conversation": turns}]
    code, (found,) = score({"agent": {"id": "MovieBot"}, "dialogues": talks})
    assert code == 0 and "1 dialogues, 2 replies" in capsys.readouterr().out
    values = [(turn["turn_ind"], turn["turn_level_pred"]["relevance"]) for turn in found["turns"]]
    assert found["conv_id"] == "c1"
    assert [place for place, _ in values] == [0, 3, 4, 6]  # every utterance of the agent, by its place
    assert values[0] == (0, 0.75) and values[1][1] == values[2][1] > values[3][1] == 0


def mirrored(name):
    """The mirror's folder, where it has this data set."""
    mirror = paths.mirror()
    if mirror is None or not (mirror / name).is_dir():
        pytest.skip(f"no {name} here; name a folder with it in CRS_MIRROR")
    return mirror


@pytest.mark.external
@pytest.mark.parametrize(("name", "least"), [("crsarena", [0.52, 0.60]), ("abredial", [0.45, 0.30])])
def test_people_agree_with_the_unsupervised_score(name, least):
    folder = mirrored(name) / "crsarena"
    films = Grounder(sources.load(folder / "redial_id2info.json"))
    arena = name == "crsarena"
    talks = logs.read(folder / "crs_arena_eval_redial.json") if arena else raters.conversations(name)
    table = agreement.agreement(agreement.rate(talks, films), resamples=20).set_index("level")
    assert (table.loc[["reply", "dialogue"], "spearman"] >= least).all()
    assert table.loc["reply", "coverage"] == 1.0 or not arena


@pytest.fixture
def rated(tmp_path):
    """Two conversations, three raters: all but one rating of the first reply are the same."""
    # in some rows blanks stand for the tab
    said = (
        "SYSTEM\tHello", "USER\tI want drama films", "SYSTEM\tTry Cold Orchard (1962)", "USER   Thanks, great"
    )  # fmt: skip
    head = ["ConvId", *(f"utterance{i}" for i in range(4))]
    rows = [["AB", *said, value, 2, 3] for value in (4, 4, 1)] + [["CD", *said, 0, 2, 3] for _ in range(3)]
    turns = pd.DataFrame(rows, columns=[*head, "relevance1", "interestingness1", "overall1"])
    turns.to_csv(tmp_path / raters.TURNS, index=False)
    longer = ["AB", "USER\tHi", *said[:3], 4]  # the whole conversation begins before the rated stretch
    whole = pd.DataFrame([longer, ["CD", *said, 2]], columns=[*head, "dialogue-overall"])
    whole.to_csv(tmp_path / raters.DIALOGUES, index=False)
    return tmp_path


def test_every_rating_is_read_at_its_place_and_a_ceiling_is_one_rater_against_the_others(rated):
    talks = list(raters.conversations("abredial", rated))
    given = raters.ratings(talks)
    relevance = given[given["construct"] == "relevance"]
    assert relevance["value"].tolist() == [4, 4, 1, 0, 0, 0]
    assert relevance["item"].unique().tolist() == ["AB 3", "CD 2"]
    rows = pd.DataFrame([row for one in agreement.score(talks, TEN) for row in one.rated])
    assert rows["relevance"].dropna().tolist() == [3.0, 0.0]  # (4 + 4 + 1)/3
    assert rows.groupby("conv_id")["dialogue_overall"].first().to_dict() == {"AB": 4.0, "CD": 2.0}
    given = raters.ratings(raters.conversations("abredial", rated))
    found = raters.ceiling(given, resamples=50).set_index("construct")
    # the others' means: 2.5, 2.5, 4 for AB, 0 for CD
    expected = spearman(np.array([4.0, 4, 1, 0, 0, 0]), np.array([2.5, 2.5, 4, 0, 0, 0]))
    assert found.loc["relevance", "spearman"] == pytest.approx(expected)
    assert found.loc["relevance", ["n_ratings", "n_items"]].tolist() == [6, 2]
    assert np.isnan(found.loc["overall", "spearman"])  # nothing varies


def test_a_table_without_its_columns_is_refused(tmp_path):
    pd.DataFrame([["AB", "USER\thi"]], columns=["ConvId", "utterance0"]).to_csv(tmp_path / raters.TURNS)
    for fault in ("no column 'relevance1'", "cannot be read"):
        refused(f"annotated_turns.csv: {fault}", next, raters.conversations("abredial", tmp_path))
        (tmp_path / raters.TURNS).unlink(missing_ok=True)


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
    info = {name: {"role": a, "utterance_pos": b, "utterance_text": c} for name, (a, b, c) in said.items()}
    (tmp_path / "iard.json").write_text(json.dumps({"7": {"dialogue_info": info}}))
    (talk,) = raters.conversations("iard", tmp_path / "iard.json")
    assert [turn.text for turn in talk.turns] == ["a drama?", 'Yes, "Cold Orchard (1962)" ?']
    (tmp_path / "iard.json").write_text(json.dumps({"7": {"dialogue_info": {"S1": {}}}}))
    refused(r"iard.json: not the data set 'iard'", list, raters.conversations("iard", tmp_path / "iard.json"))


def corpus(rows):
    return lambda: pd.DataFrame(rows, columns=["dataset", "conversation", "turn", "kind", "wishes"])


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
    assert comedy[["uptake", "release", "misfit"]].tolist() == pytest.approx([1, 1, 0])
    assert drama["uptake"] < 0  # a drama for one who now asks for a comedy
    assert np.isnan(found.loc[0, "uptake"])
    # with the label the drama stays: the film shown meets what was kept, not what is new
    assert drama["uptake, readers' labels"] < 0.5
    monkeypatch.setattr(revisions, "_corpus", corpus(rows[3:]))
    refused("'uss': none of the 1 conversations of the corpus", revisions.replies, TEN)


def made_up(n, seed):
    """Replies to revisions of ``n`` conversations whose rating is the uptake, with noise."""
    draw = np.random.default_rng(seed)
    names = (*revisions.MEASURES, "satisfaction_next")
    frame = pd.DataFrame({name: draw.normal(size=2 * n) for name in names})
    frame["relevance"] = frame["uptake"] + 0.3 * draw.normal(size=2 * n)
    frame["conv_id"] = [f"c{i // 2}" for i in range(2 * n)]
    system = np.where(draw.random(2 * n) < 0.5, "a", "b")
    frame = frame.assign(dataset="crsarena", system=system, interestingness=0.0)
    frame["role"] = np.where(np.arange(2 * n) % 2, revisions.REVISION, revisions.FIRST)
    frame["half"] = [revisions.HALVES[raters.share_of(name, 2)] for name in frame["conv_id"]]
    for name in revisions.VARIANTS[1:]:
        frame[name] = draw.normal(size=2 * n)
    return frame


def test_the_study_chooses_on_one_half_reports_both_and_its_committed_tables_tell_the_choice(tmp_path):
    found = revisions.study(made_up(80, 3), resamples=50)
    chosen = {"uptake": True, "uptake, else gain": False, "uptake, else gain, else 0": False}
    assert found.choice.set_index("variant")["chosen"].to_dict() == chosen
    row = found.agreement.query("rating == 'crsarena: relevance' and measure == 'n_films'").set_index("half")
    assert row.loc["development", "n"] + row.loc["confirmation", "n"] == row.loc["both", "n"] == 80
    assert row.loc["confirmation", "diff_low"] > 0  # uptake tells more than the number of films
    slope = found.model.query("model == 'uptake' and term == 'uptake'").iloc[0]
    assert slope["low"] > 0.5 and found.systems["n"].sum() == 80
    found = revisions.committed()
    assert found.choice.set_index("variant")["chosen"].to_dict()["uptake"]
    counts = found.agreement.query("rating == 'all sets' and measure == 'turn'").set_index("half")["n"]
    assert counts["both"] >= 150 and counts["confirmation"] >= 150
    revisions.write(found, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (paths.samples() / "revisions_study.jsonl").read_text()


def test_aspects_are_those_of_the_published_run_files():
    path = paths.samples() / "revisions.jsonl"
    assert set(agreement.OF_REPLY) == {"relevance", "interestingness"}
    aspects = {"understanding", "task_completion", "interest_arousal", "efficiency", "dialogue_overall"}
    assert set(agreement.OF_DIALOGUE) == aspects
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    allowed = {"dataset", "conversation", "turn", "reply", "kind", "kinds", "scope", "scopes", "wishes"}
    assert all(set(row) == allowed and " " not in row["conversation"] for row in rows)  # ids, no sentence


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
    outcomes = [*enumerate(([True, False], [False, False], [True, True]))]
    talks = [concept(name, f"{i}.json", hits) for name in ("kbrd", "barcor") for i, hits in outcomes]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, talks)))
    frame = raters.success(logs.read(tmp_path / "talks.jsonl"), TEN)
    assert len(frame) == 12
    found = raters.prediction(frame, resamples=20).set_index(["criterion", "level", "predictor"])
    assert found.loc[("in_text", "reply", "satisfaction"), "within"] == 1.0
    assert raters.systems(frame)["in_list"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert raters.missed(frame, 1)["in_text"].tolist() == [True, False]
    refused("no reply logs success", raters.success, [], TEN)
