"""What language models did in a run, as system, user or judge, and what their calls cost: small tables."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from crs_lib import judge as judging
from crs_lib.core import prompts
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.tables import read_jsonl
from crs_lib.llm import calls
from crs_lib.metrics.base import LOWER, SESSION, Metric, declare
from crs_lib.report.figure_tables import call_log, draw
from crs_lib.stats import Design, cluster_bootstrap_differences
from crs_lib.systems.modes import copied_prompt

_COPIED = "eight words of the instructions (docs/metrics.md)"
declare(Metric("copied_prompt", "copied", SESSION, 0, 1, LOWER, _COPIED))


def habits(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """By system: films a reply, and the shares of replies without film, said before in the session, and
    copied (the metric ``copied_prompt``); of the films of a reply, the share recommended before in the
    session (``films again``); ``unknown titles`` a reply that the catalogue lacks.
    """
    rows = []
    for talk in dialogues:
        heard, had = set[str](), set[str]()
        for pair in talk.pairs():
            meta, text = pair.system.meta, " ".join(pair.system.text.split())
            films = meta.get("rec_ids", ())
            again = len(had.intersection(films)) / len(films) if films else math.nan
            rows.append({
                "system": talk.model_name, "replies": 1, "films": len(films), "films again": again,
                "without film": not films, "said before": text in heard,
                "unknown titles": len(meta.get("hallucinated_titles", ())),
                "copied prompt": copied_prompt(text),
            })  # fmt: skip
            heard.add(text)
            had.update(films)
    grouped = pd.DataFrame(rows).groupby("system", sort=False)
    shares = grouped.mean(numeric_only=False).astype(float).round(2)
    return shares.assign(replies=grouped["replies"].sum().astype(int))


def call_costs(name: str) -> pd.DataFrame:
    """A kept call log by role, mode and model: calls, mean tokens, and mean seconds of the calls that an
    engine in this process answered, no server or cache. InputError for a damaged log.
    """
    rows = pd.DataFrame(read_jsonl(calls.kept(name))).query("error.isna()")
    own = (rows["endpoint"] == "") & ~rows["cache_hit"]
    mode = rows["system"].where(rows["role"] == "crs", "").str.partition(":")[0]
    rows = rows.assign(mode=mode, seconds=rows["seconds"].where(own))
    means = {name: (name, "mean") for name in ("tokens_in", "tokens_out", "seconds")}
    table = rows.groupby(["role", "mode", "model"], as_index=False).agg(calls=("request", "size"), **means)
    return table.astype({"tokens_in": int, "tokens_out": int}).round({"seconds": 1})


def against(results: pd.DataFrame, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Each system beside the one that it must beat to count, a row a pair: gain, difference with 95 %
    interval over shared scenarios, and whether it is better. InputError for a system without results.
    """
    kept = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    design = Design(pairs=kept, system="model", scenario="session_id", value="normalised_gain")
    found = cluster_bootstrap_differences(results, design)
    means = results.groupby("model")["normalised_gain"].mean().round(2)
    table = pd.DataFrame({"system": found["a"], "gain": found["a"].map(means), "yardstick": found["b"]})
    told = [f"{row.diff:+.2f} [{row.low:+.2f}, {row.high:+.2f}]" for row in found.itertuples()]
    beyond = np.select([found["low"] > 0, found["high"] < 0], ["better", "worse"], "not better")
    return table.assign(**{"its gain": found["b"].map(means), "difference": told, "shown": beyond})


def taking_part(run: str, convention: str = "", *, figures: bool = False) -> None:
    """Show what judges and language models did in a run, in tables or figures, if anything."""
    words = prompts.lists("movies/pages")["models"]
    if judging.scores_of(run) and figures:
        draw(run, "judge_scatter", convention=convention)
    elif judging.scores_of(run):
        _show(words["judged"], judging.shown_scores(run), judging.reliability_of(run).round(3))
    if call_log(run).exists() and figures:
        draw(run, "tokens_and_time")
    elif call_log(run).exists():
        _show(words["called"], judging.usage(run).round({"seconds": 1, "tokens_per_second": 1}))


def _show(words: str, *frames: object) -> None:
    from IPython.display import Markdown, display

    display(Markdown(words), *frames)
