"""Findings about language models: against their yardsticks, in their replies, as user and as judge."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import stats
from crs_lib.core.dialogue import Dialogue
from crs_lib.stats import Finding, finding, no_finding


def beside(table: pd.DataFrame) -> Finding:
    """How many models beat all their yardsticks, from ``views.against``."""
    if table.empty:
        return no_finding("no model stands beside a yardstick")
    verdicts = table.groupby("system", sort=False)["shown"].agg(lambda shown: set(shown) == {"better"})
    better = [str(name) for name in verdicts.index[verdicts]]
    rows = [f"{row['system']} {row['difference']} to {row['yardstick']}" for row in table.to_dict("records")]
    head = (
        f"{stats.listed(better) if better else 'none'} of {stats.counted(len(verdicts), 'model')} under test"
    )
    return finding(f"Better than every yardstick: {head} ({'; '.join(rows)}).")


def replies(dialogues: Sequence[Dialogue], systems: Sequence[str]) -> Finding:
    """The largest share of replies that name a title which the catalogue lacks, among the systems."""
    rows = [
        {
            "model": talk.model_name, "session_id": talk.session_id,
            "unknown": float(bool(pair.system.meta.get("hallucinated_titles"))),
        }
        for talk in dialogues if talk.model_name in systems
        for pair in talk.pairs()
    ]  # fmt: skip
    if not rows:
        return no_finding("no model under test has a reply")
    shares = stats.shares_of(pd.DataFrame(rows), "unknown", system="model", scenario="session_id")
    most = max(shares, key=lambda name: shares[name].value)
    if not shares[most].value:
        return finding(f"No reply of {stats.listed([*shares])} names a title that the catalogue lacks.")
    return finding(
        f"{most} names titles that the catalogue lacks in {shares[most].percent} of its replies, the most of "
        f"{stats.counted(len(shares), 'model')} under test."
    )


def roles(dialogues: Sequence[Dialogue], judged: pd.DataFrame) -> Finding:
    """How many turns the model worded as a user, and which system it prefers as a judge.

    ``judged`` has a row a construct and model: value with its interval (``judge.headline``).
    """
    rows = [
        {"session_id": talk.session_id, "llm": float(pair.user.user_meta.get("worded_by") == "llm")}
        for talk in dialogues
        for pair in talk.pairs()
    ]
    if not rows or judged.empty:
        return no_finding("the small arm has no turn or no judgement")
    said = stats.mean_of(pd.DataFrame(rows), "llm", scenario="session_id")
    means = judged.groupby("model", sort=False)["value"].mean().sort_values(ascending=False, kind="stable")
    return finding(
        f"As a user the model voices {said.percent} of the turns as planned; as a judge it gives "
        + ", ".join(f"{name} {value:.2f}" for name, value in means.items())
        + f" points of 5, the mean of {stats.counted(judged['construct'].nunique(), 'construct')}."
    )


def costs(table: pd.DataFrame) -> Finding:
    """Calls and the mean seconds of the slowest kind of call, from ``views.call_costs``."""
    if table.empty:
        return no_finding("no call is kept")
    slow = table.loc[table["seconds"].idxmax()]
    kind = f"{slow['role']} calls" + (f" in {slow['mode']}" if slow["mode"] else "")
    return finding(
        f"{stats.counted(int(table['calls'].sum()), 'call')} were made; {kind} took longest, "
        f"{slow['seconds']:.1f} s each for {slow['tokens_in']:.0f} tokens read and "
        f"{slow['tokens_out']:.0f} written."
    )


def limits(results: pd.DataFrame, model: str) -> stats.Sentences:
    """What one model in a small arm does not show."""
    scenarios = stats.counted(results["session_id"].nunique(), "scenario")
    return stats.not_shown(
        f"One model ({model}) was tried: a larger one may understand what this one does not.",
        f"Users are simulated ({scenarios}, worded by templates): no person has taken part.",
        "Prompts and settings were not tuned for the model, and another prompt may serve it better.",
    )
