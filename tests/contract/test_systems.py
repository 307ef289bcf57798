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
from tests.helpers.sample import SAMPLE, WORLD, policy_specs

META = {"constraints": {"genre": "Drama"}, "avoid": {"genre": "Horror"}}
CONTROLS = "oracle tracker amnesiac sticky popular random echo slot_echo silent noisy".split()
FACTS = set("role model digest options tokens_in tokens_out seconds cache_hit attempts session".split())
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = Request.ask("crs", "Say this:\nhello there\n", seed=7, tags={"session": 1})
JSON = Request.ask("judge", "Score it:\nhello there\n", seed=7, schema=SCHEMA, tags={"session": 1})
NAMES = BACKENDS.names()


SPECS = policy_specs()
MOST = {"oracle:5": 5, "tracker:5": 5, "hedge": 4, "stickyk:10": 10}
EACH = pytest.mark.parametrize("spec", SPECS)


@pytest.fixture(scope="module")
def pairs():
    """The pairs of three sessions of each policy."""
    config = SimulateConfig(systems=SPECS, n_turns=10)
    pairs = {}
    for spec in SPECS:
        pairs[spec] = []
        for number in range(3):
            dialogue = simulate.session(WORLD, spec, number, config)
            assert dialogue.model_name == spec
            pairs[spec] += dialogue.pairs()
    return pairs


@EACH
def test_items_of_the_catalogue_are_recommended_once(spec, pairs):
    for pair in pairs[spec]:
        ids = pair.system.meta["rec_ids"]
        assert len(set(ids)) == len(ids)
        assert len(ids) <= MOST.get(spec, systems.N_ITEMS)
        numbers = [SAMPLE.id_index[item] for item in ids]
        assert SAMPLE.recommendable[numbers].all()
        titles = [SAMPLE.items[number].title for number in numbers]
        assert titles == pair.system.meta["rec_titles"]
        assert pair.system.meta["hallucinated_titles"] == []
        if spec != "ids_only":  # which says nothing of its films
            for title in titles:
                assert title in pair.system.text


@EACH
def test_the_constraints_that_a_reply_states_are_values_of_the_catalogue(spec, pairs):
    for pair in pairs[spec]:
        for name, value in pair.system.meta["constraints"].items():
            assert SAMPLE.code(name, value) is not None
        assert set(pair.user.user_meta) >= {"constraints", "avoid"}


@EACH
def test_a_spec_is_a_name_that_can_be_given_back(spec):
    assert systems.check([spec]) == [spec]
    sees_state = issubclass(SYSTEMS.get(spec).make, Oracle)
    assert systems.create(spec, WORLD, 9, 4).sees_state is sees_state


def replies(spec, *texts, session=4):
    """What a new system answers to the texts, one a turn."""
    system = systems.create(spec, WORLD, 9, session)
    return [system.reply(turn, text, META) for turn, text in enumerate(texts, 1)]


@EACH
def test_the_answer_is_a_function_of_what_was_said_in_its_own_session(spec):
    texts = ("I'd like drama films", "More, please", "")
    first = replies(spec, *texts)
    assert first == replies(spec, *texts)
    for reply in first:
        assert isinstance(reply, SystemReply)
        assert isinstance(reply.text, str)
    alone = replies(spec, "I'd like war films")
    replies(spec, *["I'd like comedy films"] * 3, session=5)
    assert replies(spec, "I'd like war films") == alone


@pytest.mark.parametrize("entry", list(SYSTEMS), ids=SYSTEMS.names())
def test_a_registered_policy_says_what_it_is(entry):
    assert entry.summary
    assert inspect.getdoc(entry.make)
    if entry.facts.get("default"):
        assert systems.check([entry.name]) == [entry.name]
    elif entry.facts.get("argument"):
        assert entry.facts.get("example")
        refused(rf"policy '{entry.name}' needs .* after a colon", systems.check, [entry.name])


def test_the_control_policies_are_registered():
    assert set(DEFAULT_SYSTEMS) <= set(CONTROLS)
    assert set(CONTROLS) <= set(SYSTEMS.names())


def weights():
    """Whether the engine of ``local`` and its small model are installed."""
    if not importlib.util.find_spec("xllamacpp"):
        return False
    try:
        return local.find("smollm2").exists()
    except InputError:
        return False


ENGINE = pytest.mark.skipif(not weights(), reason="needs the engine and smollm2")
ANSWERING = [name for name in NAMES if name != "local"] + [pytest.param("local", marks=ENGINE)]


def scripted_answer(request):
    """JSON where the request has a schema, else words."""
    return '{"n": 3}' if request.schema else "hello"


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
            "scripted": {"spec": "scripted", "answers": scripted_answer},
            "template": {"spec": "template"},
            "replay": {"spec": "replay:demo"},
            "local": {"spec": "local:smollm2", "options": {"temperature": 0}},
        }


@pytest.mark.parametrize("name", ANSWERING)
def test_a_reply_is_complete_and_the_same_again(name, settings):
    with LLM(**settings[name]) as llm:
        first = llm.complete(TEXT)
        second = llm.complete(TEXT)
        data = json.loads(llm.complete(JSON).text)
    assert isinstance(data["n"], int)
    assert first.text == second.text
    assert first.text.strip() == first.text
    assert first.text and first.digest
    assert first.stop == "stop"
    assert first.attempts == 1
    assert not first.cache_hit
    assert first.tokens_in is None or first.tokens_in >= 4


@pytest.mark.parametrize("name", ANSWERING)
def test_a_model_answers_as_its_backend_does(name, settings):
    with LLM(**settings[name]) as llm:
        backend = llm.backend
        assert llm.spec == backend.spec == settings[name]["spec"]
        assert backend.complete(llm.filled(TEXT)).text == llm.complete(TEXT).text
        assert len(backend.endpoints) >= 1
        json.dumps(dict(backend.settings()))


@pytest.mark.parametrize("name", ANSWERING)
def test_each_call_is_a_row(name, settings, tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    with LLM(recorder=recorder, **settings[name]) as llm:
        replies = llm.gather([TEXT, JSON])
    assert {type(reply) for reply in replies} == {Reply}
    rows = list(recorder.rows())
    assert len(rows) == 2
    for row in rows:
        assert set(row) >= FACTS
        assert row["model"] == settings[name]["spec"]
        assert row["error"] is None


@pytest.mark.parametrize("entry", list(BACKENDS), ids=NAMES)
def test_the_registry_describes_a_backend(entry):
    assert entry.summary
    assert entry.facts["kind"] in ("server", "offline", "engine")
    if entry.facts.get("argument"):
        refused("after a colon", LLM, entry.name)
