"""``python -m crs_lib score`` and ``topics``: logs of anybody's scored, topic models trained."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pandas as pd

from crs_lib import data as logs
from crs_lib import llm
from crs_lib.cli import files, options
from crs_lib.core import hashes, paths, tables
from crs_lib.core.errors import InputError
from crs_lib.evaluate import tables as score_tables
from crs_lib.evaluate.choose import ScoringConfig
from crs_lib.llm import calls
from crs_lib.llm.preflight import preflight
from crs_lib.thesis import asking
from crs_lib.thesis.asking import AskedScorer

_CHOSEN = (
    "catalog", "convention", "extractor", "similarity", "vocabulary", "topics", "topic_model", "llm",
    "llm_settings",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """``score --logs PATH --catalog FILE --convention NAME …``: three tables and the shifts."""
    add = parser.add_argument
    add("--logs", required=True, metavar="PATH", help="a log file or a folder of them, of any known form")
    options.add(parser, ScoringConfig, *_CHOSEN)
    add("--workers", type=int, default=1, help="processes (the result does not depend on it)")
    add("--out", default="", metavar="FOLDER", help="where the tables go (default: results/movies/scores)")
    made = ("turns.parquet", "shifts.parquet", "results.jsonl", "model_metrics.csv", "llm_calls.jsonl")
    reads = ("logs", "catalog", "vocabulary", "topic_model")
    files.declare(parser, reads=reads, writes=[f"out/{name}" for name in made])
    parser.set_defaults(do=main)


def main(arguments: Namespace) -> None:
    """Score the logs and say where the tables are."""
    out = paths.given(arguments.out) if arguments.out else paths.run_folder("movies", "scores")
    inputs = {"logs": hashes.of_files(logs.files(arguments.logs))}
    config = options.read(arguments, ScoringConfig, inputs=inputs)
    frame = score(arguments.logs, config, out, workers=arguments.workers)
    wide = frame.pivot_table(index="model", columns="metric", values="mean", dropna=False)
    shown = [name for name in dict.fromkeys(frame["metric"]) if wide[name].notna().any()]
    print(wide[shown].round(4).T.to_string(na_rep="-"))
    print(f"\ntables: {paths.shown(out)}/  (turns.parquet, shifts.parquet, results.jsonl, model_metrics.csv)")
    if config.asks:
        _asked(out)


def _asked(out: Path) -> None:
    """What the model took, and which sessions have no scores for want of its answers."""
    print(f"\n{llm.usage(out / 'llm_calls.jsonl').round(2).to_string(index=False)}")
    lost = [row for row in tables.read_jsonl(out / "results.jsonl") if row["detail"].get("failed")]
    if lost:
        print(
            f"\nsessions without scores: {len(lost)}; the first is {lost[0]['session_id']} of "
            f"{lost[0]['model']}: {lost[0]['detail']['failed']}. The same command asks again, for these only"
        )


def score(log: str, config: ScoringConfig, out: Path, *, workers: int = 1) -> pd.DataFrame:
    """Score a log into a folder; returns the table of model metrics.

    Where a model is asked, a preflight comes first and its calls are kept in the folder, so that the same
    command continues. Raises InputError for logs or settings that cannot be used, RunError for a model that
    is not there or cannot be asked. Files appear whole or not at all.
    """
    if config.asks and config.llm:
        found = preflight([asking.need(config.llm, config.model_settings)])
        weights = {f"weights of {config.llm}": str(found["digest"].iloc[0])}
        config = config.changed(inputs={**config.inputs, **weights}, calls=str(out))
    ready = config.make()
    try:
        with tables.together():
            scored = score_tables.stream(logs.read(log), ready.scorer, config, workers)
            sessions = score_tables.write(scored, lambda name: out / name, ready.provenance)
            frame = score_tables.model_metrics(sessions, ready.metrics, ready.provenance._asdict())
            tables.write_csv(out / "model_metrics.csv", frame)
    finally:
        if isinstance(ready.scorer, AskedScorer):
            ready.scorer.close()
            calls.export_all(out)
    return frame


def topics(parser: ArgumentParser) -> None:
    """``topics --catalog FILE [--out FOLDER]``: an LDA model of the catalogue's plots."""
    parser.add_argument("--catalog", required=True, metavar="FILE", help="a catalogue, or 'sample'")
    parser.add_argument("--out", default="", metavar="FOLDER", help="default: data/processed/models/topics")
    parser.add_argument("--n-topics", type=int, default=50)
    parser.add_argument("--passes", type=int, default=15)
    parser.add_argument("--seed", type=int, default=42)
    files.declare(parser, reads=("catalog",), writes=("out/exp_elog_beta.npy", "out/dictionary.tsv"))
    parser.set_defaults(do=_train)


def _train(arguments: Namespace) -> None:
    from crs_lib.thesis.catalog import ThesisCatalog
    from crs_lib.thesis.topics import train, trained_model

    if arguments.n_topics < 2 or arguments.passes < 1:
        raise InputError("give at least 2 topics and 1 pass")
    if not 0 <= arguments.seed < 2**32:
        raise InputError(f"seed {arguments.seed} is not usable; give a whole number from 0 to {2**32 - 1}")
    catalog = ThesisCatalog.load(arguments.catalog)
    plots = catalog.documents[len(catalog) :]
    model = train(plots, n_topics=arguments.n_topics, passes=arguments.passes, seed=arguments.seed)
    out = paths.given(arguments.out) if arguments.out else trained_model()
    model.save(out)
    print(f"{model.n_topics} topics over {len(model.words)} words of {len(plots)} plots: {paths.shown(out)}/")
