"""Batches: what comes out, and every bad input refused with nothing written over."""

import hashlib
import json

import pytest

from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.runs import dask, jobs
from crs_lib.runs.ledger import pack
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

SMALL = {"run": "r", "systems": ["tracker", "echo"], "n_sessions": 2, "n_turns": 6, "seed": 3, "voices": "A"}
GENRES, SPOKEN = ("Drama", "Comedy", "War"), ("English", "French", "Polish")
FILMS = {
    f"Invented Film {i}": {
        "year": str(1980 + i % 20), "genre": [GENRES[i % 3]], "actor": [f"Ada Quill{i % 5}", f"Ben Orr{i % 7}"],
        "director": [f"Zoe Tarn{i % 4}"], "writer": [f"Mo Reed{i % 6}"], "language": [SPOKEN[i % 2]], "plot": "Things happen.",
    }
    for i in range(40)
}  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path / "movies"


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "films.json"
    path.write_text(json.dumps(FILMS))
    return path


@pytest.fixture(scope="module")
def world(films):
    catalog = sources.load(films)
    return World(catalog, Grounder(catalog))


@pytest.fixture
def do(films):
    def run(**changes):
        return simulate.simulate(
            SimulateConfig(**{**SMALL, "catalog": str(films), **changes}), progress=False
        )

    return run


def everything(folder):
    """All files of a folder but the manifest, which tells of the refusal, and the data base's own two."""
    skip = ("manifest.json", ".lock", "-wal", "-shm")
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(skip)}


def test_a_batch_is_every_system_with_every_user_in_a_fixed_order(results, films, do):
    folder = do()
    assert folder == results / "r"
    found = simulate.dialogues("r")
    assert [(d.model_name, d.session_id) for d in found] == [
        (s, f"{n:05d}") for s in ("tracker", "echo") for n in range(2)
    ]
    assert {"catalog.parquet", "dialogues.jsonl", "ledger.sqlite"} <= set(everything(folder))
    entry = runs.finished("movies", "r", "simulate", "03_simulate")
    assert entry["counts"] == {"sessions": 4, "systems": 2, "done": 4}
    assert entry["inputs"] == {"catalog": sources.content_hash(sources.load(films))}
    assert entry["outputs"]["dialogues.jsonl"] == tables.sha256(folder / "dialogues.jsonl")


def test_a_dialogue_has_the_thesis_s_form(results, world, do):
    do()
    record = json.loads((results / "r" / "dialogues.jsonl").read_text().splitlines()[0])
    assert list(record)[:5] == ["session_id", "model_name", "true_genre", "conversation", "shift_events"]
    users, systems = record["conversation"][0::2], record["conversation"][1::2]
    assert {turn["speaker"] for turn in users} == {"USER"}
    assert {turn["speaker"] for turn in systems} == {"SYSTEM"}
    assert len(users) == len(systems) == 6
    assert all({"speaker", "text", "user_meta"} <= set(turn) for turn in users)
    assert all({"speaker", "text", "constraints", "rec_titles"} <= set(turn) for turn in systems)
    assert (record["seed"], record["arm"]) == (3, "shift")
    by_id = {item.item_id: item.title for item in world.catalog.items}
    assert all([by_id[i] for i in turn["rec_ids"]] == turn["rec_titles"] for turn in systems)
    again = Dialogue.from_json(record)
    assert again.to_json() == record


def test_all_systems_meet_the_same_users(world):
    config = SimulateConfig(**SMALL | {"n_turns": 20})
    metas = []
    for spec in ("oracle", "echo", "random"):
        talk = simulate.session(world, spec, 1, config)
        metas.append(
            [(p.user.user_meta["constraints"], p.user.user_meta["shift_event_obj"]) for p in talk.pairs()]
        )
        assert talk.true_genre == metas[0][0][0]["genre"]
    assert metas[0] == metas[1] == metas[2]


def test_a_session_depends_on_its_own_address_only(world):
    config = SimulateConfig(**SMALL)
    alone = simulate.session(world, "tracker", 1, config).dumps()
    for other in ("random", "oracle"):
        simulate.session(world, other, 0, config)
    assert simulate.session(world, "tracker", 1, config).dumps() == alone
    plan = simulate.scenario(world, 1, config)
    assert simulate.session(world, "tracker", 1, config, plan).dumps() == alone
    assert simulate.session(world, "tracker", 1, SimulateConfig(**SMALL | {"seed": 4})).dumps() != alone


def test_started_again_it_changes_nothing(results, do):
    before = everything(do())
    assert everything(do()) == before


@pytest.mark.subprocess
def test_more_workers_make_the_same_bytes(results, do):
    one = everything(do(n_sessions=4))["dialogues.jsonl"]
    two = everything(do(run="two", n_sessions=4, workers=2))["dialogues.jsonl"]
    assert one == two


# ── bad input ────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("change", "message"), [
    ({"n_sessions": 0}, "n_sessions is 0; input should be greater than or equal to 1"),
    ({"n_turns": 0}, "n_turns is 0; input should be greater than or equal to 1"),
    ({"workers": 0}, "workers is 0; input should be greater than or equal to 1"),
    ({"seed": -1}, "seed -1 is not usable; give a whole number >= 0"),
    ({"systems": ["trackr"]}, r"unknown policy 'trackr'; did you mean 'tracker'\?"),
    ({"arms": ["both"]}, r"arms is \['both'\]; each must be one of shift, straight, fresh"),
    ({"arms": ["fresh", "shift"]}, r"arms is \['fresh', 'shift'\]; give each arm once, shift or none first"),
    ({"shift_types": []}, r"shift_types is \[\]; give a list"),
    ({"shift_typs": ["switch"]}, r"unknown setting 'shift_typs'; did you mean 'shift_types'\?"),
    ({"shift_first": [6, 4]}, r"shift_first is \[6, 4\]; give two whole numbers, the least \(from 2\)"),
    ({"shift_gap": [3]}, r"shift_gap is \[3\]; give two whole numbers, the least \(from 1\)"),
    ({"rates": {"hesitaton": 0.2}}, r"rates: unknown setting 'hesitaton'; did you mean 'hesitation'\?"),
    ({"rates": {"question": 2}}, r"rates: question is 2; input should be less than or equal to 1"),
    ({"insist": "no"}, "insist is 'no'; input should be a valid boolean"),
    ({"voices": "B"}, r"voices is 'B'"),
    ({"shift_types": ["swich"]}, r"unknown shift type 'swich'; did you mean 'switch'\?"),
    ({"run": "../away"}, "run name '../away' cannot be a folder"),
    ({"catalog": "nowhere.json"}, "no catalogue at 'nowhere.json'; give 'sample'"),
])  # fmt: skip
def test_a_bad_setting_is_refused_before_anything_is_written(results, change, message, do):
    with pytest.raises(InputError, match=message):
        do(**change)
    assert not results.exists()


def test_a_body_that_is_no_dialogue_is_not_exported_whatever_its_hash(results, do):
    import sqlite3

    folder = do()
    for body in ("no JSON", "[" * 100_000, '{"conversation": [1]}', "null"):
        kept = pack(body)
        with sqlite3.connect(folder / "ledger.sqlite") as db:
            db.execute(
                "UPDATE sessions SET body = ?, hash = ? WHERE system = 'echo' AND session = 1",
                (kept, hashlib.sha256(kept).hexdigest()),
            )
        db.close()
        with pytest.raises(RunError, match="session 1 of 'echo' in the ledger is no dialogue"):
            do()


def test_a_cluster_that_is_gone_is_told_and_not_that_its_logs_are(results, monkeypatch):
    def gone(*_, **__):
        raise RunError("the scheduler went away")

    def unreachable(*_):
        raise OSError("no logs to be had")

    monkeypatch.setattr(jobs, "sessions", gone)
    monkeypatch.setattr(dask, "on_every_machine", unreachable)
    config = SimulateConfig(
        run="far", systems=["template"], n_sessions=1, n_turns=2, scheduler="tcp://127.0.0.1:1"
    )
    with pytest.raises(RunError, match="the scheduler went away") as caught:
        simulate.simulate(config, progress=False)
    assert caught.value.__notes__ == ["after it: OSError: no logs to be had"]


def test_every_knob_of_the_user_is_in_the_manifest_and_changes_the_dialogues(results, do):
    two = {"n_turns": 12, "systems": ["echo", "random"]}
    plain = (do(run="plain", **two) / "dialogues.jsonl").read_bytes()
    knobs = {
        "shift_first": [3, 3], "shift_gap": [2, 2], "shift_types": ["replace", "switch"],
        "rates": {"hesitation": 0.5, "question": 0}, "insist": False, "voices": "quoting",
    }  # fmt: skip
    for name, value in knobs.items():
        folder = do(run=f"with-{name}", **two, **{name: value})
        kept = runs.read_manifest("movies", f"with-{name}")["stages"]["simulate"]["parameters"][name]
        assert kept == (
            value if name != "rates" else {"hesitation": 0.5, "contradiction": 0.05, "question": 0}
        )
        assert (folder / "dialogues.jsonl").read_bytes() != plain
