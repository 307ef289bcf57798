"""Chat files of the RealTalk and the LoCoMo schema; odd things are reported as quirks, not fatal."""

import datetime as dt
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dateutil import parser

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk
from crs_lib.realtalk.corpus import (
    BROKEN_TIME,
    LOCOMO,
    REALTALK,
    Chat,
    ChatMessage,
    ChatQuestion,
    is_abstention,
    number,
)

_CATEGORIES = ("1", "2", "3", "4", "5")
_ADVERSARIAL = 5  # LoCoMo's category of questions that their chat does not answer
_SESSION = re.compile(r"session_(\d+)")
_HALF = re.compile("[\ud800-\udfff]")  # half a character: a cut emoji, which no file can hold
_TIMES = ("%d.%m.%Y, %H:%M:%S", "%I:%M %p on %d %B, %Y")  # RealTalk's and LoCoMo's
_SPACE = re.compile(r"\s+")  # also the narrow ones that phones put before "pm"
_EPOCH = re.compile(r"\d{9,16}(\.\d+)?", re.ASCII)
_EARLIEST, _LATEST = 1e8, 1e11  # seconds since 1970; beyond them the number counts smaller parts
_HALF_DAY = re.compile(r"\b([ap])\.? ?m\b\.?", re.IGNORECASE)
_WEEKDAY = re.compile(r"\s*\(\w+\)\s*")  # "(Mon)"
_CENTURIES = (1900, 2099)
_SLASHED = re.compile(r"(?<![\d/])\d{1,2}/\d{1,2}/\d{2,4}")
_SLASHED_DAY = {  # a date that cannot exist when the day, or the month, comes first
    True: re.compile(r"(?<![\d/])\d{1,2}/(1[3-9]|[23]\d)/"),
    False: re.compile(r"(?<![\d/])(1[3-9]|[23]\d)/\d{1,2}/"),
}


@safety.reader("a chat")
def read_chat(path: Path) -> Chat:
    """The one chat of a file, as :func:`read_chats`; InputError where the file holds several."""
    chats = read_chats(path)
    if len(chats) > 1:
        names = ", ".join(chat.name for chat in chats[:5])
        cure = "put one of them into a file of its own; notebooks 21 to 23 read all with -p data FILE"
        raise InputError(f"{path.name} holds {len(chats)} chats ({names}…), expected one; {cure}")
    return chats[0]


@safety.reader("chats")
def read_chats(path: Path) -> list[Chat]:
    """The chats of a file: RealTalk's, LoCoMo's (an object, or the list of ``locomo10.json``), LongMemEval's.

    Raises InputError where the file is no JSON of these forms or a chat holds no message at all. Everything
    else that is odd is reported as a :class:`Quirk`: empty texts and unknown speakers stay in the chat, a
    message whose id is missing or used before is left out, a broken time is replaced by the one before, half
    a character (a cut emoji) by U+FFFD.
    """
    try:
        content = safety.loads(safety.read_text(path), path.name, mend=False)
    except InputError as error:
        wrong = f"{path.name} cannot be read as a chat ({error})"
        raise InputError(f"{wrong}; expected one JSON object, or a list of them") from error
    records = content if isinstance(content, list) else [content]
    chats: list[Chat] = []
    for index, record in enumerate(records):
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise InputError(f"{path.name} holds a {kind} (record {index}), expected one JSON object a chat")
        name = path.stem
        if content is records:
            name = _text(record, "sample_id", "question_id") or f"{path.stem} {index}"
        if any(chat.name == name for chat in chats):
            raise InputError(f"{path.name}: two chats are called {name!r} (record {index}); rename one")
        chats.append(parse_chat(record, name))
    if not chats:
        raise InputError(f"{path.name} is an empty list; expected one JSON object a chat")
    return chats


def read_folder(folder: Path) -> list[Chat]:
    """The chats of every ``*.json`` of a folder, Chat_2 before Chat_10; InputError where there is none."""
    files = list(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise InputError(f"no chat in {paths.shown(folder)}; expected Chat_*.json files (set CRS_MIRROR?)")
    files.sort(key=lambda path: (number(path.stem), path.stem))
    chats = []
    for path in files:
        chats += read_chats(path)
    return chats


def parse_chat(record: Mapping[str, Any], name: str) -> Chat:
    """The chat in a parsed file; raises and reports as :func:`read_chat`."""
    quirks: list[Quirk] = []
    record = _encodable(record, "", quirks)
    if "haystack_sessions" in record:
        record = _of_long_memory(record, quirks)
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


def _of_long_memory(record: Mapping[str, Any], quirks: list[Quirk]) -> dict[str, Any]:
    """A record of LongMemEval as LoCoMo writes it: the turns with ``has_answer`` are the evidence, else all
    of the sessions in ``answer_session_ids``; a question whose id ends in ``_abs`` has no answer.
    """
    body: dict[str, Any] = {"speaker_a": "user", "speaker_b": "assistant"}
    times = _listed(record, "haystack_dates")
    names = _listed(record, "haystack_session_ids")
    answering = _listed(record, "answer_session_ids")
    evidence: list[str] = []
    whole: list[str] = []
    for session, turns in enumerate(_listed(record, "haystack_sessions"), start=1):
        entries = []
        for local, turn in enumerate(turns if isinstance(turns, list) else [], start=1):
            cells = turn if isinstance(turn, Mapping) else {}
            key = f"D{session}:{local}"
            entries.append({"dia_id": key, "speaker": _text(cells, "role"), "text": _text(cells, "content")})
            if cells.get("has_answer") is True:
                evidence.append(key)
        body[f"session_{session}"] = entries
        body[f"session_{session}_date_time"] = times[session - 1] if session <= len(times) else None
        if entries and session <= len(names) and names[session - 1] in answering:
            whole.append(f"D{session}:1-D{session}:{len(entries)}")
    if not evidence and whole:
        quirks.append(Quirk("evidence is a session", ("answer_session_ids",), "all of its turns count"))
        evidence = whole
    strangers = [name for name in answering if name not in names]
    if strangers:
        quirks.append(Quirk("unknown session", ("answer_session_ids",), f"{strangers[:3]} left out"))
    question = {"question": record.get("question"), "answer": record.get("answer"), "evidence": evidence}
    question["unanswerable"] = _text(record, "question_id").endswith("_abs")
    if question["unanswerable"]:
        question["answer"] = None  # it says why there is none
    return {"conversation": body, "qa": [question]}


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    """A list of a record; what is none counts as empty."""
    value = record.get(name)
    return value if isinstance(value, list) else []


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
        self._day_first = True

    def read(self, body: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
        """The messages of all ``session_N`` lists, by number of the session."""
        day_first = _is_day_first(_times(body))
        if day_first is None:
            self._report("day or month first", "dates such as 1/4/23", action="read the day first")
        self._day_first = day_first is not False
        for session, key in _sessions(body):
            entries = body[key]
            if not isinstance(entries, list) or not entries:
                self._report("empty session", f"session_{session}", action="skipped")
                continue
            opened = _read_time(body.get(f"session_{session}_date_time"), self._day_first)
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
            time = _read_time(entry.get("date_time"), self._day_first)
        if time is None:
            time = opened or self._last
            value = repr(entry.get("date_time"))[:40]
            self._report(BROKEN_TIME, where, key, value, action="took the session's or the one before")
        elif self._last is not None and time < self._last:
            self._report("time goes back", where, key)
        self._last = time or self._last
        return time


def _times(body: Mapping[str, Any]) -> Iterator[object]:
    """What stands for the time of every session and message, in order."""
    for session, key in _sessions(body):
        yield body.get(f"session_{session}_date_time")
        entries = body[key]
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, Mapping):
                yield entry.get("date_time")


def _sessions(body: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Number and key of each session, by number."""
    sessions = []
    for key in body:
        match = _SESSION.fullmatch(str(key))
        if match:
            sessions.append((int(match[1]), key))
    return sorted(sessions)


def _read_time(value: object, day_first: bool = True) -> dt.datetime | None:
    """The time in a cell, as the clock of the exporting phone shows it: a zone is dropped, seconds (milli-,
    microseconds) since 1970 are in UTC. Forms: RealTalk's ``31.01.2024, 18:05:00``, LoCoMo's, ISO,
    LongMemEval's ``2023/05/08 (Mon) 13:56``, WhatsApp's and Telegram's exports; None for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = _SPACE.sub(" ", str(value)).strip(" []\u200e\u200f")
    if _EPOCH.fullmatch(text):
        return _since_1970(float(text))
    for form in _TIMES:
        with suppress(ValueError):
            return dt.datetime.strptime(text, form)
    with suppress(ValueError):
        return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    return _by_dateutil(text, day_first)


def _since_1970(number: float) -> dt.datetime | None:
    """The time in UTC of a number of seconds, or of thousandths or millionths of them, by its size."""
    while number > _LATEST:
        number /= 1000
    if number < _EARLIEST:
        return None
    return dt.datetime.fromtimestamp(number, dt.UTC).replace(tzinfo=None)


def _by_dateutil(text: str, day_first: bool) -> dt.datetime | None:
    """The time as dateutil reads it, if the text names a whole day of this or the last century."""
    plain = _HALF_DAY.sub(r"\1m", text)  # "p. m."
    plain = _WEEKDAY.sub(" ", plain).replace(" - ", " ")
    year_first = bool(re.match(r"\d{4}", plain))
    times = set()
    for default in (dt.datetime(2001, 1, 1), dt.datetime(2002, 2, 2)):  # what is missing would differ
        try:
            time = parser.parse(
                plain,
                default=default,
                ignoretz=True,
                dayfirst=day_first and not year_first,
                yearfirst=year_first,
            )
        except (ValueError, OverflowError):
            return None
        times.add(time)
    if len(times) > 1:
        return None
    (time,) = times
    return time if _CENTURIES[0] <= time.year <= _CENTURIES[1] else None


def _is_day_first(values: Iterable[object]) -> bool | None:
    """Whether numeric dates such as ``1/4/23`` name the day first: the order in which every date exists, and
    fewer times go back; None where nothing tells (the day is then read first).
    """
    numeric = [value for value in values if isinstance(value, str) and _SLASHED.search(value)]
    faults = []
    for day_first in (True, False):
        times = [_read_time(value, day_first) for value in numeric]
        read = [time for time in times if time is not None]
        swapped = sum(_SLASHED_DAY[day_first].search(value) is not None for value in numeric)
        backwards = sum(later < earlier for earlier, later in itertools.pairwise(read))
        faults.append((swapped, backwards))
    if faults[0] == faults[1]:
        return None if numeric else True
    return faults[0] < faults[1]


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
        answers = _answers(record.get("answer"))
        evidence = _evidence(record.get("evidence"), where, quirks)
        category = _category(record.get("category"), where, quirks)
        trap = _answers(record.get("adversarial_answer"))
        unanswerable = category == _ADVERSARIAL or record.get("unanswerable") is True
        unanswerable = unanswerable or any(map(is_abstention, answers))
        answer = answers[0] if answers else None
        lure = trap[0] if trap else None
        yield ChatQuestion(i, text, answer, evidence, category, tuple(answers[1:]), unanswerable, lure)


def _answers(value: Any) -> list[str]:
    """The accepted answers: one of any kind, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return [str(answer) for answer in values if answer is not None]


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
