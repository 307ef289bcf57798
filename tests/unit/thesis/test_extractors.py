"""Concept extractors: worked examples, a contract for every member, second opinions."""

import json
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from crs_lib.catalog import sources
from crs_lib.core.errors import RunError
from crs_lib.llm import LLM
from crs_lib.thesis import extractors
from crs_lib.thesis.catalog import ThesisCatalog, normalise, plot_keywords
from crs_lib.thesis.extractors import EXTRACTORS, ConceptSpace, ExtractorInputs, SubstringMatcher
from crs_lib.thesis.similarity import EmbeddingSpace, TfidfSpace, cosines, read_vocabulary
from tests.helpers import refused

VALUES = {
    "genre": ["drama", "reference", "ex", "science", "horror"],
    "actor": ["eve", "brian johnson", "maya lind", "tomas berg"], "director": ["rian johnson", "ida holm"],
    "writer": ["ida holm"], "language": ["ger", "english"], "year": ["1999", "975"],
}  # fmt: skip
FIELDS = tuple(VALUES)


def space():
    field, value = zip(*((name, value) for name in FIELDS for value in VALUES[name]), strict=True)
    films = np.ones(len(field), np.int64)
    return ConceptSpace(field, value, films, 9, tuple(map("{}={}".format, field, value)))


def reply(request):
    text = request.messages[-1].content
    concepts = {name: [] for name in FIELDS}
    if "Maya" in text:
        concepts["actor"] = ["Maya Lind", "Nobody Known"]
    return json.dumps(concepts)


def made(name, over=None):
    llm = LLM("scripted", answers=reply) if name == "llm" else ""
    return extractors.create(name, ExtractorInputs(over or space(), None, llm))


def found(name, text):
    extractor = made(name)
    return set(extractor.space.keys(extractor.sets([text])[0]))


@pytest.mark.parametrize("name", EXTRACTORS.names())
def test_every_extractor_keeps_the_contract(name):
    extractor = made(name)
    texts = ["A horror film with Maya Lind, 1999.", "", "   ", "nothing here"]
    sets = extractor.sets([*texts, texts[0]])
    assert isinstance(extractor.embedder, str)
    assert len(sets) == 5
    assert sets.pop() == sets[0]
    assert sets[1] == sets[2] == frozenset()
    assert all(0 <= code < len(extractor.space.value) for codes in sets for code in codes)
    assert extractor.sets(list(reversed(texts))) == list(reversed(sets))
    assert extractor.sets([]) == []
    assert "actor=maya lind" in extractor.space.keys(sets[0])


IN_WORD = [
    ("genre=reference", "What is your preference?"), ("language=ger", "It is full of danger."),
    ("genre=ex", "An excellent, exciting choice."), ("actor=eve", "Every evening, whatever you believe."),
    ("director=rian johnson", "Brian Johnson sings."),
]  # fmt: skip


@pytest.mark.parametrize(("concept", "text"), IN_WORD)
def test_only_substrings_look_inside_words(concept, text):
    assert concept in found("substring", text)
    assert concept not in found("words", text)
    assert concept not in found("rules", text)


def test_the_default_finds_nothing_inside_words_and_rules_fuzzy_and_hybrid_by_hand():
    catalog = sources.load("sample")
    extractor = extractors.create("words", ExtractorInputs(ConceptSpace.of(catalog), catalog))
    assert extractor.sets([text for _, text in IN_WORD]) == [frozenset()] * len(IN_WORD)
    assert found("rules", "from 1999 or 975") == {"year=1999"}  # years of two centuries only
    assert found("substring", "from 1999 or 975") == {"year=1999", "year=975"}
    # fuzzy, "mayaa": 2·4/(4+5) = 0.889 ≥ 0.88; "maia": 2·3/8 = 0.75 < 0.88
    assert "actor=maya lind" in found("fuzzy", "with mayaa lind")
    assert "actor=maya lind" not in found("fuzzy", "with maia lind")
    # hybrid asks the next only for fields that are empty
    assert {"genre=drama", "actor=maya lind"} <= found("hybrid", "drama with mayaa lind")
    assert "actor=brian johnson" not in found("hybrid", "a film by Rian Johnson with Maya Lind")
    years = ("1850", "1750", "2001")
    wide = ConceptSpace(("year",) * 3, years, np.ones(3, dtype=np.int64), 3, years)
    (read,) = extractors.create("rules", ExtractorInputs(wide)).sets(["a tale of 1850, not of 1750"])
    assert {wide.value[code] for code in read} == {"1850"}


@pytest.mark.slow
def test_embed_equals_the_textbook_computation():
    over = ThesisCatalog.load("sample").space
    texts = [
        "Do you know a crime drama, perhaps in French?", "drama", "Anything by the director of that thriller?",
        "I liked the sound of it. Who stars in it?", "1994", "x", "Ääh, très bien — romance!",
    ]  # fmt: skip
    ours = made("embed", over).sets(texts)
    for text, concepts in zip(texts, ours, strict=True):
        expected = set()
        for codes in over.fields.values():
            vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))
            matrix = vectoriser.fit_transform([over.value[code] for code in codes])
            cosine = (vectoriser.transform([text]) @ matrix.T).toarray().ravel()
            best = np.argsort(-cosine, kind="stable")[:3]
            expected |= {codes[i] for i in best if cosine[i] >= 0.35}
        assert concepts == expected, text


def test_llm_takes_known_names_only_and_needs_a_model():
    assert found("llm", "I adore Maya!") == {"actor=maya lind"}
    refused("did you mean 'substring'", extractors.create, "substrings", ExtractorInputs(space()))
    refused("needs a model", extractors.create, "llm", ExtractorInputs(space()))
    broken = extractors.create("llm", ExtractorInputs(space(), None, LLM("scripted", answers=lambda _: "{")))
    refused("gave no usable answer", broken.sets, ["hello there"], error=RunError)


TEXTS = st.text(alphabet="abcer éß.ıΩ𝔄\n\x00", max_size=60)
PATTERNS = st.text(alphabet="abcer éß𝔄", min_size=1, max_size=19) | st.text("ab", min_size=1)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=5), st.lists(PATTERNS, max_size=12))
def test_the_matcher_equals_a_loop_of_in_tests(texts, patterns):
    sets = SubstringMatcher(patterns).find(texts)
    assert sets == [{i for i, pattern in enumerate(patterns) if pattern in text} for text in texts]


def test_any_character_may_occur_in_patterns_and_texts():
    every = "".join(map(chr, range(0x20000, 0x30000)))
    assert SubstringMatcher([every, "", every[5:9]]).find([every, "", every[:9]]) == [{0, 2}, set(), {2}]
    assert SubstringMatcher(["b", "\ufffdb"]).find(["a\ud800b", "a\ufffdb"]) == [{0}, {0, 1}]
    assert SubstringMatcher([]).find(["a"]) == [set()]
    assert SubstringMatcher(["b", "a", "b"]).find(["b"]) == [{0, 2}]
    texts = ["with lind jr. and others", "with lind jr.x", "blind jr."]  # a full stop at the end is whole
    assert SubstringMatcher(["lind jr."]).find(texts, whole=True) == [{0}, {0}, set()]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="ab c-_é", max_size=30), max_size=4))
def test_whole_matches_equal_a_regular_expression(texts):
    patterns = ["a", "ab", "a b", "é", "b-c", "c_"]
    sets = SubstringMatcher(patterns).find(texts, whole=True)
    whole = [re.compile(rf"(?<!\w){re.escape(pattern)}(?!\w)") for pattern in patterns]
    assert sets == [{i for i, regex in enumerate(whole) if regex.search(text)} for text in texts]


@pytest.mark.filterwarnings("error")
def test_a_word_without_end_takes_no_hours():
    endless = "x" * 100_000  # compared letter by letter it would take them
    space = ConceptSpace(("genre",) * 2, ("drama", endless), np.ones(2, int), 2, ("genre=drama", "genre=x"))
    near = EXTRACTORS.create("fuzzy", inputs=ExtractorInputs(space)).near
    assert near("x" * 1_000_000) == near("drana") == []
    assert near("dramas") == ["drama"]
    assert near(endless[1:]) == [endless]


def test_scoring_a_text_of_a_hundred_times_the_length_takes_no_ten_thousand_times_the_time():
    """Linear or nearly so, for every extractor without a model, with words and without any space."""
    for name in (name for name in EXTRACTORS.names() if name != "llm"):
        extractor = made(name)
        for piece in ("drama and maya lynd ", "x", "a\u0301"):
            took = []
            for times in (500, 50_000):
                began = time.process_time()
                extractor.sets([piece * times])
                took.append(time.process_time() - began)
            assert took[1] < 1_000 * max(took[0], 1e-4), (name, piece, took)


RECORDS = [
    ("Alpha", {"name": "Alpha", "genre": ["Action", "Action Film"], "actor": ["Maya Lind"], "year": "1999",
               "plot": "Sailors drift across frozen water."}),
    ("Beta", {"genre": ["Crime Fiction", "Action"], "actor": ["Maya Lind", "Maya Lind"], "language": ["English"]}),
    ("Gamma", {"genre": "Drama", "director": ["Ida Holm"], "plot": "Frozen sailors."}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "expected"), [
    ("genre", "Science Fiction", "science"), ("genre", "Sci-Fi", "sci-fi"),
    ("genre", "Toys (comic book fictional universe)", "toys (comic bookal universe)"),
    ("genre", "Fiction", "fiction"), ("genre", " Action Film ", "action"), ("year", "c. 1999", "1999"),
    ("actor", " Maya LIND ", "maya lind"),
])  # fmt: skip
def test_values_are_compared_in_the_thesis_s_form(field, value, expected):
    assert normalise(field, value) == expected


def test_the_index_repeats_films_counts_distinct_ones_and_unusable_catalogues_are_errors(tmp_path):
    catalog = ThesisCatalog(RECORDS)
    assert catalog.index["genre"]["action"] == [0, 0, 1]
    assert catalog.index["actor"]["maya lind"] == [0, 1, 1]
    action, crime = (catalog.space.code_of["genre", name] for name in ("action", "crime"))
    assert catalog.space.films[action] == 2
    assert catalog.space.idf[action] == pytest.approx(np.log(4 / 3) + 1)
    # a label that was normalised never meets its own wish
    assert crime not in catalog.raw_codes[1]
    assert action in catalog.raw_codes[1]
    (tmp_path / "empty.json").write_text("{}")
    refused("json", ThesisCatalog.load, tmp_path / "empty.json")
    refused("json", ThesisCatalog.load, tmp_path / "missing.json")
    assert len(ThesisCatalog.load("sample")) > 700


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


DOCUMENTS = ["A quiet love story", "the quiet sea", "Sea, love and SEA", "storm over the sea", ""]
LEGACY_TEXTS = ["quiet love", "The sea, the sea!", "nothing known", "", "love story of the quiet sea"]


@pytest.mark.parametrize("vocabulary", [None, ["love", "quiet love", "sea", "sea love"]])
def test_the_sentence_space_equals_scikit_learn(vocabulary):
    ours = TfidfSpace(DOCUMENTS, vocabulary, max_features=500)
    theirs = TfidfVectorizer(stop_words="english", ngram_range=(1, 2), vocabulary=vocabulary).fit(DOCUMENTS)
    assert list(ours.vocabulary) == list(theirs.get_feature_names_out())
    rows, dense = ours.rows(LEGACY_TEXTS), theirs.transform(LEGACY_TEXTS).toarray()
    np.testing.assert_allclose(rows.toarray(), dense, atol=1e-12)
    pairs = cosines(rows, [0, 0, 2], [4, 0, 0])
    np.testing.assert_allclose(pairs, [dense[0] @ dense[4], dense[0] @ dense[0], 0.0], atol=1e-12)


def test_a_vocabulary_is_stable_its_file_holds_distinct_terms_and_embeddings_state_themselves(tmp_path):
    """sea 4×; then quiet, love 2× each: love before quiet; the others once, none of them among three."""
    assert TfidfSpace(DOCUMENTS, max_features=3).vocabulary == ("love", "quiet", "sea")
    path = tmp_path / "terms.txt"
    path.write_text("sea\nsea love\n")
    assert read_vocabulary(path) == ["sea", "sea love"]
    path.write_text("sea\nsea\n")
    refused("distinct", read_vocabulary, path)
    refused("no word", TfidfSpace, ["", "the"])
    space = EmbeddingSpace("hashing")
    same, other = cosines(space.rows(["quiet sea", "quiet sea", "storm"]), [0, 0], [1, 2])
    assert space.name == "hashing"
    assert same == pytest.approx(1, abs=1e-6)
    assert other < 0.9
