"""The trace, the pages for raters and those of chats in a real browser, opened from disk: clicked, typed into."""

import base64
import json
import os
import re
import time
from pathlib import Path

import pytest
from nbconvert import HTMLExporter

import crs_lib
from crs_lib import evaluate, figures, runs, simulate, stats
from crs_lib.__main__ import main
from crs_lib.core import paths, tables
from crs_lib.core.tables import sha256
from crs_lib.cosrec import corpus as cosrec_corpus
from crs_lib.cosrec.settings import RetrieveSettings, ScoreSettings
from crs_lib.cosrec.study import STUDY
from crs_lib.figures import style
from crs_lib.judge import run as judge_records
from crs_lib.realtalk import agent, corpus, search
from crs_lib.realtalk import index as chats
from crs_lib.realtalk import page as chat_pages
from crs_lib.report import report, trace
from crs_lib.report.outcomes import leaderboard
from crs_lib.report.page import document
from crs_lib.validity import labels
from crs_lib.validity import questions as asked_page
from tests.helpers import browser as chromium
from tests.helpers.cosrec_data import part_of_sample
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import scored, simulated

PROGRAM, pytestmark = chromium.PROGRAM, chromium.MARKS
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
SYSTEMS = ("oracle", "tracker", "amnesiac")
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\u2028${hacked}{{run}}\u202e"
CONTROLS = (
    "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')]"
    ".filter((n) => n.checkVisibility() && !n.disabled)"
)
RUN = "annotate-e2e"


def make(run, hostile=False):
    """A small evaluated run; returns its trace. Hostile: names, texts, constraints and titles that are markup."""
    simulated(run=run, systems=SYSTEMS, n_sessions=12, n_turns=14)
    if hostile:
        path = paths.run_folder("movies", run) / "dialogues.jsonl"
        path.write_text("\n".join(json.dumps(spoilt(json.loads(line))) for line in path.open()) + "\n")
        manifest = runs.Run("movies", run).manifest()  # as if the systems themselves had said so
        manifest["stages"]["simulate"]["outputs"][path.name] = sha256(path)
        tables.write_json(path.with_name("manifest.json"), manifest)
    evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return trace.write(run)


def spoilt(record):
    record["true_genre"] = HOSTILE
    record["model_name"] += HOSTILE
    for turn in record["conversation"]:
        turn["text"] = HOSTILE + turn["text"]
        if turn["speaker"] == "USER":
            turn["user_meta"]["constraints"]["genre"] = HOSTILE
            turn["user_meta"]["stage"] = HOSTILE
        else:
            turn["constraints"] = turn["state"] = {HOSTILE: HOSTILE}
            turn["tool_calls"] = [
                {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}, "n_found": 1, "films": [HOSTILE], "notes": [HOSTILE]},
                {"name": HOSTILE, "arguments": {}, "error": HOSTILE},
            ]  # fmt: skip
            turn["hallucinated_titles"] = [HOSTILE]
    for event in record["shift_events"]:
        event |= {"type": HOSTILE, "added": {HOSTILE: HOSTILE}, "from_anchor": HOSTILE}
    return record


def light_report(run):
    """The report of a run with one outcome, and a pixel in place of each figure."""
    ladder = stats.ladder

    def one_outcome(scores, plan):
        return ladder(scores, plan.changed(secondary_outcomes=(), lower_is_better=(plan.primary_outcome,)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "ladder", one_outcome)
        patch.setattr(figures, "make", lambda *_: None)
        patch.setattr(style, "data", lambda *_: base64.b64decode(PIXEL))
        return report.write(run)


@pytest.fixture(scope="module")
def running():
    with chromium.Browser(PROGRAM) as started:
        yield started


@pytest.fixture(scope="module")
def index():
    return make("trace-e2e")


@pytest.fixture
def page(running, tmp_path):
    """A tab that must not complain, and must not ask for anything but files of the run and of the test."""
    tab = running.page()
    yield tab
    complaints, requests = tab.complaints(), tab.requests()
    tab.close()
    assert complaints == []
    allowed = ("about:", "data:", "blob:", paths.results().as_uri(), tmp_path.as_uri())
    assert [url for url in requests if not url.startswith(allowed)] == []


@pytest.fixture
def opened(page, index):
    page.open(index)
    page.wait("document.querySelectorAll('.turn').length > 0")
    return page


def shown(page):
    return page.texts("#view h2")


def test_it_opens_with_the_first_session_drawn_and_each_turn_shows_what_the_files_say(opened):
    assert opened.text("#count") == "36 sessions"
    assert shown(opened) == ["oracle session 00000"]
    assert len(opened.texts("#view .turn")) == 14
    assert opened.js("document.title") == "oracle 00000 · trace of trace-e2e"
    dialogue = simulate.dialogues("trace-e2e")[0]
    turns = evaluate.read("trace-e2e", "turns")
    mine = turns[(turns["model"] == "oracle") & (turns["session_id"] == "00000")]
    texts = opened.texts("#view .said .text")
    assert [" ".join(t.split()) for t in texts] == [" ".join(t.text.split()) for t in dialogue.turns]
    within = "[...t.querySelectorAll('.film .title')].map((n) => n.textContent)"
    titles = opened.js(f"[...document.querySelectorAll('.turn')].map((t) => {within})")
    assert titles == [pair.system.meta["rec_titles"] for pair in dialogue.pairs()]
    first = opened.texts(".facts .scores summary .score:first-child b")
    expected = [f"{value:.2f}" if value == value else "–" for value in mine["normalised_gain"]]
    assert [t.replace("−", "-") for t in first] == expected
    now = "[...document.querySelector('.turn .row').querySelectorAll('.constraint:not(.gone)')]"
    constraints = opened.js(f"{now}.map((n) => n.lastChild.textContent)")
    assert constraints == list(dialogue.turns[0].user_meta["constraints"].values())
    told = [f"Shift at turn {t}" for t in dialogue.shift_turns()]
    assert [t.split(":")[0] for t in opened.texts(".shift b")] == told
    opened.key("?")
    assert "next, previous session" in opened.text("#help")
    opened.key("j")
    opened.js("document.querySelector('#help').close()")
    assert shown(opened) == ["oracle session 00000"]
    opened.size(420, 900)
    assert opened.js("document.documentElement.scrollWidth") <= 420
    view = "document.querySelector('#view')"
    assert opened.js(f"{view}.scrollWidth <= {view}.clientWidth")


def test_search_and_filters_narrow_the_list(opened):
    opened.key("/")
    opened.type("AMNESIAC 00003")
    assert opened.text("#count") == "1 of 36 sessions"
    assert [t.split()[:2] for t in opened.texts("#rows .item")] == [["amnesiac", "00003"]]
    opened.key("Escape")
    assert opened.text("#count") == "36 sessions"
    opened.choose("#model", "tracker")
    assert opened.text("#count") == "12 of 36 sessions"
    results = evaluate.read("trace-e2e", "results").query("model == 'tracker'")
    low = "document.querySelector('#low')"
    opened.js(f"{low}.value = '0.6'; {low}.dispatchEvent(new Event('input'))")
    assert int(opened.text("#count").split()[0]) == (results["gain_after_change"] >= 0.6).sum()


def test_utterances_are_searched_and_the_first_hit_is_shown(opened):
    pairs = {(d.model_name, d.session_id): d.pairs() for d in simulate.dialogues("trace-e2e")}
    phrase = pairs["tracker", "00002"][4].user.text[:25]
    texts = [[t.text for p in turns for t in (p.user, p.system)] for turns in pairs.values()]
    holds = [one for one in texts if any(phrase in text for text in one)]
    opened.key("u")
    opened.type(phrase.upper())
    opened.key("Enter")
    opened.wait(f"document.querySelector('#count').textContent.startsWith('{len(holds)} of 36')")
    opened.wait("document.querySelectorAll('.text.found').length > 0")
    assert all(phrase in text for text in opened.texts(".text.found"))
    assert opened.js("document.querySelector('.pair.current .text.found') !== null")
    opened.key("Escape")
    opened.wait("document.querySelector('#count').textContent === '36 sessions'")
    assert opened.js("document.querySelectorAll('.text.found').length") == 0


def test_false_claims_and_violations_are_marked_at_the_reply(opened):
    turns = evaluate.read("trace-e2e", "turns").query("model == 'amnesiac'")
    session = turns.groupby("session_id")[["false_claims", "violations"]].sum().sum(axis=1).idxmax()
    mine = turns[turns["session_id"] == session]
    opened.js(f"location.hash = 'session={session}&model=amnesiac'")
    opened.wait(f"document.querySelector('#view h2').innerText === 'amnesiac session {session}'")
    for name, text in (("false_claims", "! false claim"), ("violations", "! violation")):
        marked = opened.js(
            "[...document.querySelectorAll('.turn')].filter((t) => [...t.querySelectorAll('.said.system .who .bad')]"
            f".some((n) => n.textContent === '{text}')).map((t) => Number(t.dataset.turn))"
        )
        assert marked == mine.loc[mine[name] > 0, "turn"].tolist()


def test_filters_by_type_and_order_by_score_narrow_and_sort_the_list(opened):
    events = {d.session_id: {e["type"] for e in d.shift_events} for d in simulate.dialogues("trace-e2e")}
    kind = "contradict"
    opened.choose("#type", kind)
    wanted = sum(kind in kinds for kinds in events.values()) * len(SYSTEMS)
    assert 0 < wanted < 36
    assert opened.text("#count") == f"{wanted} of 36 sessions"
    opened.choose("#order", "low")
    texts = [text.replace("−", "-") for text in opened.texts("#rows .item .value")]
    assert len(texts) == wanted
    values = [float(text) for text in texts if text != "–"]
    assert values == sorted(values)
    assert set(texts[len(values) :]) <= {"–"}
    results = evaluate.read("trace-e2e", "results")
    mine = results[[kind in events[session] for session in results["session_id"]]]
    worst = mine.sort_values("gain_after_change", kind="stable").iloc[0]
    assert opened.texts("#rows .item")[0].split()[:2] == [worst["model"], worst["session_id"]]


def test_keys_go_from_session_to_session_and_from_turn_to_turn(opened):
    for key, wanted in (("j", "00001"), ("j", "00002"), ("k", "00001")):
        opened.key(key)
        opened.wait(f"document.querySelector('#view h2').innerText.endsWith('session {wanted}')")
    opened.key("n")
    opened.key("n")
    assert opened.js("document.querySelector('.pair.current').dataset.turn") == "2"
    opened.key("s")
    first = next(d for d in simulate.dialogues("trace-e2e") if d.session_id == "00001").shift_turns()[0]
    assert opened.js("document.querySelector('.pair.current').dataset.turn") == str(first)
    opened.key("/")
    opened.key("j")  # in a field, a letter is a letter
    assert opened.js("document.querySelector('#search').value") == "j"
    assert shown(opened) == ["oracle session 00001"]


def test_a_session_is_opened_by_a_click_and_by_its_address(opened, index):
    opened.click("#rows .item:nth-child(5)")
    opened.wait("document.querySelector('#view h2').innerText.endsWith('session 00004')")
    assert opened.js("location.href").endswith("#session=00004&model=oracle")
    opened.open(index.as_uri() + "#session=00007&model=tracker&turn=3")
    opened.wait("document.querySelectorAll('.pair.current').length")
    assert shown(opened) == ["tracker session 00007"]


def test_two_systems_stand_side_by_side_on_one_scenario(opened):
    opened.choose("#with", "amnesiac")
    opened.wait("document.querySelectorAll('#view h2').length == 2")
    assert shown(opened) == ["oracle session 00000", "amnesiac session 00000"]
    pairs = "[...document.querySelectorAll('.pair[data-turn]')]"
    assert opened.js(f"{pairs}.map((p) => p.querySelectorAll('.turn').length)") == [2] * 14
    turns = "[...document.querySelectorAll('.pair[data-turn] .turn')]"
    tops = opened.js(f"{turns}.map((t) => Math.round(t.getBoundingClientRect().top))")
    assert tops[0::2] == tops[1::2]
    opened.key("j")
    opened.wait("document.querySelector('#view h2').innerText.endsWith('session 00001')")
    assert shown(opened) == ["oracle session 00001", "amnesiac session 00001"]
    opened.key("Escape")
    opened.wait("document.querySelectorAll('#view h2').length == 1")


def test_hostile_text_stays_text(page):
    page.open(make("trace-hostile", hostile=True))
    page.wait("document.querySelectorAll('.turn').length > 0")
    page.choose("#with", "amnesiac" + HOSTILE)
    page.wait("document.querySelectorAll('#view h2').length == 2")
    page.key("?")
    untouched(page, "img, iframe, #view script")
    said = page.js("[...document.querySelectorAll('.said .text')].map((n) => n.textContent)")
    assert all(text.startswith(HOSTILE) for text in said)
    assert page.text("#view h2").startswith("oracle</script><script>")
    escaped = HOSTILE.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e")  # a call turns no text around
    calls = page.js("[...document.querySelectorAll('.call code')].map((n) => n.textContent)")
    assert len(calls) == 2 * len(said) // 2
    assert all(call.startswith(f"{escaped}(") for call in calls)
    shown = page.js("document.querySelector('#view').textContent")
    # texts, wishes, belief, state, calls, shifts, titles
    assert shown.count(HOSTILE) + shown.count(escaped) > 10 * len(said) // 2
    page.open(light_report("trace-hostile"))
    untouched(page, "script, iframe, img:not([src^='data:image/png'])")
    assert "</script><script>window.hacked" in page.js("document.body.textContent")
    page.open(asked_page.write_page(labels.AskConfig(run="trace-hostile", n=4)))
    page.key("3")
    untouched(page, "img, iframe, #sides script")
    assert page.text("#state").startswith("Question 2 of 4 · 1 answered")
    assert page.js("document.querySelector('.said').textContent.includes('</script><script>')")


@pytest.mark.parametrize("book", ["04_evaluate", "05_analyze"])
def test_a_notebook_of_a_hostile_log_requests_nothing(page, book):
    run, out = "notebook-hostile", paths.results() / f"{book}.ipynb"
    if not paths.run_folder("movies", run).exists():
        make(run, hostile=True)
    assert main(["run", book, "-p", "run", run, "-o", str(out)]) == 0
    html, _ = HTMLExporter(require_js_url="", mathjax_url="").from_filename(out)
    out.with_suffix(".html").write_text(html, encoding="utf-8")
    page.open(out.with_suffix(".html"))
    assert page.js("window.hacked === undefined && document.body.textContent.includes('</script><script>')")
    assert page.js("document.querySelectorAll('iframe, img:not([src^=\"data:\"])').length") == 0


def untouched(page, foreign):
    """Nothing of the hostile text ran or became an element, and the policy would have stopped it."""
    assert page.js("window.hacked === undefined")
    assert page.js(f"document.querySelectorAll({json.dumps(foreign)}).length") == 0
    assert "default-src 'none'" in page.js("document.querySelector('meta[http-equiv]').content")


def test_judges_are_shown_with_the_sentence_that_a_score_rests_on(page, index):
    scores = [
        {"judge": "a", "construct": "coherence", "sample": 0, "score": 4, "flag": None, "evidence": "It <b>stays</b> on topic."},
        {"judge": "b", "construct": "coherence", "sample": 0, "score": None, "flag": "unreadable", "evidence": ""},
    ]  # fmt: skip
    record = {
        "model": "tracker", "session_id": "00001", "canary": "", "missing": 1, "scores": scores,
        "judge": {"coherence": 4.0, "proactiveness": None},
    }  # fmt: skip
    made = runs.Run("movies", "trace-e2e").manifest()["stages"]["simulate"]["outputs"]["dialogues.jsonl"]
    facts = "movies", "trace-e2e", judge_records.STAGE, {}, {"dialogues": made}
    with runs.stage(*facts, fixed=False) as stage:
        stage.path(judge_records.SCORES).write_text(json.dumps(record) + "\n")
    page.open(f"{trace.write('trace-e2e').as_uri()}#session=00001&model=tracker")
    page.wait("document.querySelectorAll('.judge td').length > 0")
    assert page.texts(".judge summary .score") == ["coherence 4.0", "proactiveness –"]
    assert page.texts(".judge td")[:4] == ["coherence", "a", "4", "It <b>stays</b> on topic."]
    assert page.texts(".judge td")[4:] == ["coherence", "b", "–", "not counted: unreadable"]


def test_thousands_of_sessions_are_listed_without_thousands_of_elements(page, index, tmp_path):
    text = (index.parent / "data" / "index.js").read_text()
    record = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    times = 6000 // len(record["id"])
    record["id"] = [f"{number // 3:05d}" for number in range(len(record["id"]) * times)]
    record["model"] = [number % 3 for number in range(len(record["id"]))]
    record["plot"] *= times
    record["scores"] = {name: values * times for name, values in record["scores"].items()}
    folder = paths.results() / "many"
    (folder / "data").mkdir(parents=True)
    (folder / "index.html").write_bytes(index.read_bytes())
    (folder / "data" / "index.js").write_text(f"crsTrace.index({json.dumps(record)});")
    (folder / "data" / "page-0000.js").write_bytes((index.parent / "data" / "page-0000.js").read_bytes())
    page.open(folder / "index.html")
    page.wait("document.querySelectorAll('.turn').length > 0")
    assert page.text("#count") == f"{len(record['id']):,} sessions"
    assert page.js("document.querySelectorAll('#rows .item').length") < 60
    page.js("document.querySelector('#list').scrollTop = 1e9")
    page.wait(f"document.querySelector('#rows').innerText.includes('{record['id'][-1]}')")
    assert page.js("document.querySelectorAll('#side *').length") < 600
    page.key("/")
    page.type(record["id"][-1])
    assert page.text("#count") == f"3 of {len(record['id']):,} sessions"


def test_a_missing_data_file_is_said_and_not_a_blank_page(running, index):
    folder = paths.results() / "torn"
    (folder / "data").mkdir(parents=True)
    (folder / "index.html").write_bytes(index.read_bytes())
    (folder / "data" / "index.js").write_bytes((index.parent / "data" / "index.js").read_bytes())
    page = running.page()
    page.open(folder / "index.html")
    page.wait("document.querySelector('[role=alert]') !== null")
    assert page.text("[role=alert]") == "data/page-0000.js is missing beside this page; write the trace again"
    page.close()


def searching(body):
    """Searches of an agent: a good one, one with markup as arguments, and one by a name that is no tool."""
    last = max(i for i, message in enumerate(body["messages"]) if message["role"] == "user")
    answered = sum(message["role"] == "tool" for message in body["messages"][last:])
    calls = [
        ("search_films", {"genre": "comedy", "year_from": 1990}),
        ("search_films", {"text": HOSTILE, HOSTILE: [HOSTILE] * 3}),
        (f"rm {HOSTILE}", {"without": ["x" * 400]}),
    ]
    return calls[answered : answered + 1]


def test_tool_calls_are_shown_and_hostile_arguments_stay_text(page):
    def reply(prompt, schema, seed):
        recommended = schema["properties"]["recommended"]["items"].get("enum", []) if schema else []
        return json.dumps({"recommended": recommended[:2], "reply": "These two."}) if schema else "Done."

    with OllamaServer(tools=searching, answer=reply) as server:
        spec, llm = "agent:ollama:tiny", {"host": server.url, "retriever": "bm25"}
        config = simulate.SimulateConfig(run="trace-agent", systems=[spec], n_sessions=1, n_turns=3, llm=llm)
        simulate.simulate(config, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run=config.run))
    page.open(trace.write(config.run))
    page.wait("document.querySelectorAll('.turn').length == 3")
    if picture := os.environ.get("CRS_PICTURES"):
        page.picture(Path(picture) / "tool_calls.png")
    logged = [pair.system.meta["tool_calls"] for pair in simulate.dialogues(config.run)[0].pairs()]
    assert [len(calls) for calls in logged] == [3, 3, 3]
    assert "error" in logged[0][1]
    calls = page.texts(".call")
    assert len(calls) == 9
    assert 'search_films(genre="comedy", year_from=1990)' in calls[0]
    assert HOSTILE.split("\u2028")[0] in calls[1]
    assert "{{run}}\\u202e" in calls[1]  # the order is not turned
    assert logged[0][1]["error"].split(":")[0] in calls[1]
    assert calls[2].startswith("rm </script>")
    assert page.js("window.hacked === undefined")
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.js(wide)  # nothing is cut off by a long argument


@pytest.fixture(scope="module")
def written(index):
    return light_report("trace-e2e")


def drawn(page, path):
    page.open(path)
    page.wait("document.querySelectorAll('.turn, .wide').length > 0")


@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing_wrong_on_light_and_dark_pages(page, index, written, others, width):
    page.size(width, 900)
    for path in (written, index, *others):
        drawn(page, path)
        assert page.axe() == [], path.name
        page.dark()
        assert page.axe("color-contrast") == [], f"{path.name}, dark"
        page.dark(False)
        cut = (
            "[...document.querySelectorAll('table')].filter((t) => t.getBoundingClientRect().right > innerWidth"
            " && !t.closest('.wide, .judge')).length"
        )
        assert page.js(cut) == 0  # a wide table stands in a region that scrolls and says so


def tabbed(page, most=400):
    """Press Tab until the focus is back at the first element; how many were focused, and those without a ring."""
    page.js("window.reached = new Set(); window.bare = []; document.activeElement.blur()")
    for count in range(most):
        page.key("Tab")
        if page.js(
            "(() => { const now = document.activeElement, look = getComputedStyle(now);"
            "if (now === document.body || reached.has(now)) return true; reached.add(now);"
            "if (!(look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 1)) bare.push(now.outerHTML); })()"
        ):
            return count
    raise AssertionError(f"the focus never came back in {most} steps")


def test_the_keyboard_alone_reaches_everything_and_shows_where_it_is(page, index, written):
    for path in (written, index):
        drawn(page, path)
        assert tabbed(page) > 10
        assert page.js(f"{CONTROLS}.filter((n) => !reached.has(n)).map((n) => n.outerHTML)") == []
        assert page.js("bare") == []


def test_the_keyboard_alone_finds_an_utterance_and_scrolls_a_table(page, index, written):
    drawn(page, index)
    page.key("Tab")
    page.key("Tab")
    assert page.js("document.activeElement.id") == "said"
    page.type(simulate.dialogues("trace-e2e")[0].turns[0].text[:20])
    page.key("Enter")
    page.wait("document.querySelectorAll('.text.found').length > 0")
    page.size(390, 800)
    drawn(page, written)
    wide = "[...document.querySelectorAll('.wide')].findIndex((n) => n.scrollWidth > n.clientWidth + 40)"
    page.js(f"window.goal = document.querySelectorAll('.wide')[{wide}]")
    for _ in range(200):
        page.key("Tab")
        if page.js("document.activeElement === goal"):
            break
    for _ in range(3):
        page.key("ArrowRight")
    page.wait("goal.scrollLeft > 20")


@pytest.fixture(scope="module")
def rated():
    return scored(RUN, systems=("oracle", "sticky"), n_sessions=8, n_turns=8)


def questions(page, folder, **choice):
    """The page of questions of the run, opened; what it exports comes into the folder."""
    path = asked_page.write_page(labels.AskConfig(run=RUN, **choice))
    page.browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.open(path)
    return path


def exported(page, folder, name, digest="*"):
    """The files that come once an export is asked for."""
    page.key("e")
    end = time.monotonic() + chromium.PATIENCE
    while not (files := list(folder.glob(f"labels-{name}-{digest}.jsonl"))):
        assert time.monotonic() < end, "nothing was exported"
        time.sleep(0.05)
    return files


@pytest.mark.usefixtures("rated")
def test_ten_questions_are_answered_by_keyboard_exported_and_imported(page, tmp_path):
    given = [1, 2, 3, 4, 5, 5, 4, 3, 2, 1]
    path = questions(page, tmp_path, n=10)
    page.click("#rater")
    page.type("a b")
    page.key("Enter")
    assert page.js("document.querySelectorAll('.said').length") >= 4
    (heading,) = page.texts(".shift b")
    assert re.match("Person – (now wants|no longer asks for|rules out) [a-z]+ .", heading)
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
    files = exported(page, tmp_path, "a-b")
    asked = [url for url in page.requests() if not url.startswith(("about:", "data:", "blob:"))]
    assert set(asked) == {path.as_uri()}
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert [row["value"] for row in rows] == [1, 2, 3, 4, 5, 4, 4, 3, 2, 1]
    assert {row["rater"] for row in rows} == {"a b"}
    found = labels.findings(RUN, files, resamples=20)
    assert len(found.labels) == 10
    assert len(found.correlations) > 3
    assert set(found.labels["item"]) == set(labels.read_key(RUN).questions["id"])


@pytest.mark.usefixtures("rated")
def test_two_raters_at_one_browser_give_two_files(page, tmp_path):
    questions(page, tmp_path, n=3)
    page.key("2")  # before the initials are given: it goes with the first rater
    for rater, values in (("ann", "22"), ("bob", "555")):
        page.click("#rater")
        page.js("document.getElementById('rater').value = ''")
        page.type(rater)
        page.key("Enter")
        for value in values:
            page.key(value)
        assert "3 answered" in page.text("#state")
        exported(page, tmp_path, rater)
    found, _ = labels.read(sorted(tmp_path.glob("labels-*.jsonl")), RUN)
    assert found.groupby("rater")["value"].agg(list).to_dict() == {"ann": [2, 2, 2], "bob": [5, 5, 5]}


@pytest.mark.usefixtures("rated")
def test_pairs_stand_side_by_side_and_fit_a_small_screen(page, tmp_path):
    questions(page, tmp_path, n=4, kind="pairs")
    assert page.texts("#sides h2") == ["Left", "Right"]
    page.size(390, 800)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
    page.key("3")
    assert "1 answered" in page.text("#state")


def chat_page(folder, chat):
    told = list(agent.predict(built := chats.build(chat, "hashing"), search.Hand()))
    text = document(chat.name, "?", "", chat_pages.sections(built, told), "chat.css")
    (folder / f"{chat.name}.html").write_text(text, encoding="utf-8")
    return folder / f"{chat.name}.html"


def long_chat(messages):
    talk = [
        {"clean_text": f"Message {i} about topic {i // 40}", "speaker": "Ann" if i % 2 else "Ben",
         "dia_id": f"D{i // 100 + 1}:{i % 100 + 1}"}
        for i in range(messages)
    ]  # fmt: skip
    sessions = {f"session_{n + 1}": talk[100 * n : 100 * n + 100] for n in range(messages // 100)}
    names = {"speaker_1": "Ann", "speaker_2": "Ben"}
    return corpus.parse_chat({"name": names, "qa": [], **sessions}, "long")


def test_axe_finds_nothing_wrong_with_a_chat_and_links_lead_to_messages(page, tmp_path):
    path = chat_page(tmp_path, corpus.read_chat(paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"))
    page.open(path)
    assert page.axe() == []
    page.dark()
    assert page.axe("color-contrast") == []
    page.js("document.querySelector('details a').click()")
    target = "document.querySelector('li:target')"
    assert page.wait(f"{target} && {target}.id.startsWith('D')")
    page.size(390, 800)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
    assert {url for url in page.requests() if not url.startswith("about:")} <= {path.as_uri()}


def test_six_thousand_messages_open_at_once(page, tmp_path):
    path = chat_page(tmp_path, long_chat(6000))
    start = time.monotonic()
    page.open(path)
    assert page.js("document.querySelectorAll('.segment li').length") == 6000
    assert time.monotonic() - start < 10


def asked_of_assessors(page, folder, raters, answer):
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
        files += exported(page, folder, rater, digest)
    return files


def test_cosrec_is_annotated_by_two_assessors_and_a_review_and_scored(page, tmp_path, capsys):
    """Intents, then the pool of two runs, then quality: pages, labels, a corpus, notebooks 13 and 14."""
    made = tmp_path / "made"
    source = part_of_sample(tmp_path / "source", crowd=8, curated=1, products=200, passages=200)
    names = {"run": "assessed", "source": str(made)}
    page.browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))

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

    told = annotate("intents", source, ["a", "b"], intent, lambda rater, text: ("1", "reviewed"))
    assert "alpha, nominal" in told
    (talk,) = cosrec_corpus.load(made, "curated").intents.values()
    assert {(one.type, one.variants) for one in talk} == {
        ("search", ("reviewed", "what is it")), ("recommendation", ("things for a", "things for b"))
    }  # fmt: skip
    choice = {"retrievers": ("bm25", "dense:hashing"), "rewriters": ("first and last",), "mapping": ""}
    STUDY.run("retrieve", RetrieveSettings(**names, **choice, router="views", depth=20))
    grade = {"a": "1", "b": "2"}
    told = annotate("relevance", made, ["a", "b"], lambda rater, _: (grade[rater], ""), lambda *_: ("2", ""))
    assert "alpha, ordinal" in told
    judged = cosrec_corpus.load(made, "curated").qrels
    assert {value for grades in judged.values() for value in grades.values()} == {2}
    told = annotate("quality", made, ["a", "b"], lambda _, text: ("5" if "English" in text else "4", ""))
    assert "one rater against the others" in told
    (ratings,) = cosrec_corpus.load(made, "curated").ratings.values()
    assert [tuple(one) for one in ratings] == [(5, 4, 4, 4)] * 2
    found = STUDY.run("evaluate", ScoreSettings(**names, resamples=20))
    best = found["means"].set_index(["kind", "system", "measure"])["mean"]
    for kind in ("search", "recommendation"):  # the best document, which BM25 may lack, is relevant
        assert best[kind, "dense-hashing-first-and-last", "RR@10"] == 1


@pytest.fixture(scope="module")
def others(index):
    """The leaderboard of the same run, the page of a catalogue, and a comparison's."""
    folder = paths.run_folder("movies", "trace-e2e")
    board = leaderboard(["trace-e2e"], folder / "leaderboard.html")
    films = folder / "catalog.html"
    assert main(["catalog", "show", "--out", str(films)]) == 0
    return board, films, crs_lib.compare(["Ours=sticky"], n=24, run="compare-e2e", progress=False).page


def test_the_verdict_stands_on_the_first_screen(page, others):
    for width, height in ((390, 844), (1400, 900)):
        page.size(width, height)
        drawn(page, others[2])
        assert page.js("document.querySelector('#verdict li').getBoundingClientRect().bottom") < height


def test_a_run_dropped_on_the_leaderboard_stands_beside_the_baselines(page, others):
    drawn(page, others[0])
    assert set(page.texts("tbody tr td:nth-child(2)")) == set(SYSTEMS)
    text = json.dumps((others[0].with_name("results.jsonl")).read_text(encoding="utf-8"))
    page.js(
        f"(() => {{ const data = new DataTransfer(); data.items.add(new File([{text}], 'mine.jsonl'));"
        "document.dispatchEvent(new DragEvent('drop', {dataTransfer: data})); })()"
    )
    page.wait("document.querySelectorAll('tr.own').length === 3")
    assert page.text("#state") == "mine.jsonl: 3 systems"
    names = page.texts("tbody tr td:nth-child(2)")
    ranks = dict(zip(names, page.texts("tbody tr td:first-child"), strict=True))
    assert all(ranks[name] == ranks[f"{name} (mine)"] for name in SYSTEMS)  # the same scores tie
    assert page.complaints() == []
