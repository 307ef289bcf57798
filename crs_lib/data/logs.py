"""Logged conversations, whatever their form, one by one, and the report of what is odd in them.

A path is a file or a folder of files: ``.json`` (one session, or a list), ``.jsonl``, either also ``.gz``,
and ``.eval`` of Inspect.
The forms are those of :mod:`crs_lib.data.forms`; what is odd but readable is left as it is, and
:func:`log_quirks` finds it. Judge scores have their own validity report
(:func:`crs_lib.judge.rating.read_scores`).
"""

import itertools
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import paths, safety
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.data.forms import AS_MESSAGES, RecordOrigin, conversations_of, dialogue_of

_KINDS = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".eval")
_OWN = "dialogues.jsonl"
_GAPS_SHOWN = 10
_LONGEST_NUMBER = 18  # digits of a session's number that a table can hold


class Quirk(NamedTuple):
    """One oddity: its kind, its place (from the outside in: file, conversation, turn …), what was found. What
    a quirk means and what a reader does about it is told beside the reader that names it.
    """

    kind: str
    place: tuple[Any, ...]
    detail: str = ""

    def inside(self, *outer: Any) -> "Quirk":
        """The same quirk with the place of its place before it: the file of a conversation, say."""
        return self._replace(place=(*outer, *self.place))


def quirks_table(quirks: Iterable[Quirk], parts: Sequence[str]) -> pd.DataFrame:
    """One row a quirk, in the order given: a column for each of the ``parts`` of its place, then ``quirk``
    and ``detail``.
    """
    rows = [(*quirk.place, quirk.kind, quirk.detail) for quirk in quirks]
    return pd.DataFrame(rows, columns=[*parts, "quirk", "detail"], dtype=object)


def quirk_counts(
    report: pd.DataFrame,
    by: Sequence[str],
    counted: str,
    names: Sequence[str],
    example: str,
    ties: Sequence[str],
) -> pd.DataFrame:
    """Cases of each kind in each group of ``by``, most frequent first; equals in the order of ``ties``.
    ``names`` are the columns for the number of cases and of different values of ``counted``; ``example`` is
    the column whose first value stands for the others.
    """
    cases, places = names
    groups = report.groupby([*by, "quirk"], sort=True)
    columns = {cases: ("quirk", "size"), places: (counted, "nunique"), "example": (example, "first")}
    counts = groups.agg(**columns).reset_index()
    ascending = [False] + [True] * len(ties)
    return counts.sort_values([cases, *ties], ascending=ascending, ignore_index=True)


class SessionKey(NamedTuple):
    """What identifies a session in a table: the model's name as a file name, and the session. ``session`` is
    a whole number where the log's id is one ("00017" and 17 are both 17), else its text.
    """

    model: str
    session: int | str


def session_key(dialogue: Dialogue) -> SessionKey:
    """The key of a dialogue: ``("gemma-2b", 17)`` for session "00017" of ``gemma:2b``."""
    model = paths.slug(dialogue.model_name)
    session = dialogue.session_id.removeprefix(f"{model}:")  # where no two systems share a user
    if session.isascii() and session.isdigit() and len(session) <= _LONGEST_NUMBER:
        return SessionKey(model, int(session))
    return SessionKey(model, session)


def files(path: str | Path) -> list[Path]:
    """The log files that a path stands for, in order of their names, numbers by value (2 before 10). A run
    folder of ours stands for its ``dialogues.jsonl``. Raises InputError where there is none.
    """
    root = paths.given(path)
    for file in (root, root / _OWN):
        if file.is_file():
            return [file]
    logs = []
    for file in root.glob("*"):
        if _kind(file) and not file.name.startswith("."):
            logs.append(file)
    if not logs:
        missing = f"no log in {paths.shown(root)}; expected a file or a folder with {', '.join(_KINDS)}"
        raise InputError(f"{missing} (the thesis's logs: python -m crs_lib data get thesis-logs-50)")
    return sorted(logs, key=lambda file: (_natural(file), file.name))


@safety.reader("a log")
def read(path: str | Path, *, system: str = "") -> Iterator[Dialogue]:
    """Every dialogue of a file or folder, in a fixed order, one at a time: memory does not grow with them. (A
    ``.json`` file that lists many sessions is parsed as a whole.) A conversation without a name of a system
    is one of ``system``, where that is given. Raises InputError naming file, line and
    session where something cannot be read: no JSON, not UTF-8, a damaged archive, an unknown form, speakers
    that do not alternate, a key of another type, the same session twice.
    """
    yield from _dialogues(path, None, system)


class Broken(NamedTuple):
    """A conversation that could not be read: its place, its system (empty where unknown), and the reason."""

    place: str
    model: str
    reason: str


ToBroken = Callable[[Broken], object]


@safety.reader("a log")
def readable(path: str | Path, broken: ToBroken, *, system: str = "unnamed") -> Iterator[Dialogue]:
    """As :func:`read`, but a conversation that cannot be read goes to ``broken`` and the others follow. A
    conversation without a name of a system is one of ``system``; without a session id it is numbered by its
    place in the file. A model of a second file whose first session was read before is another system, and
    gets the file's name behind its own: ``gemma:2b (second)``; any other repetition is broken.
    """
    yield from _dialogues(path, broken, system)


def _dialogues(path: str | Path, broken: ToBroken | None, system: str) -> Iterator[Dialogue]:
    """Every dialogue; what cannot be read goes to ``broken``, or is raised where that is None."""
    file_of: dict[SessionKey, str] = {}
    for file in files(path):
        reader = _FileReader(file, file_of, lenient=broken is not None, system=system)
        for where, record in reader.records():
            try:
                yield reader.dialogue(where, record)
            except InputError as error:
                if broken is None:
                    raise
                reason = str(error).removeprefix(where).lstrip(":, ")
                broken(Broken(where, _model_of(record), reason))


def _model_of(record: object) -> str:
    """The system that a record names; empty where it names none."""
    if isinstance(record, Mapping) and isinstance(record.get("model_name"), str):
        return str(record["model_name"])
    return ""


class _FileReader:
    """Reads the dialogues of one file; ``file_of`` tells from which file each session was read so far."""

    def __init__(self, file: Path, file_of: dict[SessionKey, str], *, lenient: bool, system: str) -> None:
        self._file = file
        self._stem = file.name.removesuffix(_kind(file))
        self._file_of = file_of
        self._lenient = lenient
        self._system = system
        self._name_of: dict[str, str] = {}  # of the systems of this file, by their names in its records
        self._several = False
        self._number = -1

    def records(self) -> Iterator[tuple[str, object]]:
        """Place and record, one by one."""
        records = _records(self._file)
        head = list(itertools.islice(records, 2))
        self._several = len(head) > 1
        for self._number, (where, record) in enumerate(itertools.chain(head, records)):
            yield where, record

    def dialogue(self, where: str, record: object) -> Dialogue:
        """The dialogue of a record; InputError where it is none, or was read before."""
        if isinstance(record, InputError):
            raise record
        origin = RecordOrigin(where, self._stem, self._system)
        if self._lenient:
            session = f"{self._number:05d}" if self._several else self._stem
            origin = origin._replace(session=session)
        with safety.faults("a conversation", where):
            dialogue = dialogue_of(record, origin)
        if self._lenient:
            dialogue = replace(dialogue, model_name=self._system_name(dialogue))
        key = session_key(dialogue)
        if key in self._file_of:
            again = f"session {key.session!r} of {key.model!r} was already read from {self._file_of[key]}"
            raise InputError(f"{where}: {again}")
        self._file_of[key] = self._file.name
        return dialogue

    def _system_name(self, dialogue: Dialogue) -> str:
        """The name of a dialogue's system: with the file's behind it, where its sessions were read before."""
        key = session_key(dialogue)
        if key.model not in self._name_of:
            name = dialogue.model_name
            if self._several and self._file_of.get(key, self._file.name) != self._file.name:
                name = f"{name} ({self._stem})"
            self._name_of[key.model] = name
        return self._name_of[key.model]


def _kind(path: Path) -> str:
    """The ending that says how to read a file; empty for other files."""
    for kind in _KINDS:
        if path.name.endswith(kind):
            return kind
    return ""


def _natural(path: Path) -> list[Any]:
    """Sorts numbers inside names by value; text and numbers alternate, so that they always compare."""
    parts: list[Any] = re.split(r"(\d+)", path.name)
    parts[1::2] = map(int, parts[1::2])
    return parts


def _records(path: Path) -> Iterator[tuple[str, object]]:
    """Yield (place, record) of a file; an InputError in place of a record that is none."""
    try:
        if _kind(path) == ".eval":
            yield from _samples(path)
            return
        with safety.open_text(path) as file:
            if ".jsonl" in _kind(path):
                for number, line in safety.lines(file, path.name):
                    where = f"{path.name}, line {number}"
                    yield where, _parse(line, where)
                return
            safety.check_limit("json_bytes", path.stat().st_size, f"{path.name}: it has")
            record = _parse(file.read(), path.name)
            if isinstance(record, InputError) and not _kind(path):
                record = InputError(f"{record}; {AS_MESSAGES}")
            content = list(conversations_of(record))
            if len(content) == 1:
                yield path.name, content[0]
                return
            for number, record in enumerate(content, start=1):
                yield f"{path.name}, entry {number}", record
    except UnicodeDecodeError as error:
        yield path.name, InputError(f"{path.name}: not UTF-8 text ({error.reason}); save it as UTF-8")
    except InputError as error:
        yield path.name, error
    except OSError as error:
        yield path.name, InputError(f"{path.name}: cannot be read ({error.strerror or error})")
    except (EOFError, zlib.error) as error:
        yield path.name, InputError(f"{path.name}: cannot be read ({error}); is the file whole?")


_AS_JSON = "write it as JSON: inspect log convert LOG.eval --to json --output-dir DIR"


def _samples(path: Path) -> Iterator[tuple[str, object]]:
    """Place and record of each sample of an Inspect log (``.eval``, an archive of JSON files)."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            header = next(name for name in ("header.json", "_journal/start.json") if name in names)
            log = {"eval": _unpacked(archive, header, path).get("eval")}
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    where = f"{path.name}, {name}"
                    (record,) = conversations_of({**log, "samples": [_unpacked(archive, name, path)]})
                    yield where, record
    except (zipfile.BadZipFile, NotImplementedError, StopIteration, AttributeError) as error:
        reason = str(error) or "it has no header"
        yield (
            path.name,
            InputError(f"{path.name}: no Inspect log that can be read here ({reason}); {_AS_JSON}"),
        )


def _unpacked(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    """The JSON value of a file in an archive, within the limits of what is unpacked."""
    with archive.open(name) as packed, safety.unpacked(packed, path) as stream:
        most = safety.limit("json_bytes")
        content = stream.read(most + 1)
    return safety.loads(content, f"{path.name}, {name}")


def _parse(text: str, where: str) -> object:
    """The parsed text, or the InputError that says why it is none."""
    try:
        return safety.loads(text, where, unique=True)
    except InputError as error:
        return error


LOST = "lost character"  # a quirk
_PRONOUNS = "You|Her|Us|They|Them|It|He|She|Him|We|Me|Who|That|This|Yes|No"
_PATTERNS = {
    "printed record": (re.compile(r"\{\s*(['\"])\w+\1\s*:"), (USER, SYSTEM)),
    "id for a title": (re.compile(r"(?<!\w)@\d+\b"), (USER, SYSTEM)),
    "everyday title": (re.compile(rf"(?<=[a-z,(] )(?:{_PRONOUNS})\b"), (USER,)),
    "N/A in text": (re.compile(r"(?<![\w/])N/A(?![\w/])"), (USER, SYSTEM)),
    "speaks of the user": (re.compile(r"\b(?:the|this) user(?:['’]s)?\b", re.IGNORECASE), (SYSTEM,)),
    "control character": (re.compile(r"[\x00-\x08\x0b-\x1f\x7f]"), (USER, SYSTEM)),
    LOST: (re.compile("\ufffd"), (USER, SYSTEM)),
}


def log_quirks(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """Every case, one row each: model, session, turn, speaker, quirk, detail; in the order of reading.

    ``turn`` is null for what concerns a session, ``session`` also for what concerns a model. Dialogues are
    taken one at a time; of each, only its number of turns is kept. Without dialogues the table is empty.

    The kinds::

        printed record       a whole catalogue record (or other object) stands in the utterance
        ambiguous title      several films bear a title, and neither a year nor what was asked tells which
        everyday title       a user's turn holds a title that is an everyday word: "in the mood of Her"
        N/A in text          a missing value of the catalogue was written out as N/A
        speaks of the user   a reply addresses somebody else about 'the user': text of the prompt leaked
        control character    a terminal code
        lost character       U+FFFD, which stands for a character that was lost in decoding
        empty utterance      a user turn without text
        missing reply        a user turn without a reply, or with an empty one
        repeated reply       a reply that the system gave before in this session, word for word
        missing constraints  a reply without the system's constraints, in a session that has them elsewhere
        missing rec_titles   a reply without recommended titles, in a session that has them elsewhere
        missing user_meta    a user turn without its log, in a session that has it elsewhere
        turn number off      user_meta counts another turn than the conversation
        shift not flagged    a shift event at a turn whose user_meta does not say that constraints shifted
        shift not listed     user_meta flags a shift that shift_events does not have
        shift without event  user_meta flags a shift but describes none
        shift differs        user_meta describes another shift than shift_events at the same turn
        shift after the end  a shift event later than the last turn
        shift listed twice   two shift events at one turn
        thought aloud        a reply with what the system thought; it is kept beside the words, and not scored
        nothing but thought  a reply that is a thought from end to end, perhaps one that is never closed
        parts without text   a reply with parts that hold no text: an image, a call of a tool
        id for a title       "@112" in place of a title, which the record does not name
        merged utterances    utterances of one speaker in a row were joined into one turn
        opening left out     the system spoke first; what it said is kept apart from the turns
        other length         another number of turns than most sessions of this model
        missing sessions     numbers that are absent between a model's first and last session
    """
    quirks: list[Quirk] = []
    lengths: dict[SessionKey, int] = {}
    for dialogue in dialogues:
        key = session_key(dialogue)
        lengths[key] = len(dialogue.pairs())
        for check in (_texts, _repeats, _logs, _shifts, _adaptation):
            quirks += [quirk.inside(*key) for quirk in check(dialogue)]
    quirks += _across(lengths)
    return quirks_table(quirks, ["model", "session", "turn", "speaker"]).astype({"turn": "Int64"})


def log_quirk_counts(report: pd.DataFrame) -> pd.DataFrame:
    """Cases and sessions of each kind of quirk by model, with one example; the most frequent first."""
    names = ("cases", "sessions")
    return quirk_counts(report, ["model"], "session", names, "detail", ["quirk", "model"])


def _places(dialogue: Dialogue) -> Iterator[tuple[tuple[int, str], Turn]]:
    """Each turn with its place: its number, counted in pairs, and who speaks."""
    for index, turn in enumerate(dialogue.turns):
        yield (index // 2 + 1, turn.speaker), turn


def _texts(dialogue: Dialogue) -> Iterator[Quirk]:
    for position, turn in _places(dialogue):
        for quirk, (pattern, speakers) in _PATTERNS.items():
            match = pattern.search(turn.text)
            if match and turn.speaker in speakers:
                shown = repr(turn.text[match.start() :])[1:-1]
                yield Quirk(quirk, position, shorten(shown, 60))
        for title in turn.meta.get("ambiguous_titles") or ():
            yield Quirk("ambiguous title", position, shorten(str(title), 60))
        if not turn.text.strip():
            yield Quirk("empty utterance" if turn.speaker == USER else "missing reply", position, "no text")
    if len(dialogue.turns) % 2:
        yield Quirk("missing reply", (len(dialogue.turns) // 2 + 1, SYSTEM), "the conversation ends here")


def _repeats(dialogue: Dialogue) -> Iterator[Quirk]:
    first: dict[str, int] = {}
    for pair in dialogue.pairs():
        text = pair.system.text.strip()
        if text and text in first:
            yield Quirk("repeated reply", (pair.turn, SYSTEM), f"as in turn {first[text]}")
        first.setdefault(text, pair.turn)


def _logs(dialogue: Dialogue) -> Iterator[Quirk]:
    """Keys that some turns of the session have and others do not; turn numbers that do not fit."""
    for speaker, key in ((USER, "user_meta"), (SYSTEM, "constraints"), (SYSTEM, "rec_titles")):
        lacking = []
        some_have_it = False
        for position, turn in _places(dialogue):
            if turn.speaker == speaker:
                state = "empty" if key in turn.meta else "absent"
                if turn.meta.get(key):
                    some_have_it = True
                else:
                    lacking.append(Quirk(f"missing {key}", position, state))
        if some_have_it:
            yield from lacking
    for position, turn in _places(dialogue):
        if turn.speaker == USER:
            logged = turn.user_meta.get("turn", position[0])
            if logged != position[0]:
                yield Quirk("turn number off", position, f"user_meta says {logged!r}")


def _shifts(dialogue: Dialogue) -> Iterator[Quirk]:
    """Disagreement between ``shift_events`` and the flags, both ways; silent where there are no flags."""
    users = dialogue.turns[0::2]
    listed: dict[int, Mapping[str, Any]] = {}
    for event in dialogue.shift_events:
        number = int(event["turn"])
        if number in listed:
            yield Quirk("shift listed twice", (number, USER), str(event.get("to_focus", "")))
        if number > len(users):
            yield Quirk("shift after the end", (number, USER), f"the session has {len(users)} turns")
        listed[number] = event
    for number, turn in enumerate(users, start=1):
        meta = turn.user_meta
        event = listed.get(number, {})
        described = meta.get("shift_event_obj")
        flagged = meta.get("shift_event") is True
        position = (number, USER)
        if event and "shift_event" in meta and not flagged:
            yield Quirk("shift not flagged", position, str(event.get("to_focus", "")))
        if flagged and not event:
            yield Quirk("shift not listed", position, str(meta.get("focus_field", "")))
        if flagged and "shift_event_obj" in meta and not described:
            yield Quirk("shift without event", position, "shift_event_obj is empty")
        if described and event and described != event:
            yield Quirk("shift differs", position, _differing(described, event))


def _differing(described: object, listed: Mapping[str, Any]) -> str:
    if not isinstance(described, Mapping):
        return f"shift_event_obj is {shorten(repr(described), 40)}"
    keys = [key for key in {*described, *listed} if described.get(key) != listed.get(key)]
    return ", ".join(sorted(keys))


def _adaptation(dialogue: Dialogue) -> Iterator[Quirk]:
    """Foreign forms: thoughts, other parts, utterances that were joined, and openings that were set apart."""
    for position, turn in _places(dialogue):
        thinking = turn.meta.get("thinking")
        if thinking and not turn.text:
            yield Quirk("nothing but thought", position, shorten(str(thinking), 60))
        elif thinking:
            yield Quirk("thought aloud", position, shorten(str(thinking), 60))
        parts = turn.meta.get("parts")
        if parts:
            yield Quirk("parts without text", position, ", ".join(map(str, parts)))
        merged = turn.meta.get("merged")
        if merged:
            yield Quirk("merged utterances", position, f"{len(merged)} utterances")
    for text in dialogue.extra.get("opening", ()):
        yield Quirk("opening left out", (None, SYSTEM), shorten(text, 60))


def _across(lengths: Mapping[SessionKey, int]) -> Iterator[Quirk]:
    """Beside a model's other sessions: odd lengths, gaps in the numbers; for sessions with numbers."""
    turns_of: dict[str, dict[int | str, int]] = {}
    for key, turns in lengths.items():
        turns_of.setdefault(key.model, {})[key.session] = turns
    for model, sessions in turns_of.items():
        numbers = {session for session in sessions if isinstance(session, int)}
        if len(numbers) < len(sessions):
            continue
        times = Counter(sessions.values())
        usual = max(times, key=lambda turns: (times[turns], turns))
        for session, turns in sessions.items():
            if turns != usual:
                yield Quirk("other length", (model, session, None, ""), f"{turns} turns, most have {usual}")
        gaps = sorted(set(range(min(numbers), max(numbers))) - numbers)
        if gaps:
            shown = ", ".join(map(str, gaps[:_GAPS_SHOWN]))
            more = ", …" if len(gaps) > _GAPS_SHOWN else ""
            yield Quirk("missing sessions", (model, None, None, ""), f"{len(gaps)}: {shown}{more}")
