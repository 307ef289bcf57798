"""Questions about a run and the labels that people give: blinded, checked, held against the metrics."""

import json
import math
import re
import time

import numpy as np
import pandas as pd
import pytest

from crs_lib.__main__ import main
from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.report.page import question_page
from crs_lib.stats.power import correlation_power, reliability
from crs_lib.validity import labels, questions
from tests.helpers import refused
from tests.helpers.sample import scored

SYSTEMS = ("oracle", "tracker", "sticky", "random")


def ask(run, n, kind="single", seed=0):
    return labels.sample(labels.AskConfig(run=run, n=n, kind=kind, seed=seed))


@pytest.fixture(scope="module")
def run():
    return scored("annotated", systems=SYSTEMS, n_sessions=10, n_turns=8)


@pytest.mark.parametrize("kind", ["single", "pairs"])
@pytest.mark.slow
def test_questions_are_blinded_balanced_and_the_same_for_a_seed(run, kind):
    asked = ask(run, 12, kind)
    assert len({one.id for one in asked}) == 12
    assert asked == ask(run, 12, kind) and asked != ask(run, 12, kind, 1)
    counts = pd.Series([model for one in asked for model in one.systems]).value_counts()
    assert counts.max() - counts.min() <= (2 if kind == "single" else 4)
    page = question_page(questions.page_data(asked, kind))
    shown = page.partition('id="data">')[2].partition("</script>")[0]
    for model in SYSTEMS:
        assert f'"{model}"' not in shown  # no system is named
    for one in asked:
        marked = [turn["shift"] for turn in one.sides[0] if turn["shift"]]
        assert len(marked) == 1 and re.match("now wants|no longer asks for|rules out", marked[0])
        assert len(one.sides) == (1 if kind == "single" else 2)
        # both assistants meet the same user up to the shift
        assert len({side[0]["user"] for side in one.sides}) == 1 or one.shift > 2


@pytest.mark.slow
def test_no_conversation_opens_with_a_reply_without_films_before_the_change():
    run = scored("annotated-silent", systems=("oracle", "silent"), n_sessions=5, n_turns=8)
    for question in ask(run, 8):
        first = question.sides[0][0]
        if question.systems == ("silent",):
            assert first["shift"]
            assert len(question.earlier) == question.shift - 1
        else:
            assert not first["shift"]


def test_too_few_sessions_and_unknown_kinds_are_said(run):
    refused("asked for 5000; simulate more", ask, run, 5000)
    refused("kind", ask, run, 3, "triples")
    refused("annotate --run nowhere", labels.read_key, "nowhere", error=RunError)


def test_the_page_allows_its_own_script_and_nothing_else(run):
    page = question_page(questions.page_data(ask(run, 3), "single"))
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'none'" in policy
    turn = {"user": "</script><b>", "system": "s", "shift": "</script><b>"}
    hostile = labels.Question("x", (), ((turn,),), ("a",), "1", 1, (1,))
    assert "</script><b>" not in question_page(questions.page_data([hostile], "single"))


def given(run, tmp_path, **options):
    tables.write_jsonl(tmp_path / "labels.jsonl", labels.scripted_labels(run, **options))
    return tmp_path / "labels.jsonl"


@pytest.mark.slow
def test_labels_are_imported_and_held_against_every_metric(run, tmp_path, capsys):
    assert main(["annotate", "--run", run, "--n", "12"]) == 0
    file = given(run, tmp_path)
    assert main(["annotate", "--run", run, "--import", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "one_against_rest" in shown and "true_detectable" in shown and "normalised_gain" in shown
    found = labels.findings(run, [file], resamples=50)
    assert set(found.labels["rater"]) == {"scripted-1", "scripted-2", "scripted-3"}
    # the raters are made of the gain
    assert found.correlations.set_index("metric").loc["normalised_gain", "spearman"] > 0.6
    assert all((labels.folder(run) / f"{name}.csv").is_file() for name in found._fields)


def test_raters_without_noise_agree_and_their_labels_follow_the_gain(run, tmp_path):
    main(["annotate", "--run", run, "--n", "12", "--kind", "pairs"])
    found = labels.findings(run, [given(run, tmp_path, noise=0)], resamples=50)
    assert found.agreement.loc[0, "alpha"] == pytest.approx(1.0)
    assert found.correlations.loc[0, "spearman"] > 0.9


@pytest.mark.parametrize(("change", "message"), [
    ({"value": 6}, "a value from 1 to 5"), ({"value": True}, "a value from 1 to 5"),
    ({"value": None}, "a value from 1 to 5"), ({"rater": ""}, "no label"),
    ({"page": "0" * 16}, "belongs to page"), ({"item": "nobody"}, "no question 'nobody'"),
])  # fmt: skip
def test_what_is_no_label_of_this_page_is_refused(run, tmp_path, change, message):
    main(["annotate", "--run", run, "--n", "4"])
    key = labels.read_key(run)
    label = {"item": key.questions["id"][0], "rater": "ab", "value": 3, "page": key.page, "seconds": 1.5}
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(label) + "\n" + json.dumps({**label, **change}) + "\n")
    refused(rf"labels.jsonl, line 2.*{message}", labels.read, [path], run)


def test_labels_of_an_earlier_page_are_read_after_a_later_one_was_made(run, tmp_path):
    files = []
    for n in (5, 7):
        assert main(["annotate", "--run", run, "--n", str(n), "--seed", str(n)]) == 0
        files.append(given(run, tmp_path).rename(tmp_path / f"{n}.jsonl"))
    assert labels.read_key(run).page == labels.read(files[1:], run)[1].page
    for file, n in zip(files, (5, 7), strict=True):
        found, key = labels.read([file], run)
        assert found["item"].nunique() == n and set(found["item"]) == set(key.questions["id"])
    refused("one page at a time", labels.read, files, run)
    one = json.loads(files[0].read_text().splitlines()[0]) | {"page": "../../manifest"}
    (tmp_path / "odd.jsonl").write_text(json.dumps(one))
    refused("belongs to page", labels.read, [tmp_path / "odd.jsonl"], run)


def test_initials_of_any_sign_and_many_raters_take_no_square_of_time(run, tmp_path):
    main(["annotate", "--run", run, "--n", "6"])
    key = labels.read_key(run)
    rows = [
        {"item": item, "rater": f"r{number}\u2028\x85", "value": 1 + (number * 7 + place) % 5, "page": key.page}
        for number in range(3_000) for place, item in enumerate(key.questions["id"])
    ]  # fmt: skip
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    began = time.process_time()
    found = labels.findings(run, [path], resamples=50)
    assert time.process_time() - began < 20
    assert len(found.labels) == 18_000 and found.labels["rater"].nunique() == 3_000
    assert -0.01 < found.agreement.loc[0, "alpha"] < 0.01


def test_the_last_label_counts_and_programs_are_told_from_people(run, tmp_path):
    main(["annotate", "--run", run, "--n", "4"])
    key = labels.read_key(run)
    item = key.questions["id"][0]
    lines = [{"item": item, "rater": "ab", "value": value, "page": key.page} for value in (2, 5)]
    tables.write_jsonl(tmp_path / "labels.jsonl", lines)
    assert labels.read([tmp_path / "labels.jsonl"], run)[0]["value"].tolist() == [5]
    frame = pd.DataFrame({"rater": ["scripted-1", "scripted-2"], "item": ["a", "a"], "value": [1, 5]})
    made = labels.Findings(frame, *[pd.DataFrame()] * 3)
    assert (made.scripted, made.who) == (True, "2 scripted raters")
    given = made._replace(labels=frame.assign(rater=["ann", "scripted-1"]))
    assert (given.scripted, given.who) == (False, "2 raters")


def test_power_falls_with_fewer_questions_and_noisier_labels():
    table = correlation_power([30, 120, 3], 0.64)
    # tanh((1.96 + 0.84) · sqrt(1.06/27)) and that divided by 0.8
    seen = np.array([0.5047, 0.2604, math.nan])
    assert table["detectable"].to_numpy() == pytest.approx(seen, abs=1e-3, nan_ok=True)
    assert table["true_detectable"].to_numpy() == pytest.approx(seen / 0.8, abs=1e-3, nan_ok=True)
    assert reliability(0.5, 4) == pytest.approx(4 * 0.5 / 2.5)  # Spearman-Brown
    assert math.isnan(reliability(math.nan, 4))
