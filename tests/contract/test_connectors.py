"""Connectors against servers that misbehave on demand: every rare answer ends in the right reply, or in one sentence."""

import sys
import time
from functools import partial

import pytest

from crs_lib.llm import LLMError, LLMSettings, Retry
from crs_lib.systems import base as systems
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs
from crs_lib.systems.settings import ModelSettings
from tests.helpers import table
from tests.helpers.programs import script
from tests.helpers.raw_server import RawServer, http_answer
from tests.helpers.sample import GROUNDER, SAMPLE

DEADLINE = 5.0  # seconds that any rare answer may take
FAST = partial(Programs, None, LLMSettings(timeout=1.5), retry=Retry(waits=2, first=0.01, longest=0.02))
FINE = "Metropolis"  # the film of the right reply
RETRIED = "answered at the second try"
# Of each connector: the path behind the address, and a right answer.
CONNECTORS = {
    "http": ("/reply", '{"reply": "GOOD"}'),
    "openai-chat": ("/chat", '{"choices": [{"message": {"role": "assistant", "content": "GOOD"}}]}'),
    "ievalm": ("/serve", '{"response": "GOOD"}'),
    "a2a": (
        "/rpc",
        '{"jsonrpc": "2.0", "id": "1", "result": {"kind": "message", "parts": [{"text": "GOOD"}]}}',
    ),
}
PROGRAM = """
import sys
sys.stdin.readline()
sys.stdout.buffer.write(open({0!r}, 'rb').read() + b'\\n')
sys.stdout.flush()
sys.stdin.readline()
"""


def filled(text):
    """A text of the table with a right reply and a thought in place of their names."""
    reply = text.replace("GOOD", "You could watch Metropolis (1927).")
    return reply.replace("THOUGHT", "Nosferatu (1922) or The Gold Rush (1925) do not fit.")


def of_any_server(right):
    """What any server may answer, whatever its protocol: the answer, and what is right."""
    yield b"", RETRIED
    yield b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{", RETRIED
    yield http_answer(right.encode("utf-16")), FINE
    yield http_answer(b'{"reply": "Am\xe9lie"}'), "not UTF-8"
    yield http_answer("x" * 1_100_000), "longer than 1,000,000 bytes"
    for body, status, header, outcome in table(__file__, "statuses"):
        yield http_answer(body.replace("RIGHT", right), status, *filter(None, [header])), outcome


def rare(name):
    """The rare answers of a connector, each with what is right."""
    _, right = CONNECTORS[name]
    answers = list(of_any_server(filled(right)))
    for body, outcome in table(__file__, name):
        answers.append((http_answer(filled(body)), outcome))
    return answers


def rows():
    """A row a connector and rare answer."""
    for name in CONNECTORS:
        for answer, outcome in rare(name):
            yield name, answer, outcome


def result(spec):
    """The title of the film that a system names when it is asked, or the one line of its error."""
    with FAST() as programs:
        world = World(SAMPLE, GROUNDER, llm=ModelSettings(), programs=programs)
        try:
            answer = systems.create(spec, world, 7, 0).reply(1, "A drama, please.", {})
        except LLMError as error:
            assert "\n" not in str(error)
            return str(error)
    assert answer.hallucinated == ()
    assert "\ufffd" not in answer.text
    [item] = answer.items
    return SAMPLE.items[item].title


def check(shown, outcome):
    """Assert that what was shown is the right film, or holds the words that are right."""
    if outcome == FINE:
        assert shown == FINE
    else:
        assert outcome in shown


@pytest.mark.parametrize(("name", "answer", "outcome"), list(rows()))
def test_a_rare_answer_ends_in_the_right_reply_or_one_sentence(name, answer, outcome):
    path, right = CONNECTORS[name]
    answers = [answer]
    if outcome == RETRIED:
        answers.append(http_answer(filled(right)))
        outcome = FINE
    started = time.monotonic()
    with RawServer(*answers, hang_up=True) as server:
        shown = result(f"{name}:{server.url}{path}")
    assert time.monotonic() - started < DEADLINE
    check(shown, outcome)


@pytest.mark.parametrize("name", CONNECTORS)
def test_each_connector_meets_at_least_twenty_five_rare_answers(name):
    assert len(rare(name)) >= 25


def lines():
    """What a program prints for a request, and what is right."""
    yield b'{"reply": "Am\xe9lie"}', "not UTF-8 (byte 0xe9 at 13"
    yield b"x" * 1_100_000, "longer than 1,000,000 bytes"
    for text, outcome in [*table(__file__, "http"), *table(__file__, "printed")]:
        if text:
            yield filled(text).encode(), outcome


@pytest.mark.subprocess
@pytest.mark.parametrize(("line", "outcome"), list(lines()))
def test_a_rare_line_of_a_program_ends_in_the_right_reply_or_one_sentence(line, outcome, tmp_path):
    printed = tmp_path / "line"
    printed.write_bytes(line)
    program = script(tmp_path, "says.py", PROGRAM.format(str(printed)))
    shown = result(f"exec:{sys.executable} -S {program}")
    check(shown, outcome)


def test_a_program_meets_at_least_twenty_five_rare_lines():
    assert len(list(lines())) >= 25
