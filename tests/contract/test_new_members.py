"""Members added as docs/context.md says: a field, a shift type, a policy, a metric, a figure, a retriever, a data set.

The very lines of the page are written into a copy of the package; a batch is simulated, scored and drawn there.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from tests.helpers import new_members

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
GENRES = ("Drama", "Comedy", "War")
LANDS = ("Borduria", "Freedonia", "Ruritania", "New Avalon")
SPOKEN = ("English", "French", "Polish")


def film(number):
    """A made-up film; its country stands under a foreign key."""
    return {
        "name": f"Invented Film {number} ({1980 + number % 12})",
        "genre": [GENRES[number % 3]],
        "countries": [LANDS[number // 3 % 4]],
        "star": [f"Ada Quill{number % 5}", f"Ben Orr{number % 7}"],
        "director": [f"Zoe Tarn{number % 4}"],
        "writer": [f"Mo Reed{number % 6}"],
        "language": [SPOKEN[number % 2]],
        "plot": "Rain falls on the harbour.",
    }


FILMS = {f"f{number:02}": film(number) for number in range(72)}
LAND_OF = {item: film["countries"][0] for item, film in FILMS.items()}


def environment(folder, root):
    """The environment in which the copy of the package at ``root`` works in a folder."""
    return os.environ | {
        "CRS_RESULTS": str(folder / "results"),
        "CRS_FIGURES": str(folder / "figures"),
        "PYTHONPATH": str(root),
        "CRS_DATA": str(root / "data"),
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Dialogues by system, tables, and what the job prints, of a batch in a copy with the new members."""
    folder = tmp_path_factory.mktemp("new")
    root = new_members.package_with_members(folder / "copy")
    (folder / "films.json").write_text(json.dumps(FILMS), encoding="utf-8")
    job = Path(new_members.__file__).with_name("new_member_job.py")
    command = [sys.executable, str(job), str(folder / "films.json"), "24"]
    env = environment(folder, root)
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)
    assert process.returncode == 0, process.stderr
    results = folder / "results" / "movies" / "new"
    dialogues = {}
    for line in (results / "dialogues.jsonl").read_text(encoding="utf-8").splitlines():
        dialogue = json.loads(line)
        dialogues.setdefault(dialogue["model_name"], []).append(dialogue)
    return {
        "dialogues": dialogues,
        "turns": pd.read_parquet(results / "turns.parquet"),
        "shifts": pd.read_parquet(results / "shifts.parquet"),
        "results": pd.read_json(results / "results.jsonl", lines=True),
        "job": json.loads(process.stdout.splitlines()[-1]),
        "trace": (results / "trace" / "data" / "index.js").read_text(encoding="utf-8"),
    }


class Change(NamedTuple):
    """A shift of a dialogue as it was logged, with the user's turn and the reply to it."""

    session: str
    turn: int
    event: dict
    user: dict
    reply: dict


def pairs(run, system):
    """The user turn and the reply of every pair of a system's dialogues."""
    for dialogue in run["dialogues"][system]:
        turns = dialogue["conversation"]
        yield from zip(turns[::2], turns[1::2], strict=True)


def changes(run, system):
    """Every shift of a system's dialogues."""
    for dialogue in run["dialogues"][system]:
        turns = dialogue["conversation"]
        for number, (user, reply) in enumerate(zip(turns[::2], turns[1::2], strict=True), start=1):
            event = user["user_meta"]["shift_event_obj"]
            if event:
                yield Change(dialogue["session_id"], number, event, user, reply)


def to_a_country(run, system="tracker"):
    """The shifts that add a country."""
    return [change for change in changes(run, system) if "country" in change.event["added"]]


def test_the_row_lies_where_it_was_put(run):
    job = run["job"]
    assert job["fields"] == ["genre", "actor", "director", "writer", "language", "country", "year"]
    assert job["relaxation"][:4] == ["year", "language", "plot", "country"]
    assert job["values"] == sorted(LANDS)  # read under a foreign key


def test_shifts_to_the_field_are_voiced(run):
    shifts = to_a_country(run)
    assert len(shifts) >= 8
    assert len({change.event["type"] for change in shifts}) >= 3
    for change in shifts:
        assert change.event["added"]["country"] in change.user["text"]
    assert "country" in {change.event["bridge_field"] for change in shifts}
    assert all(run["job"]["voiced"]["voiced"])


@pytest.mark.parametrize("phrase", ["from ", "shot in ", "set in "])
def test_each_phrase_of_the_field_is_said(run, phrase):
    words = "\n".join(user["text"] for user, _ in pairs(run, "tracker"))
    assert re.search(f"{phrase}({'|'.join(LANDS)})", words)


def test_the_tracker_understands_the_field_and_recommends_films_that_meet_it(run):
    met = []
    for change in to_a_country(run):
        wanted = change.event["added"]["country"]
        assert change.reply["constraints"]["country"] == wanted
        met.append(LAND_OF[change.reply["rec_ids"][0]] == wanted)
    assert sum(met) / len(met) > 0.9  # another film may meet as many of the other constraints


def test_the_tracker_lets_a_dropped_country_go(run):
    dropped = [change for change in changes(run, "tracker") if "country" in change.event["dropped"]]
    assert dropped
    for change in dropped:
        assert change.reply["constraints"].get("country") != change.event["dropped"]["country"]


def test_users_ask_for_the_field_and_replies_answer(run):
    both = pairs(run, "tracker")
    questions = [pair for pair in both if pair[0]["user_meta"]["stage"] == "question_country"]
    assert questions
    for user, reply in questions:
        assert re.search("country|shot", user["text"])
        assert " comes from " in reply["text"]
    answers = []
    for item, film in FILMS.items():
        title = film["name"].rpartition(" (")[0]
        answers.append(f"{title} comes from {LAND_OF[item]}.")
    assert run["job"]["answers"] == answers


def test_replies_and_offers_state_the_field(run):
    replies = "\n".join(reply["text"] for _, reply in pairs(run, "oracle"))
    lands = "|".join(LANDS)
    assert re.search(f", from ({lands})", replies)
    assert re.search(r" with Ada Quill\d and Ben Orr\d from ", replies)
    for offer, land in zip(run["job"]["offers"], LAND_OF.values(), strict=True):
        assert f"; from {land}; " in offer


def test_shifts_to_the_field_are_scored(run):
    shifts_of_users = [(change.session, change.turn) for change in to_a_country(run)]
    turns = run["turns"].set_index(["model", "session_id", "turn"])["satisfaction_corrected"]
    tracker = turns.loc[[("tracker", *key) for key in shifts_of_users]].mean()
    random = turns.loc[[("random", *key) for key in shifts_of_users]].mean()
    assert tracker > random + 0.3
    shifts = run["shifts"][run["shifts"]["model"] == "tracker"]
    assert set(shifts_of_users) <= {(row.session_id, row.turn) for row in shifts.itertuples()}


def test_the_field_is_in_tables_and_pages(run):
    job = run["job"]
    assert job["field_table"]["country"] == len(LANDS)
    assert job["coverage"]["country"]["user"] > 0
    assert "country=" in " ".join(job["added"])
    assert '"country"' in run["trace"]


def test_the_shift_type_is_planned_voiced_and_understood(run):
    leaps = [change for change in changes(run, "tracker") if change.event["type"] == "leap"]
    assert len(leaps) >= 8
    for change in leaps:
        assert change.user["user_meta"]["stage"] == "shift_leap"
        assert change.event["wishes"] == change.event["added"]
        assert len(change.event["added"]) == 1
        assert change.reply["constraints"] == change.event["wishes"]
    voiced = pd.DataFrame(run["job"]["voiced"])
    assert voiced.loc[voiced["type"] == "leap", "voiced"].all()
    planned = run["shifts"].query("model == 'tracker'")["type"].value_counts()
    assert set(planned.index) == {"refine", "switch", "replace", "relax", "contradict", "return", "leap"}
    assert 0.5 < planned["leap"] / planned.mean() < 1.6


def test_the_shift_type_is_scored_and_drawn(run):
    leaps = run["shifts"].query("type == 'leap'").set_index("model")["recovered_item"].astype(float)
    assert leaps["tracker"].mean() > leaps["random"].mean()
    assert "leap\nn = " in "|".join(run["job"]["adaptation_profile"])


def test_the_policy_talks_is_scored_and_drawn(run):
    for _, reply in pairs(run, "genre_only"):
        assert set(reply["constraints"]) <= {"genre"}
        assert len(reply["rec_ids"]) <= 3  # fewer where no more fits
    means = run["results"].groupby("model")["item_tas"].mean()
    assert means["random"] < means["genre_only"] < means["tracker"]
    assert "genre_only" in "|".join(run["job"]["leaderboard"]).replace(" ", "_")


def mean_of_sessions(by_turn, turns=8):
    """The mean over sessions of the mean over the turns that have a value."""
    means = []
    for start in range(0, len(by_turn), turns):
        values = [value for value in by_turn[start : start + turns] if value is not None]
        means.append(sum(values) / len(values))
    return sum(means) / len(means)


def test_the_metric_is_scored(run):
    metric = run["job"]["metric"]
    assert set(metric["by_turn"]["silent"]) == {None}
    for name in ("oracle", "random"):
        by_turn = metric["by_turn"][name]
        assert set(by_turn) <= {0.0, 1.0, None}
        assert metric["means"][name] == pytest.approx(mean_of_sessions(by_turn), abs=1e-9)
    assert metric["means"]["random"] < metric["means"]["oracle"]


def test_the_metric_is_tabled_and_drawn(run):
    metric = run["job"]["metric"]
    assert metric["table"][-1] == "first_film_met"
    assert "first film † ↑" in metric["bars"]  # no control policies were put to it
    code, printed = metric["command"]
    assert code == 0
    assert "metric_bars.png" in printed


def test_the_figure_is_written_by_its_command(run):
    figure = run["job"]["figure"]
    code, printed = figure["command"]
    assert code == 0
    assert "novelty_by_system.pdf" in printed
    assert {"novelty_by_system.pdf", "novelty_by_system.png"} <= set(figure["files"])
    assert figure["last"] == "novelty_by_system"


def test_the_retriever_writes_runs(run):
    retriever = run["job"]["retriever"]
    assert retriever["hits"] == [["tent", 2 / 3], ["lamp", 2 / 3]]
    names = {name.rpartition(".")[0] for name in retriever["runs"]}
    assert {"coverage-last-turn", "bm25-coverage-last-turn"} <= names


def test_the_data_set_is_listed_and_verified(run):
    data_set = run["job"]["data_set"]
    code, printed = data_set["list"]
    assert code == 0
    assert ["film-talks", "movies", "mirror"] in [line.split()[:3] for line in printed.splitlines()]
    code, report = data_set["verify"]
    assert code == 0
    assert report.split()[-6:] == ["film-talks", "mirror", "1", "0", "0", "0"]
    assert data_set["place"] == "talks"
