"""The stages of notebooks 11 to 14: settings, files and function of each, and the tables of their figures."""

from typing import Any

import pandas as pd

from crs_lib import runs, stats
from crs_lib.core import paths
from crs_lib.core.errors import NoDataError, RunError
from crs_lib.cosrec import audit, corpus, evaluate, intents, labels, retrieve, rewriting
from crs_lib.cosrec.settings import (
    KEYWORDS,
    NAME,
    CorpusSettings,
    GenerateSettings,
    RetrieveSettings,
    ScoreSettings,
)
from crs_lib.runs import StageSpec, Study

_SCORES = "scores means by_user by_reader by_turn by_intent joint differences personal links"
_PEOPLE = "intents ceiling intent_agreement quality_agreement rewriting signals noise"


def _audit(settings: CorpusSettings, stage: runs.Stage) -> dict[str, Any]:
    """The corpus itself (``corpus``), its quirks, the stated statistics, ratings and judgments."""
    read = corpus.load_all(settings.source)
    odd = pd.concat([audit.find_quirks(partition) for partition in read.values()], ignore_index=True)
    stage.counts.update(quirks=len(odd), conversations=sum(len(p.conversations) for p in read.values()))
    return {
        "corpus": read, "quirks": odd, "claims": audit.readme_claims(read),
        "ratings": audit.conversation_ratings(read), "judged": audit.judgments_per_intent(read["curated"]),
    }  # fmt: skip


def _score(settings: ScoreSettings, stage: runs.Stage) -> dict[str, Any]:
    """The scores of the runs of a folder, with the floors beside them. The joint tables (by intent, and their
    means) need ``routes.jsonl`` and the links ``links/`` beside the run files; without them these are empty.
    """
    place, nothing = paths.given(settings.runs) if settings.runs else stage.folder / "runs", pd.DataFrame()
    sizes = {} if settings.runs else STUDY.finished(settings.run, "retrieve")["counts"].get("collections", {})
    curated = corpus.load(corpus.locate(settings.source), "curated")
    measure, ranked = settings.measure, retrieve.read_runs(place)
    names = list(dict.fromkeys([measure, *evaluate.MEASURES]))
    scores = evaluate.score(curated, ranked, names)
    floored = evaluate.with_floors(curated, scores, names, sizes=sizes, seed=settings.seed)
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    asked = floored[floored["kind"] == "recommendation"]
    readers = evaluate.reader(curated, asked, settings.mapping)
    routes, links = place.parent / "routes.jsonl", place.parent / "links"
    routed = retrieve.read_routes(routes) if routes.is_file() else {}
    joint = evaluate.joint(scores, routed, measure) if set(ranked) <= set(routed) else nothing
    ending = f"-{paths.slug(KEYWORDS)}"  # of systems whose twin takes no keywords
    twins = {name.removesuffix(ending): name for name in ranked if name.endswith(ending)}
    answered = retrieve.read_runs(links) if links.is_dir() else {}
    linked = {"earlier grades": evaluate.pool_prior(curated)}
    stage.counts.update(systems=len(ranked), topics=len(curated.qrels))
    return {
        "scores": floored, "means": evaluate.means(floored, names, **draws),
        "by_user": evaluate.means(asked, [measure], ["user_index"], **draws),
        "by_reader": evaluate.means(readers, [measure], ["reader"], **draws),
        "by_turn": evaluate.means(floored, [measure], ["kind", "turn"], **draws), "by_intent": joint,
        "joint": nothing if joint.empty else evaluate.joint_means(joint),
        "differences": evaluate.differences(scores, measure, **draws) if len(ranked) > 1 else nothing,
        "personal": evaluate.personalisation(scores, twins, measure, **draws),
        "links": evaluate.score_links(curated, linked | answered) if answered else nothing,
    }  # fmt: skip


def _needs_runs(settings: ScoreSettings) -> dict[str, str]:
    """Nothing but that the runs are there; RunError with the command that makes them."""
    if not settings.runs:
        STUDY.finished(settings.run, "retrieve")
    return {}


def _people(settings: ScoreSettings, stage: runs.Stage) -> dict[str, pd.DataFrame]:
    """The tables that need no run: intents and their ceiling, agreement, rewriting, quality."""
    read = corpus.load_all(settings.source)
    crowd, curated = read["crowd"], read["curated"]
    if not crowd.annotations or not curated.intents:
        raise RunError("the corpus lacks intent annotations; these tables need crowd and curated intents")
    rated = {name: partition for name, partition in read.items() if partition.ratings}
    draws = {"resamples": settings.resamples, "seed": settings.seed}
    queries = rewriting.heuristic_rewrites(curated)
    queries["extractor"] = rewriting.extracted_rewrites(crowd, curated)
    scored = rewriting.score_rewrites(curated, queries, **draws)
    return {
        "intents": intents.compare(crowd, curated, seed=settings.seed, vectors=settings.vectors),
        "ceiling": labels.human_ceiling(crowd, seed=settings.seed),
        "intent_agreement": labels.intent_agreement(crowd, **draws),
        "quality_agreement": labels.quality_agreement(rated, **draws),
        "rewriting": pd.concat([scored, rewriting.human_rewrites(curated, **draws)], ignore_index=True),
        "signals": audit.signal_correlations(audit.signal_table(rated), **draws),
        "noise": audit.noise_ceiling(rated, **draws),
    }


def _ratings(run: str) -> pd.DataFrame:
    made = STUDY.read(run, "ratings")
    if made.empty:
        raise NoDataError(f"the corpus of run {run!r} has no rated conversation")
    return made


def _systems(run: str) -> pd.DataFrame:
    """The means of the main measure, with the largest numbers that they rest on."""
    measure = STUDY.finished(run, "evaluate")["parameters"]["measure"]
    means = STUDY.read(run, "means")
    part = means[means["measure"] == measure].reset_index(drop=True)
    return part.assign(n_topics=part["n"].max(), n_conversations=part["clusters"].max())


_EVALUATE = "14_cosrec_evaluate"
STUDY: Study = Study(
    NAME,
    [
        StageSpec("corpus", "11_cosrec_corpus", CorpusSettings, _audit,
                  needs=lambda settings: corpus.digests(settings.source),
                  outputs={name: f"{name}.csv" for name in ("quirks", "claims", "ratings")}
                  | {"judged": "judgments.csv"}),
        StageSpec("generate", "12_cosrec_generate", GenerateSettings,
                  outputs={"generated": "generated.jsonl"}),
        StageSpec("retrieve", "13_cosrec_retrieve", RetrieveSettings, retrieve.write_runs,
                  outputs={"routes": "routes.jsonl"}, needs=retrieve.inputs),
        StageSpec("evaluate", _EVALUATE, ScoreSettings, _score, needs=_needs_runs,
                  outputs={name: f"{name}.csv" for name in _SCORES.split()}),
        StageSpec("people", _EVALUATE, ScoreSettings, _people,
                  outputs={name: f"people_{name}.csv" for name in _PEOPLE.split()}),
    ],
    derived={
        "average_ratings": lambda run: audit.average_rating_counts(_ratings(run)),
        "aspect_ratings": lambda run: audit.aspect_rating_counts(_ratings(run)),
        "judgments": lambda run: audit.judgment_counts(STUDY.read(run, "judged")),
        "systems": _systems,
    },
)  # fmt: skip

figure_table = STUDY.figure_table  # a table by the name that the registry of figures gives it


def limits(source: str, *further: str) -> stats.Sentences:
    """The limits of a run on this corpus: the sample is made up; then further sentences."""
    made_up = "The corpus is made up: its numbers compare settings of this code"
    told = f"{made_up} and say nothing about shops or shoppers."
    return stats.not_shown(told if source == "sample" else "", *further)
