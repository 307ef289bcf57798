"""ARC cases: questions whose answer is a story in phases; a file format of our own, checked and derived."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crs_lib.core import safety, tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus
from crs_lib.realtalk.corpus import Chat

FORMAT = "crs-arc-1"


@dataclass(frozen=True)
class GoldPhase:
    """One phase of a case: a title for the reader, never matched, and the ids that bear it."""

    title: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Arc:
    """A question about one chat with its phases in order of time."""

    name: str
    chat: str
    question: str
    phases: tuple[GoldPhase, ...]

    def to_json(self) -> dict[str, Any]:
        """The case as one JSON object of the format."""
        phases = [{"title": p.title, "ids": list(p.ids)} for p in self.phases]
        return {"name": self.name, "chat": self.chat, "question": self.question, "phases": phases}


@safety.reader("ARC cases")
def read(path: Path, chats: Sequence[Chat]) -> list[Arc]:
    """The cases of a file; raises InputError listing everything that is wrong with it.

    A ``.jsonl`` file has one case a line, and what is wrong is named by line; any other file is one object
    ``{"format": "crs-arc-1", "cases": [...]}``. See :func:`check` for a case.
    """
    text = safety.read_text(path)
    problems: list[str] = []
    cases = list(_lines(text, problems)) if path.suffix == ".jsonl" else _whole(text, path.name)
    for where, case in cases:
        problems += check(case, chats, where)
    if problems:
        raise InputError(f"{path.name}: {len(problems)} problems: {'; '.join(problems[:10])}")
    return [_case(case) for _, case in cases]


def _whole(text: str, name: str) -> list[tuple[str, Any]]:
    try:
        record = safety.loads(text, name)
    except InputError as error:
        raise InputError(f"{name} cannot be read as ARC cases ({error})") from error
    given = record.get("cases") if isinstance(record, dict) else None
    if not isinstance(given, list) or record.get("format") != FORMAT:
        raise InputError(f'{name}: expected {{"format": "{FORMAT}", "cases": [...]}}')
    return [(f"cases[{i}]", case) for i, case in enumerate(given)]


def _lines(text: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield f"line {number}", safety.loads(line, f"line {number}")
            except InputError as error:
                problems.append(str(error).replace(": not JSON", " is no JSON"))


def check(case: Any, chats: Sequence[Chat], where: str = "case") -> list[str]:
    """What is wrong with one case, in words; an empty list where nothing is.

    A case needs a name, a known chat, a question and at least two phases; each phase needs ids that
    exist in the chat, no id stands in two phases, and phases ascend by their first message.
    """
    if not isinstance(case, Mapping):
        return [f"{where} is no object"]
    found = [
        f"{where} has no {key}" for key in ("name", "chat", "question") if not isinstance(case.get(key), str)
    ]
    phases = case.get("phases")
    if not isinstance(phases, list) or len(phases) < 2:
        return [*found, f"{where} needs a list of at least two phases"]
    chat = next((c for c in chats if c.name == case.get("chat")), None)
    if chat is None:
        return [*found, f"{where}: chat {case.get('chat')!r} is not among {', '.join(c.name for c in chats)}"]
    seen: set[str] = set()
    starts = []
    for i, phase in enumerate(phases):
        ids = phase.get("ids") if isinstance(phase, Mapping) else None
        if not isinstance(ids, list) or not ids or not all(isinstance(name, str) for name in ids):
            found.append(f"{where}, phase {i + 1} has no list of ids")
            continue
        found += [f"{where}, phase {i + 1}: no message {name!r}" for name in ids if name not in chat.position]
        found += [f"{where}: {name!r} stands in two phases" for name in sorted(set(ids) & seen)]
        seen |= set(ids)
        starts += [min(known)] if (known := [chat.position[n] for n in ids if n in chat.position]) else []
    if starts != sorted(starts):
        found.append(f"{where}: phases are not in order of time")
    return found


def _case(case: Mapping[str, Any]) -> Arc:
    phases = tuple(GoldPhase(str(p.get("title", "")), tuple(p["ids"])) for p in case["phases"])
    return Arc(case["name"], case["chat"], case["question"], phases)


def write(path: Path, cases: Sequence[Arc]) -> None:
    """Write cases in the format that :func:`read` takes."""
    tables.write_json(path, {"format": FORMAT, "cases": [case.to_json() for case in cases]})


def derive(chat: Chat, reading: str = corpus.VALID, sessions: int = 3) -> list[Arc]:
    """Every question with evidence in at least ``sessions`` sessions; a phase is a session's evidence."""
    found = []
    for question in chat.questions:
        places = corpus.evidence(chat, question, reading).positions
        met = corpus.sessions_of(chat, places)
        if len(met) >= sessions:
            phases = tuple(
                GoldPhase(f"session {s}", tuple(chat.ids([p for p in places if chat.sessions[p] == s])))
                for s in met
            )
            found.append(Arc(f"{chat.name}-{question.index}", chat.name, question.text, phases))
    return found
