"""The thesis's catalogue index and sentence space: its rules on small examples, and a second opinion."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from crs_lib.core.errors import InputError
from crs_lib.metrics.similarity import EmbeddingSpace, TfidfSpace, cosines, read_vocabulary
from crs_lib.thesis.catalog import ThesisCatalog, normalise, plot_keywords

RECORDS = [
    ("Alpha", {"name": "Alpha", "genre": ["Action", "Action Film"], "actor": ["Maya Lind"], "year": "1999",
               "plot": "Sailors drift across frozen water."}),
    ("Beta", {"genre": ["Crime Fiction", "Action"], "actor": ["Maya Lind", "Maya Lind"], "language": ["English"]}),
    ("Gamma", {"genre": "Drama", "director": ["Ida Holm"], "plot": "Frozen sailors."}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "given", "expected"), [
    ("genre", "Science Fiction", "science"), ("genre", "Sci-Fi", "sci-fi"),
    ("genre", "Toys (comic book fictional universe)", "toys (comic bookal universe)"),
    ("genre", "Fiction", "fiction"), ("genre", " Action Film ", "action"), ("year", "c. 1999", "1999"),
    ("actor", " Maya LIND ", "maya lind"),
])  # fmt: skip
def test_values_are_compared_in_the_thesis_s_form(field, given, expected):
    assert normalise(field, given) == expected


def test_the_index_repeats_films_and_counts_distinct_ones():
    catalog = ThesisCatalog(RECORDS)
    assert catalog.index["genre"]["action"] == [0, 0, 1]
    assert catalog.index["actor"]["maya lind"] == [0, 1, 1]
    action, crime = (catalog.space.code_of["genre", name] for name in ("action", "crime"))
    assert catalog.space.films[action] == 2
    assert catalog.space.idf[action] == pytest.approx(np.log(4 / 3) + 1)
    # a label that was normalised never meets its own wish
    assert crime not in catalog.raw_codes[1] and action in catalog.raw_codes[1]


@pytest.mark.parametrize(("constraints", "films", "how"), [
    ({"genre": "Action", "actor": "Maya Lind"}, {0, 1}, "all fields"),
    ({"genre": "Drama", "actor": "Maya Lind"}, {0, 1, 2}, "union"),
    ({"genre": "Drama", "actor": "Nobody"}, {2}, "fewer fields"),
    ({"actor": "Nobody"}, {0, 1, 2}, "catalogue"), ({"genre": "ram"}, {2}, "all fields"),
    ({"plot": ["frozen"], "title": "Alpha"}, {0}, "all fields"), ({}, {0, 1, 2}, "catalogue"),
])  # fmt: skip
def test_retrieval_says_how_it_came_to_its_films(constraints, films, how):
    assert ThesisCatalog(RECORDS).candidates(constraints) == (frozenset(films), how)
    assert plot_keywords("The story: what COLD, cold seas!") == ["cold", "seas"]


def test_catalogues_that_cannot_be_used_are_errors(tmp_path):
    (tmp_path / "empty.json").write_text("{}")
    for wrong in ("empty.json", "missing.json"):
        with pytest.raises(InputError, match="json"):
            ThesisCatalog.load(tmp_path / wrong)
    assert len(ThesisCatalog.load("sample")) > 700


DOCUMENTS = ["A quiet love story", "the quiet sea", "Sea, love and SEA", "storm over the sea", ""]
TEXTS = ["quiet love", "The sea, the sea!", "nothing known", "", "love story of the quiet sea"]


@pytest.mark.parametrize("vocabulary", [None, ["love", "quiet love", "sea", "sea love"]])
def test_the_sentence_space_equals_scikit_learn(vocabulary):
    ours = TfidfSpace(DOCUMENTS, vocabulary, max_features=500)
    theirs = TfidfVectorizer(stop_words="english", ngram_range=(1, 2), vocabulary=vocabulary).fit(DOCUMENTS)
    assert list(ours.vocabulary) == list(theirs.get_feature_names_out())
    np.testing.assert_allclose(ours.rows(TEXTS).toarray(), theirs.transform(TEXTS).toarray(), atol=1e-12)
    pairs = cosines(ours.rows(TEXTS), [0, 0, 2], [4, 0, 0])
    dense = theirs.transform(TEXTS).toarray()
    np.testing.assert_allclose(pairs, [dense[0] @ dense[4], dense[0] @ dense[0], 0.0], atol=1e-12)


def test_a_vocabulary_is_stable_and_its_file_holds_distinct_terms(tmp_path):
    """sea 4×; then quiet, love 2× each: love before quiet; the others once, none of them among three."""
    assert TfidfSpace(DOCUMENTS, max_features=3).vocabulary == ("love", "quiet", "sea")
    path = tmp_path / "terms.txt"
    path.write_text("sea\nsea love\n")
    assert read_vocabulary(path) == ["sea", "sea love"]
    path.write_text("sea\nsea\n")
    with pytest.raises(InputError, match="distinct"):
        read_vocabulary(path)
    with pytest.raises(InputError, match="no word"):
        TfidfSpace(["", "the"])


def test_sentence_embeddings_state_themselves():
    space = EmbeddingSpace("hashing")
    assert space.name == "hashing"
    rows = space.rows(["quiet sea", "quiet sea", "storm"])
    same, other = cosines(rows, [0, 0], [1, 2])
    assert same == pytest.approx(1, abs=1e-6) and other < 0.9
