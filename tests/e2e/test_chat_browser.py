"""The page of a chat in a real browser: it opens from disk, stays quick with 6,000 messages, and axe-core passes."""

import time

from crs_lib.core import paths
from crs_lib.realtalk import corpus, describe, index, query, ranker
from crs_lib.report.page import document
from tests.helpers import browser as chromium

PROGRAM, pytestmark = chromium.PROGRAM, chromium.MARKS


def written(folder, chat):
    built = index.build(chat, "hashing")
    path = folder / f"{chat.name}.html"
    told = list(query.predict(built, ranker.Hand()))
    path.write_text(
        document(chat.name, "?", "", describe.sections(built, told), "chat.css"), encoding="utf-8"
    )
    return path


def long_chat(messages):
    talk = [
        {
            "clean_text": f"Message {i} about topic {i // 40}",
            "speaker": "Ann" if i % 2 else "Ben",
            "dia_id": f"D{i // 100 + 1}:{i % 100 + 1}",
        }
        for i in range(messages)
    ]
    sessions = {f"session_{n + 1}": talk[100 * n : 100 * n + 100] for n in range(messages // 100)}
    return corpus._parse_chat(
        {"name": {"speaker_1": "Ann", "speaker_2": "Ben"}, "qa": [], **sessions}, "long"
    )


def test_axe_finds_nothing_wrong_and_links_lead_to_messages(tmp_path):
    path = written(tmp_path, corpus.read_chat(paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"))
    with chromium.Browser(PROGRAM) as browser:
        page = browser.page()
        page.open(path)
        assert page.axe() == []
        page.dark()
        assert page.axe("color-contrast") == []
        page.js("document.querySelector('details a').click()")
        assert page.wait(
            "document.querySelector('li:target') && document.querySelector('li:target').id.startsWith('D')"
        )
        page.size(390, 800)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        assert page.complaints() == []
        assert {url for url in page.requests() if not url.startswith("about:")} <= {path.as_uri()}


def test_six_thousand_messages_open_at_once(tmp_path):
    path = written(tmp_path, long_chat(6000))
    with chromium.Browser(PROGRAM) as browser:
        page = browser.page()
        start = time.monotonic()
        page.open(path)
        assert page.js("document.querySelectorAll('.segment li').length") == 6000
        assert time.monotonic() - start < 10 and page.complaints() == []
