"""Small tables that the notebooks show: of a catalogue, its texts, a batch of dialogues and their scores."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from crs_lib.catalog.catalog import Catalog, Constraints
from crs_lib.catalog.fields import GOAL_FIELD, PERSON_FIELDS, YEAR_FIELD
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
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

first_outcome = primary  # leads the tables of these scores: the convention's first with a mean
_FEW = "1-9"  # the log's word for shifts that fewer than ten films answer
_WAYS = {  # of writing a title in a sentence
    "with year": "Have you seen {title} ({year})?",
    "in quotation marks": 'Have you seen "{title}"?',
    "in lower case": "have you seen {title}?",
}


class _FieldCounts:
    """The films of a catalogue that have a field, and the films of each of its values."""

    def __init__(self, catalog: Catalog, field: str) -> None:
        self.films = 0
        self.values = Counter[str]()
        for item in catalog.items:
            values = item.values[field]
            self.films += bool(values)
            self.values.update(values)

    @property
    def most_frequent(self) -> str:
        """The value that occurs most often, of equals the first by name; empty without any."""
        return min(self.values, key=lambda value: (-self.values[value], value), default="")


def transcript(dialogue: Dialogue, limit: int = 8) -> pd.DataFrame:
    """The first turns of a dialogue as a table: turn, what the user did, both utterances whole."""
    rows = []
    for pair in dialogue.pairs()[:limit]:
        act = str(pair.user.user_meta.get("stage", ""))
        rows.append((pair.turn, act, pair.user.text, pair.system.text))
    return pd.DataFrame(rows, columns=["turn", "user does", "user", "system"])


def same_users(dialogues: Sequence[Dialogue]) -> bool:
    """Whether in every scenario all systems met the same constraints, turn by turn."""
    first: dict[str, list[Any]] = {}
    for dialogue in dialogues:
        constraints = [pair.user.user_meta.get("constraints") for pair in dialogue.pairs()]
        if first.setdefault(dialogue.session_id, constraints) != constraints:
            return False
    return True


def field_table(catalog: Catalog, min_items: int = 5) -> pd.DataFrame:
    """One row a field: films that have it, distinct values, values with support, the most frequent."""
    rows = []
    for name in catalog.fields:
        counts = _FieldCounts(catalog, name)
        supported = len(catalog.values(name, min_items))
        rows.append((name, counts.films, len(counts.values), supported, counts.most_frequent))
    supports = f"in {min_items}+ films"
    return pd.DataFrame(rows, columns=["field", "films with it", "distinct", supports, "most frequent"])


def possible_shifts(catalog: Catalog, n: int = 20) -> pd.DataFrame:
    """One row a shift type: what the user does, and in how many planned sessions it comes; a note if none."""
    if not catalog.goal_genres:
        return pd.DataFrame({"note": ["no session can begin: no genre has five films"]})
    sessions = Counter[str]()
    for session in range(n):
        plan = planner.plan(catalog, 7, session, 20, voice="terse")
        sessions.update({step.kind for step in plan.steps})
    rows = []
    for shift in SHIFTS:
        rows.append((shift.name, shift.summary, f"{sessions[shift.name]} of {n}"))
    return pd.DataFrame(rows, columns=["shift", "the user", "in sessions"])


def example_constraints(catalog: Catalog) -> list[Constraints]:
    """Queries to try on a catalogue: a genre, an actor, and both in an early year, there to be relaxed."""
    both: dict[str, str] = {}
    genres = catalog.genres() or catalog.genres(min_items=1)
    if genres:
        both[GOAL_FIELD] = genres[0]
    person = _FieldCounts(catalog, PERSON_FIELDS[0]).most_frequent
    if person:
        both[PERSON_FIELDS[0]] = person
    if not both:
        return []
    queries: list[Constraints] = [{name: value} for name, value in both.items()]
    return [*queries, {**both, YEAR_FIELD: "1900"}]


def query_table(catalog: Catalog, queries: Sequence[Constraints]) -> pd.DataFrame:
    """One row a query: the number of exact answers, the fields given up, the answers then, the first."""
    rows = []
    for query in queries:
        exact = catalog.query(query)
        relaxed = catalog.query(query, relax=True)
        constraints = [f"{name}={value}" for name, value in query.items()]
        first = ""
        if len(relaxed.items):
            first = catalog.items[relaxed.items[0]].title
        dropped = ", ".join(relaxed.dropped)
        rows.append((", ".join(constraints), len(exact.items), dropped, len(relaxed.items), first))
    return pd.DataFrame(rows, columns=["query", "exact answers", "given up", "answers", "first"])


def coverage(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """Share of USER and of SYSTEM turns that name a concept, by field and at all, in [0, 1]."""
    texts: dict[str, list[str]] = {"USER": [], "SYSTEM": []}
    for dialogue in dialogues:
        for turn in dialogue.turns:
            texts[turn.speaker].append(turn.text)
    table = pd.DataFrame({"field": ["any", *grounder.active_fields]})
    for speaker, utterances in texts.items():
        counts = Counter[str]()
        for codes in grounder.ground(utterances):
            fields = {grounder.field_of(code) for code in codes}
            counts.update(fields)
            counts["any"] += bool(fields)
        table[speaker.lower()] = table["field"].map(counts) / max(1, len(utterances))
    return table


def batch_table(dialogues: Sequence[Dialogue]) -> pd.DataFrame:
    """One row a system: sessions, turns, shifts, films per reply, titles outside the catalogue."""
    rows = []
    for dialogue in dialogues:
        n_films = 0
        n_unknown = 0
        pairs = dialogue.pairs()
        for pair in pairs:
            n_films += len(pair.system.meta.get("rec_titles", ()))
            n_unknown += len(pair.system.meta.get("hallucinated_titles", ()))
        n_shifts = len(dialogue.shift_turns())
        rows.append((dialogue.model_name, 1, len(pairs), n_shifts, n_films, n_unknown))
    columns = ["system", "sessions", "turns", "shifts", "films per reply", "outside the catalogue"]
    sums = pd.DataFrame(rows, columns=columns).groupby("system", sort=False).sum()
    table = sums.reset_index()
    table["films per reply"] /= table["turns"]
    return table


def named_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row a turn: session_id, and whether the user's and the system's words name a concept."""
    rows = []
    for talk in dialogues:
        for pair in talk.pairs():
            rows.append((talk.session_id, pair.user.text, pair.system.text))
    table = pd.DataFrame(rows, columns=["session_id", "user", "system"])
    for speaker in ("user", "system"):
        table[speaker] = [bool(codes) for codes in grounder.ground(table[speaker].tolist())]
    return table


def title_table(catalog: Catalog, grounder: Grounder) -> pd.DataFrame:
    """Films whose title is resolved to them by the way it is written: films, resolved, share; a row a way."""
    rows = []
    for way, sentence in _WAYS.items():
        resolved = 0
        for number, film in enumerate(catalog.items):
            title = film.title.lower() if way == "in lower case" else film.title
            matches = grounder.titles(sentence.format(title=title, year=film.year))
            resolved += any(match.item == number for match in matches)
        rows.append((way, len(catalog.items), resolved))
    table = pd.DataFrame(rows, columns=["written", "films", "resolved"])
    table["share"] = (table["resolved"] / table["films"]).round(3)
    return table


def user_turns(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """One row a user turn: model, session_id, turn, voice; whether the user insists, and a model words it."""
    rows = []
    for talk in dialogues:
        voice = talk.extra.get("voice", FIRST)
        for pair in talk.pairs():
            log = pair.user.user_meta
            insists = log.get("stage") == "insist"
            worded = log.get("worded_by") == "llm"
            rows.append((talk.model_name, talk.session_id, pair.turn, voice, insists, worded))
    return pd.DataFrame(rows, columns=["model", "session_id", "turn", "voice", "insists", "by_model"])


def shift_log(dialogues: Sequence[Dialogue]) -> pd.DataFrame:
    """One row a shift: session_id, type, how many films answer it, whether ``few``, under ten."""
    rows = []
    for talk in dialogues:
        if talk.model_name != dialogues[0].model_name:
            continue
        for event in talk.shift_events:
            kind = str(event.get("type", ""))
            answers = str(event.get("stratum", ""))
            rows.append((talk.session_id, kind, answers))
    log = pd.DataFrame(rows, columns=["session_id", "type", "answers"])
    return log.assign(few=log["answers"] == _FEW)


def turn_table(turns: pd.DataFrame) -> pd.DataFrame:
    """The turns with their main scores: system, session, turn, stage, and each score that the run has."""
    added = [metric.name for metric in base.scored(base.TURN) if metric.is_added]
    scores = [*layout.TURN_SCORES, *added]
    return turns.filter(["model", "session_id", "turn", "stage", *scores])


def scoreboard(model_metrics: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Systems by metrics as "mean [low, high]", best first by the first metric.

    A dash where undefined, a dagger for what may not rank. By default the convention's outcomes that have a
    mean, else all metrics.
    """
    present = dict.fromkeys(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
    if not metrics:
        outcomes = layout.outcomes(convention_of(model_metrics))
        metrics = [name for name in outcomes if name in present] or list(present)
    names = [base.get(name).name for name in metrics]
    frame = model_metrics[model_metrics["metric"].isin(names)].copy()
    frame["shown"] = frame[["mean", "low", "high"]].apply(_interval, axis=1)
    wide = frame.pivot_table(index="model", columns="metric", values="shown", aggfunc="first")[names]
    means = frame[frame["metric"] == names[0]].set_index("model")["mean"]
    order = means.sort_values(ascending=layout.lower(names[0]), kind="stable").index
    labels = [base.get(name).label for name in names]
    return wide.loc[order].set_axis(labels, axis=1).rename_axis("system").reset_index()


def _interval(row: "pd.Series[float]") -> str:
    """A mean with its interval, if it has one."""
    if pd.isna(row["mean"]):
        return "–"
    mean = f"{row['mean']:z.3f}"
    if pd.isna(row["low"]):
        return mean
    return f"{mean} [{row['low']:z.3f}, {row['high']:z.3f}]"


def trial(world: World, config: SimulateConfig) -> pd.DataFrame:
    """Three turns with the first system of the settings, one of them a shift, a row each.

    Columns: user, constraints, reply, and ``met``, the constraints that the best of its films meets.
    """
    rows = []
    for number, turn in enumerate(trial_turns(world, config), start=1):
        best = 0
        for item in turn.reply.items:
            values = world.catalog.items[item].values
            met = [value in values[name] for name, value in turn.wishes.items()]
            best = max(best, sum(met))
        constraints = [f"{name} = {value}" for name, value in turn.wishes.items()]
        share = f"{best} of {len(constraints)}"
        rows.append((number, turn.utterance, ", ".join(constraints), turn.reply.text, share))
    return pd.DataFrame(rows, columns=["turn", "user", "constraints", "reply", "met"])


def session_scores(dialogues: Sequence[Dialogue], world: World, convention: Convention) -> pd.DataFrame:
    """Headline scores of each session: model, session_id, a column a metric; missing where undefined."""
    rows = [scores.session for scores in score_all(dialogues, world.grounder, convention)]
    numbers = dict.fromkeys(layout.HEADLINE, float)
    table = pd.DataFrame(rows)[["model", "session_id", *numbers]]
    return table.astype(numbers)
