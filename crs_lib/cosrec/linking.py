"""Item linking: which product is a product-details question about?"""

import pandas as pd

from crs_lib.cosrec.records import Intent, Partition, topic
from crs_lib.metrics.ranking import score_run
from crs_lib.retrieval.hits import Hit, Ranking, ranked
from crs_lib.retrieval.trec import Qrels, Run

MEASURES = ("P@1", "RR@10", "R@10")


def linked_intents(partition: Partition) -> list[Intent]:
    """The product-details intents that name a product (field ``product``), in order."""
    return [i for i in partition.all_intents() if i.type == "product_details" and i.product]


def link_qrels(partition: Partition) -> Qrels:
    """One topic an intent, its product of grade 1; ids in upper case, as they are joined."""
    return {intent.id: {str(intent.product).upper(): 1} for intent in linked_intents(partition)}


def pool_prior(partition: Partition) -> Run:
    """A baseline without texts: the conversation's judged items by mean grade over its earlier topics.

    Only recommendation topics of turns before the question count; an intent without any gets no hits.
    """
    run: Run = {}
    for intent in linked_intents(partition):
        conversation = intent.id.rsplit("_", 2)[0]
        grades: dict[str, list[int]] = {}
        for name, judged in partition.qrels.items():
            t = topic(name)
            if t.kind == "recommendation" and t.conversation == conversation and t.turn < intent.turn:
                for item, grade in judged.items():
                    grades.setdefault(item.upper(), []).append(grade)
        run[intent.id] = ranked((item, sum(found) / len(found)) for item, found in grades.items())
    return run


def score_links(partition: Partition, runs: dict[str, dict[str, Ranking]]) -> pd.DataFrame:
    """Mean P@1, RR@10, R@10 of runs over the linked intents, in [0, 1], one row a run.

    ``reachable`` is the share of intents whose product the run ranks at all. Ids are compared in upper
    case. A missing intent scores 0.
    """
    qrels = link_qrels(partition)
    rows = []
    for name, run in runs.items():
        upper = {key: [Hit(hit.id.upper(), hit.score) for hit in ranking] for key, ranking in run.items()}
        scored = score_run(upper, qrels, [*MEASURES, "R"]).topics.mean()
        row = {"system": name, **{measure: float(scored[measure]) for measure in MEASURES}}
        rows.append(row | {"reachable": float(scored["R"]), "n": len(qrels)})
    return pd.DataFrame(rows)
