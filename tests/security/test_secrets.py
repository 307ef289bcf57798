"""Five planted secrets: none stands in a file of results, on standard output or on standard error."""

import shlex

import pytest

from crs_lib.__main__ import main
from tests.helpers.raw_server import Answering, Served

SECRETS = {
    "userinfo": "planted-userinfo-71",
    "query": "planted-query-72",
    "header": "planted-header-73",
    "scheduler": "planted-scheduler-74",
    "environment": "planted-environment-75",
}


class Echo(Answering):
    """An assistant that says the key that it was sent, or refuses and says it."""

    def do_POST(self):
        key = self.headers.get("authorization", "")
        if self.owner.status != 200:
            self.answer(f"no such key: {key}", self.owner.status)
            return
        message = {"role": "assistant", "content": f"You could watch Metropolis (1927). {key}"}
        self.answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


# The command lines that are refused; USER is an address with a password, QUERY one with a key.
REFUSED = """
simulate SMALL -p systems '["USER/reply"]'
simulate SMALL -p systems '["openai-chat:QUERY"]'
simulate SMALL -p systems '["openai:m"]' -p llm '{"host": "USER"}'
simulate SMALL -p systems tracker --scheduler SCHEDULER
run 03_simulate SMALL -p systems '["a2a:USER"]'
compare Ours=USER/reply --n 2
compare Ours=openai-chat:QUERY --n 2
compare Ours=http:me:PASSWORD@127.0.0.1:9/reply --n 2
chat --simulated USER/reply
chat --simulated ievalm:QUERY
chat --simulated http:x://PASSWORD@127.0.0.1:9/r
judge r --judges openai:m --llm '{"host": "USER"}'
judge r --judges openai:m --llm '{"host": "QUERY"}'
data import USER/log.jsonl
data import USER/log.jsonl --run r
simulate SMALL -p systems '["ollama:m"]'
chat --simulated openai:m
"""
# Those of commands at work; SERVER is the address of a server that answers.
AT_WORK = {
    "simulate": """simulate SMALL -p systems '["openai-chat:SERVER"]'""",
    "chat": "chat --simulated openai-chat:SERVER",
    "compare": "compare Ours=openai-chat:SERVER --against random --n 2",
}
PARTS = {
    "SMALL": "-p run r -p n_sessions 1 -p n_turns 2",
    "USER": f"http://me:{SECRETS['userinfo']}@127.0.0.1:9",
    "QUERY": f"http://127.0.0.1:9/v1?key={SECRETS['query']}",
    "SCHEDULER": f"tcp://me:{SECRETS['scheduler']}@127.0.0.1:9",
    "PASSWORD": SECRETS["userinfo"],
}


def words_of(line, **more):
    """The words of a command line, its parts filled in."""
    for name, value in {**PARTS, **more}.items():
        line = line.replace(name, value)
    return shlex.split(line)


@pytest.fixture(autouse=True)
def planted(tmp_path, monkeypatch):
    """The results folder, and the secrets of the environment."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("CRS_CHAT_KEY", SECRETS["header"])
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["environment"])
    monkeypatch.setenv("OLLAMA_HOST", f"http://me:{SECRETS['environment']}@127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://me:{SECRETS['environment']}@127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def places_of(secret, folder, streams):
    """Where a secret stands: files of a folder, and streams."""
    places = [
        path.name for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    return places + [name for name, text in streams.items() if secret in text]


def all_places(folder, capsys):
    captured = capsys.readouterr()
    streams = {"stdout": captured.out, "stderr": captured.err}
    places = []
    for kind, secret in SECRETS.items():
        places += [(kind, name) for name in places_of(secret, folder, streams)]
    return places


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_planted_secrets_stand_in_no_file_and_no_stream(line, planted, capsys):
    assert main(words_of(line)) == 2
    assert all_places(planted, capsys) == []


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("command", ["simulate", "chat", pytest.param("compare", marks=pytest.mark.full)])
def test_a_key_that_is_sent_stands_in_no_file_and_no_stream(command, status, planted, capsys):
    with Served(Echo) as server:
        server.status = status
        assert main(words_of(AT_WORK[command], SERVER=server.url)) == (0 if status == 200 else 2)
    assert all_places(planted, capsys) == []
