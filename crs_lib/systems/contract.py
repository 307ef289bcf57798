"""The contract with a program, version 1: one JSON object a turn goes out, one JSON object comes back. A
request holds the whole conversation, so that a program need not remember anything. It holds nothing of the
simulator's log. Of the answer only ``reply`` is required. Described in docs/your-system.md.
"""

import codecs
import json
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from crs_lib.core import safety
from crs_lib.core.dialogue import USER
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import THOUGHT_FIELDS, Said, shorten
from crs_lib.llm.base import LLMError

VERSION = 1
_FIELDS = ("reply", "recommended", "state", "version")
_ERRORS = ("error", "errors")  # fields in which a program reports an error, beside a reply, too
_REPORTS = (*_ERRORS, "detail", "exception")  # the same where there is no reply
_SUCCEEDS = ("success", "ok")  # fields that are false where it failed
_OF_BOTS = "bots with a conversation by sender (Rasa, DialogueKit) need the adapter of docs/your-system.md"
_LONGEST = 1_000_000  # bytes of an answer
_KINDS = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a number"),
    (float, "a number"),
    (Mapping, "an object"),
    (list, "a list"),
    (type(None), "null"),
)


@dataclass(frozen=True)
class Answer:
    """A program's answer, checked: its reply, and the films and the state that it names beside it.
    ``recommended`` are ids or titles, None where the program names none (the titles in the reply count then).
    ``state`` maps fields to the values that the program understood, None where it says nothing about that.
    ``thinking`` is what it thought beside the reply.
    """

    reply: str
    recommended: tuple[str, ...] | None = None
    state: Mapping[str, str | list[str]] | None = None
    thinking: str = ""

    def dumps(self) -> str:
        """The answer as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def loads(cls, text: str) -> "Answer":
        """The answer that :meth:`dumps` wrote."""
        record = json.loads(text)
        films = record.pop("recommended")
        return cls(**record, recommended=None if films is None else tuple(films))


def request(
    session: str, turn: int, want: int, catalog: str, conversation: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The request of a turn; ``conversation`` are speakers and texts, the user's latest utterance last."""
    messages = []
    for speaker, text in conversation:
        role = "user" if speaker == USER else "assistant"
        messages.append({"role": role, "content": text})
    return {
        "version": VERSION,
        "session": session,
        "turn": turn,
        "want": want,
        "catalog": catalog,
        "conversation": messages,
    }


def check_length(answer: Sized) -> None:
    """Raise LLMError where the bytes of an answer are too many."""
    if len(answer) > _LONGEST:
        raise LLMError("wrong answer", f"the answer is longer than {_LONGEST:,} bytes; send the reply only")


def decoded(answer: bytes | bytearray, declared: str = "") -> str:
    """The text of an answer's bytes: UTF-8, or what a byte-order mark or ``declared`` say it is. LLMError
    where neither fits: a character in place of what cannot be read would pass for the program's own.
    """
    encodings = ["utf-8-sig", declared]
    if answer[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encodings = ["utf-16"]
    for encoding in filter(None, encodings):
        with suppress(UnicodeDecodeError, LookupError):
            return answer.decode(encoding)
    start = _first_invalid(answer)
    before = answer[max(0, start - 20) : start].decode("utf-8", "ignore")
    where = f"byte 0x{answer[start]:02x} at {start:,}, after {before!r}"
    cure = "write UTF-8 (Python: sys.stdout.reconfigure(encoding='utf-8')), or declare the charset over HTTP"
    raise LLMError("wrong answer", f"the answer is not UTF-8 ({where}); {cure}")


def _first_invalid(answer: bytes | bytearray) -> int:
    """The place of the first byte that is no UTF-8."""
    try:
        answer.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def parse(text: str) -> object:
    """The JSON value of an answer; LLMError where the text is none."""
    try:
        return safety.loads(text, "the answer", mend=False)
    except InputError as error:
        fault = f'the answer is not JSON: {_quoted(text)}; expected one object like {{"reply": "…"}}'
        raise LLMError("wrong answer", fault, text) from error


def read(answer: object) -> Answer:
    """The answer, checked field by field; LLMError names the field that is wrong and what it should be.
    Values of NumPy and ids as whole numbers are taken, and a reply in parts. Further fields are passed over,
    unless their name looks like a slip of a known one; those that hold thoughts are kept.
    """
    if not isinstance(answer, Mapping):
        expected = 'an object like {"reply": "…"}'
        if isinstance(answer, list) and any("recipient_id" in str(part) for part in answer):
            expected += f"; {_OF_BOTS}"
        raise _wrong("the answer", answer, expected)
    record = {str(name): _plain(value) for name, value in answer.items()}
    for name in record:
        _check_name(name)
    _check_no_error(record)
    if record.get("reply") is None:
        raise _no_reply(record)
    if not isinstance(record["reply"], str | list):
        raise _wrong("'reply'", record["reply"], "a text")
    if record.get("version", VERSION) != VERSION:
        version = _quoted(record["version"])
        raise LLMError("wrong answer", f"'version' is {version}, expected {VERSION} or no such field")
    spoken = Said.within(record, "reply")
    reply = _text("'reply'", spoken.text)
    if not reply and (spoken.parts or spoken.thinking):
        holds = ", ".join(spoken.parts) or "only what the program thought; its length may have ended there"
        raise LLMError("wrong answer", f"'reply' has no words for the user; it holds {holds}")
    thinking = safety.valid(spoken.thinking)
    return Answer(reply, _recommended(record.get("recommended")), _state(record.get("state")), thinking)


def _check_no_error(record: Mapping[str, Any]) -> None:
    """Raise LLMError for an error that a program reports, whatever stands beside it."""
    for name in _ERRORS:
        if record.get(name):
            raise _reported(record[name])
    for name in _SUCCEEDS:
        if record.get(name) is False:
            words = record.get("message") or record.get("detail") or record.get("reply") or "nothing else"
            raise LLMError("wrong answer", f"the program says that {name!r} is false: {_quoted(words)}")


def _reported(error: object) -> LLMError:
    return LLMError("wrong answer", f"the program reports an error: {_quoted(error)}")


def _no_reply(record: Mapping[str, Any]) -> LLMError:
    """The fault of an answer without a reply: the error that it reports, else the fields that it has."""
    for name in _REPORTS:
        if record.get(name):
            return _reported(record[name])
    if "reply" in record:
        return _wrong("'reply'", None, "a text")
    names = ", ".join(map(repr, list(record)[:10])) or "no field"
    fault = f"'reply' is missing, expected a text; the answer has {names}"
    if "recipient" in record:
        fault += f"; {_OF_BOTS}"
    return LLMError("wrong answer", fault)


def _plain(value: object) -> Any:
    """A value of NumPy or pandas as Python's own; bytes as their text; any other value itself."""
    if isinstance(value, bytes | bytearray):
        return decoded(value)
    if isinstance(value, tuple | set):
        return list(value)
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    return to_list() if callable(to_list) else value


def _text(name: str, text: str) -> str:
    """The text with halves of characters joined; LLMError naming the field for one that is alone, NUL, and
    U+FFFD, which stands for what could not be read.
    """
    mended = safety.valid(text)
    if "\ufffd" in mended:
        fault = f"{name} has a lone half of a character or NUL ({shorten(text, 60)!a})"
        if "\ufffd" in text:
            fault = f"{name} has U+FFFD, a character that was lost ({shorten(text, 60)!a})"
        raise LLMError("wrong answer", f"{fault}; decode its bytes as what they are, mostly UTF-8")
    return mended


def _check_name(name: str) -> None:
    """Raise LLMError for a field's name that looks like a slip of a known one."""
    if name in (*_FIELDS, *THOUGHT_FIELDS, "recipient"):
        return
    hint = did_you_mean(name, _FIELDS)
    meant = hint.partition("'")[2]
    if hint and name[:1].lower() == meant[:1]:
        fields = ", ".join(_FIELDS)
        raise LLMError("wrong answer", f"{name!r} is no field of an answer{hint} (known: {fields})")


def _recommended(films: object) -> tuple[str, ...] | None:
    if films is None:
        return None
    if not isinstance(films, list):
        raise _wrong("'recommended'", films, "a list of film ids or titles")
    return tuple(_film(f"'recommended[{index}]'", _plain(film)) for index, film in enumerate(films))


def _film(name: str, film: object) -> str:
    """The id or title of a film; a whole number is an id."""
    if isinstance(film, float) and film.is_integer():
        film = int(film)
    if isinstance(film, bool) or not isinstance(film, str | int):
        raise _wrong(name, film, "a film id or a title, as a text or a whole number")
    return _text(name, str(film))


def _state(state: object) -> Mapping[str, str | list[str]] | None:
    """The stated constraints as texts, without empty ones; LLMError where they are no object of values."""
    if state is None:
        return None
    if not isinstance(state, Mapping):
        raise _wrong("'state'", state, 'an object like {"genre": "comedy"}')
    checked: dict[str, str | list[str]] = {}
    for key, stated in state.items():
        name = _text("a name in 'state'", str(key))
        value = _plain(stated)
        if isinstance(value, list):
            texts = [_value(name, _plain(part)) for part in value]
            if texts:
                checked[name] = texts
        elif value not in (None, ""):
            checked[name] = _value(name, value)
    return checked


def _value(name: str, value: object) -> str:
    """A single value of the state as a text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(f"'state.{name}'", value, "a text, a whole number, null, or a list of these")
    return _text(f"'state.{name}'", str(value))


def _wrong(name: str, value: object, expected: str) -> LLMError:
    quoted = "" if value is None else f" ({_quoted(value)})"
    return LLMError("wrong answer", f"{name} is {_kind(value)}{quoted}, expected {expected}")


def _kind(value: object) -> str:
    """What a value of JSON is, in words."""
    for kind, word in _KINDS:
        if isinstance(value, kind):
            return word
    return type(value).__name__


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return repr(shorten(" ".join(text.split()), 120))
