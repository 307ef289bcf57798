"""Five planted secrets: none stands in a file of results, on standard output or on standard error."""

import json

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
USERINFO = f"http://me:{SECRETS['userinfo']}@127.0.0.1:9"
QUERY = f"http://127.0.0.1:9/v1?key={SECRETS['query']}"
SCHEDULER = f"tcp://me:{SECRETS['scheduler']}@127.0.0.1:9"
SMALL = ["-p", "run", "r", "-p", "n_sessions", "1", "-p", "n_turns", "2"]


class Echo(Answering):
    """An assistant that says the key that it was sent, or refuses and says it."""

    def do_POST(self):
        key = self.headers.get("authorization", "")
        if self.owner.status != 200:
            self.answer(f"no such key: {key}", self.owner.status)
            return
        message = {"role": "assistant", "content": f"You could watch Metropolis (1927). {key}"}
        self.answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def systems(*specs):
    return ["-p", "systems", json.dumps(specs)]


def host(address):
    return ["-p", "llm", json.dumps({"host": address})]


# The words of each command; SERVER stands for the address of a server that answers.
REFUSED = {
    "simulate, userinfo": ["simulate", *SMALL, *systems(f"{USERINFO}/reply")],
    "simulate, query": ["simulate", *SMALL, *systems(f"openai-chat:{QUERY}")],
    "simulate, host": ["simulate", *SMALL, *systems("openai:m"), *host(USERINFO)],
    "simulate, scheduler": ["simulate", *SMALL, *systems("tracker"), "--scheduler", SCHEDULER],
    "simulate, notebook": ["run", "03_simulate", *SMALL, *systems(f"a2a:{USERINFO}")],
    "compare, userinfo": ["compare", f"Ours={USERINFO}/reply", "--n", "2"],
    "compare, query": ["compare", f"Ours=openai-chat:{QUERY}", "--n", "2"],
    "compare, odd": ["compare", f"Ours=http:me:{SECRETS['userinfo']}@127.0.0.1:9/reply", "--n", "2"],
    "chat, userinfo": ["chat", "--simulated", f"{USERINFO}/reply"],
    "chat, query": ["chat", "--simulated", f"ievalm:{QUERY}"],
    "chat, like a scheme": ["chat", "--simulated", f"http:x://{SECRETS['userinfo']}@127.0.0.1:9/r"],
    "judge, host": ["judge", "r", "--judges", "openai:m", "--llm", json.dumps({"host": USERINFO})],
    "judge, query": ["judge", "r", "--judges", "openai:m", "--llm", json.dumps({"host": QUERY})],
    "data import, userinfo": ["data", "import", f"{USERINFO}/log.jsonl"],
    "data import, run": ["data", "import", f"{USERINFO}/log.jsonl", "--run", "r"],
}  # fmt: skip
AT_WORK = {
    "simulate": ["simulate", *SMALL, *systems("openai-chat:SERVER")],
    "chat": ["chat", "--simulated", "openai-chat:SERVER"],
    "compare": ["compare", "Ours=openai-chat:SERVER", "--against", "random", "--n", "2"],
}


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


@pytest.mark.parametrize("command", REFUSED)
def test_planted_secrets_stand_in_no_file_and_no_stream(command, planted, capsys):
    assert main(REFUSED[command]) == 2
    assert all_places(planted, capsys) == []


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("command", ["simulate", "chat", pytest.param("compare", marks=pytest.mark.full)])
def test_a_key_that_is_sent_stands_in_no_file_and_no_stream(command, status, planted, capsys):
    with Served(Echo) as server:
        server.status = status
        words = [word.replace("SERVER", server.url) for word in AT_WORK[command]]
        assert main(words) == (0 if status == 200 else 2)
    assert all_places(planted, capsys) == []


@pytest.mark.parametrize(
    "command", [["simulate", *SMALL, *systems("ollama:m")], ["chat", "--simulated", "openai:m"]]
)
def test_an_address_of_the_environment_is_refused_and_not_shown(command, planted, capsys):
    assert main(command) == 2
    assert all_places(planted, capsys) == []
