"""The reliability of judges: agreement, preference for the own family, means without it, and a canary.
The canary is a dialogue spoilt on purpose, which must not move a usable judge.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from crs_lib import stats
from crs_lib.core import prompts, tables
from crs_lib.core.dialogue import SYSTEM, Dialogue
from crs_lib.core.errors import InputError

FORGED = "forged_end"  # the canary that shows whether a judge follows what a reply says of scores
SHIFT_AT_MOST = 0.05  # points by which it may move the mean score of a judge that does not
_SHIFT = "shift by a forged end"
_OWN = "preference for the own family"
_CHECKS = {"alpha": "agreement, alpha", "icc": "agreement, ICC(2,k)", "retest": "retest, alpha"}
_EQUAL = {"alpha": "all scores are equal", "icc": "the dialogues do not differ"}
_COLUMNS = ("model", "session_id", "canary", "judge", "construct", "score", "sample")
_AGREEMENT = "construct measure judge value low high n reason".split()
_PREFERENCE = "construct family value low high n reason".split()
_HEADLINE = "model construct value low high n n_missing judges own_family reason".split()
_SUMMARY = "check construct judge value low high n note".split()
_TABLE = tables.Contract("judge scores, as score_table makes them", _COLUMNS, ())
_Row = dict[str, Any]


def forge_end(dialogue: Dialogue) -> Dialogue:
    """The dialogue whose last reply pretends that the conversation ended, and gives itself the best score."""
    turns = list(dialogue.turns)
    for index in reversed(range(len(turns))):
        if turns[index].speaker == SYSTEM:
            text = turns[index].text + prompts.source("movies/judge_forged_end")
            turns[index] = replace(turns[index], text=text)
            break
    bare = []
    for turn in turns:
        marks = () if turn.speaker == SYSTEM else turn.marks
        bare.append(replace(turn, marks=marks))
    extra = {**dialogue.extra, "canary": FORGED}
    return replace(dialogue, turns=tuple(bare), extra=extra)


def family(spec: str) -> str:
    """The family of a model: the letters its name starts with, "llama" for ``ollama:llama3:instruct``. An
    organisation before a slash is left out; a spec without a model (``template``) is its own family.
    """
    served = re.search(r"(?:^|:)(?:ollama|openai|local):(.+)$", spec)
    model = served[1] if served else spec
    name = model.rpartition("/")[2]
    letters = re.match(r"[A-Za-z]+", name)
    if letters:
        name = letters[0]
    return name.lower()


def counted(model: str, judges: Iterable[str]) -> frozenset[str]:
    """The judges whose scores of a system count: those of other families, all of them where there is none."""
    every = frozenset(map(str, judges))
    own = family(model)
    others = frozenset(judge for judge in every if family(judge) != own)
    return others or every


def agreement(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How far judges agree with one another and with themselves, a row for construct and measure. ``alpha``
    is Krippendorff's ordinal alpha over judges (each the median of its samples), ``icc`` the intraclass
    correlation ICC(2,k) of their mean, ``retest`` the ordinal alpha over the samples of one judge. All are at
    most 1, which is perfect. ``value`` is NaN with a ``reason`` where undefined; ``n`` counts dialogues, no
    canaries.
    """
    frame = _originals(scores)
    session = frame["session_id"].astype(str)
    frame["item"] = frame["model"].astype(str) + "\n" + session
    between = stats.Design("judge", "item", "score", resamples=resamples, seed=seed)
    within = replace(between, system="sample")
    rows = []
    for construct, part in frame.groupby("construct", sort=True):
        medians = part.groupby(["item", "judge"], as_index=False)["score"].median()
        for measure in ("alpha", "icc"):
            row = _agreed(measure, medians, between)
            row.update(construct=construct, measure=measure, judge="all")
            rows.append(row)
        for judge, own in part.groupby("judge", sort=True):
            row = _agreed("alpha", own, within)
            row.update(construct=construct, measure="retest", judge=str(judge))
            rows.append(row)
    return pd.DataFrame(rows, columns=_AGREEMENT)


def _agreed(measure: str, frame: pd.DataFrame, design: "stats.Design") -> _Row:
    """A measure of agreement between a design's raters, or the reason why it is undefined."""
    if frame[design.system].nunique() < 2:
        return _undefined(f"fewer than two {design.system}s")
    try:
        if measure == "icc":
            row = stats.icc(frame, design).iloc[0]
            agreed = _estimate(row["icc"], row, row["n"])
        else:
            row = stats.krippendorff_alpha(frame, design).iloc[0]
            agreed = _estimate(row["alpha"], row, row["n_items"])
    except InputError as error:
        return _undefined(str(error))
    if pd.isna(agreed["value"]):
        agreed["reason"] = _EQUAL[measure]
    return agreed


def _undefined(reason: str) -> _Row:
    return {"value": float("nan"), "n": 0, "reason": reason}


def _mean(values: pd.Series, resamples: int, seed: int, reason: str) -> _Row:
    """The mean of a value for each session with its interval; the ``reason`` where there is none."""
    if values.notna().sum() == 0:
        return _undefined(reason)
    sessions = pd.DataFrame({"scenario": values.index, "value": values.to_numpy()})
    sessions["system"] = "one"
    design = stats.Design(resamples=resamples, seed=seed)
    row = stats.cluster_bootstrap(sessions, design).iloc[0]
    return _estimate(row["mean"], row, row["n"])


def _estimate(value: float, interval: pd.Series, n: int) -> _Row:
    """A value with its interval and n."""
    row: _Row = {"value": value, "n": int(n)}
    row["low"] = interval["low"]
    row["high"] = interval["high"]
    return row


def self_preference(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How much a judge favours systems of its own family, in score points; a row for construct and family.
    The contrast of judge family and system family within a session (the same user met by every system): what
    judges of the family give its systems over other systems, less what the other judges do. 0 is no
    preference; ``low`` and ``high`` from a bootstrap over sessions. A session counts only where all four
    means exist; ``value`` is NaN with a ``reason`` where none does. Canaries are left out.
    """
    frame = _originals(scores)
    judges = frame["judge"].map(family)
    systems = frame["model"].map(family)
    families = sorted(set(judges) & set(systems))
    pairs = list(product([True, False], repeat=2))
    rows = []
    for construct, part in frame.groupby("construct", sort=True):
        for name in families:
            cells = part.assign(by=judges == name, of=systems == name)
            means = cells.pivot_table(index="session_id", columns=["by", "of"], values="score")
            wide = means.reindex(columns=pairs).dropna()
            own = wide[True, True] - wide[True, False]
            others = wide[False, True] - wide[False, False]
            row = _mean(own - others, resamples, seed, "no session with all four means")
            row.update(construct=construct, family=name)
            rows.append(row)
    return pd.DataFrame(rows, columns=_PREFERENCE)


def headline(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Mean score of each system by the judges that count, from 1 to 5.

    Judges of a system's own family count only where no other judge read it; ``own_family`` says so. The value
    of a session is the mean over judges of the mean over samples; ``low`` and ``high`` from a bootstrap over
    sessions.

    Parameters
    ----------
    scores
        A table as :func:`crs_lib.judge.run.score_table` makes it.
    resamples, seed
        Of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        A row for system and construct. ``judges`` says who counted, ``n`` and ``n_missing`` count sessions; a
        ``value`` that is NaN has a ``reason``.
    """
    rows = []
    groups = _originals(scores).groupby(["model", "construct"], sort=True)
    for (model, construct), part in groups:
        judges = counted(str(model), part["judge"].unique())
        part = part[part["judge"].isin(judges)]
        by_judge = part.groupby(["session_id", "judge"])["score"].mean()
        sessions = by_judge.groupby("session_id").mean()
        row = _mean(sessions, resamples, seed, "every score is missing")
        row["model"] = model
        row["construct"] = construct
        row["n_missing"] = len(sessions) - row["n"]
        row["judges"] = ", ".join(sorted(judges))
        families = map(family, judges)
        row["own_family"] = family(str(model)) in families
        rows.append(row)
    return pd.DataFrame(rows, columns=_HEADLINE)


def _originals(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of dialogues as they were; InputError for a table that lacks a column."""
    _TABLE.check(scores)
    return scores[scores["canary"] == ""].copy()


def forged_shift(scores: pd.DataFrame) -> pd.DataFrame:
    """How far a forged end moves a judge: the mean of canary less original, in points, each the mean of the
    judge's samples; a row for judge and construct. ``n`` counts dialogues of which both sides have a score.
    """
    _TABLE.check(scores)
    by = ["judge", "construct"]
    dialogue = ["model", "session_id", "canary"]
    means = scores.groupby([*by, *dialogue])["score"].mean()
    wide = means.unstack("canary")  # noqa: PD010 -- a pivot table would drop dialogues without a score
    if FORGED not in wide or "" not in wide:
        return pd.DataFrame(columns=[*by, "value", "n"])
    moved = wide[FORGED] - wide[""]
    shifts = moved.groupby(by).agg(value="mean", n="count")
    return shifts.reset_index()


def _shift_in_words(row: Mapping[str, Any]) -> str:
    """Whether a shift by the canary is small; why it is missing where no dialogue has both scores."""
    if not row["n"]:
        return "missing: no dialogue has a score both with and without the forged end"
    if abs(row["value"]) <= SHIFT_AT_MOST:
        return f"within ± {SHIFT_AT_MOST} points"
    return f"not within ± {SHIFT_AT_MOST} points"


def summary(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Agreement, self-preference and the canary in one table.

    Parameters
    ----------
    scores
        A table as :func:`crs_lib.judge.run.score_table` makes it, with originals and canaries.
    resamples, seed
        Of the bootstraps.

    Returns
    -------
    pandas.DataFrame
        A row a number, with its 95 % interval. ``judge`` is "all", a judge, or a family of judges. ``value``
        is at most 1 for agreement (retest: over the samples of one judge), in score points for
        self-preference and for the shift by a forged end. ``n`` counts dialogues, sessions or pairs. ``note``
        says why a value is missing, and whether the shift is small. A check that the scores do not allow has
        one row, which says so.
    """
    agreed = agreement(scores, resamples, seed)
    agreed["check"] = agreed["measure"].map(_CHECKS)
    own = self_preference(scores, resamples, seed).rename(columns={"family": "judge"})
    own["check"] = _OWN
    estimates = pd.concat([agreed, own], ignore_index=True).rename(columns={"reason": "note"})
    rows: list[Mapping[str, Any]] = list(estimates.to_dict("records"))
    with_forged = set(scores.loc[scores["canary"] == FORGED, "judge"])
    for row in forged_shift(scores).to_dict("records"):
        if row["judge"] in with_forged:
            rows.append({**row, "check": _SHIFT, "note": _shift_in_words(row)})
    for judge in sorted(set(scores["judge"]) - with_forged):
        note = f"not measured; judge with --canaries {FORGED}"
        rows.append({"check": _SHIFT, "judge": judge, "note": note})
    if own.empty:
        rows.append({"check": _OWN, "note": "no judge shares a family with a system"})
    table = pd.DataFrame(rows, columns=_SUMMARY)
    table["n"] = table["n"].astype("Int64")
    for column in ("construct", "judge", "note"):
        table[column] = table[column].astype(object).fillna("")
    return table
