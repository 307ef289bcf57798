"""The movie study as a table of stages: what notebooks 03 and 04 write, read by name and convention."""

from crs_lib import simulate
from crs_lib.core import tables
from crs_lib.runs import StageSpec, Study

DEFAULT = "default"  # the convention whose scores lie in the run's own folder

MOVIES = Study(simulate.STUDY, [
    StageSpec("catalog", "03_simulate", outputs={"catalog": "catalog.parquet", "raw": simulate.RAW_CATALOG}),
    StageSpec("simulate", "03_simulate", outputs={"dialogues": "dialogues.jsonl"}),
    StageSpec(
        "evaluate", "04_evaluate",
        outputs={
            "turns": "turns.parquet", "shifts": "shifts.parquet", "results": "results.jsonl",
            "model_metrics": "model_metrics.csv",
        },
        contracts={
            "turns": tables.TURNS, "shifts": tables.TURNS, "results": tables.RESULTS,
            "model_metrics": tables.MODEL_METRICS,
        },
    ),
])  # fmt: skip


def variant_of(convention: str) -> str:
    """The scores of a convention among the evaluations of a run; nothing for ``default``."""
    return "" if convention == DEFAULT else convention
