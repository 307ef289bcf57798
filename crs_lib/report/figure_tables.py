"""The tables behind the figures of a movie run: its design, its evaluation, and what only some runs have.

What a table holds that no stage stores is made by a function registered in :data:`TABLES`; how a convention's
scorer reads the catalogue is told by a view registered in :data:`VIEWS`. A client adds to both.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, figures, runs, simulate, stats
from crs_lib import judge as judging
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.figures import NoDataError, layout, stability
from crs_lib.figures import base as registered
from crs_lib.figures.diagrams import DETECTED
from crs_lib.figures.recovery import at_risk
from crs_lib.judge import run as judge_records
from crs_lib.metrics import base
from crs_lib.report import statistics
from crs_lib.simulate.scenarios import CALM
from crs_lib.stats.estimate import NOT_COMPARED
from crs_lib.stats.plan import Plan

_WIDE, _NARROW = 26, 22  # characters of a line in a box
_MOST = 8  # systems that are named in a box
_KEYS = ["model", "session_id", "turn"]

TABLES: Registry[pd.DataFrame] = Registry("figure table")


def read(run: str, table: str, convention: str = "", plan: Plan | None = None) -> pd.DataFrame:
    """A figure's table, tests by ``plan`` or the movies'; NoDataError without data, RunError if unscored."""
    if table in TABLES:
        evaluate.entry(run, convention)
        return TABLES.get(table).make(run, convention, plan)
    frame = evaluate.read(run, table, convention)
    if table == "turns":
        return _with_shifts(frame, run, convention)
    if table == "shifts":
        return _with_watched(_with_types(frame, run), run, convention)
    return frame


def _with_shifts(turns: pd.DataFrame, run: str, convention: str) -> pd.DataFrame:
    """Turns with ``since_shift``, the turns since the last shift, which the thesis's tables lack."""
    if "since_shift" in turns:
        return turns
    shifts = evaluate.read(run, "shifts", convention)
    begun = shifts[_KEYS].drop_duplicates()
    begun["last"] = begun["turn"]
    last = turns.merge(begun, on=_KEYS, how="left")["last"]
    last = last.groupby([turns["model"], turns["session_id"]], sort=False).ffill()
    return turns.assign(since_shift=(turns["turn"] - last).astype("Int64"))


def _with_types(shifts: pd.DataFrame, run: str) -> pd.DataFrame:
    """Shifts with their ``type``, the field where logs name none."""
    if "type" in shifts and shifts["type"].fillna("").astype(bool).any():
        return shifts
    kinds = {}
    for talk in simulate.iter_dialogues(run):
        for event in talk.shift_events:
            kinds[talk.model_name, talk.session_id, int(event["turn"])] = _kind(event)
    keys = shifts[_KEYS].itertuples(index=False)
    return shifts.assign(type=[kinds.get(tuple(key), "") for key in keys])


def _with_watched(shifts: pd.DataFrame, run: str, convention: str) -> pd.DataFrame:
    """Shifts with ``watched``, the replies that follow; reply 0 is that to the shift.

    The older convention counts replies from 1, up to the end.
    """
    if "watched" in shifts or shifts.empty:
        return shifts
    turns = evaluate.read(run, "turns", convention)
    ends = turns.groupby(["model", "session_id"])["turn"].max().rename("end").reset_index()
    end = shifts.merge(ends, on=["model", "session_id"], how="left")["end"]
    watched = (end - shifts["turn"] + 1).astype(int)
    return shifts.assign(watched=watched, delay_text=shifts["delay_text"] - 1)


def _kind(event: Mapping[str, Any]) -> str:
    return str(event.get("type") or event.get("to_focus") or "")


def draw(run: str, *names: str, convention: str = "", systems: Sequence[str] = ()) -> None:
    """Draw figures of a run in a notebook, or print what a figure lacks.

    Parameters
    ----------
    run : str
        A finished run.
    *names : str
        Figures by name.
    convention : str
        Whose scores; empty: the run's default.
    systems : sequence of str
        The systems to draw; all without it.
    """
    for name in names:
        try:
            frames = []
            for table in figures.FIGURES.get(name).facts["tables"]:
                frames.append(registered.of_systems(read(run, table, convention), systems))
            figures.draw(name, *frames)
        except NoDataError as error:
            print(registered.why_not(name, run, error))


def _scores(run: str, convention: str) -> pd.DataFrame:
    """The scores of a run as statistics take them."""
    return statistics.stats_frame(evaluate.read(run, "results", convention))


def _plan(plan: Plan | None, scores: pd.DataFrame, convention: str) -> Plan:
    """The plan, or the movies' own where there is none."""
    return plan or statistics.plan_for("movies", list(scores["system"].unique()), convention, scores)


@TABLES.register("power")
def _power(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """Power of the plan's tests by effect and number of scenarios."""
    name = evaluate.convention_of(run, convention)
    scores = _scores(run, name)
    return statistics.power_table(scores, _plan(plan, scores, name))


@TABLES.register("paired_effects")
def _paired_effects(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """Paired differences in a plan's primary outcome, a row a contrast: a, b, diff, low and high (95 %).

    Read "higher minus lower". Contrasts that cannot be compared are left out; NoDataError where none is left.
    """
    name = evaluate.convention_of(run, convention)
    scores = _scores(run, name)
    plan = _plan(plan, scores, name)
    try:
        tests = stats.battery(scores, plan.changed(resamples=1)).declared
    except InputError as error:
        raise NoDataError(f"nothing can be compared: {error}") from error
    compared = tests[(tests["verdict"] != NOT_COMPARED) & tests["low"].notna()]
    if compared.empty:
        raise NoDataError(f"no declared contrast can be compared in {plan.primary_outcome}")
    rows = []
    for row in compared.to_dict("records"):
        gap = stats.Estimate.of(row, "diff")
        a, b = row["a"], row["b"]
        if gap.value < 0:
            a, b, gap = b, a, gap.turned
        rows.append((a, b, *gap[:3], int(row["n"]), int(row["n_missing"])))
    table = pd.DataFrame(rows, columns=["a", "b", "diff", "low", "high", "n_sessions", "n_missing"])
    facts = {"outcome": plan.primary_outcome, "smallest": plan.smallest_effect}
    return table.assign(**facts, n_systems=scores["system"].nunique())


@TABLES.register("judge_means")
def _judge_means(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """Scores by the judges that count: mean and interval by system, in the run's order."""
    if not judging.scores_of(run):
        raise NoDataError(f"run {run!r} has no judge scores")
    scores = judging.score_table(run)
    means = judging.headline(scores).rename(columns={"value": "mean"})
    order = {name: index for index, name in enumerate(dict.fromkeys(scores["model"]))}
    means["order"] = means["model"].map(order)
    means = means.sort_values(["order", "construct"], ignore_index=True).drop(columns="order")
    return means.assign(n_sessions=scores["session_id"].nunique())


@TABLES.register("llm_calls")
def _llm_calls(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """Every call of a model: role, model, session, tokens, seconds, ``sent`` (neither failed nor cached)."""
    log = call_log(run)
    rows = []
    with safety.faults("a log of calls", log):
        for call in tables.read_jsonl(log) if log.exists() else ():
            row = {name: call[name] for name in ("role", "model", "tokens_in", "tokens_out", "seconds")}
            session = call.get("session", "")
            row["session_id"] = f"{session:05d}" if isinstance(session, int) else session
            row["sent"] = call["error"] is None and not call["cache_hit"]
            rows.append(row)
    if not rows:
        raise NoDataError(f"run {run!r} called no language model")
    return pd.DataFrame(rows)


def call_log(run: str) -> Path:
    """The file of a run's calls of language models; it is missing where the run called none."""
    return paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl"


@TABLES.register("sensitivity_weights")
def _sensitivity_weights(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """How stable the ranking is over weights; NoDataError where a convention has no such parts."""
    name = evaluate.convention_of(run, convention)
    if layout.is_thesis(name):
        raise NoDataError(f"convention {name!r} has no item TAS, whose weights these are")
    return stability.weights(evaluate.read(run, "turns", name))


@TABLES.register("replies_at_risk")
def _replies_at_risk(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """The replies until recovery (:func:`at_risk`) of the run's arm "calm" where there is one.

    Insisting helps systems that miss what is scored. ``users`` says which; NoDataError without such tables.
    """
    name = evaluate.convention_of(run, convention)
    calm = f"{run}-{CALM}"
    scored = runs.entry(simulate.STUDY, calm, "evaluate").get("status") == "finished"
    if scored and _simulated(calm).get("arm") == CALM:
        run = calm
    users = "Users of a log"
    insist = _simulated(run).get("insist")
    if insist is not None:
        users = "Users insist" if insist else "Users never insist"
    table = at_risk(read(run, "turns", name), read(run, "shifts", name))
    if table.empty:
        raise NoDataError("no shift whose number of answers is logged")
    return table.assign(users=users)


def paired_users(run: str) -> bool:
    """Whether the systems of a run met the same users: so by design, or as its import found."""
    return not runs.entry(simulate.STUDY, run, "simulate").get("counts", {}).get("users")


def _simulated(run: str) -> Mapping[str, Any]:
    """The settings that a run was simulated with."""
    settings: Mapping[str, Any] = runs.entry(simulate.STUDY, run, "simulate").get("parameters", {})
    return settings


class ScoredView:
    """What a convention's scorer makes of a run's catalogue and texts, for the figures of the design.

    ``scored`` are the parameters of the evaluation. Lines are those of the boxes in a figure, the first of
    them its heading.
    """

    def __init__(self, run: str, scored: Mapping[str, Any]) -> None:
        self.run = run
        self.scored = scored
        self.words = prompts.lists("movies/pages")["boxes"]

    def n_films(self) -> int:
        """How many films there are."""
        return int(runs.entry(simulate.STUDY, self.run, "catalog").get("counts", {}).get("films", 0))

    def tools(self) -> list[str]:
        """What texts are made into, by name."""
        lines = []
        for tool in str(self.scored["embedder"]).split(";"):
            lines += textwrap.wrap(tool.strip(), _WIDE)
        return lines

    def grounding(self) -> list[str]:
        """What becomes of the texts before they are scored."""
        lines = ["Grounding", f"concepts by {self.scored['extractor']}"]
        if self.scored["embedder"] != "none":
            lines += self.tools()
        return [*lines, "films behind the titles"]

    def fields(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The fields of the catalogue as the scorer knows them."""
        return frame

    def cleaning(self, frame: pd.DataFrame) -> list[str]:
        """How labels are cleaned."""
        return [f"{int(frame['changed'].sum()):,} labels cleaned"]

    def use(self) -> list[str]:
        """What the catalogue is for."""
        return ["Use", *self.words["use"]["items"]]


VIEWS: Registry[ScoredView] = Registry("scored view")


def _view(run: str, convention: str) -> ScoredView:
    scored = evaluate.entry(run, convention)["parameters"]
    if scored["scorer"] in VIEWS:
        return VIEWS.get(scored["scorer"]).make(run, scored)
    return ScoredView(run, scored)


@TABLES.register("roles")
def _roles(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """Who takes part in a run and how it is scored, from its manifest: a row a role with its ``lines``."""
    view = _view(run, convention)
    means = evaluate.read(run, "model_metrics", convention)
    systems = [str(name) for name in dict.fromkeys(means["model"])]
    shown = systems
    if len(systems) > _MOST:
        shown = [*systems[: _MOST - 1], f"and {len(systems) - _MOST + 1} more"]
    present = set(means["metric"])
    outcomes = [base.get(name).short for name in layout.outcomes(view.scored["name"]) if name in present]
    roles = {
        "catalogue": [_catalogue(run), f"{view.n_films():,} films"],
        "user": _user(run),
        "system": shown,
        "log": _log(run, view.words),
        "judge": _judges(runs.entry(simulate.STUDY, run, judge_records.STAGE)),
        "grounding": view.grounding(),
        "metrics": [view.scored["name"], *_wrapped(outcomes)],
        "statistics": view.words["paired" if paired_users(run) else "apart"],
    }
    rows = [(role, "\n".join(lines)) for role, lines in roles.items()]
    n_sessions = int((means["n"] + means["n_missing"]).max())
    return pd.DataFrame(rows, columns=["role", "lines"]).assign(n_systems=len(systems), n_sessions=n_sessions)


def _user(run: str) -> list[str]:
    settings = _simulated(run)
    if settings.get("imported"):
        return ["as in the logs"]
    wording = settings.get("user_llm") or ("templates" if "seed" in settings else "")
    return [f"worded by {wording}", f"seed {settings.get('seed')}"]


def _log(run: str, words: Mapping[str, Any]) -> list[str]:
    """What the first dialogue of a run logs."""
    wishes = shifts = False
    for talk in simulate.iter_dialogues(run):
        wishes = any("constraints" in pair.user.user_meta for pair in talk.pairs())
        shifts = bool(talk.shift_turns())
        break
    return [words["constraints"][wishes], words["shifts"][shifts]]


def _catalogue(run: str) -> str:
    """The name of the catalogue that a run was simulated with."""
    parameters = runs.entry(simulate.STUDY, run, "catalog").get("parameters", {})
    return str(parameters.get("catalog", "")).rpartition("/")[2]


def _judges(stage: Mapping[str, Any]) -> list[str]:
    if stage.get("status") != "finished":
        return ["none"]
    settings = stage["parameters"]
    if "adopted" in settings:
        return [f"{settings['adopted']}, made elsewhere"]
    return [str(name) for name in settings.get("judges", [])] or ["not recorded"]


def _wrapped(names: Sequence[str]) -> list[str]:
    """The first lines of a list of names, none of them broken."""
    text = ", ".join(name.replace(" ", "\xa0") for name in names) + ","
    lines = textwrap.wrap(text, _WIDE + 1, break_long_words=False, break_on_hyphens=False)
    return [line.rstrip(",").replace("\xa0", " ") for line in lines[:4]]


@TABLES.register("catalogue_fields")
def _catalogue_fields(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """A row for each field of the catalogue as it was scored.

    ``coverage`` (share of films in [0, 1]), distinct ``values``, labels ``changed`` by cleaning, and whether
    users constrain it (``constraint``), change that (``shift``), texts are scored on it (``topic``), and
    users ask about it (``question``). ``steps`` is the preparation of the data set, boxes of lines.
    """
    view = _view(run, convention)
    frame = view.fields(_fields(evaluate.catalog_of(run), run))
    return frame.assign(steps="\n\n".join(_steps(view, frame)))


def _fields(catalog: Catalog, run: str) -> pd.DataFrame:
    path = paths.run_folder(simulate.STUDY, run) / "cleaning_report.csv"
    changed = Counter[str]()
    if path.is_file():
        with safety.faults("a report of cleaning", path):
            changed.update(pd.read_csv(path, keep_default_na=False)["field"])
    rows = []
    for name, field in catalog.fields.items():
        films = sum(bool(item.values[name]) for item in catalog.items)
        row = {"field": name, "coverage": films / max(1, len(catalog)), "values": len(catalog.values(name))}
        row["changed"] = changed[name]
        row["constraint"] = field.may_shift or field.goal
        row["shift"] = field.may_shift
        row["topic"] = field.in_tas
        row["question"] = field.question is not None
        rows.append(row)
    return pd.DataFrame(rows).assign(n_films=len(catalog))


def _steps(view: ScoredView, frame: pd.DataFrame) -> list[str]:
    """The preparation of the data set, a box of lines each: source, cleaning, pools of values, use."""
    values = dict(zip(frame["field"], frame["values"], strict=True))
    words = values.get("plot", 0)
    plots = f"{words:,} plot keywords" if words else "no plot keywords"
    pools = [f"{name} {n:,}" for name, n in values.items() if name not in ("name", "plot")]
    films = f"{int(frame['n_films'].iloc[0]):,} films"
    boxes = [
        ["Data set", *textwrap.wrap(_catalogue(view.run), _NARROW), films],
        ["Preprocessing", *view.cleaning(frame), plots],
        ["Attribute pools", *pools[:7]],
        view.use(),
    ]
    return ["\n".join(box) for box in boxes]


@TABLES.register("shift_events")
def _shift_events(run: str, convention: str, plan: Plan | None) -> pd.DataFrame:
    """The shifts of a run's scenarios as logged: a row a type and turn with ``n``, a scenario counted once.

    Where the logs tell none, those detected, ``n`` a mean per system; else one row, n 0.
    """
    counts, systems = Counter[tuple[str, int]](), Counter[str]()
    seen = set[str]()
    turns = 0
    for talk in simulate.iter_dialogues(run):
        systems[talk.model_name] += 1
        turns = max(turns, len(talk.pairs()))
        if talk.session_id not in seen:
            counts.update(
                (_kind(event) or "unnamed", int(event.get("turn", 0))) for event in talk.shift_events
            )
        seen.add(talk.session_id)
    rows: list[tuple[str, int, float]] = [(*shift, n) for shift, n in sorted(counts.items())]
    if not rows:
        detected = evaluate.read(run, "shifts", convention)["turn"].value_counts().sort_index()
        rows = [(DETECTED, turn, n / len(systems)) for turn, n in detected.items()]
    frame = pd.DataFrame(rows or [("", 1, 0)], columns=["type", "turn", "n"])
    return frame.assign(
        n_systems=len(systems),
        n_sessions=max(systems.values(), default=0),
        paired=paired_users(run),
        n_turns=turns,
        systems="\n".join(systems),
    )
