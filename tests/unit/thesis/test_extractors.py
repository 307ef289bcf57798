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
from crs_lib.thesis.catalog import CONCEPT_FIELDS, ThesisCatalog, normalise, plot_keywords
from crs_lib.thesis.extractors import EXTRACTORS, ConceptSpace, ExtractorInputs, SubstringMatcher
from crs_lib.thesis.similarity import EmbeddingSpace, TfidfSpace, cosines, read_vocabulary
from tests.helpers import refused, table

CONCEPTS = """genre=drama, genre=reference, genre=ex, genre=science, genre=horror, actor=eve, actor=brian johnson,
actor=maya lind, actor=tomas berg, director=rian johnson, director=ida holm, writer=ida holm, language=ger,
language=english, year=1999, year=975"""


def space_of(concepts):
    """The concept space of ``field=value`` in a text, each in one film of nine."""
    keys = re.split(r",\s+", concepts)
    parts = [key.partition("=") for key in keys]
    fields, _, values = zip(*parts, strict=True)
    n_films = np.ones(len(keys), np.int64)
    return ConceptSpace(fields, values, n_films, 9, tuple(keys))


def name_maya(request):
    """A model's answer: an actor of the catalogue and one of none where the text names Maya."""
    names = {field: [] for field in CONCEPT_FIELDS}
    text = request.messages[-1].content
    if "Maya" in text:
        names["actor"] = ["Maya Lind", "Nobody Known"]
    return json.dumps(names)


def extractor_of(name, space=None):
    model = LLM("scripted", answers=name_maya) if name == "llm" else ""
    return extractors.create(name, ExtractorInputs(space or space_of(CONCEPTS), None, model))


def concepts_of(name, text):
    """The concepts that an extractor sees in a text, as ``field=value``."""
    extractor = extractor_of(name)
    (codes,) = extractor.sets([text])
    return set(extractor.space.keys(codes))


@pytest.mark.parametrize("name", EXTRACTORS.names())
def test_every_extractor_keeps_the_contract(name):
    extractor = extractor_of(name)
    texts = ["A horror film with Maya Lind, 1999.", "", "   ", "nothing here"]
    sets = extractor.sets(texts)
    horror, empty, blank, other = sets
    assert isinstance(extractor.embedder, str)
    assert empty == blank == frozenset()
    assert horror | other <= set(range(len(extractor.space.value)))
    assert extractor.sets([*texts, texts[0]]) == [*sets, horror]
    assert extractor.sets(texts[::-1]) == sets[::-1]
    assert extractor.sets([]) == []
    assert "actor=maya lind" in extractor.space.keys(horror)


IN_WORD = table(__file__, "in_words")


@pytest.mark.parametrize(("concept", "text"), IN_WORD)
def test_only_substrings_look_inside_words(concept, text):
    assert concept in concepts_of("substring", text)
    assert concept not in concepts_of("words", text)
    assert concept not in concepts_of("rules", text)


@pytest.mark.parametrize(("concept", "text"), IN_WORD)
def test_the_default_finds_nothing_inside_words(concept, text):
    catalog = sources.load("sample")
    extractor = extractors.create("words", ExtractorInputs(ConceptSpace.of(catalog), catalog))
    assert extractor.sets([text]) == [frozenset()]


@pytest.mark.parametrize(("name", "text", "concept", "is_seen"), table(__file__, "extractors_by_hand"))
def test_extractors_by_hand(name, text, concept, is_seen):
    assert (concept in concepts_of(name, text)) is is_seen


def test_rules_take_years_of_three_centuries():
    space = space_of("year=1850, year=1750, year=2001")
    (codes,) = extractor_of("rules", space).sets(["a tale of 1850, not of 1750"])
    assert space.keys(codes) == ["year=1850"]


@pytest.mark.slow
@pytest.mark.parametrize("text", table(__file__, "texts_to_embed"))
def test_embed_equals_the_textbook_computation(text):
    space = ThesisCatalog.load("sample").space
    concepts = set()
    for codes in space.fields.values():
        grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))
        values = grams.fit_transform([space.value[code] for code in codes])
        products = grams.transform([text]) @ values.T
        (cosine,) = products.toarray()
        for row in np.argsort(-cosine, kind="stable")[:3]:
            if cosine[row] >= 0.35:
                concepts.add(codes[row])
    assert extractor_of("embed", space).sets([text]) == [concepts]


def test_of_a_models_names_those_of_the_catalogue_count():
    assert concepts_of("llm", "I adore Maya!") == {"actor=maya lind"}


def test_a_model_without_a_usable_answer_is_an_error():
    model = LLM("scripted", answers=lambda request: "{")
    extractor = extractors.create("llm", ExtractorInputs(space_of(CONCEPTS), None, model))
    refused("gave no usable answer", extractor.sets, ["hello there"], error=RunError)


@pytest.mark.parametrize(("name", "message"), table(__file__, "impossible_extractors"))
def test_an_extractor_that_cannot_be_made_says_why(name, message):
    refused(message, extractors.create, name, ExtractorInputs(space_of(CONCEPTS)))


TEXTS = st.text(alphabet="abcer éß.ıΩ𝔄\n\x00", max_size=60)
PATTERN = st.text("abcer éß𝔄", min_size=1, max_size=19) | st.text("ab", min_size=1)
PATTERNS = st.lists(PATTERN, max_size=12)


@settings(max_examples=200, deadline=None)
@given(TEXTS, PATTERNS)
def test_the_matcher_equals_a_loop_of_in_tests(text, patterns):
    inside = {number for number, pattern in enumerate(patterns) if pattern in text}
    assert SubstringMatcher(patterns).find([text]) == [inside]


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab c-_é", max_size=30))
def test_whole_matches_equal_a_regular_expression(text):
    patterns = ["a", "ab", "a b", "é", "b-c", "c_"]
    whole = set()
    for number, pattern in enumerate(patterns):
        if re.search(rf"(?<!\w){re.escape(pattern)}(?!\w)", text):
            whole.add(number)
    assert SubstringMatcher(patterns).find([text], whole=True) == [whole]


def test_any_character_may_occur_in_patterns_and_texts():
    every = "".join(map(chr, range(0x20000, 0x30000)))
    matcher = SubstringMatcher([every, "", every[5:9]])
    whole, empty, beginning = matcher.find([every, "", every[:9]])
    assert whole == {0, 2}
    assert empty == set()
    assert beginning == {2}
    matcher = SubstringMatcher(["b", "\ufffdb"])
    lone, replaced = matcher.find(["a\ud800b", "a\ufffdb"])
    assert lone == {0}
    assert replaced == {0, 1}


def test_a_matcher_may_have_no_pattern_or_one_twice():
    none = SubstringMatcher([])
    twice = SubstringMatcher(["b", "a", "b"])
    assert none.find(["a"]) == [set()]
    assert twice.find(["b"]) == [{0, 2}]


@pytest.mark.parametrize(("text", "is_whole"), table(__file__, "full_stops"))
def test_a_full_stop_at_the_end_of_a_value_is_whole(text, is_whole):
    (codes,) = SubstringMatcher(["lind jr."]).find([text], whole=True)
    assert bool(codes) is is_whole


@pytest.mark.filterwarnings("error")
def test_a_word_without_end_takes_no_hours():
    endless = "x" * 100_000  # compared letter by letter it would take them
    near = extractor_of("fuzzy", space_of(f"genre=drama, genre={endless}")).near
    assert near("x" * 1_000_000) == []
    assert near("drana") == []
    assert near("dramas") == ["drama"]
    assert near(endless[1:]) == [endless]


def seconds(extractor, text):
    """The processor time that a text takes."""
    began = time.process_time()
    extractor.sets([text])
    return time.process_time() - began


OFFLINE = [name for name in EXTRACTORS.names() if name != "llm"]


@pytest.mark.parametrize("piece", ["drama and maya lynd ", "x", "a\u0301"])
@pytest.mark.parametrize("name", OFFLINE)
def test_scoring_a_text_of_a_hundred_times_the_length_takes_no_ten_thousand_times_the_time(name, piece):
    extractor = extractor_of(name)
    short = seconds(extractor, piece * 500)
    assert seconds(extractor, piece * 50_000) < 1_000 * max(short, 1e-4)


FILMS = ThesisCatalog(table(__file__, "films"))


@pytest.mark.parametrize(("field", "value", "form"), table(__file__, "forms"))
def test_values_are_compared_in_the_thesis_s_form(field, value, form):
    assert normalise(field, value) == form


def test_the_index_repeats_films_and_the_space_counts_distinct_ones():
    space = FILMS.space
    action = space.code_of["genre", "action"]
    assert FILMS.index["genre"]["action"] == [0, 0, 1]
    assert FILMS.index["actor"]["maya lind"] == [0, 1, 1]
    assert space.films[action] == 2
    assert space.idf[action] == pytest.approx(np.log(4 / 3) + 1)


def test_a_label_that_was_normalised_never_meets_its_own_constraint():
    codes = FILMS.space.code_of
    beta = FILMS.raw_codes[1]
    assert codes["genre", "crime"] not in beta
    assert codes["genre", "action"] in beta


def test_the_sample_is_a_catalogue_and_an_empty_or_missing_file_is_none(tmp_path):
    assert len(ThesisCatalog.load("sample")) > 700
    path = tmp_path / "films.json"
    refused("json", ThesisCatalog.load, path)
    path.write_text("{}")
    refused("json", ThesisCatalog.load, path)


@pytest.mark.parametrize(("constraints", "films", "how"), table(__file__, "retrieval"))
def test_retrieval_says_how_it_came_to_its_films(constraints, films, how):
    assert FILMS.candidates(constraints) == (set(films), how)


def test_keywords_of_plots_are_words_of_four_letters_that_are_not_common():
    assert plot_keywords("The story: what COLD, cold seas!") == ["cold", "seas"]


DOCUMENTS = ["A quiet love story", "the quiet sea", "Sea, love and SEA", "storm over the sea", ""]
COMPARED = ["quiet love", "The sea, the sea!", "nothing known", "", "love story of the quiet sea"]


@pytest.mark.parametrize("vocabulary", [None, ["love", "quiet love", "sea", "sea love"]])
def test_the_sentence_space_equals_scikit_learn(vocabulary):
    ours = TfidfSpace(DOCUMENTS, vocabulary, max_features=500)
    theirs = TfidfVectorizer(stop_words="english", ngram_range=(1, 2), vocabulary=vocabulary).fit(DOCUMENTS)
    rows = ours.rows(COMPARED)
    dense = theirs.transform(COMPARED).toarray()
    first = dense[0]
    products = [first @ dense[4], first @ first, 0.0]
    assert list(ours.vocabulary) == list(theirs.get_feature_names_out())
    np.testing.assert_allclose(rows.toarray(), dense, atol=1e-12)
    compared = cosines(rows, [0, 0, 2], [4, 0, 0])
    np.testing.assert_allclose(compared, products, atol=1e-12)


def test_a_vocabulary_has_the_most_frequent_terms_of_equals_the_first_by_alphabet():
    """sea 4×; then quiet, love 2× each; the others once, none of them among three."""
    assert TfidfSpace(DOCUMENTS, max_features=3).vocabulary == ("love", "quiet", "sea")
    refused("no word", TfidfSpace, ["", "the"])


def test_a_file_of_terms_holds_distinct_ones(tmp_path):
    path = tmp_path / "terms.txt"
    path.write_text("sea\nsea love\n")
    assert read_vocabulary(path) == ["sea", "sea love"]
    path.write_text("sea\nsea\n")
    refused("distinct", read_vocabulary, path)


def test_embeddings_state_their_encoder_and_compare_texts():
    space = EmbeddingSpace("hashing")
    rows = space.rows(["quiet sea", "quiet sea", "storm"])
    same, other = cosines(rows, [0, 0], [1, 2])
    assert space.name == "hashing"
    assert same == pytest.approx(1, abs=1e-6)
    assert other < 0.9
