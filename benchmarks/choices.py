"""How far the ranking of systems depends on the choices of a convention.

Rank stability is Kendall's tau to the ranking of the default. The last figures stand in
docs/records/choices.csv; of the first scenarios of a finished run (a minute):

    PYTHONPATH=. python -m benchmarks.choices --run gate [--sessions 50]
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import evaluate, simulate, stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.metrics.conventions import Convention

Floats = NDArray[np.float64]
METRICS = ("item_tas", "item_recovery_rate", "topic_adaptation_score", "topic_recovery_rate")


def choices() -> Iterator[tuple[str, str, Convention]]:
    """Conventions compared with the default: choice, setting (the default too) and convention."""
    thresholds = ((0.2, 0.5), (0.35, 0.65), (0.5, 0.8))
    grid: dict[str, dict[str, dict[str, Any]]] = {
        "empty sets": {rule: {"empty": rule} for rule in ("skip", "zero", "one")},
        "copied runs, words": {f"{n}": {"copy_orders": (n,)} for n in (2, 3, 4, 5)},
        "recovery window, replies": {f"{n}": {"window": n} for n in (1, 3, 5)},
        "recovery thresholds": {f"{c:g}/{r:g}": {"recovery_cc": c, "recovery_cr": r} for c, r in thresholds},
    }
    for choice, settings in grid.items():
        for setting, knobs in settings.items():
            yield choice, setting, conventions.get("default").changed(**knobs)


def by_convention(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per choice, setting and metric: tau to the means of the default (:func:`agreement`)."""
    default = _session_scores(dialogues, grounder, conventions.get("default"))
    rows = []
    for choice, setting, rule in choices():
        scores = _session_scores(dialogues, grounder, rule)
        facts = {"choice": choice, "setting": setting}
        rows += [facts | {"metric": name} | agreement(default, scores, name) for name in METRICS]
    return pd.DataFrame(rows)


def _session_scores(dialogues: Iterable[Dialogue], grounder: Grounder, rule: Convention) -> pd.DataFrame:
    """Each session's metrics under a convention, a row a session: model, session_id and the metrics."""
    sessions = pd.DataFrame([one.session for one in score_all(dialogues, grounder, rule)])
    return sessions[["model", "session_id", *METRICS]].astype(dict.fromkeys(METRICS, float))


def agreement(a: pd.DataFrame, b: pd.DataFrame, metric: str) -> dict[str, float | int]:
    """Kendall's tau-b in [-1, 1] of the systems' means in two sets of scores, with its 95 % interval
    (scenarios drawn for both at once); NaN for fewer than two common systems or equal means.
    """
    wide = [one.pivot_table(index="session_id", columns="model", values=metric, sort=False) for one in (a, b)]
    systems = [name for name in wide[0].columns if name in wide[1].columns]
    scenarios = sorted({*wide[0].index, *wide[1].index})
    values = [one.reindex(index=scenarios, columns=systems).to_numpy(dtype=float) for one in wide]

    def statistic(weights: Floats) -> Floats:
        first, second = (_signs(one, weights) for one in values)
        with np.errstate(invalid="ignore"):
            scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
            return np.asarray((first * second).sum(axis=1) / scale)[:, None]

    found, usual = dict.fromkeys(("tau", "low", "high"), float("nan")), stats.Design(resamples=1000)
    if len(systems) > 1:
        drawn = stats.bootstrap_estimates(statistic, len(scenarios), usual, method="percentile")
        found = {"tau": float(drawn.estimate[0]), **drawn.bounds()}
    return {**found, "n_systems": len(systems), "n_sessions": len(scenarios)}


def _signs(values: Floats, weights: Floats) -> Floats:
    """Which of each pair of systems has the higher weighted mean, as -1, 0 or 1; 0 without both means."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means = np.asarray((weights @ np.nan_to_num(values)) / (weights @ known))
    left, right = np.triu_indices(means.shape[1], k=1)
    return np.nan_to_num(np.sign((means[:, left] - means[:, right]).round(12)))


def stability(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The lowest and mean tau by a column: how far the ranking can be trusted whatever is chosen."""
    found = table.groupby(by, sort=False)["tau"].agg(lowest_tau="min", mean_tau="mean", n="size")
    return found.round({"mean_tau": 12}).reset_index()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", default="gate")
    parser.add_argument("--sessions", type=int, default=50, help="the first scenarios, at least 2")
    options = parser.parse_args()
    talks = [talk for talk in simulate.dialogues(options.run) if int(talk.session_id) < options.sessions]
    table = by_convention(talks, Grounder(evaluate.catalog_of(options.run)))
    print(table.round(3).to_csv(index=False))
    print(stability(table, "metric").round(3).to_csv(index=False))


if __name__ == "__main__":
    main()
