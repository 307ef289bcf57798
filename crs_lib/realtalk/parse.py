"""Chat files of the RealTalk and the LoCoMo schema; odd things are reported as quirks, not fatal."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk
from crs_lib.realtalk.corpus import LOCOMO, REALTALK, Chat, ChatMessage, ChatQuestion, number

_CATEGORIES = ("1", "2", "3", "4", "5")
_SESSION = re.compile(r"session_(\d+)")
_HALF = re.compile("[\ud800-\udfff]")  # half a character: a cut emoji, which no file can hold
_TIMES = (
    "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y, %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%I:%M %p on %d %B, %Y",
    "%I:%M %p on %d %B %Y",
    "%I:%M %p on %d %b, %Y",
)


@safety.reader("a chat")
def read_chat(path: Path) -> Chat:
    """One chat of either schema; recognised by LoCoMo's ``conversation`` key.

    Raises InputError where the file is no JSON object or holds no message at all. Everything else that is odd
    is reported as a :class:`Quirk`: empty texts and unknown speakers stay in the chat, a message whose id is
    missing or used before is left out, a broken time is replaced by the one before, half a character (a cut
    emoji) by U+FFFD.
    """
    try:
        record = safety.loads(safety.read_text(path), path.name, mend=False)
    except InputError as error:
        wrong = f"{path.name} cannot be read as a chat ({error})"
        raise InputError(f"{wrong}; expected one JSON object") from error
    if not isinstance(record, dict):
        raise InputError(f"{path.name} holds a {type(record).__name__}, expected one JSON object a chat")
    return parse_chat(record, path.stem)


def read_folder(folder: Path) -> list[Chat]:
    """Every ``*.json`` chat of a folder, Chat_2 before Chat_10; InputError where there is none."""
    files = list(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise InputError(f"no chat in {paths.shown(folder)}; expected Chat_*.json files (set CRS_MIRROR?)")
    files.sort(key=lambda path: (number(path.stem), path.stem))
    return [read_chat(path) for path in files]


def parse_chat(record: Mapping[str, Any], name: str) -> Chat:
    """The chat in a parsed file; raises and reports as :func:`read_chat`."""
    quirks: list[Quirk] = []
    record = _encodable(record, "", quirks)
    body = record.get("conversation")
    schema = LOCOMO
    if not isinstance(body, Mapping):
        body = record
        schema = REALTALK
    named = _speakers(record, body)
    messages = _Messages(schema, named, quirks).read(body)
    if not messages:
        expected = "expected the RealTalk or LoCoMo schema"
        raise InputError(f"{name}: no message in any 'session_N' list; {expected}")
    speakers = named or tuple(dict.fromkeys(message.speaker for message in messages))[:2]
    questions = _questions(record.get("qa"), quirks)
    return Chat(name, schema, speakers, messages, questions, tuple(quirks))


def _encodable(value: Any, where: str, quirks: list[Quirk]) -> Any:
    """A parsed value whose texts can be written as UTF-8; each one that could not is a quirk."""
    if isinstance(value, Mapping):
        inner = {}
        for key, item in value.items():
            inner[key] = _encodable(item, f"{where}.{key}" if where else str(key), quirks)
        return inner
    if isinstance(value, list):
        return [_encodable(item, f"{where}[{i}]", quirks) for i, item in enumerate(value)]
    if isinstance(value, str) and _HALF.search(value):
        quirks.append(Quirk("broken character", (where,), "replaced by U+FFFD"))
        return _HALF.sub("\ufffd", value)
    return value


def _speakers(record: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[str, ...]:
    names = record.get("name")
    candidates = [body.get("speaker_a"), body.get("speaker_b")]
    if isinstance(names, Mapping):
        candidates = [names.get("speaker_1"), names.get("speaker_2"), *candidates]
    return tuple(name for name in candidates if isinstance(name, str) and name)


def _text(entry: Mapping[str, Any], *names: str) -> str:
    """What stands under the first of these keys that is there; what is no text counts as empty."""
    for name in names:
        if name in entry:
            value = entry[name]
            return value if isinstance(value, str) else ""
    return ""


class _Messages:
    """Reads the messages of a chat session by session and reports what is odd about them."""

    def __init__(self, schema: str, speakers: Sequence[str], quirks: list[Quirk]) -> None:
        self._schema = schema
        self._speakers = speakers
        self._quirks = quirks
        self._messages: dict[str, ChatMessage] = {}
        self._last: dt.datetime | None = None

    def read(self, body: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
        """The messages of all ``session_N`` lists, by number of the session."""
        for session, key in _sessions(body):
            entries = body[key]
            if not isinstance(entries, list) or not entries:
                self._report("empty session", f"session_{session}", action="skipped")
                continue
            opened = _read_time(body.get(f"session_{session}_date_time"))
            for i, entry in enumerate(entries):
                self._add(entry, session, f"session_{session}, message {i + 1}", opened)
        return tuple(self._messages.values())

    def _report(self, kind: str, *where: str, action: str = "kept") -> None:
        self._quirks.append(Quirk(kind, (", ".join(where),), action))

    def _add(self, entry: Any, session: int, where: str, opened: dt.datetime | None) -> None:
        if not isinstance(entry, Mapping):
            self._report("no message", where, action="left out")
            return
        key = _text(entry, "dia_id")
        if not key or key in self._messages:
            kind = "duplicate id" if key else "missing id"
            self._report(kind, where, repr(entry.get("dia_id")), action="left out")
            return
        time = self._time(entry, where, key, opened)
        text = _text(entry, "clean_text", "text")
        if not text.strip():
            self._report("empty text", where, key)
        speaker = _text(entry, "speaker")
        if self._speakers and speaker not in self._speakers:
            self._report("unknown speaker", where, key, repr(speaker))
        caption = _text(entry, "blip_caption")
        photo = bool(entry.get("img_file") or entry.get("img_url") or caption)
        position = len(self._messages)
        self._messages[key] = ChatMessage(key, position, session, speaker, text, time, caption, photo)

    def _time(
        self, entry: Mapping[str, Any], where: str, key: str, opened: dt.datetime | None
    ) -> dt.datetime | None:
        """The time of a message; that of its session or of the message before where it has none."""
        time = opened
        if self._schema == REALTALK:
            time = _read_time(entry.get("date_time"))
        if time is None:
            time = opened or self._last
            self._report("broken time", where, key, action="took the session's or the one before")
        elif self._last is not None and time < self._last:
            self._report("time goes back", where, key)
        self._last = time or self._last
        return time


def _sessions(body: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Number and key of each session, by number."""
    sessions = []
    for key in body:
        match = _SESSION.fullmatch(str(key))
        if match:
            sessions.append((int(match[1]), key))
    return sorted(sessions)


def _read_time(value: object) -> dt.datetime | None:
    """The time in ``31.01.2024, 18:05:00`` or ``6:05 pm on 31 January, 2024``; None where it is none. Times
    carry no zone: they are the exporting phone's clock.
    """
    if not isinstance(value, str):
        return None
    for form in _TIMES:
        try:
            return dt.datetime.strptime(value.strip(), form)
        except ValueError:
            continue
    return None


def _questions(entries: Any, quirks: list[Quirk]) -> tuple[ChatQuestion, ...]:
    """The questions of a chat; a list without any is a chat to predict for."""
    return tuple(_each_question(entries if isinstance(entries, list) else [], quirks))


def _each_question(entries: Sequence[Any], quirks: list[Quirk]) -> Iterator[ChatQuestion]:
    for i, entry in enumerate(entries):
        where = f"qa[{i}]"
        record = entry if isinstance(entry, Mapping) else {}
        text = _text(record, "question")
        if not text.strip():
            quirks.append(Quirk("no question", (where,), "left out"))
            continue
        answer = record.get("answer", record.get("adversarial_answer"))
        evidence = _evidence(record.get("evidence"), where, quirks)
        category = _category(record.get("category"), where, quirks)
        yield ChatQuestion(i, text, None if answer is None else str(answer), evidence, category)


def _evidence(value: Any, where: str, quirks: list[Quirk]) -> tuple[str, ...]:
    """The evidence strings; a lone string is a list of one, what is no string is left out and reported."""
    values = value if isinstance(value, list) else [value]
    if value is None:
        values = []
    texts = tuple(text for text in values if isinstance(text, str))
    if len(texts) < len(values):
        quirks.append(Quirk("evidence is no text", (where,), f"{len(values) - len(texts)} left out"))
    return texts


def _category(value: Any, where: str, quirks: list[Quirk]) -> int:
    """The category's number, also where it is written as text; 0 where there is none."""
    if value is None:
        return 0
    is_number = type(value) is int  # true is no number
    text = str(value).strip() if isinstance(value, str) or is_number else ""
    if text in _CATEGORIES:
        return int(text)
    quirks.append(Quirk("unknown category", (f"{where}, {str(value)[:40]!r}",), "read as 0"))
    return 0
