"""Programs behind an address: one of the contract's own, or a server of somebody else's protocol."""

import json
import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm import http
from crs_lib.llm.base import LLMError
from crs_lib.systems import contract
from crs_lib.systems.channels import Channel, Function, Instance, Process

_HEADERS = {"content-type": "application/json", "accept": "application/json"}


@dataclass
class Conversation:
    """What belongs to one conversation with a server: its cookies, its name there, and whether its last
    message was of version 1.0.
    """

    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    context: str | None = None
    newer: bool = False


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

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        self.url = self.parsed(argument)
        self.timeout = timeout
        self.bare = not urlsplit(self.url).path
        if self.bare:
            self.url += self.path
        self.headers = dict(_HEADERS)
        self._clients = http.Clients(_client, timeout, os.environ.get(self.key))
        self._conversations: dict[str, Conversation] = {}

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        """The JSON value that is posted for a request."""
        return request

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The answer of the contract in the JSON value that comes back."""
        return answer

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
            fault = f"no server answers at {url.geturl()} ({error}); is it running, and is the address right?"
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
        record = self.body(request, conversation)
        content = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
        text = self.sent("POST", self.url, content, conversation)
        if not self.name:
            return contract.parse(text)
        try:
            return self.read(safety.loads(text, "the answer"), conversation)
        except (InputError, LookupError, TypeError, AttributeError, ValueError) as error:
            fault = f"{self.url} answered like no {self.name}: {shorten(text, 300)}"
            raise LLMError("garbled", fault, text) from error

    def sent(self, method: str, url: str, content: bytes | None, conversation: Conversation) -> str:
        """The text of the answer to a request; LLMError for every other status than 200."""
        client: httpx.Client = self._clients.at(self.url)
        body = bytearray()
        cookies = {"cookies": conversation.cookies}
        try:
            with (
                self._clients.in_time(),
                client.stream(
                    method, url, content=content, headers=self.headers, extensions=cookies
                ) as answer,
            ):
                for piece in answer.iter_bytes():
                    body += piece
                    contract.check_length(body)
        except httpx.HTTPError as error:
            fault = http.from_transport(error, url, self.timeout)
            if fault.kind == "timeout":
                fault = LLMError("too slow", str(fault))
            raise fault from error
        if self.name:
            conversation.cookies.extract_cookies(answer)
        text = body.decode("utf-8", "replace")
        if answer.status_code != 200:
            raise self._refused(answer, text)
        return text

    def _refused(self, answer: httpx.Response, text: str) -> LLMError:
        words = shorten(" ".join(text.split()) or "nothing", 300)
        fault = f"{self.url} said: {words} (HTTP {answer.status_code})"
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


class Assistant(HttpServer):
    """An OpenAI-style assistant, behind an HTTP address."""

    name = "OpenAI-style assistant"
    path = "/v1/chat/completions"
    key = "CRS_CHAT_KEY"
    example = f"http://127.0.0.1:8000{path}"

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        return {"model": self.model(), "messages": request["conversation"]}

    def read(self, answer: Any, conversation: Conversation) -> object:
        return {"reply": answer["choices"][0]["message"]["content"]}

    @classmethod
    def identity(cls, argument: str) -> str:
        """The address, and the model that is asked for."""
        address = super().identity(argument)
        model = cls.model()
        return address if model == "default" else f"{address} model:{model}"

    @staticmethod
    def model() -> str:
        """The model that an assistant is asked for."""
        return os.environ.get("CRS_CHAT_MODEL", "default")


# An item of a numbered list, at the beginning of a line or behind a colon.
_LISTED = re.compile(r"(?:^|:)[ \t]*\d+[:.)][ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


class IEvaLM(HttpServer):
    """A server of iEvaLM, behind an HTTP address."""

    name = "server of iEvaLM"
    path = "/"
    example = "http://127.0.0.1:8000/"

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        *context, message = [turn["content"] for turn in request["conversation"]]
        return {"context": context, "message": message}

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The text; where it lists items by numbers, these are what it recommends, known or not."""
        reply = {"reply": answer["response"]}
        listed = _LISTED.findall(answer["response"])
        if listed:
            reply["recommended"] = listed
        return reply


_OTHER_VERSION = (-32601, -32009)  # what an agent of version 1.0 says to a method of version 0.3
_INTERNAL = -32603  # an error of the agent that may pass
_VERSION = "A2A-Version"


class Agent2Agent(HttpServer):
    """An agent of the protocol Agent2Agent, behind an HTTP address."""

    name = "agent of the protocol Agent2Agent"
    path = "/"
    example = "http://127.0.0.1:8000/"

    def body(self, request: Mapping[str, Any], conversation: Conversation) -> object:
        """The user's latest words as a message; the agent keeps the conversation under its context."""
        if self.bare:
            self._read_card(conversation)
        text = request["conversation"][-1]["content"]
        number = f"{request['session']}-{request['turn']}"
        conversation.newer = _VERSION in self.headers
        if conversation.newer:
            method = "SendMessage"
            message = {"messageId": number, "role": "ROLE_USER", "parts": [{"text": text}]}
        else:
            method = "message/send"
            part = {"kind": "text", "text": text}
            message = {"kind": "message", "messageId": number, "role": "user", "parts": [part]}
        if conversation.context is not None:
            message["contextId"] = conversation.context
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}}

    def read(self, answer: Any, conversation: Conversation) -> object:
        """The text of a message, or of a task's artifacts, else of its status."""
        if answer.get("error"):
            raise self._fault(answer["error"], conversation)
        result = answer["result"]
        result = result.get("message") or result.get("task") or result
        conversation.context = result["contextId"]
        messages = result.get("artifacts")
        if not messages:
            messages = [result if "parts" in result else result["status"]["message"]]
        texts = []
        for message in messages:
            texts += [part["text"] for part in message["parts"] if "text" in part]
        return {"reply": "\n".join(texts)}

    def _fault(self, error: Any, conversation: Conversation) -> LLMError:
        """The error of an agent; one that knows another version alone is asked in that from now on."""
        code = error.get("code")
        message = f"the agent said: {shorten(str(error.get('message')), 300)}"
        if code in _OTHER_VERSION and not conversation.newer:
            self.headers[_VERSION] = "1.0"
            return LLMError("busy", message)
        return LLMError("busy" if code == _INTERNAL else "refused", message)

    def _read_card(self, conversation: Conversation) -> None:
        """Take the path of the JSON-RPC address from the agent's card; where it has none, the usual one."""
        with suppress(LLMError, InputError, LookupError, TypeError, AttributeError, ValueError):
            text = self.sent("GET", f"{self.url}.well-known/agent-card.json", None, conversation)
            path = urlsplit(_json_rpc(safety.loads(text, "the card"))).path
            self.url = self.url.removesuffix("/") + (path or self.path)
        self.bare = False


def _json_rpc(card: Any) -> str:
    """The JSON-RPC address of an agent's card; LookupError where it names none."""
    interfaces = [*card.get("supportedInterfaces", ()), *card.get("additionalInterfaces", ()), card]
    for interface in interfaces:
        kind = interface.get("protocolBinding") or interface.get("transport")
        if kind in ("JSONRPC", None):
            return str(interface["url"])
    raise LookupError("no interface speaks JSON-RPC")


CHANNELS: dict[str, type[Channel]] = {
    "python": Instance,
    "function": Function,
    "exec": Process,
    "http": HttpServer,
    "openai-chat": Assistant,
    "ievalm": IEvaLM,
    "a2a": Agent2Agent,
}
