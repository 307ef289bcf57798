"""Findings of the CoSRec notebooks follow their tables: other numbers, another sentence; none, a reason."""

import pandas as pd

from crs_lib.cosrec import findings
from crs_lib.cosrec.evaluate import POOL_FLOOR


def scores(first: float, second: float) -> pd.DataFrame:
    """Two systems and the floor on ten conversations, give or take 0.02 and 0.01."""
    rows = [
        (name, f"c{i}", "recommendation", mean + off * (-1) ** i)
        for name, mean, off in (("one", first, 0.02), ("two", second, 0.02), (POOL_FLOOR, 0.2, 0.01))
        for i in range(10)
    ]
    return pd.DataFrame(rows, columns=["system", "conversation", "kind", "nDCG@10"])


def test_the_best_system_is_named_with_its_distance_to_chance() -> None:
    told = findings.systems(scores(0.5, 0.4), "nDCG@10")
    assert told.startswith("Of 2 systems one ranks recommendation topics best, nDCG@10 0.50 [")
    assert "is 0.30 [0.29, 0.31]" in told
    assert findings.systems(scores(0.4, 0.5), "nDCG@10").startswith("Of 2 systems two ranks")
    assert not findings.systems(scores(0.5, 0.4).query("system == @POOL_FLOOR"), "nDCG@10").borne


def test_routing_is_told_with_its_price() -> None:
    joint = pd.DataFrame(
        [("s", f"c{i}", kind, i % 4 > 0, 0.4) for i in range(8) for kind in ("search", "recommendation")],
        columns=["system", "conversation", "kind", "right_module", "oracle"],
    )
    joint["routed"] = joint["oracle"].where(joint["right_module"], 0.0)
    assert "75 % [" in findings.routing(joint) and "of 8 search intents" in findings.routing(joint)
    assert "cost s 0.10 [" in findings.price(joint, "nDCG@10")
    assert not findings.routing(pd.DataFrame()).borne and not findings.price(pd.DataFrame(), "x").borne


def test_differences_keywords_and_links() -> None:
    pairs = pd.DataFrame(
        [("search", "a", "b", 0.1, 0.05, 0.15, 0.01, 9), ("search", "a", "c", -0.2, -0.4, 0.1, 0.3, 9)],
        columns=["kind", "a", "b", "diff", "low", "high", "p_holm", "n"],
    )
    told = findings.distinguished(pairs)
    assert told.startswith("1 of 2 pairs differ after Holm")
    assert "a and c in search, −0.20 [−0.40, 0.10]" in told
    columns = ["system", "helped", "hurt", "same", "mean gain", "low", "high", "n"]
    gains = pd.DataFrame([("s", 5, 3, 2, 0.01, -0.01, 0.03, 10)], columns=columns)
    assert "help s on 5 of 10 topics and hurt on 3" in findings.personal(gains)
    assert "an interval that includes 0" in findings.personal(gains)
    assert "an interval that includes 0" not in findings.personal(gains.assign(low=0.001))
    links = pd.DataFrame([("s", 0.75, 8), ("t", 0.5, 8)], columns=["system", "P@1", "n"])
    assert findings.linked(links).startswith("s names the product of a question first in 75 % [")


def test_the_better_predictor_of_quality_stands_first() -> None:
    columns = ["partition", "predictor", "correlation", "low", "high", "n"]
    made = [("curated", "model", -0.1, -0.5, 0.3, 20), ("curated", "distinct words", 0.4, 0.1, 0.6, 20)]
    made += [("curated", "model - distinct words", -0.5, -0.9, 0.1, 20)]
    rows = pd.DataFrame([("crowd", "model", 0.9, 0.8, 0.95, 50), *made], columns=columns)
    made = [("both", "a perfect predictor", 0.6, 0.5, 0.7), ("curated", "a perfect predictor", 0.8, 0.7, 0.9)]
    noise = pd.DataFrame(made, columns=["partition", "ceiling", *columns[2:5]])
    told = findings.quality(rows, noise)
    assert told.index("share of distinct words at 0.40 [") < told.index("learned prediction at −0.10 [")
    assert told.endswith(
        "−0.10 [−0.50, 0.30], an interval that includes 0; a perfect predictor would reach 0.80 [0.70, 0.90]."
    )
    assert not findings.quality(rows[rows["partition"] == "crowd"], noise).borne


def test_no_table_no_finding() -> None:
    nothing = pd.DataFrame()
    assert not any(f(nothing).borne for f in (findings.distinguished, findings.personal, findings.linked))
    verdicts = pd.DataFrame({"verdict": ["another corpus", "not verifiable"]})
    assert not findings.claims(verdicts).borne
    stated = verdicts.assign(verdict=["reproduced", "differs"])
    assert findings.claims(stated).startswith("Of 2 stated statistics 1 are reproduced, 1 differ and 0")
    assert "made up" in findings.limits("sample")[0] and len(findings.limits("elsewhere")) == 1


def test_what_is_generated_is_counted() -> None:
    records = [
        {"id": f"g{i}", "attempt": 1 + (i == 0), "conversation": "U: a\nS: b\nU: c", "users": [{"keywords": ["x"] * i}]}
        for i in range(4)
    ]  # fmt: skip
    assert findings.attempts(records).startswith("75 % [")
    assert findings.keywords(records).startswith("A buyer gets 1.5")
    assert findings.lengths(records) == "The user takes 2 turns in every conversation."
    longer = [{**records[0], "conversation": "U: a\nS: b\nU: c\nS: d\nU: e"}, *records[1:]]
    assert "takes 2.25 [2.00, " in findings.lengths(longer)
    assert len(findings.written_limits("elsewhere", "ollama:x")) == 1
    assert not findings.keywords([{"id": "g", "users": []}]).borne
