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
LABELS = {
    "genre": st.sampled_from(["Drama", "drama film", "DRAMA", "War (genre) #3", "sci-fi", "Science Fiction", "France", "Fiction", ""]),
    "language": st.sampled_from(["French", "French Language", "fre", "Foo language language", "Foo (x) Language", "klingon", "KLINGON", "None"]),
    "year": st.sampled_from(["1999", "2001", "1850", "", " 1999 "]),
}  # fmt: skip
PERSON = st.sampled_from([
    "Ana Bell", "ana  bell", "Bo Ek (actor)", "Bo Ek", "José Gil", "Jose Gil #2", "nm12", "?", "Unknown", "Cy Hale",
])  # fmt: skip
ODD = st.text(st.sampled_from("aB é()#1 \u0301ﬁ-'\n"), max_size=8)
PARTS = ("Marrow", "Tindal", "Quenby", "Zoëlynn", "STRASSE", "O'Marrow", "Ünsal")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(" ".join)
PEOPLE = st.tuples(NAMES, NAMES).map(lambda pair: {"actor": [*pair], "director": [pair[1]]})
CATALOGS = st.lists(PEOPLE, min_size=1, max_size=8).map(
    lambda films: Catalog.from_records((f"Film {i}", film) for i, film in enumerate(films))
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


def record():
    many = [name for name, row in FIELDS.items() if row.many]
    lists = {name: st.lists(LABELS.get(name, PERSON) | ODD, max_size=4) for name in many}
    return st.fixed_dictionaries(lists | {"year": LABELS["year"]})


TITLES = st.sampled_from(["Alpha", "ALPHA", "Beta", "Gamma (1999)", "!!!", "…", "Alphä"])
RECORDS = st.lists(st.tuples(TITLES, record()), min_size=1, max_size=8)


def again(items):
    return [(item.title, {**item.values, "item_id": item.item_id, "plot": item.plot}) for item in items]


@PROPERTY
@given(RECORDS)
def test_cleaning_is_accounted_for_tidy_and_repeated_changes_nothing(records):
    items, report = clean(records)
    same, nothing = clean(again(items))
    assert nothing.table().empty and not nothing.merged_films
    assert [(i.item_id, i.title, i.values) for i in same] == [(i.item_id, i.title, i.values) for i in items]
    for name, row in report.summary().set_index("field").iterrows():
        left = row["values before"] - row["dropped"] - row["doublets"]
        if report.merged_films or not FIELDS[name].many:
            assert row["values after"] <= left  # films that became one share values
        else:
            assert row["values after"] == left
        assert row["values after"] == sum(len(item.values[name]) for item in items)
        assert row["distinct after"] == len({value for item in items for value in item.values[name]})
    assert report.films_read == len(records) == report.films_kept + len(report.merged_films)
    for name in FIELDS:
        spelling = {}
        for item in items:
            folded = [fold(value) for value in item.values[name]]
            assert len(set(folded)) == len(folded) and all(folded)
            for value, key in zip(item.values[name], folded, strict=True):
                assert spelling.setdefault(key, value) == value
    assert len({item.item_id for item in items}) == len(items)
    assert all(item.year is None or item.year >= 1900 for item in items)


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
    else:
        assert first.reason == "" and clean_one(first.value).value == first.value


def several(value):
    return [value] if isinstance(value, str) else value


def brute(catalog, wishes):
    """The second opinion: every film, one by one."""
    wanted = {name: {fold(v) for v in several(value)} for name, value in wishes.items()}
    return [
        i
        for i, item in enumerate(catalog.items)
        if catalog.recommendable[i]
        and all(values & {fold(v) for v in item.values[name]} for name, values in wanted.items())
    ]


@st.composite
def catalog_and_wishes(draw):
    films = st.tuples(st.text("abcdefgh", min_size=1, max_size=3), record())
    catalog, wishes = Catalog.from_records(draw(st.lists(films, min_size=1, max_size=12))), {}
    shifted = st.sampled_from([name for name, row in FIELDS.items() if row.may_shift])
    for name in draw(st.lists(shifted, unique=True, max_size=4)):
        known = st.sampled_from([*catalog.values(name), "1999" if name == "year" else "Nobody At All"])
        wishes[name] = draw(known | st.lists(known, min_size=1, max_size=3))
    return catalog, wishes


@PROPERTY
@given(catalog_and_wishes())
def test_a_query_is_the_plain_loop_and_relaxation_gives_up_no_more_than_it_must(both):
    catalog, wishes = both
    found = catalog.query(wishes)
    assert found.items.tolist() == brute(catalog, wishes) and found.dropped == ()
    assert found.items.dtype == np.int32
    found = catalog.query(wishes, relax=True)
    order = [name for name in RELAXATION_ORDER if name in wishes]
    order.sort(key=lambda name: any(catalog.code(name, v) is not None for v in several(wishes[name])))
    kept, dropped = dict(wishes), []
    while not brute(catalog, kept) and order:
        dropped.append(order.pop(0))
        del kept[dropped[-1]]
    assert (list(found.dropped), found.items.tolist()) == (dropped, brute(catalog, kept))


@PROPERTY
@given(RECORDS, st.randoms())
def test_the_order_of_the_records_changes_no_answer(records, random):
    single = {fold(title) or title: (title, record) for title, record in records}
    mixed = list(single.values())
    random.shuffle(mixed)
    one, two = Catalog.from_records(single.values()), Catalog.from_records(mixed)
    assert one.vocabulary.keys == two.vocabulary.keys
    assert one.document_frequency.tolist() == two.document_frequency.tolist()
    for name in FIELDS:
        for value in one.values(name):
            names = [sorted(c.items[i].title for i in c.query({name: value}).items) for c in (one, two)]
            assert names[0] == names[1]


@PROPERTY
@given(catalog_and_wishes(), st.integers(0, 5), st.integers(-3, 70))
def test_recommendations_answer_the_query_and_repeat(both, seed, limit):
    catalog, wishes = both
    films = [film["item_id"] for film in catalog.recommend(wishes, limit, seed)]
    assert films == [film["item_id"] for film in catalog.recommend(wishes, limit, seed)]
    answers = {catalog.items[i].item_id for i in catalog.query(wishes, relax=True).items}
    assert set(films) <= answers
    assert len(films) == len(set(films)) == min(len(answers), max(1, min(50, limit)))


@PROPERTY
@given(RECORDS)
def test_saving_and_loading_keeps_the_catalogue(tmp_path_factory, records):
    catalog = Catalog.from_records(records)
    path, again = (tmp_path_factory.mktemp("saved") / name for name in ("catalog.parquet", "again.parquet"))
    catalog.save(path)
    back = sources.load(path)
    assert [*map(dataclasses.asdict, back.items)] == [*map(dataclasses.asdict, catalog.items)]
    assert sources.content_hash(back) == sources.content_hash(catalog)
    assert back.frame().equals(catalog.frame()) and back.report.table().empty
    back.save(again)
    assert again.read_bytes() == path.read_bytes()


def naive(catalog, text):
    """The second opinion: fold by hand, then compare every run of words with every value."""
    tokens, found = words_by_hand(text), set()
    for code, value in enumerate(catalog.vocabulary.value):
        wanted = words_by_hand(value)
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
    assert SAMPLE.ground([*texts, *texts]) == [*alone, *alone]


@settings(deadline=None)
@given(SPOKEN)
def test_matches_and_titles_stand_where_they_say_and_the_vector_is_their_idf(text):
    for match in SAMPLE.audit(text):
        piece = text[match.start : match.end]
        assert 0 <= match.start < match.end <= len(text)
        assert words(piece) in [words(form) for form in FIELDS[match.field].forms(match.value)]
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
    assert SAMPLE.concepts(one) - {m.code for m in SAMPLE.audit(f"{one}. {two}") if m.rejected} <= both
