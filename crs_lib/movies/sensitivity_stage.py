"""Sensitivity as a stage of a run: how far its ranking hangs on conventions and on the catalogue."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, runs, simulate
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.figures import NoDataError
from crs_lib.grounding.grounder import Grounder
from crs_lib.metrics import base
from crs_lib.movies import sensitivity
from crs_lib.simulate import roles
from crs_lib.simulate.run import SimulateConfig
from crs_lib.simulate.scenarios import Rates

STAGE = "sensitivity"
FILES = {"choices": "sensitivity_choices.csv", "catalogue": "sensitivity_catalogue.csv"}
METRICS = ("item_tas", "item_recovery_rate", "topic_adaptation_score", "topic_recovery_rate")


@dataclass(frozen=True)
class SensitivityConfig:
    """Which run, how many of its scenarios (all systems of each), and which session metrics; checked."""

    run: str
    sessions: int = 10
    metrics: tuple[str, ...] = METRICS

    def __post_init__(self) -> None:
        """Raise InputError for a bad run name, fewer than 2 scenarios, or an unknown metric."""
        paths.run_folder(simulate.STUDY, self.run)
        if isinstance(self.sessions, bool) or not isinstance(self.sessions, int) or self.sessions < 2:
            raise InputError(f"sessions is {self.sessions!r}; give at least 2 scenarios, 10 is usual")
        for name in self.metrics:
            base.get(name)


def make(config: SensitivityConfig) -> Path:
    """Score a run's first scenarios under every choice, and on parts of its catalogue; returns the folder.

    Systems and users with a language model are not simulated anew: the table of catalogue sizes holds the
    others, and is empty for fewer than two. Raises RunError for a run without finished dialogues.
    """
    made = runs.finished(simulate.STUDY, config.run, "simulate", "03_simulate")
    catalog = evaluate.catalog_of(config.run)
    talks = [talk for talk in simulate.iter_dialogues(config.run) if int(talk.session_id) < config.sessions]
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    asked = asdict(config)
    del asked["run"]
    with runs.stage(simulate.STUDY, config.run, STAGE, asked, inputs, fixed=False) as stage:
        found = {"choices": sensitivity.by_convention(talks, Grounder(catalog), config.metrics)}
        again = _ruled(made["parameters"], config)
        found["catalogue"] = (
            sensitivity.by_catalogue(catalog, again, config.metrics)
            if again
            else pd.DataFrame(columns=["share", "films", *found["choices"].columns[2:]])
        )
        for name, table in found.items():
            tables.write_csv(stage.path(FILES[name]), table)
            stage.counts[name] = len(table)
    return paths.run_folder(simulate.STUDY, config.run)


def _ruled(parameters: dict[str, Any], config: SensitivityConfig) -> SimulateConfig | None:
    """The run's own settings with fewer scenarios and no models; None where that leaves no ranking."""
    systems = [spec for spec in parameters["systems"] if not roles.is_worded(spec)]
    if len(systems) < 2 or parameters.get("user_llm"):
        return None
    kept = ("n_turns", "seed", "arm", "types")
    few = min(config.sessions, int(parameters["n_sessions"]))
    return SimulateConfig(
        run=config.run,
        systems=systems,
        n_sessions=few,
        rates=Rates(**parameters["rates"]),
        **{name: parameters[name] for name in kept},
    )


def read(run: str, name: str) -> pd.DataFrame:
    """The table "choices" or "catalogue" of a run; NoDataError unless its present dialogues made it."""
    stages = runs.read_manifest(simulate.STUDY, run).get("stages", {})
    entry = stages.get(STAGE, {})
    if entry.get("status") != "finished":
        raise NoDataError(f"run {run!r} has no finished sensitivity stage")
    if entry["inputs"]["dialogues"] != stages["simulate"]["outputs"]["dialogues.jsonl"]:
        raise NoDataError(f"the sensitivity stage of run {run!r} read older dialogues than it has now")
    return pd.read_csv(paths.run_folder(simulate.STUDY, run) / FILES[name], dtype={"setting": str})
