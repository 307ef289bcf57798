"""Run evaluation: by hand on four topics; ties, missing and unknown topics; routing; readers; linking."""

import random
from pathlib import Path

import pandas as pd
import pytest

from crs_lib.core.errors import InputError
from crs_lib.cosrec import evaluate
from crs_lib.retrieval.runs import Hit, read_run
from tests.helpers.cosrec_data import CURATED

RUN = {
    "C_1_0_0#0": [Hit("T1", 2.0), Hit("T2", 1.0)],
    "C_1_0_0#1": [Hit("T1", 2.0), Hit("T2", 1.0)],
    "C_1_1_0": [Hit("m#9", 3.0), Hit("m#1", 2.0)],
}


def test_scores_by_hand() -> None:
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10", "P@2", "Judged@2"]).set_index("topic")
    assert frame["RR@10"].to_dict() == {"C_1_0_0#0": 1.0, "C_1_0_0#1": 0.5, "C_1_1_0": 0.5, "C_2_0_0#0": 0.0}
    assert frame.loc["C_1_1_0", "Judged@2"] == 0.5
    assert frame["missing"].to_dict() == {t: t == "C_2_0_0#0" for t in frame.index}
    assert frame.loc["C_1_1_0", ["kind", "turn"]].tolist() == ["search", 1]
    assert pd.isna(frame.loc["C_1_1_0", "user_index"])


def test_means_by_kind_and_by_user_index() -> None:
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    kinds = evaluate.means(frame, ["RR@10"]).set_index("kind")
    assert kinds["mean"].to_dict() == pytest.approx({"recommendation": 0.5, "search": 0.5})
    assert kinds["n"].to_dict() == {"recommendation": 3, "search": 1}
    by_user = evaluate.means(frame[frame["kind"] == "recommendation"], ["RR@10"], ["user_index"])
    assert by_user.set_index("user_index")["mean"].to_dict() == {0: 0.5, 1: 0.5}


def test_a_run_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="none of its 1 topics is judged"):
        evaluate.score(CURATED, {"ours": {"C_9_0_0": [Hit("x", 1)]}})


def test_tied_lines_in_any_order_score_the_same(tmp_path: Path) -> None:
    lines = [f"C_2_0_0#0 Q0 {d} 1 1.0 x" for d in ("B01", "b02", "B03", "B04", "B05")]
    seen = set()
    for seed in range(6):
        random.Random(seed).shuffle(lines)
        (tmp_path / "a.run").write_text("\n".join(lines))
        seen.add(evaluate.score(CURATED, {"a": read_run(tmp_path / "a.run")}).to_json())
    assert len(seen) == 1


def test_routing_costs_what_it_sends_wrong() -> None:
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    # both variants of C_1_0_0 average 0.75; the search turn is sent to recommendation and scores 0
    routes = {"ours": {("C_1", 0): ["recommendation"], ("C_1", 1): ["recommendation"]}}
    joint = evaluate.joint(frame, routes, "RR@10").set_index("intent")
    assert joint["oracle"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.5, "C_2_0_0": 0.0}
    assert joint["routed"].to_dict() == {"C_1_0_0": 0.75, "C_1_1_0": 0.0, "C_2_0_0": 0.0}
    means = evaluate.joint_means(joint.reset_index()).set_index("kind")
    assert means.loc["macro", ["right_module", "routed", "oracle"]].tolist() == pytest.approx(
        [0.25, 0.1875, 0.4375]
    )
    assert means["n"].to_dict() == {"recommendation": 2, "search": 1, "macro": 3}
    with pytest.raises(InputError, match="no routes for 'ours'"):
        evaluate.joint(frame, {})


def test_the_reader_of_an_index_under_both_mappings() -> None:
    frame = evaluate.score(CURATED, {"ours": RUN}, ["RR@10"])
    found = {
        m: evaluate.reader(CURATED, frame, m)["reader"].tolist() for m in ("as_documented", "zero_is_generic")
    }
    assert found["as_documented"][:2] == ["user", "unresolved"]
    assert found["zero_is_generic"][:2] == ["generic", "user"]
    assert found["as_documented"][2] is None or pd.isna(found["as_documented"][2])


def test_the_floors_stand_beside() -> None:
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


def test_differences_are_paired_by_conversation() -> None:
    better = {t: [Hit(d, g + 1.0) for d, g in grades.items()] for t, grades in CURATED.qrels.items()}
    better = {t: sorted(hits, key=lambda h: -h.score) for t, hits in better.items()}
    frame = evaluate.differences(evaluate.score(CURATED, {"ours": RUN, "best": better}, ["RR@10"]), "RR@10")
    row = frame[frame["kind"] == "recommendation"].iloc[0]
    assert (row["a"], row["b"], row["n"]) == ("best", "ours", 2)
    assert row["diff"] == pytest.approx((1 + 1 + 1) / 3 - (1 + 0.5 + 0) / 3)
    assert row["p_holm"] >= row["p"]
    assert frame[frame["kind"] == "search"]["p"].isna().all()  # a single conversation tests nothing


def test_linking_compares_ids_in_upper_case() -> None:
    runs = {"ours": {"C_2_1_0": [Hit("X", 2.0), Hit("B01", 1.0)]}, "prior": evaluate.pool_prior(CURATED)}
    found = evaluate.score_links(CURATED, runs).set_index("system")
    assert found.loc["ours", ["P@1", "RR@10", "reachable"]].tolist() == [0.0, 0.5, 1.0]
    # the pool of the turn before: B01 2, B02 1, B03 0
    assert [h.id for h in runs["prior"]["C_2_1_0"]] == ["B01", "B02", "B03"]
    assert found.loc["prior", "P@1"] == 1.0
