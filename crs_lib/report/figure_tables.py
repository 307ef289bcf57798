"""The tables behind the figures of a movie run: its design, its evaluation, and what only some runs have.

How a convention's scorer reads the catalogue is told by a view registered in :data:`VIEWS`; a client adds to
it.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import evaluate, figures, simulate, stats
from crs_lib import judge as judging
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.dialogue import Dialogue
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


class _Request(NamedTuple):
    """What a table is asked of: a run, a convention of its, and the plan of the tests, if not the movies'."""

    run: str
    convention: str
    plan: Plan | None

    def read(self, table: str) -> pd.DataFrame:
        """A table of the evaluation."""
        return evaluate.read(self.run, table, self.convention)

    def scores(self) -> pd.DataFrame:
        """The session scores as statistics take them."""
        return statistics.stats_frame(self.read("results"))

    def plan_for(self, scores: pd.DataFrame) -> Plan:
        """The plan, or the movies' own where there is none."""
        if self.plan is not None:
            return self.plan
        return statistics.plan_for("movies", list(scores["system"].unique()), self.convention, scores)


def read(run: str, table: str, convention: str = "", plan: Plan | None = None) -> pd.DataFrame:
    """A figure's table, tests by ``plan`` or the movies'; NoDataError without data, RunError if unscored."""
    request = _Request(run, evaluate.convention_of(run, convention), plan)
    if table in _MAKERS:
        evaluate.entry(run, request.convention)
        return _MAKERS[table](request)
    frame = request.read(table)
    if table == "turns":
        return _with_shifts(frame, request)
    if table == "shifts":
        return _with_watched(_with_types(frame, run), request)
    return frame


def _with_shifts(turns: pd.DataFrame, request: _Request) -> pd.DataFrame:
    """Turns with ``since_shift``, the turns since the last shift, which the thesis's tables lack."""
    if "since_shift" in turns:
        return turns
    begun = request.read("shifts")[_KEYS].drop_duplicates()
    begun["last"] = begun["turn"]
    last = turns.merge(begun, on=_KEYS, how="left")["last"]
    last = last.groupby([turns["model"], turns["session_id"]], sort=False).ffill()
    return turns.assign(since_shift=(turns["turn"] - last).astype("Int64"))


def _with_types(shifts: pd.DataFrame, run: str) -> pd.DataFrame:
    """Shifts with their ``type``, the field where logs name none."""
    if "type" in shifts and shifts["type"].fillna("").astype(bool).any():
        return shifts
    rows = []
    for talk in simulate.iter_dialogues(run):
        for event in talk.shift_events:
            rows.append((talk.model_name, talk.session_id, int(event["turn"]), _kind(event)))
    kinds = pd.DataFrame(rows, columns=[*_KEYS, "type"]).drop_duplicates(_KEYS, keep="last")
    typed = shifts.drop(columns="type", errors="ignore").merge(kinds, on=_KEYS, how="left")
    return shifts.assign(type=typed["type"].fillna("").tolist())


def _with_watched(shifts: pd.DataFrame, request: _Request) -> pd.DataFrame:
    """Shifts with ``watched``, the replies that follow; reply 0 is that to the shift.

    The older convention counts replies from 1, up to the end.
    """
    if "watched" in shifts or shifts.empty:
        return shifts
    turns = request.read("turns")
    ends = turns.groupby(["model", "session_id"])["turn"].max().rename("end").reset_index()
    end = shifts.merge(ends, on=["model", "session_id"], how="left")["end"]
    watched = (end - shifts["turn"] + 1).astype(int)
    return shifts.assign(watched=watched, delay_text=shifts["delay_text"] - 1)


def _kind(event: Mapping[str, Any]) -> str:
    """The type of a shift as logged, or the field that it leads to."""
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


def _power(request: _Request) -> pd.DataFrame:
    """Power of the plan's tests by effect and number of scenarios."""
    scores = request.scores()
    return statistics.power_table(scores, request.plan_for(scores))


def _paired_effects(request: _Request) -> pd.DataFrame:
    """Paired differences in a plan's primary outcome, a row a contrast: a, b, diff, low and high (95 %).

    Read "higher minus lower". Contrasts that cannot be compared are left out; NoDataError where none is left.
    """
    scores = request.scores()
    plan = request.plan_for(scores)
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
    table["outcome"] = plan.primary_outcome
    table["smallest"] = plan.smallest_effect
    return table.assign(n_systems=scores["system"].nunique())


def _judge_means(request: _Request) -> pd.DataFrame:
    """Scores by the judges that count: mean and interval by system, in the run's order."""
    if not judging.scores_of(request.run):
        raise NoDataError(f"run {request.run!r} has no judge scores")
    scores = judging.score_table(request.run)
    means = judging.headline(scores).rename(columns={"value": "mean"})
    order = list(dict.fromkeys(scores["model"]))
    means = means.sort_values("construct", kind="stable")
    means = means.sort_values("model", key=lambda names: names.map(order.index), kind="stable")
    n_sessions = scores.groupby("model")["session_id"].nunique().max()
    return means.reset_index(drop=True).assign(n_sessions=n_sessions)


def _llm_calls(request: _Request) -> pd.DataFrame:
    """Every call of a model: role, model, session, tokens, seconds, ``sent`` (neither failed nor cached)."""
    log = call_log(request.run)
    rows = []
    with safety.faults("a log of calls", log):
        for call in tables.read_jsonl(log) if log.exists() else ():
            row = {name: call[name] for name in ("role", "model", "tokens_in", "tokens_out", "seconds")}
            session = call.get("session", "")
            row["session_id"] = f"{session:05d}" if isinstance(session, int) else session
            row["sent"] = call["error"] is None and not call["cache_hit"]
            rows.append(row)
    if not rows:
        raise NoDataError(f"run {request.run!r} called no language model")
    return pd.DataFrame(rows)


def call_log(run: str) -> Path:
    """The file of a run's calls of language models; it is missing where the run called none."""
    return paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl"


def _sensitivity_weights(request: _Request) -> pd.DataFrame:
    """How stable the ranking is over weights; NoDataError where a convention has no such parts."""
    if layout.is_thesis(request.convention):
        raise NoDataError(f"convention {request.convention!r} has no item TAS, whose weights these are")
    return stability.weights(request.read("turns"))


def _replies_at_risk(request: _Request) -> pd.DataFrame:
    """The replies until recovery (:func:`at_risk`) of the run's arm "calm" where there is one.

    Insisting helps systems that miss what is scored. ``users`` says which; NoDataError without such tables.
    """
    run = request.run
    calm = f"{run}-{CALM}"
    is_scored = simulate.run_named(calm).entry("evaluate").get("status") == "finished"
    if is_scored and _simulated(calm).get("arm") == CALM:
        run = calm
    users = "Users of a log"
    insist = _simulated(run).get("insist")
    if insist is not None:
        users = "Users insist" if insist else "Users never insist"
    table = at_risk(read(run, "turns", request.convention), read(run, "shifts", request.convention))
    if table.empty:
        raise NoDataError("no shift whose number of answers is logged")
    return table.assign(users=users)


def paired_users(run: str) -> bool:
    """Whether the systems of a run met the same users: so by design, or as its import found."""
    counts = simulate.run_named(run).entry("simulate").get("counts", {})
    return not counts.get("users")


def _simulated(run: str) -> Mapping[str, Any]:
    """The settings that a run was simulated with."""
    entry = simulate.run_named(run).entry("simulate")
    settings: Mapping[str, Any] = entry.get("parameters", {})
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
        counts = simulate.run_named(self.run).entry("catalog").get("counts", {})
        return int(counts.get("films", 0))

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


def _view(request: _Request) -> ScoredView:
    scored = evaluate.entry(request.run, request.convention)["parameters"]
    if scored["scorer"] in VIEWS:
        return VIEWS.get(scored["scorer"]).make(request.run, scored)
    return ScoredView(request.run, scored)


def _roles(request: _Request) -> pd.DataFrame:
    """Who takes part in a run and how it is scored, from its manifest: a row a role with its ``lines``."""
    run = request.run
    view = _view(request)
    means = request.read("model_metrics")
    systems = list(dict.fromkeys(means["model"].astype(str)))
    present = set(means["metric"])
    outcomes = []
    for name in layout.outcomes(view.scored["name"]):
        if name in present:
            outcomes.append(base.get(name).short)
    roles = {"catalogue": [_catalogue(run), f"{view.n_films():,} films"]}
    roles["user"] = _user(run)
    roles["system"] = _first_systems(systems)
    roles["log"] = _log(run, view.words)
    roles["judge"] = _judges(simulate.run_named(run).entry(judge_records.STAGE))
    roles["grounding"] = view.grounding()
    roles["metrics"] = [view.scored["name"], *_wrapped(outcomes)]
    roles["statistics"] = view.words["paired" if paired_users(run) else "apart"]
    lines = map("\n".join, roles.values())
    table = pd.DataFrame({"role": list(roles), "lines": lines})
    n_sessions = int((means["n"] + means["n_missing"]).max())
    return table.assign(n_systems=len(systems), n_sessions=n_sessions)


def _first_systems(systems: list[str]) -> list[str]:
    """The systems that a box has room for, and how many more there are."""
    if len(systems) <= _MOST:
        return systems
    return [*systems[: _MOST - 1], f"and {len(systems) - _MOST + 1} more"]


def _user(run: str) -> list[str]:
    """Who words the users, and the seed of their plans."""
    settings = _simulated(run)
    if settings.get("imported"):
        return ["as in the logs"]
    wording = settings.get("user_llm") or ("templates" if "seed" in settings else "")
    return [f"worded by {wording}", f"seed {settings.get('seed')}"]


def _log(run: str, words: Mapping[str, Any]) -> list[str]:
    """What the first dialogue of a run logs."""
    talk = next(iter(simulate.iter_dialogues(run)), None)
    if talk is None:
        return [words["constraints"][False], words["shifts"][False]]
    has_constraints = any("constraints" in pair.user.user_meta for pair in talk.pairs())
    return [words["constraints"][has_constraints], words["shifts"][bool(talk.shift_turns())]]


def _catalogue(run: str) -> str:
    """The name of the catalogue that a run was simulated with."""
    parameters = simulate.run_named(run).entry("catalog").get("parameters", {})
    return str(parameters.get("catalog", "")).rpartition("/")[2]


def _judges(stage: Mapping[str, Any]) -> list[str]:
    """The models that judged, if any."""
    if stage.get("status") != "finished":
        return ["none"]
    settings = stage["parameters"]
    if "adopted" in settings:
        return [f"{settings['adopted']}, made elsewhere"]
    return [str(name) for name in settings.get("judges", [])] or ["not recorded"]


def _wrapped(names: Iterable[str]) -> list[str]:
    """The first lines of a list of names, none of them broken."""
    unbroken = [name.replace(" ", "\xa0") for name in names]
    text = ", ".join(unbroken) + ","
    lines = textwrap.wrap(text, _WIDE + 1, break_long_words=False, break_on_hyphens=False)
    return [line.rstrip(",").replace("\xa0", " ") for line in lines[:4]]


def _catalogue_fields(request: _Request) -> pd.DataFrame:
    """A row for each field of the catalogue as it was scored.

    ``coverage`` (share of films in [0, 1]), distinct ``values``, labels ``changed`` by cleaning, and whether
    users constrain it (``constraint``), change that (``shift``), texts are scored on it (``topic``), and
    users ask about it (``question``). ``steps`` is the preparation of the data set, boxes of lines.
    """
    view = _view(request)
    frame = view.fields(_fields(evaluate.catalog_of(request.run), request.run))
    boxes = map("\n".join, _boxes(view, frame))
    return frame.assign(steps="\n\n".join(boxes))


def _fields(catalog: Catalog, run: str) -> pd.DataFrame:
    """The fields of a catalogue, and what users do with them."""
    path = paths.run_folder(simulate.STUDY, run) / "cleaning_report.csv"
    changed = Counter[str]()
    if path.is_file():
        with safety.faults("a report of cleaning", path):
            changed.update(tables.read_csv(path)["field"].fillna(""))
    rows = []
    for name, field in catalog.fields.items():
        films = [item for item in catalog.items if item.values[name]]
        coverage = len(films) / max(1, len(catalog))
        row = {"field": name, "coverage": coverage, "values": len(catalog.values(name))}
        row["changed"] = changed[name]
        row["constraint"] = field.may_shift or field.goal
        row["shift"] = field.may_shift
        row["topic"] = field.in_tas
        row["question"] = field.question is not None
        rows.append(row)
    return pd.DataFrame(rows).assign(n_films=len(catalog))


def _boxes(view: ScoredView, frame: pd.DataFrame) -> list[list[str]]:
    """The preparation of the data set, a box of lines each: source, cleaning, pools of values, use."""
    pools = []
    words = "no plot keywords"
    for name, n in zip(frame["field"], frame["values"], strict=True):
        if name == "plot" and n:
            words = f"{n:,} plot keywords"
        elif name not in ("name", "plot"):
            pools.append(f"{name} {n:,}")
    films = f"{int(frame['n_films'].iloc[0]):,} films"
    data_set = ["Data set", *textwrap.wrap(_catalogue(view.run), _NARROW), films]
    preprocessing = ["Preprocessing", *view.cleaning(frame), words]
    return [data_set, preprocessing, ["Attribute pools", *pools[:7]], view.use()]


def _shift_events(request: _Request) -> pd.DataFrame:
    """The shifts of a run's scenarios as logged: a row a type and turn with ``n``, a scenario counted once.

    Where the logs tell none, those detected, ``n`` a mean per system; else one row, n 0.
    """
    counts = Counter[tuple[str, int]]()
    systems = Counter[str]()
    sessions = set[str]()
    turns = 0
    for talk in simulate.iter_dialogues(request.run):
        systems[talk.model_name] += 1
        turns = max(turns, len(talk.pairs()))
        if talk.session_id not in sessions:
            counts.update(_logged_shifts(talk))
        sessions.add(talk.session_id)
    rows: list[tuple[str, int, float]] = []
    for (kind, turn), n in sorted(counts.items()):
        rows.append((kind, turn, n))
    if not rows:
        detected = request.read("shifts")["turn"].value_counts().sort_index()
        rows = [(DETECTED, turn, n / len(systems)) for turn, n in detected.items()]
    frame = pd.DataFrame(rows or [("", 1, 0)], columns=["type", "turn", "n"])
    frame["n_systems"] = len(systems)
    frame["n_sessions"] = max(systems.values(), default=0)
    frame["paired"] = paired_users(request.run)
    frame["n_turns"] = turns
    return frame.assign(systems="\n".join(systems))


def _logged_shifts(talk: Dialogue) -> list[tuple[str, int]]:
    """The type and turn of every shift of a session."""
    shifts = []
    for event in talk.shift_events:
        kind = _kind(event) or "unnamed"
        shifts.append((kind, int(event.get("turn", 0))))
    return shifts


_MAKERS: Mapping[str, Callable[[_Request], pd.DataFrame]] = {
    "power": _power,
    "paired_effects": _paired_effects,
    "judge_means": _judge_means,
    "llm_calls": _llm_calls,
    "sensitivity_weights": _sensitivity_weights,
    "replies_at_risk": _replies_at_risk,
    "roles": _roles,
    "catalogue_fields": _catalogue_fields,
    "shift_events": _shift_events,
}
