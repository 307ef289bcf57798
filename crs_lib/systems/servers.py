"""Programs behind an address: one of the contract's own, or a server of somebody else's protocol."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.safety import Address
from crs_lib.core.text import Said, said, shorten
from crs_lib.llm import http
from crs_lib.llm.base import LLMError
from crs_lib.llm.settings import LLMSettings
from crs_lib.systems import contract
from crs_lib.systems.channels import Channel, Function, Instance, Process

_ENDS = 5.0  # seconds that a server may take to end
_OF_STREAMS = ("data:", "event:", "id:", "retry:", ": ")  # how streams of events begin
_HEADERS = {"content-type": "application/json", "accept": "application/json"}


@dataclass
class Conversation:
    """What belongs to one conversation with a server: its cookies, its name there, the task that waits for
    the user's words, and whether its last message was of version 1.0.
    """

    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    context: str | None = None
    task: str | None = None
    newer: bool = False


class LaneServer:
    """A server of the user's own that a command starts anew: its process, and the ``url`` of a spec with the
    port that it was given. LLMError where it ends, or does not listen within ``seconds``.
    """

    def __init__(self, command: str, url: str, seconds: float) -> None:
        port = _free_port()
        self.url = urlsplit(url)._replace(netloc=f"127.0.0.1:{port}").geturl()
        words = shlex.split(command.replace("{port}", str(port)))
        nothing = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(words, stdin=nothing, stdout=nothing, start_new_session=True)
        except OSError as error:
            raise LLMError("not started", f"fresh_server {command!r} cannot be started ({error})") from error
        end = time.monotonic() + seconds
        while not _listens(port):
            if self._process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
                continue
            self.close()
            raise LLMError("not started", f"fresh_server {command!r} does not listen at port {port}")

    def close(self) -> None:
        """End the server and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_ENDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _free_port() -> int:
    """A port of this machine that nothing listens to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class HttpServer(Channel):
    """A program behind an HTTP address, as docs/your-system.md describes.
    Connection faults and answers of status 5xx are worth another attempt, those of 4xx are not, and a request
    that was not answered in time is not sent again. A subclass speaks to servers of others: they have a
    ``name``, are asked again where an answer does not follow their protocol, and get back the cookies of each
    conversation. ``path`` stands behind an address that has none. The environment variable ``key`` holds the
    key that goes to such a server, and to no other channel's.
    """

    argument = "a URL"
    example = "//127.0.0.1:8000/reply"
    shared = True
    name = ""
    path = ""
    key = ""

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        self.llm = llm
        self.address = Address(self.endpoint(urlsplit(self.parsed(argument))))
        self.headers = dict(_HEADERS)
        self._clients = http.Clients(_client, llm.timeout, os.environ.get(self.key))
        self._conversations: dict[str, Conversation] = {}

    def endpoint(self, url: SplitResult) -> str:
        """The address to which requests go, from the one that the user gave."""
        return url._replace(path=url.path or self.path).geturl()

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        """The JSON value that is posted for a request."""
        return request

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The answer of the contract in the JSON value that comes back."""
        return answer

    def joined(self, events: Sequence[Any], *, ended: bool) -> Any:
        """The whole answer in the events of a stream; InputError where streams are not read."""
        raise InputError("it streams: let it answer whole")

    @staticmethod
    def parsed(argument: str) -> str:
        """The URL of an argument: ``http:localhost:8000/reply``, ``http://…`` and ``http:https://…``.
        InputError for what is no address, and for one that holds a name and password or a query.
        """
        text = f"http:{argument}" if argument.startswith("//") else argument
        addresses = http.parse(text, port=80, variable="http:URL")
        if len(addresses) > 1:
            raise InputError("several addresses; give each a system of its own")
        return addresses[0]

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where nothing listens at the address; nothing is sent."""
        url = urlsplit(cls.parsed(argument))
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            socket.create_connection((url.hostname or "", port), timeout=10).close()
        except OSError as error:
            address = Address(url.geturl())
            fault = f"no server answers at {address} ({error}); is it running, and is the address right?"
            raise LLMError("unreachable", fault) from error

    @classmethod
    def identity(cls, argument: str) -> str:
        """The address: a server does not say which version of a program it runs."""
        return f"address:{cls.parsed(argument)}"

    def ask(self, request: Mapping[str, Any]) -> object:
        """Post the request and read the answer."""
        session = request["session"]
        if request["turn"] == 1 or session not in self._conversations:
            self._conversations[session] = Conversation()
        conversation = self._conversations[session]
        text = self.posted(self.body(request, conversation), conversation)
        if not self.name:
            return contract.parse(text)
        try:
            answer = self._whole(text)
            self._check_no_error(answer)
            return self.read(answer, conversation)
        except (InputError, LookupError, TypeError, AttributeError, ValueError) as error:
            fault = f"{self.address} answered like no {self.name}: {shorten(' '.join(text.split()), 300)}"
            if text.lstrip().startswith(_OF_STREAMS):
                fault += f"; {error}"
            raise LLMError("garbled", fault, text) from error

    def _whole(self, text: str) -> Any:
        """The JSON value of an answer, also of one that came as a stream, which nobody asked for."""
        if not text.lstrip().startswith(_OF_STREAMS):
            return safety.loads(text, "the answer", mend=False)
        events = []
        for event in re.split(r"\n\n", text.replace("\r\n", "\n")):
            data = [line[5:] for line in event.split("\n") if line.startswith("data:")]
            content = "\n".join(data).strip()
            if content and content != "[DONE]":
                events.append(safety.loads(content, "an event", mend=False))
        return self.joined(events, ended=text.rstrip().endswith("[DONE]"))

    def posted(self, record: object, conversation: Conversation) -> str:
        """The text of the answer to a JSON value."""
        content = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
        return self.sent("POST", self.address, content, conversation)

    def _check_no_error(self, answer: Any) -> None:
        """Raise LLMError for an error that comes with status 200 in place of an answer."""
        http.check_no_error(answer, str(self.address))

    def sent(self, method: str, to: Address, content: bytes | None, conversation: Conversation) -> str:
        """The text of the answer to a request; LLMError for every other status than 200, 201 and 203."""
        client: httpx.Client = self._clients.at(self.address.url)
        options: dict[str, Any] = {"content": content, "headers": self.headers}
        options["extensions"] = {"cookies": conversation.cookies}
        body = bytearray()
        try:
            with self._clients.in_time(), client.stream(method, to.url, **options) as answer:
                for piece in answer.iter_bytes():
                    body += piece
                    contract.check_length(body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # also of the address in a redirect
            fault = http.from_transport(error, to.url, self.llm.timeout)
            if fault.kind == "timeout":
                fault = LLMError("too slow", str(fault))
            raise fault from error
        if self.name:
            conversation.cookies.extract_cookies(answer)
        if answer.status_code not in (200, 201, 203):
            raise self._refused(answer, body.decode("utf-8", "replace"))
        return contract.decoded(body, answer.charset_encoding or "")

    def _refused(self, answer: httpx.Response, text: str) -> LLMError:
        """The failure of an answer with another status: "busy" where it may pass, else "refused"."""
        words = shorten(" ".join(text.split()) or "nothing", 300)
        fault = f"{self.address} said: {words} (HTTP {answer.status_code})"
        if answer.status_code in http.BUSY or answer.status_code >= 500:
            return LLMError("busy", fault, pause=http.pause_of(answer.headers))
        if answer.status_code in (301, 302, 303, 307, 308):
            elsewhere = shorten(answer.headers.get("location", "nowhere"), 200)
            fault += f"; it sends on to {elsewhere}: give that address"
        return LLMError("refused", fault)

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()


def _client(url: str, settings: dict[str, Any]) -> httpx.Client:
    """A client that sends the cookies of the conversation that a request belongs to, and no others."""
    client = httpx.Client(**settings)
    client.event_hooks["request"].append(_set_cookies)
    return client


def _set_cookies(request: httpx.Request) -> None:
    request.extensions["cookies"].set_cookie_header(request)


_WORDLESS = ("tool_calls", "function_call", "audio")  # what an assistant may answer with in place of words
_BASE = re.compile(r"(?:/v\d\w*|/deployments/[^/]+)/?$")  # behind which the endpoint's own path stands
_DEFAULT_MODEL = "default"


class Assistant(HttpServer):
    """An OpenAI-style assistant, behind an HTTP address."""

    name = "OpenAI-style assistant"
    path = "/v1/chat/completions"
    key = "CRS_CHAT_KEY"
    example = f"http://127.0.0.1:8000{path}"

    def endpoint(self, url: SplitResult) -> str:
        """The address itself; behind a base address, which ends in a version, the endpoint."""
        if _BASE.search(url.path):
            url = url._replace(path=url.path.rstrip("/") + "/chat/completions")
        return super().endpoint(url)

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        """The model and the messages, under the names that the settings give them."""
        record = {"model": self.model(), "messages": request["conversation"]}
        for name, other in self.llm.names.items():
            value = record.pop(name, None)
            if other and value is not None:
                record[other] = value
        return record

    def joined(self, events: Sequence[Any], *, ended: bool) -> Any:
        """A completion out of its pieces; an event with an error, or with a whole message, as it is.
        LLMError for a stream without an end.
        """
        message: dict[str, Any] = {}
        completion: dict[str, Any] = {"finish_reason": None}
        model = ""
        for event in events:
            if event.get("error"):
                return event
            model = event.get("model") or model
            for choice in event.get("choices") or ():
                if "message" in choice:
                    return event
                if choice.get("error"):
                    return {"error": choice["error"]}
                for name, piece in (choice.get("delta") or {}).items():
                    if isinstance(piece, str | list) and not choice.get("index"):
                        message[name] = message[name] + piece if name in message else piece
                completion["finish_reason"] = choice.get("finish_reason") or completion["finish_reason"]
        if not (ended or completion["finish_reason"]):
            raise LLMError("dropped", f"the stream of {self.address} ended in the middle of an answer")
        return {"model": model, "choices": [{**completion, "message": message}]}

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The text of the first choice, and what the assistant thought; LLMError where there is no text, for
        an error, and for a reply that was held back.
        """
        choice = answer["choices"][0]
        self._check_model(str(answer.get("model") or ""))
        message = choice["message"]
        spoken = Said.within(message, "content")
        reply = spoken.text or message.get("refusal")
        stop = choice.get("finish_reason")
        if stop == "content_filter":
            reason = shorten(message.get("refusal") or "finish_reason is content_filter", 300)
            raise LLMError("filtered", f"{self.address} held the reply back: {reason}")
        if reply:
            return {"reply": reply, "thinking": spoken.thinking}
        wordless = [name for name in _WORDLESS if message.get(name)]
        wordless += spoken.parts
        fault = f"{self.address} answered without words (finish_reason {stop}"
        if spoken.thinking:
            fault += "; its thinking may have used up its length: give it more tokens"
        if wordless:
            fault += f"; it holds {', '.join(wordless)}: let it answer in words"
        raise LLMError("wrong answer", f"{fault})")

    def _check_model(self, theirs: str) -> None:
        """LLMError where another model answers than the one that CRS_CHAT_MODEL asks for."""
        ours = self.model()
        accepted = (self.llm.accept_model or ours).lower()
        if ours == _DEFAULT_MODEL or accepted == "*" or accepted in theirs.lower() or not theirs:
            return
        fault = f"{self.address} answered with {shorten(theirs, 80)}, not with {ours}"
        raise LLMError("other model", f"{fault}; if that is the model, set accept_model to this name")

    @classmethod
    def identity(cls, argument: str) -> str:
        """The address, and the model that is asked for."""
        address = super().identity(argument)
        model = cls.model()
        return address if model == _DEFAULT_MODEL else f"{address} model:{model}"

    @staticmethod
    def model() -> str:
        """The model that an assistant is asked for."""
        return os.environ.get("CRS_CHAT_MODEL", _DEFAULT_MODEL)


class _IEvaLM(HttpServer):
    """A server of iEvaLM, behind an HTTP address; what it lists it recommends, known or not."""

    name = "server of iEvaLM"
    path = "/"
    example = "http://127.0.0.1:8000/"

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        *context, message = [turn["content"] for turn in request["conversation"]]
        return {"context": context, "message": message}

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The text, and what the system thought."""
        spoken = Said.within(answer, "response")
        if not isinstance(answer["response"], str | list):
            raise TypeError("the response is no text")
        return {"reply": spoken.text, "thinking": spoken.thinking}


_OTHER_VERSION = (-32601, -32009)  # what an agent of version 1.0 says to a method of version 0.3
_INTERNAL = -32603  # an error of the agent that may pass
_VERSION = "A2A-Version"
_SPEAKS = ("completed", "input-required")  # states in which a task's words are a reply
_CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")  # since version 0.3, and before


class _Agent2Agent(HttpServer):
    """An agent of the protocol Agent2Agent, behind an HTTP address."""

    name = "agent of the protocol Agent2Agent"
    stateless = False  # it gets the latest words alone
    path = "/"
    example = "http://127.0.0.1:8000/"

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        super().__init__(argument, llm, catalog)
        self._bare = not urlsplit(self.parsed(argument)).path  # the card names the path
        self._halted = threading.Event()

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        """The user's latest words as a message; the agent keeps the conversation under its context."""
        if self._bare:
            self._read_card(conversation)
        text = request["conversation"][-1]["content"]
        number = f"{request['session']}-{request['turn']}"
        conversation.newer = _VERSION in self.headers
        message: dict[str, Any] = {"messageId": number, "role": "ROLE_USER", "parts": [{"text": text}]}
        if not conversation.newer:
            message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        if conversation.context is not None:
            message["contextId"] = conversation.context
        if conversation.task is not None:
            message["taskId"] = conversation.task
        method = "SendMessage" if conversation.newer else "message/send"
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}}

    def read(self, answer: Any, conversation: Conversation) -> object:
        """What a message says, or a task that has ended; LLMError for a task that failed."""
        result = _result(answer)
        conversation.context = result.get("contextId") or conversation.context
        conversation.task = None
        if "status" not in result:
            return _answer(result["parts"], "message")
        task = self._ended(result, conversation)
        state = _state(task)
        said_last = said((task["status"].get("message") or {}).get("parts")).text
        if state not in _SPEAKS:
            words = f": {shorten(said_last, 300)}" if said_last else ", without a word"
            raise LLMError("refused", f"the agent's task ended as {state}{words}")
        if state == "input-required":
            conversation.task = task["id"]
        return _answer(_parts_of(task), f"task ({state})")

    def _ended(self, task: Any, conversation: Conversation) -> Any:
        """The task when the agent works on it no more, asked for until then; LLMError after the time-out."""
        method = "GetTask" if conversation.newer else "tasks/get"

        def latest() -> Any:
            """The task as the agent reports it now."""
            record = {"jsonrpc": "2.0", "id": task["id"], "method": method, "params": {"id": task["id"]}}
            answer = safety.loads(self.posted(record, conversation), "the task", mend=False)
            http.check_no_error(answer, str(self.address))
            return _result(answer)

        if not _is_working(task):
            return task
        from tenacity import (
            RetryError,
            Retrying,
            retry_if_result,
            stop_after_delay,
            stop_when_event_set,
            wait_exponential,
        )
        from tenacity.nap import sleep_using_event

        until_it_ends = Retrying(
            retry=retry_if_result(_is_working),
            stop=stop_after_delay(self.llm.timeout) | stop_when_event_set(self._halted),
            wait=wait_exponential(0.1, max=5.0),
            sleep=sleep_using_event(self._halted),
        )
        try:
            return until_it_ends(latest)
        except RetryError as error:
            fault = f"the agent still worked on its task after {self.llm.timeout:g} seconds"
            raise LLMError("too slow", f"{fault}; raise timeout") from error

    def halt(self) -> None:
        """Ask for no task any more."""
        self._halted.set()

    def _check_no_error(self, answer: Any) -> None:
        """Raise the error of an agent; one that knows another version alone is asked in that from now on."""
        error = answer.get("error")
        if not error:
            return
        code = error.get("code")
        message = f"the agent said: {shorten(str(error.get('message')), 300)}"
        if code in _OTHER_VERSION and _VERSION not in self.headers:
            self.headers[_VERSION] = "1.0"
            raise LLMError("busy", message)
        raise LLMError("busy" if code == _INTERNAL else "refused", message)

    def _read_card(self, conversation: Conversation) -> None:
        """Take the address for JSON-RPC from the agent's card, which lies in one of two places; where there
        is none, the usual one. LLMError for an address that is not on the server.
        """
        for position in _CARDS:
            try:
                text = self.sent("GET", self.address.named(position), None, conversation)
                card = safety.loads(text, "the card")
            except InputError:
                continue
            except LLMError as error:
                if error.kind != "refused":
                    raise
                continue
            if isinstance(card, Mapping):
                self.address = self._of_card(card)
                break
        self._bare = False

    def _of_card(self, card: Mapping[str, Any]) -> Address:
        try:
            return self.address.named(_json_rpc(card))
        except InputError as error:
            raise LLMError("refused", f"the agent's card: {error}") from error


def _result(answer: Any) -> Any:
    """The message or the task in an agent's answer."""
    result = answer["result"]
    return result.get("message") or result.get("task") or result


def _state(task: Any) -> str:
    """The state of a task, in the words of version 0.3."""
    state = task["status"]["state"]
    return str("null" if state is None else state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def _is_working(task: Any) -> bool:
    """Whether the agent still works on a task."""
    return _state(task) in ("submitted", "working")


def _parts_of(task: Any) -> list[Any]:
    """The parts in which a task says something: its artifacts'; where these hold no text, those of its status
    beside them; where these hold none either, those of the agent's last message, too.
    """
    parts: list[Any] = []
    for artifact in task.get("artifacts") or ():
        parts += artifact.get("parts") or ()
    if said(parts).text or _data(parts).get("reply"):
        return parts
    message = (task.get("status") or {}).get("message") or {}
    parts += message.get("parts") or ()
    if not said(parts).text:
        messages = [message for message in task.get("history") or () if "user" not in message["role"].lower()]
        if messages:
            parts += messages[-1]["parts"]
    return parts


def _data(parts: Sequence[Any]) -> dict[str, Any]:
    """The fields of an answer of the contract that stand in parts with data."""
    fields: dict[str, Any] = {}
    for part in parts:
        data = part.get("data")
        if isinstance(data, Mapping):
            fields.update(data)
    return {name: value for name, value in fields.items() if name in ("reply", "recommended", "state")}


def _answer(parts: Sequence[Any], where: str) -> dict[str, Any]:
    """The answer of the contract in the parts of a message or task; LLMError where they hold no text."""
    spoken = said(parts)
    answer = {"reply": spoken.text, "thinking": spoken.thinking, **_data(parts)}
    if not answer["reply"]:
        holds = ", ".join(spoken.parts) or "nothing that users hear"
        raise LLMError("wrong answer", f"the agent's {where} has no text (it holds: {holds})")
    return answer


def _json_rpc(card: Mapping[str, Any]) -> str:
    """The JSON-RPC address of an agent's card; LLMError where it names none."""
    interfaces = [*card.get("supportedInterfaces", ()), *card.get("additionalInterfaces", ()), card]
    for interface in interfaces:
        kind = (
            interface.get("protocolBinding") or interface.get("transport") or card.get("preferredTransport")
        )
        if kind in ("JSONRPC", None) and interface.get("url"):
            return str(interface["url"])
    raise LLMError("refused", "the agent's card names no address for JSON-RPC, the only way it is asked here")


CHANNELS: dict[str, type[Channel]] = {
    "python": Instance,
    "function": Function,
    "exec": Process,
    "http": HttpServer,
    "openai-chat": Assistant,
    "ievalm": _IEvaLM,
    "a2a": _Agent2Agent,
}
