"""What every policy must keep: catalogue items only, the same answer every time, a spec that is its name."""

import importlib.util
import inspect
import json

import pytest

from crs_lib import simulate
from crs_lib.core.errors import InputError
from crs_lib.llm import BACKENDS, LLM, Recorder, Reply, Request, export, local
from crs_lib.simulate.config import DEFAULT_SYSTEMS, SimulateConfig
from crs_lib.systems import base as systems
from crs_lib.systems.base import SYSTEMS, SystemReply
from crs_lib.systems.policies import Oracle
from tests.helpers import refused
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import SAMPLE, WORLD

META = {"constraints": {"genre": "Drama"}, "avoid": {"genre": "Horror"}}
LLM_FREE = [entry for entry in SYSTEMS if not (entry.facts.get("llm") or entry.facts.get("program"))]
SPECS = [f"{e.name}:{e.facts['example']}" if e.facts.get("argument") else e.name for e in LLM_FREE]
MOST = {"oracle:5": 5, "tracker:5": 5, "hedge": 4, "stickyk:10": 10}
EACH = pytest.mark.parametrize("spec", SPECS)
FACTS = {*"role model digest options tokens_in tokens_out seconds cache_hit attempts session".split()}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = Request.ask("crs", "Say this:\nhello there\n", seed=7, tags={"session": 1})
JSON = Request.ask("judge", "Score it:\nhello there\n", seed=7, schema=SCHEMA, tags={"session": 1})
NAMES = BACKENDS.names()


@pytest.fixture(scope="module")
def talks():
    """Three sessions of each policy."""
    config = SimulateConfig(systems=SPECS, n_turns=10)
    return {spec: [simulate.session(WORLD, spec, n, config) for n in range(3)] for spec in SPECS}


@EACH
def test_catalogue_items_are_recommended_once_and_a_spec_is_a_name_that_can_be_given_back(spec, talks):
    for pair in (pair for talk in talks[spec] for pair in talk.pairs()):
        shown, ids = pair.system.meta, pair.system.meta["rec_ids"]
        assert len(set(ids)) == len(ids) <= MOST.get(spec, systems.N_ITEMS)
        items = [SAMPLE.id_index[i] for i in ids]
        assert all(SAMPLE.recommendable[i] for i in items)
        assert [SAMPLE.items[i].title for i in items] == shown["rec_titles"]
        assert shown["hallucinated_titles"] == []
        if spec != "ids_only":  # which says nothing of its films
            assert all(title in pair.system.text for title in shown["rec_titles"])
        assert all(SAMPLE.code(*constraint) is not None for constraint in shown["constraints"].items())
    assert systems.check([spec]) == [spec] and {talk.model_name for talk in talks[spec]} == {spec}
    assert systems.create(spec, WORLD, 9, 4).sees_state is issubclass(SYSTEMS.get(spec).make, Oracle)
    users = [pair.user.user_meta for talk in talks[spec] for pair in talk.pairs()]
    assert all(set(meta) >= {"constraints", "avoid"} for meta in users)


@EACH
def test_the_answer_is_a_function_of_what_was_said_in_its_own_session(spec):
    def replies(*said, session=4):
        system = systems.create(spec, WORLD, 9, session)
        return [system.reply(turn, text, META) for turn, text in enumerate(said, 1)]

    talk = ("I'd like drama films", "More, please", "")
    first = replies(*talk)
    assert first == replies(*talk)
    assert all(isinstance(reply, SystemReply) and isinstance(reply.text, str) for reply in first)
    alone = replies("I'd like war films")
    replies(*["I'd like comedy films"] * 3, session=5)
    assert replies("I'd like war films") == alone


def test_every_registered_policy_says_what_it_is():
    for entry in SYSTEMS:
        assert entry.summary and inspect.getdoc(entry.make)
        if entry.facts.get("default"):
            assert systems.check([entry.name]) == [entry.name]
        elif entry.facts.get("argument"):
            assert entry.facts.get("example")
            refused(rf"policy '{entry.name}' needs .* after a colon", systems.check, [entry.name])
    needed = {*"oracle tracker amnesiac sticky popular random echo slot_echo silent noisy".split()}
    assert set(DEFAULT_SYSTEMS) <= needed <= set(SYSTEMS.names())


def weights():
    """Whether the engine of ``local`` and its small model are installed."""
    if not importlib.util.find_spec("xllamacpp"):
        return False
    try:
        return local.find("smollm2").exists()
    except InputError:
        return False


ENGINE = pytest.mark.skipif(not weights(), reason="needs the engine and smollm2")
ANSWERING = [pytest.param(name, marks=[ENGINE] if name == "local" else []) for name in NAMES]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Spec and settings with which each backend can answer TEXT and JSON."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    recorder = Recorder(tmp_path / "movies" / "demo" / "calls.sqlite")
    LLM("template", recorder=recorder).gather([TEXT, JSON])
    export([recorder.path], tmp_path / "movies" / "demo" / "llm_calls.jsonl")
    with OllamaServer(["tiny:latest"]) as server:
        yield {
            "ollama": {"spec": "ollama:tiny", "host": server.url},
            "openai": {"spec": "openai:tiny:latest", "host": server.url},
            "scripted": {"spec": "scripted", "answers": lambda r: '{"n": 3}' if r.schema else "hello"},
            "template": {"spec": "template"},
            "replay": {"spec": "replay:demo"},
            "local": {"spec": "local:smollm2", "options": {"temperature": 0}},
        }


@pytest.mark.parametrize("name", ANSWERING)
def test_a_reply_is_complete_the_same_again_that_of_the_backend_and_a_row(name, settings, tmp_path):
    with LLM(**settings[name]) as llm:
        first, second = llm.complete(TEXT), llm.complete(TEXT)
        data = json.loads(llm.complete(JSON).text)
    assert isinstance(data["n"], int)
    assert first.text == second.text == first.text.strip() != ""
    assert first.digest and first.stop == "stop" and first.attempts == 1 and not first.cache_hit
    assert first.tokens_in is None or first.tokens_in >= 4
    assert llm.spec == settings[name]["spec"] == llm.backend.spec
    with LLM(**settings[name]) as llm:
        backend, filled = llm.backend, llm.filled(TEXT)
        assert backend.complete(filled).text == llm.complete(TEXT).text and len(backend.endpoints) >= 1
        json.dumps(dict(backend.settings()))
    recorder = Recorder(tmp_path / "calls.sqlite")
    with LLM(recorder=recorder, **settings[name]) as llm:
        replies = llm.gather([TEXT, JSON])
    rows = list(recorder.rows())
    assert len(rows) == 2 and all(isinstance(reply, Reply) for reply in replies)
    for row in rows:
        assert {*row} >= FACTS and row["model"] == settings[name]["spec"] and row["error"] is None


@pytest.mark.parametrize("entry", list(BACKENDS), ids=NAMES)
def test_the_registry_describes_it(entry):
    assert entry.summary and entry.facts["kind"] in ("server", "offline", "engine")
    if entry.facts.get("argument"):
        refused("after a colon", LLM, entry.name)
