"""The cost of adapting: what a session scores after its shifts, against its twin that never shifts.

Both arms have the same seed and are equal up to the first shift, so the difference in differences is
what the shifts cost. Source: docs/validity.md, section 2.
"""

import pandas as pd

from crs_lib import evaluate, stats
from crs_lib.core.errors import InputError
from crs_lib.metrics import base
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.run import simulate

ALL = "all types"


def _twin(config: SimulateConfig) -> SimulateConfig:
    """The settings of the no-shift twin of a batch; its run is named ``<run>-none``.

    Raises InputError where the batch itself has no shifts.
    """
    if config.arm == scenarios.NO_SHIFT:
        raise InputError(f"run {config.run!r} has no shifts itself; give the batch whose arm is 'shift'")
    return config.changed(run=f"{config.run}-none", arms=(scenarios.NO_SHIFT,))


def make(config: SimulateConfig, convention: str = "default", *, progress: bool = False) -> None:
    """Simulate the session's arms and its twin, and score session and twin; what is finished is kept."""
    simulate(config.changed(arms=(*config.arms, scenarios.NO_SHIFT)), progress=progress)
    for arm in (config, _twin(config)):
        evaluate.evaluate(evaluate.EvaluateConfig(run=arm.run, convention=convention))


def pair(run: str, metric: str = "satisfaction_corrected") -> pd.DataFrame:
    """:func:`_segments` of a finished run and its twin ``<run>-none``."""
    shifted, plain = (evaluate.read(name, "turns") for name in (run, f"{run}-none"))
    return _segments(shifted, plain, evaluate.read(run, "shifts"), metric)


def _segments(
    shifted: pd.DataFrame, plain: pd.DataFrame, shifts: pd.DataFrame, metric: str = "satisfaction_corrected"
) -> pd.DataFrame:
    """One row per system, scenario and shift: the twin's gain since the start minus the session's own.

    ``value`` is ((after − before) of the twin) − ((after − before) of the session), turned so that a
    positive value is a cost; "after" are the turns from this shift up to the next, "before" those before
    the first shift. Null where either arm has no value in a part. Raises InputError where the arms do not
    hold the same turns.
    """
    keys = ["model", "session_id", "turn"]
    both = shifted[[*keys, metric, "since_shift"]].merge(
        plain[[*keys, metric]], on=keys, how="outer", suffixes=("_shift", "_none"), indicator=True
    )
    if (both["_merge"] != "both").any():
        row = both.loc[both["_merge"] != "both", keys].iloc[0].to_dict()
        raise InputError(f"the two arms differ in {row}; simulate both with the same settings")
    sign = -1.0 if base.get(metric).direction == base.LOWER else 1.0
    own, other = f"{metric}_shift", f"{metric}_none"
    both["start"] = both["turn"].where(both["since_shift"] == 0)
    both["start"] = both.groupby(keys[:2], sort=False)["start"].ffill()
    before = both[both["start"].isna()].groupby(keys[:2])[[own, other]].mean()
    after = both[both["start"].notna()].groupby([*keys[:2], "start"])[[own, other]].mean().reset_index()
    joined = after.merge(before, left_on=keys[:2], right_index=True, suffixes=("", "_before"))
    gain_none = joined[other] - joined[f"{other}_before"]
    gain_shift = joined[own] - joined[f"{own}_before"]
    rows = joined[keys[:2]].assign(turn=joined["start"].astype(int), value=sign * (gain_none - gain_shift))
    rows = rows.merge(shifts[[*keys, "type"]], on=keys)
    return rows.rename(columns={"model": "system", "session_id": "scenario"})


def excess(rows: pd.DataFrame, reference: str = "oracle") -> pd.DataFrame:
    """The cost of every system beyond that of a reference in the same scenario and shift.

    A shift also changes how hard the constraints are to meet; the oracle's cost is that change alone. Raises
    InputError where the reference is no system of the run.
    """
    systems = sorted(set(rows["system"]))
    if reference not in systems:
        raise InputError(f"no system {reference!r} to compare with; the run has {systems}")
    keys = ["scenario", "turn"]
    ideal = rows.loc[rows["system"] == reference, [*keys, "value"]]
    both = rows[rows["system"] != reference].merge(ideal, on=keys, suffixes=("", "_reference"))
    return both.assign(value=both["value"] - both["value_reference"]).drop(columns="value_reference")


def cost(rows: pd.DataFrame, *, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Mean cost of adapting by system and shift type, with its 95 % cluster-bootstrap interval.

    Positive: the system scores lower than it would have without the shift. The row of "all types" comes
    first; ``n`` counts shifts, the draws are over scenarios.
    """
    parts = []
    for kind in (ALL, *sorted(rows["type"].unique())):
        mine = rows if kind == ALL else rows[rows["type"] == kind]
        found = stats.cluster_bootstrap(mine, stats.Design(resamples=resamples, seed=seed))
        parts.append(found.assign(type=kind)[["type", "system", "mean", "low", "high", "n", "n_missing"]])
    return pd.concat(parts, ignore_index=True)


def balance(shifts: pd.DataFrame) -> pd.DataFrame:
    """How often each shift type occurs, and at which turns: type, n, earliest, mean and latest turn."""
    once = shifts.drop_duplicates(["session_id", "turn"])  # every system meets the same shifts
    table = once.groupby("type")["turn"].agg(["size", "min", "mean", "max"]).reset_index()
    return table.set_axis(["type", "n", "earliest", "mean_turn", "latest"], axis=1)
