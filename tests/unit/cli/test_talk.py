"""``try``, ``chat`` and ``catalog export``, and the adapters of docs/your-system.md, copied and run."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from crs_lib import simulate
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.cli import app
from crs_lib.core import paths
from crs_lib.llm import LLMError
from crs_lib.systems import contract
from tests.helpers.programs import ProgramServer
from tests.helpers.raw_server import Answering, Served

PAGE = (paths.ROOT / "docs" / "your-system.md").read_text(encoding="utf-8")


def code(name):
    """The code that stands between two comments of the page."""
    return re.search(rf"<!-- {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.subprocess
def test_the_adapter_of_the_page_is_short_and_is_scored(here, capsys):
    text = code("adapter")
    assert len(text.splitlines()) < 30
    (here / "adapter.py").write_text(text, encoding="utf-8")
    assert main(["catalog", "export", "--catalog", "sample", "--out", "films.jsonl"]) == 0
    spec = f"exec:{sys.executable} adapter.py films.jsonl"
    assert main(["try", spec]) == 0
    out = capsys.readouterr().out
    assert "Understood: 3 replies, 9 films, 0 titles outside the catalogue, 0 states" in out
    sizes = ["-p", "n_sessions", "4", "-p", "n_turns", "5"]
    assert main(["simulate", "-p", "run", "mine", "-p", "systems", json.dumps(["random", spec]), *sizes]) == 0
    mine = [talk for talk in simulate.dialogues("mine") if talk.model_name == spec]
    assert len(mine) == 4
    assert all(len(pair.system.meta["rec_ids"]) == 3 for talk in mine for pair in talk.pairs())
    assert not any(pair.system.meta["hallucinated_titles"] for talk in mine for pair in talk.pairs())


class Bot(Answering):
    """A bot that keeps a conversation by its sender, behind Rasa's webhook or as DialogueKit answers."""

    def do_POST(self):
        request = self.read()
        is_rasa = isinstance(request["sender"], str)
        sender = request["sender"] if is_rasa else request["sender"]["id"]
        text = request["message"] if is_rasa else request["message"]["text"]
        self.owner.heard.setdefault(sender, []).append(text)
        words = "You could watch Metropolis (1927)."
        if is_rasa:
            self.answer([{"recipient_id": sender, "text": words}, {"recipient_id": sender, "image": "x"}])
        else:
            self.answer({"recipient": {"id": sender}, "message": {"text": words, "intent": None}})


@pytest.mark.subprocess
@pytest.mark.parametrize("kind", ["rasa", "dialoguekit"])
def test_the_adapter_for_bots_that_keep_a_conversation_by_sender(kind, here):
    assert len(code("bot").splitlines()) <= 24
    (here / "bot.py").write_text(code("bot"), encoding="utf-8")
    with Served(Bot) as server:
        server.heard = {}
        spec = f"exec:{sys.executable} bot.py {server.url}/webhooks/rest/webhook {kind}"
        values = [
            "systems",
            json.dumps([spec]),
            "n_sessions",
            "2",
            "n_turns",
            "3",
            "llm",
            '{"stateless": false}',
        ]
        words = ["-p", "run", "bots"]
        for name, value in zip(values[::2], values[1::2], strict=True):
            words += ["-p", name, value]
        assert main(["simulate", *words]) == 0
    talks = list(simulate.dialogues("bots"))
    assert len(talks) == 2
    assert all(pair.system.meta["rec_titles"] == ["Metropolis"] for talk in talks for pair in talk.pairs())
    texts = [[pair.user.text for pair in talk.pairs()] for talk in talks]
    assert all(text in server.heard.values() for text in texts)


@pytest.mark.parametrize(
    "answer",
    [{"recipient": {"id": "1"}, "message": {"text": "Hi"}}, [{"recipient_id": "1", "text": "Hi"}]],
)
def test_the_answer_of_such_a_bot_is_told_with_the_cure(answer):
    with pytest.raises(LLMError, match="need the adapter of docs"):
        contract.read(answer)


@pytest.mark.subprocess
@pytest.mark.slow
def test_the_class_of_the_page_stands_in_notebooks_and_states_a_state_that_is_read(here, capsys):
    assert (paths.notebooks() / "my_system.py").read_text(encoding="utf-8").endswith(code("class"))
    assert main(["try", "python:my_system:MySystem"]) == 0
    out = capsys.readouterr().out
    constraints, states = (re.findall(rf"{what} +genre = (\w+)", out) for what in ("constraints", "state"))
    assert len(states) == 3
    assert states[0] == constraints[0]
    assert "0 titles outside the catalogue, 3 states" in out


def test_try_asks_three_turns_that_tell_all_constraints(capsys):
    seen = []

    def answer(request):
        seen.append(request)
        return 200, {"reply": "See Metropolis.", "recommended": ["metropolis-1927", "No \x1b[31mSuch Film"]}

    with ProgramServer(answer) as server:
        assert main(["try", server.url, "--session", "3"]) == 0
    assert [request["turn"] for request in seen] == [1, 2, 3]
    said = [one["content"] for one in seen[2]["conversation"] if one["role"] == "user"]
    out = capsys.readouterr().out
    assert all(text in out for text in said)
    assert "\x1b" not in out
    assert "Metropolis (1927) [metropolis-1927], meets " in out
    assert re.search(r"unknown +No \\x1b\[31mSuch Film", out)
    assert "3 films, 3 titles outside the catalogue" in out
    assert json.dumps([server.url]) in out
    first, second, third = re.findall(" constraints (.*)", out)
    assert (first.count(","), second.count(",")) == (0, 1)
    assert third != second


def test_try_says_what_is_wrong_in_one_line(capsys):
    with ProgramServer(lambda _: (200, {"text": "Hi"})) as server:
        for spec, says in (
            (server.url, "gave no usable answer (wrong answer): 'reply' is missing, expected a text"),
            ("http://127.0.0.1:9/", "no server answers at http://127.0.0.1:9"),
            ("traker", "did you mean 'tracker'"),
        ):
            assert main(["try", spec]) == 2
            assert says in capsys.readouterr().err


def test_chat_shows_spans_state_and_films_and_keeps_the_conversation(here, capsys, monkeypatch):
    typed = io.StringIO("I would like a comedy from 1936\n\nForget comedy, a war film please\n")
    monkeypatch.setattr(sys, "stdin", typed)
    assert main(["chat", "tracker", "--out", "talk.jsonl"]) == 0
    out = re.sub(" +", " ", capsys.readouterr().out)
    assert "spans comedy genre=Comedy; 1936 year=1936" in out
    assert "tracked genre = Comedy, year = 1936" in out
    assert "tracked year = 1936, genre = War" in out or "tracked genre = War, year = 1936" in out
    assert "Modern Times (1936) [modern-times-1936], meets 2 of 2" in out
    assert "ended after 2 turns" in out
    record = json.loads((here / "talk.jsonl").read_text())
    assert [turn["speaker"] for turn in record["conversation"]] == ["USER", "SYSTEM"] * 2
    assert record["conversation"][1]["rec_ids"]


@pytest.mark.slow
def test_chat_ends_cleanly_on_an_interrupt_and_refuses_what_reads_the_log(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert main(["chat", "tracker"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("ended after 0 turns")
    assert main(["chat", "oracle"]) == 2
    assert "oracle reads the log of a simulated user" in capsys.readouterr().err


@pytest.mark.slow
def test_the_catalogue_of_a_run_is_exported_whole(here, capsys):
    simulate.prepare("r", "sample")
    assert main(["catalog", "export", "--run", "r", "--out", "films.jsonl"]) == 0
    assert main(["catalog", "export", "--out", "sample.jsonl"]) == 0  # by default the sample's
    assert Path("sample.jsonl").read_bytes() == Path("films.jsonl").read_bytes()
    films = [json.loads(line) for line in Path("films.jsonl").read_text(encoding="utf-8").splitlines()]
    catalog = sources.load()
    ids = [item.item_id for item in catalog.items]
    assert [film["id"] for film in films] == ids
    shown = {film["id"] for film in films if film["recommendable"]}
    assert shown == {ids[i] for i in catalog.query({}).items}
    one = next(film for film in films if film["id"] == "metropolis-1927")
    assert (one["title"], one["year"], one["director"]) == ("Metropolis", 1927, ["Fritz Lang"])
    for words, message in (
        ([], "needs --out"),
        (["--run", "none", "--out", "x"], "no finished 03_simulate in run 'none'; make it with"),
        (["--run", "r", "--catalog", "films.jsonl", "--out", "x"], "give --run, or --catalog"),
    ):
        assert main(["catalog", "export", *words]) == 2
        assert message in capsys.readouterr().err


def test_foreign_text_does_not_steer_the_terminal(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    with app.escaped():
        print("Fine.", "\x1b[31mred", "\x1b[2J")
    assert shown.getvalue() == "Fine. \\x1b[31mred \\x1b[2J\n"


def test_only_the_author_of_a_program_is_told_of_the_field_recommended(capsys):
    assert main(["chat", "--simulated", "slot_echo"]) == 0
    out = capsys.readouterr().out
    assert "No film was read: its replies name no film of this catalogue by title." in out
    assert "'recommended'" not in out
    with ProgramServer(lambda _: (200, {"reply": "Which genre?"})) as server:
        assert main(["chat", "--simulated", server.url]) == 0
    assert "name films as 'recommended'" in capsys.readouterr().out
