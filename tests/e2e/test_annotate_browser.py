"""The annotation page in a real browser: answered by keyboard, kept over a reload, exported, imported."""

import json
import time

import pytest

from crs_lib.report import page as pages
from crs_lib.validity import labels
from tests.helpers import browser as chromium
from tests.helpers.sample import scored

PROGRAM, pytestmark = chromium.PROGRAM, chromium.MARKS
RUN = "annotate-e2e"


@pytest.fixture(scope="module", autouse=True)
def run():
    return scored(RUN, systems=("oracle", "sticky"), n_sessions=8, n_turns=8)


def test_ten_questions_are_answered_by_keyboard_exported_and_imported(tmp_path):
    path = pages.write_questions(labels.AskConfig(run=RUN, n=10))
    given = [1, 2, 3, 4, 5, 5, 4, 3, 2, 1]
    with chromium.Browser(PROGRAM) as browser:
        browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        page = browser.page()
        page.open(path)
        page.click("#rater")
        page.type("a b")
        page.key("Enter")
        assert page.js("document.querySelectorAll('.said').length") >= 4
        assert page.texts(".shift b") == ["Person – wants something else"]
        for value in given[:6]:
            page.key(str(value))
        page.key("ArrowLeft")  # the sixth again
        assert page.js("document.querySelector('[aria-pressed=true]').textContent").startswith("5")
        page.key("4")
        page.open(path)  # what was answered is kept in the browser
        assert page.text("#state").startswith("Question 7 of 10 · 6 answered")
        for value in given[6:]:
            page.key(str(value))
        assert "10 answered · all done" in page.text("#state")
        assert page.js("document.getElementById('done').style.width") == "100%"
        page.key("e")
        end = time.monotonic() + chromium.PATIENCE
        while not (files := list(tmp_path.glob("labels-a-b-*.jsonl"))):
            assert time.monotonic() < end, "nothing was exported"
            time.sleep(0.05)
        assert page.complaints() == []  # the policy stops nothing of the page's own
        asked = [url for url in page.requests() if not url.startswith(("about:", "data:", "blob:"))]
        assert set(asked) == {path.as_uri()}
        page.close()
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert [row["value"] for row in rows] == [1, 2, 3, 4, 5, 4, 4, 3, 2, 1]
    assert {row["rater"] for row in rows} == {"a b"}
    found = labels.findings(RUN, files, resamples=20)
    assert len(found.labels) == 10 and len(found.correlations) > 3
    assert set(found.labels["item"]) == set(labels.read_key(RUN).questions["id"])


def test_two_raters_at_one_browser_give_two_files(tmp_path):
    path = pages.write_questions(labels.AskConfig(run=RUN, n=3))
    with chromium.Browser(PROGRAM) as browser:
        browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        page = browser.page()
        page.open(path)
        page.key("2")  # before the initials are given: it goes with the first rater
        for rater, values in (("ann", "22"), ("bob", "555")):
            page.click("#rater")
            page.js("document.getElementById('rater').value = ''")
            page.type(rater)
            page.key("Enter")
            for value in values:
                page.key(value)
            assert "3 answered" in page.text("#state")
            page.key("e")
            end = time.monotonic() + chromium.PATIENCE
            while not list(tmp_path.glob(f"labels-{rater}-*.jsonl")):
                assert time.monotonic() < end, "nothing was exported"
                time.sleep(0.05)
        page.close()
    found, _ = labels.read(sorted(tmp_path.glob("labels-*.jsonl")), RUN)
    assert found.groupby("rater")["value"].agg(list).to_dict() == {"ann": [2, 2, 2], "bob": [5, 5, 5]}


def test_pairs_stand_side_by_side_and_fit_a_small_screen():
    path = pages.write_questions(labels.AskConfig(run=RUN, n=4, kind="pairs"))
    with chromium.Browser(PROGRAM) as browser:
        page = browser.page()
        page.open(path)
        assert page.texts("#sides h2") == ["Left", "Right"]
        page.size(390, 800)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        page.key("3")
        assert "1 answered" in page.text("#state")
        assert page.complaints() == []
        page.close()
