"""Members added as docs/context.md says: a field, a shift type, a policy, a metric, a figure, a retriever, a data set.

The very lines of the page are written into a copy of the package; a batch is simulated, scored and drawn there.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers import new_members

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
GENRES, LANDS = ("Drama", "Comedy", "War"), ("Borduria", "Freedonia", "Ruritania", "New Avalon")
SPOKEN = ("English", "French", "Polish")
FILMS = {
    f"f{i:02}": {
        "name": f"Invented Film {i} ({1980 + i % 12})", "genre": [GENRES[i % 3]], "countries": [LANDS[i // 3 % 4]],
        "star": [f"Ada Quill{i % 5}", f"Ben Orr{i % 7}"], "director": [f"Zoe Tarn{i % 4}"],
        "writer": [f"Mo Reed{i % 6}"], "language": [SPOKEN[i % 2]], "plot": "Rain falls on the harbour.",
    }
    for i in range(72)
}  # fmt: skip
LAND_OF = {item: film["countries"][0] for item, film in FILMS.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Dialogues by system, tables, and what the job prints, of a batch in a copy with the three members."""
    folder = tmp_path_factory.mktemp("new")
    root = new_members.package_with_members(folder / "copy")
    (folder / "films.json").write_text(json.dumps(FILMS), encoding="utf-8")
    job = Path(new_members.__file__).with_name("new_member_job.py")
    done = subprocess.run(
        [sys.executable, str(job), str(folder / "films.json"), "24"], capture_output=True, text=True, cwd=folder,
        env=os.environ | {f"CRS_{name.upper()}": str(folder / name) for name in ("results", "figures")}
        | {"PYTHONPATH": str(root), "CRS_DATA": str(root / "data")}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = folder / "results" / "movies" / "new"
    lines = (results / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    talks = {}
    for talk in map(json.loads, lines):
        talks.setdefault(talk["model_name"], []).append(talk)
    return {
        "talks": talks,
        "turns": pd.read_parquet(results / "turns.parquet"),
        "shifts": pd.read_parquet(results / "shifts.parquet"),
        "results": pd.read_json(results / "results.jsonl", lines=True),
        "said": json.loads(done.stdout.splitlines()[-1]),
        "trace": (results / "trace" / "data" / "index.js").read_text(encoding="utf-8"),
    }


def pairs(talk):
    """The user turn and the reply of every pair of a dialogue."""
    turns = talk["conversation"]
    return list(zip(turns[::2], turns[1::2], strict=True))


def changes(run, system, wanted):
    """The pairs at which a shift event fits, each with its session, turn and event."""
    for talk in run["talks"][system]:
        for turn, (user, reply) in enumerate(pairs(talk), start=1):
            event = user["user_meta"]["shift_event_obj"]
            if event and wanted(event):
                yield talk["session_id"], turn, event, user, reply


def to_a_country(event):
    return "country" in event["added"]


def test_the_row_lies_where_it_was_put_and_shifts_to_the_field_are_voiced(run):
    assert run["said"]["fields"] == ["genre", "actor", "director", "writer", "language", "country", "year"]
    assert run["said"]["relaxation"][:4] == ["year", "language", "plot", "country"]
    assert run["said"]["values"] == sorted(LANDS)  # read under a foreign key
    found = list(changes(run, "tracker", to_a_country))
    assert len(found) >= 8 and len({event["type"] for _, _, event, _, _ in found}) >= 3
    for _, _, event, user, _ in found:
        assert event["added"]["country"] in user["text"]
    assert any(event["bridge_field"] == "country" for _, _, event, _, _ in found)
    assert all(run["said"]["voiced"]["voiced"])
    words = [user["text"] for talk in run["talks"]["tracker"] for user, _ in pairs(talk)]
    for phrase in ("from ", "shot in ", "set in "):
        assert any(phrase + land in text for text in words for land in LANDS), phrase


def test_the_tracker_understands_the_field_and_recommends_films_that_meet_it(run):
    met = []
    for _, _, event, _, reply in changes(run, "tracker", to_a_country):
        wanted = event["added"]["country"]
        assert reply["constraints"]["country"] == wanted
        met.append(LAND_OF[reply["rec_ids"][0]] == wanted)
    assert sum(met) / len(met) > 0.9  # another film may meet as many of the other constraints
    dropped = list(changes(run, "tracker", lambda event: "country" in event["dropped"]))
    assert dropped
    for _, _, event, _, reply in dropped:
        assert reply["constraints"].get("country") != event["dropped"]["country"]


def test_users_ask_for_the_field_and_replies_state_and_answer_it(run):
    both = [pair for talk in run["talks"]["tracker"] for pair in pairs(talk)]
    asked = [pair for pair in both if pair[0]["user_meta"]["stage"] == "question_country"]
    assert asked
    for user, reply in asked:
        assert re.search("country|shot", user["text"]) and " comes from " in reply["text"]
    titles = {item: film["name"].rpartition(" (")[0] for item, film in FILMS.items()}
    assert run["said"]["answers"] == [f"{titles[item]} comes from {LAND_OF[item]}." for item in FILMS]
    stated = [reply["text"] for talk in run["talks"]["oracle"] for _, reply in pairs(talk)]
    assert any(f", from {land}" in text for text in stated for land in LANDS)
    casts = [f" with Ada Quill{i} and Ben Orr{j} from " for i in range(5) for j in range(7)]
    assert any(cast in text for text in stated for cast in casts)
    offers = zip(run["said"]["offers"], LAND_OF.values(), strict=True)
    assert all(f"; from {land}; " in offer for offer, land in offers)


def test_the_field_is_scored_and_in_tables_pages_and_figures(run):
    turns = run["turns"].set_index(["model", "session_id", "turn"])["satisfaction_corrected"]
    at = [(session, turn) for session, turn, *_ in changes(run, "tracker", to_a_country)]
    mean = {name: turns.loc[[(name, *place) for place in at]].mean() for name in ("tracker", "random")}
    assert mean["tracker"] > mean["random"] + 0.3
    shifts = run["shifts"][run["shifts"]["model"] == "tracker"]
    assert {(row.session_id, row.turn) for row in shifts.itertuples()} >= set(at)
    said = run["said"]
    assert said["field_table"]["country"] == len(LANDS) and said["coverage"]["country"]["user"] > 0
    assert any(concept.startswith("country=") for concept in said["added"]), said["added"]
    assert '"country"' in run["trace"]


def test_the_shift_type_is_planned_voiced_understood_scored_and_drawn(run):
    found = list(changes(run, "tracker", lambda event: event["type"] == "leap"))
    assert len(found) >= 8
    for _, _, event, user, reply in found:
        assert user["user_meta"]["stage"] == "shift_leap"
        assert event["wishes"] == event["added"] and len(event["added"]) == 1
        assert reply["constraints"] == event["wishes"]
    voiced = pd.DataFrame(run["said"]["voiced"])
    assert voiced.loc[voiced["type"] == "leap", "voiced"].all()
    planned = run["shifts"].query("model == 'tracker'")["type"].value_counts()
    assert set(planned.index) == {"refine", "switch", "replace", "relax", "contradict", "return", "leap"}
    assert 0.5 < planned["leap"] / planned.mean() < 1.6
    leaps = run["shifts"].query("type == 'leap'").set_index("model")["recovered_item"].astype(float)
    assert leaps["tracker"].mean() > leaps["random"].mean()
    assert any(text.startswith("leap\nn = ") for text in run["said"]["adaptation_profile"])


def test_the_policy_talks_is_scored_and_drawn(run):
    for talk in run["talks"]["genre_only"]:
        for _, reply in pairs(talk):
            assert set(reply["constraints"]) <= {"genre"}
            assert len(reply["rec_ids"]) <= 3  # fewer where no more fits
    means = run["results"].groupby("model")["item_tas"].mean()
    assert means["random"] < means["genre_only"] < means["tracker"]
    assert any("genre_only" in text.replace(" ", "_") for text in run["said"]["leaderboard"])


def test_the_metric_is_scored_tabled_and_drawn(run):
    metric = run["said"]["metric"]
    silent = metric["by_turn"]["silent"]
    assert silent == [None] * len(silent)
    for name in ("oracle", "random"):
        by_turn = metric["by_turn"][name]
        assert set(by_turn) <= {0.0, 1.0, None}
        sessions = [[value for value in by_turn[at : at + 8] if value is not None] for at in (0, 8)]
        mean = sum(sum(one) / len(one) for one in sessions) / 2
        assert metric["means"][name] == pytest.approx(mean, abs=1e-9)
    assert metric["means"]["random"] < metric["means"]["oracle"]
    assert metric["table"][-1] == "first_film_met"
    assert "first film † ↑" in metric["bars"]  # no control policies were put to it
    code, shown = metric["command"]
    assert code == 0 and "metric_bars.png" in shown


def test_figure_retriever_and_data_set_serve_their_commands(run):
    figure = run["said"]["figure"]
    code, shown = figure["command"]
    assert code == 0 and "novelty_by_system.pdf" in shown
    assert {"novelty_by_system.pdf", "novelty_by_system.png"} <= set(figure["files"])
    assert figure["last"] == "novelty_by_system"
    retriever = run["said"]["retriever"]
    assert retriever["hits"] == [["tent", 2 / 3], ["lamp", 2 / 3]]
    names = {name.rpartition(".")[0] for name in retriever["runs"]}
    assert {"coverage-last-turn", "bm25-coverage-last-turn"} <= names
    data_set = run["said"]["data_set"]
    (code, shown), (verified, report) = data_set["list"], data_set["verify"]
    assert code == verified == 0
    assert any(line.split()[:3] == ["film-talks", "movies", "mirror"] for line in shown.splitlines())
    assert report.split()[-6:] == ["film-talks", "mirror", "1", "0", "0", "0"]
    assert data_set["place"] == "talks"
