"""A whole run on a real engine with random weights: noise in two roles, and everything still adds up."""

import pytest

from crs_lib import evaluate, simulate
from crs_lib import judge as judging
from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Key, Ledger
from crs_lib.simulate.config import SimulateConfig

pytest.importorskip("xllamacpp", reason="needs the real engine: pip install 'crs-lib[llmtest]'")
pytest.importorskip("gguf", reason="needs the real engine: pip install 'crs-lib[llmtest]'")

from tests.helpers import refused
from tests.helpers.engine import CONTEXT, Engine

pytestmark = pytest.mark.full


@pytest.fixture
def engine(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    (tmp_path / "engine").mkdir()
    with Engine(tmp_path / "engine") as running:
        yield running


def batch(engine, **settings):
    spec = f"ollama:{engine.model}"
    llm = {"host": engine.url, "num_ctx": CONTEXT, "num_predict": 40, **settings}
    return SimulateConfig(run="noise", systems=[spec], n_sessions=1, n_turns=2, user_llm=spec, llm=llm)


def test_noise_is_simulated_and_scored(engine):
    folder = simulate.simulate(batch(engine, structured=False), progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="noise"))
    (dialogue,) = simulate.dialogues("noise")
    for pair in dialogue.pairs():
        assert pair.system.text
        assert pair.user.user_meta["worded_by"] == "template"  # noise voices no plan
        assert len(pair.user.user_meta["faults"]) == 2
    usage = judging.usage("noise").set_index("role")
    assert usage.loc["crs", "calls"] == 2
    assert usage.loc["user", "calls"] == 4
    assert usage["failed"].sum() == 0
    assert usage["tokens_in"].min() > 0
    assert (folder / "results.jsonl").exists()


def test_a_model_that_never_ends_its_json_fails_its_session_and_nothing_stands_in(engine):
    config = batch(engine)
    refused(r"1 of 1 sessions failed.*cut: ", simulate.simulate, config, progress=False, error=RunError)
    with Ledger(simulate.run_folder("noise") / "ledger.sqlite") as ledger:
        assert ledger.finished() == set()
        assert [key for key, _ in ledger.failures()] == [Key(config.systems[0], 0)]
