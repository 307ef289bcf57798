"""The forms that a logged conversation comes in, and how each becomes a :class:`Dialogue`.

``thesis``       ``conversation`` of ``speaker`` and ``text``; with or without ``user_meta``; our own logs too
``dialoguekit``  ``conversation`` of ``participant`` and ``utterance`` (DialogueKit's export)
``arena``        ``dialogue`` of ``role`` and ``utterance`` (CRSArena-Eval)
``ievalm``       ``turns`` (or ``simulator_dialog.context``) of ``role`` and ``content`` (iEvaLM, Concept4CRS)
``simulated``    ``turns`` of ``participant`` and ``utterance`` (UserSimCRS)

Rules for all but the first, each recorded in the dialogue's ``extra``: utterances of one speaker in a row
become one turn, joined by a line break (``merged_utterances`` counts those joined on); what the system says
before the user's first word is no reply, and is kept as ``opening``; what people or tools annotated stays
with its turn, or in ``annotations`` for the whole dialogue.
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


class RecordOrigin(NamedTuple):
    """The origin of a record: its place for error texts, its file's stem, and names for a record without.

    ``system`` and ``session`` stand in for names that the record lacks; a lacking name is an error where they
    are empty.
    """

    where: str
    stem: str = ""
    system: str = ""
    session: str = ""


class Form(NamedTuple):
    """A form: its name, how it is recognised, and how one record of it is read."""

    name: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], RecordOrigin], Dialogue]


def dialogue_of(record: object, origin: RecordOrigin) -> Dialogue:
    """One parsed record as a dialogue.

    Raises InputError beginning with the place for a form that is none of those known, a key that is missing
    or of another type, and speakers that do not alternate.
    """
    where = origin.where
    if not isinstance(record, Mapping):
        raise InputError(f"{where}: holds {type(record).__name__}, expected one conversation (a JSON object)")
    for form in FORMS:
        if form.fits(record):
            return form.read(record, origin)
    raise InputError(
        f"{where}: no known form of a conversation (keys {sorted(map(str, record))[:12]}); expected "
        "'conversation' with speaker/text or participant/utterance, 'dialogue' with role/utterance, or "
        "'turns' with role/content or participant/utterance"
    )


def _first(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = record.get(key)
    first = entries[0] if isinstance(entries, list) and entries else None
    return first if isinstance(first, Mapping) else {}


def _context(record: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = record.get("simulator_dialog")
    return _first(inner, "context") if isinstance(inner, Mapping) else {}


def _thesis(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    """The thesis's form; model and session may come from the file's name ``<model>_session_…<number>``."""
    from_name, where = _FILE_NAME.fullmatch(origin.stem), origin.where
    found = dict(record)
    for key, group, instead in (
        ("model_name", "model", origin.system), ("session_id", "session", origin.session),
    ):  # fmt: skip
        if found.get(key) in (None, "") and (from_name or instead):
            found[key] = from_name[group] if from_name else instead
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


def _dialoguekit(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    session = record.get("conversation_id", record.get("conversation ID", record.get("session_id")))
    agent = record.get("agent", record.get("agent_id"))
    model = agent.get("id") if isinstance(agent, Mapping) else agent
    known = {"conversation_id", "conversation ID", "session_id", "agent", "agent_id", "conversation"}
    said = _Utterances(record["conversation"], "participant", "utterance")
    return _adapted(record, "dialoguekit", said, known, (model, session), origin)


def _arena(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    session = record.get("conv_id")
    model = record.get("model_name") or str(session or "").rpartition("_")[0]
    known = {"conv_id", "model_name", "dialogue"}
    said = _Utterances(record["dialogue"], "role", "utterance")
    return _adapted(record, "arena", said, known, (model, session), origin)


def _ievalm(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    """Ranked items stay with their reply as ``rec_items``; the text says which of them the user saw."""
    inner = record.get("simulator_dialog")
    context = inner.get("context") if isinstance(inner, Mapping) else None
    said = _Utterances(record["turns"] if context is None else context, "role", "content")
    given = record.get("conv_id", record.get("file", record.get("session_id")))
    session = _stem(given) if isinstance(given, str) else given
    if session is None and context is not None:
        session = origin.stem
    known = {"conv_id", "file", "session_id", "system", "turns", "simulator_dialog"}
    return _adapted(record, "ievalm", said, known, (record.get("system"), session), origin)


def _stem(name: str) -> str:
    return name.removesuffix(".json")


def _simulated(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    """The session is the conversation's number among those with the same simulated users."""
    session = record.get("session_id", record.get("index"))
    if isinstance(users := record.get("users"), str) and users and session is not None:
        session = f"{users}-{session}"
    known = {"session_id", "index", "system", "users", "turns"}
    said = _Utterances(record["turns"], "participant", "utterance")
    return _adapted(record, "simulated", said, known, (record.get("system"), session), origin)


class _Utterances(NamedTuple):
    """The utterances of a foreign record, and their keys of the speaker and of the text."""

    entries: Any
    speaker: str
    text: str


def _adapted(
    record: Mapping[str, Any],
    form: str,
    given: _Utterances,
    known: set[str],
    names: tuple[object, object],
    origin: RecordOrigin,
) -> Dialogue:
    """A foreign record in our form, by the rules that this module states; ``names``: system and session."""
    model, session = names
    session_id = _session(session if session not in (None, "") else origin.session or session, origin.where)
    where = f"{origin.where}, session {session_id!r}"
    model = model or origin.system or model
    _expect(isinstance(model, str) and bool(model), where, "the system's name", model, "a name")
    _expect(isinstance(given.entries, list), where, "the list of utterances", given.entries, "a list")
    said = [_said(entry, given, f"{where}, utterance {i}") for i, entry in enumerate(given.entries, 1)]
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


def _said(entry: object, given: _Utterances, where: str) -> _Said:
    key, text = given.speaker, given.text
    if not isinstance(entry, Mapping) or not isinstance(entry.get(text), str):
        raise InputError(f"{where}: must be an object with an {text!r} that is a text")
    speaker = _SPEAKERS.get(str(entry.get(key, "")).upper())
    if speaker is None:
        raise InputError(f"{where}: {key!r} is {entry.get(key)!r}, expected one of {', '.join(_SPEAKERS)}")
    taken = {"speaker", "text"}
    rest = {f"original_{k}" if k in taken else k: v for k, v in entry.items() if k not in (key, text)}
    return _Said(speaker, entry[text], rest)


def _turn(said: list[_Said]) -> dict[str, Any]:
    """One turn; the annotations of a merged one are listed under ``merged``, one entry an utterance."""
    head = {"speaker": said[0].speaker, "text": "\n".join(one.text for one in said)}
    if len(said) == 1:
        return {**head, **said[0].rest}
    return {**head, "merged": [{"text": one.text, **one.rest} for one in said]}


FORMS: tuple[Form, ...] = (
    Form("dialoguekit", lambda record: "participant" in _first(record, "conversation"), _dialoguekit),
    Form("arena", lambda record: "role" in _first(record, "dialogue"), _arena),
    Form("ievalm", lambda record: "content" in (_first(record, "turns") or _context(record)), _ievalm),
    Form("simulated", lambda record: "participant" in _first(record, "turns"), _simulated),
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
