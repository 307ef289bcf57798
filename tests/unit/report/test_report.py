"""The report: what it says is what the files say, it stands alone, and the same run gives the same bytes."""

import base64
import hashlib
import re

import pandas as pd
import pytest

from crs_lib import evaluate, figures, runs
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.figures import NoDataError, style
from crs_lib.figures import base as registered
from crs_lib.report import figure_tables, report, trace
from tests.helpers import browser as chromium
from tests.helpers.sample import scored

pytestmark = pytest.mark.slow
SYSTEMS = ("oracle", "tracker", "random")


@pytest.fixture(scope="module")
def run():
    return scored("report-unit", systems=SYSTEMS, n_sessions=6, n_turns=12)


@pytest.fixture(scope="module")
def drawn():
    """What the figures of the page were drawn from and became: name, copies of the tables, picture; in order."""
    return []


@pytest.fixture(scope="module")
def page(run, drawn):
    make, data = figures.make, style.data

    def made(name, *tables):
        figure = make(name, *tables)
        drawn.append([name, [table.copy() for table in tables]])
        return figure

    def picture(figure, kind, dpi):
        drawn[-1].append(data(figure, kind, dpi))
        return drawn[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "make", made)
        patch.setattr(style, "data", picture)
        return report.write(run).read_text(encoding="utf-8")


def test_it_stands_alone_beside_the_tables_with_every_part(page, run):
    """No script, no style sheet, no picture and no font from elsewhere; the only addresses lead into the trace."""
    assert not re.search(r"<script|<link|@import|url\(|https?:", page)
    assert set(re.findall(r'src="([^",]*)', page)) == {"data:image/png;base64"}
    links = re.findall(r'href="([^"]*)"', page)
    assert all(link.startswith(("#", "trace/index.html#session=")) for link in links)
    manifest = runs.read_manifest("movies", run)
    assert sorted(manifest["stages"]) == ["catalog", "evaluate", "simulate"]
    assert (paths.run_folder("movies", run) / "report.html").is_file()
    titles = re.findall(r'<section id="([a-z]+)"><h2>', page)
    wanted = "findings scores conclusions sessions figures metrics meaning convention manifest"
    assert titles == wanted.split()
    assert re.findall(r'<li><a href="#([a-z]+)">', page) == titles


def test_the_figures_are_those_of_the_figure_command(run, page):
    wanted = []
    for name in registered.names("movies"):
        try:
            tables = figures.FIGURES.get(name).facts["tables"]
            figures.make(name, *(figure_tables.read(run, table) for table in tables))
        except NoDataError:
            continue
        wanted.append(name)
    assert sorted(re.findall(r'<figure id="figure-([^"]+)">', page)) == sorted(wanted)
    pictures = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]+)", page)]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert len({hashlib.sha256(picture).digest() for picture in pictures}) == len(wanted)


def test_means_contrasts_and_undefined_values_are_those_of_the_tables(run, page):
    means = evaluate.read(run, "model_metrics").set_index(["metric", "model"])
    row = means.loc[("item_tas", "tracker")]
    assert f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" in page
    assert f"{row['mean']:.3f}<small>{row['low']:.3f} to {row['high']:.3f}</small>" in page
    means = evaluate.read(run, "model_metrics")
    gaps = means[means["n_missing"] > 0]
    assert len(gaps) > 0
    for row in gaps.to_dict("records"):
        cells = f'<td>{row["model"]}</td><td class="value">{row["n"]}</td><td class="value">{row["n_missing"]}</td>'
        assert f"<td>{report._label(row['metric'])}</td>{cells}" in page
    results = evaluate.read(run, "results").query("model == 'tracker'")
    found = re.findall(r'href="trace/index.html#session=(\d+)&amp;model=tracker"', page)
    gain = results["shift_cost"].astype(float)  # the plan's primary outcome
    assert found[0] in set(results.loc[gain == gain.min(), "session_id"])
    assert found[2] in set(results.loc[gain == gain.max(), "session_id"])
    assert "oracle against tracker" in page
    assert "amnesiac" not in page.split('id="figures"')[0]


def test_the_same_files_give_the_same_bytes(run, page, drawn, monkeypatch):
    """The figures get the same tables again, which give the same picture (tests/contract/test_figures.py)."""
    left, make = iter(drawn), figures.make

    def same(name, *tables):
        entry = figures.FIGURES.get(name)
        if name not in {known for known, *_ in drawn}:
            return make(name, *tables)  # no data, as before
        known, before, picture = next(left)
        assert (name, len(tables)) == (known, len(entry.facts["tables"]))
        for table, earlier in zip(tables, before, strict=True):
            pd.testing.assert_frame_equal(table, earlier)
        return picture

    monkeypatch.setattr(figures, "make", same)
    monkeypatch.setattr(style, "data", lambda picture, kind, dpi: picture)
    assert report.write(run).read_text(encoding="utf-8") == page
    assert next(left, None) is None


def test_one_system_has_a_report_that_says_why_there_are_no_tests():
    name = scored("report-one", systems=("tracker",), n_sessions=3, n_turns=8)
    text = report.write(name).read_text(encoding="utf-8")
    assert "One system met 3 simulated users: 3 sessions" in text
    assert "No tests: they compare systems, and the run has one." in text
    assert "Declared contrasts" not in text


def test_an_unknown_plan_and_an_unscored_run_are_refused(run):
    with pytest.raises(InputError, match="no analysis plan 'guess'"):
        report.write(run, "guess")
    with pytest.raises(RunError, match="run 04_evaluate -p run nowhere"):
        report.write("nowhere")


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
        assert len(pictures) > 5
        assert all(pictures)
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
