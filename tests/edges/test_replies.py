"""What systems say, and logs of talks: thoughts, parts, lists, errors and ids are read as what they mean."""

import json

import pytest

from crs_lib.core.errors import InputError
from crs_lib.core.text import said
from crs_lib.data import logs
from crs_lib.llm.base import LLMError
from crs_lib.llm.http import pause_of
from crs_lib.simulate.logged import ImportConfig, import_logs
from crs_lib.systems import contract
from crs_lib.systems.replies import SaidReply
from tests.edges.cases import cases
from tests.helpers.sample import GROUNDER, SAMPLE


def words(content):
    """What users hear, then what the system thought."""
    spoken = said(content)
    return [spoken.text, spoken.thinking]


def answer(text):
    """The reply and the films that an answer of the contract names."""
    data = text.encode("latin-1") if isinstance(text, str) else bytes(text)
    try:
        read = contract.read(contract.parse(contract.decoded(data)))
    except LLMError as error:
        raise InputError(str(error)) from error
    return [read.reply, *(read.recommended or ())]


def films(text):
    """The films that a reply recommends, then the titles outside the catalogue after a line of dashes."""
    reply = SaidReply(GROUNDER, text, "A drama, please.")
    return [*(SAMPLE.items[item].title for item in reply.recommended()), "--", *reply.unknown()]


def turns(path):
    """The turns of a log, each as who speaks and what."""
    broken = []
    lines = []
    for dialogue in logs.readable(path, broken.append):
        lines += [f"{turn.speaker}: {turn.text}" for turn in dialogue.turns]
    if broken:
        raise InputError(broken[0].reason)
    return lines


def quirks(path):
    """What is odd about a log."""
    return logs.log_quirks(logs.readable(path, print))["quirk"].tolist()


def imported(path):
    """The first reply of a log that became a run."""
    run = import_logs(ImportConfig(logs=str(path), run="edges"))
    record = json.loads((run.folder / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()[0])
    return record["conversation"][1]["text"]


def pause(value):
    """The seconds that a header asks for."""
    return pause_of({"retry-after": value})


CALLS = {
    "words": words,
    "answer": answer,
    "films": films,
    "turns": turns,
    "imported": imported,
    "quirks": quirks,
    "pause": pause,
}


@pytest.mark.parametrize("case", cases("replies"))
def test_what_was_said_is_read_as_it_is_meant(case, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    case.check(CALLS, tmp_path)
