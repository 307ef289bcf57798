"""Joins and labels of the world: rankings in trec_eval's order, times of chats, evidence, abstentions."""

import pytest

from crs_lib.metrics.ranking import score_run
from crs_lib.retrieval.runs import read_qrels, read_run
from tests.edges.cases import cases

QRELS = {"1_0_0": {"a": 0, "b": 1, "c": 0}}


def ranking(path):
    """The documents of the first topic, best first."""
    hits = next(iter(read_run(path).values()))
    return [hit.id for hit in hits]


def measures(path):
    """nDCG@10, RR@10 and P@1 of a run of the topic 1_0_0, whose document b is relevant."""
    scores = score_run(read_run(path), QRELS, ["nDCG@10", "RR@10", "P@1"]).topics
    return [round(score, 4) for score in scores.loc["1_0_0"].tolist()]


CALLS = {"ranking": ranking, "measures": measures, "judgments": read_qrels}


@pytest.mark.parametrize("case", cases("labels"))
def test_names_and_labels_are_read_as_they_are_meant(case, tmp_path):
    case.check(CALLS, tmp_path)
