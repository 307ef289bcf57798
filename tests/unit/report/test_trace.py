"""The trace's data: text cut at findings, films and constraints, escapes, and agreement with the scored tables."""

import dataclasses
import itertools
import json
import math
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib import evaluate, runs, simulate
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, TINTED
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue, Mark, Turn, tint_css, tint_place
from crs_lib.core.errors import RunError
from crs_lib.evaluate.scorer import Scorer
from crs_lib.figures import style
from crs_lib.judge import run as judge_records
from crs_lib.metrics import conventions
from crs_lib.report import trace
from crs_lib.report.page import Link, Mean, table
from crs_lib.report.session import TITLE, SessionView, Stretch, number, pieces, script
from crs_lib.report.trace import RunFiles, index_of
from tests.helpers import refused
from tests.helpers import table as cases
from tests.helpers.fonts import contrast
from tests.helpers.sample import scored, simulated

SYSTEMS = ("tracker", "sticky", "random")


PLACE = st.integers(-3, 40)


@given(st.text(max_size=30), st.lists(st.tuples(PLACE, PLACE), max_size=8))
def test_the_pieces_joined_are_the_text_and_every_finding_covers_its_stretch(text, ranges):
    findings = []
    for position, (start, end) in enumerate(ranges):
        findings.append(Stretch(start, end, "genre", f"value {position}"))
    cut = pieces(text, findings)
    assert joined(cut) == text
    for finding in findings:
        covered = ""
        if 0 <= finding.start < finding.end <= len(text):
            covered = text[finding.start : finding.end]
        assert joined(pieces_with(cut, finding.value)) == covered


def pieces_with(cut, value):
    """The pieces of a cut text in which a value of a genre was recognised."""
    marked = [piece for piece in cut if not isinstance(piece, str)]
    return [piece for piece in marked if ["genre", value] in piece[1]]


def lists_and_objects(inner):
    return st.lists(inner) | st.dictionaries(st.text(), inner)


@given(st.recursive(st.none() | st.integers() | st.text(), lists_and_objects))
@pytest.mark.slow
def test_a_script_holds_its_data_and_never_closes_its_element(value):
    text = script("f", 1, value).decode("utf-8")
    assert text.startswith("f(1,")
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(f"[{text[2:-3]}]") == [1, value]


def test_odd_letters_are_written_so_that_nothing_is_lost():
    assert script("f", "\ud83d!") == b'f("\\ud83d!");\n'


@pytest.mark.parametrize(("value", "written"), [(0.123456, 0.1235), (-0.00001, 0.0), (1, 1.0)])
def test_a_number_has_four_decimals(value, written):
    assert number(value) == written


@pytest.mark.parametrize("value", [math.inf, math.nan, None, "x"])
def test_what_is_no_number_is_missing(value):
    assert number(value) is None


def test_a_finding_says_its_value_where_that_is_not_the_text_and_why_it_was_rejected():
    same = Stretch(0, 3, "genre", "War")
    assert pieces("War", [same]) == [["War", [["genre"]]]]
    rejected = Stretch(0, 3, "genre", "War", "no film word")
    assert pieces("war", [rejected]) == [["war", [["genre", "War", "no film word"]]]]


FILMS = cases(__file__, "films")


@pytest.fixture(scope="module")
def view():
    catalog = Catalog.from_records(FILMS.items())
    return SessionView(Scorer(Grounder(catalog), conventions.get("default")), ["item_tas"])


def conversation(*turns):
    """Turns of (constraints, avoid, titles)."""
    lines = []
    for constraints, avoid, titles in turns:
        meta = {"user_meta": {"constraints": constraints, "avoid": avoid}}
        lines.append(Turn("USER", "Something, please.", meta))
        lines.append(Turn("SYSTEM", "Here.", {"rec_titles": titles}))
    return Dialogue("00000", "mine", tuple(lines))


def turns_of(view, *turns):
    """The turns of a conversation as the trace has them."""
    return view.record(conversation(*turns), [], [])["turns"]


def test_films_name_the_constraints_met_dropped_or_excluded(view):
    before = ({"genre": "Drama", "year": "1994"}, {}, ["Harbour Lights", "Saltwind"])
    after = ({"director": "Mara Lindqvist"}, {"genre": "Comedy"}, ["Harbour Lights", "The Long Quay"])
    first, second = turns_of(view, before, after)
    films = view.catalog.title_index
    (harbour,) = films["harbour lights"]
    (quay,) = films["the long quay"]
    (salt,) = films["saltwind"]
    lights, wind = first["films"]
    assert lights == {"film": harbour, "met": [True, True]}
    assert wind == {"film": salt, "met": [False, True]}
    again, avoided = second["films"]
    dropped = [["genre", "Drama"], ["year", "1994"]]
    assert again == {"film": harbour, "met": [True], "dropped": dropped, "again": True}
    assert avoided == {"film": quay, "met": [True], "avoided": [["genre", "Comedy"]]}


def test_what_the_catalogue_lacks_is_neither_met_nor_zero(view):
    western = ({"genre": "Western"}, {}, ["Saltwind"])
    unknown, bare = turns_of(view, western, ({}, {}, []))
    (film,) = unknown["films"]
    assert film["met"] == [None]
    assert bare["scores"] == [None]
    assert "films" not in bare


def test_a_constraint_of_several_values_is_one_entry_a_value_and_empty_ones_are_none(view):
    wishes = {"genre": ["War", "Drama"], "year": 1994, "actor": None}
    turn, nothing = turns_of(view, (wishes, None, []), ("War", {}, []))
    assert turn["constraints"] == [["genre", "War"], ["genre", "Drama"], ["year", "1994"]]
    assert {"avoid", "shift", "films", "undefined"}.isdisjoint(turn)
    assert "constraints" not in nothing
    assert nothing["turn"] == 2


def test_the_shift_says_what_changed_and_when_replies_followed(view):
    change = {"type": "switch", "added": {"genre": "War"}, "dropped": {"genre": "Drama"}}
    bridge = {"bridge_field": "year", "bridge_value": "1994"}
    event = {"turn": 2, **change, **bridge, "from_anchor": "Harbour Lights", "to_anchor": "Saltwind"}
    before = ({"genre": "Drama"}, {}, [])
    after = ({"genre": "War"}, {}, ["Saltwind"])
    talk = dataclasses.replace(conversation(before, after), shift_events=(event,))
    recovery = {"recovered_item": True, "delay_item": 0.0, "recovered_text": False, "delay_text": math.nan}
    scored_shift = {"turn": 2, "watched": 1, **recovery}
    _, turn = view.record(talk, [], [scored_shift])["turns"]
    shift = turn["shift"]
    assert shift["type"] == "switch"
    assert shift["added"] == [["genre", "War"]]
    assert shift["dropped"] == [["genre", "Drama"]]
    assert shift["bridge"] == ["year", "1994"]
    assert shift["films"] == [True, 0.0]
    assert shift["text"] == [False, None]


@pytest.fixture(scope="module")
def run():
    name = scored("trace-unit", systems=SYSTEMS, n_sessions=7, n_turns=12, voices="A")
    trace.write(name, page_size=5)
    return name


def sessions_of(pages):
    """The sessions of all pages, in order."""
    return itertools.chain.from_iterable(page["sessions"] for page in pages)


def joined(cut):
    """A text from its pieces."""
    text = ""
    for piece in cut:
        text += piece if isinstance(piece, str) else piece[0]
    return text


def flags_of(films):
    """What three scores of a turn count, from the marks of its films."""
    flags = {"satisfaction": [], "topic_interference_leakage": [], "novelty": []}
    for film in films:
        flags["satisfaction"] += map(bool, film["met"])
        unwanted = bool(film.get("dropped") or film.get("avoided"))
        flags["topic_interference_leakage"].append(unwanted and not any(film["met"]))
        flags["novelty"].append(not film.get("again"))
    return flags


def called(path):
    """The arguments of the call that a data file is."""
    _, _, after = path.read_text(encoding="utf-8").partition("(")
    arguments, _, _ = after.rpartition(")")
    return json.loads(f"[{arguments}]")


@pytest.fixture(scope="module")
def data(run):
    folder = paths.run_folder("movies", run) / "trace" / "data"
    pages = []
    for path in sorted(folder.glob("page-*.js")):
        _, page = called(path)
        pages.append(page)
    (index,) = called(folder / "index.js")
    return index, pages


@pytest.mark.slow
def test_every_session_is_in_the_index_and_on_the_page_that_it_says(run, data):
    index, pages = data
    assert [len(page["sessions"]) for page in pages] == [5, 5, 5, 5, 1]
    for position, dialogue in enumerate(simulate.dialogues(run)):
        page = pages[position // 5]
        session = page["sessions"][position % 5]
        model = index["models"][index["model"][position]]
        assert session["model"] == dialogue.model_name
        assert model["name"] == dialogue.model_name
        assert session["id"] == dialogue.session_id
        assert index["id"][position] == dialogue.session_id
        genre, types, _ = index["plots"][index["plot"][position]]
        assert genre == dialogue.true_genre
        happened = [event["type"] for event in dialogue.shift_events]
        assert [index["types"][kind] for kind in types] == happened
    assert len(index["plots"]) == 7  # scenarios are shared by the systems


def test_texts_and_scores_of_the_pages_are_those_of_the_run(run, data):
    index, pages = data
    for dialogue, session in zip(simulate.dialogues(run), sessions_of(pages), strict=True):
        texts = []
        for turn in session["turns"]:
            texts += [joined(turn["user"]), joined(turn["system"])]
        assert texts == [turn.text for turn in dialogue.turns]
    results = evaluate.read(run, "results")
    shown = index["scores"]
    assert shown["item_tas"] == pytest.approx(results["item_tas"].tolist(), abs=1e-4)
    rates = map(number, results["topic_recovery_rate"])
    assert shown["topic_recovery_rate"] == list(rates)


def test_scores_counted_again_from_what_is_shown_are_the_scores_of_the_tables(run, data):
    """Satisfaction, leakage and novelty from ticks and marks alone: a second opinion on both."""
    index, pages = data
    columns = [metric["name"] for metric in index["turn_metrics"]]
    turns = evaluate.read(run, "turns").set_index(["model", "session_id", "turn"])
    checked = Counter()
    for session in sessions_of(pages):
        for turn in session["turns"]:
            key = session["model"], session["id"], turn["turn"]
            for name, flags in flags_of(turn.get("films", ())).items():
                score = turn["scores"][columns.index(name)]
                expected = turns.loc[key, name]
                assert (score is None) == bool(pd.isna(expected))
                if score is not None and flags:
                    assert score == pytest.approx(expected, abs=1e-4)
                    assert score == pytest.approx(np.mean(flags), abs=1e-4), (key, name)
                    checked[name] += 1
    assert len(checked) == 3
    assert min(checked.values()) > 100


def test_the_same_run_gives_the_same_bytes_and_the_manifest_stays(run):
    folder = paths.run_folder("movies", run)
    before = {folder / "manifest.json", *(folder / "trace").rglob("*")}
    contents = {path: path.read_bytes() for path in before if path.is_file()}
    trace.write(run, page_size=5)
    assert {path: path.read_bytes() for path in contents} == contents
    assert {*(folder / "trace").rglob("*")} < before
    assert not list(folder.glob(".trace*"))


@pytest.mark.slow
def test_fewer_pages_leave_no_page_of_before(run):
    trace.write(run, page_size=100)
    folder = paths.run_folder("movies", run) / "trace" / "data"
    names = [path.name for path in folder.iterdir()]
    assert sorted(names) == ["index.js", "page-0000.js"]
    trace.write(run, page_size=5)


def test_a_run_without_scores_says_what_makes_them():
    simulated(run="trace-bare", systems=("random",), n_sessions=1, n_turns=3)
    refused("run 04_evaluate -p run trace-bare", trace.write, "trace-bare", error=RunError)


def test_judges_notes_come_from_the_judge_stage_and_canaries_do_not(run):
    outputs = runs.Run("movies", run).manifest()["stages"]["simulate"]["outputs"]
    inputs = {"dialogues": outputs["dialogues.jsonl"]}
    session = {"model": "tracker", "session_id": "00002", "scores": [], "missing": 0}
    rated = {**session, "canary": "", "judge": {"coherence": 4.0}}
    spoilt = {**session, "canary": "shuffled", "judge": {"coherence": 1.0}}
    with runs.stage("movies", run, judge_records.STAGE, {}, inputs, fixed=False) as stage:
        lines = f"{json.dumps(rated)}\n{json.dumps(spoilt)}\n"
        stage.path(judge_records.SCORES).write_text(lines)
    notes = {tuple(session.key): session.judge for session in RunFiles(run)}
    assert notes["tracker", "00002"]["judge"] == {"coherence": 4.0}
    assert notes["tracker", "00001"].get("scores") is None


@pytest.mark.parametrize(("values", "texts"), cases(__file__, "cells"))
def test_numbers_have_three_decimals_or_none_where_all_are_whole_and_a_dash_where_missing(values, texts):
    html = table(pd.DataFrame({"x": values}))
    assert re.findall(r'<td class="value">([^<]*)</td>', html) == texts


def test_what_is_put_into_a_table_is_escaped():
    link = Link("<", "a?x=1&y=2")
    html = table(pd.DataFrame({"<i>": ["a<"], "n": [2], "at": [link]}))
    assert '<th scope="col">&lt;i&gt;</th><th scope="col" class="value">n</th>' in html
    assert '<td>a&lt;</td><td class="value">2</td>' in html
    assert '<td><a href="a?x=1&amp;y=2">&lt;</a></td>' in html


def test_a_mean_without_interval_has_none():
    whole = Mean(0.5, 0.25, 0.75)
    bare = Mean(0.5, np.nan, np.nan)
    html = table(pd.DataFrame({"mean": [whole, bare]}))
    assert "<td>0.500<small>0.250 to 0.750</small></td>" in html
    assert "0.500<small></small>" in html
    assert str(whole) == "0.500 [0.250, 0.750]"
    assert str(bare) == "0.500"


def test_a_long_text_gets_room_and_a_table_without_rows_says_so():
    long_text = "x" * 61
    assert '<td class="long">' in table(pd.DataFrame({"text": [long_text]}))
    assert "Nothing to show" in table(pd.DataFrame({"name": []}))


MODELS = ["tracker", "oracle", "ollama:a"]


@pytest.fixture
def index():
    """The index of a trace, from all that it asks of a run and of the records of its sessions."""
    files = SimpleNamespace(run="colours", models=MODELS, types=[], session_metrics=[])
    scorer = SimpleNamespace(convention=SimpleNamespace(name="default"))
    view = SimpleNamespace(scorer=scorer, catalog=SimpleNamespace(fields=FIELDS), metrics=[])
    return index_of(files, view, 10, {})


def test_systems_have_one_colour_in_notebook_and_trace(index):
    looks = style.looks(MODELS)
    for model in index["models"]:
        assert model["colour"] == looks[model["name"]].colour
    assert [model["name"] for model in index["models"]] == MODELS


def test_fields_have_one_colour_in_notebook_and_trace(index):
    """Each in a dialogue with this field alone, so that no order of fields can decide."""
    assert tint_place("country") in range(8)
    light = tint_css().split("@media")[0]
    tints = dict(re.findall(r"--(f\d): (#\w{6})", light))
    for field in (*FIELDS, TITLE):
        mark = Mark(0, 3, field, "one")
        turns = (Turn("USER", "one", marks=(mark,)), Turn("SYSTEM", "two"))
        shown = Dialogue("00000", "tracker", turns, tinted=TINTED)._repr_html_()
        tint = tints[f"f{index['fields'][field]}"]
        assert f"background:{tint};" in shown, field
    places = list(index["fields"].values())
    assert len(set(places)) == len(places)


def test_text_is_readable_on_the_colours_of_fields_on_light_and_dark_pages():
    light, dark = re.findall(r":root {(.*?)}", tint_css())
    for tint in re.findall(r"#\w{6}", light):
        assert contrast("#111111", tint) > 7
    for tint in re.findall(r"#\w{6}", dark):
        assert contrast("#e6e8eb", tint) > 4.5
