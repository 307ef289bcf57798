"""The stages of notebooks 11 to 14: settings, files and function of each, and the tables of their figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib import runs, stats
from crs_lib.core import paths
from crs_lib.core.errors import NoDataError, RunError
from crs_lib.cosrec import corpus, evaluate, intents, labels, quality, quirks, retrieve, rewriting
from crs_lib.cosrec import statistics as counts
from crs_lib.cosrec.records import Partition
from crs_lib.cosrec.settings import (
    KEYWORDS,
    NAME,
    CorpusSettings,
    GenerateSettings,
    RetrieveSettings,
    ScoreSettings,
)
from crs_lib.retrieval.runs import Ranking
from crs_lib.runs import StageSpec, Study

_SCORES = (
    "scores", "means", "by_user", "by_reader", "by_turn", "by_intent", "joint", "differences", "personal",
    "links",
)  # fmt: skip
_PEOPLE = (
    "intents", "ceiling", "intent_agreement", "quality_agreement", "rewriting", "signals", "predicted",
    "noise",
)  # fmt: skip


def _audit(settings: CorpusSettings, stage: runs.Stage) -> dict[str, Any]:
    """The corpus itself (``corpus``), its quirks, the stated statistics, ratings and judgments."""
    read = corpus.load_all(settings.source)
    odd = pd.concat([quirks.report(partition) for partition in read.values()], ignore_index=True)
    stage.counts.update(quirks=len(odd), conversations=sum(len(p.conversations) for p in read.values()))
    return {
        "corpus": read,
        "quirks": odd,
        "claims": counts.readme_claims(read),
        "ratings": counts.conversation_ratings(read),
        "judged": counts.judgments_per_intent(read["curated"]),
    }


def _score(settings: ScoreSettings, stage: runs.Stage) -> dict[str, Any]:
    """The scores of the runs of a folder, with the floors beside them.

    The joint tables (by intent, and their means) need ``routes.jsonl`` and the links ``links/`` beside the
    run files; without them these are empty.
    """
    place = paths.given(settings.runs) if settings.runs else stage.folder / "runs"
    sizes = {} if settings.runs else STUDY.finished(settings.run, "retrieve")["counts"].get("collections", {})
    curated = corpus.load(corpus.locate(settings.source), "curated")
    ranked, names = retrieve.read_runs(place), list(dict.fromkeys([settings.measure, *evaluate.MEASURES]))
    scores = evaluate.score(curated, ranked, names)
    floored = evaluate.with_floors(curated, scores, names, sizes=sizes, seed=settings.seed)
    options: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    main, recommended = [settings.measure], floored[floored["kind"] == "recommendation"]
    readers = evaluate.reader(curated, recommended, settings.mapping)
    routes = place.parent / "routes.jsonl"
    routed = retrieve.read_routes(routes) if routes.is_file() else {}
    together = evaluate.joint(scores, routed, settings.measure) if set(ranked) <= set(routed) else None
    stage.counts.update(systems=len(ranked), topics=len(curated.qrels))
    several = len(ranked) > 1
    return {
        "scores": floored,
        "means": evaluate.means(floored, names, **options),
        "by_user": evaluate.means(recommended, main, ["user_index"], **options),
        "by_reader": evaluate.means(readers, main, ["reader"], **options),
        "by_turn": evaluate.means(floored, main, ["kind", "turn"], **options),
        "by_intent": pd.DataFrame() if together is None else together,
        "joint": pd.DataFrame() if together is None else evaluate.joint_means(together),
        "differences": (
            evaluate.differences(scores, settings.measure, **options) if several else pd.DataFrame()
        ),
        "personal": evaluate.personalisation(scores, _twins(list(ranked)), settings.measure, **options),
        "links": _links(curated, place.parent),
    }


def _needs_runs(settings: ScoreSettings) -> dict[str, str]:
    """Nothing but that the runs are there; RunError with the command that makes them."""
    if not settings.runs:
        STUDY.finished(settings.run, "retrieve")
    return {}


def _twins(systems: Sequence[str]) -> dict[str, str]:
    """Systems whose twin, named the same with ``KEYWORDS`` at the end, was run, too."""
    ending = f"-{paths.slug(KEYWORDS)}"
    return {name.removesuffix(ending): name for name in systems if name.endswith(ending)}


def _links(curated: Partition, folder: Any) -> pd.DataFrame:
    """The scores of the link files in a folder, beside the baseline of earlier grades; empty without any."""
    if not (folder / "links").is_dir():
        return pd.DataFrame()
    linked: dict[str, Mapping[str, Ranking]] = {"earlier grades": evaluate.pool_prior(curated)}
    return evaluate.score_links(curated, linked | retrieve.read_runs(folder / "links"))


def _people(settings: ScoreSettings, stage: runs.Stage) -> dict[str, pd.DataFrame]:
    """The tables that need no run: intents and their ceiling, agreement, rewriting, quality."""
    read = corpus.load_all(settings.source)
    crowd, curated = read["crowd"], read["curated"]
    if not crowd.annotations or not curated.intents:
        raise RunError("the corpus lacks intent annotations; these tables need crowd and curated intents")
    rated = {name: partition for name, partition in read.items() if partition.ratings}
    options = {"resamples": settings.resamples, "seed": settings.seed}
    queries = rewriting.heuristic_rewrites(curated) | {
        "extractor": rewriting.extracted_rewrites(crowd, curated)
    }
    scored = rewriting.score_rewrites(curated, queries, **options)
    return {
        "intents": intents.compare(crowd, curated, seed=settings.seed, vectors=settings.vectors),
        "ceiling": labels.human_ceiling(crowd, seed=settings.seed),
        "intent_agreement": labels.intent_agreement(crowd, **options),
        "quality_agreement": labels.quality_agreement(rated, **options),
        "rewriting": pd.concat([scored, rewriting.human_rewrites(curated, **options)], ignore_index=True),
        "signals": quality.signal_correlations(quality.signal_table(rated), **options),
        "predicted": quality.predicted_quality(crowd, curated, **options),
        "noise": quality.noise_ceiling(rated, **options),
    }


def _ratings(run: str) -> pd.DataFrame:
    made = STUDY.read(run, "ratings", optional=True)
    if made.empty:
        raise NoDataError(f"the corpus of run {run!r} has no rated conversation")
    return made


def _systems(run: str) -> pd.DataFrame:
    """The means of the main measure, with the largest numbers that they rest on."""
    measure = STUDY.finished(run, "evaluate", optional=True)["parameters"]["measure"]
    means = STUDY.read(run, "means", optional=True)
    part = means[means["measure"] == measure]
    numbers = {"n_topics": part["n"].max(), "n_conversations": part["clusters"].max()}
    return part.assign(**{name: int(n) for name, n in numbers.items() if len(part)}).reset_index(drop=True)


STUDY: Study = Study(
    NAME,
    [
        StageSpec(
            name="corpus",
            notebook="11_cosrec_corpus",
            settings=CorpusSettings,
            make=_audit,
            needs=lambda settings: corpus.digests(settings.source),
            outputs={n: f"{n}.csv" for n in ("quirks", "claims", "ratings")} | {"judged": "judgments.csv"},
        ),
        StageSpec(
            name="generate",
            notebook="12_cosrec_generate",
            settings=GenerateSettings,
            outputs={"generated": "generated.jsonl"},
        ),
        StageSpec(
            name="retrieve",
            notebook="13_cosrec_retrieve",
            settings=RetrieveSettings,
            make=retrieve.write_runs,
            needs=retrieve.inputs,
            outputs={"routes": "routes.jsonl"},
        ),
        StageSpec(
            name="evaluate",
            notebook="14_cosrec_evaluate",
            settings=ScoreSettings,
            make=_score,
            needs=_needs_runs,
            outputs={name: f"{name}.csv" for name in _SCORES},
        ),
        StageSpec(
            name="people",
            notebook="14_cosrec_evaluate",
            settings=ScoreSettings,
            make=_people,
            outputs={name: f"people_{name}.csv" for name in _PEOPLE},
        ),
    ],
    derived={
        "average_ratings": lambda run: counts.average_rating_counts(_ratings(run)),
        "aspect_ratings": lambda run: counts.aspect_rating_counts(_ratings(run)),
        "judgments": lambda run: counts.judgment_counts(STUDY.read(run, "judged", optional=True)),
        "systems": _systems,
    },
)


def figure_table(run: str, table: str) -> pd.DataFrame:
    """A table by the name that the registry of figures gives it."""
    return STUDY.read(run, table, optional=True)


def limits(source: str, *further: str) -> stats.Sentences:
    """The limits of a run on this corpus: the sample is made up; then further sentences."""
    made_up = (
        "The corpus is made up: its numbers compare settings of this code and say nothing about shops or "
        "shoppers."
    )
    return stats.not_shown(made_up if source == "sample" else "", *further)
