"""The findings of notebook 07: a sentence a section, made from the tables that the section shows."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import evaluate, stats
from crs_lib.figures import layout
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report import statistics, thesis_tables
from crs_lib.report.thesis import LoadedLogs, scores
from crs_lib.stats.findings import Finding


def of_import(loaded: LoadedLogs) -> Finding:
    """How many conversations were read, and the share of judge scores that are usable."""
    systems = loaded.imported.systems
    read, lost = int(systems["sessions"].sum()), int(systems["skipped"].sum())
    named = stats.counted(int((systems["sessions"] > 0).sum()), "system")
    text = f"{read:,} conversations of {named} are read, {lost:,} left out"
    if "given" not in loaded.judged:
        return stats.finding(f"{text}; no judge scored them.")
    given, asked = int(loaded.judged["given"].sum()), int(loaded.judged["asked"].sum())
    return stats.finding(f"{text}; {given:,} of {asked:,} judge scores lie on their scale.")


def of_headlines(run: str, names: Sequence[str]) -> Finding:
    """Who leads under each convention, by how much, and whether the conventions agree."""
    leaders = {}
    for name in names:
        best = thesis_tables.best_systems(run, name)
        mine = best[best["metric"] == layout.outcomes(name)[0]]
        if len(mine):
            leaders[name] = str(mine["best"].iloc[0])
    if len(leaders) < 2:
        return stats.no_finding("fewer than two conventions give their headline a value")
    shown = [f"{leader} under {name}" for name, leader in leaders.items()]
    verdict = "the conventions agree" if len(set(leaders.values())) == 1 else "the conventions disagree"
    return stats.finding(f"The headline is led by {stats.listed(shown)}: {verdict}.")


def of_lead(run: str, convention: str, outcomes: Sequence[str]) -> Finding:
    """The best system against the second on the first of some outcomes that has two of them."""
    best = thesis_tables.best_systems(run, convention).set_index("metric")
    for outcome in outcomes:
        if outcome in best.index and best.loc[outcome, "second"]:
            row, label = best.loc[outcome], base.get(outcome).label.rstrip(" †")
            frame = statistics.stats_frame(evaluate.read(run, "results", convention))
            apart = stats.difference_of(frame, str(row["best"]), str(row["second"]), outcome)
            return stats.compared(str(row["best"]), str(row["second"]), apart, label)
    return stats.no_finding("no two systems have a value to compare")


def of_judges(run: str, convention: str) -> Finding:
    """The judges' best system against their second, on the first construct."""
    return of_lead(run, convention, list(CONSTRUCTS))


def of_tests(tukey: pd.DataFrame, outcome: str, level: float = 0.05) -> Finding:
    """How many pairs Tukey's HSD, and the paired test after Holm, tell apart on an outcome."""
    mine = tukey[(tukey["outcome"] == outcome) & tukey["p"].notna()]
    if mine.empty:
        return stats.no_finding("no pair can be tested")
    classical, paired = int((mine["p"] < level).sum()), int((mine["p_holm"] < level).sum())
    label, pairs = base.get(outcome).label.rstrip(" †"), stats.counted(len(mine), "pair")
    return stats.finding(
        f"On {label}, Tukey's HSD tells {classical} of {pairs} apart, and the paired test {paired}, "
        f"at the level {level:g}."
    )


def of_parts(run: str) -> Finding:
    """The share of sessions whose delay CAS scores as the fastest because they never recover."""
    legacy = scores(run, "thesis_legacy")
    if legacy is None:
        return stats.no_finding("the run is not scored under thesis_legacy")
    frame = legacy.sessions.assign(never=(legacy.sessions["n_recovered"] == 0).astype(float))
    share = stats.share_of(frame, "never", scenario="session_id")
    return stats.finding(
        f"{share.percent} of the sessions never recover under thesis_legacy, and CAS scores their delay as "
        "the fastest."
    )


def limits(run: str, convention: str) -> tuple[str, ...]:
    """The notebook's limits: size, pairing, judges."""
    frame = statistics.stats_frame(evaluate.read(run, "results", convention))
    outcome = layout.outcomes(convention)[0]
    names = list(dict.fromkeys(frame["system"]))
    apart = [stats.difference_of(frame, names[0], other, outcome) for other in names[1:]]
    return (
        stats.resolution(apart, base.get(outcome).label.rstrip(" †")),
        "Logs of the older form hold no constraints, so quantities that need them are undefined there.",
        "Scores of judges made elsewhere are taken as they are; only their scale is checked.",
    )
