"""The tables of the statistics notebook: the declared plan, and a ladder of tests cut to what is read."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import paths
from crs_lib.errors import InputError
from crs_lib.movies.evaluate import ALL_METRICS
from crs_lib.stats.plan import Plan, read_plan
from crs_lib.stats.words import p_in_words


def stats_frame(results: pd.DataFrame) -> pd.DataFrame:
    """Session scores as statistics take them: system, scenario, one column per metric."""
    frame = results.rename(columns={"model": "system", "session_id": "scenario"})
    return frame[["system", "scenario", *ALL_METRICS]].astype(dict.fromkeys(ALL_METRICS, float))


def plan_for(name: str, systems: Sequence[str]) -> Plan:
    """The declared plan ``notebooks/plans/<name>.yaml``, its contrasts cut down to the systems at hand.

    Raises InputError for a plan that does not exist or that cannot be read.
    """
    import yaml

    path = paths.notebooks() / "plans" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise InputError(f"no analysis plan {name!r}; give one of {known}, or add {path.name}")
    plan = read_plan(yaml.safe_load(path.read_text(encoding="utf-8")))
    usable = tuple(pair for pair in plan.contrasts if set(pair) <= set(systems))
    return plan._replace(contrasts=usable)


def plan_table(plan: Plan) -> pd.DataFrame:
    """The plan as two columns: what was declared, and how."""
    rows = {
        "primary outcome": plan.primary_outcome,
        "secondary outcomes": ", ".join(plan.secondary_outcomes),
        "contrasts": "; ".join(f"{a} against {b}" for a, b in plan.contrasts) or "none for these systems",
        "correction, confirmatory": plan.families["confirmatory"],
        "correction, exploratory": plan.families["exploratory"],
        "smallest effect that matters": f"{plan.smallest_effect:g}",
        "level": f"{plan.alpha:g}",
    }
    return pd.DataFrame({"declared": list(rows), "how": list(rows.values())})


def tidy(frame: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A frame without empty columns, p-values in words; notes are kept where there are any."""
    shown = frame[list(columns)] if columns else frame
    shown = shown.replace("", pd.NA).dropna(axis=1, how="all").reset_index(drop=True)
    for name in shown.columns:
        if name == "p" or name.startswith("p_"):
            shown[name] = ["" if pd.isna(p) else p_in_words(float(p)) for p in shown[name]]
    return shown.astype(object).where(shown.notna(), "")


def confirmatory(pairwise: pd.DataFrame) -> pd.DataFrame:
    """The declared contrasts on the primary outcome: difference, interval, both tests after correction."""
    mine = pairwise[pairwise["family"] == "confirmatory"]
    columns = ["a", "b", "diff", "low", "high", "p_wilcoxon_adjusted", "p_sign_flip_adjusted", "n"]
    return tidy(mine, columns)


def of_contrasts(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """The rows of a pairwise table that belong to declared contrasts on the primary outcome."""
    wanted = {frozenset(pair) for pair in plan.contrasts}
    mine = frame[frame["outcome"] == plan.primary_outcome]
    keep = [frozenset((a, b)) in wanted for a, b in zip(mine["a"], mine["b"], strict=True)]
    return tidy(mine[keep].drop(columns=["outcome", "n_missing"], errors="ignore"))


def assumption_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Each check of an outcome with its verdict and what follows from it."""
    return tidy(frame, ["check", "test", "p", "holds", "follows"])
