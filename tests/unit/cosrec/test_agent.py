"""The agent over the sample corpus: routed, answered, written as runs, and scored end to end."""

from pathlib import Path

import pytest

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.cosrec import corpus, evaluate, index, retrieve
from crs_lib.cosrec.intents import MODELS, _training
from crs_lib.cosrec.records import topic
from crs_lib.cosrec.settings import RetrieveSettings
from crs_lib.cosrec.study import STUDY


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RetrieveSettings:
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return RetrieveSettings(run="a", router="views", retrievers=("bm25",))


@pytest.mark.slow
def test_end_to_end_on_the_sample(config: RetrieveSettings) -> None:
    STUDY.run("retrieve", config)
    folder = paths.run_folder("cosrec", config.run)
    curated = corpus.load(corpus.locate("sample"), "curated")
    runs, routes = retrieve.read_runs(folder / "runs"), retrieve.read_routes(folder / "routes.jsonl")
    wishes = "bm25-first-and-last-with-keywords"
    assert set(runs) == set(routes) == {"bm25-last-turn", "bm25-first-and-last", wishes}
    scores = evaluate.score(curated, runs)
    assert len(scores) == 3 * len(curated.qrels)
    carried = scores[scores["system"] != "bm25-last-turn"]  # "Could it stay outside?" alone finds nothing
    assert not carried["missing"].any()
    means = evaluate.joint_means(evaluate.joint(scores, routes)).set_index(["system", "kind"])
    assert (means["routed"] <= means["oracle"]).all()
    # a rewrite that carries the opening request finds products that the last turn does not name
    assert (
        means.loc[("bm25-first-and-last", "recommendation"), "oracle"]
        > (means.loc[("bm25-last-turn", "recommendation"), "oracle"])
    )
    links = evaluate.score_links(curated, retrieve.read_runs(folder / "links")).set_index("system")
    spelt = links.loc["bm25-last-turn", "P@1"]  # some questions say "the first one"
    assert 0.5 < spelt < 1


def test_the_agent_answers_what_was_asked(config: RetrieveSettings) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    answer = agent.answer(["How should a tent be stored?"], "", ["search"])
    assert "tent" in answer.text
    assert list(answer.found) == ["search"]
    title = agent.products["BS00000777"].title
    both = agent.answer([f"Tell me about the {title}"], "", ["product_details", "recommendation"])
    assert agent.products[both.found["product_details"][0].id].title == title
    assert "You could look at" in both.text
    assert agent.answer(["Thanks"], "", []).text == "You are welcome."


@pytest.mark.slow
def test_the_sample_tells_bm25_dense_and_fusion_apart() -> None:
    folder = corpus.locate("sample")
    curated, stock = corpus.load(folder, "curated"), index.opened(folder, "", 1.2, 0.75)
    runs = {}
    for specs in (("bm25",), ("dense:hashing",), ("bm25", "dense:hashing")):
        searches = stock.search("products", specs), stock.search("passages", specs)
        agent = retrieve._RoutingAgent(MODELS.create("views"), stock, *searches, "first and last")
        runs["+".join(specs)] = agent.run(curated, 10)
    gaps = evaluate.differences(evaluate.score(curated, runs, ["nDCG@10"]), resamples=500)
    assert len(gaps) == 6
    assert ((gaps["low"] > 0) | (gaps["high"] < 0)).all()
    better = gaps.set_index(["kind", "a", "b"])["diff"]
    assert better["recommendation", "bm25", "dense:hashing"] > 0 > better["search", "bm25", "dense:hashing"]


@pytest.mark.slow
def test_wishes_of_a_resolved_user_join_the_query(config: RetrieveSettings) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    curated = corpus.load(corpus.locate("sample"), "curated")
    plain = agent.run(curated)
    for mapping in ("as_documented", "zero_is_generic"):
        mapped = agent.run(curated, mapping=mapping)
        assert {t for t in plain if "#" not in t and plain[t] != mapped[t]} == set()
        top = {name: f"#{len(users)}" for name, users in curated.users.items()}  # no user has this rank
        for name in (name for name in plain if "#" in name):
            generic = "#0" if mapping == "zero_is_generic" else top[topic(name).conversation]
            assert (plain[name] == mapped[name]) or not name.endswith(generic)
        assert sum(plain[name] != mapped[name] for name in plain) > 100


@pytest.mark.slow
def test_the_conversation_as_the_agent_serves_it(config: RetrieveSettings) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    curated = corpus.load(corpus.locate("sample"), "curated")
    table = agent.converse(curated, "Sample-Curated_1")
    assert len(table) == len(curated.conversations["Sample-Curated_1"].turns)
    assert table.loc[0, "modules"] == "recommendation"


def test_the_router_learns_from_the_crowd_alone() -> None:
    folder = corpus.locate("sample")
    data = _training(corpus.load(folder, "crowd"))
    assert all(name.startswith("Sample-Crowd") for name in data.turns["conversation"])


def test_no_run_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one TREC run file"):
        retrieve.read_runs(tmp_path)
