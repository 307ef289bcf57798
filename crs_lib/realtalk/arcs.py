"""ARC cases: questions whose answer is a story in phases; a file format of our own, checked and derived."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety, tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus
from crs_lib.realtalk.corpus import Chat

FORMAT = "crs-arc-1"
_LEAST_SESSIONS = 3  # of a question whose answer is a story


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
    """The cases of a file; raises InputError listing everything that is wrong with it.

    A ``.jsonl`` file has one case a line, and what is wrong is named by line; any other file is one object
    ``{"format": "crs-arc-1", "cases": [...]}``. A folder gives its ``*.arc.json``. See :func:`check`.
    """
    if path.is_dir():
        in_folder: list[Arc] = []
        for file in sorted(path.glob("*.arc.json")):
            in_folder += read(file, chats)
        return in_folder
    text = safety.read_text(path)
    problems: list[str] = []
    if path.suffix == ".jsonl":
        records = list(_lines(text, problems))
    else:
        records = _cases(text, path.name)
    for where, case in records:
        problems += check(case, chats, where)
    if problems:
        raise InputError(f"{path.name}: {len(problems)} problems: {'; '.join(problems[:10])}")
    return [Arc.model_validate(case) for _, case in records]


def _cases(text: str, name: str) -> list[tuple[str, Any]]:
    """Each case of a file's one object, with where it stands."""
    try:
        record = safety.loads(text, name)
    except InputError as error:
        raise InputError(f"{name} cannot be read as ARC cases ({error})") from error
    cases = None
    if isinstance(record, dict) and record.get("format") == FORMAT:
        cases = record.get("cases")
    if not isinstance(cases, list):
        raise InputError(f'{name}: expected {{"format": "{FORMAT}", "cases": [...]}}')
    return [(f"cases[{i}]", case) for i, case in enumerate(cases)]


def _lines(text: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """Where each line stands, and its case; a line that is no JSON is a problem."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            yield where, safety.loads(line, where)
        except InputError as error:
            problems.append(str(error).replace(": not JSON", " is no JSON"))


def check(case: Any, chats: Sequence[Chat], where: str = "case") -> list[str]:
    """The problems of one case, in words; an empty list where there is none.

    A case needs a name, a known chat, a question and at least two phases; each phase needs ids that exist in
    the chat, no id stands in two phases, and phases ascend by their first message.
    """
    try:
        arc = Arc.model_validate(case)
    except ValidationError as error:
        return [_problem(where, details) for details in error.errors()]
    position_of = {chat.name: chat.position for chat in chats}
    if arc.chat not in position_of:
        return [f"{where}: chat {arc.chat!r} is not among {', '.join(position_of)}"]
    position = position_of[arc.chat]
    problems: list[str] = []
    earlier: set[str] = set()
    starts = []
    for number, phase in enumerate(arc.phases, start=1):
        ids = set(phase.ids)
        unknown = [name for name in phase.ids if name not in position]
        problems += [f"{where}, phase {number}: no message {name!r}" for name in unknown]
        problems += [f"{where}: {name!r} stands in two phases" for name in sorted(ids & earlier)]
        earlier |= ids
        starts += sorted(position[name] for name in ids & position.keys())[:1]
    if starts != sorted(starts):
        problems.append(f"{where}: phases are not in order of time")
    return problems


def _problem(where: str, details: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence."""
    location = ".".join(map(str, details["loc"]))
    return f"{where}, {location or 'case'}: {details['msg']}"


def write(path: Path, cases: Sequence[Arc]) -> None:
    """Write cases in the format that :func:`read` takes, and those of each chat as ``<chat>.arc.json``."""
    files = {path: list(cases)}
    for case in cases:
        files.setdefault(path.with_name(f"{case.chat}.arc.json"), []).append(case)
    for file, part in files.items():
        tables.write_json(file, {"format": FORMAT, "cases": [case.to_json() for case in part]})


def derive(chat: Chat, reading: str = corpus.VALID) -> list[Arc]:
    """Every question with evidence in at least three sessions; a phase is a session's evidence."""
    cases = []
    for question in chat.questions:
        ids_of: dict[int, list[str]] = {}  # by session
        for position in corpus.evidence(chat, question, reading).positions:
            message = chat.messages[position]
            ids_of.setdefault(message.session, []).append(message.id)
        if len(ids_of) >= _LEAST_SESSIONS:
            sessions = sorted(ids_of.items())
            phases = [_GoldPhase(title=f"session {session}", ids=tuple(ids)) for session, ids in sessions]
            name = f"{chat.name}-{question.index}"
            story = Arc(name=name, chat=chat.name, question=question.text, phases=tuple(phases))
            cases.append(story)
    return cases
