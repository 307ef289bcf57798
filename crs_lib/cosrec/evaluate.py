"""Score runs on CoSRec's judgments: by module, by user index, by turn, and jointly with the router."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError, Match, joined, match
from crs_lib.cosrec.records import Intent, Partition, Topic, topic, user_of
from crs_lib.metrics.ranking import random_floor, score_run
from crs_lib.retrieval.runs import Hit, Ranking, Run, ranked
from crs_lib.stats import Design, cluster_bootstrap, cluster_bootstrap_differences, holm, sign_flip_pairs

MEASURES = ("nDCG@10", "AP", "P@10", "RR@10", "R@100", "ERR@10", "Judged@10")
POOL_FLOOR = "random order of the pool"
COLLECTION_FLOOR = "random order of the collection"
FLOORS = (POOL_FLOOR, COLLECTION_FLOOR)
_FORM = "topics look like <conversation>_<turn>_<position>[#<user index>]"
_DOCUMENTS = "write document ids as the judgments do"
_TIES = "equal scores"
_TIE_RULE = "are ranked by id descending, as trec_eval; RR@k and Judged@k of ir_measures take the lower id"
_ROUTED = ["right_module", "routed", "oracle"]
Runs = Mapping[str, Mapping[str, Ranking]]
Routes = Mapping[tuple[str, int], Sequence[str]]


def _topics(partition: Partition) -> pd.DataFrame:
    """One row a judged topic: topic, intent, conversation, kind, turn, user_index (missing for search)."""
    frame = pd.DataFrame(map(topic, partition.qrels), columns=Topic._fields)
    return frame.rename(columns={"id": "topic"}).astype({"user_index": "Int64"})


def score(partition: Partition, runs: Runs, measures: Sequence[str] = MEASURES) -> pd.DataFrame:
    """One row a run and judged topic: system, topic, intent, conversation, kind, turn, user_index (missing
    for search), one column a measure, missing. A topic that a run lacks scores 0 (``missing`` is True).
    Raises InputError for a partition without judgments, for no run, and for a run of which no topic or no
    list meets a judgment.
    """
    if not partition.qrels:
        raise InputError(f"the partition {partition.name!r} has no judgments (qrels.qrels) to score runs on")
    if not runs:
        raise InputError("there is no run to score; give at least one")
    tables = []
    for name, run in runs.items():
        _matches(partition, name, run)
        scored = score_run(run, partition.qrels, measures)
        missing = scored.topics.index.isin(scored.missing)
        table = _topics(partition).join(scored.topics.assign(missing=missing), on="topic")
        tables.append(table.assign(system=name))
    return pd.concat(tables, ignore_index=True)


def _matches(partition: Partition, name: str, run: Mapping[str, Ranking]) -> list[Match]:
    """What of a run meets the judgments: its topics, the judged topics of each kind that it has, and the
    lists that hold a judged document. Raises InputError where no topic or no list does; below half it warns.
    """
    if not run:
        raise InputError(f"run {name!r} is empty; {_FORM}")
    qrels = partition.qrels
    account = [match(f"topics of run {name!r}", run, qrels, _FORM)]
    for kind, judged in _topics(partition).groupby("kind")["topic"]:
        if run.keys() & set(judged):
            account.append(match(f"judged {kind} topics in run {name!r}", judged, run))
        else:
            account.append(Match(0, len(judged), f"run {name!r} has no judged {kind} topic"))
    pool = set[str]().union(*qrels.values())
    strangers = []
    for topic_id in qrels.keys() & run.keys():
        listed = [hit.id for hit in run[topic_id]]
        if qrels[topic_id].keys().isdisjoint(listed):
            strangers += listed[:1]
    met = account[0].matched - len(strangers)
    account.append(joined(f"lists of run {name!r} with a judged document", met, strangers, pool, _DOCUMENTS))
    return account


def matched(partition: Partition, runs: Runs, unread: Sequence[str] = ()) -> pd.DataFrame:
    """The accounts of all runs, one a row: matched, n, sentence; the files not read, and equal scores."""
    accounts = [Match(0, 1, f"{name} is no run file and was not read") for name in unread]
    for name, run in runs.items():
        accounts += _matches(partition, name, run)
        tied = sum(map(_has_ties, run.values()))
        if tied:
            sentence = f"{_TIES} in {tied:,} of {len(run):,} topics of run {name!r} {_TIE_RULE}"
            accounts.append(Match(len(run) - tied, len(run), sentence))
    return pd.DataFrame(accounts, columns=Match._fields)


def _has_ties(ranking: Ranking) -> bool:
    """Whether two scores are equal as the 32-bit numbers that trec_eval compares."""
    with np.errstate(over="ignore"):
        singles = np.array([hit.score for hit in ranking]).astype(np.float32)
    return len(set(singles.tolist())) < len(singles)


def account(matched: pd.DataFrame) -> str:
    """What was passed over, in a line that ends the evaluation; ``matched`` is that of :func:`matched`."""
    sentences = matched["sentence"]
    read = sentences.str.startswith("topics of run").sum()
    tied = sentences.str.startswith(_TIES)
    joins = matched.assign(share=matched["matched"] / matched["n"])[~tied]
    worst = joins.sort_values("share", kind="stable").head(3)
    least = worst.loc[worst["share"] < 1, "sentence"].tolist()
    passed_over = "; ".join([*least, *sentences[tied].head(1)]) or "none"
    return f"runs read: {read}; left out or least matched: {passed_over}; list: matched.csv"


def with_floors(
    partition: Partition,
    scores: pd.DataFrame,
    measures: Sequence[str],
    sizes: Mapping[str, int] | None = None,
    **how: Any,
) -> pd.DataFrame:
    """The scores and, as systems of their own, what chance scores. ``random order of the pool`` shuffles the
    judged documents: the floor of a run that only re-ranks them. ``random order of the collection`` draws
    from all products or passages: the floor of a run that searches the whole collection. It is there where
    ``sizes`` says by kind how many documents the collection has. ``how`` are ``draws`` and ``seed``.
    """
    topics = _topics(partition)
    floors = {POOL_FLOOR: random_floor(partition.qrels, measures, sizes=None, **how)}
    if sizes:
        searched = topics[topics["kind"].isin(list(sizes))]
        documents = searched.set_index("topic")["kind"].map(sizes).to_dict()
        floors[COLLECTION_FLOOR] = random_floor(partition.qrels, measures, sizes=documents, **how)
    tables = [scores]
    for name, floor in floors.items():
        table = topics.join(floor, on="topic", how="inner")
        tables.append(table.assign(missing=False, system=name))
    return pd.concat(tables, ignore_index=True)


def means(
    scores: pd.DataFrame, measures: Sequence[str] = MEASURES, by: Sequence[str] = ("kind",), **draws: Any
) -> pd.DataFrame:
    """Mean of each measure by group and system, with an interval over conversations. ``draws`` are
    ``resamples`` and ``seed``, here and below. ``by`` names columns such as kind, user_index, turn. ``n``
    counts topics, ``clusters`` conversations; ``answered`` is the share of the topics that a run has.
    """
    keys = list(by)
    tables = []
    for (group, part), measure in product(scores.groupby(keys, dropna=False, sort=True), measures):
        design = Design(scenario="conversation", value=measure, **draws)
        table = cluster_bootstrap(part, design).assign(measure=measure)
        answered = 1 - part.groupby("system")["missing"].mean()
        table["answered"] = table["system"].map(answered)
        for key, value in zip(keys, group, strict=True):
            table[key] = value
        tables.append(table)
    columns = [*keys, "measure", "system", "mean", "low", "high", "n", "clusters", "answered"]
    return pd.concat(tables, ignore_index=True)[columns]


def reader(partition: Partition, scores: pd.DataFrame, mapping: str) -> pd.DataFrame:
    """The scores with a column ``reader``: the user that the topic's index denotes under a mapping. ``user``:
    a user of the conversation; ``generic``: index 0 read as the request without a user; ``unresolved``: no
    user has that index; missing for search topics. The release does not say which mapping holds, so look at
    both.
    """
    readers = [_reader(partition, topic(name), mapping) for name in scores["topic"]]
    return scores.assign(reader=readers)


def _reader(partition: Partition, judged: Topic, mapping: str) -> str | None:
    if judged.user_index is None:
        return None
    if user_of(partition, judged, mapping):
        return "user"
    if mapping == "zero_is_generic" and judged.user_index == 0:
        return "generic"
    return "unresolved"


def joint(scores: pd.DataFrame, routes: Mapping[str, Routes], measure: str = "nDCG@10") -> pd.DataFrame:
    """Each judged intent once for each system, with its score under the system's own router and an oracle.
    ``oracle`` is the mean over the intent's user variants; ``routed`` is the same, and 0 where the router did
    not send the turn to the intent's module. Raises InputError for a system without routes.
    """
    lacking = [repr(name) for name in scores["system"].unique() if name not in routes]
    if lacking:
        raise InputError(f"no routes for {', '.join(lacking)}; give those of each system")
    keys = ["system", "conversation", "turn", "intent", "kind"]
    frame = scores.groupby(keys, sort=False)[measure].mean().rename("oracle").reset_index()
    sent = []
    for row in frame.itertuples():
        modules = routes[row.system].get((row.conversation, row.turn), ())
        sent.append(row.kind in modules)
    return frame.assign(right_module=sent, routed=frame["oracle"].where(sent, 0.0))


def lost_to_routing(frame: pd.DataFrame) -> pd.DataFrame:
    """The intents of the system that is best with oracle routing, with what its router ``lost``. ``frame`` is
    that of :func:`joint`; empty for a run without routes.
    """
    if frame.empty:
        return pd.DataFrame(columns=["conversation", "lost"])
    best = frame.groupby("system")["oracle"].mean().idxmax()
    rows = frame[frame["system"] == best]
    return rows.assign(lost=rows["oracle"] - rows["routed"])


def joint_means(frame: pd.DataFrame) -> pd.DataFrame:
    """The joint measure in [0, 1]: mean over intents by kind, and ``macro``, the mean of the two kinds. One
    row a system and kind: share of intents sent to the right module, score with the router, score with oracle
    routing. The gap of the last two is what the router costs.
    """
    groups = frame.groupby(["system", "kind"], sort=False)
    kinds = groups[_ROUTED].mean().assign(n=groups.size()).reset_index()
    systems = kinds.groupby("system", sort=False)
    macro = systems[_ROUTED].mean().assign(n=systems["n"].sum(), kind="macro").reset_index()
    return pd.concat([kinds, macro], ignore_index=True)


def differences(scores: pd.DataFrame, measure: str = "nDCG@10", **draws: Any) -> pd.DataFrame:
    """Every pair of systems, for each kind: difference with its interval, sign-flip p, p after Holm. Topics
    of one conversation stand together: the unit of test and interval is the conversation. Holm is over all
    rows of the table; p is missing where a kind is judged in a single conversation.
    """
    tables = []
    for kind, part in scores.groupby("kind", sort=True):
        design = Design(scenario="conversation", value=measure, **draws)
        gaps = cluster_bootstrap_differences(part, design)
        tests = gaps[["a", "b"]].assign(p=float("nan"))
        if len(set(part["conversation"])) > 1:
            whole = part.groupby(["system", "conversation"], sort=False)[measure].mean().reset_index()
            tests = sign_flip_pairs(whole, Design("system", "conversation", measure, seed=design.seed))
        table = gaps.drop(columns=["error"]).merge(tests[["a", "b", "p"]], on=["a", "b"])
        tables.append(table.assign(kind=kind))
    frame = pd.concat(tables, ignore_index=True)
    frame["p_holm"] = holm(frame["p"].to_numpy())
    return frame[["kind", "a", "b", "diff", "low", "high", "p", "p_holm", "n", "n_missing"]]


def personalisation(
    scores: pd.DataFrame, twins: Mapping[str, str], measure: str = "nDCG@10", **draws: Any
) -> pd.DataFrame:
    """Changes by the user's keywords in the query: topics helped, hurt, left as they are. ``twins`` maps a
    system to the same with keywords. Only recommendation topics whose score is there for both count; the
    interval of 95 % is over conversations. Empty where no pair was scored.
    """
    recommended = scores[scores["kind"] == "recommendation"]
    wide = recommended.pivot_table(index=["topic", "conversation"], columns="system", values=measure)
    rows = []
    for plain, personal in twins.items():
        if plain not in wide or personal not in wide:
            continue
        gains = (wide[personal] - wide[plain]).dropna().rename("gain").reset_index()
        design = Design(scenario="conversation", value="gain", **draws)
        interval = cluster_bootstrap(gains.assign(system="gain"), design).iloc[0]
        signs = np.sign(gains["gain"]).tolist()
        counts = [signs.count(1), signs.count(-1), signs.count(0)]
        ends = interval[["mean", "low", "high"]].astype(float)
        rows.append([plain, *counts, *ends, len(gains)])
    columns = ["system", "helped", "hurt", "same", "mean gain", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns)


def sensitivity(partition: Partition, runs: Runs, measure: str = "nDCG@10", **draws: Any) -> pd.DataFrame:
    """How much a score hangs on the wording of a request: one row a system and kind. ``runs`` are those of
    the single formulations of the rewriter ``variants``, named ``<system>-<number>``, the canonical one
    first; topics with two or more count. ``canonical`` is its mean score, ``others`` that of the others,
    ``worst`` and ``best`` those of each topic's lowest and highest; ``range`` is best less worst, with its
    95 % interval over conversations. Empty without runs.
    """
    keys = ["system", "kind", "conversation", "topic"]
    scores = _formulation_scores(partition, runs, measure)
    groups = scores.sort_values("number").groupby(keys)["score"]
    each = groups.agg(canonical="first", total="sum", worst="min", best="max", size="size")
    each = each[each["size"] > 1].reset_index()
    each["others"] = (each["total"] - each["canonical"]) / (each["size"] - 1)
    each["range"] = each["best"] - each["worst"]
    design = Design(scenario="conversation", value="range", **draws)
    rows = []
    for (system, kind), part in each.groupby(["system", "kind"]):
        row: dict[str, Any] = {"system": system, "kind": kind}
        row.update(part[["canonical", "others", "worst", "best", "range"]].mean())
        row.update(cluster_bootstrap(part, design).iloc[0][["low", "high"]])
        row["n"] = len(part)
        rows.append(row)
    return pd.DataFrame(rows)


def _formulation_scores(partition: Partition, runs: Runs, measure: str) -> pd.DataFrame:
    """One row a topic and formulation: system, kind, conversation, topic, the formulation's number, score."""
    tables = []
    for name, run in runs.items():
        system, _, number = name.rpartition("-")
        scored = score_run(run, partition.qrels, [measure]).topics
        table = _topics(partition).join(scored[measure].rename("score"), on="topic")
        tables.append(table.assign(system=system, number=int(number)))
    frame = pd.concat(tables, ignore_index=True)
    n_formulations = {intent.id: len(intent.formulations) for intent in partition.all_intents()}
    most = frame["intent"].map(n_formulations).fillna(0)
    return frame[frame["number"] <= most]


def beside_people(models: pd.DataFrame, ceiling: pd.DataFrame) -> pd.DataFrame:
    """F1 of the intent models, with micro's interval in words, and one annotator as the last row."""
    both = pd.concat([models, ceiling.assign(model="one annotator (crowd)")], ignore_index=True)
    wide = both.pivot_table(index="model", columns="intent", values="f1", sort=False).round(3)
    micro = both[both["intent"] == "micro"].set_index("model")
    wide["micro, 95 %"] = [f"{micro.loc[m, 'low']:.2f} to {micro.loc[m, 'high']:.2f}" for m in wide.index]
    return wide


def linked_intents(partition: Partition) -> list[Intent]:
    """The product-details intents that name a product (field ``product``), in order."""
    return [need for need in partition.all_intents() if need.type == "product_details" and need.product]


def pool_prior(partition: Partition) -> Run:
    """A baseline without texts: the conversation's judged items by mean grade over its earlier topics. Only
    recommendation topics of turns before the question count; an intent without any gets no hits.
    """
    run: Run = {}
    for intent in linked_intents(partition):
        grades: dict[str, list[int]] = {}
        for name, judgments in partition.qrels.items():
            judged = topic(name)
            if judged.conversation != intent.conversation or judged.kind != "recommendation":
                continue
            if judged.turn < intent.turn:
                for item, grade in judgments.items():
                    grades.setdefault(item.upper(), []).append(grade)
        run[intent.id] = ranked({item: sum(each) / len(each) for item, each in grades.items()})
    return run


def score_links(partition: Partition, runs: Runs) -> pd.DataFrame:
    """Mean P@1, RR@10, R@10 of runs over the linked intents, in [0, 1], one row a run. ``reachable`` is the
    share of intents whose product the run ranks at all. Ids are compared in upper case. A missing intent
    scores 0.
    """
    qrels = {intent.id: {str(intent.product).upper(): 1} for intent in linked_intents(partition)}
    rows = []
    for name, run in runs.items():
        upper = {}
        for intent, ranking in run.items():
            upper[intent] = [Hit(hit.id.upper(), hit.score) for hit in ranking]
        scored = score_run(upper, qrels, ["P@1", "RR@10", "R@10", "R"])
        means = scored.topics.mean().rename({"R": "reachable"})
        rows.append({"system": name, **means, "n": len(qrels)})
    return pd.DataFrame(rows, columns=["system", "P@1", "RR@10", "R@10", "reachable", "n"])
