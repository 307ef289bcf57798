"""A run's design as tables: who takes part, what the catalogue offers, and when constraints change."""

from collections import Counter
from typing import Any

import pandas as pd

from crs_lib import evaluate, runs, simulate
from crs_lib.core import paths
from crs_lib.figures import layout
from crs_lib.metrics import base

_JUDGES = "judge"


def roles(run: str, convention: str = "") -> pd.DataFrame:
    """Who takes part in a run and how it is scored, from its manifest: a row a role with its ``lines``.

    Roles: catalogue, user, system, log, judge, metrics, statistics. ``lines`` is a text of one or more lines.
    """
    manifest = runs.read_manifest(simulate.STUDY, run)["stages"]
    made, scored = manifest["simulate"]["parameters"], evaluate.entry(run, convention)["parameters"]
    means = evaluate.read(run, "model_metrics", convention)
    systems = [str(name) for name in dict.fromkeys(means["model"])]
    films = manifest.get("catalog", {})
    source = str(films.get("parameters", {}).get("catalog", "")).rpartition("/")[2]
    outcomes = [name for name in layout.outcomes(scored["name"]) if name in set(means["metric"])]
    short = [base.get(name).short for name in outcomes]
    user = made.get("user_llm") or ("templates" if "seed" in made else "")
    rows = {
        "catalogue": [source, f"{films.get('counts', {}).get('films', 0):,} films"],
        "user": ["as in the logs"]
        if made.get("imported")
        else [f"worded by {user}", f"seed {made.get('seed')}"],
        "system": systems if len(systems) <= 8 else [*systems[:7], f"and {len(systems) - 7} more"],
        "log": _log(run),
        "judge": _judges(manifest.get(_JUDGES, {})),
        "metrics": [scored["name"], *_wrapped(short)],
        "statistics": ["paired by scenario,", "Wilcoxon with Holm;", "ANOVA and Tukey beside"],
    }
    lines = ["\n".join(part) for part in rows.values()]
    return pd.DataFrame({"role": list(rows), "lines": lines}).assign(
        n_systems=len(systems), n_sessions=int((means["n"] + means["n_missing"]).max())
    )


def _log(run: str) -> list[str]:
    dialogues = simulate.iter_dialogues(run)
    first = next(dialogues, None)
    wishes = first is not None and any("constraints" in pair.user.user_meta for pair in first.pairs())
    shifts = first is not None and bool(first.shift_turns())
    return [
        "active constraints" if wishes else "no constraints logged",
        "shifts and their types" if shifts else "no shifts logged",
    ]


def _judges(stage: dict[str, Any]) -> list[str]:
    if stage.get("status") != "finished":
        return ["none"]
    given = stage["parameters"]
    if "adopted" in given:
        return [f"{given['adopted']}, made elsewhere"]
    return [str(name) for name in given.get("judges", [])] or ["not recorded"]


def _wrapped(words: list[str], width: int = 26) -> list[str]:
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 2 <= width:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return lines[:4]


def catalogue_fields(run: str, convention: str = "") -> pd.DataFrame:
    """A row for each field of the run's catalogue: films that have it, what cleaning did, where it is used.

    ``coverage`` is the share of films in [0, 1] that have a value, ``values`` the number of distinct ones;
    ``changed`` counts the labels that cleaning merged, renamed or dropped. ``constraint``, ``shift``,
    ``topic`` and ``question`` say whether users constrain the field, change that, whether texts
    are scored on it, and whether users ask about it. ``n_films`` is the number of films.
    """
    catalog = evaluate.catalog_of(run)
    path = paths.run_folder(simulate.STUDY, run) / "cleaning_report.csv"
    report = pd.read_csv(path, keep_default_na=False) if path.is_file() else pd.DataFrame({"field": []})
    changed = Counter(report["field"])
    rows = []
    for name, field in catalog.fields.items():
        having = sum(bool(item.values[name]) for item in catalog.items)
        rows.append({
            "field": name, "coverage": having / max(1, len(catalog)), "values": len(catalog.values(name)),
            "changed": changed[name], "constraint": field.may_shift or field.goal, "shift": field.may_shift,
            "topic": field.in_tas, "question": field.question is not None, "n_films": len(catalog),
        })  # fmt: skip
    return pd.DataFrame(rows)


def shift_events(run: str, convention: str = "") -> pd.DataFrame:
    """The shifts of a run's scenarios as their logs tell them: a row for each type and turn, with ``n``.

    Every scenario counts once, as its first system met it. ``n_systems``, ``n_sessions`` and ``n_turns`` are
    the size of the run. Without shifts there is one row, with n 0.
    """
    counts: Counter[tuple[str, int]] = Counter()
    systems: dict[str, None] = {}
    sessions: set[str] = set()
    longest = 0
    for dialogue in simulate.iter_dialogues(run):
        systems.setdefault(dialogue.model_name)
        longest = max(longest, len(dialogue.pairs()))
        if dialogue.session_id in sessions:
            continue
        sessions.add(dialogue.session_id)
        for event in dialogue.shift_events:
            kind = event.get("type") or event.get("to_focus") or "unnamed"
            counts[str(kind), int(event.get("turn", 0))] += 1
    rows = [{"type": kind, "turn": turn, "n": n} for (kind, turn), n in sorted(counts.items())]
    frame = pd.DataFrame(rows or [{"type": "", "turn": 1, "n": 0}])
    return frame.assign(
        n_systems=len(systems), n_sessions=len(sessions), n_turns=longest, systems="\n".join(systems)
    )
