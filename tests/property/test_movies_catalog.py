"""Cleaning and querying hold for any catalogue: idempotent, accounted for, equal to a plain loop."""

import dataclasses

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import clean
from crs_lib.catalog.fields import FIELDS, RELAXATION_ORDER
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words
from tests.helpers.wordings import words_by_hand

PROPERTY = settings(deadline=None)
GENRES = [
    "Drama",
    "drama film",
    "DRAMA",
    "War (genre) #3",
    "sci-fi",
    "Science Fiction",
    "France",
    "Fiction",
    "",
]
LANGUAGES = [
    "French",
    "French Language",
    "fre",
    "Foo language language",
    "Foo (x) Language",
    "klingon",
    "KLINGON",
    "None",
]
YEARS = ["1999", "2001", "1850", "", " 1999 "]
PEOPLE = [
    "Ana Bell",
    "ana  bell",
    "Bo Ek (actor)",
    "Bo Ek",
    "José Gil",
    "Jose Gil #2",
    "nm12",
    "?",
    "Unknown",
    "Cy Hale",
]
ODD = st.text(st.sampled_from("aB é()#1 \u0301ﬁ-'\n"), max_size=8)
PARTS = ["Marrow", "Tindal", "Quenby", "Zoëlynn", "STRASSE", "O'Marrow", "Ünsal"]
NEAR = ["marrow", "marrows", "TINDAL", "Zoe\u0308lynn", "straße", "the", " ", ", ", "-", "_", "'", "\n"]
SIGNS = ["ﬁ", "⑴", "½", "…", "\u0301", "\ue000", "\ue001"]
TEXTS = st.lists(st.sampled_from(PARTS + NEAR + SIGNS) | st.text(max_size=3), max_size=12).map("".join)
EVERYDAY = ["war", "Her", '"war"', "(1999)", "1942", "film", "polish", "family", "crime", "with", "not"]
TITLES = st.sampled_from(["Alpha", "ALPHA", "Beta", "Gamma (1999)", "!!!", "…", "Alphä"])
SAMPLE = Grounder(sources.load())


def values_as_said():
    """Every value of the sample catalogue but years, as it is written and in lower case."""
    vocabulary = SAMPLE.catalog.vocabulary
    forms = []
    for name, value in zip(vocabulary.field, vocabulary.value, strict=True):
        if name != "year":
            forms += [value, value.lower()]
    return forms


SPOKEN_PIECES = st.sampled_from(values_as_said() + EVERYDAY) | st.text(max_size=4)
SPOKEN = st.lists(SPOKEN_PIECES, max_size=8).map(" ".join)


def cells(name):
    """A strategy for one raw value of a field."""
    labels = {"genre": GENRES, "language": LANGUAGES, "year": YEARS}
    return st.sampled_from(labels.get(name, PEOPLE))


def record():
    """A strategy for the raw fields of one film."""
    fields = {"year": cells("year")}
    for name, field in FIELDS.items():
        if field.many:
            fields[name] = st.lists(cells(name) | ODD, max_size=4)
    return st.fixed_dictionaries(fields)


RECORDS = st.lists(st.tuples(TITLES, record()), min_size=1, max_size=8)


@st.composite
def catalogs_of_people(draw):
    """A catalogue of films that have two actors and one director of made-up names."""
    names = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(" ".join)
    records = []
    for number in range(draw(st.integers(1, 8))):
        first, second = draw(names), draw(names)
        records.append((f"Film {number}", {"actor": [first, second], "director": [second]}))
    return Catalog.from_records(records)


@PROPERTY
@given(RECORDS)
def test_cleaning_again_changes_nothing(records):
    items, _ = clean(records)
    raw = [(item.title, {**item.values, "item_id": item.item_id, "plot": item.plot}) for item in items]
    same, report = clean(raw)
    assert report.table().empty
    assert not report.merged_films
    before = [(item.item_id, item.title, item.values) for item in items]
    assert [(item.item_id, item.title, item.values) for item in same] == before


@PROPERTY
@given(RECORDS)
def test_every_value_that_was_read_is_accounted_for(records):
    items, report = clean(records)
    assert report.films_read == len(records)
    assert report.films_read == report.films_kept + len(report.merged_films)
    for name, row in report.summary().set_index("field").iterrows():
        values = [value for item in items for value in item.values[name]]
        assert row["values after"] == len(values)
        assert row["distinct after"] == len(set(values))
        left = row["values before"] - row["dropped"] - row["doublets"]
        if report.merged_films or not FIELDS[name].many:
            assert len(values) <= left  # films that became one share values
        else:
            assert len(values) == left


@PROPERTY
@given(RECORDS)
def test_a_clean_catalogue_spells_each_value_once(records):
    items, _ = clean(records)
    for name in FIELDS:
        spelling = {}
        for item in items:
            keys = [fold(value) for value in item.values[name]]
            assert all(keys)
            assert len(set(keys)) == len(keys)
            for value, key in zip(item.values[name], keys, strict=True):
                assert spelling.setdefault(key, value) == value
    assert len({item.item_id for item in items}) == len(items)
    for item in items:
        assert item.year is None or item.year >= 1900


@PROPERTY
@given(st.text(max_size=12), st.sampled_from(list(FIELDS)))
def test_a_label_cleans_to_a_label_that_stays(raw, name):
    clean_one = FIELDS[name].clean
    try:
        first = clean_one(raw)
    except InputError:
        assume(False)
    if first.value is None:
        assert first.reason
        return
    assert first.reason == ""
    assert clean_one(first.value).value == first.value


def several(value):
    return [value] if isinstance(value, str) else value


def fits(item, wishes):
    """Whether a film has, in each field, one of the values that are wished for."""
    for name, value in wishes.items():
        wanted = {fold(one) for one in several(value)}
        if wanted.isdisjoint(fold(one) for one in item.values[name]):
            return False
    return True


def every_film_that_fits(catalog, wishes):
    """The second opinion: every film, one by one."""
    numbers = []
    for number, item in enumerate(catalog.items):
        if catalog.recommendable[number] and fits(item, wishes):
            numbers.append(number)
    return numbers


@st.composite
def catalog_and_wishes(draw):
    films = st.tuples(st.text("abcdefgh", min_size=1, max_size=3), record())
    catalog = Catalog.from_records(draw(st.lists(films, min_size=1, max_size=12)))
    may_shift = [name for name, field in FIELDS.items() if field.may_shift]
    wishes = {}
    for name in draw(st.lists(st.sampled_from(may_shift), unique=True, max_size=4)):
        unknown = "1999" if name == "year" else "Nobody At All"
        values = st.sampled_from([*catalog.values(name), unknown])
        wishes[name] = draw(values | st.lists(values, min_size=1, max_size=3))
    return catalog, wishes


@PROPERTY
@given(catalog_and_wishes())
def test_a_query_is_the_plain_loop(both):
    catalog, wishes = both
    answer = catalog.query(wishes)
    assert answer.items.tolist() == every_film_that_fits(catalog, wishes)
    assert answer.dropped == ()
    assert answer.items.dtype == np.int32


def has_any(catalog, name, value):
    """Whether the catalogue has one of these values."""
    return any(catalog.code(name, one) is not None for one in several(value))


@PROPERTY
@given(catalog_and_wishes())
def test_relaxation_gives_up_no_more_than_it_must(both):
    catalog, wishes = both
    order = [name for name in RELAXATION_ORDER if name in wishes]
    order.sort(key=lambda name: has_any(catalog, name, wishes[name]))
    remaining = dict(wishes)
    dropped = []
    while order and not every_film_that_fits(catalog, remaining):
        dropped.append(order.pop(0))
        del remaining[dropped[-1]]
    answer = catalog.query(wishes, relax=True)
    assert list(answer.dropped) == dropped
    assert answer.items.tolist() == every_film_that_fits(catalog, remaining)


def titles_with(catalog, name, value):
    return sorted(catalog.items[number].title for number in catalog.query({name: value}).items)


@PROPERTY
@given(RECORDS, st.randoms())
def test_the_order_of_the_records_changes_no_answer(records, random):
    by_title = {fold(title) or title: (title, record) for title, record in records}
    mixed = list(by_title.values())
    random.shuffle(mixed)
    one = Catalog.from_records(by_title.values())
    two = Catalog.from_records(mixed)
    assert one.vocabulary.keys == two.vocabulary.keys
    assert one.document_frequency.tolist() == two.document_frequency.tolist()
    for name in FIELDS:
        for value in one.values(name):
            assert titles_with(one, name, value) == titles_with(two, name, value)


@PROPERTY
@given(catalog_and_wishes(), st.integers(0, 5), st.integers(-3, 70))
def test_recommendations_answer_the_query_and_repeat(both, seed, limit):
    catalog, wishes = both
    films = [film["item_id"] for film in catalog.recommend(wishes, limit, seed)]
    assert films == [film["item_id"] for film in catalog.recommend(wishes, limit, seed)]
    answers = {catalog.items[number].item_id for number in catalog.query(wishes, relax=True).items}
    assert set(films) <= answers
    assert len(films) == len(set(films))
    assert len(films) == min(len(answers), max(1, min(50, limit)))


@PROPERTY
@given(RECORDS)
def test_saving_and_loading_keeps_the_catalogue(tmp_path_factory, records):
    catalog = Catalog.from_records(records)
    folder = tmp_path_factory.mktemp("saved")
    catalog.save(folder / "catalog.parquet")
    back = sources.load(folder / "catalog.parquet")
    assert [dataclasses.asdict(item) for item in back.items] == [
        dataclasses.asdict(item) for item in catalog.items
    ]
    assert sources.content_hash(back) == sources.content_hash(catalog)
    assert back.frame().equals(catalog.frame())
    assert back.report.table().empty
    back.save(folder / "again.parquet")
    assert (folder / "again.parquet").read_bytes() == (folder / "catalog.parquet").read_bytes()


def concepts_by_hand(catalog, text):
    """The second opinion: fold by hand, then compare every run of words with every value."""
    tokens = words_by_hand(text)
    codes = set()
    for code, value in enumerate(catalog.vocabulary.value):
        form = words_by_hand(value)
        if any(tokens[i : i + len(form)] == form for i in range(len(tokens))):
            codes.add(code)
    return codes


@PROPERTY
@given(catalogs_of_people(), st.lists(TEXTS, max_size=5))
def test_one_by_one_in_a_batch_and_by_hand_are_the_same(catalog, texts):
    grounder = Grounder(catalog)
    expected = [concepts_by_hand(catalog, text) for text in texts]
    assert [set(grounder.concepts(text)) for text in texts] == expected
    assert [set(concepts) for concepts in grounder.ground(texts)] == expected


def accepted(text):
    """The concepts of a text by the audit of its matches."""
    return frozenset(match.code for match in SAMPLE.audit(text) if not match.rejected)


@settings(max_examples=60, deadline=None)
@given(st.lists(SPOKEN, min_size=2, max_size=6))
@example(["a war film", "the war", "war", 'the "war"', "family crime"])
def test_everyday_words_are_judged_alike_in_batches_and_alone(texts):
    alone = [SAMPLE.concepts(text) for text in texts]
    assert SAMPLE.ground(texts) == alone
    assert [accepted(text) for text in texts] == alone
    assert SAMPLE.ground([*texts, *texts]) == [*alone, *alone]


@PROPERTY
@given(SPOKEN)
def test_matches_stand_where_they_say(text):
    for match in SAMPLE.audit(text):
        assert 0 <= match.start < match.end <= len(text)
        piece = text[match.start : match.end]
        assert words(piece) in [words(form) for form in FIELDS[match.field].forms(match.value)]
        assert words(text[: match.start]) + words(piece) + words(text[match.end :]) == words(text)


@PROPERTY
@given(SPOKEN)
def test_titles_stand_where_they_say_and_do_not_overlap(text):
    end = -1
    for mention in SAMPLE.titles(text):
        assert fold(text[mention.start : mention.end]) == fold(SAMPLE.catalog.items[mention.item].title)
        assert mention.start >= end
        end = mention.end


@PROPERTY
@given(SPOKEN)
def test_the_vector_of_a_text_holds_the_weights_of_its_concepts(text):
    vector = SAMPLE.attribute_vector(text)
    codes = SAMPLE.concepts(text)
    assert set(vector.nonzero()[0].tolist()) == codes
    for code in codes:
        assert vector[code] == SAMPLE.idf[code]


@PROPERTY
@given(SPOKEN, SPOKEN)
def test_a_longer_text_never_loses_an_unruled_concept(one, two):
    both = f"{one}. {two}"
    ruled = {match.code for match in SAMPLE.audit(both) if match.rejected}
    assert SAMPLE.concepts(one) - ruled <= SAMPLE.concepts(both)
