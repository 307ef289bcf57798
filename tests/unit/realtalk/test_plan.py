import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.realtalk import plan, wording

NAMES = {"kate": "Kate", "tom": "Tom", "elise": "elise"}
DAY = dt.date(2024, 1, 10)  # a Wednesday


@pytest.mark.parametrize("question, kind, first", [
    ("When did Kate start skiing?", "when", "I start skiing"),
    ("What are Kate's hobbies?", "list", "my hobbies"),
    ("Which cities have both, Kate and Tom, been to?", "list", "cities we been to"),
    ("How many cats does Tom have?", "count", "cats I have"),
    ("How long has Kate lived in Rome?", "how long", "I lived in Rome"),
    ("Does Kate like her job?", "yes-no", "I like my job"), ("Where is Tom from?", "where", "I from"),
    ("Why did Tom leave?", "why", "I leave"), ("Who is Kate's sister?", "who", "my sister"),
    ("What did Tom buy?", "what", "I buy"),
])  # fmt: skip
def test_kind_and_first_person(question, kind, first):
    made = plan.make(question, NAMES, DAY)
    assert (made.kind, made.first_person) == (kind, first)


def test_a_plan_names_people_days_photos_and_terms_without_names():
    made = plan.make("What photo did Kate send on 05.01.2024?", NAMES, DAY)
    assert made.speakers == ("Kate",) and made.photo
    assert made.windows == (("2024-01-05", "2024-01-05"),)
    assert "kate" not in made.terms and "photo" in made.terms
    assert "2024" not in " ".join(made.terms)
    both = plan.make("What do Kate and Tom cook?", NAMES, DAY)
    assert both.speakers == ("Kate", "Tom") and both.many
    assert plan.make("Which pets are there?", NAMES, DAY).speakers == ()


@given(st.text(max_size=80))
@pytest.mark.slow
def test_any_text_can_be_planned(text):
    made = plan.make(text, NAMES, DAY)
    assert made.kind in plan.KINDS
    assert plan.make(text, NAMES, DAY) == made


def test_names_are_learnt_from_calls_of_the_other_one(make_chat):
    calls = [("Ben", "Hey Katie! How are you?"), ("Ann", "Good, and you?")] * 3
    chat = make_chat(calls)
    assert wording.learn_names(chat)["katie"] == "Ann"
    lower = make_chat([*calls, ("Ann", "a katie is a kind of bird")])
    assert "katie" not in wording.learn_names(lower)
    assert "katie" not in wording.learn_names(make_chat(calls[:4]))  # twice is not enough


@pytest.mark.parametrize("word, speaker", [
    ("Kate", "Kate"), ("Kate's", "Kate"), ("Elisa", "elise"), ("elise", "elise"), ("Berlin", None),
    ("Ka", None),
])  # fmt: skip
def test_a_word_means_a_speaker_by_name_or_near_spelling(word, speaker):
    assert wording._speaker_of(word, NAMES) == speaker


def test_a_word_without_end_is_like_no_name():
    name = "E" + "l" * 100_000
    assert wording._speaker_of(name, {"elise": "Elise", f"{name.lower()}k": "K"}) is None
    assert wording._speaker_of(name, {name.lower(): "K"}) == "K"


@pytest.mark.parametrize(("text", "start", "end"), [
    *((text, day, day) for text, day in (
        ("on 31.12.2023", "2023-12-31"), ("2024-02-01", "2024-02-01"), ("5 January", "2024-01-05"),
        ("December 30th", "2023-12-30"),  # the nearest year
        ("January 5th, 2021", "2021-01-05"), ("yesterday", "2024-01-09"), ("last night", "2024-01-09"),
        ("tomorrow", "2024-01-11"), ("three days ago", "2024-01-07"), ("last friday", "2024-01-05"),
        ("next monday", "2024-01-15"), ("New Year's eve", "2023-12-31"),
    )),
    ("in two weeks", "2024-01-21", "2024-01-27"), ("last week", "2024-01-01", "2024-01-07"),
    ("next week", "2024-01-15", "2024-01-21"), ("this weekend", "2024-01-13", "2024-01-14"),
    ("last summer", "2023-06-01", "2023-08-31"), ("in the spring of 2024", "2024-03-01", "2024-05-31"),
    ("a few years ago", "2021-01-01", "2021-12-31"), ("in November 2022", "2022-11-01", "2022-11-30"),
    ("in 2019", "2019-01-01", "2019-12-31"),
])  # fmt: skip
def test_date_expressions_become_day_ranges(text, start, end):
    (span,) = wording.find_dates(text, DAY)
    assert (span.start.isoformat(), span.end.isoformat()) == (start, end)


@pytest.mark.parametrize("text", ["31.02.2024", "99.99.2024", "may be", "room 101", "version 1.2.3456", ""])
def test_what_is_no_date_is_none(text):
    assert [s for s in wording.find_dates(text, DAY) if s.exact] == []


@given(st.text(max_size=60), st.dates(dt.date(1990, 1, 1), dt.date(2090, 1, 1)))
def test_ranges_never_end_before_they_start(text, today):
    assert all(span.start <= span.end for span in wording.find_dates(text + " last week 3 days ago", today))


@pytest.mark.parametrize("group", [
    ["study", "studies", "studied", "studying"], ["ski", "skiing"], ["city", "cities"], ["run", "running"],
    ["watch", "watches"],
])  # fmt: skip
def test_inflected_forms_share_a_stem(group):
    assert len({wording._stem(word) for word in group}) == 1


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=15))
def test_stems_are_never_empty_and_short_words_stay(word):
    assert wording._stem(word)
    assert len(word) > 3 or wording._stem(word) == word
