"""Small tables that the notebooks show: of a catalogue, its texts, a batch of dialogues and their scores."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib.catalog.catalog import Catalog, Constraints
from crs_lib.catalog.fields import GOAL_FIELD, PERSON_FIELDS, YEAR_FIELD
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.text import shorten
from crs_lib.evaluate import score_all
from crs_lib.figures import layout
from crs_lib.figures.base import convention_of, primary
from crs_lib.metrics import base
from crs_lib.metrics.conventions import Convention
from crs_lib.simulate import planner
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.simulate.trial import trial as trial_turns
from crs_lib.simulate.voices import FIRST
from crs_lib.systems.base import World


def _most_frequent(values: Iterable[str]) -> str:
    """The value that occurs most often, of equals the first by name; empty without any."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value), default="")


def _values(catalog: Catalog, field: str) -> list[str]:
    """The values of a field, one for each film that has it."""
    return [value for item in catalog.items for value in item.values[field]]


def transcript(dialogue: Dialogue, limit: int = 10) -> pd.DataFrame:
    """The first turns of a dialogue as a table: turn, what the user did, both utterances."""
    pairs = dialogue.pairs()[:limit]
    return pd.DataFrame({
        "turn": [pair.turn for pair in pairs],
        "user does": [str(pair.user.user_meta.get("stage", "")) for pair in pairs],
        "user": [shorten(pair.user.text, 56) for pair in pairs],
        "system": [shorten(pair.system.text, 56) for pair in pairs],
    })  # fmt: skip


def same_users(dialogues: Sequence[Dialogue]) -> bool:
    """Whether in every scenario all systems met the same constraints, turn by turn."""
    seen: dict[str, list[Any]] = {}
    for dialogue in dialogues:
        wishes = [pair.user.user_meta.get("constraints") for pair in dialogue.pairs()]
        if seen.setdefault(dialogue.session_id, wishes) != wishes:
            return False
    return True


def field_table(catalog: Catalog, min_items: int = 5) -> pd.DataFrame:
    """One row a field: films that have it, distinct values, values with support, the most frequent."""
    rows = []
    for name in catalog.fields:
        counts = Counter(_values(catalog, name))
        rows.append({
            "field": name, "films with it": sum(bool(item.values[name]) for item in catalog.items),
            "distinct": len(counts), f"in {min_items}+ films": sum(n >= min_items for n in counts.values()),
            "most frequent": _most_frequent(counts.elements()),
        })  # fmt: skip
    return pd.DataFrame(rows)


def possible_shifts(catalog: Catalog, n: int = 20) -> pd.DataFrame:
    """One row a shift type: what the user does, and in how many planned sessions it comes; a note if none."""
    if not catalog.goal_genres:
        return pd.DataFrame({"note": ["no session can begin: no genre has five films"]})
    found = Counter(
        kind for session in range(n)
        for kind in {step.kind for step in planner.plan(catalog, 7, session, 20, voice="terse").steps}
    )  # fmt: skip
    rows = [[one.name, one.summary, f"{found[one.name]} of {n}"] for one in SHIFTS]
    return pd.DataFrame(rows, columns=["shift", "the user", "in sessions"])


def example_constraints(catalog: Catalog) -> list[Constraints]:
    """Queries to try on a catalogue: a genre, an actor, and both in an early year, there to be relaxed."""
    genres = catalog.genres() or catalog.genres(min_items=1)
    person = PERSON_FIELDS[0]
    found: dict[str, str] = {GOAL_FIELD: genres[0]} if genres else {}
    if catalog.values(person):
        found[person] = _most_frequent(_values(catalog, person))
    singles: list[Constraints] = [{name: value} for name, value in found.items()]
    return [*singles, {**found, YEAR_FIELD: "1900"}] if found else []


def query_table(catalog: Catalog, queries: Sequence[Constraints]) -> pd.DataFrame:
    """One row a query: the number of exact answers, the fields given up, the answers then, the first."""
    rows = []
    for query in queries:
        exact, relaxed = catalog.query(query), catalog.query(query, relax=True)
        rows.append({
            "query": ", ".join(f"{name}={value}" for name, value in query.items()),
            "exact answers": len(exact.items), "given up": ", ".join(relaxed.dropped),
            "answers": len(relaxed.items),
            "first": catalog.items[relaxed.items[0]].title if len(relaxed.items) else "",
        })  # fmt: skip
    return pd.DataFrame(rows)


def coverage(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """Share of USER and of SYSTEM turns that name a concept, by field and at all, in [0, 1]."""
    rows = {}
    for speaker in ("USER", "SYSTEM"):
        texts = [t.text for d in dialogues for t in d.turns if t.speaker == speaker]
        found = [{grounder.field_of(code) for code in codes} for codes in grounder.ground(texts)]
        counts = Counter(name for names in found for name in names)
        n = max(1, len(texts))
        rows[speaker.lower()] = {"any": sum(map(bool, found)) / n}
        rows[speaker.lower()] |= {name: counts[name] / n for name in grounder.active_fields}
    return pd.DataFrame(rows).rename_axis("field").reset_index()


def batch_table(dialogues: Sequence[Dialogue]) -> pd.DataFrame:
    """One row a system: sessions, turns, shifts, films per reply, titles outside the catalogue."""
    rows = []
    for name in dict.fromkeys(d.model_name for d in dialogues):
        mine = [d for d in dialogues if d.model_name == name]
        replies = [pair.system.meta for d in mine for pair in d.pairs()]
        named = ("rec_titles", "hallucinated_titles")
        films, foreign = (sum(len(reply.get(kind, ())) for reply in replies) for kind in named)
        rows.append({
            "system": name, "sessions": len(mine), "turns": len(replies),
            "shifts": sum(len(d.shift_turns()) for d in mine),
            "films per reply": films / len(replies), "outside the catalogue": foreign,
        })  # fmt: skip
    return pd.DataFrame(rows)


def named_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row a turn: session_id, and whether the user's and the system's words name a concept."""
    pairs = [(talk.session_id, pair) for talk in dialogues for pair in talk.pairs()]
    texts = {"user": [pair.user.text for _, pair in pairs], "system": [pair.system.text for _, pair in pairs]}
    named = {name: [bool(codes) for codes in grounder.ground(said)] for name, said in texts.items()}
    return pd.DataFrame({"session_id": [session for session, _ in pairs], **named})


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


def user_turns(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """One row a user turn: model, session_id, turn, voice; whether the user insists, and a model words it."""
    rows = []
    for talk in dialogues:
        for pair in talk.pairs():
            log = pair.user.user_meta
            insists, worded = log.get("stage") == "insist", log.get("worded_by") == "llm"
            voice = talk.extra.get("voice", FIRST)
            rows.append((talk.model_name, talk.session_id, pair.turn, voice, insists, worded))
    return pd.DataFrame(rows, columns=["model", "session_id", "turn", "voice", "insists", "by_model"])


def shift_log(dialogues: Sequence[Dialogue]) -> pd.DataFrame:
    """One row a shift: session_id, type, how many films answer it, whether ``few``, under ten."""
    first = dialogues[0].model_name if dialogues else ""
    rows = [
        (talk.session_id, str(event.get("type", "")), str(event.get("stratum", "")))
        for talk in dialogues if talk.model_name == first
        for event in talk.shift_events
    ]  # fmt: skip
    log = pd.DataFrame(rows, columns=["session_id", "type", "answers"])
    return log.assign(few=log["answers"] == "1-9")


def turn_table(turns: pd.DataFrame) -> pd.DataFrame:
    """The turns with their main scores: system, session, turn, stage, and each score that the run has."""
    names = ("model", "session_id", "turn", "stage", *layout.SHOWN["turn_table"])
    return turns[[name for name in names if name in turns]]


def scoreboard(model_metrics: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Systems by metrics as "mean [low, high]", best first by the first metric; a dash where undefined, a
    dagger for what may not rank. By default the convention's outcomes that have a mean, else all metrics.
    """
    given = dict.fromkeys(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
    usual = [name for name in layout.outcomes(convention_of(model_metrics)) if name in given]
    names = [base.get(m).name for m in metrics or usual or given]
    frame = model_metrics[model_metrics["metric"].isin(names)].copy()
    frame["shown"] = [_interval(row) for row in frame[["mean", "low", "high"]].to_dict("records")]
    wide = frame.pivot_table(index="model", columns="metric", values="shown", aggfunc="first")[names]
    means = frame[frame["metric"] == names[0]].set_index("model")["mean"]
    order = means.sort_values(ascending=layout.lower(names[0]), kind="stable").index
    wide = wide.loc[order].set_axis([base.get(name).label for name in names], axis=1)
    return wide.rename_axis("system").reset_index()


first_outcome = primary  # leads the tables of these scores: the convention's first with a mean


def _interval(row: Mapping[str, Any]) -> str:
    if pd.isna(row["mean"]):
        return "–"
    mean, low, high = (f"{row[key]:z.3f}" for key in ("mean", "low", "high"))
    return mean if pd.isna(row["low"]) else f"{mean} [{low}, {high}]"


def trial(world: World, config: SimulateConfig) -> pd.DataFrame:
    """Three turns with the first system of the settings, one of them a shift, a row each: user, constraints,
    reply, and ``met``, the constraints that the best of its films meets.
    """
    items = world.catalog.items
    rows = []
    for number, turn in enumerate(trial_turns(world, config), start=1):
        films = [items[item] for item in turn.reply.items]
        met = [sum(value in film.values[name] for name, value in turn.wishes.items()) for film in films]
        rows.append({
            "turn": number, "user": shorten(turn.utterance, 36),
            "constraints": ", ".join(f"{name} = {value}" for name, value in turn.wishes.items()),
            "reply": shorten(turn.reply.text, 36), "met": f"{max(met, default=0)} of {len(turn.wishes)}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def session_scores(dialogues: Sequence[Dialogue], world: World, convention: Convention) -> pd.DataFrame:
    """Headline scores of each session: model, session_id, a column a metric; missing where undefined."""
    names = layout.HEADLINE
    rows = [scores.session for scores in score_all(dialogues, world.grounder, convention)]
    return pd.DataFrame(rows)[["model", "session_id", *names]].astype(dict.fromkeys(names, float))
