"""The thesis's tables beside ours, and the parts of its numbers: small frames for notebook 07."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import datasets, logs, simulate
from crs_lib.catalog import sources
from crs_lib.core import paths
from crs_lib.core.config import Config, Field, OneOf
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.evaluate import tables as score_tables
from crs_lib.evaluate.choose import ScoringConfig
from crs_lib.grounding.grounder import Grounder
from crs_lib.score import extractors
from crs_lib.systems.base import World
from crs_lib.thesis.catalog import ThesisCatalog

GROUNDED = (
    "topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence", "context_retention",
    "context_adaptation_score",
)  # fmt: skip
_NEEDED = ("opendialkg-movies", "thesis-logs-50", "thesis-logs-20", "thesis-published", "thesis-reference",
           "thesis-lda")  # fmt: skip
_SYSTEMS = ("tracker", "amnesiac", "slot_echo")


class ThesisMaterial(NamedTuple):
    """What is scored: dialogues of both log forms, and where the parts of the conventions lie."""

    catalog: str
    long: tuple[Dialogue, ...]
    short: tuple[Dialogue, ...]
    vocabulary: str = ""
    topic_model: str = ""
    published: dict[str, Any] | None = None


class ThesisScores(NamedTuple):
    """A scoring's tables: a row per session (with the detail), per turn, and per shift."""

    sessions: pd.DataFrame
    turns: pd.DataFrame
    shifts: pd.DataFrame


@dataclass(frozen=True)
class ThesisConfig(Config):
    """The settings of notebook 07, checked."""

    source: Annotated[
        str, OneOf(("sample", "thesis")), Field(description="logs made on the sample, or the thesis's own")
    ] = "sample"
    n_sessions: Annotated[int, Field(ge=0, description="most sessions of a model; 0 takes all")] = 6


def load(config: ThesisConfig) -> ThesisMaterial:
    """The thesis's own logs ("thesis"), or logs that control systems make on the sample ("sample").

    Raises InputError naming the command where the thesis's data is not here.
    """
    source, n_sessions = config.source, config.n_sessions
    if source == "sample":
        return ThesisMaterial("sample", _made(n_sessions or 6, 24), _made(n_sessions or 6, 12))
    place = _folder()
    return ThesisMaterial(
        str(place / "opendialkg_movie_data.json"),
        _read(place / "logs_50turns", n_sessions),
        _read(place / "logs_20turns", n_sessions),
        str(place / "reference" / "tfidf_vocabulary_4096.txt"),
        str(place / "lda"),
        json.loads((place / "published.json").read_text(encoding="utf-8")),
    )


def _folder() -> Path:
    found = [datasets.get(name).in_mirror() or datasets.get(name).downloaded() for name in _NEEDED]
    for base in (paths.mirror(), paths.external()):
        if all(found) and base is not None and (base / "thesis" / "published.json").is_file():
            return base / "thesis"
    raise InputError(
        f"the thesis's data is not here; get it with: python -m crs_lib data get {' '.join(_NEEDED)}"
    )


def _read(folder: Path, limit: int) -> tuple[Dialogue, ...]:
    """The dialogues of every model, at most ``limit`` of each (0: all), model by model."""
    taken: dict[str, int] = {}
    kept = []
    for dialogue in logs.read(folder):
        taken[dialogue.model_name] = taken.get(dialogue.model_name, 0) + 1
        if not limit or taken[dialogue.model_name] <= limit:
            kept.append(dialogue)
    return tuple(kept)


def _made(n_sessions: int, n_turns: int) -> tuple[Dialogue, ...]:
    catalog = sources.load(sources.SAMPLE)
    world = World(catalog, Grounder(catalog))
    config = simulate.SimulateConfig(systems=_SYSTEMS, n_sessions=n_sessions, n_turns=n_turns)
    keys = config.keys()
    return tuple(simulate.session(world, key.system, key.session, config) for key in keys)


def score(material: ThesisMaterial, convention: str, extractor: str = "") -> ThesisScores:
    """Score the logs that a convention is for: the older one the short logs, all others the long ones.

    Without a topic model the older one takes the heuristic for topics, and says so in ``topics``.
    """
    old = convention == "thesis_legacy"
    config = ScoringConfig(
        material.catalog,
        convention,
        extractor,
        vocabulary=material.vocabulary if convention.startswith("thesis") else "",
        topics="heuristic" if old and not material.topic_model else "",
        topic_model=material.topic_model if old else "",
    )
    ready = config.make()
    found = list(score_tables.stream(material.short if old else material.long, ready.scorer))
    sessions = pd.DataFrame([scores.session for scores in found])
    detail = pd.DataFrame(sessions.pop("detail").tolist())
    return ThesisScores(
        sessions.join(detail.drop(columns=[name for name in detail if name in sessions])),
        pd.DataFrame([row for scores in found for row in scores.turns]),
        pd.DataFrame([row for scores in found for row in scores.shifts]),
    )


def side_by_side(
    material: ThesisMaterial, log: str, scored: ThesisScores, metrics: Sequence[str] = GROUNDED
) -> pd.DataFrame:
    """Published figure, ours and the difference by model and metric; a dash where nothing is published."""
    published = (material.published or {}).get(log, {}).get("models", {})
    means = scored.sessions.groupby("model", sort=False)[list(metrics)].mean()
    rows = []
    for metric in metrics:
        for model, ours in means[metric].items():
            theirs = published.get(model, {}).get(metric)
            apart = None if theirs is None else ours - theirs
            rows.append(
                {
                    "metric": metric,
                    "model": model,
                    "published": "–" if theirs is None else f"{theirs:.6f}",
                    "ours": f"{ours:.6f}",
                    "difference": "–" if apart is None else f"{0.0 if abs(apart) < 5e-10 else apart:+.1e}",
                }
            )
    return pd.DataFrame(rows)


def silence(scored: ThesisScores) -> pd.DataFrame:
    """How much of the concept overlap comes from turns in which neither side names a concept, by model."""
    rows = []
    for model, turns in scored.turns.groupby("model", sort=False):
        empty, total = turns["both_empty"], turns["cross_coherence"].sum()
        rows.append(
            {
                "model": model,
                "turns without concepts": empty.mean(),
                "overlap from them": turns.loc[empty, "cross_coherence"].sum() / total if total else 0.0,
                "overlap elsewhere": turns.loc[~empty, "cross_coherence"].mean(),
                "recovered by silence": _silent(scored.shifts[scored.shifts["model"] == model], turns),
                "clipped turns": turns["clipped"].mean(),
            }
        )
    return pd.DataFrame(rows)


def _silent(shifts: pd.DataFrame, turns: pd.DataFrame) -> float:
    """Share of the recovered shifts whose recovering turn names no concept on either side."""
    done = shifts[shifts["recovered_combined"].astype(bool)]
    empty = set(map(tuple, turns.loc[turns["both_empty"], ["session_id", "turn"]].to_numpy().tolist()))
    where = zip(done["session_id"], done["turn"] + done["delay_combined"].astype(int), strict=True)
    return sum(pair in empty for pair in where) / len(done) if len(done) else 0.0


def inside_words(material: ThesisMaterial, n: int = 5) -> pd.DataFrame:
    """Substring matches that are no whole words: their share by speaker, and the most frequent concepts."""
    catalog = ThesisCatalog.load(material.catalog)
    made = extractors.ExtractorInputs(catalog.space)
    anywhere, whole = (extractors.create(name, made) for name in ("substring", "rules"))
    rows = []
    for speaker in ("USER", "SYSTEM"):
        texts = [turn.text for d in material.long for turn in d.turns if turn.speaker == speaker]
        loose, strict = extractors.memoised(anywhere, texts), extractors.memoised(whole, texts)
        wrong = pd.Series(
            [key for t in texts for key in catalog.space.keys(loose[t] - strict[t])], dtype=object
        )
        counts = wrong.value_counts().reset_index()
        counts.columns = ["concept", "n"]
        top = counts.sort_values(["n", "concept"], ascending=[False, True])["concept"].head(n)
        total = sum(len(loose[text]) for text in texts)
        share = len(wrong) / total if total else 0.0
        rows.append({"speaker": speaker, "inside words": share, "most often": ", ".join(top)})
    return pd.DataFrame(rows)


def late(grounded: ThesisScores, legacy: ThesisScores) -> pd.DataFrame:
    """Recoveries that came only after the next shift, as a share of all recoveries, by version."""
    crossed = total = 0
    for _, shifts in grounded.shifts.groupby(["model", "session_id"], sort=False):
        for now, after in pairwise(shifts.to_dict("records")):
            crossed += (
                bool(now["recovered_combined"]) and now["turn"] + now["delay_combined"] >= after["turn"]
            )
        total += int(shifts["recovered_combined"].sum())
    old = legacy.sessions[["n_recovered_late", "n_recovered"]].sum()
    return pd.DataFrame(
        [
            {"version": "grounded", "recoveries": total, "after the next shift": crossed / max(1, total)},
            {
                "version": "legacy",
                "recoveries": int(old["n_recovered"]),
                "after the next shift": old["n_recovered_late"] / max(1, old["n_recovered"]),
            },
        ]
    )


def never(legacy: ThesisScores) -> pd.DataFrame:
    """Sessions that never recover, and the part of the score that their delay of 0 earns, by model.

    The part is 1 − clamp((delay − 1)/5) in [0, 1]: 1 for a session that never recovers.
    """
    frame = legacy.sessions.assign(
        never=legacy.sessions["n_recovered"] == 0,
        speed=1 - ((legacy.sessions["avg_recovery_delay"] - 1) / 5).clip(0, 1),
    )
    rows = []
    for model, part in frame.groupby("model", sort=False):
        rows.append(
            {
                "model": model,
                "sessions": len(part),
                "never recover": int(part["never"].sum()),
                "speed score, never": part.loc[part["never"], "speed"].mean(),
                "speed score, others": part.loc[~part["never"], "speed"].mean(),
            }
        )
    return pd.DataFrame(rows)


def retrieval(material: ThesisMaterial) -> pd.DataFrame:
    """How the thesis's retrieval would have answered the constraints of the logged systems, in shares."""
    catalog = ThesisCatalog.load(material.catalog)
    rows = []
    for model in dict.fromkeys(d.model_name for d in material.long):
        mine = [
            pair.system.meta.get("constraints") or {}
            for d in material.long
            if d.model_name == model
            for pair in d.pairs()
        ]
        hows = pd.Series([catalog.candidates(constraints).how for constraints in mine])
        share = hows.value_counts(normalize=True)
        rows.append(
            {
                "model": model,
                **{how: share.get(how, 0.0) for how in ("all fields", "fewer fields", "union", "catalogue")},
            }
        )
    return pd.DataFrame(rows)


def ranking(material: ThesisMaterial, embed: ThesisScores, legacy: ThesisScores) -> pd.DataFrame:
    """The rank of every model under five ways of counting, 1 is best; the last two are ours."""
    ours, main = score(material, "default"), "topic_adaptation_score"
    ways = {
        "embed": (embed, main),
        "substring": (score(material, "thesis_grounded", "substring"), main),
        "legacy": (legacy, "context_adaptation_score"),
        "default": (ours, main),
        "default, item TAS": (ours, "item_tas"),
    }
    means = {
        name: scored.sessions.groupby("model", sort=False)[metric].mean()
        for name, (scored, metric) in ways.items()
    }
    ranks = pd.DataFrame(means).rank(ascending=False, method="min").astype("Int64")
    return ranks.rename_axis("model").reset_index()
