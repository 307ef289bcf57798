"""The agent over the sample corpus: routed, answered, written as runs, and scored end to end."""

import gzip
import json

import pandas as pd
import pytest

from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.cosrec import corpus, evaluate, index, retrieve
from crs_lib.cosrec.generate import Writer
from crs_lib.cosrec.intents import MODELS, Training
from crs_lib.cosrec.records import MAPPINGS, topic
from crs_lib.cosrec.settings import GenerateSettings, RetrieveSettings
from crs_lib.cosrec.study import STUDY
from crs_lib.retrieval.runs import Hit
from tests.helpers import refused
from tests.helpers.cosrec_data import CURATED

SHOWN = [Hit("T1", 2.0), Hit("T2", 1.0)]
RUN = {"C_1_0_0#0": SHOWN, "C_1_0_0#1": SHOWN, "C_1_1_0": [Hit("m#9", 3.0), Hit("m#1", 2.0)]}
SAMPLE = corpus.locate("sample")
FILES = {name: SAMPLE / f"{name}.jsonl.gz" for name in ("products", "passages")}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return RetrieveSettings(run="a", router="views", retrievers=("bm25",))


@pytest.fixture
def agent(config):
    return next(iter(retrieve.agents(config).values()))


@pytest.fixture(scope="module")
def curated():
    return corpus.load(corpus.locate("sample"), "curated")


@pytest.mark.slow
def test_end_to_end_on_the_sample(config, curated):
    STUDY.run("retrieve", config)
    folder = paths.run_folder("cosrec", config.run)
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
    found = means["oracle"].xs("recommendation", level="kind")
    assert found["bm25-first-and-last"] > found["bm25-last-turn"]
    links = evaluate.score_links(curated, retrieve.read_runs(folder / "links")).set_index("system")
    spelt = links.loc["bm25-last-turn", "P@1"]  # some questions say "the first one"
    assert 0.5 < spelt < 1


@pytest.mark.slow
def test_the_sample_tells_bm25_dense_and_fusion_apart():
    folder = corpus.locate("sample")
    curated, stock = corpus.load(folder, "curated"), index.opened(folder, "", 1.2, 0.75)
    runs = {}
    for specs in (("bm25",), ("dense:hashing",), ("bm25", "dense:hashing")):
        places = {"recommendation": "products", "search": "passages"}
        searches = {kind: stock.search(place, specs).search for kind, place in places.items()}
        agent = retrieve.RoutingAgent(MODELS.create("views"), stock, searches, "first and last")
        runs["+".join(specs)] = agent.run(curated, 10)
    gaps = evaluate.differences(evaluate.score(curated, runs, ["nDCG@10"]), resamples=500)
    assert len(gaps) == 6 and ((gaps["low"] > 0) | (gaps["high"] < 0)).all()
    better = gaps.set_index(["kind", "a", "b"])["diff"]
    assert better["recommendation", "bm25", "dense:hashing"] > 0 > better["search", "bm25", "dense:hashing"]


@pytest.mark.slow
def test_wishes_of_a_resolved_user_join_the_query(agent, curated):
    plain = agent.run(curated)
    for mapping in ("as_documented", "zero_is_generic"):
        mapped = agent.run(curated, mapping=mapping)
        assert {t for t in plain if "#" not in t and plain[t] != mapped[t]} == set()
        top = {name: f"#{len(users)}" for name, users in curated.users.items()}  # no user has this rank
        for name in (name for name in plain if "#" in name):
            generic = "#0" if mapping == "zero_is_generic" else top[topic(name).conversation]
            assert (plain[name] == mapped[name]) or not name.endswith(generic)
        assert sum(plain[name] != mapped[name] for name in plain) > 100


def test_the_router_learns_from_the_crowd_alone():
    data = Training.of(corpus.load(corpus.locate("sample"), "crowd"))
    assert all(name.startswith("Sample-Crowd") for name in data.turns["conversation"])


def test_a_folder_without_runs_and_a_run_of_something_else_are_refused(tmp_path):
    refused("one TREC run file", retrieve.read_runs, tmp_path)
    refused("none of its 1 topics is judged", evaluate.score, CURATED, {"ours": {"C_9_0_0": [Hit("x", 1)]}})


def test_scores_by_hand():
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10", "P@2", "Judged@2"]).set_index("topic")
    assert frame["RR@10"].to_dict() == {"C_1_0_0#0": 1.0, "C_1_0_0#1": 0.5, "C_1_1_0": 0.5, "C_2_0_0#0": 0.0}
    assert frame.loc["C_1_1_0", "Judged@2"] == 0.5
    assert frame["missing"].to_dict() == {t: t == "C_2_0_0#0" for t in frame.index}
    assert frame.loc["C_1_1_0", ["kind", "turn"]].tolist() == ["search", 1]
    assert pd.isna(frame.loc["C_1_1_0", "user_index"])


def test_means_by_kind_and_by_user_index():
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    kinds = evaluate.means(frame, ["RR@10"]).set_index("kind")
    assert kinds["mean"].to_dict() == pytest.approx({"recommendation": 0.5, "search": 0.5})
    assert kinds["n"].to_dict() == {"recommendation": 3, "search": 1}
    by_user = evaluate.means(frame[frame["kind"] == "recommendation"], ["RR@10"], ["user_index"])
    assert by_user.set_index("user_index")["mean"].to_dict() == {0: 0.5, 1: 0.5}


def test_routing_costs_what_it_sends_wrong():
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    # both variants of C_1_0_0 average 0.75; the search turn is sent to recommendation and scores 0
    routes = {"ours": {("C_1", 0): ["recommendation"], ("C_1", 1): ["recommendation"]}}
    joint = evaluate.joint(frame, routes, "RR@10").set_index("intent")
    assert joint["oracle"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.5, "C_2_0_0": 0.0}
    assert joint["routed"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.0, "C_2_0_0": 0.0}
    means = evaluate.joint_means(joint.reset_index()).set_index("kind")
    macro = means.loc["macro", ["right_module", "routed", "oracle"]].tolist()
    assert macro == pytest.approx([0.25, 0.1875, 0.4375])
    assert means["n"].to_dict() == {"recommendation": 2, "search": 1, "macro": 3}
    refused("no routes for 'ours'", evaluate.joint, frame, {})


def test_the_reader_of_an_index_under_both_mappings():
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    found = {m: evaluate.reader(CURATED, frame, m)["reader"].tolist() for m in MAPPINGS}
    assert found["as_documented"][:2] == ["user", "unresolved"]
    assert found["zero_is_generic"][:2] == ["generic", "user"] and pd.isna(found["as_documented"][2])


def test_the_floors_stand_beside():
    sizes = {"search": 8}
    scores = evaluate.score(CURATED, {"ours": RUN}, ["P@1"])
    frame = evaluate.with_floors(CURATED, scores, ["P@1"], sizes=sizes, draws=2000)
    by_system = {name: part.set_index("topic")["P@1"] for name, part in frame.groupby("system")}
    pool = by_system["random order of the pool"]
    assert pool["C_1_1_0"] == pytest.approx(1 / 2, abs=0.05)
    assert pool["C_2_0_0#0"] == pytest.approx(2 / 3, abs=0.05)
    drawn = by_system["random order of the collection"]
    assert drawn.to_dict() == {"C_1_1_0": pytest.approx(1 / 8, abs=0.03)}  # one relevant of eight passages
    without = evaluate.with_floors(CURATED, scores, ["P@1"], draws=1)
    assert set(without["system"]) == {"ours", "random order of the pool"}


def test_differences_are_paired_by_conversation():
    better = {t: [Hit(d, g + 1.0) for d, g in grades.items()] for t, grades in CURATED.qrels.items()}
    better = {t: sorted(hits, key=lambda h: -h.score) for t, hits in better.items()}
    frame = evaluate.differences(evaluate.score(CURATED, {"ours": RUN, "best": better}, ["RR@10"]), "RR@10")
    row = frame[frame["kind"] == "recommendation"].iloc[0]
    assert (row["a"], row["b"], row["n"]) == ("best", "ours", 2)
    assert row["diff"] == pytest.approx((1 + 1 + 1) / 3 - (1 + 0.5 + 0) / 3) and row["p_holm"] >= row["p"]
    assert frame[frame["kind"] == "search"]["p"].isna().all()  # a single conversation tests nothing


def test_linking_compares_ids_in_upper_case():
    runs = {"ours": {"C_2_1_0": [Hit("X", 2.0), Hit("B01", 1.0)]}, "prior": evaluate.pool_prior(CURATED)}
    found = evaluate.score_links(CURATED, runs).set_index("system")
    assert found.loc["ours", ["P@1", "RR@10", "reachable"]].tolist() == [0.0, 0.5, 1.0]
    # the pool of the turn before: B01 2, B02 1, B03 0
    assert [h.id for h in runs["prior"]["C_2_1_0"]] == ["B01", "B02", "B03"]
    assert found.loc["prior", "P@1"] == 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("index")
    for name, path in FILES.items():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            (place / f"{name}.jsonl").write_text("".join(next(file) for _ in range(120)), encoding="utf-8")
    given = {name: str(place / f"{name}.jsonl") for name in FILES}
    command = ["cosrec", "index", "--products", given["products"], "--passages", given["passages"]]
    assert main([*command, "--out", str(place / "made")]) == 0
    return place


def test_the_same_products_hits_and_reviews_as_in_memory(folder):
    here, there = index.Stock(folder), index.StockOnDisk(folder / "made")
    assert list(there.products) == list(here.products) and dict(there.passages) == here.passages
    query = next(iter(here.products.values())).search_text()
    for collection, text in (("products", query), ("passages", "clean it")):
        for specs in (["bm25"], ["dense:hashing"], ["bm25", "dense:hashing"]):
            one, two = (stock.search(collection, specs, "rrf") for stock in (here, there))
            assert one.search(text, 7) == two.search(text, 7)
    assert there.search("titles").search(query, 3) == here.search("titles").search(query, 3)
    users = {review.user for product in here.products.values() for review in product.reviews}
    assert len(users) > 50
    assert all(there.reviews_of(user) == here.reviews_of(user) != [] for user in users)
    assert there.reviews_of("nobody") == []


def test_a_writer_makes_the_same_record_from_either_and_what_the_index_lacks_is_refused(folder):
    plain = Writer(GenerateSettings(conversations=2), str(folder)).record(1)
    assert Writer(GenerateSettings(conversations=2, index=str(folder / "made")), "").record(1) == plain
    assert index.digests(folder, str(folder / "made")) == index.digests(folder)
    stock = index.StockOnDisk(folder / "made")
    refused(r"holds bm25 and dense:hashing, not 'dense:minilm'", stock.search, "products", ["dense:minilm"])
    refused(r"made with k1=1.2, b=0.75; asked for k1=0.9", index.opened, folder, str(folder / "made"), k1=0.9)
    refused("no index", index.StockOnDisk, folder, error=RunError)


@pytest.mark.parametrize(("change", "what"), [
    ({"parent_asin": "BS00000001"}, "there twice"), ({"parent_asin": "a b"}, "holds blanks"),
    ({"price": "x"}, "line 2"),
])  # fmt: skip
def test_a_broken_line_leaves_nothing_behind(tmp_path, change, what):
    with gzip.open(FILES["products"], "rt", encoding="utf-8") as file:
        first, second = json.loads(next(file)), json.loads(next(file))
    rows = [json.dumps(first), json.dumps(second | change)]
    (tmp_path / "products.jsonl").write_text("\n".join(rows), encoding="utf-8")
    refused(what, index.write_index, tmp_path / "products.jsonl", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["products.jsonl"]


def test_passages_of_ms_marco_are_read_from_their_own_files(tmp_path):
    """A folder of v2.1's segments and of v1's table, by name; both make an index."""
    (place := tmp_path / "passages").mkdir()
    form = {"title": "Tents", "url": "u"}
    segments = [form | {"docid": f"msmarco_v2.1_doc_00_{n}#0_{n}", "segment": f"tent {n}"} for n in (1, 2)]
    with gzip.open(place / "msmarco_v2.1_doc_segmented_00.json.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in segments)
    (place / "zz_collection.tsv").write_text("7\tA stove {is} hot.\n8\tno\tstove\n", encoding="utf-8")
    with gzip.open(FILES["products"], "rb") as file:
        (tmp_path / "products.jsonl").write_bytes(next(file))
    stock = index.Stock(tmp_path)
    assert [(p.id, p.title, p.text) for p in stock.passages.values()] == [
        (segments[0]["docid"], "Tents", "tent 1"), (segments[1]["docid"], "Tents", "tent 2"),
        ("7", "", "A stove {is} hot."), ("8", "", "no\tstove"),
    ]  # fmt: skip
    index.write_index(tmp_path / "products.jsonl", tmp_path / "made", place)
    assert dict(index.StockOnDisk(tmp_path / "made").passages) == stock.passages
    assert index.digests(tmp_path, str(tmp_path / "made")) == index.digests(tmp_path)
    assert set(index.digests(tmp_path)) == {"products.jsonl", *(path.name for path in place.iterdir())}
    (place / "zz_collection.tsv").write_text("only an id\n")
    refused(r"zz_collection\.tsv, line 1", index.Stock, tmp_path)
