"""Agreement with a published judge on simulated conversations, simulator by simulator (UserSimCRS).

Does the ranking of systems survive a change of simulator? Source: docs/validity.md, section 4.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.validity import agreement, scores
from crs_lib.validity.agreement import WHOLE

JUDGE = ("REC_RELEVANCE", "OVERALL_SAT")
SIMULATORS = ("ABUS", "Single_LLM", "Dual_LLM")


def judged(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per conversation: system, simulator, our scores and the judge's.

    The simulator is read from the session's name. Raises InputError where no conversation carries a score.
    """
    rows = list(_rows(dialogues, grounder))
    if not any(row[name] == row[name] for row in rows for name in JUDGE):
        raise InputError("no conversation carries a judge's scores; expected 'scores' (UserSimCRS)")
    return pd.DataFrame(rows)


def _rows(dialogues: Iterable[Dialogue], grounder: Grounder) -> Iterator[dict[str, Any]]:
    for one in scores.score(dialogues, grounder):
        given = (one.dialogue.extra.get("annotations") or {}).get("scores") or {}
        row: dict[str, Any] = {"system": one.dialogue.model_name, "conv_id": one.dialogue.session_id}
        row["simulator"] = next((name for name in SIMULATORS if name in row["conv_id"]), "unknown")
        row |= {name: float(given[name]) if name in given else np.nan for name in JUDGE}
        paper = [reply[scores.ON_PAPER] for reply in one.rows]
        row |= {WHOLE: one.overall, scores.ON_PAPER: float(np.mean(paper)) if paper else np.nan}
        row |= {"n_films": float(np.mean([reply["n_films"] for reply in one.rows])) if paper else np.nan}
        row |= {"n_words": float(np.mean([reply["n_words"] for reply in one.rows])) if paper else np.nan}
        yield row


def with_judge(rows: pd.DataFrame, *, resamples: int = 500, seed: int = 0) -> pd.DataFrame:
    """Spearman of our scores and of baselines with the judge's, by simulator, with 95 % intervals."""
    out = []
    for simulator, part in [("all", rows), *rows.groupby("simulator")]:
        for judge in JUDGE:
            for name in (WHOLE, scores.ON_PAPER, *agreement.BASELINES):
                known = part[part[[name, judge]].notna().all(axis=1)]
                rho = agreement.spearman(known[name].to_numpy(float), known[judge].to_numpy(float))
                row = {
                    "simulator": simulator,
                    "judge": judge,
                    "score": name,
                    "n": len(known),
                    "spearman": rho,
                }
                out.append(row | agreement.interval(part, name, judge, resamples=resamples, seed=seed))
    return pd.DataFrame(out)


def rankings(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean of our score and of the judge's by system and simulator, in wide form: a column a simulator."""
    names = [WHOLE, *JUDGE]
    means = rows.pivot_table(index="system", columns="simulator", values=names, sort=False)
    means.columns = [f"{score}, {simulator}" for score, simulator in means.columns]
    return means.reset_index()


def survival(rows: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau of the rankings of systems between every two simulators, for our score and the judge's.

    1 is the same order; NaN for fewer than three systems that both simulators met.
    """
    out = []
    known = sorted(set(rows["simulator"]))
    for name in (WHOLE, *JUDGE):
        means = rows.pivot_table(index="system", columns="simulator", values=name)
        for one, other in combinations(known, 2):
            both = means[[one, other]].dropna()
            tau = scipy.stats.kendalltau(both[one], both[other])[0] if len(both) > 2 else np.nan
            out.append(
                {"score": name, "simulators": f"{one} and {other}", "n_systems": len(both), "tau": float(tau)}
            )
    return pd.DataFrame(out)
