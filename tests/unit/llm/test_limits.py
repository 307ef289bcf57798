"""Tokens are counted on the safe side, retries follow the table."""

import re
from dataclasses import replace

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.llm.base import Message, Request
from crs_lib.llm.errors import KINDS, Busy, CutReply, EmptyReply, LLMError, PromptCut, PromptTooLong, Refused
from crs_lib.llm.limits import check_fits, check_read, room, tokens_at_least, tokens_at_most
from crs_lib.llm.retry import Attempts, Retry, pauses


def ask(text: str, **rest: object) -> Request:
    return Request.ask("crs", text, **rest)


def test_tokens_are_bounded_from_both_sides() -> None:
    messages = [Message("system", "be kind"), Message("user", "a movie with Amélie")]
    # at least: 2 + 4 words; at most: ceil(7/3) + 16 = 19, and 20 bytes (é takes two): ceil(20/3) + 16 = 23
    assert tokens_at_least(messages) == 6
    assert tokens_at_most(messages) == 19 + 23


@given(st.lists(st.text(max_size=80), max_size=5))
def test_the_lower_bound_never_passes_the_upper(texts: list[str]) -> None:
    messages = [Message("user", text) for text in texts]
    assert tokens_at_least(messages) <= tokens_at_most(messages)


def test_a_prompt_must_fit_beside_its_answer() -> None:
    options = {"num_ctx": 100, "num_predict": 60}
    assert room(options) == 40
    check_fits(ask("x" * 72, options=options))  # 24 + 16 = 40
    with pytest.raises(PromptTooLong, match="may take 41 tokens, num_ctx less num_predict leaves 40"):
        check_fits(ask("x" * 73, options=options))


@pytest.mark.parametrize("options", [
    {"num_predict": -1}, {"num_ctx": 0}, {"num_ctx": True}, {"num_ctx": 4096.0}, {"num_ctx": 64, "num_predict": 64},
])  # fmt: skip
def test_impossible_sizes_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="num_"):
        room(options)


def test_fewer_tokens_than_words_means_a_cut_prompt() -> None:
    check_read(ask("one two three"), 3)
    check_read(ask("one two three"), None)
    with pytest.raises(PromptCut, match="read 2 tokens of a crs prompt of 3 words"):
        check_read(ask("one two three"), 2)


def test_waiting_errors_are_retried_with_the_same_request() -> None:
    attempts = Attempts(ask("a", seed=1), Retry(waits=2))
    assert [attempts.again(Busy("b")) for _ in range(3)] == [True, True, False]
    assert attempts.request.seed == 1 and attempts.tried == ["busy", "busy"]


def paused(policy: Retry, error: LLMError, attempt: int = 1) -> float:
    state = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    state.set_exception((type(error), error, None))
    return pauses(policy)(state)


def test_pauses_double_up_to_the_longest_and_keep_to_what_the_server_asks() -> None:
    policy = Retry(waits=6, first=0.5, longest=4.0)
    for attempt, low in enumerate((0.5, 1.0, 2.0, 4.0, 4.0), 1):  # each with up to 0.5 s by chance
        assert low <= paused(policy, Busy("b"), attempt) <= low + 0.5
    assert 3.0 <= paused(policy, Busy("b", pause=3.0)) <= 3.5
    assert 4.0 <= paused(policy, Busy("b", pause=99.0)) <= 4.5
    assert paused(policy, EmptyReply("e")) == 0.0  # waiting would not help
    assert paused(Retry(first=0.0, longest=0.0), Busy("b")) == 0.0


def test_unusable_replies_are_retried_with_the_seeds_of_a_fixed_sequence() -> None:
    seeds = []
    attempts = Attempts(ask("a", seed=1), Retry(seeds=2))
    while attempts.again(EmptyReply("e")):
        seeds.append(attempts.request.seed)
    again = Attempts(ask("a", seed=1), Retry(seeds=2))
    again.again(EmptyReply("e"))
    assert len(seeds) == 2 == len({*seeds}) and 1 not in seeds
    assert again.request.seed == seeds[0]
    none = Attempts(ask("a"), Retry(seeds=2))
    assert none.again(EmptyReply("e")) and none.request.seed is None


def test_a_cut_reply_gets_twice_the_room_once() -> None:
    attempts = Attempts(ask("a", options={"num_ctx": 1000, "num_predict": 100}), Retry())
    assert attempts.again(CutReply("c")) and attempts.request.options["num_predict"] == 200
    assert not attempts.again(CutReply("c"))
    # 17 tokens of prompt in 150: 133 are left; where nothing is left there is no second attempt
    tight = Attempts(ask("a", options={"num_ctx": 150, "num_predict": 100}), Retry())
    assert tight.again(CutReply("c")) and tight.request.options["num_predict"] == 133
    full = Attempts(ask("a", options={"num_ctx": 117, "num_predict": 100}), Retry())
    assert not full.again(CutReply("c"))


def test_what_is_wrong_for_good_is_not_retried() -> None:
    for error in (Refused("r"), InputError("i"), KeyError("k")):
        assert not Attempts(ask("a"), Retry()).again(error)


def test_every_error_has_a_word_and_a_remedy_of_its_own() -> None:
    assert len({error.kind for error in KINDS}) == len(KINDS)
    assert {one for one in LLMError.__subclasses__() if one.__module__.startswith("crs_lib.llm")} == {*KINDS}
    assert all(re.fullmatch(r"[a-z ]+", error.kind) for error in KINDS)


@pytest.mark.parametrize("wrong", [{"waits": -1}, {"first": 2, "longest": 1}, {"seeds": -2}])
def test_a_policy_that_cannot_be_followed_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="cannot be followed"):
        replace(Retry(), **wrong)
