"""The forms that a logged conversation comes in, and how each becomes a :class:`Dialogue`.

``thesis``       ``conversation`` of ``speaker`` and ``text``; with or without ``user_meta``; our own logs too
``dialoguekit``  ``conversation`` of ``participant`` and ``utterance`` (DialogueKit's export)
``arena``        ``dialogue`` of ``role`` and ``utterance`` (CRSArena-Eval)
``ievalm``       ``turns`` (or ``simulator_dialog.context``) of ``role`` and ``content`` (iEvaLM, Concept4CRS)
``simulated``    ``turns`` of ``participant`` and ``utterance`` (UserSimCRS)
``openai``       ``messages`` of ``role`` and ``content``; others than user and assistant are ``instructions``
                 (an eval log of Inspect is read as a list of these; a record of ChatGPT's export, LangChain,
                 tau-bench, DeepEval, LMSYS-Chat-1M or WildChat as one of these)
``sharegpt``     ``conversations`` of ``from`` and ``value`` (ShareGPT)
``redial``       ``messages`` of ``senderWorkerId`` and ``text`` (ReDial); ``movieMentions`` name the films

Further forms are registered in ``FORMS``, also by a client (members of the kind "log form").

Rules for all but the first, each recorded in the dialogue's ``extra``: utterances of one speaker in a row
become one turn, joined by a line break (``merged_utterances`` counts those joined on); what the system says
before the user's first word is no reply, and is kept as ``opening``; what people or tools annotated stays
with its turn, or in ``annotations`` for the whole dialogue.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from crs_lib.core import safety
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.core.text import THOUGHT_FIELDS, Said

Record = Mapping[str, Any]  # a conversation, an utterance or a message as a file holds it
_FILE_NAME = re.compile(r"(?P<model>.{1,300})_session_(?:.{0,300}_)?(?P<session>\d{1,30})")
_SPEAKERS = {
    **dict.fromkeys(("USER", "HUMAN", "SEEKER", "CUSTOMER", "CLIENT"), USER),
    **dict.fromkeys(("SYSTEM", "AGENT", "ASST", "ASSISTANT", "BOT"), SYSTEM),
    **dict.fromkeys(("AI", "GPT", "CHATGPT", "MODEL", "RECOMMENDER", "CHATBOT"), SYSTEM),
}
# Instructions, and what passes between an assistant and its tools.
_ASIDE_ROLES = ("system", "developer", "tool", "function", "observation", "function_call", "tool_call")
AS_MESSAGES = 'write each as {"messages": [{"role": "user", "content": "…"}, …]}'  # what any reader can do
_KEYS_SHOWN = 12
_MENTION = re.compile(r"(?<!\w)@(\d+)\b")  # the id of a film in place of its title


class RecordOrigin(NamedTuple):
    """The origin of a record: its place for error texts, its file's stem, and names for a record without.
    ``system`` and ``session`` stand in for names that the record lacks; a lacking name is an error where they
    are empty.
    """

    where: str
    stem: str = ""
    system: str = ""
    session: str = ""


@dataclass(frozen=True)
class LogForm:
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

    def entries(self, record: Record) -> list[Any]:
        """The utterances of a record; empty where it has another form."""
        entries = _first(record, self.utterances)
        if isinstance(entries, list) and isinstance(entries[0], Mapping) and self.text in entries[0]:
            return entries
        return []

    def speaker_of(self, entry: Record, record: Record) -> str | None:
        """Who speaks, as dialogues name it; None for a name that is none of a speaker. A class's name before
        the speaker's is dropped ("DialogueParticipant.USER").
        """
        name = str(entry.get(self.speaker)).upper()
        return _SPEAKERS.get(name.rpartition(".")[2])

    def system_of(self, record: Record) -> Any:
        """The name of the system that spoke; None where the record lacks it."""
        return _first(record, self.system)

    def session_of(self, record: Record, origin: RecordOrigin) -> Any:
        """What identifies the conversation; None where neither the record nor its origin say."""
        session = _first(record, self.session)
        if isinstance(session, str):
            session = session.removesuffix(".json")
        users = record.get(self.group)
        if users and isinstance(users, str) and session is not None:
            session = f"{users}-{session}"
        return origin.session or None if session in (None, "") else session

    def is_aside(self, entry: object) -> bool:
        """Whether an entry is no utterance, but belongs to the conversation."""
        return False

    def read_keys(self) -> set[str]:
        """The keys of a record that are read here; the others are annotations."""
        places = "|".join((self.utterances, self.session, self.system, self.group))
        return {keys.partition(".")[0] for keys in places.split("|")}


FORMS: Registry[LogForm] = Registry("log form")


@FORMS.register("dialoguekit")
def _dialoguekit() -> LogForm:
    """DialogueKit's export."""
    return LogForm(
        name="dialoguekit",
        utterances="conversation",
        speaker="participant",
        text="utterance",
        session="conversation_id|conversation ID|session_id",
        system="agent.id|agent|agent_id",
    )


@FORMS.register("arena")
class _Arena(LogForm):
    """CRSArena-Eval; the system's name may stand in that of the conversation."""

    def __init__(self) -> None:
        super().__init__("arena", "dialogue", "role", "utterance", "conv_id", "model_name")

    def system_of(self, record: Record) -> Any:
        conversation = str(record.get("conv_id") or "")
        return super().system_of(record) or conversation.rpartition("_")[0] or None


@FORMS.register("ievalm")
class _IEvaLM(LogForm):
    """iEvaLM and Concept4CRS; ranked items stay with their reply as rec_items, its text names those shown."""

    def __init__(self) -> None:
        session = "conv_id|file|session_id"
        super().__init__("ievalm", "simulator_dialog.context|turns", "role", "content", session, "system")

    def session_of(self, record: Record, origin: RecordOrigin) -> Any:
        if origin.stem and "simulator_dialog" in record and _first(record, self.session) is None:
            return origin.stem.removesuffix(".json")
        return super().session_of(record, origin)


@FORMS.register("openai")
class _OpenAI(LogForm):
    """Messages of ``role`` and ``content``; LMSYS and WildChat list them under ``conversation``."""

    def __init__(self) -> None:
        session = "session_id|conversation_id|conversation_hash|id"
        super().__init__("openai", "messages|conversation", "role", "content", session, "model_name|model")

    def is_aside(self, entry: object) -> bool:
        if not isinstance(entry, Mapping):
            return False
        return str(entry.get("role")).lower() in _ASIDE_ROLES or entry.get("content") in (None, "", [])


@FORMS.register("sharegpt")
class _ShareGPT(LogForm):
    """ShareGPT; instructions and calls of tools stand among the utterances."""

    def __init__(self) -> None:
        super().__init__("sharegpt", "conversations|conversation", "from", "value", "id", "model_name|model")

    def is_aside(self, entry: object) -> bool:
        return isinstance(entry, Mapping) and entry.get("from") in _ASIDE_ROLES


@FORMS.register("redial")
class _ReDial(LogForm):
    """ReDial: people who seek and recommend, known by their numbers."""

    def __init__(self) -> None:
        session = "conversationId"
        super().__init__("redial", "messages", "senderWorkerId", "text", session, "model_name")

    def speaker_of(self, entry: Record, record: Record) -> str | None:
        sender = entry.get("senderWorkerId")
        by_role = {"initiatorWorkerId": USER, "respondentWorkerId": SYSTEM}
        for role, speaker in by_role.items():
            if sender is not None and record.get(role) == sender:
                return speaker
        return None


@FORMS.register("simulated")
def _simulated() -> LogForm:
    """UserSimCRS."""
    return LogForm(
        name="simulated",
        utterances="turns",
        speaker="participant",
        text="utterance",
        session="session_id|index",
        system="system",
        group="users",
    )


@cache
def _forms() -> tuple[LogForm, ...]:
    return tuple(entry.make() for entry in FORMS)


def _first(record: Record, places: str) -> Any:
    """What stands at the first of the places that hold something, else None."""
    for keys in places.split("|"):
        value: Any = record
        for key in keys.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value not in (None, "", [], {}):
            return value
    return None


def dialogue_of(record: object, origin: RecordOrigin) -> Dialogue:
    """One parsed record as a dialogue. Raises InputError beginning with the place for a form that is none of
    those registered, a key that is missing or of another type, and speakers that do not alternate.
    """
    record = _as_messages(record)
    if not isinstance(record, Mapping):
        kind = type(record).__name__
        raise InputError(f"{origin.where}: holds {kind}, expected one conversation (a JSON object)")
    for form in _forms():
        entries = form.entries(record)
        if entries:
            return _adapted(record, form, entries, origin)
    if "conversation" in record:
        return _thesis(record, origin)
    expected = ["'conversation' with speaker/text"]
    for form in _forms():
        expected.append(f"{form.utterances!r} with {form.speaker}/{form.text}")
    keys = sorted(map(str, record))[:_KEYS_SHOWN]
    unknown = f"no known form of a conversation (keys {keys})"
    raise InputError(f"{origin.where}: {unknown}; expected {', '.join(expected)}, or {AS_MESSAGES}")


_LANGCHAIN = {"human": "user", "ai": "assistant", "chat": "user"}  # its names of speakers, and ours


def _as_messages(record: object) -> object:
    """A list of messages, or a record of another tool, in the form ``openai``; any other record itself."""
    if isinstance(record, list):
        return {"messages": _plain_messages(record)} if _are_messages(record) else record
    if not isinstance(record, Mapping):
        return record
    if isinstance(record.get("mapping"), Mapping):
        return _chatgpt(record)
    if isinstance(record.get("traj"), list):  # tau-bench
        session = f"{record.get('task_id')}.{record.get('trial', 0)}"
        return {"session_id": session, **record, "messages": record["traj"], "traj": None}
    if isinstance(record.get("turns"), str):  # DeepEval's goldens
        return {**record, "turns": safety.loads(record["turns"], "turns")}
    answer = record.get("actual_output", record.get("actualOutput"))
    if isinstance(answer, str) and isinstance(record.get("input"), str):  # DeepEval, a single turn
        question = {"role": "user", "content": record["input"]}
        return {**record, "messages": [question, {"role": "assistant", "content": answer}]}
    if _are_messages(record.get("messages")):
        return {**record, "messages": _plain_messages(record["messages"])}
    return record


def _are_messages(entries: object) -> bool:
    """Whether a list holds messages as OpenAI or LangChain writes them."""
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], Mapping):
        return False
    first = entries[0]
    return "role" in first or "kwargs" in first or "data" in first or ("type" in first and "content" in first)


def _plain_messages(entries: Sequence[Any]) -> list[Any]:
    """Messages with ``role`` and ``content``, whichever of LangChain's ways they are written in."""
    return [_plain_message(entry) for entry in entries]


def _plain_message(entry: Any) -> Any:
    """A message as OpenAI writes it; one of LangChain names its speaker by a type or a class."""
    if not isinstance(entry, Mapping):
        return entry
    inner = entry.get("data", entry.get("kwargs"))
    fields = inner if isinstance(inner, Mapping) else entry
    if "role" in entry or "content" not in fields:
        return entry
    kind = str(fields.get("type") or entry.get("type"))
    path = entry.get("id")
    if isinstance(inner, Mapping) and isinstance(path, list) and path:  # …, "messages", "HumanMessage"
        kind = str(path[-1]).removesuffix("Chunk").removesuffix("Message").lower()
    role = fields.get("role") or _LANGCHAIN.get(kind, kind)
    return {**{key: value for key, value in fields.items() if key != "type"}, "role": role}


def _chatgpt(record: Record) -> Record:
    """A conversation of ChatGPT's export: the branch that ends in its current message."""
    nodes = record["mapping"]
    messages: list[dict[str, Any]] = []
    model = None
    name: Any = record.get("current_node") or next(reversed(nodes), None)
    passed: set[Any] = set()
    while name in nodes and name not in passed:
        passed.add(name)
        node = nodes[name]
        message = node.get("message") or {}
        content = message.get("content") or {}
        texts = [part for part in content.get("parts") or () if isinstance(part, str)]
        role = (message.get("author") or {}).get("role")
        model = model or (message.get("metadata") or {}).get("model_slug")
        if role and content.get("content_type") in ("text", "multimodal_text"):
            messages.insert(0, {"role": role, "content": "\n".join(texts)})
        name = node.get("parent")
    session = record.get("conversation_id") or record.get("id")
    return {"session_id": session, "model_name": model, "title": record.get("title"), "messages": messages}


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


def _thesis(record: Record, origin: RecordOrigin) -> Dialogue:
    """The thesis's form; model and session may come from the file's name ``<model>_session_…<number>``."""
    system: object = origin.system or None
    session: object = origin.session or None
    match = _FILE_NAME.fullmatch(origin.stem)
    if match:
        system, session = match.groups()
    system = _first(record, "model_name") or system
    number = _first(record, "session_id")
    names = _names(system, session if number is None else number, origin.where)
    turns = record["conversation"]
    if isinstance(turns, list):
        turns = [_heard(turn) for turn in turns]
    dialogue = Dialogue.from_json({**record, **names, "conversation": turns}, source=origin.where)
    try:
        _OPTIONAL.validate_python(record, strict=True)
    except ValidationError as error:
        fault = _sentence(error)
        raise InputError(f"{origin.where}, session {names['session_id']!r}: {fault}") from error
    return dialogue


def _heard(turn: Any) -> Any:
    """A turn with what a system thought apart; itself where it has no text."""
    if isinstance(turn, Mapping) and isinstance(turn.get("text"), str):
        return _spoken(dict(turn))
    return turn


def _sentence(error: ValidationError) -> str:
    """The first fault of a record: its place, with turns counted from 1, what stands there, what is wrong."""
    first = error.errors()[0]
    words = []
    for part in first["loc"]:
        words.append(str(part + 1) if isinstance(part, int) else part)
    location = " ".join(words).replace("conversation", "turn")
    return f"{location} is {first['input']!r:.60}: {first['msg']}"


def _adapted(record: Record, form: LogForm, entries: list[Any], origin: RecordOrigin) -> Dialogue:
    """A foreign record in our form, by the rules that this module states."""
    system = form.system_of(record) or origin.system or None
    names = _names(system, form.session_of(record, origin), origin.where)
    where = f"{origin.where}, session {names['session_id']!r}"
    aside = [entry for entry in entries if form.is_aside(entry)]
    utterances: list[dict[str, Any]] = []
    for entry in entries:
        if entry not in aside:
            utterances.append(_utterance(entry, form, record, f"{where}, utterance {len(utterances) + 1}"))
    opening: list[str] = []
    while len(opening) < len(utterances) and utterances[len(opening)]["speaker"] != USER:
        opening.append(utterances[len(opening)]["text"])
    spoken = utterances[len(opening) :]
    turns = [_turn(list(group)) for _, group in groupby(spoken, key=lambda entry: entry["speaker"])]
    if not turns:
        raise InputError(f"{where}: the user says nothing; expected at least one utterance")
    adapted: dict[str, object] = {**names, "conversation": turns, "source_form": form.name}
    read = form.read_keys()
    extra = {
        "annotations": {key: value for key, value in record.items() if key not in read},
        "instructions": aside,
        "opening": opening,
        "merged_utterances": len(spoken) - len(turns),
    }
    for key, value in extra.items():
        if value:
            adapted[key] = value
    return Dialogue.from_json(adapted, source=origin.where)


def _utterance(entry: object, form: LogForm, record: Record, where: str) -> dict[str, Any]:
    """An utterance with our names of speaker and text; keys of these names become ``original_…``. A system's
    thoughts go under ``thinking``, the kinds of parts without a text under ``parts``.
    """
    content = entry.get(form.text) if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(content, str | list):
        raise InputError(f"{where}: must be an object with an {form.text!r} that is a text")
    speaker = form.speaker_of(entry, record)
    if speaker is None:
        names = ", ".join(_SPEAKERS)
        name = entry.get(form.speaker)
        raise InputError(f"{where}: {form.speaker!r} is {name!r}, expected one of {names}")
    if isinstance(content, str):
        content = _MENTION.sub(lambda match: _film_of(match, record), content)
    utterance = {"speaker": speaker, "text": content}
    for key, value in entry.items():
        if key not in (form.speaker, form.text):
            utterance[f"original_{key}" if key in ("speaker", "text") else key] = value
    return _spoken(utterance)


def _film_of(mention: re.Match[str], record: Record) -> str:
    """The title that a record gives for an id in its texts ("@112"); the id where it gives none."""
    names = record.get("movieMentions")
    title = names.get(mention[1]) if isinstance(names, Mapping) else None
    return str(title or mention[0])


def _spoken(utterance: dict[str, Any]) -> dict[str, Any]:
    """The utterance with the words in its text, and a system's thoughts and other parts beside them."""
    text = utterance.get("text")
    if utterance.get("speaker") == USER and not isinstance(text, list):
        return utterance
    spoken = Said.within(utterance, "text")
    apart = {name: value for name, value in utterance.items() if name not in THOUGHT_FIELDS}
    if not spoken.thinking and not isinstance(text, list):
        return utterance
    apart["text"] = spoken.text
    if spoken.thinking:
        apart["thinking"] = spoken.thinking
    if spoken.parts:
        apart["parts"] = list(spoken.parts)
    return apart


def _turn(utterances: list[dict[str, Any]]) -> dict[str, Any]:
    """One turn; the annotations of a merged one are listed under ``merged``, one entry an utterance."""
    if len(utterances) == 1:
        return utterances[0]
    text = "\n".join(utterance["text"] for utterance in utterances)
    turn = {"speaker": utterances[0]["speaker"], "text": text, "merged": utterances}
    for utterance in utterances:
        del utterance["speaker"]
    return turn


def conversations_of(content: object) -> Iterable[object]:
    """The records in a parsed JSON file: one, a list of them, a bare list of turns, or DialogueKit's export.
    DialogueKit names agent and user once for a list of ``dialogues``; each gets them here.
    """
    if isinstance(content, list):
        first = content[0] if content and isinstance(content[0], Mapping) else {}
        if "speaker" in first:
            return [{"conversation": content}]
        return [content] if _are_messages(content) else content
    if isinstance(content, Mapping) and isinstance(content.get("dialogues"), list):
        shared = {key: content[key] for key in ("agent", "user") if key in content}
        return [_joined(shared, talk) for talk in content["dialogues"]]
    if isinstance(content, Mapping) and isinstance(content.get("samples"), list):  # Inspect's JSON log
        model = _first(content, "eval.model")
        return [_sample(sample, model) for sample in content["samples"]]
    if isinstance(content, Mapping):
        several = _first(content, _LISTS)
        if isinstance(several, list):
            model = _first(content, "info.agent_info.llm")  # tau2-bench
            named = {"model_name": model} if model else {}
            return [_joined(named, record) for record in several]
    return [content]


def _joined(shared: Mapping[str, Any], record: Any) -> Any:
    """A record with what its file says of all; itself where it is no object."""
    return {**shared, **record} if isinstance(record, Mapping) else record


# Where DeepEval and tau2-bench list their conversations.
_LISTS = "conversationalTestCases|conversational_test_cases|simulations|testCases|test_cases"


def _sample(sample: object, model: object) -> object:
    """A sample of an Inspect log in the form ``openai``; names that its metadata hold come first."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("messages"), list):
        return sample
    names: dict[str, object] = {
        "session_id": f"{sample.get('id')}.{sample.get('epoch', 1)}",
        "model_name": model,
    }
    metadata = sample.get("metadata")
    if isinstance(metadata, Mapping):
        names.update(metadata)
    return {**names, "messages": sample["messages"]}


def to_openai(dialogue: Dialogue) -> dict[str, Any]:
    """The record of the form ``openai``: names and texts alone, as other tools take it."""
    messages = []
    for turn in dialogue.turns:
        messages.append({"role": _ROLES[turn.speaker], "content": turn.text})
    return {"session_id": dialogue.session_id, "model_name": dialogue.model_name, "messages": messages}


_ROLES = {USER: "user", SYSTEM: "assistant"}
_PARTICIPANTS = {USER: "USER", SYSTEM: "AGENT"}


def to_dialoguekit(dialogue: Dialogue) -> dict[str, Any]:
    """The record of the form ``dialoguekit``; what is logged of a turn stands beside its utterance."""
    utterances = []
    for number, turn in enumerate(dialogue.turns):
        utterance = {"participant": _PARTICIPANTS[turn.speaker], "utterance": turn.text}
        utterance["utterance ID"] = f"{dialogue.session_id}_{number}"
        utterances.append({**utterance, **turn.meta})
    return {
        "conversation ID": dialogue.session_id,
        "agent": {"id": dialogue.model_name, "type": "AGENT"},
        "user": {"id": "simulated", "type": "USER"},
        "conversation": utterances,
        "metadata": dict(dialogue.extra),
    }


def write_inspect(path: Path, dialogues: Sequence[Dialogue]) -> None:
    """Write dialogues as an eval log of Inspect, by Inspect's own API; InputError where it is not there."""
    try:
        from inspect_ai import log as logs
        from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
    except ImportError as error:
        raise InputError("an Inspect log needs Inspect: pip install inspect_ai") from error
    messages = {USER: ChatMessageUser, SYSTEM: ChatMessageAssistant}
    samples = []
    for dialogue in dialogues:
        names = {"session_id": dialogue.session_id, "model_name": dialogue.model_name}
        sample = logs.EvalSample(
            id=f"{dialogue.model_name}/{dialogue.session_id}",
            epoch=1,
            input=dialogue.turns[0].text,
            target="",
            messages=[messages[turn.speaker](content=turn.text) for turn in dialogue.turns],
            metadata={**names, **dialogue.extra},
        )
        samples.append(sample)
    models = dict.fromkeys(dialogue.model_name for dialogue in dialogues)
    spec = logs.EvalSpec(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task="crs_lib",
        model=", ".join(models),
        dataset=logs.EvalDataset(name="crs_lib", samples=len(samples)),
        config=logs.EvalConfig(),
    )
    logs.write_eval_log(logs.EvalLog(status="success", eval=spec, samples=samples), str(path))
