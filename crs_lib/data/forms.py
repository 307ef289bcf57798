"""The forms that a logged conversation comes in, and how each becomes a :class:`Dialogue`.

``thesis``       ``conversation`` of ``speaker`` and ``text``; with or without ``user_meta``; our own logs too
``dialoguekit``  ``conversation`` of ``participant`` and ``utterance`` (DialogueKit's export)
``arena``        ``dialogue`` of ``role`` and ``utterance`` (CRSArena-Eval)
``ievalm``       ``turns`` (or ``simulator_dialog.context``) of ``role`` and ``content`` (iEvaLM, Concept4CRS)
``simulated``    ``turns`` of ``participant`` and ``utterance`` (UserSimCRS)
``openai``       ``messages`` of ``role`` and ``content``; others than user and assistant are ``instructions``
                 (an eval log of Inspect as JSON is read as a list of these)

Rules for all but the first, each recorded in the dialogue's ``extra``: utterances of one speaker in a row
become one turn, joined by a line break (``merged_utterances`` counts those joined on); what the system says
before the user's first word is no reply, and is kept as ``opening``; what people or tools annotated stays
with its turn, or in ``annotations`` for the whole dialogue.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.core.errors import InputError

_FILE_NAME = re.compile(r"(?P<model>.+)_session_(?:.*_)?(?P<session>\d+)")
_SPEAKERS = {"USER": USER} | dict.fromkeys(("SYSTEM", "AGENT", "ASST", "ASSISTANT", "BOT"), SYSTEM)


class RecordOrigin(NamedTuple):
    """The origin of a record: its place for error texts, its file's stem, and names for a record without.
    ``system`` and ``session`` stand in for names that the record lacks; a lacking name is an error where they
    are empty.
    """

    where: str
    stem: str = ""
    system: str = ""
    session: str = ""


class _Form(NamedTuple):
    """A foreign form: where a record keeps its utterances, their keys, and the names of session and system.
    Places are keys joined by dots, alternatives by ``|``. The first utterance has the key ``text``. Keys of a
    record that are not named here are annotations. ``group`` is the key of the simulated users among whose
    conversations the session is counted.
    """

    name: str
    utterances: str
    speaker: str
    text: str
    session: str
    system: str
    group: str = ""


FORMS = (
    _Form(
        "dialoguekit", "conversation", "participant", "utterance",
        "conversation_id|conversation ID|session_id", "agent.id|agent|agent_id",
    ),
    _Form("arena", "dialogue", "role", "utterance", "conv_id", "model_name"),
    # ranked items stay with their reply as rec_items; the text says which of them the user saw
    _Form("ievalm", "simulator_dialog.context|turns", "role", "content", "conv_id|file|session_id", "system"),
    _Form("openai", "messages", "role", "content", "session_id|conversation_id|id", "model_name|model"),
    _Form("simulated", "turns", "participant", "utterance", "session_id|index", "system", "users"),
)  # fmt: skip


def _first(record: Mapping[str, Any], places: str) -> Any:
    """What stands at the first of the places that hold something, else None."""
    for place in places.split("|"):
        found: Any = record
        for key in place.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if found not in (None, "", [], {}):
            return found
    return None


def dialogue_of(record: object, origin: RecordOrigin) -> Dialogue:
    """One parsed record as a dialogue. Raises InputError beginning with the place for a form that is none of
    those known, a key that is missing or of another type, and speakers that do not alternate.
    """
    if not isinstance(record, Mapping):
        given = type(record).__name__
        raise InputError(f"{origin.where}: holds {given}, expected one conversation (a JSON object)")
    for form in FORMS:
        entries = _first(record, form.utterances)
        if isinstance(entries, list) and isinstance(entries[0], Mapping) and form.text in entries[0]:
            return _adapted(record, form, entries, origin)
    if "conversation" in record:
        return _thesis(record, origin)
    told = f"no known form of a conversation (keys {sorted(map(str, record))[:12]})"
    forms = (f"{form.utterances!r} with {form.speaker}/{form.text}" for form in FORMS)
    raise InputError(f"{origin.where}: {told}; expected 'conversation' with speaker/text, {', '.join(forms)}")


def _names(system: object, session: object, where: str) -> dict[str, str]:
    """The names of system and session as every record has them, checked."""
    if not isinstance(system, str):
        raise InputError(f"{where}: the system's name (model_name) is {system!r:.60}, expected a name")
    if isinstance(session, bool) or not isinstance(session, int | str) or session == "":
        expected = "a number or a name (or a file name that ends in _session_<number>)"
        raise InputError(f"{where}: 'session_id' is {session!r}, expected {expected}")
    return {"session_id": str(session), "model_name": system}


class _Turn(TypedDict, total=False):
    user_meta: dict[str, Any] | None
    constraints: dict[str, Any] | None
    rec_titles: list[Any] | None


class _Shift(TypedDict, total=False):
    turn: Annotated[int, Field(ge=1)] | None


class _Session(TypedDict, total=False):
    """The optional keys of a record in the thesis's form; what is missing is left to the quirk report."""

    true_genre: str | None
    shift_events: list[_Shift] | None
    conversation: list[_Turn]


_OPTIONAL = TypeAdapter(_Session)


def _thesis(record: Mapping[str, Any], origin: RecordOrigin) -> Dialogue:
    """The thesis's form; model and session may come from the file's name ``<model>_session_…<number>``."""
    match, session = _FILE_NAME.fullmatch(origin.stem), _first(record, "session_id")
    system, number = match.groups() if match else (origin.system or None, origin.session or None)
    system = _first(record, "model_name") or system
    names = _names(system, number if session is None else session, origin.where)
    dialogue = Dialogue.from_json({**record, **names}, source=origin.where)
    try:
        _OPTIONAL.validate_python(record, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        words = (str(part + 1) if isinstance(part, int) else part for part in first["loc"])
        place = " ".join(words).replace("conversation", "turn")
        given = f"{place} is {first['input']!r:.60}: {first['msg']}"
        raise InputError(f"{origin.where}, session {names['session_id']!r}: {given}") from error
    return dialogue


def _adapted(record: Mapping[str, Any], form: _Form, entries: list[Any], origin: RecordOrigin) -> Dialogue:
    """A foreign record in our form, by the rules that this module states."""
    system, session = _first(record, form.system), _first(record, form.session)
    if form.name == "arena" and system is None:
        system = str(session or "").rpartition("_")[0] or None
    if session is None and "simulator_dialog" in record:
        session = origin.stem
    session = session.removesuffix(".json") if isinstance(session, str) else session
    users = record.get(form.group)
    if users and isinstance(users, str) and session is not None:
        session = f"{users}-{session}"
    session = origin.session or None if session in (None, "") else session
    names = _names(system or origin.system or None, session, origin.where)
    where = f"{origin.where}, session {names['session_id']!r}"
    told = [one for one in entries if form.name == "openai" and isinstance(one, Mapping)]
    apart = ("system", "developer", "tool")  # instructions, calls of tools and their results
    aside = [one for one in told if one.get("role") in apart or not one.get("content", True)]
    entries = [one for one in entries if one not in aside]
    said = [_said(entry, form, f"{where}, utterance {i}") for i, entry in enumerate(entries, 1)]
    start = next((i for i, one in enumerate(said) if one["speaker"] == USER), len(said))
    turns = [_turn(list(group)) for _, group in groupby(said[start:], key=lambda one: one["speaker"])]
    if not turns:
        raise InputError(f"{where}: the user says nothing; expected at least one utterance")
    places = "|".join((form.utterances, form.session, form.system, form.group))
    read = {place.partition(".")[0] for place in places.split("|")}
    extra = {
        "annotations": {key: value for key, value in record.items() if key not in read},
        "instructions": aside,
        "opening": [one["text"] for one in said[:start]],
        "merged_utterances": len(said) - start - len(turns),
    }
    kept = {"source_form": form.name} | {key: value for key, value in extra.items() if value}
    return Dialogue.from_json({**names, "conversation": turns, **kept}, source=origin.where)


def to_openai(dialogue: Dialogue) -> dict[str, Any]:
    """The record of the form ``openai``: names and texts alone, as other tools take it."""
    roles = {USER: "user", SYSTEM: "assistant"}
    said = [{"role": roles[turn.speaker], "content": turn.text} for turn in dialogue.turns]
    return {"session_id": dialogue.session_id, "model_name": dialogue.model_name, "messages": said}


def to_dialoguekit(dialogue: Dialogue) -> dict[str, Any]:
    """The record of the form ``dialoguekit``; what is logged of a turn stands beside its utterance."""
    name, who = dialogue.session_id, {USER: "USER", SYSTEM: "AGENT"}
    said = [
        {"participant": who[turn.speaker], "utterance": turn.text, "utterance ID": f"{name}_{i}", **turn.meta}
        for i, turn in enumerate(dialogue.turns)
    ]
    return {
        "conversation ID": name, "agent": {"id": dialogue.model_name, "type": "AGENT"},
        "user": {"id": "simulated", "type": "USER"}, "conversation": said, "metadata": dict(dialogue.extra),
    }  # fmt: skip


def write_inspect(path: Path, dialogues: Sequence[Dialogue]) -> None:
    """Write dialogues as an eval log of Inspect, by Inspect's own API; InputError where it is not there."""
    try:
        from inspect_ai import log as logs
        from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
    except ImportError as error:
        raise InputError("an Inspect log needs Inspect: pip install inspect_ai") from error
    kinds = {USER: ChatMessageUser, SYSTEM: ChatMessageAssistant}
    samples = [
        logs.EvalSample(
            id=f"{one.model_name}/{one.session_id}", epoch=1, input=one.turns[0].text, target="",
            messages=[kinds[turn.speaker](content=turn.text) for turn in one.turns],
            metadata={"session_id": one.session_id, "model_name": one.model_name, **one.extra},
        )
        for one in dialogues
    ]  # fmt: skip
    spec = logs.EvalSpec(
        created=datetime.now(UTC).isoformat(timespec="seconds"), task="crs_lib",
        model=", ".join(dict.fromkeys(one.model_name for one in dialogues)),
        dataset=logs.EvalDataset(name="crs_lib", samples=len(samples)), config=logs.EvalConfig(),
    )  # fmt: skip
    logs.write_eval_log(logs.EvalLog(status="success", eval=spec, samples=samples), str(path))


def _said(entry: object, form: _Form, where: str) -> dict[str, Any]:
    """An utterance with our names of speaker and text; keys of these names become ``original_…``."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get(form.text), str):
        raise InputError(f"{where}: must be an object with an {form.text!r} that is a text")
    given = entry.get(form.speaker)
    if (speaker := _SPEAKERS.get(str(given).upper())) is None:
        known = ", ".join(_SPEAKERS)
        raise InputError(f"{where}: {form.speaker!r} is {given!r}, expected one of {known}")
    rest = {key: value for key, value in entry.items() if key not in (form.speaker, form.text)}
    taken = {f"original_{key}" if key in ("speaker", "text") else key: value for key, value in rest.items()}
    return {"speaker": speaker, "text": entry[form.text], **taken}


def _turn(said: list[dict[str, Any]]) -> dict[str, Any]:
    """One turn; the annotations of a merged one are listed under ``merged``, one entry an utterance."""
    if len(said) == 1:
        return said[0]
    merged = [{key: value for key, value in one.items() if key != "speaker"} for one in said]
    text = "\n".join(one["text"] for one in said)
    return {"speaker": said[0]["speaker"], "text": text, "merged": merged}


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
    if isinstance(content, Mapping) and isinstance(content.get("samples"), list):  # Inspect's JSON log
        return [_sample(one, _first(content, "eval.model")) for one in content["samples"]]
    return [content]


def _sample(sample: object, model: object) -> object:
    """A sample of an Inspect log in the form ``openai``; names that its metadata hold come first."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("messages"), list):
        return sample
    name = f"{sample.get('id')}.{sample.get('epoch', 1)}"
    told = dict(given) if isinstance(given := sample.get("metadata"), Mapping) else {}
    said = [{**one, "content": _text(one.get("content"))} if isinstance(one, Mapping) else one
            for one in sample["messages"]]  # fmt: skip
    return {"session_id": name, "model_name": model, **told, "messages": said}


def _text(content: object) -> object:
    """The content of a message; the texts of its parts where it has several."""
    parts = content if isinstance(content, list) else []
    texts = [str(one["text"]) for one in parts if isinstance(one, Mapping) and "text" in one]
    return "\n".join(texts) if isinstance(content, list) else content
