"""Labels that people gave on a page: read, checked, and held against one another and against every metric.

Source: docs/validity.md, section 7.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib import stats
from crs_lib.core import outside, rng, tables
from crs_lib.core.errors import InputError
from crs_lib.validity import agreement, questions

SCRIPTED = "scripted"  # the prefix of raters that are programs
_COLUMNS = ("item", "rater", "value", "page", "seconds")
_POWER, _LEVEL = 0.8, 0.05


class Findings(NamedTuple):
    """Labels, the agreement of raters, power by number of questions, and metrics against labels."""

    labels: pd.DataFrame
    agreement: pd.DataFrame
    power: pd.DataFrame
    correlations: pd.DataFrame


def read(files: Iterable[str | Path], page: str, items: Iterable[str]) -> pd.DataFrame:
    """The labels of exported files: item, rater, value (1 to 5), seconds; of an item a rater's last counts.

    Raises InputError naming file and line for what is no label, a label of another page, an unknown question.
    """
    known = set(items)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for name in files:
        path = Path(name).expanduser()
        for number, line in enumerate(outside.read_text(path).splitlines(), start=1):
            if not line.strip():
                continue
            row = _label(outside.loads(line, f"{path.name}, line {number}"), f"{path.name}, line {number}")
            if row["page"] != page:
                raise InputError(
                    f"{path.name}, line {number}: the label belongs to page {row['page']!r}, this run's is "
                    f"{page!r}; import it with the run that its page was made of"
                )
            if row["item"] not in known:
                raise InputError(f"{path.name}, line {number}: no question {row['item']!r} on this page")
            rows[row["rater"], row["item"]] = row
    if not rows:
        raise InputError("no label in these files; export them with the page's button or the key E")
    return pd.DataFrame(list(rows.values()), columns=list(_COLUMNS))


def _label(entry: Any, where: str) -> dict[str, Any]:
    texts = ("item", "rater", "page")
    usable = isinstance(entry, dict) and all(isinstance(entry.get(key), str) and entry[key] for key in texts)
    value = entry.get("value") if usable else None
    if not usable or isinstance(value, bool) or value not in (1, 2, 3, 4, 5):
        raise InputError(
            f"{where}: no label; expected an object with item, rater, page and a value from 1 to 5"
        )
    seconds = entry.get("seconds")
    timed = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return {
        **{key: entry[key] for key in texts},
        "value": int(value),
        "seconds": seconds if timed else np.nan,
    }


def findings(run: str, files: Iterable[str | Path], *, resamples: int = 400) -> Findings:
    """Read labels of a run's page and hold them against one another and against every metric of the run."""
    kind, page, asked = questions.read_key(run)
    labels = read(files, page, asked["id"])
    found = of_raters(labels, resamples=resamples)
    correlated = with_metrics(
        labels, questions.metric_values(run, kind, asked), kind=kind, resamples=resamples
    )
    alpha = float(found.loc[0, "alpha"]) if len(found) else math.nan
    plan = sorted({*(30, 60, 120, 240), int(labels["item"].nunique())})
    return Findings(labels, found, power(plan, reliability(alpha, labels)), correlated)


def write(run: str, found: Findings) -> Path:
    """Write the findings as four tables into the run's folder; returns it."""
    target = questions.folder(run)
    for name, frame in found._asdict().items():
        tables.write_csv(target / f"{name}.csv", frame)
    return target


def of_raters(labels: pd.DataFrame, *, resamples: int = 1000) -> pd.DataFrame:
    """Krippendorff's alpha (ordinal) with its interval, and one rater against the others; one row.

    Without rows where no question has two raters.
    """
    shared = labels[labels.groupby("item")["rater"].transform("nunique") > 1]
    if shared.empty:
        return pd.DataFrame(columns=["n_raters", "n_items", "alpha", "low", "high", "one_against_rest"])
    alpha = stats.krippendorff_alpha(
        shared, stats.Design(system="rater", scenario="item", resamples=resamples)
    ).iloc[0]
    by = shared.groupby("item")["value"]
    rest = (by.transform("sum") - shared["value"]) / (by.transform("size") - 1)
    rho = agreement.spearman(shared["value"].to_numpy(float), rest.to_numpy(float))
    row = {name: alpha[name] for name in ("n_raters", "n_items", "alpha", "low", "high")}
    return pd.DataFrame([row | {"one_against_rest": rho}])


def reliability(alpha: float, labels: pd.DataFrame) -> float:
    """Reliability of the raters' mean, in [0, 1]: Spearman and Brown's formula on alpha; NaN without it."""
    k = len(labels) / labels["item"].nunique()
    return math.nan if math.isnan(alpha) else max(0.0, k * alpha / (1 + (k - 1) * alpha))


def power(n_items: Sequence[int], reliable: float) -> pd.DataFrame:
    """The smallest correlation that a number of questions finds with a power of 0.8 at the level 0.05.

    ``detectable`` is that of the labels as they are (Fisher's z, the variance of ranks 1.06);
    ``true_detectable`` the correlation with labels without noise that shows as much, given the reliability of
    the mean label, NaN where none does.
    """
    z = scipy.stats.norm.ppf(1 - _LEVEL / 2) + scipy.stats.norm.ppf(_POWER)
    rows = []
    for n in n_items:
        seen = math.tanh(z * math.sqrt(1.06 / (n - 3))) if n > 3 else math.nan
        true = seen / math.sqrt(reliable) if reliable > 0 else math.nan
        row = {"n": n, "detectable": seen, "reliability": reliable}
        rows.append(row | {"true_detectable": true if true <= 1 else math.nan})
    return pd.DataFrame(rows)


def with_metrics(
    labels: pd.DataFrame, values: pd.DataFrame, *, kind: str, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Spearman of every metric with the mean label, the highest first, with 95 % intervals over scenarios.

    For pairs the label is the preference for the right side and the metric the difference of the sides.
    """
    mean = labels.groupby("item")["value"].mean().rename("label").reset_index()
    both = mean.merge(values, on="item").rename(columns={"session_id": "conv_id"}).assign(system="")
    rows = []
    for name in [name for name in values if name not in ("item", "session_id")]:
        known = both[both[name].notna()]
        rho = agreement.spearman(known[name].to_numpy(float), known["label"].to_numpy(float))
        if not math.isnan(rho):
            row = {"metric": name, "n": len(known), "spearman": rho}
            rows.append(row | agreement.interval(both, name, "label", resamples=resamples, seed=seed))
    columns = ["metric", "n", "spearman", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values("spearman", ascending=False, ignore_index=True)


def scripted(run: str, n_raters: int = 3, *, noise: float = 0.7, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Labels that programs give, for a demonstration: no person has seen the page.

    A rater ``scripted-1`` … maps the gain of the turns asked about onto 1 to 5, and adds noise of its own (a
    normal deviate of ``noise`` steps). They say nothing about any metric: they are made of one.
    """
    kind, page, asked = questions.read_key(run)
    gain = questions.metric_values(run, kind, asked).set_index("item")["normalised_gain"].fillna(0.0)
    middle = gain.clip(0, 1) * 4 + 1 if kind == "single" else gain.clip(-1, 1) * 2 + 3
    for number in range(1, n_raters + 1):
        draw = rng.stream(seed, "scripted raters", run, number)
        for item, value in middle.items():
            label = int(np.clip(round(value + noise * draw.standard_normal()), 1, 5))
            yield {
                "item": str(item),
                "rater": f"{SCRIPTED}-{number}",
                "value": label,
                "page": page,
                "seconds": 0,
            }


def save(labels: Iterable[dict[str, Any]], path: Path) -> Path:
    """Write labels as the page exports them, one JSON object a line; returns the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tables.write_aside(path) as file:
        for label in labels:
            file.write(json.dumps(label) + "\n")
    return path


def files(pattern: str, run: str, n_raters: int = 3) -> list[Path]:
    """The exported files that a pattern names (``labels/*.jsonl``); without one, labels of scripted raters.

    Raises InputError where the pattern names no file.
    """
    if not pattern:
        return [save(scripted(run, n_raters), questions.folder(run) / f"labels-{SCRIPTED}.jsonl")]
    given = Path(pattern).expanduser()
    found = sorted(given.parent.glob(given.name))
    if not found:
        raise InputError(f"no file {pattern!r}; export labels with the page's button or the key E")
    return found


def by_system(run: str, found: Findings) -> pd.DataFrame:
    """Mean label of every system with its 95 % interval over scenarios, the highest first.

    Raises InputError for pairs, whose labels compare two systems.
    """
    kind, _, asked = questions.read_key(run)
    if kind != "single":
        raise InputError("labels of pairs compare two systems; a mean by system needs --kind single")
    systems = asked.set_index("id")["systems"].map(lambda names: names[0])
    scenario = asked.set_index("id")["session_id"]
    rows = found.labels.assign(
        system=found.labels["item"].map(systems), scenario=found.labels["item"].map(scenario)
    )
    means = stats.cluster_bootstrap(rows.astype({"value": float}), stats.Design(seed=0))
    return means.sort_values("mean", ascending=False, ignore_index=True)[
        ["system", "mean", "low", "high", "n"]
    ]
