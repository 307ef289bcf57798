"""What the CoSRec notebooks show: figures (they show and return nothing) and small tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib import figures
from crs_lib.core.text import shorten
from crs_lib.cosrec import figure_tables
from crs_lib.cosrec.config import RetrieveConfig
from crs_lib.cosrec.records import Conversation, Partition
from crs_lib.cosrec.rewriting import rewrite, said_by_user


def average_ratings(counts: pd.Series) -> None:
    """Bars: conversations by average rating in bins of one half."""
    figures.draw("cosrec_average_ratings", figure_tables.average_ratings(counts))


def aspect_ratings(counts: pd.DataFrame) -> None:
    """Grouped bars: conversations by their rounded mean rating of each aspect."""
    figures.draw("cosrec_aspect_ratings", figure_tables.aspect_ratings(counts))


def judgments(counts: pd.DataFrame) -> None:
    """Grouped bars: intents by the number of their judgments of each grade."""
    figures.draw("cosrec_judgments", figure_tables.judgments(counts))


def conversation(talk: Conversation, lines: int = 16, width: int = 100) -> pd.DataFrame:
    """The conversation as a table of shortened lines, for reading in a notebook."""
    table = talk.table().head(lines)
    return table.assign(text=[shorten(text, width) for text in table["text"]]).set_index("turn")


def systems(means: pd.DataFrame, measure: str) -> None:
    """Points with intervals: the mean of a measure by kind of topic and system."""
    figures.draw("cosrec_systems", figure_tables.systems(means, measure))


def shortened(table: pd.DataFrame, width: int = 70) -> pd.DataFrame:
    """A table whose texts are cut, for reading in a notebook."""
    return table.map(lambda value: shorten(value, width) if isinstance(value, str) else value)


def generated(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a generated conversation: query, target, user turns, attempt, repairs."""
    rows = [
        {
            "id": record["id"],
            "query": record["query"],
            "target": shorten(record["target_title"], 40),
            "user turns": record["conversation"].count("\nU: ") + 1,
            "attempt": record["attempt"],
            "repairs": len(record["repairs"]),
        }
        for record in records
    ]
    return pd.DataFrame(rows).set_index("id")


def profiles(records: Sequence[Mapping[str, Any]], most: int = 6, width: int = 60) -> pd.DataFrame:
    """The first buyers' profiles: conversation, reviews read, keywords, summary."""
    rows = [
        {
            "id": record["id"], "reviews": user["reviews"], "keywords": "; ".join(user["keywords"]),
            "summary": shorten(user["summary"], width),
        }
        for record in records
        for user in record["users"]
    ]  # fmt: skip
    return pd.DataFrame(rows[:most], columns=["id", "reviews", "keywords", "summary"]).set_index("id")


def system_table(config: RetrieveConfig) -> pd.DataFrame:
    """One row a system: retriever, rewriter, router, whether the user's keywords join the query."""
    rows = [
        {
            "system": system.name, "retriever": system.retriever, "rewriter": system.rewriter,
            "router": config.router, "keywords": "yes" if system.personal else "",
        }
        for system in config.systems()
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("system")


def rewrites(partition: Partition, rewriters: Sequence[str], width: int = 60) -> pd.DataFrame:
    """The first conversation's turns as each rewriter puts them."""
    talk = next(iter(partition.conversations.values()))
    rows = []
    for turn in range(len(talk.turns)):
        said = said_by_user(talk, turn)
        rows.append({"turn": turn, **{name: shorten(rewrite(name, said), width) for name in rewriters}})
    return pd.DataFrame(rows).set_index("turn")


def run_table(runs: Mapping[str, Mapping[str, Sequence[Any]]]) -> pd.DataFrame:
    """One row a run: topics, hits, and hits for a topic on average."""
    rows = []
    for name, run in runs.items():
        hits = sum(map(len, run.values()))
        rows.append(
            {"system": name, "topics": len(run), "hits": hits, "hits a topic": round(hits / len(run), 1)}
        )
    return pd.DataFrame(rows).set_index("system")


def route_table(routes: Mapping[str, Mapping[tuple[str, int], Sequence[str]]]) -> pd.DataFrame:
    """User turns by the modules that they are sent to, one column a system."""
    counts = {
        name: pd.Series([", ".join(modules) or "none" for modules in found.values()]).value_counts()
        for name, found in routes.items()
    }
    return pd.DataFrame(counts).fillna(0).astype(int).sort_index().rename_axis("modules")


def by_turn(means: pd.DataFrame) -> pd.DataFrame:
    """Mean of the main measure: systems by kind of topic and user turn, counted from 0."""
    wide = means.pivot_table(index=["kind", "system"], columns="turn", values="mean", sort=True)
    return wide.round(3).astype(object).where(wide.notna(), "")


def intent_table(models: pd.DataFrame, ceiling: pd.DataFrame) -> pd.DataFrame:
    """F1 of the models, with micro's interval in words, and the human ceiling as the last row."""
    both = pd.concat([models, ceiling.assign(model="one annotator (crowd)")], ignore_index=True)
    wide = both.pivot_table(index="model", columns="intent", values="f1", sort=False).round(3)
    micro = both[both["intent"] == "micro"].set_index("model")
    wide["micro, 95 %"] = [f"{micro.loc[m, 'low']:.2f} to {micro.loc[m, 'high']:.2f}" for m in wide.index]
    return wide
