"""What the RealTalk notebooks find: sentences made from their tables, each with its number and interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib import stats
from crs_lib.metrics import evidence
from crs_lib.realtalk import plan, readings
from crs_lib.realtalk.arcs import Arc
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import learn_names
from crs_lib.stats import Finding

Record = Mapping[str, Any]
_ONE_CHAT = "one chat leaves no interval"
CATEGORIES = {1: "lists and facts from several places", 2: "times and single facts", 3: "inferences"}


def size(found: Sequence[Chat]) -> Finding:
    """How long a chat is and how many questions it carries, chats resampled."""
    if len(found) < 2:
        return stats.no_finding(_ONE_CHAT)
    rows = pd.DataFrame(
        {"chat": c.name, "messages": len(c.messages), "questions": len(c.questions)} for c in found
    )
    long, asked = (stats.mean_of(rows, name, scenario="chat") for name in ("messages", "questions"))
    return stats.finding(
        f"{len(found)} chats hold {rows['messages'].sum():,} messages and {rows['questions'].sum():,} "
        f"questions: {_whole(long)} messages and {_whole(asked)} questions a chat."
    )


def spread(found: Sequence[Chat], reading: str) -> Finding:
    """How many questions have evidence in more than one session, questions resampled."""
    rows = pd.DataFrame(
        [
            (f"{chat.name} {index}", len(readings.sessions_of(chat, sorted(places))) > 1)
            for chat in found
            for index, places in readings.gold(chat, reading).items()
        ],
        columns=["question", "apart"],
    )
    if rows.empty:
        return stats.no_finding(f"no question has evidence under the reading {reading}")
    share = stats.share_of(rows, "apart", scenario="question")
    return stats.finding(
        f"Under the reading {reading}, {share.percent} of {stats.counted(len(rows), 'question')} have their "
        "evidence in more than one session; no window around one good hit can hold it."
    )


def slips(found: Sequence[Chat]) -> Finding:
    """How many questions have an annotation that is missing or not exactly one existing id."""
    rows = pd.DataFrame(
        [
            (f"{c.name} {q.index}", not q.evidence or any(text not in c.position for text in q.evidence))
            for c in found
            for q in c.questions
        ],
        columns=["question", "odd"],
    )
    if rows.empty:
        return stats.no_finding("the chats carry no questions")
    share = stats.share_of(rows, "odd", scenario="question")
    return stats.finding(
        f"{share.percent} of {stats.counted(len(rows), 'question')} have evidence that is missing or not "
        "exactly one existing id, which is what the readings differ in."
    )


def speakers(found: Sequence[Chat]) -> Finding:
    """How much evidence the one person spoke whom a question names, questions resampled."""
    rows = []
    for chat in found:
        known, gold = learn_names(chat), readings.gold(chat)
        for question in chat.questions:
            named = plan.make(question.text, known, None).speakers
            if len(named) == 1:
                spoken = [chat.messages[p].speaker == named[0] for p in gold.get(question.index, ())]
                rows += [(f"{chat.name} {question.index}", own) for own in spoken]
    frame = pd.DataFrame(rows, columns=["question", "own"])
    if frame.empty:
        return stats.no_finding("no question names exactly one speaker")
    share = stats.share_of(frame, "own", scenario="question")
    return stats.finding(
        f"Where a question names one person, that person speaks {share.percent} of its {len(frame)} "
        "evidence messages."
    )


def segments(built: Sequence[ChatIndex]) -> Finding:
    """How many messages a segment has, chats resampled."""
    if len(built) < 2:
        return stats.no_finding(_ONE_CHAT)
    rows = pd.DataFrame([(one.chat.name, s.end - s.start) for one in built for s in one.segments])
    length = stats.mean_of(rows.set_axis(["chat", "size"], axis=1), "size", scenario="chat")
    return stats.finding(
        f"A topic segment has {length} messages on average ({stats.counted(len(rows), 'segment')} in "
        f"{stats.counted(len(built), 'chat')})."
    )


def threads(pairs: pd.DataFrame) -> Finding:
    """Whether threads join evidence more often than messages taken at random, questions resampled."""
    if pairs.empty:
        return stats.no_finding("no question has evidence in two sessions")
    gap = stats.mean_of(pairs.assign(gap=pairs["joined"] - pairs["by_chance"]), "gap", scenario="question")
    joined = stats.share_of(pairs, "joined", scenario="question")
    chance = f"{100 * pairs['by_chance'].mean():.0f} % of any two messages"
    if gap.excludes_zero and gap.value > 0:
        return stats.finding(
            f"A thread joins {joined.percent} of {len(pairs)} pairs of evidence from different sessions and "
            f"{chance}: {gap} more than chance."
        )
    return stats.finding(
        "Whether threads join evidence more often than chance is not settled: "
        f"{joined.percent} against {chance}, a difference of {gap}."
    )


def stories(cases: Sequence[Arc]) -> Finding:
    """How many phases and ids a case has, cases resampled."""
    rows = pd.DataFrame(
        {"case": c.name, "phases": len(c.phases), "ids": sum(len(p.ids) for p in c.phases)} for c in cases
    )
    if len(rows) < 2:
        return stats.no_finding(f"{stats.counted(len(rows), 'case')} of a narrative, too few for an interval")
    phases, ids = (stats.mean_of(rows, name, scenario="case") for name in ("phases", "ids"))
    return stats.finding(
        f"The {len(rows)} cases have {phases} phases and {ids} evidence messages on average."
    )


def searches(records: Sequence[Record]) -> Finding:
    """How many questions were searched more than once, questions resampled."""
    rows = _asked(records).assign(again=[record["timings"]["rounds"] > 1 for record in records])
    share = stats.share_of(rows, "again", scenario="question")
    return stats.finding(
        f"The grader sends {share.percent} of {stats.counted(len(rows), 'question')} back to the "
        "explorer for another search."
    )


def kinds(records: Sequence[Record]) -> Finding:
    """How many questions the planner takes for lists or counts, questions resampled."""
    rows = _asked(records).assign(many=[record["plan"]["kind"] in ("list", "count") for record in records])
    share = stats.share_of(rows, "many", scenario="question")
    return stats.finding(f"The planner takes {share.percent} of the questions for lists or counts.")


def abstentions(records: Sequence[Record]) -> Finding:
    """How many questions get an answer, questions resampled."""
    rows = _asked(records).assign(given=[record["answer"]["text"] is not None for record in records])
    share = stats.share_of(rows, "given", scenario="question")
    rest = "" if share.value == 1 else " and abstains from the others"
    return stats.finding(
        f"The generator gives an answer to {share.percent} of {stats.counted(len(rows), 'question')}{rest}."
    )


def phases(records: Sequence[Record]) -> Finding:
    """How long a narrative is, questions resampled."""
    rows = _asked(records).assign(
        phases=[len(record["phases"]) for record in records],
        ids=[len(record["narrative"]) for record in records],
    )
    count, ids = (stats.mean_of(rows, name, scenario="question") for name in ("phases", "ids"))
    return stats.finding(
        f"A narrative has {count} phases and {ids} messages: as many as the scores call for."
    )


def steps(rows: pd.DataFrame, measure: str = "r@10") -> Finding:
    """What the last step of the ladder adds to the first, paired by question."""
    if rows.empty:
        return stats.no_finding("no question has evidence")
    names = list(rows["step"].unique())
    gap = stats.difference_of(rows, names[-1], names[0], measure, system="step", scenario="question")
    return stats.compared(f"“{names[-1]}”", f"“{names[0]}”", gap, measure)


def ranking(rows: pd.DataFrame) -> Finding:
    """Recall among the first ten, of all questions and of the hardest category, questions resampled."""
    scored = _scored(rows)
    whole = stats.mean_of(scored, "r@10", scenario="question")
    parts = {c: stats.mean_of(p, "r@10", scenario="question") for c, p in scored.groupby("category")}
    worst = min(parts, key=lambda c: parts[c].value)
    return stats.finding(
        f"The first ten messages hold {whole.percent} of a question's evidence; the least is held of "
        f"category {worst} ({CATEGORIES.get(int(worst), 'other')}), {parts[worst].percent} in "
        f"{stats.counted(parts[worst].n, 'question')}."
    )


def sets(rows: pd.DataFrame) -> Finding:
    """Recall and precision of the final sets, questions resampled."""
    scored = _scored(rows)
    recall, precision = (stats.mean_of(scored, c, scenario="question") for c in ("recall", "precision"))
    return stats.finding(
        f"The final sets hold {recall.percent} of the evidence at a precision of {precision.percent}, with "
        f"{stats.mean_of(scored, 'size', scenario='question')} messages each."
    )


def losses(rows: pd.DataFrame) -> Finding:
    """The step that loses most annotated ids, questions resampled."""
    ids = pd.DataFrame(
        [
            (f"{row['chat']} {row['qa_index']}", bucket)
            for _, row in rows.iterrows()
            for bucket in evidence.BUCKETS
            for _ in range(int(row[bucket]))
        ],
        columns=["question", "bucket"],
    )
    lost = ids[~ids["bucket"].isin(["kept", "unresolvable"])]
    if lost.empty:
        return stats.no_finding("no annotated id was lost")
    worst = str(lost["bucket"].value_counts().idxmax())
    share = stats.share_of(ids.assign(here=ids["bucket"] == worst), "here", scenario="question")
    return stats.finding(
        f"Most lost evidence is {worst}: {share.percent} of {stats.counted(len(ids), 'annotated id')}."
    )


def selections(rows: pd.DataFrame, lever: str = "selection", measure: str = "f1") -> Finding:
    """What another value of a lever changes, paired by question: the last value against the first."""
    scored = _scored(rows)
    first, *_, last = dict.fromkeys(scored[lever])
    gap = stats.difference_of(scored, last, first, measure, system=lever, scenario="question")
    return stats.compared(f"the {lever} “{last}”", f"“{first}”", gap, measure)


def narratives(story: pd.DataFrame) -> Finding:
    """Global recall, precision and aligned coverage of the stories, cases resampled."""
    if len(story) < 2:
        return stats.no_finding(
            f"{stats.counted(len(story), 'case')} of a narrative, too few for an interval"
        )
    names = ("global_recall", "global_precision", "coverage_aligned")
    recall, precision, covered = (stats.mean_of(story, name, scenario="case") for name in names)
    return stats.finding(
        f"The narratives of {len(story)} cases hold {recall.percent} of the evidence at a precision of "
        f"{precision.percent} and touch {covered.percent} of the phases, one to one."
    )


def answers(answered: pd.DataFrame) -> Finding:
    """Token F1 of the answers against the best message as answer, paired by question."""
    if answered.empty:
        return stats.no_finding("no question has an annotated answer")
    rows = answered.assign(gap=answered["token_f1"] - answered["baseline_f1"])
    found, won = (stats.mean_of(rows, name, scenario="question") for name in ("token_f1", "gap"))
    return stats.finding(
        f"The answers reach a token F1 of {found}; their difference to the whole best message as answer is "
        f"{won}{won.doubt}."
    )


def unmoved(rows: pd.DataFrame) -> Finding:
    """For how many questions all evidence is among the candidates, questions resampled."""
    scored = _scored(rows)
    share = stats.share_of(
        scored.assign(there=scored["lost at candidates"] == 0), "there", scenario="question"
    )
    return stats.finding(
        f"{share.percent} of the questions have all their evidence among the candidates, which are "
        f"{100 * scored['density'].mean():.0f} % of a chat; no order could help the others fully."
    )


def log(experiments: pd.DataFrame) -> Finding:
    """The best run by the recall on train chats; none where no run was made on them."""
    known = experiments["train_recall"].dropna()
    if known.empty:
        return stats.no_finding("no run of the log was made on RealTalk's train chats")
    best = experiments.loc[known.astype(float).idxmax()]
    return stats.finding(
        f"Of {stats.counted(len(known), 'run')} on the train chats, {best['experiment_id']!r} has "
        f"the best recall, {float(best['train_recall']):.2f}."
    )


def limits(found: Sequence[Chat], *estimates: stats.Estimate) -> stats.Sentences:
    """What a run on these chats does not show."""
    names = {speaker for chat in found for speaker in chat.speakers}
    made = all(chat.name.startswith(_SAMPLE) for chat in found)
    return stats.not_shown(
        f"The chats read here have {len(names)} writers; how other people write is not in them.",
        "The chats are made up: their numbers compare settings of this code and say nothing about real chats."
        if made
        else "",
        stats.resolution(estimates, "r@10").replace("scenario", "question"),
        "Exact ids are scored: a message that says the same and is not annotated counts as wrong.",
    )


_SAMPLE = ("Chat_0_Mira", "Chat_11_Noor", "Chat_12_Ayo", "Chat_13_Lucia")


def recall_at_ten(rows: pd.DataFrame) -> stats.Estimate:
    """r@10 of all questions with gold, questions resampled."""
    return stats.mean_of(_scored(rows), "r@10", scenario="question")


def _asked(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame({"question": [f"{record['chat']} {record['qa_index']}" for record in records]})


def _scored(rows: pd.DataFrame) -> pd.DataFrame:
    scored = rows[rows["gold"] > 0]
    return scored.assign(question=scored["chat"] + " " + scored["qa_index"].astype(str))


def _whole(estimate: stats.Estimate) -> str:
    """A count with its interval, without decimals."""
    return f"{estimate.value:.0f} [{estimate.low:.0f}, {estimate.high:.0f}]"
