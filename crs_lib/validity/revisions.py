"""Do people rate a reply to a change of mind as the instrument does?

The corpus of revisions (``data/samples/revisions.jsonl``: ids and labels) is joined with the data sets that
hold the words and the ratings. Uptake, release and misfit are computed from the words, by the readers and
metrics that score logs; labels only say which turns are revisions. What is measured is chosen on one half of
the conversations and confirmed on the other. Source: docs/revisions.md.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.validity import agreement, raters
from crs_lib.validity.agreement import INTEREST, NEXT, RATING, rho

KINDS = ("refine", "exclude", "relax", "return", "replace", "switch")
RATINGS = {"crsarena": (RATING, INTEREST), "abredial": (RATING, INTEREST), "uss": (NEXT,)}
HALVES = ("development", "confirmation")
OURS, PLAIN = ("uptake", "release", "misfit"), ("n_films", "n_words", "turn")
_GAIN, _ALL = "normalised_gain", "all sets"
MEASURES = (*OURS, _GAIN, *PLAIN)
REVISION, FIRST = "revision", "first request"
# How uptake is read where the metric is undefined, because no change was heard at or shortly before the turn.
VARIANTS = ("uptake", "uptake, else gain", "uptake, else gain, else 0")


def corpus() -> pd.DataFrame:
    """The corpus, a row a turn that a reader took for a revision or for the rejection of a film."""
    return pd.DataFrame(tables.read_jsonl(paths.samples() / "revisions.jsonl"))


class _Joined(NamedTuple):
    """A conversation of a data set with the rows of the corpus, by the number of the turn (from 1)."""

    dialogue: Dialogue
    rows: Mapping[int, Mapping[str, Any]]


def joined(dataset: str, place: Path | None = None) -> Iterator[_Joined]:
    """Every conversation of a rated set, with what the corpus says of its turns.

    RunError where the data set is not here, InputError where it has no conversation of the corpus.
    """
    labels, met = corpus().query("dataset == @dataset"), 0
    labels = labels.sort_values("kind", key=lambda kinds: kinds.isin(KINDS), kind="stable")
    rows = {str(name): mine.to_dict("records") for name, mine in labels.groupby("conversation")}
    for dialogue in raters.conversations(dataset, place):
        mine = rows.get(dialogue.session_id, [])
        turns = {
            part.get("turn_ind"): pair.turn
            for pair in dialogue.pairs()
            for part in agreement.parts(pair.user)
        }
        met += bool(mine)  # of a turn with several rows a revision counts: it comes last
        yield _Joined(dialogue, {turns[row["turn"]]: row for row in mine if row["turn"] in turns})
    if not met:
        raise InputError(
            f"data set {dataset!r}: none of the {len(rows)} conversations of the corpus is in this file"
        )


def replies(grounder: Grounder) -> pd.DataFrame:
    """One row per reply of the rated sets: ratings, measures, and whether it answers a revision.

    ``role`` is "revision" by two readers of three, "first request" for the first reply for which a constraint
    is heard, else empty. ``labelled`` is the uptake with the readers' labels of what is kept and dropped.
    ``misfit`` is 1 − gain where films are shown: people have no straight twin. Raises as :func:`joined`.
    """
    frames = [_replies(name, grounder) for name in RATINGS]
    return pd.concat(frames, ignore_index=True)


def _replies(dataset: str, grounder: Grounder) -> pd.DataFrame:
    """The rows of one data set."""
    talks = list(joined(dataset))
    told = {one.dialogue.session_id: _told(one.rows, grounder) for one in talks}
    scored, by_label = (
        [*agreement.score((one.dialogue for one in talks), grounder, labels)] for labels in ({}, told)
    )
    rows = []
    for talk, one, other in zip(talks, scored, by_label, strict=True):
        asked = next((row["turn"] for row in one.rows if row["defined"]), 0)
        for row, twin in zip(one.rated, other.rows, strict=True):
            label = talk.rows.get(row["turn"], {})
            revised = label.get("kind") in KINDS
            role = REVISION if revised else FIRST if row["turn"] == asked else ""
            rows.append(
                row
                | {
                    "dataset": dataset,
                    "role": role,
                    "kind": label.get("kind") or "",
                    "labelled": twin["uptake"],
                }
            )
    frame = pd.DataFrame(rows)
    frame["misfit"] = (1 - frame[_GAIN]).where(frame["n_films"] > 0)
    frame["half"] = [HALVES[raters.share_of(name, 2)] for name in frame["conv_id"]]
    filled = frame["uptake"].fillna(frame[_GAIN])
    return frame.assign(**dict(zip(VARIANTS[1:], (filled, filled.fillna(0.0)), strict=True)))


def _told(rows: Mapping[int, Mapping[str, Any]], grounder: Grounder) -> dict[int, agreement.Told]:
    """What two readers of three say is kept and dropped in the revised turns of a conversation."""
    found = {}
    for turn, row in rows.items():
        codes: dict[str, set[int]] = {"k": set(), "d": set()}
        for wish, labels in row["wishes"].items():
            code = grounder.catalog.code(*wish.split("=", 1))
            for mark, mine in codes.items():
                if code is not None and labels.count(mark) >= 2:
                    mine.add(code)
        if row["kind"] in KINDS:
            found[turn] = agreement.Told(frozenset(codes["k"]), frozenset(codes["d"]))
    return found


def _one_rating(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with one rating each: the relevance, in USS the satisfaction of the next user turn."""
    return frame.assign(rating=frame[RATING].where(frame[RATING].notna(), frame[NEXT]))


def _pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """The rated rows of all sets; ratings and measures are ranks within their data set, in [0, 1]."""
    known = _one_rating(frame).dropna(subset="rating")
    names = ["rating", *MEASURES, *VARIANTS[1:], "labelled"]
    ranks = known.groupby("dataset")[names].rank(pct=True)
    return known.assign(**{name: ranks[name] for name in names})


def _parts(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rated replies of each set and rating, then those of all sets together."""
    for dataset, names in RATINGS.items():
        mine = frame[frame["dataset"] == dataset]
        for name in names:
            yield f"{dataset}: {name}", mine.assign(rating=mine[name]).dropna(subset="rating")
    yield _ALL, _pooled(frame)


class Study(NamedTuple):
    """The tables of the study; :func:`study` says what each holds."""

    counts: pd.DataFrame
    choice: pd.DataFrame
    agreement: pd.DataFrame
    lead: pd.DataFrame
    model: pd.DataFrame
    systems: pd.DataFrame
    ceiling: pd.DataFrame


def study(frame: pd.DataFrame, *, resamples: int = 1000) -> Study:
    """All tables of the study from the rows of :func:`replies`.

    ``counts``: rated replies by set and half. ``choice``: the variants of uptake on the development half, an
    undefined value counting as the median; the first of the best is in use. ``agreement``: Spearman of every
    measure with every rating. ``lead``: that of uptake less that of films, length and turn, paired.
    ``model``: uptake, release and misfit, each in a mixed model. ``systems``: ratings and gain at first
    requests and at revisions. ``ceiling``: uptake as heard beside that with the readers' labels.
    """
    revised = frame[frame["role"] == REVISION]
    choice = _choice(revised[revised["half"] == HALVES[0]])
    best = str(choice.loc[choice["spearman"].idxmax(), "variant"])
    revised = revised.assign(uptake=revised[best])
    every: dict[str, list[dict[str, Any]]] = {name: [] for name in ("counts", "agreement", "lead", "ceiling")}
    for half in (*HALVES, "both"):
        part = revised if half == "both" else revised[revised["half"] == half]
        for rating, rows in _parts(part):
            found = _of_rating(rows, resamples)
            for name, mine in found.items():
                every[name] += [{"half": half, "rating": rating} | row for row in mine]
    return Study(
        choice=choice.assign(chosen=choice["variant"] == best),
        model=pd.concat([_model(revised, name) for name in OURS], ignore_index=True),
        systems=_systems(frame),
        **{name: pd.DataFrame(rows) for name, rows in every.items()},
    )


def _of_rating(rows: pd.DataFrame, resamples: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of four tables of the study for one rating of one half."""
    both = rows.dropna(subset=["uptake", "labelled"])
    states = {"heard": "uptake", "by the readers' labels": "labelled"}
    return {
        "counts": [{"replies": len(rows), "conversations": rows["conv_id"].nunique()}],
        "agreement": [{"measure": one} | rho(rows, one, "rating", resamples=resamples) for one in MEASURES],
        "lead": [_lead(rows, one, resamples) for one in PLAIN],
        "ceiling": [
            {"state": state} | rho(both, one, "rating", resamples=resamples) for state, one in states.items()
        ],
    }


def _choice(part: pd.DataFrame) -> pd.DataFrame:
    """One row per variant of uptake: its coverage, and its Spearman with the ratings of all sets."""
    pooled = _pooled(part)
    rhos = [agreement.spearman(pooled[name].fillna(0.5), pooled["rating"]) for name in VARIANTS]
    coverage = [pooled[name].notna().mean() for name in VARIANTS]
    return pd.DataFrame({"variant": VARIANTS, "n": len(pooled), "coverage": coverage, "spearman": rhos})


def _lead(rows: pd.DataFrame, baseline: str, resamples: int) -> dict[str, Any]:
    """Spearman of uptake less that of a baseline, on the replies that have an uptake."""
    known = rows.dropna(subset="uptake")
    found = rho(known, "uptake", "rating", minus=baseline, resamples=resamples)
    base = agreement.spearman(known[baseline], known["rating"])
    row = {"baseline": baseline, "n": found["n"], "of_uptake": found["spearman"], "of_baseline": base}
    return row | {"diff": found["spearman"] - base, "low": found["low"], "high": found["high"]}


def _model(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A measure's terms in rating ~ measure + films + length + turn + system + (1 | conversation).

    All numbers are standardised within their data set, so a slope is in standard deviations.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    names = [measure, *PLAIN]
    rows = _one_rating(frame).dropna(subset=["rating", measure], ignore_index=True)
    by = rows.groupby("dataset")[["rating", *names]]
    scaled = (rows[["rating", *names]] - by.transform("mean")) / by.transform("std").replace(0, math.nan)
    systems = pd.get_dummies(rows["dataset"] + " " + rows["system"], dtype=float)
    x = pd.concat([scaled[names].fillna(0.0), systems], axis=1)
    with warnings.catch_warnings():  # a variance at the edge of its range is no reason to stop
        warnings.simplefilter("ignore")
        fit = MixedLM(scaled["rating"].fillna(0.0), x, rows["conv_id"]).fit(reml=True)
    ends = fit.conf_int().loc[names].set_axis(["low", "high"], axis=1)
    found = ends.assign(slope=fit.params[names], n=len(rows), model=measure).rename_axis("term").reset_index()
    return found[["model", "term", "slope", "low", "high", "n"]]


def _systems(frame: pd.DataFrame, resamples: int = 1000) -> pd.DataFrame:
    """One row per system: mean rating and gain at first requests, and how far both fall at revisions.

    The intervals are over conversations. The rating is that of relevance, in USS of the next user turn.
    """
    rows = []
    asked = _one_rating(frame[frame["role"] != ""])
    for (dataset, system), mine in asked.groupby(["dataset", "system"], sort=False):
        revised = mine[(mine["role"] == REVISION) & mine["rating"].notna()]
        row = {"system": system if dataset == "crsarena" else f"people ({dataset})", "n": len(revised)}
        for name in ("rating", _GAIN):
            found = _drop(mine.dropna(subset=name), name, resamples)
            row |= {f"{name} {what}": value for what, value in found.items()}
        rows.append(row | revised[["uptake", "release"]].mean().to_dict())
    return pd.DataFrame(rows)


def _drop(rows: pd.DataFrame, name: str, resamples: int) -> dict[str, float]:
    """The mean at first requests, and how far it falls at revisions: 95 % interval over conversations."""
    talks, owner = np.unique(rows["conv_id"].to_numpy(str), return_inverse=True)
    first, values = (rows["role"] == FIRST).to_numpy(), rows[name].to_numpy(float)
    if first.all() or not first.any():
        return dict.fromkeys(("first", "drop", "low", "high"), math.nan)

    def statistic(weights: Any) -> Any:
        each = weights[:, owner]
        means = [(each * part) @ values / (each * part).sum(axis=1) for part in (first, ~first)]
        return np.stack([means[0], means[0] - means[1]], axis=1)

    design = stats.Design(resamples=resamples)
    with np.errstate(invalid="ignore"):
        found = stats.bootstrap_estimates(statistic, len(talks), design, method="percentile")
    return {"first": float(found.estimate[0]), "drop": float(found.estimate[1]), **found.bounds(1)}


def committed() -> Study:
    """The tables as they are committed; they hold statistics, no row of a data set."""
    found = safety.read_object(_place())
    return Study(**{name: pd.DataFrame(**found[name]) for name in Study._fields})


def commit(found: Study) -> Path:
    """Write the tables where :func:`committed` reads them; RunError where some stand there already."""
    if _place().is_file():
        told = f"{paths.shown(_place())} holds a confirmation, which is made once"
        raise RunError(f"{told}; remove it to make another")
    given = {name: frame.round(6).to_dict("split", index=False) for name, frame in found._asdict().items()}
    tables.write_json(_place(), given)
    return _place()


def _place() -> Path:
    return paths.samples() / "revisions_study.json"
