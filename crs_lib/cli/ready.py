"""The check before a chain of notebooks: every model that any of them will call must be there."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crs_lib import judge as judging
from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.hashes import fingerprint
from crs_lib.judge.config import JudgeConfig
from crs_lib.judge.records import STAGE
from crs_lib.llm.preflight import Need, preflight, refuse
from crs_lib.simulate import roles
from crs_lib.simulate.config import STUDY, SimulateConfig
from crs_lib.systems import programs


def check(work: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check once that every model and program of these notebooks, as (name, parameters), is there.

    Models are the recommenders and the user of ``03_simulate`` and the judges of ``04_evaluate``. A finished
    stage needs no model, and without models no server is contacted. Raises one RunError that lists every
    missing model, and InputError for invalid settings.
    """
    asked: dict[str, Need] = {}
    absent: list[str] = []
    catalogs: dict[str, Catalog] = {}
    for notebook, values in work:
        if notebook == "03_simulate":
            config = SimulateConfig(**values)
            found = _of_simulation(config, catalogs)
            if not _finished(config):
                absent += programs.missing(config.programs())
        elif notebook == "04_evaluate":
            found = _of_judges({**values})
        else:
            continue
        for need in found:
            key = [need.role, need.spec, dict(need.options), need.prompt, dict(need.settings)]
            asked.setdefault(fingerprint(key), need)
    refuse(absent)
    preflight(asked.values())


def _finished(config: SimulateConfig) -> bool:
    """Whether every arm of the simulation is finished."""
    before = (runs.entry(STUDY, config.run_of(arm), "simulate") for arm in config.arms)
    return all(entry.get("status") == "finished" for entry in before)


def _of_simulation(config: SimulateConfig, catalogs: dict[str, Catalog]) -> Iterator[Need]:
    if not config.roles() or _finished(config):
        return
    if config.catalog not in catalogs:
        catalogs[config.catalog] = sources.load(config.catalog)
    rule = config.llm_settings
    yield from roles.needs(config.roles(), rule, catalogs[config.catalog])


def _of_judges(values: dict[str, Any]) -> Iterator[Need]:
    given = {name: values[name] for name in ("judges", "samples", "llm") if name in values}
    if not given.get("judges"):
        return
    config = JudgeConfig(str(values["run"]), **given)
    made = runs.entry(STUDY, config.run, "simulate")
    dialogues = made["outputs"]["dialogues.jsonl"] if made.get("status") == "finished" else ""
    if not judging.on_record(config, dialogues, runs.entry(STUDY, config.run, STAGE)):
        yield from config.needs()
