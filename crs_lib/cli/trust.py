"""``gate``, ``sensitivity`` and ``score-human``: whether metrics can be trusted."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from crs_lib.cli import options
from crs_lib.core import paths, tables


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


def score_human(parser: ArgumentParser) -> None:
    """``score-human --dialogues FILE --catalog FILE --out RUN.json [--head MODEL] [--train MODEL]``."""
    parser.add_argument(
        "--dialogues", required=True, metavar="FILE", help="CRSArena-Eval or DialogueKit JSON"
    )
    parser.add_argument("--catalog", required=True, metavar="FILE", help="the films that they speak of")
    parser.add_argument("--out", required=True, metavar="RUN.json", help="where the predictions go")
    parser.add_argument("--head", metavar="MODEL", help="predict by this learned head (a .npz file)")
    parser.add_argument("--train", metavar="MODEL", help="fit a head to the ratings and write it here")
    parser.add_argument("--folds", type=int, default=10, help="of the head's cross-validation (default: 10)")
    parser.set_defaults(do=_score)


def _score(arguments: Namespace) -> None:
    from crs_lib import logs
    from crs_lib.catalog import sources
    from crs_lib.grounding.grounder import Grounder
    from crs_lib.trust import human, human_model

    head = human_model.load(Path(arguments.head)) if arguments.head else None
    dialogues = list(logs.read(arguments.dialogues))
    grounder = Grounder(sources.load(arguments.catalog))
    rows = human.rate(dialogues, grounder, head)
    chosen = human.HEAD if head else human.SCORE
    out = Path(arguments.out)
    with tables.write_aside(out) as file:
        file.write(json.dumps(human.run_file(dialogues, rows, chosen), ensure_ascii=False, indent=1) + "\n")
    print(f"{len(dialogues)} dialogues, {len(rows)} replies, a wish known in {rows['defined'].mean():.0%}")
    print(f"predictions by {chosen}: {paths.shown(out)}")
    scores = [human.SCORE, *([human.HEAD] if head else [])]
    rated = rows[human.RATING].notna().any()
    if arguments.train:
        found, ratings = human_model.features(rows), rows[human.RATING].to_numpy(float)
        human_model.fit(found, ratings).save(Path(arguments.train))
        print(f"head fitted to {int(rows[human.RATING].notna().sum())} ratings: {Path(arguments.train).name}")
        by_talk = human_model.out_of_fold(found, ratings, rows["conv_id"], arguments.folds)
        by_system = human_model.out_of_fold(found, ratings, rows["system"], None)
        rows = rows.assign(head_new_conversation=by_talk, head_new_system=by_system)
        scores += ["head_new_conversation", "head_new_system"]
    if rated:
        table = human.agreement(rows, [*scores, "topic_adaptation_score", "satisfaction", "item_tas"])
        print(table.round(3).to_string(index=False, na_rep="-"))
        print(human.against_baselines(rows).round(3).to_string(index=False))
