"""``gate`` and ``sensitivity``: whether metrics can be trusted."""

from argparse import ArgumentParser, Namespace

from crs_lib.cli import options
from crs_lib.core import paths
from crs_lib.core.errors import InputError


def gate(parser: ArgumentParser) -> None:
    """``gate [--run NAME] [--catalog FILE] [--sessions N] [--seed N] [--develop | --confirm] …``."""
    from crs_lib.validity.gate import GateConfig

    names = ("run", "catalog", "n_sessions", "n_turns", "seed", "convention", "workers")
    options.add(parser, GateConfig, *names)
    parser.add_argument(
        "--develop", action="store_true", help="test the protocol's requirements on its development seeds"
    )
    parser.add_argument(
        "--confirm", action="store_true", help="test them once on its confirmation seeds, and log the verdict"
    )
    parser.set_defaults(do=_gate)


def _protocol(arguments: Namespace) -> None:
    from crs_lib.validity import gate as gates
    from crs_lib.validity.gate import GateConfig

    given, usual = options.read(arguments, GateConfig), GateConfig()
    place = paths.shown(gates.Protocol.read().path)
    for field in ("n_sessions", "n_turns", "seed", "convention"):
        if getattr(given, field) != getattr(usual, field):
            raise InputError(
                f"{field}={getattr(given, field)!r} beside --develop or --confirm: the protocol fixes it "
                f"({place}); leave it out"
            )
    name = f"{given.run}-protocol" if given.run != usual.run else "protocol"
    found = (gates.confirm if arguments.confirm else gates.develop)(name, given.catalog, given.workers)
    shown = found.assign(p_holm=found["p_holm"].map("{:.2g}".format)).drop(columns=["protocol", "p"])
    print(shown.round(3).to_string(index=False, na_rep="-"))
    print(f"\n{gates.board(found)[['metric', 'held', 'asked']].to_string(index=False)}")
    print(f"\nprotocol {found['protocol'].iloc[0][:16]}, {place}")


def _gate(arguments: Namespace) -> None:
    from crs_lib.validity import gate as gates

    if arguments.develop or arguments.confirm:
        _protocol(arguments)
        return
    folder = gates.run(options.read(arguments, gates.GateConfig), progress=False)
    found = gates.read(arguments.run)
    shown = found.assign(orderings=found["passed"].astype(str) + " of " + found["asked"].astype(str))
    print(shown[["metric", "orderings", "mark"]].fillna("").to_string(index=False))
    for row in found[found["failed"].fillna("") != ""].itertuples():
        print(f"\n{row.metric} fails: {row.failed}")
    for name, mark in gates.unlike(gates.marks(arguments.run)).items():
        print(f"\n{name}: tables say {mark or 'fit to rank'!r}, this run says otherwise")
    first, *others = (gates.TABLES[name].name for name in ("tests", "metrics", "doses"))
    print(f"\ntables: {', '.join([paths.shown(folder / first), *others])}")


def redteam(parser: ArgumentParser) -> None:
    """``redteam [--metric NAME] [--budget N] [--sessions N]``: how far scores can be gamed."""
    from crs_lib.validity.gate import GateConfig
    from crs_lib.validity.redteam import USUAL

    options.add(parser, GateConfig, "catalog", "n_turns", "budget", **USUAL)
    parser.add_argument("--metric", metavar="NAME", help="show this metric only; all are searched")
    parser.set_defaults(do=_redteam)


def _redteam(arguments: Namespace) -> None:
    from crs_lib.metrics import base
    from crs_lib.validity import redteam as search
    from crs_lib.validity.gate import GateConfig

    if arguments.metric:
        base.get(arguments.metric)
    config = options.read(arguments, GateConfig)
    found = search.run(config)
    if arguments.metric:
        found = found[found["metric"] == arguments.metric]
    shown = found.drop(columns=["budget", "seed", "n_sessions"]).round(3)
    print(shown.to_string(index=False, na_rep="-"))
    print(f"\n{config.budget} policies, {config.n_sessions} scenarios; {search.TABLE} in run {config.run!r}")


def precision(parser: ArgumentParser) -> None:
    """``precision [--catalogs A,B] [--seeds 1,2] [--metric NAME]``: variance components, scenarios needed."""
    from crs_lib.validity.precision import PrecisionConfig

    options.add(parser, PrecisionConfig)
    parser.set_defaults(do=_precision)


def _precision(arguments: Namespace) -> None:
    from crs_lib.validity import precision as study

    found = study.run(options.read(arguments, study.PrecisionConfig))
    sizes = {name[2:]: int(found.components[name].iloc[0]) for name in found.components if name[:2] == "n_"}
    shown = found.components[["effect", "df", "variance", "share"]].round({"variance": 5, "share": 3})
    print(shown.to_string(index=False, na_rep="-"))
    print(f"\n{', '.join(f'{name}: {n}' for name, n in sizes.items())}\n")
    print(found.needed.round(3).to_string(index=False, na_rep="-"))


def sensitivity(parser: ArgumentParser) -> None:
    """``sensitivity [--run R] [--sessions N]``: rank stability over conventions and catalogue sizes."""
    from crs_lib.validity.precision import PrecisionConfig

    options.add(parser, PrecisionConfig, run="demo", n_sessions=10)
    parser.set_defaults(do=_sensitivity)


def _sensitivity(arguments: Namespace) -> None:
    from crs_lib.validity import sensitivity as stages
    from crs_lib.validity.precision import PrecisionConfig
    from crs_lib.validity.sensitivity import stability

    asked = options.read(arguments, PrecisionConfig)
    folder = stages.make(asked.run, asked.n_sessions)
    for name, by in (("choices", "choice"), ("catalogue", "share")):
        table = stages.read(arguments.run, name)
        if len(table):
            print(f"{stability(table, by).round(3).to_string(index=False)}\n")
    print(f"tables: {paths.shown(folder)}/  ({', '.join(stages.FILES.values())})")


def realism(parser: ArgumentParser) -> None:
    """``realism [--dialogues FILE] [--encoder NAME]``: simulated against real users, by template set."""
    from crs_lib.validity.realism import RealismConfig

    options.add(parser, RealismConfig)
    parser.set_defaults(do=_realism)


def _realism(arguments: Namespace) -> None:
    from crs_lib.validity import realism as test

    found = test.run(options.read(arguments, test.RealismConfig))
    told = [name for name in ("tells simulated", "tells real") if name in found]
    print(found.drop(columns=told).round(3).to_string(index=False))
    for row in found.to_dict("records"):
        for name in told:
            print(f"\ntemplates {row['templates']}, {name}: {row[name]}")
