"""Servers and environments drawn at random: a call ends in its time, a command in a sentence, and no file is
lost. ``CRS_FUZZ`` sets how many in all, ``CRS_FUZZ_SEED`` where they begin, as for the readers.
"""

import os
import random
import resource
import subprocess
import sys

import pytest

from crs_lib.core import paths
from crs_lib.llm import LLMError
from tests.contract.test_readers import CASES, SEED
from tests.helpers import table
from tests.helpers.raw_server import RawServer, http_answer
from tests.unit.llm.test_servers import GOOD, KEY, TIMEOUT, asked, calling

DRAWN = table(__file__, "fuzz")
VALUES = [*DRAWN["values"], "9" * 400, "x" * 100_000]
BEFORE = ("", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 50, "\r\n")
FILES = resource.RLIMIT_NOFILE
SIZE = resource.RLIMIT_FSIZE
LIMITS = ((FILES, 12), (FILES, 40), (SIZE, 4096), (resource.RLIMIT_CORE, 0))


def answer(draw, kind):
    """An answer of a server, wrong in one to four ways."""
    if kind != "http" and draw.random() < 0.1:
        return calling(kind)
    lines = [draw.choice(DRAWN["status"])]
    for _ in range(draw.randint(0, 3)):
        value = draw.choice(VALUES).replace("KEY", KEY)
        lines.append(draw.choice(DRAWN["headers"]).format(value))
    head = draw.choice(BEFORE) + "\r\n".join([*lines, "", ""])
    whole = http_answer(GOOD[kind]).split(b"\r\n\r\n")[1]
    body = draw.choice([whole, b"", b"{", b"5\r\n{}\r\n", os.urandom(50)])
    sent = head.encode() + body
    return sent[: draw.randrange(len(sent) + 1)] if draw.random() < 0.2 else sent


@pytest.mark.slow
@pytest.mark.parametrize("kind", GOOD)
def test_a_call_to_any_server_ends_in_its_time(kind):
    for number in range(CASES // 15):
        draw = random.Random(f"{SEED} {kind} {number}")
        text = f"CRS_FUZZ_SEED={SEED}, case {number}"
        drip = draw.choice([b"", b"", b"x", b"\r\n"])
        hang_up = draw.random() < 0.8
        with RawServer(answer(draw, kind), pieces=draw.choice([1, 3]), hang_up=hang_up, drip=drip) as server:
            seconds, result = asked(kind, server.url)
        assert isinstance(result, LLMError) or result == "Try Heat.", (text, result)
        assert seconds < TIMEOUT + 1, text


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.subprocess
def test_a_command_in_any_environment_ends_with_a_sentence(tmp_path):
    (tmp_path / "log.jsonl").write_text("{}\n")
    (tmp_path / "out.jsonl").write_text("kept\n")
    for number in range(max(3, CASES // 40)):
        draw = random.Random(f"{SEED} environment {number}")
        text = f"CRS_FUZZ_SEED={SEED}, case {number}"
        odd = draw.choice(DRAWN["environments"]) | draw.choice(DRAWN["environments"])
        limit = draw.choice(LIMITS)
        closed = draw.choice(["", "<&-", ">&-", ">/dev/full"])
        env = {**os.environ, "PYTHONPATH": str(paths.ROOT), "CRS_RESULTS": str(tmp_path / "results"), **odd}
        command = draw.choice(DRAWN["commands"])
        line = f'exec "{sys.executable}" -m crs_lib {command} {closed}'
        bound = lambda limit=limit: resource.setrlimit(limit[0], (limit[1], limit[1]))  # noqa: E731
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env=env,
            preexec_fn=bound,
            capture_output=True,
            timeout=120,
            check=False,
        )
        words = done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in words and "damaged" not in words, (text, command, odd, limit, closed, words)
        assert done.returncode in (0, 1, 2), (text, command, odd, limit, closed, done.returncode, words)
        assert (tmp_path / "log.jsonl").read_text() == "{}\n", text
        assert (tmp_path / "out.jsonl").stat().st_size, text
