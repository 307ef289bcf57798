"""Prompt files: strict names, values that stay data, digests that change with the words."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import prompts
from crs_lib.core.errors import InputError


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
    assert len({prompts.digest(name) for name in prompts._names()}) == len(prompts._names())


@pytest.mark.parametrize("name", prompts._names())
def test_every_prompt_renders_with_the_names_it_asks_for(name: str) -> None:
    needs = prompts.wanted(name)
    text = prompts.render(name, **{key: f"<{key}>" for key in needs})
    assert all(f"<{key}>" in text for key in needs)
    assert text == text.rstrip()


@given(st.text(max_size=200))
def test_any_text_comes_out_as_it_went_in(message: str) -> None:
    head, tail = prompts.render("movies/topics", most=1, fence="F", message="\0").split("\0")
    assert prompts.render("movies/topics", most=1, fence="F", message=message) == head + message + tail
