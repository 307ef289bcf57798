"""A real engine with random weights behind the real client: what models can do to us, they do."""

import json

import pytest

from crs_lib.llm import LLM, LLMError, Request, Retry
from crs_lib.llm.preflight import Need, preflight

pytest.importorskip("xllamacpp", reason="needs the real engine: pip install 'crs-lib[llmtest]'")
pytest.importorskip("gguf", reason="needs the real engine: pip install 'crs-lib[llmtest]'")

from tests.helpers.engine import CONTEXT, Engine

OPTIONS = {"num_ctx": CONTEXT, "num_predict": 60, "temperature": 1.0}
SCHEMA = {
    "type": "object",
    "properties": {
        "evidence": {"type": "string", "maxLength": 20},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["evidence", "score"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with Engine(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture
def llm(engine):
    retry = Retry(first=0, longest=0)
    with LLM(f"ollama:{engine.model}", host=engine.url, options=OPTIONS, retry=retry) as built:
        yield built


def ask(text, seed=1, **options):
    return Request.ask("crs", text, seed=seed, **options)


@pytest.fixture(autouse=True)
def any_bytes(monkeypatch):
    """Random weights write random bytes, which no study would use."""
    monkeypatch.setattr("crs_lib.llm.text._check_whole", lambda text: None)


def test_preflight_knows_it_and_its_own_endpoint_speaks_openai(engine, llm):
    need = Need("crs", f"ollama:{engine.model}", OPTIONS, settings={"host": engine.url})
    assert preflight([need]) == {need.spec: engine.digest}
    assert llm.backend.context_limit() == CONTEXT == OPTIONS["num_ctx"]
    with LLM(f"openai:{engine.model}", host=engine.openai_url, options=OPTIONS) as own:
        first = own.complete(ask("hello"))
        second = own.complete(ask("hello"))
    assert first.text == second.text
    assert first.tokens_out == 60


def test_seeds_tokens_stops_and_schemas_are_the_engines_own(llm, engine):
    texts = [llm.complete(ask("hello", seed)).text for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len({*texts}) == 3
    reply = llm.complete(ask("hello there"))
    sent = "<user>hello there</user>\n<assistant>"
    assert reply.tokens_in == len(sent) + 1  # a token a byte, and the one that begins
    assert reply.tokens_out == 60
    assert reply.stop == "length"
    assert reply.digest == engine.digest
    for seed in range(5):
        reply = llm.complete(ask("score it", seed, schema=SCHEMA, options={"num_predict": 800}))
        assert 1 <= json.loads(reply.text)["score"] <= 5


def test_a_prompt_beyond_the_context_is_an_error_and_never_cut(llm):
    with pytest.raises(LLMError) as ours:
        llm.complete(ask("word " * 12_000))
    assert ours.value.kind == "prompt too long"
    assert "raise num_ctx" in str(ours.value)
    with pytest.raises(LLMError) as theirs:  # a token a byte: more than our estimate
        llm.complete(ask("longer" * 3_000))
    assert theirs.value.kind == "prompt too long"
    assert theirs.value.attempts == 1
    assert "context" in str(theirs.value)
