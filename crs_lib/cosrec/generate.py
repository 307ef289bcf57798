"""Make conversations: a run's records, its corpus files, and the log of all calls to models."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.core import outside, tables
from crs_lib.core.text import shorten
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.settings import NAME, GenerateSettings
from crs_lib.cosrec.writing import Writer
from crs_lib.llm import Recorder
from crs_lib.llm.calls import export_all
from crs_lib.llm.pool import LOG, drain_scratch
from crs_lib.llm.preflight import preflight, unchanged
from crs_lib.runs import batch
from crs_lib.runs.ledger import Key, Ledger

STAGE = "generate"
_WEIGHTS = "weights of "


def generate(config: GenerateSettings, *, progress: bool = True) -> Path:
    """Generate the conversations of a run; returns the folder with its files.

    ``generated.jsonl`` holds a record a conversation; ``raw/`` the same conversations, profiles and
    keywords in the form of the corpus; ``llm_calls.jsonl`` a row for each call to a model. Before the
    first call every model is asked for, and a RunError lists all that is missing. A killed run continues
    and repeats no finished call; conversations that failed are tried again.
    """
    folder = corpus.locate(config.source) if not config.index else Path()
    inputs = index.digests(folder, config.index) | _weights(config)
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    with runs.stage(NAME, config.run, STAGE, config.parameters(), inputs) as work, work.ledger() as ledger:
        try:
            _work(config, str(folder), work.folder, ledger, inputs, progress)
        finally:
            if config.models():
                work.counts["calls"] = export_all(work.folder)
        batch.check(ledger, keys)
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


def _work(
    config: GenerateSettings,
    source: str,
    folder: Path,
    ledger: Ledger,
    inputs: Mapping[str, str],
    progress: bool,
) -> None:
    """Do what the ledger does not have: threads for models, processes for rules, or a cluster."""
    keys = [Key(config.writer, number) for number in range(config.conversations)]
    if ledger.finished().issuperset(keys):
        return
    starts = 1 + ledger.tries()
    began = {name.removeprefix(_WEIGHTS): d for name, d in inputs.items() if name.startswith(_WEIGHTS)}
    options: dict[str, Any] = {"progress": progress, "label": "conversations", "chunk": 1}
    if not config.models() or config.scheduler:
        options |= {"workers": config.workers, "scheduler": config.scheduler}
        try:
            batch.work(ledger, keys, Writer, (config, source, "", starts, None, began), **options)
        finally:
            _fetch_logs(config, folder)
        return
    writer = Writer(config, source, str(folder), starts, weights=began)
    assert writer.pool is not None
    with writer.pool as pool:
        unchanged(began, config.service().settings_for)
        batch.work(ledger, keys, _given(writer), (), threads=pool.width(config.models()), **options)
        unchanged(began, config.service().settings_for)
        for spec in config.models():
            pool.unload(spec)


def _given(writer: Writer) -> Callable[[], Writer]:
    return lambda: writer


def _fetch_logs(config: GenerateSettings, folder: Path) -> None:
    """Bring the call logs of a cluster's workers into the run's folder."""
    if config.scheduler and config.models():
        from crs_lib.runs import dask

        recorder = Recorder(folder / LOG)
        try:
            recorder.put(dask.on_every_machine(config.scheduler, drain_scratch, config.run))
        finally:
            recorder.close()


def _weights(config: GenerateSettings) -> dict[str, str]:
    """The digests of the models, as inputs of the stage: a run ends with the weights it began with.

    A finished run needs no server any more. Raises one RunError that lists all that is missing.
    """
    before = runs.read_manifest(NAME, config.run).get("stages", {}).get(STAGE, {})
    if before.get("status") == "finished":
        kept = {name: str(d) for name, d in before["inputs"].items() if name.startswith(_WEIGHTS)}
        if kept.keys() == {f"{_WEIGHTS}{spec}" for spec in config.models()}:
            return kept
    found = preflight(config.needs())
    return {f"{_WEIGHTS}{row.model}": str(row.digest) for row in found.itertuples()}


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
