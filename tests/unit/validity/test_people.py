"""Conversations with people: wishes heard, ratings read, and how measures follow them at revisions."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from crs_lib import data as logs
from crs_lib.catalog import sources
from crs_lib.core import paths
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.stats.effects import spearman
from crs_lib.validity import agreement, heard, rated, revisions
from tests.helpers import refused, table
from tests.helpers.films import grounder

TEN = grounder()


def codes(*concepts):
    """The codes of concepts such as "genre=Drama"."""
    return {TEN.catalog.code(*concept.split("=")) for concept in concepts}


DRAMA = codes("genre=Drama")
COMEDY = codes("genre=Comedy")
WAR_DRAMA = codes("genre=War", "genre=Drama")


@pytest.mark.parametrize(("text", "wanted", "unwanted"), table(__file__, "wishes"))
def test_wishes_are_heard_with_their_sign(text, wanted, unwanted):
    wording = heard.read(TEN, text)
    assert wording.wanted == codes(*wanted)
    assert wording.unwanted == codes(*unwanted)


def states_after(*texts):
    """The state after each text: constraints, exclusions, whether it asks about a film."""
    listener = heard.Listener(TEN)
    return [listener.listen(text) for text in texts]


def test_wishes_are_carried_replaced_and_taken_back():
    texts = "I want drama films", "something else please", "a comedy film then", "no comedy film please"
    first, second, third, last = states_after(*texts)
    assert first == heard.HeardState(DRAMA, set(), False)
    assert second == first
    assert third.constraints == COMEDY
    assert last == heard.HeardState(set(), COMEDY, False)


def test_wishes_are_given_up():
    texts = "drama films with Ada Quill", "Ada Quill is not required any more", "forget the rest, a comedy"
    _, second, last = states_after(*texts)
    assert second.constraints == DRAMA
    assert last.constraints == COMEDY


def test_a_film_that_is_liked_stands_for_its_genres_until_a_wish_is_said():
    texts = "I loved Iron Valley", "Who directed Paper Kites?", "give me a comedy film"
    liked, question, wish = states_after(*texts)
    assert liked == heard.HeardState(WAR_DRAMA, set(), False)
    assert question == heard.HeardState(WAR_DRAMA, set(), True)
    assert wish.constraints == COMEDY


def test_a_year_in_brackets_is_no_title():
    films = heard.films(TEN, "Her (1988), 1947 (1990) and Iron Valley (1947)")
    titles = [TEN.catalog.items[film].title for film in films]
    assert titles == ["Her", "1947", "Iron Valley"]
    assert heard.films(TEN, "something like Iron Valley (1947)") == (5,)


def test_the_gain_is_that_of_the_state_heard(tmp_path):
    texts = ["I want drama films", "How about Cold Orchard (1962)?", "drama films!", "Lantern Street (1999)."]
    turns = []
    for role, text in zip(("USER", "ASST") * 2, texts, strict=True):
        turns.append({"role": role, "utterance": text})
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([{"conv_id": "alpha_1", "dialogue": turns}]))
    (talk,) = logs.read(path)
    dialogue = heard.logged(talk, TEN)
    (scores,) = score_all([dialogue], TEN, conventions.get("default"))
    first, second = scores.turns
    assert first["satisfaction"] == 1.0
    assert second["satisfaction"] == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_correlations_agree_with_scipy(seed):
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 4, 40).astype(float)
    y = draw.random(40)
    expected, _ = scipy_stats.spearmanr(x, y)
    assert spearman(x, y) == pytest.approx(expected)
    assert math.isnan(spearman(np.ones(5), y[:5]))


def test_a_lead_is_the_difference_of_two_correlations_and_none_over_itself():
    draw = np.random.default_rng(2)
    rating, other = draw.random((2, 40))
    frame = pd.DataFrame({"rating": rating, "score": rating, "other": other})
    frame["conv_id"] = [f"c{number}" for number in range(40)]
    frame["system"] = "a"
    lead = agreement.lead(frame, "score", "other", "rating", resamples=50)
    assert lead.diff == pytest.approx(1 - spearman(other, rating))
    assert lead.diff_low <= lead.diff <= lead.diff_high
    over_itself = agreement.lead(frame, "score", "score", "rating", resamples=50)
    assert over_itself.diff == 0
    assert np.isnan(over_itself.diff_high), "the same in every draw has no interval"


WITHOUT_FIRST_STAR = {"name": "1947 (1990)", "genre": ["war"], "star": [None, "Stig"], "plot": "A winter."}


def test_a_catalogue_keyed_by_id_is_read_with_years_and_actors(tmp_path):
    records = table(__file__, "films_by_id") | {"13": WITHOUT_FIRST_STAR}
    path = tmp_path / "films.json"
    path.write_text(json.dumps(records))
    first, second = sources.load(path).items
    assert (first.item_id, first.title, first.year) == ("11", "Harbour Lights", 1951)
    assert (second.item_id, second.title, second.year) == ("13", "1947", 1990)
    assert first.values["genre"] == ("Drama",)
    assert second.values["actor"] == ("Stig",)


@pytest.fixture
def abredial(tmp_path):
    """Two conversations, three raters: all but one rating of the first reply are the same."""
    texts = table(__file__, "abredial")
    head = ["ConvId", "utterance0", "utterance1", "utterance2", "utterance3"]
    rows = []
    for value in (4, 4, 1):
        rows.append(["AB", *texts, value, 2])
    rows += [["CD", *texts, 0, 2]] * 3
    turns = pd.DataFrame(rows, columns=[*head, "relevance1", "interestingness1"])
    turns.to_csv(tmp_path / rated.TURNS, index=False)
    longer = ["AB", "USER\tHi", *texts[:3], 4]  # the whole conversation begins before the rated stretch
    other = ["CD", *texts, 2]
    wholes = pd.DataFrame([longer, other], columns=[*head, "dialogue-overall"])
    wholes.to_csv(tmp_path / rated.DIALOGUES, index=False)
    return tmp_path


def reply_of(conversation):
    """The rated reply of a conversation, as its only turn."""
    return [turn for turn in conversation.turns if "Cold Orchard" in turn.text]


def test_ratings_are_read_at_their_place(abredial):
    first, second = rated.conversations("abredial", abredial)
    assert rated.rating(reply_of(first), "relevance") == 3.0  # (4 + 4 + 1)/3
    assert math.isnan(rated.rating(first.turns[:1], "relevance"))
    assert rated.rating(reply_of(second), "interestingness") == 2.0


def test_a_table_without_its_columns_is_refused(tmp_path):
    path = tmp_path / rated.TURNS
    path.write_text("ConvId,utterance0\nAB,USER\thi\n")
    conversations = rated.conversations("abredial", tmp_path)
    refused("annotated_turns.csv: no column 'relevance1'", next, conversations)
    path.unlink()
    conversations = rated.conversations("abredial", tmp_path)
    refused("annotated_turns.csv: cannot be read", next, conversations)


@pytest.fixture
def uss(tmp_path):
    blocks = ["\n".join(lines) for lines in table(__file__, "uss")]
    path = tmp_path / "redial.txt"
    path.write_text("\n\n".join(blocks) + "\n")
    return path


def test_uss_is_read_with_hashes_of_its_texts_for_names(uss):
    first, second = rated.conversations("uss", uss)
    assert first.turns[2].text == "no? a comedy then"
    assert len(first.session_id) == 12, "places differ in a half of the file"
    assert first.session_id != second.session_id
    uss.write_text("USER\n")
    damaged = rated.conversations("uss", uss)
    refused("not the data set 'uss'", list, damaged)


class Revised:
    """Made-up labels of the conversations of USS."""

    def __init__(self, uss):
        comedy, drama = rated.conversations("uss", uss)
        names = {"comedy": comedy.session_id, "drama": drama.session_id, "none": "not here"}
        self.rows = []
        for name, *label in table(__file__, "labelled"):
            self.rows.append(["uss", names[name], *label])

    def corpus(self):
        return pd.DataFrame(self.rows, columns=["dataset", "conversation", "turn", "kind", "wishes"])


@pytest.fixture
def revised(uss, monkeypatch):
    labels = Revised(uss)
    monkeypatch.setattr(revisions, "corpus", labels.corpus)
    monkeypatch.setattr(rated.datasets, "locate", lambda name: uss)
    monkeypatch.setattr(revisions, "RATINGS", {"uss": ("satisfaction_next",)})
    return labels


def test_a_revision_is_scored_by_the_change_that_is_heard(revised):
    rows = revisions.replies(TEN)
    assert rows["role"].tolist() == ["first request", "revision", "first request", "revision"]
    first, comedy, _, drama = rows.to_dict("records")
    assert comedy["uptake"] == pytest.approx(1)
    assert comedy["release"] == pytest.approx(1)
    assert comedy["misfit"] == pytest.approx(0)
    assert drama["uptake"] < 0  # a drama for one who now asks for a comedy
    assert np.isnan(first["uptake"])


def test_the_satisfaction_of_what_people_say_next_belongs_to_the_reply_before(revised):
    # the next turn's mean; of a merged turn the mean of its utterances: (4 + 1)/2
    rows = revisions.replies(TEN)
    assert rows["satisfaction_next"].tolist() == [3.0, 2.5, 3.0, 1.0]


def test_with_the_readers_label_a_wish_that_was_replaced_stays(revised):
    # the film shown meets what was kept, not what is new
    rows = revisions.replies(TEN)
    assert rows.loc[3, revisions.LABELLED] < 0.5


def test_a_file_without_a_conversation_of_the_corpus_is_refused(revised):
    revised.rows = revised.rows[3:]
    refused("labelled conversations in data set 'uss': 0 of 1 match", revisions.replies, TEN)


def made_up(n, seed):
    """Replies to revisions of ``n`` conversations whose rating is the uptake, with noise."""
    draw = np.random.default_rng(seed)
    names = [*revisions.MEASURES, "satisfaction_next"]
    frame = pd.DataFrame(index=range(2 * n))
    for name in names:
        frame[name] = draw.normal(size=2 * n)
    frame["relevance"] = frame["uptake"] + 0.3 * draw.normal(size=2 * n)
    frame["conv_id"] = np.repeat([f"c{number}" for number in range(n)], 2)
    frame["system"] = np.where(draw.random(2 * n) < 0.5, "a", "b")
    frame["role"] = [revisions.FIRST, revisions.REVISION] * n
    shares = [rated.share_of(name, 2) for name in frame["conv_id"]]
    frame["half"] = [revisions.HALVES[share] for share in shares]
    for name in revisions.VARIANTS[1:]:
        frame[name] = draw.normal(size=2 * n)
    return frame.assign(dataset="crsarena", interestingness=0.0)


def test_the_study_chooses_on_one_half_and_reports_both():
    study = revisions.study(made_up(80, 3), resamples=50)
    assert study.choice["chosen"].tolist() == [True, False, False]
    films = study.agreement.query("rating == 'crsarena: relevance' and measure == 'n_films'")
    films = films.set_index("half")
    assert films.loc["both", "n"] == 80
    assert films.loc[["development", "confirmation"], "n"].sum() == 80
    assert films.loc["confirmation", "diff_low"] > 0  # uptake tells more than the number of films
    slope = study.model.query("model == 'uptake' and term == 'uptake'").iloc[0]
    assert slope["low"] > 0.5
    assert study.systems["n"].sum() == 80


def test_the_committed_tables_tell_the_choice_and_are_written_as_they_are(tmp_path):
    study = revisions.committed()
    choice = study.choice.set_index("variant")
    assert choice.loc["uptake", "chosen"]
    n = study.agreement.query("rating == 'all sets' and measure == 'turn'").set_index("half")["n"]
    assert n["both"] >= 150
    assert n["confirmation"] >= 150
    again = tmp_path / "again.jsonl"
    revisions.write(study, again)
    committed = paths.samples() / "revisions_study.jsonl"
    assert again.read_text() == committed.read_text()


def test_the_corpus_holds_ids_and_labels_and_no_sentence():
    columns = ["dataset", "conversation", "turn", "reply", "kind", "kinds", "scope", "scopes", "wishes"]
    lines = (paths.samples() / "revisions.jsonl").read_text().splitlines()
    assert lines
    for row in map(json.loads, lines):
        assert sorted(row) == sorted(columns)
        assert " " not in row["conversation"]


@pytest.mark.external
def test_the_committed_tables_are_those_of_the_data_sets():
    if paths.mirror() is None:
        pytest.skip("no data sets here; name a folder with them in CRS_MIRROR")
    live, source = revisions.read(revisions.stats.Design(resamples=20), live=True)
    if "Computed" not in source:
        pytest.skip(source)
    estimates = ["half", "rating", "measure", "n", "spearman"]
    committed = revisions.committed().agreement
    pd.testing.assert_frame_equal(live.agreement[estimates], committed[estimates], atol=1e-6)
