"""The agent over the sample corpus: routed, answered, written as runs, and scored end to end."""

from pathlib import Path

import pytest

from crs_lib.core.errors import InputError
from crs_lib.cosrec import corpus, evaluate, linking, retrieve
from crs_lib.cosrec.intents import MODELS, training


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> retrieve.RetrieveConfig:
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return retrieve.RetrieveConfig(run="a", router="tfidf", retrievers=("bm25",))


def test_end_to_end_on_the_sample(config: retrieve.RetrieveConfig) -> None:
    folder = retrieve.retrieve(config)
    curated = corpus.load(corpus.locate("sample"), "curated")
    runs, routes = retrieve.read_runs(folder / "runs"), retrieve.read_routes(folder / "routes.jsonl")
    assert set(runs) == set(routes) == {"bm25-last-turn", "bm25-first-and-last"}
    scores = evaluate.score(curated, runs)
    assert len(scores) == 2 * len(curated.qrels)
    assert not scores["missing"].any()
    means = evaluate.joint_means(evaluate.joint(scores, routes)).set_index(["system", "kind"])
    assert (means["routed"] <= means["oracle"]).all()
    # a rewrite that carries the opening request finds products that the last turn does not name
    assert (
        means.loc[("bm25-first-and-last", "recommendation"), "oracle"]
        > (means.loc[("bm25-last-turn", "recommendation"), "oracle"])
    )
    links = linking.score_links(curated, retrieve.read_runs(folder / "links")).set_index("system")
    assert links.loc["bm25-last-turn", "P@1"] == 1.0  # every question of the sample spells the title


def test_the_agent_answers_what_was_asked(config: retrieve.RetrieveConfig) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    answer = agent.answer(["What do the IPX numbers mean?"], "", ["search"])
    assert "IPX" in answer.text
    assert list(answer.found) == ["search"]
    both = agent.answer(
        ["Tell me about the Quillon Lite On-Ear Headphones"], "", ["product_details", "recommendation"]
    )
    assert agent.products[both.found["product_details"][0].id].title == "Quillon Lite On-Ear Headphones"
    assert "You could look at" in both.text
    assert agent.answer(["Thanks"], "", []).text == "You are welcome."


def test_wishes_of_a_resolved_user_join_the_query(config: retrieve.RetrieveConfig) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    curated = corpus.load(corpus.locate("sample"), "curated")
    plain = agent.run(curated)
    for mapping in ("as_documented", "zero_is_generic"):
        mapped = agent.run(curated, mapping=mapping)
        assert {t for t in plain if "#" not in t and plain[t] != mapped[t]} == set()
        generic = "#0" if mapping == "zero_is_generic" else "#2"
        assert all(plain[t] == mapped[t] for t in plain if t.endswith(generic))


def test_the_conversation_as_the_agent_serves_it(config: retrieve.RetrieveConfig) -> None:
    agent = next(iter(retrieve.agents(config).values()))
    curated = corpus.load(corpus.locate("sample"), "curated")
    table = agent.converse(curated, "Sample-Curated_1")
    assert len(table) == len(curated.conversations["Sample-Curated_1"].turns)
    assert table.loc[0, "modules"] == "recommendation"


def test_the_router_learns_from_the_crowd_alone() -> None:
    folder = corpus.locate("sample")
    data = training(corpus.load(folder, "crowd"))
    assert all(name.startswith("Sample-Crowd") for name in data.turns["conversation"])
    assert MODELS.create("tfidf").fit(data).predict(data.turns).shape == data.labels.shape


@pytest.mark.parametrize(
    "settings",
    [{"rewriters": ("magic",)}, {"fusion": "sum"}, {"router": "oracle"}, {"mapping": "x"}, {"depth": 0}],
)
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        retrieve.RetrieveConfig(**settings)


def test_no_run_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one TREC run file"):
        retrieve.read_runs(tmp_path)
