"""The outcomes of runs as files: tests, the best system on each, those over a sweep, and a leaderboard."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import scipy.stats

from crs_lib import evaluate, stats
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, NoDataError
from crs_lib.core.settings import Registry
from crs_lib.figures import layout, style
from crs_lib.figures.latex import headline_table
from crs_lib.figures.scores import sweep_outcomes
from crs_lib.metrics import conventions
from crs_lib.metrics.base import PRIMARY
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report import page, statistics
from crs_lib.report.report import in_words
from crs_lib.stats.bounded import REACH
from crs_lib.stats.estimate import FEWEST

Figures = Mapping[str, Mapping[str, float]]  # by system and metric
_MOST = 500  # degrees of freedom that the page of a leaderboard can look up
_COLUMNS = "convention model metric mean low high n n_missing".split()


class Published(NamedTuple):
    """Published ``means`` by system and metric, made as the convention makes them; ``notes`` says of other
    metrics how their published means were made.
    """

    means: Figures
    notes: Mapping[str, str]


# ``make(run, convention)`` gives what a study published of a run, nothing where the run is another study.
PUBLISHED: Registry[Published] = Registry("published figures")


def _outcomes_of(run: str, convention: str) -> list[str]:
    """The outcomes that are tested: the convention's, then judges' constructs; those that have a value."""
    means = evaluate.read(run, "model_metrics", convention)
    present = set(means.loc[means["mean"].notna(), "metric"])
    return [name for name in (*layout.outcomes(convention), *CONSTRUCTS) if name in present]


def write_tables(run: str, convention: str = "") -> list[Path]:
    """Write ``anova.csv``, ``tukey.csv``, ``headline.csv`` and ``headline.tex`` beside a convention's scores.

    Returns their paths. Raises RunError as :func:`crs_lib.evaluate.read`.
    """
    name = evaluate.convention_of(run, convention)
    scores = statistics.stats_frame(evaluate.read(run, "results", name))
    tested = _outcomes_of(run, name)
    folder = evaluate.folder_of(run, name)
    best = best_systems(run, name)
    tables.write_csv(folder / "anova.csv", stats.anova_table(scores, tested))
    tables.write_csv(folder / "tukey.csv", stats.tukey_table(scores, tested))
    tables.write_csv(folder / "headline.csv", best)
    tables.write_whole(folder / "headline.tex", headline_table(best))
    return [folder / file for file in ("anova.csv", "tukey.csv", "headline.csv", "headline.tex")]


def best_systems(run: str, convention: str) -> pd.DataFrame:
    """The best system on each outcome, a row each: mean with interval, the second and the lead.

    ``published_best`` and ``published`` where means of the run's systems were published that were made as
    the convention makes them; ``published_note`` says how they were made where that is not the convention's
    way.
    """
    means = evaluate.read(run, "model_metrics", convention)
    published = published_of(run, convention, set(means["model"]))
    figures = pd.DataFrame(published.means).T
    rows = []
    for metric in _outcomes_of(run, convention):
        lower = layout.lower(metric)
        ranked = means[(means["metric"] == metric) & means["mean"].notna()]
        first, *others = ranked.sort_values("mean", ascending=lower, kind="stable").to_dict("records")
        row = {"metric": metric, "best": first["model"]}
        for name in ("mean", "low", "high", "n"):
            row[name] = first[name]
        row.update(second=None, lead=math.nan, published_best=None, published=math.nan)
        if others:
            row["second"] = others[0]["model"]
            row["lead"] = abs(first["mean"] - others[0]["mean"])
        if metric in figures:
            leading = figures[metric].dropna().sort_values(ascending=lower, kind="stable")
            row["published_best"] = leading.index[0]
            row["published"] = leading.iloc[0]
        row["published_note"] = published.notes.get(metric)
        rows.append(row)
    return pd.DataFrame(rows)


def published_of(run: str, convention: str, systems: set[str]) -> Published:
    """What was published of a run's systems; nothing where the run is of no published study."""
    for entry in PUBLISHED:
        read: Callable[[str, str], Published] = entry.make
        published = read(run, convention)
        if published.means or published.notes:
            means = {name: row for name, row in published.means.items() if name in systems}
            return published._replace(means=means)
    return Published({}, {})


def write_grid(
    grid: Iterable[str], cells: Sequence[Mapping[str, Any]], name: str, only: Sequence[str] = ()
) -> list[Path]:
    """Write the mean outcomes of every system in every cell of a sweep, a table and a figure.

    Returns the files. ``grid`` names the parameters that differ: those of the cells, or with ``only``,
    conventions, theirs.
    """
    keys = {key: key.rpartition(".")[2] for key in grid}
    frames = []
    for cell in cells:
        for convention in only or evaluate.conventions_of(cell["run"]):
            values = dict(conventions.get(convention)) if only else cell
            means = evaluate.read(cell["run"], "model_metrics", convention)
            is_outcome = means["metric"].isin(layout.outcomes(convention))
            means = means[is_outcome].assign(run=cell["run"])
            for key, short in keys.items():
                means[short] = in_words(values[key], "as declared")
            frames.append(means)
    frame = pd.concat(frames, ignore_index=True)[["run", *keys.values(), *_COLUMNS]]
    files = [paths.results() / "movies" / f"sweep-{name}.csv"]
    tables.write_csv(files[0], frame)
    long = frame.melt(["run", *_COLUMNS], list(keys.values()), "parameter", "value")
    try:
        for kind in ("png", "pdf"):
            with style.applied():
                files.append(style.write(sweep_outcomes(long), paths.figures() / f"sweep-{name}.{kind}"))
    except NoDataError as error:
        print(f"no figure of the grid: {error}")
    return files


def leaderboard(runs: Sequence[str], out: Path) -> Path:
    """Write the page; a run's ``results.jsonl`` is dropped there.

    Raises RunError for a run without scores and InputError for one without changes of mind.
    """
    quantiles = scipy.stats.t.ppf(0.975, range(1, _MOST)).round(4).tolist()
    intervals = {"fewest": FEWEST, "reach": REACH, "t": quantiles}
    title = "Who follows? A leaderboard"
    data = {"title": title, "runs": {run: _rows(run) for run in runs}, "rule": intervals}
    return tables.write_whole(out, page.scripted("leaderboard", title, ["tables.css", "report.css"], data))


def _rows(run: str) -> list[list[Any]]:
    """A row a session: system, user, voice with the number of shifts, straight gain, cost, the catalogue's
    hash, gain after a change.
    """
    results = evaluate.read(run, "results")
    if PRIMARY not in results or results[PRIMARY].isna().all():
        reason = "nobody changed their mind, or its scores are old"
        raise InputError(f"run {run!r} has no gain after a change: {reason}")
    users = results["detail"].map(lambda detail: f" {detail['n_shifts']}")
    if "voice" in results:
        users = results["voice"].astype(str) + users
    rows = results[["model", "session_id"]].assign(users=users)
    rows[["straight_gain", "shift_cost"]] = results[["straight_gain", "shift_cost"]]
    rows["films"] = results["input_hash"].str.extract(r"catalog (\w+)")[0]
    rows["after"] = results[PRIMARY]
    return list(json.loads(rows.to_json(orient="values")))
