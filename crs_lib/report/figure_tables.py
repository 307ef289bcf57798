"""The tables behind the figures of a movie run: its design, its evaluation, and what only some runs have."""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, figures, runs, simulate
from crs_lib import judge as judging
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.errors import RunError
from crs_lib.figures import NoDataError, layout
from crs_lib.figures import base as registered
from crs_lib.figures.diagrams import DETECTED
from crs_lib.figures.recovery import at_risk
from crs_lib.judge import run as judge_records
from crs_lib.metrics import base
from crs_lib.report import statistics
from crs_lib.simulate.scenarios import CALM
from crs_lib.stats import Design, cost_interval
from crs_lib.stats.plan import Plan
from crs_lib.thesis.catalog import CONCEPT_FIELDS, ThesisCatalog, listed
from crs_lib.validity import redteam, sensitivity


def read(run: str, table: str, convention: str = "", plan: Plan | None = None) -> pd.DataFrame:
    """A figure's table, tests by ``plan`` or the movies'; NoDataError without data, RunError if unscored."""
    if table in _OTHERS:
        evaluate.entry(run, convention)
        return _OTHERS[table](run, convention)
    if table in _TESTS:
        return _TESTS[table](*_planned(run, convention, plan))
    frame = evaluate.read(run, table, convention)
    more = {"turns": _with_shifts, "shifts": _as_waiting}.get(table)
    return more(frame, run, convention) if more else frame


def _with_shifts(turns: pd.DataFrame, run: str, convention: str) -> pd.DataFrame:
    """Turns with ``since_shift``, the turns since the last shift, which the thesis's tables lack."""
    if "since_shift" in turns:
        return turns
    keys = ["model", "session_id", "turn"]
    shifts = evaluate.read(run, "shifts", convention)
    at = turns.merge(shifts[keys].drop_duplicates().assign(last=shifts["turn"]), on=keys, how="left")["last"]
    last = at.groupby([turns["model"], turns["session_id"]], sort=False).ffill()
    return turns.assign(since_shift=(turns["turn"] - last).astype("Int64"))


def _as_waiting(shifts: pd.DataFrame, run: str, convention: str) -> pd.DataFrame:
    """Shifts with ``type``, the field where logs name none, and ``watched``; reply 0 is that to the shift."""
    if "type" not in shifts or not shifts["type"].fillna("").astype(bool).any():
        told = ((talk, event) for talk in simulate.iter_dialogues(run) for event in talk.shift_events)
        known = {(talk.model_name, talk.session_id, int(one["turn"])): _kind(one) for talk, one in told}
        keys = shifts[["model", "session_id", "turn"]].itertuples(index=False)
        shifts = shifts.assign(type=[known.get(key, "") for key in keys])
    if "watched" not in shifts and len(shifts):  # the older convention counts replies from 1, up to the end
        turns = evaluate.read(run, "turns", convention)
        ends = turns.groupby(["model", "session_id"])["turn"].max().rename("end").reset_index()
        end = shifts.merge(ends, on=["model", "session_id"], how="left")["end"]
        watched = (end - shifts["turn"] + 1).astype(int)
        shifts = shifts.assign(watched=watched, delay_text=shifts["delay_text"] - 1)
    return shifts


def _kind(event: Mapping[str, Any]) -> str:
    return str(event.get("type") or event.get("to_focus") or "")


def draw(run: str, *names: str, convention: str = "", systems: Sequence[str] = ()) -> None:
    """Draw figures of a run in a notebook, of all systems or of those named, or print what a figure lacks."""
    for name in names:
        wanted = figures.FIGURES.get(name).facts["tables"]
        try:
            frames = (registered.of_systems(read(run, table, convention), systems) for table in wanted)
            figures.draw(name, *frames)
        except NoDataError as error:
            print(registered.why_not(name, run, error))


def _planned(run: str, convention: str, plan: Plan | None) -> tuple[pd.DataFrame, Plan]:
    """The scores of a run as statistics take them, and the plan; the movies' own where none is given."""
    name = evaluate.convention_of(run, convention)
    scores = statistics.stats_frame(evaluate.read(run, "results", name))
    return scores, plan or statistics.plan_for("movies", list(scores["system"].unique()), name, scores)


def _paired_effects(scores: pd.DataFrame, declared: Plan) -> pd.DataFrame:
    """Paired differences of a plan's primary outcome, a row a pair: a, b, diff, low and high (95 %).
    ``declared`` pairs keep the plan's order, others read "higher minus lower"; ``neighbours`` are next to
    each other by mean. Raises NoDataError where nothing is comparable.
    """
    outcome, wanted = declared.primary_outcome, set(() if declared.all_pairs else declared.contrasts)
    known = scores[scores[outcome].notna()]
    order = list(known.groupby("system")[outcome].mean().sort_values().index)
    if len(order) < 2:
        raise NoDataError(f"fewer than 2 systems have {outcome}; there is nothing to compare")
    if Design().independent(known):
        raise NoDataError("systems met different users: there are no paired differences")
    rows = []
    averaged = known.groupby(["system", "scenario"], as_index=False)[outcome].mean()
    for pair in Design(value=outcome).differences(averaged, least=0):
        a, b, found = pair.a, pair.b, cost_interval(pair.values)
        if found.reason:
            continue
        row = {"a": a, "b": b, "diff": found.value, "low": found.low, "high": found.high}
        row |= {"n": len(pair.both), "n_missing": pair.missing}
        beside = abs(order.index(a) - order.index(b)) == 1
        if (b, a) in wanted or ((a, b) not in wanted and row["diff"] < 0):
            row |= {"a": b, "b": a, "diff": -row["diff"], "low": -row["high"], "high": -row["low"]}
        rows.append({**row, "declared": (row["a"], row["b"]) in wanted, "neighbours": beside})
    if not rows:
        raise NoDataError(f"no two systems share two scenarios with {outcome}; nothing can be compared")
    facts = {"outcome": outcome, "smallest": declared.smallest_effect, "n_systems": len(order)}
    return pd.DataFrame(rows).rename(columns={"n": "n_sessions"}).assign(**facts)


def _judge_means(run: str, convention: str) -> pd.DataFrame:
    """Scores by the judges that count: mean and interval by system, in the run's order."""
    if not judging.scores_of(run):
        raise NoDataError(f"run {run!r} has no judge scores")
    scores = judging.score_table(run)
    found = judging.headline(scores).rename(columns={"value": "mean"})
    order = {name: place for place, name in enumerate(dict.fromkeys(scores["model"]))}
    found = found.sort_values(["model", "construct"], key=lambda c: c.map(order) if c.name == "model" else c)
    return found.assign(n_sessions=scores["session_id"].nunique()).reset_index(drop=True)


def _llm_calls(run: str, convention: str) -> pd.DataFrame:
    """Every call of a model: role, model, session, tokens, seconds, ``sent`` (neither failed nor cached)."""
    log, rows = call_log(run), []
    with safety.faults("a log of calls", log):
        for row in tables.read_jsonl(log) if log.exists() else ():
            session = row.get("session", "")
            session = f"{session:05d}" if isinstance(session, int) else session
            kept = {name: row[name] for name in ("role", "model", "tokens_in", "tokens_out", "seconds")}
            sent = row["error"] is None and not row["cache_hit"]
            rows.append({**kept, "session_id": session, "sent": sent})
    if not rows:
        raise NoDataError(f"run {run!r} called no language model")
    return pd.DataFrame(rows)


def call_log(run: str) -> Path:
    """The file of a run's calls of language models; it is missing where the run called none."""
    return paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl"


def _sensitivity_weights(run: str, convention: str) -> pd.DataFrame:
    """How stable the ranking is over weights; NoDataError where a convention has no such parts."""
    name = evaluate.convention_of(run, convention)
    if layout.is_thesis(name):
        raise NoDataError(f"convention {name!r} has no item TAS, whose weights these are")
    return sensitivity.weights(evaluate.read(run, "turns", name))


def _replies_at_risk(run: str, convention: str) -> pd.DataFrame:
    """The replies until recovery (:func:`at_risk`) of the run's arm "calm" where there is one: insisting
    helps systems that miss what is scored. ``users`` says which; NoDataError without such tables.
    """
    own, calm = evaluate.convention_of(run, convention), f"{run}-{CALM}"
    scored = runs.entry(simulate.STUDY, calm, "evaluate").get("status") == "finished"
    if scored and _simulated(calm).get("arm") == CALM:
        run = calm
    insist = _simulated(run).get("insist")
    users = "Users of a log" if insist is None else "Users insist" if insist else "Users never insist"
    found = at_risk(_with_shifts(evaluate.read(run, "turns", own), run, own), read(run, "shifts", own))
    if found.empty:
        raise NoDataError("no shift whose number of answers is logged")
    return found.assign(users=users)


def paired_users(run: str) -> bool:
    """Whether the systems of a run met the same users: so by design, or as its import found."""
    return not runs.entry(simulate.STUDY, run, "simulate").get("counts", {}).get("users")


def _simulated(run: str) -> dict[str, Any]:
    """The settings that a run was simulated with."""
    return dict(runs.entry(simulate.STUDY, run, "simulate").get("parameters", {}))


def _exploited(run: str, convention: str) -> pd.DataFrame:
    """How far useless policies raise each metric, ``n_policies`` tried; NoDataError where none was sought."""
    try:
        return redteam.stored(run).rename(columns={"budget": "n_policies"}).drop(columns="n")
    except RunError as error:
        raise NoDataError(f"run {run!r} has no search for useless policies") from error


def _roles(run: str, convention: str) -> pd.DataFrame:
    """Who takes part in a run and how it is scored, from its manifest: a row a role with its ``lines``."""
    made, scored = _simulated(run), evaluate.entry(run, convention)["parameters"]
    means = evaluate.read(run, "model_metrics", convention)
    systems = [str(name) for name in dict.fromkeys(means["model"])]
    n_films = runs.entry(simulate.STUDY, run, "catalog").get("counts", {}).get("films", 0)
    n_films = len(thesis_catalog(run)) if scored["catalog"] == "thesis" else n_films
    words, first = prompts.lists("movies/pages")["boxes"], next(simulate.iter_dialogues(run), None)
    wishes = first is not None and any("constraints" in pair.user.user_meta for pair in first.pairs())
    shifts = first is not None and bool(first.shift_turns())
    outcomes = [name for name in layout.outcomes(scored["name"]) if name in set(means["metric"])]
    user = [f"worded by {made.get('user_llm') or 'templates' * ('seed' in made)}", f"seed {made.get('seed')}"]
    rows = {
        "catalogue": [_catalogue(run), f"{n_films:,} films"],
        "user": ["as in the logs"] if made.get("imported") else user,
        "system": systems if len(systems) <= 8 else [*systems[:7], f"and {len(systems) - 7} more"],
        "log": [words["constraints"][wishes], words["shifts"][shifts]],
        "judge": _judges(runs.entry(simulate.STUDY, run, judge_records.STAGE)),
        "grounding": _grounding(scored),
        "metrics": [scored["name"], *_wrapped([base.get(name).short for name in outcomes])],
        "statistics": words["paired" if paired_users(run) else "apart"],
    }
    table = pd.DataFrame({"role": list(rows), "lines": ["\n".join(part) for part in rows.values()]})
    return table.assign(n_systems=len(systems), n_sessions=int((means["n"] + means["n_missing"]).max()))


def _catalogue(run: str) -> str:
    """The name of the catalogue that a run was simulated with."""
    parameters = runs.entry(simulate.STUDY, run, "catalog").get("parameters", {})
    return str(parameters.get("catalog", "")).rpartition("/")[2]


def _grounding(scored: Mapping[str, Any]) -> list[str]:
    """What a convention makes of the texts before it scores them; the first line is the heading."""
    tools = [part.strip() for part in str(scored["embedder"]).split(";")]
    told = [line for tool in tools for line in textwrap.wrap(tool, 26)]
    if scored["scorer"] == "legacy":
        low, few = scored.get("shift_similarity", 0.55), scored.get("shift_jaccard", 0.35)
        cut = ["segments end where texts", f"are less alike than {low:g}", f"or share topics below {few:g}"]
        return ["Topic model, segmentation", *told, *cut]
    if scored["scorer"] == "grounded":
        return ["Concepts", f"of {len(CONCEPT_FIELDS)} fields, by {scored['extractor']}", *told]
    found = f"concepts by {scored['extractor']}"
    return ["Grounding", found, *(told if scored["embedder"] != "none" else []), "films behind the titles"]


def _judges(stage: dict[str, Any]) -> list[str]:
    if stage.get("status") != "finished":
        return ["none"]
    given = stage["parameters"]
    if "adopted" in given:
        return [f"{given['adopted']}, made elsewhere"]
    return [str(name) for name in given.get("judges", [])] or ["not recorded"]


def _wrapped(names: list[str]) -> list[str]:
    """The first lines of a list of names, none of them broken."""
    text = ", ".join(name.replace(" ", "\xa0") for name in names) + ","
    lines = textwrap.wrap(text, 27, break_long_words=False, break_on_hyphens=False)
    return [line.rstrip(",").replace("\xa0", " ") for line in lines[:4]]


def _catalogue_fields(run: str, convention: str) -> pd.DataFrame:
    """A row for each field of the catalogue as it was scored: ``coverage`` (share of films in [0, 1]),
    distinct ``values``, labels ``changed`` by cleaning, and whether users constrain it (``constraint``),
    change that (``shift``), texts are scored on it (``topic``), and users ask about it (``question``).
    ``steps`` is the preparation of the data set, boxes of lines.
    """
    catalog, scored = evaluate.catalog_of(run), evaluate.entry(run, convention)["parameters"]
    path = paths.run_folder(simulate.STUDY, run) / "cleaning_report.csv"
    with safety.faults("a report of cleaning", path):
        report = pd.read_csv(path, keep_default_na=False) if path.is_file() else {"field": []}
        changed = Counter(report["field"])
    rows = []
    for name, field in catalog.fields.items():
        having = sum(bool(item.values[name]) for item in catalog.items)
        rows.append({
            "field": name, "coverage": having / max(1, len(catalog)), "values": len(catalog.values(name)),
            "changed": changed[name], "constraint": field.may_shift or field.goal, "shift": field.may_shift,
            "topic": field.in_tas, "question": field.question is not None, "n_films": len(catalog),
        })  # fmt: skip
    frame = pd.DataFrame(rows)
    if scored["catalog"] == "thesis":
        frame = _as_indexed(frame, thesis_catalog(run), scored["scorer"] == "grounded")
    return frame.assign(steps="\n\n".join(_steps(run, scored, frame)))


def thesis_catalog(run: str) -> ThesisCatalog:
    """The run's catalogue as the thesis read it."""
    folder = paths.run_folder(simulate.STUDY, run)
    raw = folder / simulate.RAW_CATALOG
    return ThesisCatalog.load(raw if raw.is_file() else folder / "catalog.parquet")


def _as_indexed(frame: pd.DataFrame, films: ThesisCatalog, concepts: bool) -> pd.DataFrame:
    """The fields as the thesis's scores know them: its index, its concepts, and words of plots."""
    index = {**films.index, "plot": films.plot_index}
    raw = {name: {value for _, one in films.records for value in listed(one.get(name))} for name in index}
    rows = []
    for name, values in index.items():
        share = len({film for films_of in values.values() for film in films_of}) / len(films)
        merged = 0 if name == "plot" else len(raw[name]) - len(values)
        rows.append({"field": name, "coverage": share, "values": len(values), "changed": merged})
    uses = frame.set_index("field")[["constraint", "shift", "question"]]
    found = pd.DataFrame(rows).join(uses, on="field").fillna(dict.fromkeys(uses, False))
    return found.assign(topic=[concepts and n in CONCEPT_FIELDS for n in found["field"]], n_films=len(films))


def _steps(run: str, scored: Mapping[str, Any], frame: pd.DataFrame) -> list[str]:
    """The preparation of the data set, a box of lines each: source, cleaning, pools of values, use."""
    values = dict(zip(frame["field"], frame["values"], strict=True))
    n_films, words = int(frame["n_films"].iloc[0]), values.get("plot", 0)
    labels = [f"{int(frame['changed'].sum()):,} labels cleaned"]
    lines = prompts.lists("movies/pages")["boxes"]
    plots = [f"{words:,} plot keywords"] if words else ["no plot keywords"]
    pools = [f"{name} {n:,}" for name, n in values.items() if name not in ("name", "plot")]
    legacy, use = scored["scorer"] == "legacy", lines["use"].get(scored["scorer"], lines["use"]["grounded"])
    if legacy:
        model = str(scored["embedder"]).partition(";")[0].removeprefix("topics: ")
        of = "on the plots" if str(scored["topics"]).startswith("lda") else "none: topics by words"
        use = [of, *textwrap.wrap(model, 22), *use]
    boxes = [
        ["Data set", *textwrap.wrap(_catalogue(run), 22), f"{n_films:,} films"],
        ["Preprocessing", *(lines["cleaned"] if scored["catalog"] == "thesis" else labels), *plots],
        ["Attribute pools", *pools[:7]],
        ["LDA training" if legacy else "Use", *use],
    ]
    return ["\n".join(box) for box in boxes]


def _shift_events(run: str, convention: str) -> pd.DataFrame:
    """The shifts of a run's scenarios as logged: a row a type and turn with ``n``, every scenario counted
    once. Where the logs tell none, those detected, ``n`` a mean per system; else one row, n 0.
    """
    counts, systems, seen, turns = Counter[tuple[str, int]](), Counter[str](), set[str](), 0
    for talk in simulate.iter_dialogues(run):
        systems[talk.model_name] += 1
        turns = max(turns, len(talk.pairs()))
        if talk.session_id not in seen:
            counts.update((_kind(e) or "unnamed", int(e.get("turn", 0))) for e in talk.shift_events)
        seen.add(talk.session_id)
    rows: list[Any] = [(*shift, n) for shift, n in sorted(counts.items())]
    if not rows:
        found = evaluate.read(run, "shifts", convention)["turn"].value_counts().sort_index()
        rows = [(DETECTED, turn, n / len(systems)) for turn, n in found.items()]
    frame = pd.DataFrame(rows or [("", 1, 0)], columns=["type", "turn", "n"])
    frame = frame.assign(n_systems=len(systems), n_sessions=max(systems.values(), default=0))
    return frame.assign(paired=paired_users(run), n_turns=turns, systems="\n".join(systems))


_OTHERS: dict[str, Callable[[str, str], pd.DataFrame]] = {
    "roles": _roles, "catalogue_fields": _catalogue_fields, "shift_events": _shift_events,
    "judge_means": _judge_means, "llm_calls": _llm_calls, "redteam": _exploited,
    "replies_at_risk": _replies_at_risk, "sensitivity_weights": _sensitivity_weights,
    "sensitivity_choices": lambda run, _: sensitivity.read(run),
}  # fmt: skip
_TESTS = {"paired_effects": _paired_effects, "power": statistics.power_table}
