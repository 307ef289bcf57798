"""Addresses that a server names, and what an address may hide: no request leaves, no secret is shown."""

import json
from functools import partial

import pytest

from crs_lib.core.errors import InputError
from crs_lib.core.safety import Address
from crs_lib.core.text import without_secrets
from crs_lib.llm import LLMError, LLMSettings, Retry
from crs_lib.systems import contract
from crs_lib.systems.programs import Programs
from tests.helpers.raw_server import RawServer, http_answer

FAST = partial(Programs, None, LLMSettings(timeout=2.0), retry=Retry(waits=0, seeds=0))
ASK = contract.request("1", 1, 3, "sample", [("USER", "A drama, please.")])
# Addresses that lead elsewhere; OTHER is the host and port of a second server, OWN that of the first.
HOSTILE = r"""
@OTHER/x
//OTHER/x
///OTHER/x
////OTHER/x
/\OTHER/x
\\OTHER\x
http://OTHER/x
https://OTHER/x
HTTP://OTHER/x
http:OTHER/x
http:/OTHER/x
http:///OTHER/x
http://OWN@OTHER/x
http://OWN:pw@OTHER/x
http://OTHER@OWN/x
http://OWN\@OTHER/x
http://OWN#@OTHER/x
http://OWN?@OTHER/x
http://OWN;@OTHER/x
http://OWN.OTHER/x
http://OWN%2f@OTHER/x
http://OWN%40OTHER/x
http:// OTHER/x
.example.invalid/x
8/x
0/x
OTHER/x
x
?x
#x
ws://OWN/x
ftp://OWN/x
https://OWN/x
file:///etc/passwd
javascript:alert(1)
data:,x
http://[::1/x
http://127.0.0.1:x/
http://127.0.0.1/x
http://127.0.0.2:1/x
http://127.1:1/x
http://2130706433/x
http://OWN0/x
gopher://OTHER/x
unix:///tmp/x
http://ⓞther.invalid/x
http://OTHER。/x
""".strip("\n").split("\n")
HOSTILE += ["", "/\t/OTHER/x", "http://OWN\n@OTHER/x", " http://OTHER/x"]


def filled(address, own, other):
    """The address with the hosts of both servers."""
    host = len("http://")
    return address.replace("OWN", own.url[host:]).replace("OTHER", other.url[host:])


def test_at_least_forty_hostile_addresses_are_tried():
    assert len(set(HOSTILE)) >= 40


@pytest.mark.parametrize("address", HOSTILE)
@pytest.mark.parametrize("key", ["url", "supportedInterfaces"])
def test_a_card_sends_no_conversation_to_another_host(address, key):
    answer = http_answer({"jsonrpc": "2.0", "id": "1", "result": {"parts": [{"text": "Hi"}]}})
    with RawServer(answer) as other, RawServer(answer) as own, FAST() as programs:
        url = filled(address, own, other)
        card = {"url": url} if key == "url" else {key: [{"url": url, "protocolBinding": "JSONRPC"}]}
        own.answers.insert(0, http_answer(json.dumps(card)))
        with pytest.raises(LLMError) as failure:
            programs.ask(f"a2a:{own.url}", ASK)
        assert other.connections == 0
        assert own.connections == 1  # the card alone
    assert failure.value.kind == "refused"


@pytest.mark.parametrize("address", HOSTILE)
def test_a_redirect_is_followed_nowhere(address):
    with RawServer(http_answer("{}")) as other, RawServer(b"") as own, FAST() as programs:
        location = filled(address, own, other).replace("\n", "").encode("ascii", "ignore").decode()
        own.answers[0] = http_answer("", "302 Found", f"location: {location}")
        with pytest.raises(LLMError):
            programs.ask(f"http:{own.url}/reply", ASK)
        assert other.connections == 0
        assert own.connections == 1


@pytest.mark.parametrize("named", ["/rpc", "http://OWN/rpc", "http://localhost:PORT/rpc", "HTTP://OWN/rpc"])
def test_a_card_may_name_a_path_or_an_address_of_its_own_server(named):
    answer = http_answer({"jsonrpc": "2.0", "id": "1", "result": {"parts": [{"text": "Hi"}]}})
    with RawServer(answer) as own, FAST() as programs:
        port = own.url.rpartition(":")[2]
        url = filled(named, own, own).replace("PORT", port)
        own.answers.insert(0, http_answer({"url": url}))
        assert programs.ask(f"a2a:{own.url}", ASK).reply == "Hi"
        assert own.heads[-1].startswith(b"POST /rpc ")


SECRET = "s3cret"
SHOWN = {
    f"http://me:{SECRET}@host/reply": "http://…@host/reply",
    f"http://{SECRET}@host": "http://…@host",
    f"http://me:x://{SECRET}@host": "http://…@host",
    f"http:me:{SECRET}@host/reply": "http:…@host/reply",
    f"tcp://me:{SECRET}@host:8786": "tcp://…@host:8786",
    f"http://host/v1?key={SECRET}": "http://host/v1?…",
    f"Ours=openai-chat:http://a:{SECRET}@host/v1?key={SECRET} failed": "Ours=openai-chat:…@host/v1?… failed",
    f'{{"host": "http://me:{SECRET}@host"}}': '{"host": "http://…@host"}',
    "http://host/o?api-version=2024-10-21": "http://host/o?api-version=2024-10-21",
    "write to me@host, is it so?": "write to me@host, is it so?",
}


@pytest.mark.parametrize("text", SHOWN)
def test_a_message_shows_an_address_without_its_secrets(text):
    assert without_secrets(text) == SHOWN[text]
    assert str(InputError(text)) == SHOWN[text]
    assert str(LLMError("refused", text)) == SHOWN[text]
    assert SECRET not in f"{Address(text)} {Address(text)!r}"
