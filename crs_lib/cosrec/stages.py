"""The stages around retrieval as checked configs and files: audit of a corpus, scores of a run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.cosrec import (
    agreement,
    corpus,
    evaluate,
    extractor,
    intents,
    quality,
    quirks,
    retrieve,
    rewriting,
    statistics,
)
from crs_lib.cosrec import (
    evaluate as linking,
)
from crs_lib.cosrec.config import KEYWORDS, STUDY, CorpusConfig, CosrecEvaluateConfig
from crs_lib.cosrec.records import Partition
from crs_lib.retrieval.runs import Ranking


class Audit(NamedTuple):
    """A corpus read and audited: its partitions, every quirk, every stated statistic."""

    corpus: dict[str, Partition]
    quirks: pd.DataFrame
    claims: pd.DataFrame


def load_all(source: str) -> dict[str, Partition]:
    """The partitions of a corpus; crowd and curated must be there, raw may be."""
    folder = corpus.locate(source)
    names = [n for n in corpus.PARTITIONS if n != "raw" or (folder / "raw" / "conversations.jsonl").is_file()]
    return {name: corpus.load(folder, name) for name in names}


def audit(config: CorpusConfig) -> Audit:
    """Read and audit a corpus; writes its four tables into the run.

    They are ``quirks.csv`` and ``claims.csv``, the ratings of each conversation (``ratings.csv``) and the
    judgments of each intent (``judgments.csv``).
    """
    found = load_all(config.source)
    hashes = {f"{name}/{file}": h for name, p in found.items() for file, h in p.hashes.items()}
    with runs.stage(STUDY, config.run, "corpus", asdict(config), hashes, fixed=False) as work:
        odd = pd.concat([quirks.report(partition) for partition in found.values()], ignore_index=True)
        claims = statistics.readme_claims(found)
        tables.write_csv(work.path("quirks.csv"), odd)
        tables.write_csv(work.path("claims.csv"), claims)
        tables.write_csv(work.path("ratings.csv"), statistics.conversation_ratings(found))
        judged = statistics.judgments_per_intent(found["curated"]).reset_index()
        tables.write_csv(work.path("judgments.csv"), judged)
        work.counts.update(quirks=len(odd), conversations=sum(len(p.conversations) for p in found.values()))
    return Audit(found, odd, claims)


class Evaluation(NamedTuple):
    """The tables of a scored run; each is also a file of the run, by its field's name."""

    scores: pd.DataFrame
    means: pd.DataFrame
    by_user: pd.DataFrame
    by_reader: pd.DataFrame
    by_turn: pd.DataFrame
    by_intent: pd.DataFrame
    joint: pd.DataFrame
    differences: pd.DataFrame
    personal: pd.DataFrame
    links: pd.DataFrame


def score(config: CosrecEvaluateConfig) -> Evaluation:
    """Score the runs of a folder on the curated partition, with the floor of the judged pool beside them.

    The joint tables (by intent, and their means) need ``routes.jsonl`` and the links ``links/`` beside the
    run files; without them these are empty.
    """
    folder = paths.run_folder(STUDY, config.run)
    if not config.runs:
        runs.finished(STUDY, config.run, retrieve.STAGE, "13_cosrec_retrieve")
    place = paths.given(config.runs) if config.runs else folder / "runs"
    curated = corpus.load(corpus.locate(config.source), "curated")
    found = retrieve.read_runs(place)
    names = list(dict.fromkeys([config.measure, *evaluate.MEASURES]))
    scores = evaluate.score(curated, found, names)
    sizes = {} if config.runs else retrieve.collection_sizes(config.run)
    floored = evaluate.with_floors(curated, scores, names, sizes=sizes, seed=config.seed)
    options: dict[str, Any] = {"resamples": config.resamples, "seed": config.seed}
    main, recommended = [config.measure], floored[floored["kind"] == "recommendation"]
    readers = evaluate.reader(curated, recommended, config.mapping)
    routes, links = place.parent / "routes.jsonl", place.parent / "links"
    systems = retrieve.read_routes(routes) if routes.is_file() else {}
    together = evaluate.joint(scores, systems, config.measure) if set(found) <= set(systems) else None
    tested = scores if len(found) > 1 else None
    result = Evaluation(
        floored,
        evaluate.means(floored, names, **options),
        evaluate.means(recommended, main, ["user_index"], **options),
        evaluate.means(readers, main, ["reader"], **options),
        evaluate.means(floored, main, ["kind", "turn"], **options),
        pd.DataFrame() if together is None else together,
        pd.DataFrame() if together is None else evaluate.joint_means(together),
        pd.DataFrame() if tested is None else evaluate.differences(tested, config.measure, **options),
        evaluate.personalisation(scores, _twins(list(found)), config.measure, **options),
        _links(curated, links) if links.is_dir() else pd.DataFrame(),
    )
    with runs.stage(STUDY, config.run, "evaluate", asdict(config), fixed=False) as work:
        for name, frame in result._asdict().items():
            tables.write_csv(work.path(f"{name}.csv"), frame)
        work.counts.update(systems=len(found), topics=len(curated.qrels))
    return result


def _twins(systems: Sequence[str]) -> dict[str, str]:
    """Systems whose twin, named the same with ``KEYWORDS`` at the end, was run, too."""
    ending = f"-{paths.slug(KEYWORDS)}"
    return {name.removesuffix(ending): name for name in systems if name.endswith(ending)}


def _links(curated: Partition, folder: Path) -> pd.DataFrame:
    """The scores of link files, beside the baseline of earlier grades."""
    found: dict[str, dict[str, Ranking]] = {"earlier grades": dict(linking.pool_prior(curated))}
    found |= {name: dict(run) for name, run in retrieve.read_runs(folder).items()}
    return linking.score_links(curated, found)


class People(NamedTuple):
    """What the annotations say: models and ceiling of the intents, agreement, rewriting, quality."""

    intents: pd.DataFrame
    ceiling: pd.DataFrame
    intent_agreement: pd.DataFrame
    quality_agreement: pd.DataFrame
    rewriting: pd.DataFrame
    signals: pd.DataFrame
    predicted: pd.DataFrame
    noise: pd.DataFrame


def people(config: CosrecEvaluateConfig) -> People:
    """Everything that needs no run: intents, agreement, rewriting, quality; tables as files of the run."""
    found = load_all(config.source)
    crowd, curated = found["crowd"], found["curated"]
    if not crowd.annotations or not curated.intents:
        raise RunError("the corpus lacks intent annotations; these tables need crowd and curated intents")
    rated = {name: partition for name, partition in found.items() if partition.ratings}
    options = {"resamples": config.resamples, "seed": config.seed}
    made = rewriting.heuristic_rewrites(curated) | {"extractor": extractor.rewrites(crowd, curated)}
    scored = rewriting.score_rewrites(curated, made, **options)
    table = quality.signal_table(rated)
    result = People(
        intents.compare(crowd, curated, seed=config.seed, vectors=config.vectors),
        agreement.human_ceiling(crowd, seed=config.seed),
        agreement.intent_agreement(crowd, **options),
        agreement.quality_agreement(rated, **options),
        pd.concat([scored, rewriting.human_rewrites(curated, **options)], ignore_index=True),
        quality.signal_correlations(table, **options),
        quality.predicted_quality(crowd, curated, **options),
        quality.noise_ceiling(rated, **options),
    )
    with runs.stage(STUDY, config.run, "people", asdict(config), fixed=False) as work:
        for name, frame in result._asdict().items():
            tables.write_csv(work.path(f"people_{name}.csv"), frame)
    return result
