"""What the CoSRec notebooks find: sentences made from their tables, each with its number and interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib import stats
from crs_lib.cosrec.evaluate import FLOORS, JUDGED_KINDS, POOL_FLOOR, reader
from crs_lib.cosrec.intents import ROUTER
from crs_lib.cosrec.records import Partition
from crs_lib.cosrec.rewriting import rewrite, said_by_user
from crs_lib.stats import Estimate, Finding

Record = Mapping[str, Any]
_BY: dict[str, Any] = {"scenario": "conversation"}


def length(partition: Partition) -> Finding:
    """How many turns a user takes in a conversation, conversations resampled."""
    rows = pd.DataFrame(
        {"conversation": name, "turns": len(talk.turns)} for name, talk in partition.conversations.items()
    )
    turns = stats.mean_of(rows, "turns", **_BY)
    return stats.finding(
        f"A user takes {turns} turns on average in the {turns.n} conversations of {partition.name}."
    )


def wanted(majority: pd.DataFrame) -> Finding:
    """Which intent most annotators see most often, conversations resampled."""
    both = {
        kind: stats.share_of(majority.assign(on=majority[kind] == 1), "on", **_BY) for kind in JUDGED_KINDS
    }
    first, second = sorted(JUDGED_KINDS, key=lambda kind: -both[kind].value)
    return stats.finding(
        f"The majority of annotators sees a {first} in {both[first].percent} of the {len(majority)} user "
        "turns and a "
        f"{second} in {both[second].percent}."
    )


def doubts(majority: pd.DataFrame) -> Finding:
    """In how many turns exactly half of the annotators gave an intent, conversations resampled."""
    share = stats.share_of(majority.assign(tied=majority["ties"] > 0), "tied", **_BY)
    return stats.finding(
        f"In {share.percent} of the turns exactly half of the annotators gave an intent, so that no "
        "majority is there."
    )


def claims(verdicts: pd.DataFrame) -> Finding:
    """How many stated numbers are reproduced; none where the corpus is not the release."""
    counts = verdicts["verdict"].value_counts()
    if counts.get("another corpus", 0):
        return stats.no_finding("this corpus is not the release, whose statistics these are")
    return stats.finding(
        f"Of {len(verdicts)} stated statistics {counts.get('reproduced', 0)} are reproduced, "
        f"{counts.get('differs', 0)} "
        f"differ and {counts.get('not verifiable', 0)} cannot be verified."
    )


def rating(ratings: pd.DataFrame) -> Finding:
    """The mean rating of a conversation, conversations resampled."""
    mean = stats.mean_of(ratings, "average", **_BY)
    return stats.finding(
        f"Conversations are rated {mean} of 5 on average over annotators and aspects ({mean.n} "
        "conversations)."
    )


def attempts(records: Sequence[Record]) -> Finding:
    """How many conversations keep the rules at the first draft, conversations resampled."""
    share = stats.share_of(_made(records).assign(first=[r["attempt"] == 1 for r in records]), "first", **_BY)
    return stats.finding(
        f"{share.percent} of {stats.counted(len(records), 'conversation')} keep the rules at the first draft."
    )


def keywords(records: Sequence[Record]) -> Finding:
    """How many preference keywords a buyer gets, conversations resampled."""
    rows = pd.DataFrame(
        [(r["id"], len(user["keywords"])) for r in records for user in r["users"]],
        columns=["conversation", "keywords"],
    )
    if rows.empty:
        return stats.no_finding("no buyer has a profile")
    mean = stats.mean_of(rows, "keywords", **_BY)
    return stats.finding(f"A buyer gets {mean} keywords ({stats.counted(len(rows), 'buyer')}).")


def lengths(records: Sequence[Record]) -> Finding:
    """How many turns the user takes in a generated conversation, conversations resampled."""
    turns = _made(records).assign(turns=[r["conversation"].count("\nU: ") + 1 for r in records])
    if turns["turns"].eq(turns["turns"].iloc[0]).all():
        return stats.finding(f"The user takes {turns['turns'].iloc[0]} turns in every conversation.")
    return stats.finding(f"The user takes {stats.mean_of(turns, 'turns', **_BY)} turns in a conversation.")


def query_words(partition: Partition, rewriters: Sequence[str]) -> Finding:
    """How much longer the last rewriter's queries are than the first one's, paired by conversation."""
    rows = [
        (name, rewriter, len(rewrite(rewriter, said_by_user(talk, turn)).split()))
        for name, talk in partition.conversations.items()
        for turn in range(len(talk.turns))
        for rewriter in (rewriters[0], rewriters[-1])
    ]
    if rewriters[0] == rewriters[-1]:
        return stats.no_finding("one rewriter alone is compared with nothing")
    frame = pd.DataFrame(rows, columns=["conversation", "system", "words"])
    gap = stats.difference_of(frame, rewriters[-1], rewriters[0], "words", **_BY)
    return stats.compared(f"“{rewriters[-1]}”", f"“{rewriters[0]}”", gap, "number of words in a query")


def routing(joint: pd.DataFrame) -> Finding:
    """How many judged intents the router sends to their module, conversations resampled."""
    if joint.empty:
        return stats.no_finding("the run has no routes")
    one = joint[joint["system"] == joint["system"].iloc[0]]
    shares = [_right(one, kind) for kind in JUDGED_KINDS]
    return stats.finding(f"The router sends {shares[0]} and {shares[1]} to the right module.")


def _right(rows: pd.DataFrame, kind: str) -> str:
    part = rows[rows["kind"] == kind]
    return f"{stats.share_of(part, 'right_module', **_BY).percent} of {len(part)} {kind} intents"


def systems(scores: pd.DataFrame, measure: str, kind: str = "recommendation") -> Finding:
    """The best system of a kind of topic, and what it is above the random order of the judged pool."""
    part = scores[scores["kind"] == kind]
    means = part[~part["system"].isin(FLOORS)].groupby("system")[measure].mean()
    if means.empty:
        return stats.no_finding(f"no run has {kind} topics")
    best = str(means.idxmax())
    above = stats.difference_of(part, best, POOL_FLOOR, measure, **_BY)
    level = stats.mean_of(part[part["system"] == best], measure, **_BY)
    return stats.finding(
        f"Of {len(means)} systems {best} ranks {kind} topics best, {measure} {level}; its difference to "
        f"the {POOL_FLOOR} is "
        f"{above}{above.doubt}."
    )


def readers(partition: Partition, scores: pd.DataFrame, measure: str, mapping: str) -> Finding:
    """Whether requests without a user are served better than those of users, by the best system."""
    recommended = reader(partition, scores[scores["kind"] == "recommendation"], mapping)
    rows = recommended[recommended["reader"].isin(["generic", "user"])]
    means = rows[~rows["system"].isin(FLOORS)].groupby("system")[measure].mean()
    if means.empty or rows["reader"].nunique() < 2:
        return stats.no_finding("the topics stand for one kind of reader only under this mapping")
    best = str(means.idxmax())
    gap = stats.difference_of(
        rows[rows["system"] == best], "generic", "user", measure, system="reader", **_BY
    )
    return stats.compared("requests without a user", "those of users", gap, f"{measure} by {best}")


def price(joint: pd.DataFrame, measure: str) -> Finding:
    """What the router's mistakes cost the system that is best without them, conversations resampled."""
    if joint.empty:
        return stats.no_finding("the run has no routes")
    best = str(joint.groupby("system")["oracle"].mean().idxmax())
    one = joint[joint["system"] == best]
    lost = stats.mean_of(one.assign(lost=one["oracle"] - one["routed"]), "lost", **_BY)
    return stats.finding(f"The router's mistakes cost {best} {lost} of {measure}, over {len(one)} intents.")


def distinguished(differences: pd.DataFrame, alpha: float = 0.05) -> Finding:
    """How many pairs of systems the sign-flip test distinguishes after Holm."""
    if differences.empty:
        return stats.no_finding("one system alone is compared with nothing")
    apart = differences[differences["p_holm"] <= alpha]
    largest = differences.loc[differences["diff"].abs().idxmax()]
    size = _estimate(largest, "diff")
    return stats.finding(
        f"{len(apart)} of {len(differences)} pairs differ after Holm; the largest difference is "
        "that of "
        f"{largest['a']} and {largest['b']} in {largest['kind']}, {size}."
    )


def personal(table: pd.DataFrame) -> Finding:
    """What the user's keywords change for the system that they help most."""
    if table.empty:
        return stats.no_finding("no system was run with and without the user's keywords")
    row = table.loc[table["mean gain"].idxmax()]
    gain = _estimate(row, "mean gain")
    return stats.finding(
        f"The user's keywords help {row['system']} on {row['helped']} of {row['n']} topics and hurt on "
        f"{row['hurt']}; "
        f"the mean gain is {gain}{gain.doubt}."
    )


def linked(links: pd.DataFrame) -> Finding:
    """How often the best linker names the product first, intents resampled."""
    if links.empty or not int(links["n"].iloc[0]):
        return stats.no_finding("no question of details names a product, or the run has no links")
    best = links.loc[links["P@1"].idxmax()]
    hits = round(float(best["P@1"]) * int(best["n"]))
    rows = pd.DataFrame({"intent": range(int(best["n"]))}).assign(hit=lambda t: t["intent"] < hits)
    return stats.finding(
        f"{best['system']} names the product of a question first in "
        f"{stats.share_of(rows, 'hit', scenario='intent').percent} of "
        f"{best['n']} cases."
    )


def intents(models: pd.DataFrame, ceiling: pd.DataFrame) -> Finding:
    """Micro F1 of the shipped router beside what one annotator reaches against the others."""
    found = [
        _row(frame[frame["intent"] == "micro"], "f1")
        for frame in (models[models["model"] == ROUTER], ceiling)
    ]
    return stats.finding(
        f"The router {ROUTER!r} reaches a micro F1 of {found[0]} on the curated conversations; one "
        "annotator reaches "
        f"{found[1]} against the others on the crowd."
    )


def rewrites(table: pd.DataFrame) -> Finding:
    """ROUGE-L of the extractor and of the best heuristic, against the canonical query."""
    rows = table[(table["reference"] == "canonical") & (table["system"] != "one annotator")]
    others = rows[rows["system"] != "extractor"]
    best = others.loc[others["rougeL"].idxmax()]
    found = _row(rows[rows["system"] == "extractor"], "rougeL")
    return stats.finding(
        f"The extractor reaches a ROUGE-L of {found} with the canonical query, the best heuristic "
        f"({best['system']}) "
        f"{_row(others.loc[[others['rougeL'].idxmax()]], 'rougeL')}."
    )


_PREDICTORS = {"model": "the learned prediction", "distinct words": "the share of distinct words"}


def quality(predicted: pd.DataFrame, noise: pd.DataFrame) -> Finding:
    """How far both predictors follow the ratings of curated, the better one first, and how far any could."""
    known = predicted["predictor"].isin(_PREDICTORS)
    rows = predicted[known & (predicted["partition"] == "curated")]
    rows = rows.dropna(subset="correlation").sort_values("correlation", ascending=False)
    if rows.empty:
        return stats.no_finding("no curated conversation has ratings that differ")
    found = {
        _PREDICTORS[name]: _row(rows[rows["predictor"] == name], "correlation") for name in rows["predictor"]
    }
    told = ", and ".join(f"with {name} at {one}{one.doubt}" for name, one in found.items())
    ceiling = noise[(noise["partition"] == "curated") & (noise["ceiling"] == "a perfect predictor")]
    n, best = next(iter(found.values())).n, _row(ceiling, "correlation")
    return stats.finding(
        f"The ratings of {n} curated conversations correlate {told}; a perfect predictor would reach {best}."
    )


def limits(source: str, *estimates: Estimate, measure: str = "nDCG@10") -> stats.Sentences:
    """What a run on this corpus does not show."""
    return stats.not_shown(
        "The corpus is made up: its numbers compare settings of this code and say nothing about shops or "
        "shoppers."
        if source == "sample"
        else "",
        stats.resolution(estimates, measure).replace("scenario", "conversation"),
        "Judgments cover a pool: a product or passage outside it counts as not relevant, whatever it is.",
    )


def written_limits(source: str, writer: str) -> stats.Sentences:
    """What conversations by this writer do not show."""
    return stats.not_shown(
        "The rules of the writer `template` cannot break the rules that drafts are judged by: they show the "
        "pipeline and no model."
        if writer == "template"
        else "",
        "Keeping the rules says nothing about how natural a conversation is; people must read some.",
        limits(source)[0] if source == "sample" else "",
    )


def level(scores: pd.DataFrame, measure: str) -> Estimate:
    """A measure of the first system over its topics, conversations resampled: how wide intervals are here."""
    return stats.mean_of(scores[scores["system"] == scores["system"].iloc[0]], measure, **_BY)


def _row(rows: pd.DataFrame, value: str) -> Estimate:
    return _estimate(rows.iloc[0], value)


def _estimate(row: "pd.Series[Any]", value: str) -> Estimate:
    n = int(row["n"]) if "n" in row else 0
    return Estimate(float(row[value]), float(row["low"]), float(row["high"]), n)


def _made(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame({"conversation": [record["id"] for record in records]})
