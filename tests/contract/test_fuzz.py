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
from tests.helpers.raw_server import RawServer, http_answer
from tests.unit.llm.test_servers import GOOD, KEY, TIMEOUT, asked, calling

STATUS = (
    "HTTP/1.1 200 OK",
    "HTTP/1.1 429 Busy",
    "HTTP/1.1 503 Busy",
    "HTTP/1.1 302 Found",
    "HTTP/1.1 999 ?",
    "HTTP/9.9 200 OK",
    "200",
    "",
)
HEADERS = (
    "retry-after: {}",
    "content-length: {}",
    "transfer-encoding: {}",
    "content-encoding: {}",
    "connection: {}",
    "location: http://127.0.0.1:1/{}",
    "set-cookie: {}",
    "content-type: {}",
    "x\x00: {}",
    ": {}",
    "{}",
)
VALUES = (
    "",
    "0",
    "-1",
    "²",
    "9" * 400,
    "nan",
    "chunked",
    "gzip",
    "close",
    "utf-16",
    KEY,
    "x" * 100_000,
    "a\r\n\r\nb",
    "\x1b[2J",
)
BEFORE = ("", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 50, "\r\n")
COMMANDS = (
    "catalog export --out out.jsonl",
    "data import log.jsonl",
    "data get --list",
    "show trace --run none",
    "simulate -p run r -p systems random -p n_sessions 1 -p n_turns 2",
    "validity annotate --run none",
    "--version",
)
ENVIRONMENTS = (
    {"LC_ALL": "C", "PYTHONUTF8": "0"},
    {"LANG": "xx_YY.bogus"},
    {"PYTHONIOENCODING": "ascii"},
    {"COLUMNS": "1"},
    {"HOME": "/nowhere"},
    {"TZ": "No/Where"},
    {"TERM": ""},
    {"CRS_RESULTS": "/proc/none"},
    {"CRS_RESULTS": "log.jsonl"},
    {"CRS_DATA": "~nobody-here/x"},
    {"CRS_MIRROR": "none"},
    {"OMP_NUM_THREADS": "many"},
    {"PYTHONOPTIMIZE": "2"},
    {"CRS_MOST_WORKERS": "x"},
    {"TMPDIR": "/nowhere"},
)
FILES = resource.RLIMIT_NOFILE
SIZE = resource.RLIMIT_FSIZE
LIMITS = ((FILES, 12), (FILES, 40), (SIZE, 4096), (resource.RLIMIT_CORE, 0))


def answer(draw, kind):
    """An answer of a server, wrong in one to four ways."""
    head = [draw.choice(STATUS)]
    head += [draw.choice(HEADERS).format(draw.choice(VALUES)) for _ in range(draw.randint(0, 3))]
    whole = http_answer(GOOD[kind]).split(b"\r\n\r\n")[1]
    body = draw.choice([whole, b"", b"{", b"5\r\n{}\r\n", os.urandom(50)])
    built = (draw.choice(BEFORE) + "\r\n".join([*head, "", ""])).encode() + body
    built = calling(kind) if kind != "http" and draw.random() < 0.1 else built
    return built[: draw.randrange(len(built) + 1)] if draw.random() < 0.2 else built


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
        odd = draw.choice(ENVIRONMENTS) | draw.choice(ENVIRONMENTS)
        limit = draw.choice(LIMITS)
        closed = draw.choice(["", "<&-", ">&-", ">/dev/full"])
        env = {**os.environ, "PYTHONPATH": str(paths.ROOT), "CRS_RESULTS": str(tmp_path / "results"), **odd}
        command = draw.choice(COMMANDS)
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
