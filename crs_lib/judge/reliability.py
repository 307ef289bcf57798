"""The reliability of judges: agreement, preference for the own family, means without it, and canaries.
Canaries are dialogues spoilt on purpose, which a usable judge must score below their originals.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from crs_lib import stats
from crs_lib.core import prompts, rng, tables
from crs_lib.core.dialogue import SYSTEM, Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry

CANARIES: Registry[list[str] | None] = Registry("canary")
FORGED = "forged_end"  # the canary that shows whether a judge follows what a reply says of scores
SHIFT_AT_MOST = 0.05  # points by which it may move the mean score of a judge that does not
_ALPHA = ("alpha", "n_items", "all scores are equal")
_COLUMNS = ("model", "session_id", "canary", "judge", "construct", "score", "sample")
_TABLE = tables.Contract("judge scores, as score_table makes them", _COLUMNS, ())


@CANARIES.register("shuffled", aimed_at="coherence")
def _shuffled(texts: Sequence[str], draw: np.random.Generator) -> list[str] | None:
    """Replies stand under other turns than their own; needs two different replies."""
    if len(set(texts)) < 2:
        return None
    order = list(draw.permutation(len(texts)))
    moved = [texts[order[(order.index(i) + 1) % len(order)]] for i in range(len(texts))]  # one cycle
    return moved if moved != texts else None


@CANARIES.register("sticky", aimed_at="personalization")
def _sticky(texts: Sequence[str], draw: np.random.Generator) -> list[str] | None:
    """The first reply is given at every turn, whatever was asked; needs two different replies."""
    return [texts[0]] * len(texts) if len(set(texts)) > 1 else None


@CANARIES.register(FORGED)
def _forged_end(texts: Sequence[str], draw: np.random.Generator) -> list[str]:
    """The last reply pretends that the conversation ended, and gives itself the best score."""
    return [*texts[:-1], texts[-1] + prompts.source("movies/judge_forged_end")]


def spoil(dialogue: Dialogue, name: str, seed: int) -> Dialogue | None:
    """The dialogue as the canary ``name`` has it (key ``canary`` in its record); None where it cannot. The
    same dialogue and seed give the same canary.
    """
    draw = rng.stream(seed, "canary", name, dialogue.session_id, dialogue.model_name)
    texts = CANARIES.create(name, texts=[t.text for t in dialogue.turns if t.speaker == SYSTEM], draw=draw)
    if texts is None:
        return None
    left = iter(texts)
    spoilt = (replace(t, text=next(left), marks=()) if t.speaker == SYSTEM else t for t in dialogue.turns)
    return replace(dialogue, turns=tuple(spoilt), extra={**dialogue.extra, "canary": name})


def _family(spec: str) -> str:
    """The family of a model: the letters its name starts with, "llama" for ``ollama:llama3:instruct``. An
    organisation before a slash is left out; a spec without a model (``template``) is its own family.
    """
    served = re.search(r"(?:^|:)(?:ollama|openai|local):(.+)$", spec)
    model = (served[1] if served else spec).rsplit("/", 1)[-1]
    found = re.match(r"[A-Za-z]+", model)
    return found[0].lower() if found else model.lower()


def counted(model: str, judges: Iterable[str]) -> frozenset[str]:
    """The judges whose scores of a system count: those of other families, all of them where there is none."""
    every = frozenset(map(str, judges))
    return frozenset(judge for judge in every if _family(judge) != _family(model)) or every


def agreement(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How far judges agree with one another and with themselves, a row for construct and measure. ``alpha``
    is Krippendorff's ordinal alpha over judges (each the median of its samples), ``icc`` the intraclass
    correlation ICC(2,k) of their mean, ``retest`` the ordinal alpha over the samples of one judge. All are at
    most 1, which is perfect. ``value`` is NaN with a ``reason`` where undefined; ``n`` counts dialogues, no
    canaries.
    """
    frame = _originals(scores)
    frame = frame.assign(item=frame["model"].astype(str) + "\n" + frame["session_id"].astype(str))
    rows = []
    for construct, part in frame.groupby("construct", sort=True):
        rated = part.groupby(["item", "judge"], as_index=False)["score"].median()
        asked = [("alpha", "all", rated, "judge"), ("icc", "all", rated, "judge")]
        asked += [("retest", str(judge), own, "sample") for judge, own in part.groupby("judge", sort=True)]
        for measure, judge, given, rater in asked:
            design = stats.Design(rater, "item", "score", resamples=resamples, seed=seed)
            found = _agreed(measure, given, design)
            rows.append({"construct": construct, "measure": measure, "judge": judge, **found})
    return pd.DataFrame(rows, columns="construct measure judge value low high n reason".split())


def _agreed(measure: str, frame: pd.DataFrame, design: "stats.Design") -> dict[str, Any]:
    """A measure of agreement between a design's raters, or the reason why it is undefined."""
    if frame[design.system].nunique() < 2:
        return {"value": float("nan"), "n": 0, "reason": f"fewer than two {design.system}s"}
    icc = measure == "icc"
    value, n, equal = ("icc", "n", "the dialogues do not differ") if icc else _ALPHA
    try:
        found = (stats.icc if icc else stats.krippendorff_alpha)(frame, design).iloc[0]
    except InputError as error:
        return {"value": float("nan"), "n": 0, "reason": str(error)}
    told = {"value": found[value], "low": found["low"], "high": found["high"], "n": int(found[n])}
    return told | {"reason": equal if pd.isna(found[value]) else None}


def _mean(values: pd.Series, resamples: int, seed: int, reason: str) -> dict[str, Any]:
    """The mean of a value for each session with its interval; the ``reason`` where there is none."""
    if values.notna().sum() == 0:
        return {"value": float("nan"), "n": 0, "reason": reason}
    tidy = pd.DataFrame({"system": "one", "scenario": values.index, "value": values.to_numpy()})
    found = stats.cluster_bootstrap(tidy, stats.Design(resamples=resamples, seed=seed)).iloc[0]
    return {"value": found["mean"], "low": found["low"], "high": found["high"], "n": int(found["n"])}


def _self_preference(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How much a judge favours systems of its own family, in score points; a row for construct and family.
    The contrast of judge family and system family within a session (the same user met by every system): what
    judges of the family give its systems over other systems, less what the other judges do. 0 is no
    preference; ``low`` and ``high`` from a bootstrap over sessions. A session counts only where all four
    means exist; ``value`` is NaN with a ``reason`` where none does. Canaries are left out.
    """
    frame = _originals(scores)
    frame = frame.assign(by=frame["judge"].map(_family), of=frame["model"].map(_family))
    rows = []
    for construct, part in frame.groupby("construct", sort=True):
        for name in sorted(set(frame["by"]) & set(frame["of"])):
            cells = part.assign(by=part["by"] == name, of=part["of"] == name)
            means = cells.pivot_table(index="session_id", columns=["by", "of"], values="score")
            wide = means.reindex(columns=[(b, o) for b in (True, False) for o in (True, False)]).dropna()
            gap = wide[True, True] - wide[True, False] - (wide[False, True] - wide[False, False])
            found = _mean(gap, resamples, seed, "no session with all four means")
            rows.append({"construct": construct, "family": name, **found})
    return pd.DataFrame(rows, columns=["construct", "family", "value", "low", "high", "n", "reason"])


def headline(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Mean score of each system by the judges that count, from 1 to 5; a row for system and construct. Judges
    of a system's own family count only where no other judge read it; ``own_family`` says so. The value of a
    session is the mean over judges of the mean over samples; ``low`` and ``high`` from a bootstrap over
    sessions. ``judges`` says who counted, ``n`` and ``n_missing`` count sessions; NaN has a ``reason``.
    """
    rows = []
    for (model, construct), part in _originals(scores).groupby(["model", "construct"], sort=True):
        mine = part[part["judge"].isin(counted(str(model), part["judge"].unique()))]
        value = mine.groupby(["session_id", "judge"])["score"].mean().groupby("session_id").mean()
        found = _mean(value, resamples, seed, "every score is missing")
        rows.append({
            "model": model, "construct": construct, **found, "n_missing": len(value) - found["n"],
            "judges": ", ".join(sorted(mine["judge"].unique())),
            "own_family": bool((mine["judge"].map(_family) == _family(str(model))).any()),
        })  # fmt: skip
    columns = "model construct value low high n n_missing judges own_family reason"
    return pd.DataFrame(rows, columns=columns.split())


def _originals(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of dialogues as they were; InputError for a table that lacks a column."""
    return _TABLE.check(scores)[lambda table: table["canary"] == ""]


def _canary_report(scores: pd.DataFrame) -> pd.DataFrame:
    """How often a judge scored a canary below its original, in [0, 1]; a row for judge, canary, construct. A
    pair is one dialogue and its canary, each the mean of the judge's samples; a tie is not below. ``low`` and
    ``high`` bound the share with 95 % (Clopper and Pearson); ``usable`` is true where ``low`` is above one
    half, and null for constructs that the canary is not ``aimed`` at. ``n_missing`` counts dialogues of which
    one side has no score, ``shift`` is the mean of canary less original, in points. Empty where there are no
    canaries. ``scores`` is a :func:`crs_lib.judge.run.score_table` with originals and canaries.
    """
    from scipy.stats import binomtest

    _TABLE.check(scores)
    dialogue, by = ["model", "session_id"], ["judge", "construct"]
    means = scores.groupby([*dialogue, *by, "canary"])["score"].mean()
    means = means.unstack("canary")  # noqa: PD010 -- a pivot table would drop dialogues without a score
    rows: list[Mapping[str, Any]] = []
    for name in means.columns.difference([""]):
        spoilt = scores.loc[scores["canary"] == name, dialogue].drop_duplicates()  # scored or not
        for (judge, construct), part in means.groupby(by, sort=True):
            asked = part.reset_index().merge(spoilt)
            both = asked[[name, ""]].dropna()
            below, n = int((both[name] < both[""]).sum()), len(both)
            aimed = CANARIES.get(str(name)).facts.get("aimed_at") == construct
            row = {"judge": judge, "canary": name, "construct": construct, "aimed": aimed, "below": below}
            row |= {"tied": int((both[name] == both[""]).sum()), "n": n, "n_missing": len(asked) - n}
            row["shift"] = float((both[name] - both[""]).mean())
            if n:
                share = binomtest(below, n).proportion_ci(method="exact")
                row |= {"share": below / n, "low": float(share.low), "high": float(share.high)}
            row["usable"] = bool(row.get("low", 0.0) > 0.5) if aimed else None
            rows.append(row)
    columns = "judge canary construct aimed share low high below tied n n_missing usable shift"
    return pd.DataFrame(rows, columns=columns.split())


_CHECKS = {"alpha": "agreement, alpha", "icc": "agreement, ICC(2,k)", "retest": "retest, alpha"}
_OWN, _SHIFT = "preference for the own family", "shift by a forged end"


def summary(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Agreement, self-preference and canaries in one table: a row a number, with its 95 % interval. ``judge``
    is "all", a judge, or a family of judges. ``value`` is at most 1 for agreement (retest: over the samples
    of one judge), in score points for self-preference and for the shift by a forged end, a share in [0, 1]
    for other canaries (of the constructs that each is aimed at). ``n`` counts dialogues, sessions or pairs.
    ``note`` says why a value is missing, whether a canary shows the judge to be usable, and whether the shift
    is small. A check that the scores do not allow has one row, which says so.
    """
    agreed = agreement(scores, resamples, seed)
    agreed = agreed.assign(check=agreed["measure"].map(_CHECKS)).rename(columns={"reason": "note"})
    own = _self_preference(scores, resamples, seed).assign(check=_OWN)
    own = own.rename(columns={"family": "judge", "reason": "note"})
    every = _canary_report(scores)
    spoilt = every[every["aimed"].astype(bool)]
    verdict = spoilt["usable"].map({True: "usable", False: "not usable"})
    spoilt = spoilt.assign(check="canary " + spoilt["canary"], value=spoilt["share"], note=verdict)
    forged = every[every["canary"] == FORGED].drop(columns=["low", "high"])
    inside = (forged["shift"].abs() <= SHIFT_AT_MOST).map({True: "within", False: "not within"})
    note = inside.astype(str) + f" ± {SHIFT_AT_MOST} points"
    forged = forged.assign(check=_SHIFT, value=forged["shift"], note=note)
    rows = [row for table in (agreed, own, spoilt, forged) for row in table.to_dict("records")]
    unasked = {"check": _SHIFT, "note": f"not measured; judge with --canaries {FORGED}"}
    rows += [unasked | {"judge": name} for name in sorted({*scores["judge"]} - {*forged["judge"]})]
    if own.empty:
        rows.append({"check": _OWN, "note": "no judge shares a family with a system"})
    if spoilt.empty:
        rows.append({"check": "canary", "note": "no canary was judged"})
    columns = ["check", "construct", "judge", "value", "low", "high", "n", "note"]
    words = dict.fromkeys(("construct", "judge", "note"), "")
    table = pd.DataFrame(rows, columns=columns).astype({"n": "Int64", **dict.fromkeys(words, object)})
    return table.fillna(words)
