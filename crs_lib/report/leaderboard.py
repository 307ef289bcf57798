"""A page of the systems of runs, ordered by gain after a change, into which other runs can be dropped."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scipy.stats

from crs_lib import evaluate
from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.metrics.base import PRIMARY
from crs_lib.report import page
from crs_lib.stats.bounded import REACH
from crs_lib.stats.estimate import FEWEST

_MOST = 500  # degrees of freedom that the page can look up


def leaderboard(runs: Sequence[str], out: Path) -> Path:
    """Write the page; a run's ``results.jsonl`` is dropped there.

    Raises RunError for a run without scores and InputError for one without changes of mind.
    """
    quantiles = scipy.stats.t.ppf(0.975, range(1, _MOST)).round(4).tolist()
    rule = {"fewest": FEWEST, "reach": REACH, "t": quantiles}
    title = "Who follows? A leaderboard"
    data = {"title": title, "runs": {run: _rows(run) for run in runs}, "rule": rule}
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
