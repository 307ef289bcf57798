"""The models and programs that a run needs: whether they are there, and how often each is called."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.llm.estimate import Work
from crs_lib.simulate.config import needs as models_of
from crs_lib.systems.agent import most_calls

if TYPE_CHECKING:
    from crs_lib.llm.preflight import Need

_JUDGED = ("run", "judges", "samples", "llm")  # parameters of 04_evaluate that a judgement takes


def check_models(work: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check once that every model and program of these notebooks, as (name, parameters), is there. Models are
    the recommenders and the user of ``03_simulate`` and the judges of ``04_evaluate``. A finished stage needs
    no model, and without models no server is contacted. Raises one RunError for all that is missing,
    InputError for settings.
    """
    from crs_lib.llm.preflight import preflight, refuse  # brings the clients of model servers
    from crs_lib.systems import programs

    needs: list[Need] = []
    absent: list[str] = []
    for notebook, parameters in work:
        if notebook == "04_evaluate" and parameters.get("judges"):
            needs += _judges(parameters)
        elif notebook == "03_simulate":
            config = simulate.SimulateConfig(**parameters)
            if not _is_finished(config):
                absent += programs.missing(config.programs(), config.llm_settings.fresh_server)
                needs += _roles(config)
    refuse(absent)
    preflight({repr(need): need for need in needs}.values())


def _is_finished(config: simulate.SimulateConfig) -> bool:
    """Whether all lasting arms of a batch are simulated."""
    for arm in config.lasting:
        run = config.run_of(arm)
        entry = simulate.run_named(run).entry("simulate")
        if entry.get("status") != "finished":
            return False
    return True


def _roles(config: simulate.SimulateConfig) -> "list[Need]":
    """The models of the recommenders and of the user."""
    roles = config.roles()
    if not roles:
        return []
    return list(models_of(roles, config.llm_settings, sources.load(config.catalog)))


def _judges(parameters: Mapping[str, Any]) -> "list[Need]":
    """The models of a judgement with these parameters; none where all was judged before."""
    from crs_lib.judge import run as judgement
    from crs_lib.judge.config import JudgeConfig

    settings = {name: parameters[name] for name in _JUDGED if name in parameters}
    config = JudgeConfig(**settings)
    run = simulate.run_named(config.run)
    simulated = run.entry("simulate")
    dialogues = ""
    if simulated.get("status") == "finished":
        dialogues = simulated["outputs"]["dialogues.jsonl"]
    before = run.entry(judgement.STAGE)
    if judgement.on_record(config, dialogues, before):
        return []
    return list(config.needs())


def planned(config: simulate.SimulateConfig, judged: Mapping[str, Any]) -> Iterator[Work]:
    """The largest number of calls to each model of a run; failed and repeated calls are not counted.
    ``judged`` holds the parameters of the judgement that follows.
    """
    from crs_lib.judge.config import JudgeConfig  # brings the clients of model servers
    from crs_lib.systems import programs

    llm = config.llm_settings
    turns = sum(config.turns(arm) for arm in config.arms)
    for spec in config.programs():
        width = programs.width(spec, llm, config.workers)
        yield Work("crs", spec, turns, width, tokens=False)
    for role in config.roles():
        if role.role == "crs":
            most = most_calls(role.system, llm)
            agent_turns = turns if most > 1 else 0
        else:
            most = len(config.systems)
            agent_turns = 0
        name = role.system or role.spec
        yield Work(role.role, name, turns * most, llm.at_once, turns=agent_turns)
    own = {name: judged[name] for name in ("judges", "samples") if name in judged}
    settings = judged.get("04_evaluate.llm", {"slots": llm.slots})
    own.setdefault("judges", ())
    judges = JudgeConfig(**own, run=config.run, llm=settings)
    spoilt = len(judges.canaries) * min(judges.n_canaries, config.n_sessions)
    dialogues = (config.n_sessions + spoilt) * len(config.systems)
    calls = dialogues * len(judges.asked.groups) * judges.samples
    for spec in judges.judges:
        yield Work("judge", spec, calls, judges.reached.at_once)
