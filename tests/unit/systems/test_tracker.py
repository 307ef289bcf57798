"""The constraint tracker reads what is wanted, what is given up, and what clears the state."""

import pytest

from crs_lib.systems import tracker
from tests.helpers.films import grounder

TEN = grounder()


@pytest.mark.parametrize(("text", "wanted", "given_up", "reset"), [
    ("I'd like drama films with Ada Quill", {"genre": "Drama", "actor": "Ada Quill"}, {}, False),
    ("Instead of drama films I'd like comedy films", {"genre": "Comedy"}, {"genre": "Drama"}, False),
    ("Forget films in French, the rest stays", {}, {"language": "French"}, False),
    ("Never mind the rest: films in French", {"language": "French"}, {}, True),
    ("not films with Ada Quill. I do want films with Ben Orr", {"actor": "Ben Orr"}, {"actor": "Ada Quill"}, False),
    ("Wait, maybe not films in French. No, I do want films in French", {"language": "French"}, {}, False),
    ("What is Iron Valley about?", {}, {}, False),
    ("I liked Her, the drama", {"genre": "Drama"}, {}, False),
    ("films written by Zoe Tarn", {"writer": "Zoe Tarn"}, {}, False),
    ("films directed by Zoe Tarn", {"director": "Zoe Tarn"}, {}, False),
    ("films made by Ivo Lund", {"director": "Ivo Lund"}, {}, False),
    ("", {}, {}, False),
])  # fmt: skip
def test_readings(text, wanted, given_up, reset):
    found = tracker.read(TEN, text)
    assert (found.wanted, found.given_up, found.reset) == (wanted, given_up, reset)


@pytest.mark.parametrize(("state", "text", "expected"), [
    ({"genre": "Drama"}, "I'd like comedy films", {"genre": "Comedy"}),
    ({"genre": "Drama"}, "with Ada Quill", {"genre": "Drama", "actor": "Ada Quill"}),
    ({"genre": "Drama", "year": "1988"}, "drop films from 1988, please", {"genre": "Drama"}),
    ({"genre": "Drama", "year": "1988"}, "drop films from 1962, please", {"genre": "Drama", "year": "1988"}),
    ({"genre": "Drama", "year": "1988"}, "Forget the rest: films in French", {"language": "French"}),
    ({"genre": "Drama"}, "Forget the rest", {"genre": "Drama"}),  # nothing new: nothing is cleared
    ({"genre": "Drama"}, "More, please", {"genre": "Drama"}),
])  # fmt: skip
def test_the_state_after_an_utterance(state, text, expected):
    before = dict(state)
    assert tracker.apply(state, tracker.read(TEN, text)) == expected
    assert state == before
