"""What needs no server: counts of tokens, retries, thinking, checked replies, and the backends that run offline."""

import gzip
import json
import pickle
import re
from threading import Event
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import RetryCallState

from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import Said, said
from crs_lib.llm import LLM, LLMError, Recorder, Request, Retry, calls, export
from crs_lib.llm.base import REMEDIES, Message, check_fits, check_read, room, tokens_at_least, tokens_at_most
from crs_lib.llm.client import persist
from crs_lib.llm.template import OFFERED, answer
from crs_lib.llm.text import checked
from tests.helpers import refused, table
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.scripted import failing

SCORE = {"type": "integer", "minimum": 1, "maximum": 5}
SCHEMA = {"type": "object", "properties": {"score": SCORE}, "required": ["score"]}
PROMPT = "Choose one:\n- [m1] Heat (1995), crime\n- [m2] Ronin (1998), action\n2. Fargo (1996)\nno: (1990)\n"


def prompt(text, **more):
    return Request.ask("crs", text, **more)


@given(st.lists(st.text(max_size=80), max_size=5))
def test_the_lower_bound_never_passes_the_upper(texts):
    messages = [Message("user", text) for text in texts]
    assert tokens_at_least(messages) <= tokens_at_most(messages)


def test_tokens_are_counted_from_bytes_and_words():
    messages = [Message("system", "be kind"), Message("user", "a movie with Amélie")]
    assert tokens_at_least(messages) == 2 + 4
    # ceil(7/3) + 16 = 19, and 20 bytes (é takes two): ceil(20/3) + 16 = 23
    assert tokens_at_most(messages) == 19 + 23


def test_a_prompt_must_fit():
    options = {"num_ctx": 100, "num_predict": 60}
    assert room(options) == 40
    check_fits(prompt("x" * 72, options=options))  # 24 + 16 = 40
    with failing("prompt too long", "may take 41 tokens, num_ctx less num_predict leaves 40"):
        check_fits(prompt("x" * 73, options=options))


def test_a_prompt_must_be_read_whole():
    check_read(prompt("one two three"), 3)
    check_read(prompt("one two three"), None)
    with failing("prompt cut", "read 2 tokens of a crs prompt of 3 words"):
        check_read(prompt("one two three"), 2)


@pytest.mark.parametrize("options", table(__file__, "impossible_sizes"))
def test_impossible_sizes_are_refused(options):
    refused("num_", room, options)


def following(policy, request, kind, text="{"):
    """The requests that follow where every attempt fails in the same way, nine at most."""
    error = LLMError(kind, "x", text)
    requests = []
    while len(requests) < 9:
        request = policy.following(request, error, [kind] * len(requests))
        if request is None:
            break
        requests.append(request)
    return requests


def test_trouble_on_the_way_is_tried_again_with_the_same_request():
    request = prompt("a", seed=1)
    assert following(Retry(waits=2), request, "busy") == [request, request]
    busy = LLMError("busy", "b")
    assert Retry(waits=2).following(request, busy, ["empty", "dropped"]) is request
    assert following(Retry(), request, "refused") == []


def test_a_bad_reply_is_asked_for_with_other_seeds():
    policy = Retry(seeds=2)
    request = prompt("a", seed=1)
    first, second = following(policy, request, "empty")
    assert len({1, first.seed, second.seed}) == 3
    assert following(policy, request, "bad reply") == [first, second]
    first, second = following(policy, prompt("a"), "empty")
    assert first.seed is None
    assert second.seed is None


@pytest.mark.parametrize(("context", "enlarged"), table(__file__, "enlarged"))
def test_a_cut_reply_gets_more_room_once_as_the_context_allows(context, enlarged):
    # 17 tokens of prompt in 150: 133 are left; where nothing is left there is no second attempt
    request = prompt("a", options={"num_ctx": context, "num_predict": 100})
    requests = following(Retry(), request, "cut")
    assert [request.options["num_predict"] for request in requests] == enlarged


def test_a_reply_that_thinking_left_no_room_gets_all_that_the_context_has():
    request = prompt("a", options={"num_ctx": 1000, "num_predict": 100})
    (larger,) = following(Retry(), request, "cut", text="")
    assert larger.options["num_predict"] == 1000 - 17


@pytest.mark.parametrize("error", [InputError("i"), KeyError("k")])
def test_other_errors_are_not_tried_again(error):
    attempt = Mock(side_effect=error)
    with pytest.raises(type(error)):
        persist(Retry(), prompt("a"), attempt, Event())
    assert attempt.call_count == 1


def pause(policy, error, attempt=1):
    """The seconds before the next attempt, after the nth failed with this error."""
    state = RetryCallState(None, None, (), {})
    state.attempt_number = attempt
    state.set_exception((type(error), error, None))
    return policy.pause(state)


PATIENT = Retry(waits=6, first=0.5, longest=4.0)


@pytest.mark.parametrize(("attempt", "low"), table(__file__, "pauses"))
def test_pauses_double_up_to_the_longest(attempt, low):
    busy = LLMError("busy", "b")
    assert low <= pause(PATIENT, busy, attempt) <= low + 0.5  # which is by chance


def test_pauses_keep_to_what_the_server_asks():
    short = LLMError("busy", "b", pause=3.0)
    long = LLMError("busy", "b", pause=99.0)
    empty = LLMError("empty", "e")
    assert 3.0 <= pause(PATIENT, short) <= 3.5
    assert 4.0 <= pause(PATIENT, long) <= 4.5
    assert pause(PATIENT, empty) == 0.0  # waiting would not help
    assert pause(Retry(first=0.0, longest=0.0), LLMError("busy", "b")) == 0.0


@pytest.mark.parametrize("kind", REMEDIES)
def test_the_word_of_an_error_is_plain(kind):
    assert re.fullmatch(r"[a-z ]+", kind)


def test_an_error_has_a_word_of_the_table_and_crosses_processes_whole():
    error = LLMError("busy", "later", pause=3.0)
    error.tried = ("dropped",)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "later"
    assert again.__dict__ == error.__dict__
    assert again.remedy == "wait"
    with pytest.raises(KeyError):
        LLMError("no such word", "x")


@pytest.mark.parametrize(("reply", "text", "thinking"), table(__file__, "thinking"))
def test_thinking_is_split_off(reply, text, thinking):
    assert said(reply)[:2] == (text, thinking)


def test_thinking_that_the_server_split_off_comes_first():
    assert said("<think>more</think>Heat.", "first") == Said("Heat.", "first\nmore")


def test_a_reply_whose_length_went_into_thinking_gets_more_room():
    with failing("cut", "thinking used up the length"):
        checked("", "length", None, thinking="First the genre, then the year")
    with failing("empty", "no text beside what the model thought"):
        checked("", "stop", None, thinking="First the genre, then the year")


def test_fences_are_taken_off_and_a_cut_reply_fails_a_schema():
    assert checked('```json\n{"score": 4}\n```', "stop", SCHEMA) == '{"score": 4}'
    assert checked("Heat is a film by", "length", None) == "Heat is a film by"
    with failing("cut"):
        checked('{"score": 4}', "length", SCHEMA)


@pytest.mark.parametrize(("text", "where"), [*table(__file__, "breaches"), ["[" * 100_000, "not JSON"]])
def test_a_reply_that_breaks_the_schema_says_where(text, where):
    with failing("bad reply", where) as caught:
        checked(text, "stop", SCHEMA)
    assert caught.value.text == text
    assert len(str(caught.value)) < 500


def test_the_template_recommends_what_the_prompt_offers_or_repeats_its_block():
    assert OFFERED.findall(PROMPT) == [("m1", "Heat"), ("m2", "Ronin"), ("", "Fargo")]
    titles = set()
    for seed in range(40):
        _, words = answer(PROMPT, None, seed).split("How about ")
        titles.add(words.partition("?")[0])
    assert titles == {"Heat", "Ronin", "Fargo"}
    block = "Say this, in this order:\n- I like it\n- more, please\n\nrest"
    assert answer(block, None, 0) == "I like it more, please"
    assert answer("nothing to go by", None, 0) == "Noted."


def test_the_template_keeps_a_schema():
    properties = table(__file__, "properties")
    schema = {"type": "object", "$defs": {"S": SCHEMA}, "properties": properties, "required": [*properties]}
    scores = set()
    for seed in range(30):
        reply = LLM("template").complete(prompt(PROMPT, seed=seed, schema=schema))
        record = json.loads(reply.text)
        scores.add(record["a"]["score"])
        named = [item for item, title in OFFERED.findall(PROMPT) if title in record["reply"]]
        assert len(named) == 1
        assert record["ids"][0] in ("m1", "m2")
        assert named[0] in ("", record["ids"][0])  # the id and the words speak of the same movie
    assert scores == {1, 2, 3, 4, 5}


def test_a_replay_does_not_choose_between_models_and_needs_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    folder = tmp_path / "movies" / "two"
    request = prompt("hi", seed=1)
    recorder = Recorder(folder / "calls.sqlite")
    for name in "ab":
        model = f"{name}:1"
        server = OllamaServer([model], answer=lambda *_, name=name: f"from {name}")
        with server, LLM(f"ollama:{model}", host=server.url, recorder=recorder) as llm:
            llm.complete(request)
    export([recorder.path], folder / "llm_calls.jsonl")
    with pytest.raises(LLMError, match=r"2 different replies .* name one model"):
        LLM("replay:two").complete(request)
    assert LLM("replay:movies/two@ollama:b:1").complete(request).text == "from b"
    refused(r"llm_calls\.jsonl to replay", LLM, "replay:nothing", error=RunError)


def test_a_log_of_the_package_is_replayed_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "samples", lambda: tmp_path)
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    recorder = Recorder(tmp_path / "calls.sqlite")
    answers = ["one", "two", LLMError("refused", "no")]
    with LLM("scripted", answers=answers, recorder=recorder) as llm:
        llm.gather(prompt(text, seed=1) for text in "abc")
    recorder.close()
    path = tmp_path / "llm_calls.jsonl"
    export([recorder.path], path)
    stored = calls.kept("mine")
    stored.parent.mkdir()
    stored.write_bytes(gzip.compress(path.read_bytes()))
    replay = LLM("replay:mine")
    assert replay.complete(prompt("b", seed=1)).text == "two"
    with failing("not recorded"):
        replay.complete(prompt("c", seed=1))
