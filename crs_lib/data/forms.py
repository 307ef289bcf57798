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
from collections.abc import Iterable, Mapping
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
    """A foreign form: where a record keeps its utterances, their keys, and the keys of session and system.

    ``paths`` lead to the list of utterances, ``sign`` is the key of the first one that tells the form. All
    keys of a record that are not named here are annotations. ``group`` is the key of the simulated users
    among whose conversations the session is counted.
    """

    name: str
    paths: tuple[tuple[str, ...], ...]
    speaker: str
    text: str
    sign: str
    session: tuple[str, ...]
    system: tuple[str, ...]
    group: str = ""

    def utterances(self, record: Mapping[str, Any]) -> Any:
        """What stands where the utterances should be, or None."""
        for path in self.paths:
            found: Any = record
            for key in path:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found:
                return found
        return None

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Whether the first utterance has the sign."""
        entries = self.utterances(record)
        first = entries[0] if isinstance(entries, list) and entries else None
        return isinstance(first, Mapping) and self.sign in first

    @property
    def keys(self) -> set[str]:
        """The keys that are read."""
        return {path[0] for path in self.paths} | {*self.session, *self.system, self.group}


FORMS = (
    Form(
        "dialoguekit", (("conversation",),), "participant", "utterance", "participant",
        ("conversation_id", "conversation ID", "session_id"), ("agent", "agent_id"),
    ),
    Form("arena", (("dialogue",),), "role", "utterance", "role", ("conv_id",), ("model_name",)),
    # ranked items stay with their reply as rec_items; the text says which of them the user saw
    Form(
        "ievalm", (("simulator_dialog", "context"), ("turns",)), "role", "content", "content",
        ("conv_id", "file", "session_id"), ("system",),
    ),
    Form(
        "simulated", (("turns",),), "participant", "utterance", "participant",
        ("session_id", "index"), ("system",), "users",
    ),
)  # fmt: skip


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
            return _adapted(record, form, origin)
    if "conversation" in record:
        return _thesis(record, origin)
    raise InputError(
        f"{where}: no known form of a conversation (keys {sorted(map(str, record))[:12]}); expected "
        "'conversation' with speaker/text or participant/utterance, 'dialogue' with role/utterance, or "
        "'turns' with role/content or participant/utterance"
    )


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


# The optional keys of a record and of a turn in the thesis's form: their types, and the types in words.
_OF_RECORD: tuple[tuple[str, Any, str], ...] = (
    ("true_genre", str, "a name or null"),
    ("shift_events", list, "a list"),
)
_OF_TURN: tuple[tuple[str, Any, str], ...] = (
    ("user_meta", Mapping, "an object"),
    ("constraints", Mapping, "an object"),
    ("rec_titles", list, "a list of titles"),
)


def _check_types(record: Mapping[str, Any], where: str) -> None:
    """Types of the optional keys; what is missing is left to the quirk report."""
    for key, kind, words in _OF_RECORD:
        _expect(record.get(key), kind, f"{where}: {key!r}", words)
    for event in record.get("shift_events") or ():
        turn = event.get("turn") if isinstance(event, Mapping) else event
        usable = isinstance(turn, int) and not isinstance(turn, bool) and turn >= 1
        _expect(turn, int if usable else (), f"{where}: a shift event's 'turn'", "a whole number >= 1")
    conversation = record.get("conversation")
    for i, entry in enumerate(conversation if isinstance(conversation, list) else (), start=1):
        for key, kind, words in _OF_TURN if isinstance(entry, Mapping) else ():
            _expect(entry.get(key), kind, f"{where}, turn {i}: {key!r}", words)


def _expect(given: object, kind: Any, what: str, words: str) -> None:
    if given is not None and not isinstance(given, kind):
        raise InputError(f"{what} is {str(given)[:60]!r}, expected {words}")


class _Line(NamedTuple):
    speaker: str
    text: str
    rest: dict[str, Any]


def _names(record: Mapping[str, Any], form: Form, origin: RecordOrigin) -> tuple[Any, Any]:
    """System and session as the record names them, None where it does not."""
    system = next((record[key] for key in form.system if key in record), None)
    session = next((record[key] for key in form.session if key in record), None)
    if form.name == "dialoguekit" and isinstance(system, Mapping):
        system = system.get("id")
    elif form.name == "arena":
        system = system or str(session or "").rpartition("_")[0]
    elif form.name == "ievalm":
        if session is None and "simulator_dialog" in record:
            session = origin.stem
        session = session.removesuffix(".json") if isinstance(session, str) else session
    users = record.get(form.group)
    if isinstance(users, str) and users and session is not None:
        session = f"{users}-{session}"
    return system, session


def _adapted(record: Mapping[str, Any], form: Form, origin: RecordOrigin) -> Dialogue:
    """A foreign record in our form, by the rules that this module states."""
    model, session = _names(record, form, origin)
    session_id = _session(session if session not in (None, "") else origin.session or session, origin.where)
    where = f"{origin.where}, session {session_id!r}"
    model = model or origin.system or model
    if not isinstance(model, str) or not model:
        raise InputError(f"{where}: the system's name is {str(model)[:60]!r}, expected a name")
    entries = form.utterances(record)
    said = [_said(entry, form, f"{where}, utterance {i}") for i, entry in enumerate(entries, 1)]
    start = next((i for i, one in enumerate(said) if one.speaker == USER), len(said))
    turns = [_turn(list(group)) for _, group in groupby(said[start:], key=lambda one: one.speaker)]
    if not turns:
        raise InputError(f"{where}: the user says nothing; expected at least one utterance")
    extra: dict[str, Any] = {"source_form": form.name}
    if annotations := {key: value for key, value in record.items() if key not in form.keys}:
        extra["annotations"] = annotations
    if start:
        extra["opening"] = [one.text for one in said[:start]]
    if merged := len(said) - start - len(turns):
        extra["merged_utterances"] = merged
    body = {"session_id": session_id, "model_name": model, "conversation": turns}
    return Dialogue.from_json({**body, **extra}, source=where.partition(", session")[0])


def _said(entry: object, form: Form, where: str) -> _Line:
    if not isinstance(entry, Mapping) or not isinstance(entry.get(form.text), str):
        raise InputError(f"{where}: must be an object with an {form.text!r} that is a text")
    speaker = _SPEAKERS.get(str(entry.get(form.speaker, "")).upper())
    if speaker is None:
        given, known = entry.get(form.speaker), ", ".join(_SPEAKERS)
        raise InputError(f"{where}: {form.speaker!r} is {given!r}, expected one of {known}")
    taken = {"speaker", "text"}
    keys = (form.speaker, form.text)
    rest = {f"original_{k}" if k in taken else k: v for k, v in entry.items() if k not in keys}
    return _Line(speaker, entry[form.text], rest)


def _turn(said: list[_Line]) -> dict[str, Any]:
    """One turn; the annotations of a merged one are listed under ``merged``, one entry an utterance."""
    head = {"speaker": said[0].speaker, "text": "\n".join(one.text for one in said)}
    if len(said) == 1:
        return {**head, **said[0].rest}
    return {**head, "merged": [{"text": one.text, **one.rest} for one in said]}


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
