"""The agent over the sample corpus: routed, answered, written as runs, and scored end to end."""

from dataclasses import replace

import pandas as pd
import pytest

from crs_lib.core import paths
from crs_lib.cosrec import corpus, evaluate, index, retrieve
from crs_lib.cosrec.intents import MODELS, Training
from crs_lib.cosrec.records import topic
from crs_lib.cosrec.settings import RetrieveSettings, ScoreSettings
from crs_lib.cosrec.study import STUDY
from tests.helpers import refused
from tests.helpers.cosrec_data import CURATED, part_of_sample

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


def test_the_request_that_products_were_pooled_by():
    requests = retrieve.requests(CURATED, "canonical", "zero_is_generic", personal=True)
    queries = {request.topic.id: request.queries for request in requests}
    assert queries["C_1_0_0#0"] == ["a light tent for two"]  # the request without a user
    assert queries["C_1_0_0#1"] == ["a light tent for two cheap"]
    assert queries["C_1_1_0"] == ["meaning of waterproof"]


def test_every_formulation_is_a_query_the_canonical_one_first():
    requests = retrieve.requests(CURATED, "variants")
    queries = {request.topic.id: request.queries for request in requests}
    assert queries["C_1_0_0#0"] == ["a light tent for two", "light tent"]
    assert queries["C_1_1_0"] == ["meaning of waterproof", "waterproof"]


def test_a_topic_without_its_intent_has_no_formulation():
    bare = replace(CURATED, intents={})
    refused(
        "'canonical' takes the formulations of intents.*add intents.jsonl",
        retrieve.requests,
        bare,
        "canonical",
    )
    assert retrieve.requests(bare, "last turn")[0].queries == ["I need a light tent"]


@pytest.fixture(scope="module")
def formulated(tmp_path_factory):
    """The results folder of a finished run that asks every formulation, and the settings."""
    folder = tmp_path_factory.mktemp("formulated")
    source = part_of_sample(folder / "source", crowd=4, curated=4, products=300, passages=300)
    rewriters = ("last turn", "variants", "canonical")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        config = RetrieveSettings(
            run="f", source=str(source), router="views", retrievers=("bm25",), rewriters=rewriters
        )
        STUDY.run("retrieve", config)
        scored = STUDY.run("evaluate", ScoreSettings(run="f", source=str(source), resamples=20))
        last_line = retrieve.account("f")
    return folder / "cosrec" / "f", scored, last_line


@pytest.mark.slow
def test_requests_are_a_table(formulated):
    folder = formulated[0]
    topics = pd.read_csv(folder / "topics.tsv", sep="\t")
    assert list(topics) == ["id", "user_index", "user_id", "query", "rewriter"]
    assert set(topics["rewriter"]) == {"last turn", "variants", "canonical", "canonical, with keywords"}
    users = topics.groupby("user_index")["user_id"].nunique()
    assert users[0] == 0
    assert users[1] > 0
    numbered = pd.read_csv(folder / "queries.tsv", sep="\t", names=["number", "query"])
    assert set(numbered["query"]) == set(topics["query"])
    assert numbered["query"].is_unique


@pytest.mark.slow
def test_formulations_are_run_and_their_spread_is_a_table(formulated):
    folder, scored, _ = formulated
    assert {path.stem for path in (folder / "runs").iterdir()} >= {"bm25-variants", "bm25-canonical"}
    table = scored["variants"].set_index("kind")
    assert set(table["system"]) == {"bm25-variants"}
    assert (table["worst"] <= table["canonical"]).all()
    assert (table["canonical"] <= table["best"]).all()
    assert table["range"].tolist() == pytest.approx((table["best"] - table["worst"]).tolist())


@pytest.mark.slow
def test_the_last_line_tells_the_requests_without_a_ranking(formulated):
    folder, _, last_line = formulated
    left_out = pd.read_csv(folder / "left_out.csv")
    assert set(left_out["reason"]) <= {"nothing found"}
    assert f"left out: {len(left_out) or 'none'}" in last_line
    assert "left_out.csv" in last_line


@pytest.mark.slow
def test_without_texts_there_are_requests_and_routes_and_no_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    source = str(part_of_sample(tmp_path / "source", crowd=4, curated=4))
    for name in ("products", "passages"):
        (tmp_path / "source" / f"{name}.jsonl").unlink()
    config = RetrieveSettings(run="t", source=source, router="views", rewriters=("canonical",))
    STUDY.run("retrieve", config)
    folder = paths.run_folder("cosrec", "t")
    assert (folder / "topics.tsv").is_file()
    assert len(retrieve.read_routes(folder / "routes.jsonl")) == len(config.systems())
    assert retrieve.runs_of("t") == {}
    assert "no products to search" in retrieve.account("t")


@pytest.mark.slow
def test_a_run_made_again_keeps_no_former_system_and_every_foreign_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    source = str(part_of_sample(tmp_path / "source", crowd=4, curated=2, products=50, passages=50))
    config = RetrieveSettings(run="t", source=source, router="views", retrievers=("bm25",), mapping="")
    STUDY.run("retrieve", config)
    folder = paths.run_folder("cosrec", "t") / "runs"
    (folder / "mine.run").write_text("1_0_0 Q0 a 1 2.5 theirs\n")
    STUDY.run("retrieve", config.changed(rewriters=("all turns",)))
    assert {path.stem for path in folder.iterdir()} == {"bm25-all-turns", "mine"}


def test_the_share_that_the_router_sends_right():
    routes = {("C_1", 0): ["recommendation"], ("C_1", 1): ["recommendation"]}
    table = retrieve.right_modules(CURATED, routes).set_index("intent")["right_module"]
    assert table.to_dict() == {"C_1_0_0": True, "C_1_1_0": False, "C_2_0_0": False}
