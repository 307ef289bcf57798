"""``python -m crs_lib gate``: every metric against every ordering that it must show."""

from argparse import ArgumentParser, Namespace

from crs_lib import paths


def gate(parser: ArgumentParser) -> None:
    """``gate [--run NAME] [--catalog FILE] [--sessions N] [--turns N] [--seed N] [--convention NAME]``."""
    from crs_lib.movies import gate as gates

    default = gates.GateConfig()
    parser.add_argument("--run", default=default.run, help="the run's name (default: %(default)s)")
    parser.add_argument("--catalog", default=default.catalog, help="sample, or a catalogue's file")
    for name in ("sessions", "turns", "seed", "workers"):
        value = getattr(default, name if name in ("seed", "workers") else f"n_{name}")
        parser.add_argument(f"--{name}", type=int, default=value, help="default: %(default)s")
    parser.add_argument("--convention", default=default.convention, help="default: %(default)s")
    parser.set_defaults(do=_gate)


def _gate(arguments: Namespace) -> None:
    from crs_lib.movies import gate as gates

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
    print(f"\ntables: {paths.shown(folder / gates.TESTS)}, {gates.VERDICTS}, {gates.DOSE_TABLE}")
