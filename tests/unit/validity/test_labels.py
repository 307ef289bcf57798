"""Questions about a run and the labels that people give: blinded, checked, held against the metrics."""

import json
import math
import re
import time

import pandas as pd
import pytest

from crs_lib.__main__ import main
from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.report.page import question_page
from crs_lib.stats.power import correlation_power, reliability
from crs_lib.validity import labels, questions
from tests.helpers import refused, table
from tests.helpers.sample import scored

SYSTEMS = ("oracle", "tracker", "sticky", "random")


def sample(run, n, kind="single", seed=0):
    return labels.sample(labels.AskConfig(run=run, n=n, kind=kind, seed=seed))


def page_of(run, n, kind="single"):
    """The page with so many questions about the run."""
    return question_page(questions.page_data(sample(run, n, kind), kind))


@pytest.fixture(scope="module")
def run():
    return scored("annotated", systems=SYSTEMS, n_sessions=10, n_turns=8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single", "pairs"])
def test_questions_are_different_and_the_same_for_a_seed(run, kind):
    page = sample(run, 12, kind)
    assert len({question.id for question in page}) == 12
    assert page == sample(run, 12, kind)
    assert page != sample(run, 12, kind, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sides", "most"), table(__file__, "balance"))
def test_questions_are_balanced_over_systems(run, kind, sides, most):
    shown = []
    for question in sample(run, 12, kind):
        assert len(question.sides) == sides
        shown += question.systems
    counts = pd.Series(shown).value_counts()
    assert counts.max() - counts.min() <= most


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single", "pairs"])
def test_questions_are_blinded(run, kind):
    page = page_of(run, 12, kind)
    _, _, after = page.partition('id="data">')
    data, _, _ = after.partition("</script>")
    for system in SYSTEMS:
        assert f'"{system}"' not in data


@pytest.mark.slow
def test_a_question_marks_its_change_and_both_assistants_meet_the_same_user_up_to_it(run):
    for question in sample(run, 12, "pairs"):
        left, right = question.sides
        (mark,) = [turn["shift"] for turn in left if turn["shift"]]
        assert re.match("now wants|no longer asks for|rules out", mark)
        assert left[0]["user"] == right[0]["user"] or question.shift > 2


@pytest.mark.slow
def test_no_conversation_opens_with_a_reply_without_films_before_the_change():
    run = scored("annotated-silent", systems=("oracle", "silent"), n_sessions=5, n_turns=8)
    for question in sample(run, 8):
        first = question.sides[0][0]
        assert bool(first["shift"]) == (question.systems == ("silent",))
        if first["shift"]:
            assert len(question.earlier) == question.shift - 1


def test_too_few_sessions_and_unknown_kinds_are_refused(run):
    refused("asked for 5000; simulate more", sample, run, 5000)
    refused("kind", sample, run, 3, "triples")
    refused("annotate --run nowhere", labels.read_key, "nowhere", error=RunError)


def test_the_page_allows_its_own_script_and_nothing_else(run):
    page = page_of(run, 3)
    _, _, after = page.partition('Content-Security-Policy" content="')
    policy, _, _ = after.partition('"')
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


def test_words_of_a_conversation_are_no_part_of_the_page(run):
    turn = {"user": "</script><b>", "system": "s", "shift": "</script><b>"}
    side = (turn,)
    hostile = labels.Question("x", (), (side,), ("a",), "1", 1, (1,))
    page = question_page(questions.page_data([hostile], "single"))
    assert "</script><b>" not in page


def make_page(run, n, *options):
    """Make the run's page with so many questions, and read its key."""
    assert main(["annotate", "--run", run, "--n", str(n), *options]) == 0
    return labels.read_key(run)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "labels.jsonl"


@pytest.mark.slow
def test_labels_are_imported_and_held_against_every_metric(run, file, capsys):
    make_page(run, 12)
    tables.write_jsonl(file, labels.scripted_labels(run))
    assert main(["annotate", "--run", run, "--import", str(file)]) == 0
    printed = capsys.readouterr().out
    for column in ("one_against_rest", "true_detectable", "normalised_gain"):
        assert column in printed
    for name in labels.Findings._fields:
        assert (labels.folder(run) / f"{name}.csv").is_file()


@pytest.mark.slow
def test_labels_of_raters_made_of_the_gain_follow_it(run, file):
    make_page(run, 12)
    tables.write_jsonl(file, labels.scripted_labels(run))
    findings = labels.findings(run, [file], resamples=50)
    assert set(findings.labels["rater"]) == {"scripted-1", "scripted-2", "scripted-3"}
    assert findings.correlations.set_index("metric").loc["normalised_gain", "spearman"] > 0.6


def test_raters_without_noise_agree(run, file):
    make_page(run, 12, "--kind", "pairs")
    tables.write_jsonl(file, labels.scripted_labels(run, noise=0))
    findings = labels.findings(run, [file], resamples=50)
    assert findings.agreement.loc[0, "alpha"] == pytest.approx(1)
    assert findings.correlations.loc[0, "spearman"] > 0.9


def label_of(key, **fields):
    """A label of the first question of a page, with these fields in place of its own."""
    item = key.questions["id"][0]
    return {"item": item, "rater": "ab", "value": 3, "page": key.page} | fields


WITHOUT_VALUE = ["value", None, "a value from 1 to 5"]


@pytest.mark.parametrize(("field", "value", "words"), [*table(__file__, "no_labels"), WITHOUT_VALUE])
def test_what_is_no_label_of_this_page_is_refused(run, file, field, value, words):
    key = make_page(run, 4)
    label = label_of(key, seconds=1.5)
    tables.write_jsonl(file, [label, label | {field: value}])
    refused(rf"labels.jsonl, line 2.*{words}", labels.read, [file], run)


@pytest.fixture
def two_pages(run, tmp_path):
    """The files of an earlier page of five questions and of a later one of seven."""
    files = []
    for n in (5, 7):
        make_page(run, n, "--seed", str(n))
        files.append(tmp_path / f"{n}.jsonl")
        tables.write_jsonl(files[-1], labels.scripted_labels(run))
    return files


def test_labels_of_an_earlier_page_are_read_after_a_later_one_was_made(run, two_pages):
    earlier, later = two_pages
    _, key = labels.read([later], run)
    assert key.page == labels.read_key(run).page
    frame, key = labels.read([earlier], run)
    assert frame["item"].nunique() == 5
    assert set(frame["item"]) == set(key.questions["id"])
    refused("one page at a time", labels.read, two_pages, run)


def test_a_page_that_is_a_path_is_no_page(run, file):
    key = make_page(run, 4)
    tables.write_jsonl(file, [label_of(key, page="../../manifest")])
    refused("belongs to page", labels.read, [file], run)


def test_initials_of_any_sign_and_many_raters_take_no_square_of_time(run, file):
    key = make_page(run, 6)
    lines = []
    for rater in range(3_000):
        for number, item in enumerate(key.questions["id"]):
            value = 1 + (rater * 7 + number) % 5
            label = {"item": item, "rater": f"r{rater}\u2028\x85", "value": value, "page": key.page}
            lines.append(json.dumps(label, ensure_ascii=False))
    file.write_text("\n".join(lines), encoding="utf-8")
    began = time.process_time()
    findings = labels.findings(run, [file], resamples=50)
    assert time.process_time() - began < 20
    assert len(findings.labels) == 18_000
    assert findings.labels["rater"].nunique() == 3_000
    assert findings.agreement.loc[0, "alpha"] == pytest.approx(0, abs=0.01)


def test_the_last_label_counts(run, file):
    key = make_page(run, 4)
    tables.write_jsonl(file, [label_of(key, value=2), label_of(key, value=5)])
    frame, _ = labels.read([file], run)
    assert frame["value"].tolist() == [5]


@pytest.mark.parametrize(("raters", "scripted", "words"), table(__file__, "raters"))
def test_programs_are_distinguished_from_people(raters, scripted, words):
    empty = pd.DataFrame()
    frame = pd.DataFrame({"rater": raters, "item": "a", "value": [1, 5]})
    findings = labels.Findings(frame, empty, empty, empty)
    assert findings.scripted == scripted
    assert findings.who == words


def test_power_falls_with_fewer_questions_and_noisier_labels():
    """tanh((1.96 + 0.84) · sqrt(1.06/27)); without noise divided by 0.8."""
    many, more, few = correlation_power([30, 120, 3], 0.64).to_dict("records")
    for row, expected in ((many, 0.5047), (more, 0.2604)):
        assert row["detectable"] == pytest.approx(expected, abs=1e-3)
        assert row["true_detectable"] == pytest.approx(expected / 0.8, abs=1e-3)
    assert math.isnan(few["detectable"])
    assert math.isnan(few["true_detectable"])


def test_reliability_of_several_raters_is_spearman_browns():
    assert reliability(0.5, 4) == pytest.approx(4 * 0.5 / 2.5)
    assert math.isnan(reliability(math.nan, 4))
