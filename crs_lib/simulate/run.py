"""One session, and a batch of systems × seeds in which every system meets the same users."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key, Ledger
from crs_lib.simulate.config import FAILED, RAW_CATALOG, STUDY, SimulateConfig, dialogue_file, needs, versions
from crs_lib.simulate.conversation import Maker


def prepare(run: str, catalog: str) -> Catalog:
    """Clean a catalogue and freeze it in a run's folder (``catalog.parquet``, ``cleaning_report.csv``, and a
    file in the OpenDialKG form as it is); RunError if the run holds another one.
    """
    loaded = sources.load(catalog)
    _freeze(run, catalog, loaded)
    return loaded


def _freeze(run: str, catalog: str, loaded: Catalog) -> str:
    """Store a loaded catalogue in a run's folder as :func:`prepare` does; returns its hash."""
    inputs = {"catalog": sources.content_hash(loaded)}
    with runs.stage(STUDY, run, "catalog", {"catalog": catalog}, inputs) as stage:
        loaded.save(stage.path("catalog.parquet"))
        if loaded.declared:
            stage.path("catalog.yaml")
        if raw := sources.raw(catalog):
            with tables.write_aside(stage.path(RAW_CATALOG), "wb") as file:
                file.write(raw)
        tables.write_csv(stage.path("cleaning_report.csv"), loaded.report.table())
        stage.counts |= {"films": len(loaded), "concepts": len(loaded.vocabulary)}
    return inputs["catalog"]


def simulate(config: SimulateConfig, *, progress: bool = True) -> Path:
    """Run a batch into ``results/movies/<run>``: ledger, then ``dialogues.jsonl``; returns the folder. The
    conversations of straight and fresh users lie beside it (``dialogues_<arm>.jsonl``), further arms of whole
    sessions in runs ``<run>-<arm>``. Killed at any moment and started again, it continues. The catalogue is
    frozen as ``catalog.parquet``, models' calls are in ``llm_calls.jsonl``, failed sessions in
    ``failed_sessions.csv``. Raises RunError for a folder made with other parameters, a damaged ledger, a run
    that another process works on, a disk that refuses, models that are not there, and more failed sessions
    than ``llm`` allows (``max_failed``).
    """
    catalog = sources.load(config.catalog)
    folders = [_arm(config, arm, catalog, progress) for arm in config.lasting]
    return folders[0]


def _arm(config: SimulateConfig, arm: str, catalog: Catalog, progress: bool) -> Path:
    """Run one arm of a batch."""
    name, rule, asked = config.run_of(arm), config.llm_settings, config.roles()
    inputs = {"catalog": _freeze(name, config.catalog, catalog)}
    before = runs.entry(STUDY, name, "simulate")
    inputs |= jobs.weights(before, [one.spec for one in asked], lambda: needs(asked, rule, catalog))
    inputs |= versions(config.programs(), before)
    seeds = ", with other seeds" if asked else ""
    without = f"{seeds}, or let the run do without so many: llm={{'max_failed': …}}"
    grows = ("n_sessions", "systems")
    opened = runs.stage(STUDY, name, "simulate", config.parameters(arm), inputs, grows=grows)
    with opened as stage, stage.ledger("ledger.sqlite") as ledger:
        alone = config.workers == 1 and not config.scheduler
        runs.job(
            stage, ledger, [runs.Part(keys, models, label=keys[0].system) for keys, models in config.parts()],
            Maker, (catalog if alone else str(stage.folder / "catalog.parquet"), config, arm),
            llm=rule, workers=config.workers, scheduler=config.scheduler,
            logged=config.calls_out, most_failed=rule.max_failed,
            hint=without if config.calls_out else "", progress=progress,
        )  # fmt: skip
        export(stage, ledger, config.keys(), config.windows(arm))
    return stage.folder


def export(stage: runs.Stage, ledger: Ledger, keys: Sequence[Key], windows: Sequence[str] = ()) -> None:
    """Write the dialogues, in the order of ``keys`` (arms of ``windows`` into their files), and failures."""
    asked = set(keys)
    failed = {key: error for key, error in ledger.failures() if key in asked}
    done = [key for key in keys if key not in failed]
    with contextlib.ExitStack() as opened:
        paths = [stage.path(dialogue_file(arm)) for arm in ("", *windows)]
        files = [opened.enter_context(tables.write_aside(path)) for path in paths]
        for key, body in zip(done, ledger.bodies(done), strict=True):
            for talk, line in _dialogues(key, body):
                arm = talk.extra.get("arm") if "of" in talk.extra else ""
                files[windows.index(arm) + 1 if arm in windows else 0].write(line + "\n")
    if failed:
        rows = [(key.system, f"{key.session:05d}", error) for key, error in failed.items()]
        tables.write_csv(stage.path(FAILED), pd.DataFrame(rows, columns=["model", "session_id", "error"]))
    else:
        (stage.folder / FAILED).unlink(missing_ok=True)
    stage.counts |= {"sessions": len(done), "systems": len({key.system for key in keys})}


def _dialogues(key: Key, body: str) -> list[tuple[Dialogue, str]]:
    """The dialogues of a body, each with its line; RunError where a line is none, whatever its hash says."""
    try:
        lines = list(filter(None, body.split("\n")))
        found = [Dialogue.from_json(safety.loads(line, "the body"), source="the ledger") for line in lines]
        return list(zip(found, lines, strict=True))
    except (InputError, AttributeError, TypeError) as error:
        wrong = f"session {key.session} of {key.system!r} in the ledger is no dialogue ({error})"
        remedy = "move the ledger away and start the same command again: the sessions are made anew"
        raise RunError(f"{wrong}; {remedy}") from error
