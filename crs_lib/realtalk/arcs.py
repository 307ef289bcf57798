"""ARC cases: questions whose answer is a story in phases; a file format of our own, checked and derived."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety, tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus
from crs_lib.realtalk.corpus import Chat

FORMAT = "crs-arc-1"


class _GoldPhase(BaseModel):
    """One phase of a case: a title for the reader, never matched, and the ids that bear it."""

    model_config = ConfigDict(frozen=True)

    title: str = ""
    ids: Annotated[tuple[str, ...], Field(min_length=1)]


class Arc(BaseModel):
    """A question about one chat with its phases in order of time, at least two of them."""

    model_config = ConfigDict(frozen=True)

    name: str
    chat: str
    question: str
    phases: Annotated[tuple[_GoldPhase, ...], Field(min_length=2)]

    def to_json(self) -> dict[str, Any]:
        """The case as one JSON object of the format."""
        return self.model_dump(mode="json")


@safety.reader("ARC cases")
def read(path: Path, chats: Sequence[Chat]) -> list[Arc]:
    """The cases of a file; raises InputError listing everything that is wrong with it. A ``.jsonl`` file has
    one case a line, and what is wrong is named by line; any other file is one object ``{"format":
    "crs-arc-1", "cases": [...]}``. A folder gives its ``*.arc.json``. See :func:`check`.
    """
    if path.is_dir():
        return [case for one in sorted(path.glob("*.arc.json")) for case in read(one, chats)]
    text = safety.read_text(path)
    problems: list[str] = []
    cases = list(_lines(text, problems)) if path.suffix == ".jsonl" else _whole(text, path.name)
    for where, case in cases:
        problems += check(case, chats, where)
    if problems:
        raise InputError(f"{path.name}: {len(problems)} problems: {'; '.join(problems[:10])}")
    return [Arc.model_validate(case) for _, case in cases]


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
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", safety.loads(line, f"line {number}")
            except InputError as error:
                problems.append(str(error).replace(": not JSON", " is no JSON"))


def check(case: Any, chats: Sequence[Chat], where: str = "case") -> list[str]:
    """The problems of one case, in words; an empty list where there is none. A case needs a name, a known
    chat, a question and at least two phases; each phase needs ids that exist in the chat, no id stands in two
    phases, and phases ascend by their first message.
    """
    try:
        arc = Arc.model_validate(case)
    except ValidationError as error:
        return [f"{where}, {'.'.join(map(str, e['loc'])) or 'case'}: {e['msg']}" for e in error.errors()]
    if (chat := next((c for c in chats if c.name == arc.chat), None)) is None:
        return [f"{where}: chat {arc.chat!r} is not among {', '.join(c.name for c in chats)}"]
    found, seen, starts = list[str](), set[str](), list[int]()
    for i, phase in enumerate(arc.phases, start=1):
        places = [chat.position[name] for name in phase.ids if name in chat.position]
        strange = [name for name in phase.ids if name not in chat.position]
        found += [f"{where}, phase {i}: no message {name!r}" for name in strange]
        found += [f"{where}: {name!r} stands in two phases" for name in sorted({*phase.ids} & seen)]
        seen |= {*phase.ids}
        starts += [min(places)] if places else []
    return found if starts == sorted(starts) else [*found, f"{where}: phases are not in order of time"]


def write(path: Path, cases: Sequence[Arc]) -> None:
    """Write cases in the format that :func:`read` takes, and those of each chat as ``<chat>.arc.json``."""
    parts = {path: list(cases)}
    for case in cases:
        parts.setdefault(path.with_name(f"{case.chat}.arc.json"), []).append(case)
    for place, part in parts.items():
        tables.write_json(place, {"format": FORMAT, "cases": [case.to_json() for case in part]})


def derive(chat: Chat, reading: str = corpus.VALID) -> list[Arc]:
    """Every question with evidence in at least three sessions; a phase is a session's evidence."""
    found = []
    for question in chat.questions:
        places = corpus.evidence(chat, question, reading).positions
        met = corpus.sessions_of(chat, places)
        if len(met) >= 3:
            ids = {s: tuple(chat.ids([p for p in places if chat.sessions[p] == s])) for s in met}
            phases = tuple(_GoldPhase(title=f"session {s}", ids=ids[s]) for s in met)
            name = f"{chat.name}-{question.index}"
            found.append(Arc(name=name, chat=chat.name, question=question.text, phases=phases))
    return found
