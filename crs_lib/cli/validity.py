"""Whether scores can be trusted: gates, precision, sensitivity, realism, and what people say."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crs_lib.cli.app import arg, command, read, settings, values
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError

_GATE = "crs_lib.validity.gate:GateConfig"


@command(
    "validity gate",
    settings(_GATE, run=None, n_sessions=None, seed=None),
    settings(_GATE, "catalog", "n_turns", "convention", "workers", "budget"),
    arg("--develop", action="store_true", help="test the protocol's requirements on its development seeds"),
    arg("--confirm", action="store_true",
        help="test them once on its confirmation seeds, and log the verdict"),
    arg("--redteam", action="store_true",
        help="search for policies that raise a score without use to the user"),
    arg("--metric", metavar="NAME", help="with --redteam: show this metric only; all are searched"),
)  # fmt: skip
def gate(arguments: Namespace) -> None:
    """Test which metrics order the control policies correctly."""
    from crs_lib.validity import gate as gates
    from crs_lib.validity.redteam import USUAL

    given = {name: value for name, value in values(arguments, gates.GateConfig).items() if value is not None}
    if arguments.redteam:
        _redteam(gates.GateConfig(**{**USUAL, **given}), arguments.metric)
    elif arguments.develop or arguments.confirm:
        _protocol(gates.GateConfig(**given), arguments.confirm)
    else:
        _verdicts(gates.GateConfig(**given))


def _verdicts(config: Any) -> None:
    from crs_lib.validity import gate as gates

    folder = gates.run(config, progress=False)
    found = gates.read(config.run)
    shown = found.assign(orderings=found["passed"].astype(str) + " of " + found["asked"].astype(str))
    print(shown[["metric", "orderings", "mark"]].fillna("").to_string(index=False))
    for row in found[found["failed"].fillna("") != ""].itertuples():
        print(f"\n{row.metric} fails: {row.failed}")
    for name, mark in gates.unlike(gates.marks(config.run)).items():
        print(f"\n{name}: tables say {mark or 'fit to rank'!r}, this run says otherwise")
    first, *others = (gates.TABLES[name].name for name in ("tests", "metrics", "doses"))
    print(f"\ntables: {', '.join([paths.shown(folder / first), *others])}")


def _protocol(given: Any, confirm: bool) -> None:
    from crs_lib.validity import gate as gates

    usual = gates.GateConfig()
    place = paths.shown(gates.Protocol.read().path)
    for field in ("n_sessions", "n_turns", "seed", "convention"):
        if getattr(given, field) != getattr(usual, field):
            raise InputError(
                f"{field}={getattr(given, field)!r} beside --develop or --confirm: the protocol fixes it "
                f"({place}); leave it out"
            )
    name = f"{given.run}-protocol" if given.run != usual.run else "protocol"
    found = (gates.confirm if confirm else gates.develop)(name, given.catalog, given.workers)
    shown = found.assign(p_holm=found["p_holm"].map("{:.2g}".format)).drop(columns=["protocol", "p"])
    print(shown.round(3).to_string(index=False, na_rep="-"))
    print(f"\n{gates.board(found)[['metric', 'held', 'asked']].to_string(index=False)}")
    print(f"\nprotocol {found['protocol'].iloc[0][:16]}, {place}")


def _redteam(config: Any, metric: str | None) -> None:
    from crs_lib.metrics import base
    from crs_lib.validity import redteam as search

    if metric:
        base.get(metric)
    found = search.run(config)
    if metric:
        found = found[found["metric"] == metric]
    shown = found.drop(columns=["budget", "seed", "n_sessions"]).round(3)
    print(shown.to_string(index=False, na_rep="-"))
    print(f"\n{config.budget} policies, {config.n_sessions} scenarios; {search.TABLE} in run {config.run!r}")


@command("validity precision", settings("crs_lib.validity.precision:PrecisionConfig"))
def precision(arguments: Namespace) -> None:
    """Estimate variance components and the scenarios needed."""
    from crs_lib.validity import precision as study

    found = study.run(read(arguments, study.PrecisionConfig))
    sizes = {name[2:]: int(found.components[name].iloc[0]) for name in found.components if name[:2] == "n_"}
    shown = found.components[["effect", "df", "variance", "share"]].round({"variance": 5, "share": 3})
    print(shown.to_string(index=False, na_rep="-"))
    print(f"\n{', '.join(f'{name}: {n}' for name, n in sizes.items())}\n")
    print(found.needed.round(3).to_string(index=False, na_rep="-"))


@command(
    "validity sensitivity",
    settings("crs_lib.validity.precision:PrecisionConfig", run="demo", n_sessions=10),
)
def sensitivity(arguments: Namespace) -> None:
    """Test how far a ranking depends on the convention."""
    from crs_lib.validity import sensitivity as stages
    from crs_lib.validity.precision import PrecisionConfig
    from crs_lib.validity.sensitivity import stability

    asked = read(arguments, PrecisionConfig)
    folder = stages.make(asked.run, asked.n_sessions)
    for name, by in (("choices", "choice"), ("catalogue", "share")):
        table = stages.read(arguments.run, name)
        if len(table):
            print(f"{stability(table, by).round(3).to_string(index=False)}\n")
    print(f"tables: {paths.shown(folder)}/  ({', '.join(stages.FILES.values())})")


@command("validity realism", settings("crs_lib.validity.realism:RealismConfig"))
def realism(arguments: Namespace) -> None:
    """Compare simulated with real user turns."""
    from crs_lib.validity import realism as test

    found = test.run(read(arguments, test.RealismConfig))
    told = [name for name in ("tells simulated", "tells real") if name in found]
    print(found.drop(columns=told).round(3).to_string(index=False))
    for row in found.to_dict("records"):
        for name in told:
            print(f"\ntemplates {row['templates']}, {name}: {row[name]}")


def _rated(arguments: Namespace) -> Iterator[Any]:
    """Score conversations that people rated into a file, and compare where they carry ratings."""
    from crs_lib import data as logs
    from crs_lib.catalog import sources
    from crs_lib.catalog.grounder import Grounder
    from crs_lib.validity import agreement

    if not (arguments.dialogues and arguments.catalog and arguments.out):
        raise InputError("rated needs --dialogues FILE --catalog FILE --out RUN.json")
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
    yield from _agreement(rated) if rated else ()


def _report(broken: list[Any]) -> None:
    if broken:
        print(f"{len(broken)} conversations not scored; --strict stops at the first:")
    for one in broken[:5]:
        print(f"  {one.place}: {one.reason}")
    if len(broken) > 5:
        print(f"  … and {len(broken) - 5} more")


def _agreement(rated: list[dict[str, Any]]) -> Iterator[Any]:
    from crs_lib.validity import agreement

    rows = agreement.table(rated)
    yield agreement.agreement(rows, agreement.SHOWN)
    whole = agreement.per_dialogue(rows, [agreement.RECEIVED])
    for frame, score, rating in (
        (rows, agreement.RECEIVED, agreement.RATING),
        (whole, agreement.WHOLE, agreement.OVERALL),
    ):
        if frame[rating].notna().any():
            yield agreement.against_baselines(frame, score, rating)


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
    "rated": ("scores of conversations that people rated (--dialogues, --catalog, --out)", _rated),
    "ceilings": ("raters and scores on AB-ReDial", _ceilings),
    "success": ("success of simulated users on Concept4CRS", _success),
    "simulators": ("a published judge on UserSimCRS, by simulator", _simulators),
    "judges": ("language models that judge what people rated", _judges),
    "views": ("a run of ours with logged and with heard state", _views),
}


@command(
    "validity people",
    arg("part", choices=tuple(_PARTS), help="; ".join(f"{k}: {d}" for k, (d, _) in _PARTS.items())),
    arg("--run", default="demo", help="the run of the part views (default: demo)"),
    arg("--catalog", metavar="FILE", help="default: the data set redial-movies"),
    arg("--llm", nargs="+", default=["local:smollm2"], metavar="SPEC", help="judges"),
    arg("--n", type=int, default=24, help="conversations that a judge sees (default: 24)"),
    arg("--dialogues", metavar="FILE", help="of rated: a log of any known form, e.g. CRSArena-Eval"),
    arg("--out", metavar="RUN.json", help="of rated: where the predictions go"),
    arg("--strict", action="store_true",
        help="of rated: stop at a conversation that cannot be read or has no name"),
    reads=("dialogues", "catalog"),
    writes=("out",),
)  # fmt: skip
def people(arguments: Namespace) -> None:
    """Compare scores with raters, success and judges; score conversations that people rated."""
    for frame in _PARTS[arguments.part][1](arguments):
        print(frame.round(3).to_string(index=False, na_rep="-"), end="\n\n")


@command(
    "validity annotate",
    settings("crs_lib.validity.labels:AskConfig"),
    arg("--out", metavar="PAGE.html", help="where the page goes (default: the run's folder)"),
    arg("--import", dest="files", nargs="+", metavar="FILES",
        help="labels that the page exported, to analyse"),
)  # fmt: skip
def annotate(arguments: Namespace) -> None:
    """Make a page of questions about a run, or read its labels."""
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
    path = pages.write(read(arguments, AskConfig), out)
    print(f"written: {paths.shown(path)}   open it in a browser, no server is needed")
    print(f"then: python -m crs_lib validity annotate --run {arguments.run} --import labels-*.jsonl")
