"""Prompt and template files: alternatives, slots, strict names, and enough variety that users do not sound alike."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import fields, sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.simulate import scenarios
from tests.helpers.films import grounder
from tests.helpers.wordings import every_text, expansions

FILES = (*prompts.USER_SETS.values(), "system", "fields")


def test_a_line_is_compiled_and_missing_sections_and_slots_are_errors():
    line = prompts.compile_line("{Hi|Hello}, I want $wish.")
    assert expansions(line, "X") == ["Hi, I want X.", "Hello, I want X."]
    assert [type(part) for part in line] == [tuple, str, prompts._Slot, str]
    with pytest.raises(InputError, match=r"user.wording has no templates under \[greeting\]"):
        prompts.phrase("user", "greeting", stream(1, "x"))
    with pytest.raises(InputError, match=r"user.wording, \[initial\]: a template needs \$wish"):
        prompts.phrase("user", "initial", stream(1, "x"))
    with pytest.raises(InputError, match=r"field 'actor', phrases: a template needs \$valeu"):
        prompts.fill(prompts.compiled(("with $valeu",)), stream(1, "x"), "field 'actor', phrases", value="A")
    acts = {"initial", "refine", "hesitate", "aside", "contradiction", "follow_up", "insist", "nothing_named"}
    assert acts <= set(prompts.sections("user"))
    assert all(fields.QUESTION_ACTS[act].asks for act in scenarios.QUESTIONS)


@pytest.mark.parametrize("where", ["sample", "ten"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_the_words_around_the_slots_name_no_concept_and_no_title(name, where):
    grounder_ = grounder() if where == "ten" else Grounder(sources.load())
    texts = [text for found in every_text(name).values() for text in found]
    assert len(texts) > 60
    named = [text for text, codes in zip(texts, grounder_.ground(texts), strict=True) if codes]
    assert named == []
    assert [text for text in texts if grounder_.titles(text)] == []


@pytest.mark.parametrize("name", FILES)
def test_no_line_is_broken_or_written_twice(name):
    for section, texts in every_text(name, slot=None).items():
        assert texts, section
        if not section.endswith(
            (" phrases", " bridges", " clauses")
        ):  # some are written twice to be said more often
            assert len(set(texts)) == len(texts), section
        assert not [text for text in texts if set("{}|$") & set(text)], section


def test_every_wish_in_words_is_found_again_in_any_field():
    ten = grounder()
    wishes = {
        "genre": "Drama", "actor": "Ada Quill", "director": "Zoe Tarn", "writer": "Mo Reed",
        "language": "French", "year": "1988",
    }  # fmt: skip
    assert set(wishes) == {
        name for name, row in fields.FIELDS.items() if row.may_shift and ten.catalog.values(name)
    }
    for i in range(40):
        said = fields.noun_phrase(wishes, stream(i, "wish"))
        assert {fields.concept(*wish) for wish in wishes.items()} <= ten.topic_set(said), said


def test_a_value_stands_alone_before_the_noun_only_where_it_tells_its_field():
    catalog = grounder().catalog
    said = {
        one: {
            fields.noun_phrase(dict([one]), stream(i, "alone"), "texting", code=catalog.code)
            for i in range(40)
        }
        for one in (("actor", "Ada Quill"), ("actor", "Stig"), ("director", "Zoe Tarn"), ("year", "1988"))
    }
    alone = [one[1] for one, texts in said.items() if f"{one[1]} movies" in texts]
    assert alone == ["Ada Quill", "1988"]  # a single name, and a person of two roles, need a cue
    assert "Ada Quill movies" not in {
        fields.noun_phrase({"actor": "Ada Quill"}, stream(i, "alone"), "texting") for i in range(40)
    }


def test_small_letters_leave_values_as_they_are():
    said = {
        prompts.say("voices/texting", "refine", stream(i, "small"), small=True, wish="W", one="X")
        for i in range(80)
    }
    assert all(set(re.findall("[A-Z]", text)) <= {"W", "X"} for text in said)
    assert any("i like W" in text for text in said)


@pytest.mark.parametrize("value", ["$wish", "{a|b}", "100% $", "a|b"])
def test_slots_are_filled_in_as_they_are(value):
    assert value in fields.question("question_plot", value, stream(3, "x"))


def test_a_value_is_put_in_once_and_never_read_as_a_template() -> None:
    text = prompts.render(
        "movies/topics", most=3, fence="abc", message="costs $most {braces} ${fence} and 100 %"
    )
    assert "at most 3, the most" in text
    assert "costs $most {braces} ${fence} and 100 %" in text
    assert text.count("abc") == 2  # the two marks; the value's own ${fence} stayed as it was
    assert '{"topics": ["...", "..."]}' in text


def test_unknown_prompts_and_missing_or_unused_names_are_errors() -> None:
    with pytest.raises(InputError, match=r"missing: most; not in the file: mosst") as caught:
        prompts.render("movies/topics", mosst=3, fence="f", message="m")
    assert "it takes most, fence, message" in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'movies/topics'"):
        prompts.source("movies/topic")
    with pytest.raises(InputError, match="unknown prompt"):
        prompts.source("../errors")


def test_the_digest_is_that_of_the_words() -> None:
    words = prompts.source("movies/judge_coherence")
    assert prompts.digest("movies/judge_coherence") == hashlib.sha256(words.encode()).hexdigest()
    assert len({prompts.digest(name) for name in prompts.names()}) == len(prompts.names())


@pytest.mark.parametrize("name", prompts.names())
def test_every_prompt_renders_with_the_names_it_asks_for(name: str) -> None:
    needs = prompts.wanted(name)
    text = prompts.render(name, **{key: f"<{key}>" for key in needs})
    assert all(f"<{key}>" in text for key in needs)
    assert text == text.rstrip()


@given(st.text(max_size=200))
def test_any_text_comes_out_as_it_went_in(message: str) -> None:
    head, tail = prompts.render("movies/topics", most=1, fence="F", message="\0").split("\0")
    assert prompts.render("movies/topics", most=1, fence="F", message=message) == head + message + tail
