"""Make conversations: a run's records, its corpus files, and the log of all calls to models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.core import outside, tables
from crs_lib.core.text import shorten
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.settings import NAME, GenerateSettings
from crs_lib.cosrec.writing import Writer
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key

STAGE = "generate"


def generate(config: GenerateSettings, *, progress: bool = True) -> Path:
    """Generate the conversations of a run; returns the folder with its files.

    ``generated.jsonl`` holds a record a conversation; ``raw/`` the same conversations, profiles and
    keywords in the form of the corpus; ``llm_calls.jsonl`` a row for each call to a model. Before the
    first call every model is asked for, and a RunError lists all that is missing. A killed run continues
    and repeats no finished call; conversations that failed are tried again.
    """
    folder = corpus.locate(config.source) if not config.index else Path()
    before = runs.entry(NAME, config.run, STAGE)
    inputs = index.digests(folder, config.index) | jobs.weights(before, config.models(), config.needs)
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(NAME, config.run, STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        runs.job(
            work, ledger, [runs.Part(keys, tuple(config.models()), label="conversations")],
            Writer, (config, str(folder)), service=config.service(), workers=config.workers,
            scheduler=config.scheduler, chunk=1, logged=bool(config.models()), progress=progress,
        )  # fmt: skip
        records = [outside.loads(body, "a body of the ledger") for body in ledger.bodies(keys)]
        _export(work, records)
    return work.folder


def _export(work: runs.Stage, records: Sequence[Mapping[str, Any]]) -> None:
    """The records, and the same in the form of the corpus."""
    tables.write_jsonl(work.path("generated.jsonl"), records)
    talks = ({record["id"]: record["conversation"]} for record in records)
    tables.write_jsonl(work.path("raw/conversations.jsonl"), talks)
    for name, part in (("profiles", "summary"), ("keywords", "keywords")):
        rows = (
            {record["id"]: {user["user"]: user[part] for user in sorted(record["users"], key=_name)}}
            for record in records
            if record["users"]
        )
        tables.write_jsonl(work.path(f"raw/{name}.jsonl"), rows)
    work.counts["conversations"] = len(records)
    work.counts["repaired"] = sum(bool(record["repairs"]) for record in records)
    work.counts["users"] = sum(len(record["users"]) for record in records)


def _name(user: Mapping[str, Any]) -> str:
    return str(user["user"])


def table(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a generated conversation: query, target, user turns, attempt, repairs."""
    rows = [
        {
            "id": record["id"],
            "query": record["query"],
            "target": shorten(record["target_title"], 40),
            "user turns": record["conversation"].count("\nU: ") + 1,
            "attempt": record["attempt"],
            "repairs": len(record["repairs"]),
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def profiles(records: Sequence[Mapping[str, Any]], width: int = 60) -> pd.DataFrame:
    """One row a buyer: conversation, reviews read, keywords and how many, the summary cut at a width."""
    rows = [
        (
            record["id"], user["reviews"], "; ".join(user["keywords"]), len(user["keywords"]),
            shorten(user["summary"], width),
        )
        for record in records
        for user in record["users"]
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["id", "reviews", "keywords", "count", "summary"])


def read_generated(run: str) -> list[dict[str, Any]]:
    """The records of a finished run; RunError with the command that makes it."""
    path = runs.output(NAME, run, STAGE, "12_cosrec_generate", "generated.jsonl")
    return list(tables.read_jsonl(path))
