"""What language models did in a run, as system, user or judge, and what their calls cost: small tables."""

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from crs_lib import judge as judging
from crs_lib.catalog.titles import without_year
from crs_lib.core import prompts
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.tables import read_jsonl
from crs_lib.core.text import fold
from crs_lib.llm import calls
from crs_lib.metrics.base import LOWER, SESSION, Metric, declare
from crs_lib.report.figure_tables import call_log, draw
from crs_lib.stats import Design, cluster_bootstrap_differences
from crs_lib.systems.modes import copied_prompt

_EXAMPLES = 3  # texts outside the catalogue that are shown
_ID = re.compile(r"[^\s\d]*\d\S*")
_COPIED = "eight words of the instructions (docs/metrics.md)"
declare(Metric("copied_prompt", "copied", SESSION, 0, 1, LOWER, _COPIED))


def habits(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """How systems reply, a row each.

    Films a reply, and the shares of replies without film, said before in the session, and copied (the metric
    ``copied_prompt``); of the films of a reply, the share recommended before in the session (``films
    again``); ``unknown titles`` a reply that the catalogue lacks.
    """
    rows = []
    for talk in dialogues:
        rows += _replies(talk)
    replies = pd.DataFrame(rows).groupby("system", sort=False)
    shares = replies.mean(numeric_only=False).astype(float).round(2)
    shares["replies"] = replies.size()
    return shares


def _replies(talk: Dialogue) -> list[dict[str, object]]:
    """A row a reply of a session."""
    rows = []
    texts = set[str]()
    shown = set[str]()
    for pair in talk.pairs():
        text = " ".join(pair.system.text.split())
        films = pair.system.meta.get("rec_ids", ())
        row: dict[str, object] = {"system": talk.model_name, "replies": 1, "films": len(films)}
        row["films again"] = len(shown.intersection(films)) / len(films) if films else math.nan
        row["without film"] = not films
        row["said before"] = text in texts
        row["unknown titles"] = len(pair.system.meta.get("hallucinated_titles", ()))
        row["copied prompt"] = copied_prompt(text)
        rows.append(row)
        texts.add(text)
        shown.update(films)
    return rows


class Heard(NamedTuple):
    """What was recognised in the replies of a system; ``examples`` are texts outside the catalogue, each with
    its nearest title.
    """

    system: str
    replies: int = 0
    films: int = 0
    other_texts: int = 0
    unknown_ids: int = 0
    empty: int = 0
    failed: int = 0
    examples: str = ""

    @property
    def silent(self) -> bool:
        """Whether no reply names a film of the catalogue."""
        return self.films == 0


def heard(dialogues: Iterable[Dialogue], titles: Sequence[str], failed: Iterable[str] = ()) -> list[Heard]:
    """What was recognised in the replies of each system, over whole sessions.

    ``titles`` are the catalogue's; ``failed`` names the system of each session that failed. A text outside
    the catalogue that is one word with a figure in it counts as an id.
    """
    counts: dict[str, Counter[str]] = {}
    texts: dict[str, dict[str, None]] = {}
    for talk in dialogues:
        count = counts.setdefault(talk.model_name, Counter())
        others = texts.setdefault(talk.model_name, {})
        for pair in talk.pairs():
            unknown = [str(text) for text in pair.system.meta.get("hallucinated_titles", ())]
            ids = [text for text in unknown if _ID.fullmatch(text)]
            count["replies"] += 1
            count["films"] += len(pair.system.meta.get("rec_ids", ()))
            count["empty"] += not pair.system.text.strip()
            count["unknown_ids"] += len(ids)
            count["other_texts"] += len(unknown) - len(ids)
            others.update(dict.fromkeys(unknown))
    for system in failed:
        counts.setdefault(system, Counter())["failed"] += 1
    rows = []
    for system, count in counts.items():
        examples = [_nearest(text, titles) for text in list(texts.get(system, ()))[:_EXAMPLES]]
        rows.append(Heard(system, examples="; ".join(examples), **count))
    return rows


def _nearest(text: str, titles: Sequence[str]) -> str:
    """A text in quotes with the title of the catalogue that is most like it, if any is like it."""
    folded = {fold(title): title for title in titles}
    near = difflib.get_close_matches(fold(without_year(text)), folded, 1)
    if not near:
        return f"“{text}” (no title like it)"
    return f"“{text}” (nearest title: {folded[near[0]]})"


def call_costs(name: str) -> pd.DataFrame:
    """A kept call log by role, mode and model: calls, mean tokens, and mean seconds.

    Seconds are those of the calls that an engine in this process answered, no server or cache. InputError for
    a damaged log.
    """
    log = pd.DataFrame(read_jsonl(calls.kept(name))).query("error.isna()")
    own = (log["endpoint"] == "") & ~log["cache_hit"]
    mode = log["system"].where(log["role"] == "crs", "").str.partition(":")[0]
    log = log.assign(mode=mode, seconds=log["seconds"].where(own))
    groups = log.groupby(["role", "mode", "model"])
    table = groups[["tokens_in", "tokens_out", "seconds"]].mean()
    table.insert(0, "calls", groups.size())
    return table.reset_index().astype({"tokens_in": int, "tokens_out": int}).round({"seconds": 1})


def against(results: pd.DataFrame, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Each system beside the one that it must beat to count, a row a pair.

    Gain, difference with 95 % interval over shared scenarios, and whether it is better. InputError for a
    system without results.
    """
    different = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    design = Design("model", "session_id", "normalised_gain", different)
    gaps = cluster_bootstrap_differences(results, design)
    means = results.groupby("model")["normalised_gain"].mean().round(2)
    intervals = []
    for row in gaps.itertuples():
        intervals.append(f"{row.diff:+.2f} [{row.low:+.2f}, {row.high:+.2f}]")
    table = pd.DataFrame({"system": gaps["a"]})
    table["gain"] = gaps["a"].map(means)
    table["yardstick"] = gaps["b"]
    table["its gain"] = gaps["b"].map(means)
    table["difference"] = intervals
    table["shown"] = np.select([gaps["low"] > 0, gaps["high"] < 0], ["better", "worse"], "not better")
    return table


def taking_part(run: str, convention: str = "", *, figures: bool = False) -> None:
    """Show what judges and language models did in a run, in tables or figures, if anything."""
    words = prompts.lists("movies/pages")["models"]
    if judging.scores_of(run):
        if figures:
            draw(run, "judge_scatter", convention=convention)
        else:
            _show(words["judged"], judging.shown_scores(run), judging.reliability_of(run).round(3))
    if call_log(run).exists():
        if figures:
            draw(run, "tokens_and_time")
        else:
            _show(words["called"], judging.usage(run).round({"seconds": 1, "tokens_per_second": 1}))


def _show(words: str, *frames: object) -> None:
    from IPython.display import Markdown, display

    display(Markdown(words), *frames)
