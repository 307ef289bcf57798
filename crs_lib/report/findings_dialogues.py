"""Findings about a catalogue, its texts and its dialogues: what can be asked for, named and shifted."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from crs_lib import stats
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.stats import Finding, finding, no_finding


def cleaning(summary: pd.DataFrame) -> Finding:
    """How many labels cleaning merged, dropped or found twice."""
    before = int(summary["values before"].sum())
    changed = int(summary[["merged", "dropped", "doublets"]].to_numpy().sum())
    if not before:
        return no_finding("the catalogue holds no labels")
    share = (
        f"{changed:,} of {before:,} labels ({100 * changed / before:.1f} %)"
        if changed
        else (f"none of {before:,} labels")
    )
    return finding(f"Cleaning changed {share}.")


def support(table: pd.DataFrame, least: str = "in 5+ films") -> Finding:
    """The fields whose values most and least often have enough films to carry a constraint."""
    known = table[table["distinct"] > 0]
    if known.empty:
        return no_finding("the catalogue has no values")
    share = known[least] / known["distinct"]
    low, high = known.loc[share.idxmin()], known.loc[share.idxmax()]
    told = (
        f"Five films or more share {low[least]} of {low['distinct']:,} values of {low['field']}, the least "
    )
    told += f"part, and {high[least]} of {high['distinct']:,} values of {high['field']}, the largest"
    return finding(f"{told}: constraints are drawn from these.")


def queries(table: pd.DataFrame) -> Finding:
    """How many example queries have exact answers, and what the others give up."""
    if table.empty:
        return no_finding("the catalogue has neither genres nor persons to query")
    exact = table[table["exact answers"] > 0]
    told = f"{len(exact)} of {stats.counted(len(table), 'query', 'queries')} have exact answers"
    rest = table[table["exact answers"] == 0]
    if len(rest):
        row = rest.iloc[0]
        films = stats.counted(int(row["answers"]), "film")
        told += f"; without {row['given up']}, {row['query']} has {films}"
    return finding(f"{told}.")


def catalogue_limits(films: int) -> stats.Sentences:
    """What counts over a catalogue do not show."""
    return stats.not_shown(
        f"The {stats.counted(films, 'film')} are counted, not sampled: these numbers carry no interval and "
        "hold for this file only.",
        "Whether a label is true is not checked: cleaning compares spellings, not facts.",
    )


def grounding_limits(sessions: int) -> stats.Sentences:
    """What the coverage of simulated dialogues does not show."""
    return stats.not_shown(
        f"The users of {stats.counted(sessions, 'session')} are simulated: people word requests otherwise.",
        "A concept that the catalogue lacks is never found, whoever names it.",
    )


def user_limits(model: str, templates: str) -> stats.Sentences:
    """What simulated dialogues do not show; ``model`` words the users, templates where it is empty."""
    who = f"by {model}" if model else f"by templates (set {templates})"
    return stats.not_shown(
        f"Users are simulated and worded {who}: no person has taken part.",
        "Nothing is scored yet: who follows is the next notebook's question.",
    )


def of_text(audit: pd.DataFrame) -> Finding:
    """What one text names, and what is rejected in it."""
    if audit.empty:
        return finding("The text names no concept of the catalogue.")
    matched = audit[audit["verdict"] == "matched"]
    kinds = len(set(zip(matched["field"], matched["value"], strict=True)))
    told = f"The text names {stats.counted(kinds, 'concept')}"
    rejected = audit[audit["verdict"] != "matched"]
    if len(rejected):
        row = rejected.iloc[0]
        told += f"; {stats.counted(len(rejected), 'match', 'matches')} rejected, "
        told += f"{row['text']!r} as {row['verdict']}"
    return finding(f"{told}.")


def title_table(catalog: Catalog, grounder: Grounder) -> pd.DataFrame:
    """Films whose title is resolved to them by the way it is written: films, resolved, share; a row a way."""
    ways = {
        "with year": "Have you seen {title} ({year})?",
        "in quotation marks": 'Have you seen "{title}"?',
        "in lower case": "have you seen {title}?",
    }
    rows = []
    for way, frame in ways.items():
        right = 0
        for number, film in enumerate(catalog.items):
            title = film.title.lower() if way == "in lower case" else film.title
            found = grounder.titles(frame.format(title=title, year=film.year))
            right += any(one.item == number for one in found)
        rows.append({"written": way, "films": len(catalog.items), "resolved": right})
    table = pd.DataFrame(rows)
    return table.assign(share=(table["resolved"] / table["films"]).round(3))


def titles(table: pd.DataFrame) -> Finding:
    """The share of titles resolved to their own film by the best and the worst way of writing them."""
    best, worst = table.loc[table["share"].idxmax()], table.loc[table["share"].idxmin()]
    return finding(
        f"Written {best['written']}, {best['resolved']} of {best['films']} titles are resolved to their own "
        f"film; written {worst['written']}, {worst['resolved']}."
    )


def named(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row a turn: session, speaker, and whether it names a concept."""
    turns = [(talk.session_id, turn) for talk in dialogues for turn in talk.turns]
    found = grounder.ground([turn.text for _, turn in turns])
    rows = [
        {"session_id": session, "speaker": turn.speaker, "named": bool(codes)}
        for (session, turn), codes in zip(turns, found, strict=True)
    ]
    return pd.DataFrame(rows, columns=["session_id", "speaker", "named"])


def naming(turns: pd.DataFrame) -> Finding:
    """How often users and systems name a concept, with intervals over sessions."""
    if turns.empty:
        return no_finding("there are no dialogues")
    user, system = (
        stats.share_of(turns[turns["speaker"] == who], "named", scenario="session_id")
        for who in ("USER", "SYSTEM")
    )
    return finding(
        f"Users name a concept in {user.percent} of their turns, the system in {system.percent} of replies."
    )


def batch(table: pd.DataFrame) -> Finding:
    """How much was simulated, and whether any film came from outside the catalogue."""
    outside, n = int(table["outside the catalogue"].sum()), int(table["sessions"].sum())
    few, many = table["films per reply"].min(), table["films per reply"].max()
    told = (
        f"{stats.counted(len(table), 'system')} held {stats.counted(n, 'session')} and showed {few:.1f} to "
    )
    told += f"{many:.1f} films a reply"
    if outside:
        return finding(f"{told}; {stats.counted(outside, 'title')} lay outside the catalogue.")
    return finding(f"{told}; no title lay outside the catalogue.")


def turns_of(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """One row a user turn: model, session, turn, and whether the user insists on what was asked for."""
    rows = [
        {
            "model": talk.model_name,
            "session_id": talk.session_id,
            "turn": pair.turn,
            "insists": pair.user.user_meta.get("stage") == "insist",
        }
        for talk in dialogues
        for pair in talk.pairs()
    ]
    return pd.DataFrame(rows, columns=["model", "session_id", "turn", "insists"])


def insistence(turns: pd.DataFrame) -> Finding:
    """How often users must insist, for the systems where they do least and most."""
    if turns.empty:
        return no_finding("there are no dialogues")
    shares = stats.shares_of(turns, "insists", system="model", scenario="session_id")
    least, most = (pick(shares, key=lambda name: shares[name].value) for pick in (min, max))
    if shares[least].value == shares[most].value:
        return finding(f"Users insist in {shares[most].percent} of their turns, whatever the system.")
    return finding(
        f"Users insist in {shares[most].percent} of their turns with {most}, the most, and in "
        f"{shares[least].percent} with {least}, the fewest."
    )


def shifting(dialogues: Sequence[Dialogue]) -> Finding:
    """How often users shift, how even the types are, and how few films answer afterwards; each user once."""
    first = dialogues[0].model_name if dialogues else ""
    events = [(d.session_id, e) for d in dialogues if d.model_name == first for e in d.shift_events]
    if not events:
        return no_finding("no user of these dialogues shifts")
    per = Counter(session for session, _ in events)
    types = Counter(str(event.get("type", "")) for _, event in events)
    users = len({d.session_id for d in dialogues})
    told = (
        f"{stats.counted(users, 'user')} shift {stats.counted(len(events), 'time')}, {min(per.values())} to "
    )
    told += f"{max(per.values())} times each; every type occurs {min(types.values())} to "
    told += f"{max(types.values())} times"
    few = pd.DataFrame([{"session_id": s, "few": str(e.get("stratum", "")) == "1-9"} for s, e in events])
    share = stats.share_of(few, "few", scenario="session_id")
    return finding(f"{told}, and after {share.percent} of shifts fewer than ten films meet every constraint.")


def one_talk(dialogue: Dialogue) -> Finding:
    """What happens in one conversation: turns, shifts, insistence."""
    turns, shifts = turns_of([dialogue]), len(dialogue.shift_turns())
    times = stats.counted(int(turns["insists"].sum()), "time")
    return finding(
        f"In {stats.counted(len(turns), 'turn')} with {dialogue.model_name} the user shifts "
        f"{stats.counted(shifts, 'time')} and insists {times}; one conversation bears no interval."
    )


def own_system(own: str, results: pd.DataFrame, metric: str = "normalised_gain") -> Finding:
    """A system of one's own against its neighbours by a metric, over the users that all met."""
    at = {"system": "model", "scenario": "session_id"}
    means = stats.means_of(results, metric, **at)
    if own not in means or len(means) < 2:
        return no_finding(f"{own} has no value beside that of another system")
    order = sorted(means, key=lambda name: -means[name].value)
    place = order.index(own)
    told = f"{own} has a gain of {means[own]}, place {place + 1} of {len(order)}"
    for way, other in (("below", place - 1), ("above", place + 1)):
        if 0 <= other < len(order):
            gap = stats.difference_of(results, own, order[other], metric, **at)
            size = gap.turned if gap.value < 0 else gap
            told += (
                f"; {size} {way} {order[other]}"
                if gap.excludes_zero
                else (f"; indistinguishable from {order[other]} ({gap})")
            )
    return finding(f"{told}.")
