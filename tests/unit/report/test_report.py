"""The report: what it says is what the files say, it stands alone, and the same run gives the same bytes."""

import base64
import itertools
import re
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

import crs_lib
import crs_lib.stats
from crs_lib import evaluate, figures, runs, simulate
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.figures import NoDataError, style
from crs_lib.figures import base as registered
from crs_lib.report import figure_tables, report, trace
from crs_lib.simulate import SimulateConfig
from tests.helpers import browser as chromium
from tests.helpers import refused
from tests.helpers.sample import scored, simulated

pytestmark = pytest.mark.slow
SYSTEMS = ("oracle", "tracker", "random")


@pytest.fixture(scope="module")
def run():
    return scored("report-unit", systems=SYSTEMS, n_sessions=6, n_turns=12)


@pytest.fixture(scope="module")
def drawings():
    """What the figures of the page were drawn from and became: name, copies of the tables, picture; in order."""
    return []


@pytest.fixture(scope="module")
def page(run, drawings):
    make = figures.make
    data = style.data

    def noted(name, *tables):
        figure = make(name, *tables)
        drawings.append([name, [table.copy() for table in tables]])
        return figure

    def picture(figure, kind, dpi):
        png = data(figure, kind, dpi)
        drawings[-1].append(png)
        return png

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "make", noted)
        patch.setattr(style, "data", picture)
        return report.write(run).read_text(encoding="utf-8")


def test_it_stands_alone_beside_the_tables_with_every_part(page, run):
    """No script, no style sheet, no picture and no font from elsewhere; the only addresses lead into the trace."""
    assert not re.search(r"<script|<link|@import|url\(|https?:", page)
    assert set(re.findall(r'src="([^",]*)', page)) == {"data:image/png;base64"}
    links = re.findall(r'href="([^"]*)"', page)
    assert all(link.startswith(("#", "trace/index.html#session=")) for link in links)
    manifest = runs.Run("movies", run).manifest()
    assert sorted(manifest["stages"]) == ["catalog", "evaluate", "simulate"]
    assert (paths.run_folder("movies", run) / "report.html").is_file()
    titles = re.findall(r'<section id="([a-z]+)"><h2>', page)
    wanted = "findings scores conclusions sessions figures metrics meaning convention manifest"
    assert titles == wanted.split()
    assert re.findall(r'<li><a href="#([a-z]+)">', page) == titles


def test_the_gain_after_a_change_sorts_the_scores(run, page):
    section = page[page.index('<section id="scores">') : page.index('<section id="conclusions">')]
    systems = re.findall(r"<tr><td>([^<]*)</td>", section)
    means = evaluate.read(run, "model_metrics").query("metric == 'gain_after_change'")
    assert systems == list(means.sort_values("mean", ascending=False, kind="stable")["model"])


def has_data(run, name):
    """Whether a run has what a figure shows."""
    tables = figures.FIGURES.get(name).facts["tables"]
    try:
        figures.make(name, *[figure_tables.read(run, table) for table in tables])
    except NoDataError:
        return False
    return True


def test_the_figures_are_those_that_the_run_has_data_for(run, page):
    expected = [name for name in registered.names("movies") if has_data(run, name)]
    assert sorted(re.findall(r'<figure id="figure-([^"]+)">', page)) == sorted(expected)
    pictures = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]+)", page)]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert len(set(pictures)) == len(expected)


def test_means_and_undefined_values_are_those_of_the_tables(run, page):
    means = evaluate.read(run, "model_metrics")
    mean = means.set_index(["metric", "model"]).loc[("item_tas", "tracker"), "mean"]
    assert f"{mean:.3f}" in page
    assert "[nan" not in page, "fewer than eight users have no interval"
    assert "<small>nan" not in page
    gaps = means[means["n_missing"] > 0]
    assert len(gaps) > 0
    for row in gaps.itertuples():
        counts = f'<td class="value">{row.n}</td><td class="value">{row.n_missing}</td>'
        assert f"<td>{report.label(row.metric)}</td><td>{row.model}</td>{counts}" in page


def test_the_links_lead_to_the_lowest_and_the_highest_session(run, page):
    results = evaluate.read(run, "results").query("model == 'tracker'").set_index("session_id")
    lowest, _, highest = re.findall(r'href="trace/index.html#session=(\d+)&amp;model=tracker"', page)
    gain = results["gain_after_change"].astype(float)  # the plan's primary outcome
    assert gain[lowest] == gain.min()
    assert gain[highest] == gain.max()


def test_contrasts_are_those_between_systems_of_the_run(page):
    assert "oracle against tracker" in page
    assert "amnesiac" not in page.split('id="figures"')[0]


def test_the_same_files_give_the_same_bytes(run, page, drawings, monkeypatch):
    """The figures get the same tables again, which give the same picture (tests/contract/test_figures.py)."""
    left = iter(drawings)
    make = figures.make
    names = {name for name, *_ in drawings}

    def same(name, *tables):
        if name not in names:
            return make(name, *tables)  # no data, as before
        first, before, picture = next(left)
        assert name == first
        for table, earlier in zip(tables, before, strict=True):
            pd.testing.assert_frame_equal(table, earlier)
        return picture

    monkeypatch.setattr(figures, "make", same)
    monkeypatch.setattr(style, "data", lambda picture, kind, dpi: picture)
    assert report.write(run).read_text(encoding="utf-8") == page
    assert next(left, None) is None


def test_one_system_has_no_tests_and_an_unknown_plan_and_an_unscored_run_are_refused(run):
    name = scored("report-one", systems=("tracker",), n_sessions=3, n_turns=8)
    text = report.write(name).read_text(encoding="utf-8")
    assert "One system met 3 simulated users: 3 sessions" in text
    assert "No tests: they compare systems, and the run has one." in text
    assert "Declared contrasts" not in text
    refused("no analysis plan 'guess'", report.write, run, "guess")
    refused("run 04_evaluate -p run nowhere", report.write, "nowhere", error=RunError)


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium found; name it in CRS_CHROMIUM")
@pytest.mark.subprocess
def test_in_a_browser_it_opens_with_its_figures_and_leads_into_the_trace(run, page):
    path = paths.run_folder("movies", run) / "report.html"
    trace.write(run)
    with chromium.Browser(chromium.executable()) as running:
        tab = running.page()
        tab.open(path)
        assert tab.text("h1") == f"Run {run}"
        pictures = tab.js("[...document.images].map((image) => image.complete && image.naturalWidth > 500)")
        assert len(pictures) > 5 and all(pictures)
        assert tab.js("document.querySelectorAll('[src]:not(img), link, script').length") == 0
        target = tab.js("document.querySelector('#sessions a').href")
        tab.open(target)
        tab.wait("document.querySelectorAll('.turn').length == 12")
        assert tab.js("location.hash") == target[target.index("#") :]
        tab.open(path)
        tab.size(420, 900)
        assert tab.js("document.documentElement.scrollWidth") <= 420
        assert tab.complaints() == []
        allowed = ("about:", "data:", "blob:", paths.results().as_uri())
        assert [url for url in tab.requests() if not url.startswith(allowed)] == []


def same_film(messages):
    assert messages[-1]["role"] == "user"
    return ["Metropolis (1927)"]


def simulate_run(run, n, systems=("Ours=tracker", "sticky")):
    return simulated(run=run, systems=systems, n_sessions=n, n_turns=8)


OURS = {"Fixed": same_film, "Clings": "sticky"}
compared = partial(crs_lib.compare, OURS, run="compare-unit", progress=False)


@pytest.fixture(scope="module")
def comparison():
    return compared(n=24)


@pytest.mark.subprocess
def test_a_function_and_a_policy_are_compared_with_every_baseline_and_without_ability_nobody_adapts(
    comparison,
):
    pairs = comparison.effects[["a", "b"]].itertuples(index=False, name=None)
    assert list(pairs) == list(itertools.product(("Fixed", "Clings"), ("tracker", "bm25")))
    assert list(comparison.quantities["system"]) == ["tracker", "Clings", "bm25", "Fixed"]
    assert set(comparison.by_type["system"]) == {"Fixed", "Clings", "tracker", "bm25"}
    assert comparison.shifts["primary"].all()
    # One film for everybody loses nothing at a shift: that is no adaptation.
    assert "its shift cost says nothing" in comparison.verdict[0]
    assert "Fixed adapts" not in " ".join(comparison.verdict)
    n = comparison.effects["n"].iloc[0]
    assert comparison.verdict[2] == f"tracker and Fixed: too few users for a verdict: {n} (it takes 100)."


@pytest.mark.subprocess
def test_the_gain_at_open_scope_and_its_users_stand_beside_the_gain_after_a_change(comparison):
    columns = list(comparison.quantities)
    position = columns.index("gain_after_change")
    assert columns[position + 1 : position + 3] == ["open_scope_gain", "open_scope_n"]
    means = evaluate.read("compare-unit", "model_metrics").set_index(["metric", "model"])
    counts = comparison.quantities.set_index("system")["open_scope_n"]
    assert counts["tracker"] == means.loc[("open_scope_gain", "tracker"), "n"]
    assert "gain at open scope" in comparison.ranking.splitlines()[0]
    page = comparison.page.read_text(encoding="utf-8")
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page[page.index('id="quantities"') :])
    assert heads[:4] == ["system", "n", "failed", "missing"]
    assert heads[4:7] == ["gain after change", "gain at open scope", "n, open scope"]


@pytest.mark.subprocess
def test_the_gain_after_a_change_sorts_the_page_and_the_terminal(comparison):
    gains = [mean.mean for mean in comparison.quantities["gain_after_change"]]
    assert gains == sorted(gains, reverse=True)
    lines = comparison.ranking.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(comparison.quantities["system"])


@pytest.mark.subprocess
@pytest.mark.parametrize(("voices", "marked"), [(["A", "A"], True), (["polite", "terse"], False)])
def test_a_run_on_one_voice_is_marked_so(comparison, voices, marked):
    heard = replace(comparison)
    turns_of_voices = itertools.islice(itertools.cycle(voices), len(comparison.shifts))
    heard.__dict__["shifts"] = comparison.shifts.assign(voice=list(turns_of_voices))
    assert ("All users speak with one voice" in heard.verdict[-1]) == marked


@pytest.mark.subprocess
def test_the_page_stands_alone_and_is_the_same_again_and_the_same_call_continues_and_grows(comparison):
    page = comparison.page.read_text(encoding="utf-8")
    assert comparison.page.stat().st_size < 3_000_000
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "default-src 'none'" in page
    assert re.search(r">(refine|switch|replace|relax|contradict|return) \(\d+\)<", page)
    assert page.index("Verdict") < page.index("Gain and cost") < page.index("What to do next")
    assert len(comparison.worst()["session"].unique()) == 3
    assert comparison.write().read_text(encoding="utf-8") == page


@pytest.mark.subprocess
def test_a_session_that_failed_is_read_beside_the_others(comparison, monkeypatch):
    talks = list(simulate.iter_dialogues("compare-unit"))
    worst = comparison.worst()
    assert len(worst) > 0
    monkeypatch.setattr(simulate, "iter_dialogues", lambda run: talks[::2])
    monkeypatch.setattr(simulate, "failed_dialogues", lambda run: talks[1::2])
    pd.testing.assert_frame_equal(comparison.worst(), worst)


def sessions_of(run):
    return runs.Run("movies", run).entry("simulate")["counts"]["sessions"]


def test_the_same_call_gives_its_page_at_once_and_a_larger_n_continues():
    call = partial(crs_lib.compare, "sticky", against="popular,bm25", progress=False)
    first = call(n=3)
    page = first.page.read_bytes()
    made_at = runs.Run("movies", first.run).entry("simulate")["started"]
    again = call(n=3)
    assert first.since == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", again.since)
    assert again.page.read_bytes() == page
    assert runs.Run("movies", first.run).entry("simulate")["started"] == made_at
    for n in (4, 6):
        assert call(n=n).run == first.run
        assert sessions_of(first.run) == 3 * n
    assert call(n=3).page == first.page
    assert sessions_of(first.run) == 3 * 6
    assert crs_lib.compare(["sticky"], against=["popular", "bm25"], n=3).run == first.run


SYSTEM = """class Own:
    def __init__(self, catalog):
        self.title = next(iter(catalog.export()))["title"]

    def reply(self, request):
        return {"reply": f"Have a look at {self.title}."}
"""
EDITS = {
    "own_system.py": ("Have a look at", "How about"),
    "books.csv": ("Roger Ackroyd", "Robert Ackroyd"),
    "fields.yaml": ("weight: 3", "weight: 2"),
}


@pytest.mark.subprocess
def test_an_edit_of_the_system_the_catalogue_or_the_fields_gives_a_run_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_system.py").write_text(SYSTEM)
    for sample, file in (("books.csv", "books.csv"), ("books.yaml", "fields.yaml")):
        (tmp_path / file).write_text((paths.samples() / sample).read_text(encoding="utf-8"), encoding="utf-8")
    call = partial(
        crs_lib.compare,
        ["Own=python:own_system:Own"],
        against=["random"],
        n=2,
        catalog="books.csv",
        fields="fields.yaml",
        progress=False,
    )
    names = [call().run]
    assert call().run == names[0]
    for file, (old, new) in EDITS.items():
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / file).write_text(text.replace(old, new, 1), encoding="utf-8")
        names.append(call().run)
    assert len(set(names)) == 1 + len(EDITS)


@pytest.mark.subprocess
def test_a_comparison_that_was_stopped_continues_with_what_is_finished(monkeypatch):
    def stops(messages):
        if stopping and next(answered) > 40:
            raise KeyboardInterrupt
        return ["Metropolis (1927)"]

    call = partial(
        crs_lib.compare, {"Stops": stops}, against=["random"], n=6, run="compare-stops", progress=False
    )
    answered = itertools.count()
    stopping = True
    with pytest.raises(KeyboardInterrupt):
        call()
    finished = runs.Run("movies", "compare-stops").entry("simulate")["counts"]["done"]
    stopping = False
    call()
    assert 0 < finished < sessions_of("compare-stops") == 12


@pytest.mark.subprocess
def test_a_system_whose_words_name_no_film_of_the_catalogue_gets_no_gain_but_what_to_do():
    def elsewhere(messages):
        return "Try “Metropole” (1927), “Nosferatoo” (1922), “Casablanka” (1942) or “Xyzzy” (1999)."

    comparison = crs_lib.compare({"Lost": elsewhere}, n=3, run="compare-lost", progress=False)
    assert re.match(
        r"None of \d+ replies of Lost names a film of the catalogue, so it has no gain: it named “",
        comparison.verdict[0],
    )
    assert "(nearest title: Metropolis)" in comparison.verdict[0]
    assert comparison.verdict[0].count("“") == 3, (
        "three examples, each with its nearest title, if any is like it"
    )
    assert "crs catalog export" in comparison.verdict[0]
    assert not any("Lost gains" in sentence for sentence in comparison.verdict)
    row = comparison.quantities.set_index("system").loc["Lost"]
    assert row["n"] == 0
    assert row.drop(["n", "failed", "open_scope_n"]).isna().all()
    assert comparison.quantities["system"].iloc[-1] == "Lost"
    page = comparison.page.read_text(encoding="utf-8")
    assert page.index("None of") < page.index("<h2>What was recognised") < page.index("<h2>Gain and cost")


@pytest.mark.subprocess
def test_failures_stand_beside_n():
    def fails(messages):
        if len(messages[0]["content"]) % 6 == 0:
            raise ValueError("no answer to this")
        return ["Metropolis (1927)"]

    comparison = crs_lib.compare(
        {"Fails": fails}, against=["random"], n=12, run="compare-fails", progress=False
    )
    (failed,) = comparison.failed
    assert comparison.verdict[0] == failed.sentence
    assert f"{failed.failed} of 12 sessions of Fails failed" in failed.sentence
    row = comparison.quantities.set_index("system").loc["Fails"]
    assert row["failed"] == failed.failed
    page = comparison.page.read_text(encoding="utf-8")
    assert f"{failed.failed} of 12 sessions of Fails failed" in page


@pytest.mark.parametrize("against", ["tracker", ["bm25", "tracker"]])
def test_a_system_against_itself_is_refused(against):
    refused(
        "tracker cannot be compared with itself; give another: --against bm25",
        crs_lib.compare,
        "tracker",
        against=against,
    )


@pytest.mark.parametrize("more", [{"n": 5}, {"n": 3, "systems": ("Ours=tracker", "sticky", "random")}])
def test_a_run_that_grows_equals_one_made_at_once(more):
    name = f"grows-{more['n']}"
    simulate_run(name, 3)
    grown = simulate_run(name, **more)
    whole = simulate_run(f"{name}-whole", **more)
    for file in ("dialogues.jsonl", "dialogues_straight.jsonl", "dialogues_fresh.jsonl"):
        assert (grown / file).read_bytes() == (whole / file).read_bytes()
    refused("made with other parameters", simulate_run, name, 2, error=RunError)


def test_a_name_is_checked_and_in_the_files_and_its_spec_in_the_manifest():
    refused("tracker", SimulateConfig, systems=["Ours=trakcer"])
    refused("another name", SimulateConfig, systems=["oracle=tracker"])
    refused("more than once", SimulateConfig, systems=["Ours=tracker", "Ours=sticky"])
    simulate_run("named", 2)
    assert {talk.model_name for talk in simulate.iter_dialogues("named")} == {"Ours", "sticky"}
    assert "Ours=tracker" in runs.Run("movies", "named").entry("simulate")["parameters"]["systems"]


@pytest.mark.subprocess
def test_a_comparison_needs_a_system_and_two_users_and_a_function_that_raises_names_its_line():
    refused("at least 2", crs_lib.compare, {})
    refused("at least 2", crs_lib.compare, {"Ours": "tracker"}, n=1)
    message = r"nosuch cannot be imported .*; looked for in .*Python's path"
    refused(message, crs_lib.compare, {"Ours": "python:nosuch:Mine"})

    def broken(messages):
        raise KeyError("films")

    with pytest.raises(RunError, match=r"KeyError.*test_report\.py, line"):
        crs_lib.compare({"Ours": broken}, n=2, run="compare-broken", progress=False)
    assert not (paths.run_folder("movies", "compare-broken") / "compare.html").exists()
