"""The forms that a logged conversation comes in, and how each becomes a :class:`Dialogue`.

``thesis``       ``conversation`` of ``speaker`` and ``text``; with or without ``user_meta``; our own logs too
``dialoguekit``  ``conversation`` of ``participant`` and ``utterance`` (DialogueKit's export)
``arena``        ``dialogue`` of ``role`` and ``utterance`` (CRSArena-Eval)

Rules for the last two, each recorded in the dialogue's ``extra``: utterances of one speaker in a row become
one turn, joined by a line break (``merged_utterances`` counts those joined on); what the system says before
the user's first word is no reply, and is kept as ``opening``; what people or tools annotated stays with its
turn, or in ``annotations`` for the whole dialogue.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.core.errors import InputError

_FILE_NAME = re.compile(r"(?P<model>.+)_session_(?:.*_)?(?P<session>\d+)")
_SPEAKERS = {
    "USER": USER, "SYSTEM": SYSTEM, "AGENT": SYSTEM, "ASST": SYSTEM, "ASSISTANT": SYSTEM, "BOT": SYSTEM,
}  # fmt: skip


class Form(NamedTuple):
    """A form: its name, how it is recognised, and how one record of it is read."""

    name: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], str, str], Dialogue]


def dialogue_of(record: object, where: str, name: str = "") -> Dialogue:
    """One parsed record as a dialogue. ``name`` is the file's stem, for records without model or session id.

    Raises InputError beginning with ``where`` for a form that is none of those known, a key that is missing
    or of another type, and speakers that do not alternate.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"{where}: holds {type(record).__name__}, expected one conversation (a JSON object)")
    for form in FORMS:
        if form.fits(record):
            return form.read(record, where, name)
    raise InputError(
        f"{where}: no known form of a conversation (keys {sorted(map(str, record))[:12]}); expected "
        "'conversation' with speaker/text or participant/utterance, or 'dialogue' with role/utterance"
    )


def _first(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = record.get(key)
    first = entries[0] if isinstance(entries, list) and entries else None
    return first if isinstance(first, Mapping) else {}


def _thesis(record: Mapping[str, Any], where: str, name: str) -> Dialogue:
    """The thesis's form; model and session may come from the file's name ``<model>_session_…<number>``."""
    from_name = _FILE_NAME.fullmatch(name)
    found = dict(record)
    for key, group in (("model_name", "model"), ("session_id", "session")):
        if found.get(key) in (None, "") and from_name:
            found[key] = from_name[group]
    if not isinstance(found.get("model_name"), str) or not found["model_name"]:
        raise InputError(f"{where}: 'model_name' is {found.get('model_name')!r}, expected a name")
    found["session_id"] = _session(found.get("session_id"), where)
    where = f"{where}, session {found['session_id']!r}"
    _check_types(found, where)
    return Dialogue.from_json(found, source=where.rpartition(", session")[0])


def _session(given: object, where: str) -> str:
    if isinstance(given, bool) or not isinstance(given, int | str) or str(given) == "":
        raise InputError(
            f"{where}: 'session_id' is {given!r}, expected a number or a name (or a file name that ends in "
            "_session_<number>)"
        )
    return str(given)


def _check_types(record: Mapping[str, Any], where: str) -> None:
    """Types of the optional keys; what is missing is left to the quirk report."""
    genre = record.get("true_genre")
    _expect(genre is None or isinstance(genre, str), where, "'true_genre'", genre, "a name or null")
    events = record.get("shift_events")
    _expect(events is None or isinstance(events, list), where, "'shift_events'", events, "a list")
    for event in events or ():
        turn = event.get("turn") if isinstance(event, Mapping) else event
        usable = isinstance(turn, int) and not isinstance(turn, bool) and turn >= 1
        _expect(usable, where, "a shift event's 'turn'", turn, "a whole number >= 1")
    conversation = record.get("conversation")
    for i, entry in enumerate(conversation if isinstance(conversation, list) else (), start=1):
        if isinstance(entry, Mapping):
            for key, kind, words in _OPTIONAL:
                value = entry.get(key)
                _expect(
                    value is None or isinstance(value, kind), f"{where}, turn {i}", repr(key), value, words
                )


_OPTIONAL = (
    ("user_meta", Mapping, "an object"),
    ("constraints", Mapping, "an object"),
    ("rec_titles", list, "a list of titles"),
)


def _expect(holds: bool, where: str, what: str, given: object, expected: str) -> None:
    if not holds:
        raise InputError(f"{where}: {what} is {str(given)[:60]!r}, expected {expected}")


class _Said(NamedTuple):
    speaker: str
    text: str
    rest: dict[str, Any]


def _dialoguekit(record: Mapping[str, Any], where: str, name: str) -> Dialogue:
    session = record.get("conversation_id", record.get("conversation ID", record.get("session_id")))
    agent = record.get("agent", record.get("agent_id"))
    model = agent.get("id") if isinstance(agent, Mapping) else agent
    known = {"conversation_id", "conversation ID", "session_id", "agent", "agent_id", "conversation"}
    return _adapted(record, "dialoguekit", ("conversation", "participant"), known, model, session, where)


def _arena(record: Mapping[str, Any], where: str, name: str) -> Dialogue:
    session = record.get("conv_id")
    model = record.get("model_name") or str(session or "").rpartition("_")[0]
    known = {"conv_id", "model_name", "dialogue"}
    return _adapted(record, "arena", ("dialogue", "role"), known, model, session, where)


def _adapted(
    record: Mapping[str, Any],
    form: str,
    keys: tuple[str, str],
    known: set[str],
    model: object,
    session: object,
    where: str,
) -> Dialogue:
    """A foreign record in our form, by the rules that this module states."""
    session_id = _session(session, where)
    where = f"{where}, session {session_id!r}"
    _expect(isinstance(model, str) and bool(model), where, "the system's name", model, "a name")
    said = [_said(entry, keys[1], f"{where}, utterance {i}") for i, entry in enumerate(record[keys[0]], 1)]
    start = next((i for i, one in enumerate(said) if one.speaker == USER), len(said))
    turns = [_turn(list(group)) for _, group in groupby(said[start:], key=lambda one: one.speaker)]
    if not turns:
        raise InputError(f"{where}: the user says nothing; expected at least one utterance")
    extra: dict[str, Any] = {"source_form": form}
    if annotations := {key: value for key, value in record.items() if key not in known}:
        extra["annotations"] = annotations
    if start:
        extra["opening"] = [one.text for one in said[:start]]
    if merged := len(said) - start - len(turns):
        extra["merged_utterances"] = merged
    body = {"session_id": session_id, "model_name": model, "conversation": turns}
    return Dialogue.from_json({**body, **extra}, source=where.partition(", session")[0])


def _said(entry: object, key: str, where: str) -> _Said:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("utterance"), str):
        raise InputError(f"{where}: must be an object with an 'utterance' that is a text")
    speaker = _SPEAKERS.get(str(entry.get(key, "")).upper())
    if speaker is None:
        raise InputError(f"{where}: {key!r} is {entry.get(key)!r}, expected one of {', '.join(_SPEAKERS)}")
    taken = {"speaker", "text"}
    rest = {f"original_{k}" if k in taken else k: v for k, v in entry.items() if k not in (key, "utterance")}
    return _Said(speaker, entry["utterance"], rest)


def _turn(said: list[_Said]) -> dict[str, Any]:
    """One turn; the annotations of a merged one are listed under ``merged``, one entry an utterance."""
    head = {"speaker": said[0].speaker, "text": "\n".join(one.text for one in said)}
    if len(said) == 1:
        return {**head, **said[0].rest}
    return {**head, "merged": [{"text": one.text, **one.rest} for one in said]}


FORMS: tuple[Form, ...] = (
    Form("dialoguekit", lambda record: "participant" in _first(record, "conversation"), _dialoguekit),
    Form("arena", lambda record: "role" in _first(record, "dialogue"), _arena),
    Form("thesis", lambda record: "conversation" in record, _thesis),
)


def conversations_of(content: object) -> Iterable[object]:
    """The records in a parsed JSON file: one, a list of them, a bare list of turns, or DialogueKit's export.

    DialogueKit names agent and user once for a list of ``dialogues``; each gets them here.
    """
    if isinstance(content, list):
        bare = bool(content) and isinstance(content[0], Mapping) and "speaker" in content[0]
        return [{"conversation": content}] if bare else content
    if isinstance(content, Mapping) and isinstance(content.get("dialogues"), list):
        shared = {key: content[key] for key in ("agent", "user") if key in content}
        return [{**shared, **one} if isinstance(one, Mapping) else one for one in content["dialogues"]]
    return [content]
