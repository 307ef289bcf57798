"""The annotation page in a real browser: answered by keyboard, kept over a reload, exported, imported."""

import json
import time

import pytest

from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.cosrec import corpus
from crs_lib.cosrec.settings import RetrieveSettings, ScoreSettings
from crs_lib.cosrec.study import STUDY
from crs_lib.report import page as pages
from crs_lib.validity import labels
from tests.helpers import browser as chromium
from tests.helpers.cosrec_data import part_of_sample
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


def asked_of_assessors(page, tmp_path, raters, answer):
    """Answers of raters at one open page, by keyboard, in a file each; ``answer`` gives key and query."""
    files, digest = [], page.js("JSON.parse(document.getElementById('data').textContent).page")
    for rater in raters:
        page.click("#rater")
        page.js("document.getElementById('rater').value = ''")
        page.type(rater)
        page.key("Enter")
        while "all done" not in page.text("#state"):
            key, query = answer(rater, page.text("#question"))
            page.key(key)
            if query:
                page.type(query)
                page.key("Enter")
        page.key("e")
        end = time.monotonic() + chromium.PATIENCE
        files.append(tmp_path / f"labels-{rater}-{digest}.jsonl")
        while not files[-1].is_file():
            assert time.monotonic() < end, "nothing was exported"
            time.sleep(0.05)
    assert page.complaints() == []
    return files


def test_cosrec_is_annotated_by_two_assessors_and_a_review_and_scored(tmp_path, capsys):
    """Intents, then the pool of two runs, then quality: pages, labels, a corpus, notebooks 13 and 14."""
    source, made = (
        part_of_sample(tmp_path / "source", crowd=8, curated=1, products=200, passages=200),
        tmp_path / "made",
    )
    names = {"run": "assessed", "source": str(made)}

    def annotate(kind, place, raters, answer, review=None):
        given = ["annotate", "--kind", kind, "--run", "assessed", "--source", str(place), "--depth", "1"]
        assert main(given) == 0
        pages_made = paths.run_folder("cosrec", "assessed") / "annotation"
        page.open(pages_made / f"{kind}.html")
        files = asked_of_assessors(page, tmp_path, raters, answer)
        if review:
            assert main([*given, "--import", *map(str, files)]) == 0
            assert "in doubt, to be reviewed" in capsys.readouterr().out
            page.open(pages_made / f"{kind}-review.html")
            assert "The assessors said" in page.texts(".note b")
            files += asked_of_assessors(page, tmp_path, ["c"], review)
        assert main([*given, "--import", *map(str, files), "--out", str(made)]) == 0
        return capsys.readouterr().out

    def intent(rater, text):
        if "knowledge" in text:  # the two differ in all of these
            return ("1", "what is it") if rater == "b" else ("0", "")
        return ("1", f"things for {rater}") if "recommended" in text else ("0", "")

    with chromium.Browser(PROGRAM) as browser:
        browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        page = browser.page()
        told = annotate("intents", source, ["a", "b"], intent, lambda rater, text: ("1", "reviewed"))
        assert "alpha, nominal" in told
        (talk,) = corpus.load(made, "curated").intents.values()
        assert {(one.type, one.variants) for one in talk} == {
            ("search", ("reviewed", "what is it")), ("recommendation", ("things for a", "things for b"))
        }  # fmt: skip
        retrievers = {
            "retrievers": ("bm25", "dense:hashing"),
            "rewriters": ("first and last",),
            "mapping": "",
        }
        STUDY.run("retrieve", RetrieveSettings(**names, **retrievers, router="views", depth=20))
        grade = {"a": "1", "b": "2"}
        told = annotate(
            "relevance", made, ["a", "b"], lambda rater, text: (grade[rater], ""), lambda *_: ("2", "")
        )
        assert "alpha, ordinal" in told
        judged = corpus.load(made, "curated").qrels
        assert {value for grades in judged.values() for value in grades.values()} == {2}
        told = annotate(
            "quality", made, ["a", "b"], lambda rater, text: ("5" if "English" in text else "4", "")
        )
        page.close()
    assert "one rater against the others" in told
    (ratings,) = corpus.load(made, "curated").ratings.values()
    assert [tuple(one) for one in ratings] == [(5, 4, 4, 4)] * 2
    found = STUDY.run("evaluate", ScoreSettings(**names, resamples=20))
    best = found["means"].set_index(["kind", "system", "measure"])["mean"]
    for kind in ("search", "recommendation"):  # the best document, which BM25 may lack, is relevant
        assert best[kind, "dense-hashing-first-and-last", "RR@10"] == 1
