"""``gate`` and ``sensitivity``: whether metrics can be trusted."""

from argparse import ArgumentParser, Namespace

from crs_lib.cli import options
from crs_lib.core import paths


def gate(parser: ArgumentParser) -> None:
    """``gate [--run NAME] [--catalog FILE] [--sessions N] [--turns N] [--seed N] [--convention NAME]``."""
    from crs_lib.trust.gate import GateConfig

    options.add(parser, GateConfig)
    parser.set_defaults(do=_gate)


def _gate(arguments: Namespace) -> None:
    from crs_lib.trust import gate as gates

    folder = gates.run(options.read(arguments, gates.GateConfig), progress=False)
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
    from crs_lib.trust.sensitivity import SensitivityConfig

    options.add(parser, SensitivityConfig, "sessions", run="demo")
    parser.set_defaults(do=_sensitivity)


def _sensitivity(arguments: Namespace) -> None:
    from crs_lib.trust import sensitivity as stages
    from crs_lib.trust.sensitivity import stability

    folder = stages.make(options.read(arguments, stages.SensitivityConfig))
    for name, by in (("choices", "choice"), ("catalogue", "share")):
        table = stages.read(arguments.run, name)
        if len(table):
            print(f"{stability(table, by).round(3).to_string(index=False)}\n")
    print(f"tables: {paths.shown(folder)}/  ({', '.join(stages.FILES.values())})")
