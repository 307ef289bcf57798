"""docs/running-llms.md says what the code does."""

import re

from crs_lib.core.paths import ROOT
from crs_lib.judge.prompt import TURN_LIMITS
from crs_lib.llm import BACKENDS, Retry
from crs_lib.llm.base import DEFAULTS, REMEDIES
from crs_lib.llm.calls import TEXT_LIMIT

TEXT = (ROOT / "docs" / "running-llms.md").read_text(encoding="utf-8")


def test_the_table_of_errors_is_that_of_the_code():
    section = TEXT.split("## What is tried again")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    told = {row[0]: (row[2], row[3]) for row in rows[2:]}
    known = {kind: ("no", "") if remedy == "no" else ("yes", remedy) for kind, remedy in REMEDIES.items()}
    assert list(told.items()) == list(known.items())[: len(told)]
    assert list(known)[len(told) :] == ["wrong answer", "crashed", "too slow", "not started"]  # of programs


def test_backends_and_numbers_are_those_of_the_code():
    specs = {spec.split(":")[0] for spec in re.findall(r"^\| `([^`]+)`", TEXT.split("From Python")[0], re.M)}
    assert specs == {*BACKENDS.names()} - {"scripted"}  # that of the tests
    policy = Retry()
    words = " ".join(TEXT.split())
    for said in (
        f"up to {policy.waits} more times, after pauses of {policy.first} s that double up to {policy.longest:g} s",
        f"at once, up to {policy.seeds} more times", f"`num_ctx` is {DEFAULTS['num_ctx']} unless",
        f"bounded at {TEXT_LIMIT:,} characters", f"shortened at {TURN_LIMITS[0]:,} characters",
    ):  # fmt: skip
        assert said in words
