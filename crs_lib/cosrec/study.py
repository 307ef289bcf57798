"""The stages of notebooks 11 to 14: settings, files and function of each, and the tables of their figures."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths
from crs_lib.core.errors import NoDataError, RunError
from crs_lib.cosrec import audit, corpus, evaluate, intents, labels, retrieve, rewriting
from crs_lib.cosrec.records import Partition
from crs_lib.cosrec.settings import (
    KEYWORDS,
    NAME,
    CorpusSettings,
    GenerateSettings,
    RetrieveSettings,
    ScoreSettings,
)
from crs_lib.runs import StageSpec, Study

_EVALUATE = "14_cosrec_evaluate"
_SCORES = (
    "scores",
    "means",
    "by_user",
    "by_reader",
    "by_turn",
    "by_intent",
    "joint",
    "differences",
    "personal",
    "links",
    "variants",
    "matched",
)
_PEOPLE = ("intents", "ceiling", "intent_agreement", "quality_agreement", "rewriting", "signals", "noise")
_CORPUS_FILES = {
    "quirks": "quirks.csv",
    "claims": "claims.csv",
    "ratings": "ratings.csv",
    "judged": "judgments.csv",
}
_EMPTY_TABLE = pd.DataFrame()
_LOG = logging.getLogger("crs_lib.cosrec")


def _audit(settings: CorpusSettings, stage: runs.Stage) -> dict[str, Any]:
    """The corpus itself (``corpus``), its quirks, the stated statistics, ratings and judgments."""
    partitions = corpus.load_all(settings.source)
    quirks = pd.concat(map(audit.find_quirks, partitions.values()), ignore_index=True)
    talks = sum(len(partition.conversations) for partition in partitions.values())
    stage.counts.update(quirks=len(quirks), conversations=talks)
    return {
        "corpus": partitions,
        "quirks": quirks,
        "claims": audit.readme_claims(partitions),
        "ratings": audit.conversation_ratings(partitions),
        "judged": audit.judgments_per_intent(partitions["curated"]),
    }


def _corpus_inputs(settings: CorpusSettings) -> dict[str, str]:
    return corpus.digests(settings.source)


def _score(settings: ScoreSettings, stage: runs.Stage) -> dict[str, pd.DataFrame]:
    """The scores of the runs of a folder, with the floors beside them. The joint tables (by intent, and their
    means) need ``routes.jsonl`` and the links ``links/`` beside the run files; without them these are empty.
    """
    folder = stage.folder / "runs"
    sizes: Mapping[str, int] = {}
    if settings.runs:
        folder = paths.given(settings.runs)
    else:
        sizes = STUDY.finished(settings.run, "retrieve")["counts"].get("collections", {})
    curated = corpus.load(corpus.locate(settings.source), "curated")
    files = retrieve.read_runs(folder)
    rankings = files.runs
    stage.counts.update(systems=len(rankings), topics=len(curated.qrels))
    if files.unread:
        stage.counts["files that are no runs"] = files.unread
    measure = settings.measure
    names = list(dict.fromkeys([measure, *evaluate.MEASURES]))
    scores = evaluate.score(curated, rankings, names)
    floored = evaluate.with_floors(curated, scores, names, sizes=sizes, seed=settings.seed)
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    recommended = floored[floored["kind"] == "recommendation"]
    readers = evaluate.reader(curated, recommended, settings.mapping)
    tables = {"scores": floored}
    tables["means"] = evaluate.means(floored, names, **draws)
    tables["matched"] = evaluate.matched(curated, rankings, files.unread)
    tables["by_user"] = evaluate.means(recommended, [measure], ["user_index"], **draws)
    tables["by_reader"] = evaluate.means(readers, [measure], ["reader"], **draws)
    tables["by_turn"] = evaluate.means(floored, [measure], ["kind", "turn"], **draws)
    tables["differences"] = _EMPTY_TABLE
    if len(rankings) > 1:
        tables["differences"] = evaluate.differences(scores, measure, **draws)
    tables["personal"] = evaluate.personalisation(scores, _twins(rankings), measure, **draws)
    tables |= _joint(scores, folder.parent / "routes.jsonl", measure)
    return tables | _beside(curated, folder.parent, measure, draws)


def _beside(
    curated: Partition, folder: Path, measure: str, draws: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
    """The tables of what notebook 13 writes beside its runs: links, and runs of single formulations."""
    tables = {"links": _EMPTY_TABLE, "variants": _EMPTY_TABLE}
    if (folder / "links").is_dir():
        linked = {"earlier grades": evaluate.pool_prior(curated)}
        linked |= retrieve.read_runs(folder / "links").runs
        tables["links"] = evaluate.score_links(curated, linked)
    if (folder / "variants").is_dir() and (folder / "topics.tsv").is_file():
        formulated = retrieve.read_runs(folder / "variants").runs
        tables["variants"] = evaluate.sensitivity(curated, formulated, measure, **draws)
    return tables


def _twins(names: Mapping[str, object]) -> dict[str, str]:
    """Systems whose twin takes the user's keywords, with the twin."""
    ending = f"-{paths.slug(KEYWORDS)}"
    return {name.removesuffix(ending): name for name in names if name.endswith(ending)}


def _joint(scores: pd.DataFrame, path: Path, measure: str) -> dict[str, pd.DataFrame]:
    """Scores of intents with each system's router, read from ``path``, beside those with an oracle's, and
    their means; empty tables where the file is missing or lacks a system.
    """
    if not path.is_file():
        return {"by_intent": _EMPTY_TABLE, "joint": _EMPTY_TABLE}
    routes = retrieve.read_routes(path)
    lacking = sorted(set(scores["system"]) - set(routes))
    if lacking:
        _LOG.warning("no joint measure: %s holds no routes of %s", path.name, ", ".join(lacking))
        return {"by_intent": _EMPTY_TABLE, "joint": _EMPTY_TABLE}
    by_intent = evaluate.joint(scores, routes, measure)
    return {"by_intent": by_intent, "joint": evaluate.joint_means(by_intent)}


def _needs_runs(settings: ScoreSettings) -> dict[str, str]:
    """Nothing but that the runs are there; RunError with the command that makes them."""
    if not settings.runs:
        STUDY.finished(settings.run, "retrieve")
    return {}


def _people(settings: ScoreSettings, stage: runs.Stage) -> dict[str, pd.DataFrame]:
    """The tables that need no run: intents and their ceiling, agreement, rewriting, quality."""
    partitions = corpus.load_all(settings.source)
    crowd = partitions["crowd"]
    curated = partitions["curated"]
    if not crowd.annotations or not curated.intents:
        raise RunError("the corpus lacks intent annotations; these tables need crowd and curated intents")
    rated = {name: partition for name, partition in partitions.items() if partition.ratings}
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    return {
        "intents": intents.compare(crowd, curated, seed=settings.seed, vectors=settings.vectors),
        "ceiling": labels.human_ceiling(crowd, seed=settings.seed),
        "intent_agreement": labels.intent_agreement(crowd, **draws),
        "quality_agreement": labels.quality_agreement(rated, **draws),
        "rewriting": rewriting.score_rewrites(curated, **draws),
        "signals": audit.signal_correlations(audit.signal_table(rated), **draws),
        "noise": audit.noise_ceiling(rated, **draws),
    }


def _ratings(run: str) -> pd.DataFrame:
    ratings = STUDY.read(run, "ratings")
    if ratings.empty:
        raise NoDataError(f"the corpus of run {run!r} has no rated conversation")
    return ratings


def _average_ratings(run: str) -> pd.DataFrame:
    return audit.average_rating_counts(_ratings(run))


def _aspect_ratings(run: str) -> pd.DataFrame:
    return audit.aspect_rating_counts(_ratings(run))


def _judgments(run: str) -> pd.DataFrame:
    return audit.judgment_counts(STUDY.read(run, "judged"))


def _systems(run: str) -> pd.DataFrame:
    """The means of the main measure, with the largest numbers that they rest on."""
    measure = STUDY.finished(run, "evaluate")["parameters"]["measure"]
    means = STUDY.read(run, "means")
    part = means[means["measure"] == measure].reset_index(drop=True)
    return part.assign(n_topics=part["n"].max(), n_conversations=part["clusters"].max())


_STAGES = [
    StageSpec(
        "corpus", "11_cosrec_corpus", CorpusSettings, _audit, needs=_corpus_inputs, outputs=_CORPUS_FILES
    ),
    StageSpec("generate", "12_cosrec_generate", GenerateSettings, outputs={"generated": "generated.jsonl"}),
    StageSpec(
        "retrieve",
        "13_cosrec_retrieve",
        RetrieveSettings,
        retrieve.write_runs,
        outputs={"routes": "routes.jsonl"},
        needs=retrieve.inputs,
    ),
    StageSpec(
        "evaluate",
        _EVALUATE,
        ScoreSettings,
        _score,
        needs=_needs_runs,
        outputs={name: f"{name}.csv" for name in _SCORES},
    ),
    StageSpec(
        "people",
        _EVALUATE,
        ScoreSettings,
        _people,
        outputs={name: f"people_{name}.csv" for name in _PEOPLE},
    ),
]
_FIGURE_TABLES = {
    "average_ratings": _average_ratings,
    "aspect_ratings": _aspect_ratings,
    "judgments": _judgments,
    "systems": _systems,
}
STUDY = Study(NAME, _STAGES, _FIGURE_TABLES)
figure_table = STUDY.figure_table  # a table by the name that the registry of figures gives it
