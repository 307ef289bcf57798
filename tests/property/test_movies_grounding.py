"""Grounding holds for any text: whole words, right places, the same one by one and in batches."""

import re
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.text import fold, words

PARTS = ("Marrow", "Tindal", "Quenby", "Zoëlynn", "STRASSE", "O'Marrow", "Ünsal")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(" ".join)
CATALOGS = st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=8).map(
    lambda pairs: Catalog.from_records(
        (f"Film {i}", {"actor": [a, b], "director": [b]}) for i, (a, b) in enumerate(pairs)
    )
)
PIECES = st.sampled_from(
    [*PARTS, "marrow", "marrows", "TINDAL", "Zoe\u0308lynn", "straße", "the", " ", ", ", "-", "_", "'", "\n", "ﬁ", "⑴", "½", "…", "\u0301", "\ue000", "\ue001"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)

SAMPLE = Grounder(sources.load())
_VALUES = [form for name, value in zip(SAMPLE.catalog.vocabulary.field, SAMPLE.catalog.vocabulary.value, strict=True) if name != "year" for form in (value, value.lower())]  # fmt: skip
SPOKEN = st.lists(
    st.sampled_from([*_VALUES, "war", "Her", '"war"', "(1999)", "1942", "film", "polish", "family", "crime", "with", "not"])
    | st.text(max_size=4),
    max_size=8,
).map(" ".join)  # fmt: skip


STROKES = {
    "ø": "o", "ł": "l", "ı": "i", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th",
}  # fmt: skip


def naive(catalog, text):
    """The second opinion: fold by hand, then compare every run of words with every value."""

    def plain(raw):
        folded = "".join(
            unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", c).casefold()) for c in raw
        )
        return re.findall(
            r"[^\W_]+",  # an underscore is no letter: Markdown's _Alien_ is a title
            "".join(
                STROKES.get(c, c)
                for c in folded
                if unicodedata.category(c) not in ("Mn", "Me") and not unicodedata.combining(c)
            ),
        )

    tokens, found = plain(text), set()
    for code, value in enumerate(catalog.vocabulary.value):
        wanted = plain(value)
        if any(tokens[i : i + len(wanted)] == wanted for i in range(len(tokens))):
            found.add(code)
    return found


@settings(deadline=None)
@given(CATALOGS, st.lists(TEXTS, max_size=5))
def test_one_by_one_in_a_batch_and_by_hand_are_the_same(catalog, texts):
    grounder = Grounder(catalog)
    expected = [naive(catalog, text) for text in texts]
    assert [set(grounder.concepts(text)) for text in texts] == expected
    assert list(map(set, grounder.ground(texts))) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(SPOKEN, min_size=2, max_size=6))
@example(["a war film", "the war", "war", 'the "war"', "family crime"])
def test_everyday_words_are_judged_alike_in_batches_and_alone(texts):
    alone = [SAMPLE.concepts(text) for text in texts]
    assert SAMPLE.ground(texts) == alone
    assert [frozenset(m.code for m in SAMPLE.audit(text) if not m.rejected) for text in texts] == alone
    twice = SAMPLE.ground([*texts, *texts])
    assert twice == [*alone, *alone]


@settings(deadline=None)
@given(SPOKEN)
def test_matches_and_titles_stand_where_they_say_and_the_vector_is_their_idf(text):
    for match in SAMPLE.audit(text):
        piece = text[match.start : match.end]
        assert 0 <= match.start < match.end <= len(text)
        assert words(piece) in [words(form) for form in _forms(match)]
        assert words(text[: match.start]) + words(piece) + words(text[match.end :]) == words(text)
    taken = -1
    for mention in SAMPLE.titles(text):
        assert fold(text[mention.start : mention.end]) == fold(SAMPLE.catalog.items[mention.item].title)
        assert mention.start >= taken
        taken = mention.end
    vector = SAMPLE.attribute_vector(text)
    assert set(vector.nonzero()[0].tolist()) == SAMPLE.concepts(text)
    assert all(vector[code] == SAMPLE.idf[code] for code in SAMPLE.concepts(text))


@settings(deadline=None)
@given(SPOKEN, SPOKEN)
def test_a_longer_text_never_loses_an_unruled_concept(one, two):
    both = SAMPLE.concepts(f"{one}. {two}")
    ruled = {m.code for m in SAMPLE.audit(f"{one}. {two}") if m.rejected}
    assert SAMPLE.concepts(one) - ruled <= both


def _forms(match):
    return FIELDS[match.field].forms(match.value)
