"""The agent over the sample corpus: routed, answered, written as runs, and scored end to end."""

import pytest

from crs_lib.core import paths
from crs_lib.cosrec import corpus, evaluate, index, retrieve
from crs_lib.cosrec.intents import MODELS, Training
from crs_lib.cosrec.records import topic
from crs_lib.cosrec.settings import RetrieveSettings
from crs_lib.cosrec.study import STUDY
from tests.helpers import refused

SAMPLE = corpus.locate("sample")


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return RetrieveSettings(run="a", router="views", retrievers=("bm25",))


@pytest.fixture(scope="module")
def curated():
    return corpus.load(SAMPLE, "curated")


@pytest.mark.slow
def test_end_to_end_on_the_sample(config, curated):
    STUDY.run("retrieve", config)
    folder = paths.run_folder("cosrec", config.run)
    runs = retrieve.read_runs(folder / "runs").runs
    routes = retrieve.read_routes(folder / "routes.jsonl")
    systems = {"bm25-last-turn", "bm25-first-and-last", "bm25-first-and-last-with-keywords"}
    assert set(runs) == systems
    assert set(routes) == systems
    scores = evaluate.score(curated, runs)
    assert len(scores) == 3 * len(curated.qrels)
    carried = scores[scores["system"] != "bm25-last-turn"]  # "Could it stay outside?" alone finds nothing
    assert not carried["missing"].any()
    means = evaluate.joint_means(evaluate.joint(scores, routes)).set_index(["system", "kind"])
    assert (means["routed"] <= means["oracle"]).all()
    # a rewrite that carries the opening request finds products that the last turn does not name
    recommended = means["oracle"].xs("recommendation", level="kind")
    assert recommended["bm25-first-and-last"] > recommended["bm25-last-turn"]
    links = evaluate.score_links(curated, retrieve.read_runs(folder / "links").runs).set_index("system")
    assert 0.5 < links.loc["bm25-last-turn", "P@1"] < 1  # some questions say "the first one"


@pytest.mark.slow
def test_the_sample_tells_bm25_dense_and_fusion_apart(curated):
    stock = index.opened(SAMPLE)
    runs = {}
    for specs in (("bm25",), ("dense:hashing",), ("bm25", "dense:hashing")):
        modules = {
            "recommendation": stock.search("products", specs).search,
            "search": stock.search("passages", specs).search,
        }
        agent = retrieve.RoutingAgent(MODELS.create("views"), stock, modules, "first and last")
        runs["+".join(specs)] = agent.run(curated, 10)
    gaps = evaluate.differences(evaluate.score(curated, runs, ["nDCG@10"]), resamples=500)
    assert len(gaps) == 6
    assert ((gaps["low"] > 0) | (gaps["high"] < 0)).all()
    better = gaps.set_index(["kind", "a", "b"])["diff"]
    assert better["recommendation", "bm25", "dense:hashing"] > 0
    assert better["search", "bm25", "dense:hashing"] < 0


def unresolved(name, mapping, partition):
    """Whether a topic denotes no user under a mapping."""
    judged = topic(name)
    top = len(partition.users[judged.conversation])  # no user has this rank
    return judged.user_index == (0 if mapping == "zero_is_generic" else top)


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["as_documented", "zero_is_generic"])
def test_keywords_of_a_resolved_user_join_the_query(config, curated, mapping):
    agent = next(iter(retrieve.agents(config).values()))
    plain = agent.run(curated)
    personal = agent.run(curated, mapping=mapping)
    changed = [name for name in plain if plain[name] != personal[name]]
    assert len(changed) > 100
    for name in changed:
        assert "#" in name
        assert not unresolved(name, mapping, curated)


def test_the_router_learns_from_the_crowd_alone():
    data = Training.of(corpus.load(SAMPLE, "crowd"))
    assert data.turns["conversation"].str.startswith("Sample-Crowd").all()


def test_a_folder_without_runs_is_refused(tmp_path):
    refused("one TREC run file", retrieve.read_runs, tmp_path)
