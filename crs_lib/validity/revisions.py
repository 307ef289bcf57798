"""Do people rate a reply to a change of mind as the instrument does? The corpus of revisions
(``data/samples/revisions.jsonl``: ids and labels) is joined with the rated sets; uptake, release and misfit
are computed from the words, chosen on one half of the talks, confirmed on the other (docs/revisions.md).
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.stats.effects import spearman
from crs_lib.stats.mixed import mixed_slopes
from crs_lib.validity import agreement, raters
from crs_lib.validity.agreement import INTEREST, NEXT, RATING, lead, rho

KINDS = ("refine", "exclude", "relax", "return", "replace", "switch")
RATINGS = {"crsarena": (RATING, INTEREST), "abredial": (RATING, INTEREST), "uss": (NEXT,)}
HALVES = ("development", "confirmation")
OURS, PLAIN = ("uptake", "release", "misfit"), ("n_films", "n_words", "turn")
_GAIN, _ALL = "normalised_gain", "all sets"
LABELLED = "uptake, readers' labels"
MEASURES = (*OURS, LABELLED, _GAIN, *PLAIN)
REVISION, FIRST = "revision", "first request"
# How uptake is read where the metric is undefined, because no change was heard at or shortly before the turn.
VARIANTS = ("uptake", "uptake, else gain", "uptake, else gain, else 0")


def _corpus() -> pd.DataFrame:
    """The corpus, a row a turn that a reader took for a revision or for the rejection of a film."""
    return pd.DataFrame(tables.read_jsonl(paths.samples() / "revisions.jsonl"))


def _joined(dataset: str) -> Iterator[tuple[Dialogue, dict[int, dict[Hashable, Any]]]]:
    """Every conversation of a rated set that the corpus speaks of, with what it says, by the number of the
    turn (from 1). RunError where the data set is not here, InputError where it has no conversation of it.
    """
    labels, met = _corpus().query("dataset == @dataset"), False
    labels = labels.sort_values("kind", key=lambda kinds: kinds.isin(KINDS), kind="stable")
    rows = {str(name): mine.to_dict("records") for name, mine in labels.groupby("conversation")}
    for dialogue in raters.conversations(dataset):
        if mine := rows.get(dialogue.session_id):
            said = [(pair.turn, one) for pair in dialogue.pairs() for one in agreement.parts(pair.user)]
            turns, met = {part.get("turn_ind"): turn for turn, part in said}, True
            # of a turn with several rows a revision counts: it comes last
            yield dialogue, {turns[row["turn"]]: row for row in mine if row["turn"] in turns}
    if not met:
        told = f"none of the {len(rows)} conversations of the corpus is in this file"
        raise InputError(f"data set {dataset!r}: {told}")


def replies(grounder: Grounder) -> pd.DataFrame:
    """One row per reply of the rated sets: ratings, measures, and its ``role``: "revision" (two readers of
    three), "first request" (the first for which a constraint is heard), or empty. ``misfit`` is 1 − gain
    where films are shown: people have no straight twin. Raises as :func:`_joined`.
    """
    return pd.concat([_replies(name, grounder) for name in RATINGS], ignore_index=True)


def _replies(dataset: str, grounder: Grounder) -> pd.DataFrame:
    """The rows of one data set."""
    talks = list(_joined(dataset))
    told = {dialogue.session_id: _told(known, grounder) for dialogue, known in talks}
    dialogues = [dialogue for dialogue, _ in talks]
    scored = zip(talks, *(agreement.score(dialogues, grounder, given) for given in ({}, told)), strict=True)
    rows = []
    for (_, known), one, other in scored:
        asked = next((row["turn"] for row in one.rows if row["defined"]), 0)
        for row, twin in zip(one.rated, other.rows, strict=True):
            revised = known.get(row["turn"], {}).get("kind") in KINDS
            role = REVISION if revised else FIRST if row["turn"] == asked else ""
            rows.append(row | {"dataset": dataset, "role": role, LABELLED: twin["uptake"]})
    frame = pd.DataFrame(rows)
    frame["misfit"] = (1 - frame[_GAIN]).where(frame["n_films"] > 0)
    frame["half"] = [HALVES[raters.share_of(name, 2)] for name in frame["conv_id"]]
    filled = frame["uptake"].fillna(frame[_GAIN])
    return frame.assign(**dict(zip(VARIANTS[1:], (filled, filled.fillna(0.0)), strict=True)))


def _told(rows: Mapping[int, Mapping[Hashable, Any]], grounder: Grounder) -> dict[int, agreement.Told]:
    """What two readers of three say is kept and dropped in the revised turns of a conversation."""

    def codes(wishes: Mapping[str, list[str]], mark: str) -> frozenset[int]:
        named = (one.split("=", 1) for one, given in wishes.items() if given.count(mark) > 1)
        return frozenset(code for one in named if (code := grounder.catalog.code(*one)) is not None)

    revised = {turn: row["wishes"] for turn, row in rows.items() if row["kind"] in KINDS}
    return {turn: agreement.Told(codes(given, "k"), codes(given, "d")) for turn, given in revised.items()}


def _one_rating(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with one rating each: the relevance, in USS the satisfaction of the next user turn."""
    return frame.assign(rating=frame[RATING].where(frame[RATING].notna(), frame[NEXT]))


def _pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """The rated rows of all sets; ratings and measures are ranks within their data set, in [0, 1]."""
    known = _one_rating(frame).dropna(subset="rating")
    names = ["rating", *MEASURES, *VARIANTS[1:]]
    ranks = known.groupby("dataset")[names].rank(pct=True)
    return known.assign(**{name: ranks[name] for name in names})


def _ratings(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rated replies of each set and rating, then those of all sets together."""
    for dataset, names in RATINGS.items():
        mine = frame[frame["dataset"] == dataset]
        for name in names:
            yield f"{dataset}: {name}", mine.assign(rating=mine[name]).dropna(subset="rating")
    yield _ALL, _pooled(frame)


class _Study(NamedTuple):
    """The tables of the study. ``choice``: variants of uptake on the development half; ``agreement``:
    Spearman of every measure with every rating by half, and uptake's lead (``diff``); ``model``: uptake,
    release and misfit in mixed models; ``systems``: ratings and gain at first requests and at revisions.
    """

    choice: pd.DataFrame
    agreement: pd.DataFrame
    model: pd.DataFrame
    systems: pd.DataFrame


def study(frame: pd.DataFrame, *, resamples: int = 1000) -> _Study:
    """All tables of the study from the rows of :func:`replies`."""
    revised = frame[frame["role"] == REVISION]
    pooled = _pooled(revised[revised["half"] == HALVES[0]])
    rhos = [spearman(pooled[name].fillna(0.5), pooled["rating"]) for name in VARIANTS]
    coverage = [pooled[name].notna().mean() for name in VARIANTS]
    choice = pd.DataFrame({"variant": VARIANTS, "n": len(pooled), "coverage": coverage, "spearman": rhos})
    choice["chosen"] = choice["spearman"] == choice["spearman"].max()
    revised = revised.assign(uptake=revised[VARIANTS[int(np.argmax(rhos))]])
    parts = {half: revised[revised["half"] == half] for half in HALVES} | {"both": revised}
    rows = [
        {"half": half, "rating": rating, "measure": name}
        | rho(mine, name, "rating", resamples=resamples)
        | lead(mine, "uptake", name, "rating", resamples=resamples)
        for half, part in parts.items()
        for rating, mine in _ratings(part)
        for name in MEASURES
    ]
    models = pd.concat([_model(revised, name) for name in OURS], ignore_index=True)
    return _Study(choice, pd.DataFrame(rows), models, _systems(frame))


def _model(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Rating ~ measure + films + length + turn + system + (1 | conversation), standardised by data set."""
    names = [measure, *PLAIN]
    rows = _one_rating(frame).dropna(subset=["rating", measure], ignore_index=True)
    by = rows.groupby("dataset")[["rating", *names]]
    scaled = (rows[["rating", *names]] - by.transform("mean")) / by.transform("std").replace(0, math.nan)
    rows = rows.assign(**scaled.fillna(0.0), group=rows["dataset"] + " " + rows["system"])
    found = mixed_slopes(rows, names, stats.Design("group", "conv_id", "rating"))
    return found.assign(model=measure)[["model", "term", "slope", "low", "high", "n"]]


def _systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per system: how far rating and gain fall from first requests to revisions. Over conversations
    that have both, with 95 % intervals. The rating is that of relevance, in USS of the next user turn.
    """
    rows = []
    asked = _one_rating(frame[frame["role"] != ""])
    for (dataset, system), mine in asked.groupby(["dataset", "system"], sort=False):
        revised = mine[(mine["role"] == REVISION) & mine["rating"].notna()]
        row: dict[str, Any] = {"system": system if dataset == "crsarena" else f"people ({dataset})"}
        for name in ("rating", _GAIN):
            design = stats.Design("role", "conv_id", name, [(FIRST, REVISION)])
            found = stats.cluster_bootstrap_differences(mine.dropna(subset=name), design).iloc[0]
            column = f"{name.removeprefix('normalised_')}_diff"
            row |= {column: found["diff"], f"{column}_low": found["low"], f"{column}_high": found["high"]}
        rows.append(row | {"n": len(revised)} | revised[["rating", "uptake", "release"]].mean().to_dict())
    return pd.DataFrame(rows)


def read(config: stats.Design, live: bool = False) -> tuple[_Study, str]:
    """The tables and a sentence that says where they come from: the data sets, else what is committed."""
    told = "The data sets are not read; these are the committed tables (docs/revisions.md)."
    if live:
        try:
            films = Grounder(sources.load(datasets.locate("redial-movies")))
            return study(replies(films), resamples=config.resamples), "Computed from the data sets."
        except RunError as error:
            told = f"Not computed: {error}. These are the committed tables (docs/revisions.md)."
    return committed(), told


def committed() -> _Study:
    """The tables as they are committed; they hold statistics, no row of a data set."""
    rows = tables.read_jsonl(paths.samples() / "revisions_study.jsonl")
    return _Study(**{row["table"]: pd.DataFrame(row["data"], columns=row["columns"]) for row in rows})


def write(found: _Study, path: Path) -> None:
    """Write the tables in the form that is committed, a line each."""
    frames = {name: frame.round(6).to_dict("split", index=False) for name, frame in found._asdict().items()}
    tables.write_jsonl(path, ({"table": name, **frame} for name, frame in frames.items()))
