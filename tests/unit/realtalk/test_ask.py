"""A question of one's own at the command line, refused where the chat holds no answer; the page of a chat."""

import re

import pytest

from crs_lib.cli import app
from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.realtalk import describe, index, query, ranker
from crs_lib.report import page as pages

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"
RULES = ("--encoder", "hashing", "--ranker", "hand")


def ask(question, *more, words=("realtalk", "predict", "--ask")):
    app._do(*app.find([*words, question, "--chat", str(CHAT), *RULES, *more]))


@pytest.mark.parametrize(
    "words", [("realtalk", "predict", "--ask"), ("realtalk-answer",), ("realtalk", "answer")]
)
def test_an_answer_comes_with_its_messages_their_days_and_how_sure_it_is(capsys, sample, words):
    question = next(q for q in sample.questions if "Mira" in q.text)
    ask(question.text, words=words)
    said = capsys.readouterr().out
    assert re.search(r"^answer: \S", said, re.M)
    assert int(re.search(r"^how sure: (\d+) %", said, re.M)[1]) >= 100 * query.SURE
    shown = re.findall(r"^(D\d+:\d+)  (\d\d \w+ \d{4} \d\d:\d\d)  (Mira|Tobias): ", said, re.M)
    assert shown and all(sample.messages[sample.position[name]].time for name, _, _ in shown)


def test_a_question_about_another_chat_is_refused_and_its_nearest_messages_are_shown(capsys, tmp_path):
    ask("Which instrument did Zebulon pawn in Ouagadougou?", "--out", str(tmp_path / "one.jsonl"))
    said = capsys.readouterr().out
    assert said.startswith("no answer in this chat\nhow sure: ") and "answer: " not in said
    assert len((tmp_path / "one.jsonl").read_text().splitlines()) == 1


def test_something_is_to_be_done_with_a_chat():
    with pytest.raises(InputError, match="--out FILE, --page FILE or --ask"):
        app._do(*app.find(["realtalk", "predict", "--chat", str(CHAT)]))


def test_names_that_a_chat_never_says_lower_the_confidence(built, told):
    record = next(one for one in told if "Mira" in one["question"])
    other = {**record, "question": record["question"].replace("Mira", "Zebulon")}
    assert 0 < query.confidence(built, other) < query.confidence(built, record) < 1


def test_the_page_holds_every_message_and_each_link_leads_somewhere(tmp_path, sample):
    path = tmp_path / "chat.html"
    app._do(*app.find(["realtalk", "predict", "--chat", str(CHAT), "--page", str(path), *RULES]))
    text = path.read_text(encoding="utf-8")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) and {message.id for message in sample.messages} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert not re.search(r'(?:src|href)="(?!#)', text) and "<script" not in text
    assert text.count('<div class="segment"') == len(index.build(sample, "hashing").segments)
    assert "default-src 'none'; style-src 'sha256-" in text


def test_texts_of_a_chat_cannot_break_its_page(make_chat):
    chat = make_chat(
        [("Ann", "<script>alert(1)</script>"), ("Ben", "</li>&\"'")], qa=[{"question": "<b>Who?</b>"}]
    )
    built = index.build(chat, "hashing")
    parts = describe.sections(built, list(query.predict(built, ranker.Hand())))
    text = pages.document("<i>", "?", "", parts, "chat.css")
    assert "<script" not in text and "<b>Who" not in text and "<i>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
