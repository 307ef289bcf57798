"""``gate`` and ``sensitivity``: what a metric must show, and how far a ranking hangs on choices."""

from argparse import ArgumentParser, Namespace

from crs_lib.core import paths


def gate(parser: ArgumentParser) -> None:
    """``gate [--run NAME] [--catalog FILE] [--sessions N] [--turns N] [--seed N] [--convention NAME]``."""
    from crs_lib.trust import gate as gates

    default = gates.GateConfig()
    parser.add_argument("--run", default=default.run, help="the run's name (default: %(default)s)")
    parser.add_argument("--catalog", default=default.catalog, help="sample, or a catalogue's file")
    for name in ("sessions", "turns", "seed", "workers"):
        value = getattr(default, name if name in ("seed", "workers") else f"n_{name}")
        parser.add_argument(f"--{name}", type=int, default=value, help="default: %(default)s")
    parser.add_argument("--convention", default=default.convention, help="default: %(default)s")
    parser.set_defaults(do=_gate)


def _gate(arguments: Namespace) -> None:
    from crs_lib.trust import gate as gates

    config = gates.GateConfig(
        arguments.run, arguments.catalog, arguments.sessions, arguments.turns, arguments.seed,
        arguments.convention, arguments.workers,
    )  # fmt: skip
    folder = gates.run(config, progress=False)
    found = gates.read(arguments.run)
    shown = found.assign(orderings=found["passed"].astype(str) + " of " + found["asked"].astype(str))
    print(shown[["metric", "orderings", "mark"]].fillna("").to_string(index=False))
    for row in found[found["failed"].fillna("") != ""].itertuples():
        print(f"\n{row.metric} fails: {row.failed}")
    for name, mark in gates.unlike(gates.marks(arguments.run)).items():
        print(f"\n{name}: tables say {mark or 'fit to rank'!r}, this run says otherwise")
    print(f"\ntables: {paths.shown(folder / gates.TESTS)}, {gates.VERDICTS}, {gates.DOSE_TABLE}")


def sensitivity(parser: ArgumentParser) -> None:
    """``sensitivity [--run R] [--sessions N]``: rank stability over conventions and catalogue sizes."""
    parser.add_argument("--run", default="demo", help="a run whose dialogues are finished (default: demo)")
    parser.add_argument(
        "--sessions", type=int, default=10, help="scenarios scored and simulated anew (default: 10)"
    )
    parser.set_defaults(do=_sensitivity)


def _sensitivity(arguments: Namespace) -> None:
    from crs_lib.trust import sensitivity as stages
    from crs_lib.trust.sensitivity import stability

    folder = stages.make(stages.SensitivityConfig(arguments.run, arguments.sessions))
    for name, by in (("choices", "choice"), ("catalogue", "share")):
        table = stages.read(arguments.run, name)
        if len(table):
            print(f"{stability(table, by).round(3).to_string(index=False)}\n")
    print(f"tables: {paths.shown(folder)}/  ({', '.join(stages.FILES.values())})")
