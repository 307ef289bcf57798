"""``score-human``, ``people``, ``annotate``: what people say, what scores are worth to them, new labels."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crs_lib.cli import files, options
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError

_SHOWN = 5  # conversations that could not be read


def score_human(parser: ArgumentParser) -> None:
    """``score-human --dialogues FILE --catalog FILE --out RUN.json [--strict]``."""
    parser.add_argument(
        "--dialogues", required=True, metavar="FILE", help="a log of any known form, e.g. CRSArena-Eval"
    )
    parser.add_argument("--catalog", required=True, metavar="FILE", help="the films that they speak of")
    parser.add_argument("--out", required=True, metavar="RUN.json", help="where the predictions go")
    parser.add_argument(
        "--strict", action="store_true", help="stop at a conversation that cannot be read or has no name"
    )
    files.declare(parser, reads=("dialogues", "catalog"), writes=("out",))
    parser.set_defaults(do=_score)


def _score(arguments: Namespace) -> None:
    from crs_lib import data as logs
    from crs_lib.catalog import sources
    from crs_lib.catalog.grounder import Grounder
    from crs_lib.validity import agreement

    broken: list[logs.Broken] = []
    paths.apart([Path(arguments.out)], [*logs.files(arguments.dialogues), Path(arguments.catalog)])
    grounder = Grounder(sources.load(arguments.catalog))
    given = arguments.dialogues
    dialogues = logs.read(given) if arguments.strict else logs.readable(given, broken.append)
    rated: list[dict[str, Any]] = []
    n_dialogues = n_replies = n_known = n_silent = 0
    with tables.write_aside(Path(arguments.out)) as file:
        for scored in agreement.score(dialogues, grounder):
            entry = json.dumps(scored.entry, ensure_ascii=False, indent=1)
            file.write(("," if n_dialogues else "[") + "\n" + entry)
            n_dialogues += 1
            n_replies += len(scored.rows)
            n_known += sum(row["defined"] for row in scored.rows)
            n_silent += not scored.rows
            rows = scored.rated
            if any(row[name] == row[name] for row in rows for name in (agreement.RATING, agreement.OVERALL)):
                rated += rows
        if not n_replies:
            raise InputError(
                "no reply to score; give at least one conversation in which the system answers"
                + (f" (not read: {broken[0].place}: {broken[0].reason})" if broken else "")
            )
        file.write("\n]\n")
    print(f"{n_dialogues} dialogues, {n_replies} replies, a constraint known in {n_known / n_replies:.0%}")
    if n_silent:
        print(f"{n_silent} of them without a reply: 0, a system that never answers follows nothing")
    _report(broken)
    print(f"predictions by {agreement.RECEIVED}: {paths.shown(Path(arguments.out))}")
    if rated:
        _agreement(rated)


def _report(broken: list[Any]) -> None:
    if broken:
        print(f"{len(broken)} conversations not scored; --strict stops at the first:")
    for one in broken[:_SHOWN]:
        print(f"  {one.place}: {one.reason}")
    if len(broken) > _SHOWN:
        print(f"  … and {len(broken) - _SHOWN} more")


def _agreement(rated: list[dict[str, Any]]) -> None:
    from crs_lib.validity import agreement

    rows = agreement.table(rated)
    found = agreement.agreement(rows, agreement.SHOWN)
    print(found.round(3).to_string(index=False, na_rep="-"))
    whole = agreement.per_dialogue(rows, [agreement.RECEIVED])
    for frame, score, rating in (
        (rows, agreement.RECEIVED, agreement.RATING),
        (whole, agreement.WHOLE, agreement.OVERALL),
    ):
        if frame[rating].notna().any():
            print(agreement.against_baselines(frame, score, rating).round(3).to_string(index=False))


def people(parser: ArgumentParser) -> None:
    """``people PART``: what the scores are worth on data with people, success or judges."""
    parser.add_argument(
        "part", choices=tuple(_PARTS), help="; ".join(f"{k}: {d}" for k, (d, _) in _PARTS.items())
    )
    parser.add_argument("--run", default="demo", help="the run of the part views (default: demo)")
    parser.add_argument("--catalog", metavar="FILE", help="default: the data set redial-movies")
    parser.add_argument(
        "--llm", nargs="+", default=["local:smollm2"], metavar="SPEC", help="judges (default: local:smollm2)"
    )
    parser.add_argument("--n", type=int, default=24, help="conversations that a judge sees (default: 24)")
    parser.set_defaults(do=_people)


def _people(arguments: Namespace) -> None:
    for frame in _PARTS[arguments.part][1](arguments):
        print(frame.round(3).to_string(index=False, na_rep="-"), end="\n\n")


def _grounder(arguments: Namespace) -> Any:
    from crs_lib import data as datasets
    from crs_lib.catalog import sources
    from crs_lib.catalog.grounder import Grounder

    return Grounder(sources.load(arguments.catalog or datasets.locate("redial-movies")))


def _log(name: str) -> Any:
    from crs_lib import data as datasets
    from crs_lib import data as logs

    return logs.readable(datasets.locate(name), lambda broken: None)


def _ceilings(arguments: Namespace) -> Iterator[Any]:
    from crs_lib.validity import agreement, raters

    grounder = _grounder(arguments)
    for table, rating in ((raters.TURNS, agreement.RATING), (raters.DIALOGUES, agreement.OVERALL)):
        rated = raters.abredial(table)
        yield raters.ceiling(rated.ratings)
        rows = agreement.rate(rated.dialogues, grounder)
        yield agreement.agreement(rows, agreement.SHOWN)
        whole = rating == agreement.OVERALL
        frame = agreement.per_dialogue(rows, [agreement.RECEIVED]) if whole else rows
        yield agreement.against_baselines(frame, agreement.WHOLE if whole else agreement.RECEIVED, rating)


def _success(arguments: Namespace) -> Iterator[Any]:
    from crs_lib.validity import raters

    frame = raters.success(_log("concept4crs"), _grounder(arguments))
    yield raters.prediction(frame)
    yield raters.systems(frame)
    yield frame[["found"]].describe().T


def _simulators(arguments: Namespace) -> Iterator[Any]:
    from crs_lib.validity import raters

    rows = raters.judged(_log("usersimcrs"), _grounder(arguments))
    yield raters.with_judge(rows)
    yield raters.rankings(rows)
    yield raters.survival(rows)


def _views(arguments: Namespace) -> Iterator[Any]:
    from crs_lib import evaluate, simulate
    from crs_lib.catalog.grounder import Grounder
    from crs_lib.validity import raters

    grounder = Grounder(evaluate.catalog_of(arguments.run))
    yield raters.bridge(raters.views(simulate.iter_dialogues(arguments.run), grounder))


def _judges(arguments: Namespace) -> Iterator[Any]:
    import pandas as pd

    from crs_lib.validity import agreement, raters

    dialogues = list(_log("crsarena"))
    drawn = raters.chosen(dialogues, arguments.n)
    folder = paths.results() / "movies" / "people"
    found = [raters.ask(drawn, spec, folder / paths.slug(spec)) for spec in arguments.llm]
    yield raters.beside(pd.concat(found), agreement.rate(dialogues, _grounder(arguments)))


_PARTS: dict[str, tuple[str, Callable[[Namespace], Iterator[Any]]]] = {
    "ceilings": ("raters and scores on AB-ReDial", _ceilings),
    "success": ("success of simulated users on Concept4CRS", _success),
    "simulators": ("a published judge on UserSimCRS, by simulator", _simulators),
    "judges": ("language models that judge what people rated", _judges),
    "views": ("a run of ours with logged and with heard state", _views),
}


def annotate(parser: ArgumentParser) -> None:
    """``annotate --run R [--n N] [--kind single|pairs]``, and ``annotate --run R --import FILES``."""
    from crs_lib.validity.labels import AskConfig

    options.add(parser, AskConfig)
    parser.add_argument("--out", metavar="PAGE.html", help="where the page goes (default: the run's folder)")
    parser.add_argument(
        "--import", dest="files", nargs="+", metavar="FILES", help="labels that the page exported, to analyse"
    )
    parser.set_defaults(do=_annotate)


def _annotate(arguments: Namespace) -> None:
    if arguments.files:
        from crs_lib.validity import labels

        found = labels.findings(arguments.run, arguments.files)
        for frame in found[1:]:
            print(frame.round(3).to_string(index=False, na_rep="-"), end="\n\n")
        print(f"tables: {paths.shown(labels.write(arguments.run, found))}/")
        return
    from crs_lib.report import annotate as pages
    from crs_lib.validity.labels import AskConfig

    out = Path(arguments.out).expanduser() if arguments.out else None
    path = pages.write(options.read(arguments, AskConfig), out)
    print(f"written: {paths.shown(path)}   open it in a browser, no server is needed")
    print(f"then: python -m crs_lib annotate --run {arguments.run} --import labels-*.jsonl")
