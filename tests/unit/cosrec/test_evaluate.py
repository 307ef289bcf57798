"""Scores of runs on judgments, worked by hand."""

import pandas as pd
import pytest

from crs_lib.cosrec import evaluate
from crs_lib.retrieval.runs import Hit, ranked
from tests.helpers import refused
from tests.helpers.cosrec_data import CURATED

SHOWN = [Hit("T1", 2.0), Hit("T2", 1.0)]
PASSAGES = [Hit("m#9", 3.0), Hit("m#1", 2.0)]
RUN = {"C_1_0_0#0": SHOWN, "C_1_0_0#1": SHOWN, "C_1_1_0": PASSAGES}


def score(*measures, **runs):
    return evaluate.score(CURATED, {"ours": RUN, **runs}, measures)


def test_scores_by_hand():
    table = score("RR@10", "P@2", "Judged@2").set_index("topic")
    expected = {"C_1_0_0#0": 1.0, "C_1_0_0#1": 0.5, "C_1_1_0": 0.5, "C_2_0_0#0": 0.0}
    assert table["RR@10"].to_dict() == expected
    assert table.loc["C_1_1_0", ["kind", "turn", "Judged@2"]].tolist() == ["search", 1, 0.5]
    assert table.index[table["missing"]].tolist() == ["C_2_0_0#0"]
    assert pd.isna(table.loc["C_1_1_0", "user_index"])


def test_a_run_of_something_else_is_refused():
    topics = {"ours": {"C_9_0_0": [Hit("x", 1)]}}
    refused("topics of run 'ours': 0 of 1 match; unknown are 'C_9_0_0'", evaluate.score, CURATED, topics)
    documents = {"ours": {"C_1_1_0": [Hit("meta_m#1", 1)]}}
    refused(
        r"judged document: 0 of 1 match.*'meta_m#1' \(nearest: 'm#1'\)", evaluate.score, CURATED, documents
    )
    refused("run 'ours' is empty", evaluate.score, CURATED, {"ours": {}})


def test_a_run_of_few_topics_is_told(caplog):
    few = {"C_1_0_0#00": SHOWN, "C_1_0_0#01": SHOWN, "C_1_1_0": RUN["C_1_1_0"]}
    table = evaluate.score(CURATED, {"few": few}, ["RR@10"])
    assert "topics of run 'few': 1 of 3 match" in caplog.text
    assert "'C_1_0_0#00' (nearest: 'C_1_0_0#0')" in caplog.text
    answered = evaluate.means(table, ["RR@10"]).set_index("kind")["answered"]
    assert answered.to_dict() == {"recommendation": 0.0, "search": 1.0}


def test_the_last_line_names_what_was_passed_over():
    whole = evaluate.matched(CURATED, {"ours": RUN})
    assert whole["n"].tolist() == [3, 3, 1, 3]
    assert "judged recommendation topics in run 'ours': 2 of 3 match" in evaluate.account(whole)
    unread = evaluate.matched(CURATED, {"ours": RUN}, ["README.md"])
    line = "runs read: 1; left out or least matched: README.md is no run file and was not read; "
    assert evaluate.account(unread).startswith(line)


def test_the_last_line_names_equal_scores_of_a_foreign_run():
    tied = {**RUN, "C_1_1_0": [Hit("m#9", 1.0), Hit("m#1", 1.0 + 1e-9)]}
    line = evaluate.account(evaluate.matched(CURATED, {"theirs": tied}))
    assert "equal scores in 1 of 3 topics of run 'theirs'" in line
    assert "RR@k and Judged@k of ir_measures take the lower id" in line
    assert "equal scores" not in evaluate.account(evaluate.matched(CURATED, {"ours": RUN}))


def test_means_by_kind_and_by_user_index():
    table = score("RR@10")
    kinds = evaluate.means(table, ["RR@10"]).set_index("kind")
    assert kinds["mean"].to_dict() == pytest.approx({"recommendation": 0.5, "search": 0.5})
    assert kinds["n"].to_dict() == {"recommendation": 3, "search": 1}
    recommended = table[table["kind"] == "recommendation"]
    by_user = evaluate.means(recommended, ["RR@10"], ["user_index"])
    assert by_user.set_index("user_index")["mean"].to_dict() == {0: 0.5, 1: 0.5}


def test_routing_costs_what_it_sends_wrong():
    # both variants of C_1_0_0 average 0.75; the search turn is sent to recommendation and scores 0
    routes = {"ours": {("C_1", 0): ["recommendation"], ("C_1", 1): ["recommendation"]}}
    joint = evaluate.joint(score("RR@10"), routes, "RR@10")
    by_intent = joint.set_index("intent")
    assert by_intent["oracle"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.5, "C_2_0_0": 0.0}
    assert by_intent["routed"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.0, "C_2_0_0": 0.0}
    means = evaluate.joint_means(joint).set_index("kind")
    macro = means.loc["macro", ["right_module", "routed", "oracle"]].tolist()
    assert macro == pytest.approx([0.25, 0.1875, 0.4375])
    assert means["n"].to_dict() == {"recommendation": 2, "search": 1, "macro": 3}


def test_a_system_without_routes_is_refused():
    refused("no routes for 'ours'", evaluate.joint, score("RR@10"), {})


def test_the_reader_of_an_index():
    table = score("RR@10")
    documented = evaluate.reader(CURATED, table, "as_documented")
    generic = evaluate.reader(CURATED, table, "zero_is_generic")
    assert documented["reader"].tolist()[:2] == ["user", "unresolved"]
    assert generic["reader"].tolist()[:2] == ["generic", "user"]
    assert pd.isna(documented.loc[2, "reader"])
    assert pd.isna(generic.loc[2, "reader"])


def test_the_floors_stand_beside():
    table = evaluate.with_floors(CURATED, score("P@1"), ["P@1"], sizes={"search": 8}, draws=2000)
    floors = table.set_index(["system", "topic"])["P@1"]
    assert floors[evaluate.POOL_FLOOR, "C_1_1_0"] == pytest.approx(1 / 2, abs=0.05)
    assert floors[evaluate.POOL_FLOOR, "C_2_0_0#0"] == pytest.approx(2 / 3, abs=0.05)
    # one relevant of eight passages; of products no size is given
    collection = floors[evaluate.COLLECTION_FLOOR]
    assert collection.index.tolist() == ["C_1_1_0"]
    assert collection["C_1_1_0"] == pytest.approx(1 / 8, abs=0.03)


def test_without_sizes_there_is_no_floor_of_the_collection():
    table = evaluate.with_floors(CURATED, score("P@1"), ["P@1"], draws=1)
    assert set(table["system"]) == {"ours", evaluate.POOL_FLOOR}


def test_differences_are_paired_by_conversation():
    best = {name: ranked(grades) for name, grades in CURATED.qrels.items()}
    table = evaluate.differences(score("RR@10", best=best), "RR@10").set_index("kind")
    row = table.loc["recommendation"]
    assert row[["a", "b", "n"]].tolist() == ["best", "ours", 2]
    means = (1 + 1 + 1) / 3, (1 + 0.5 + 0) / 3
    assert row["diff"] == pytest.approx(means[0] - means[1])
    assert row["p_holm"] >= row["p"]
    assert pd.isna(table.loc["search", "p"])  # a single conversation tests nothing


def test_linking_compares_ids_in_upper_case():
    prior = evaluate.pool_prior(CURATED)
    # the pool of the turn before: B01 2, B02 1, B03 0
    assert [hit.id for hit in prior["C_2_1_0"]] == ["B01", "B02", "B03"]
    ours = {"C_2_1_0": [Hit("X", 2.0), Hit("B01", 1.0)]}
    links = evaluate.score_links(CURATED, {"ours": ours, "prior": prior}).set_index("system")
    assert links.loc["ours", ["P@1", "RR@10", "reachable"]].tolist() == [0.0, 0.5, 1.0]
    assert links.loc["prior", "P@1"] == 1.0
