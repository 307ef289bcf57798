"""Whether scores can be trusted: gates, precision, sensitivity, realism, and what people say."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd

from crs_lib.cli.app import command, table
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import OneOf

if TYPE_CHECKING:
    from crs_lib.validity.labels import AskConfig


@command("validity gate", takes=["crs_lib.validity.gate:GateConfig"])
def _gate(*, develop: bool = False, confirm: bool = False, redteam: bool = False, **given: Any) -> None:
    """Show which metrics order the control policies as they must: the protocol's last confirmation.

    develop: test the protocol's requirements on its development seeds
    confirm: test them once on its confirmation seeds, and log the verdict
    redteam: search for policies that raise a score without use to the user
    """
    from crs_lib.validity import gate as gates
    from crs_lib.validity import redteam as search

    if develop or confirm:
        _protocol(given, confirm)
    elif redteam:
        config = gates.GateConfig(**{**search.USUAL, **given})
        table(search.run(config).drop(columns=["budget", "seed", "n_sessions"]))
        print(f"{config.budget} policies, {config.n_sessions} scenarios; {search.TABLE} of run {config.run}")
    elif given:
        raise InputError(f"{next(iter(given))} goes with --develop, --confirm or --redteam; leave it out")
    else:
        table(gates.verdicts())


def _protocol(given: dict[str, Any], confirm: bool) -> None:
    """Test the protocol, which fixes all but the catalogue; its run has the name behind which it stands."""
    from crs_lib.validity import gate as gates

    place = paths.shown(gates.Protocol.read().path)
    for name in given.keys() - {"run", "catalog", "workers"}:
        raise InputError(f"{name} is {given[name]!r}, but the protocol fixes it ({place}); leave it out")
    config, run = gates.GateConfig(**given), f"{given['run']}-protocol" if "run" in given else "protocol"
    found = (gates.confirm if confirm else gates.develop)(run, config.catalog, config.workers)
    table(found.assign(p_holm=found["p_holm"].map("{:.2g}".format)).drop(columns=["protocol", "p"]))
    table(gates.board(found)[["metric", "held", "asked", "decides"]])
    print(f"protocol {found['protocol'].iloc[0][:16]}, {place}")


@command("validity precision", takes=["crs_lib.validity.precision:PrecisionConfig"])
def _precision(*, conventions: bool = False, **given: Any) -> None:
    """Estimate the scenarios needed, or test how far a ranking depends on the convention.

    conventions: the second, of a finished run
    """
    from crs_lib.validity import precision as study
    from crs_lib.validity import sensitivity as stages

    if not conventions:
        needs = study.run(study.PrecisionConfig(**given))
        table(needs.components, digits=5)
        table(needs.needed)
        return
    run = given.get("run", "demo")
    folder = stages.make(run, given.get("n_sessions", 10))
    table(stages.stability(stages.read(run), "choice"))
    print(f"table: {paths.shown(folder)}/{stages.FILE}")


@command("validity realism", takes=["crs_lib.validity.realism:RealismConfig"])
def _realism(**given: Any) -> None:
    """Compare simulated with real user turns; without --dialogues show how the tracker serves each voice."""
    from crs_lib.report import statistics
    from crs_lib.validity import realism as test

    config = test.RealismConfig(**given)
    if not config.dialogues:
        table(statistics.by_voice(test.by_voice(config), "value"))
        return
    found = test.run(config)
    told = [name for name in ("tells simulated", "tells real") if name in found]
    table(found.drop(columns=told))
    table(found[["users", *told]])


_PARTS = OneOf(("rated", "revisions", "ceilings", "success"))


@command("validity people", reads="dialogues catalog", writes="out")
def _people(
    part: Annotated[str, _PARTS], *, catalog: str = "", strict: bool = False, dialogues: Path | None = None,
    out: Path | None = None, export: Annotated[str, OneOf(("face",))] = "face",
) -> None:  # fmt: skip
    """Compare scores with raters and success; score conversations that people rated.

    The parts: scores of conversations that people rated (--dialogues, --catalog, --out); revisions, ratings
    of replies to people who changed their minds; ceilings, raters against one another (AB-ReDial, USS);
    success of simulated users on Concept4CRS.

    catalog: a catalogue's file (default: the data set redial-movies)
    strict: of rated: stop at a conversation that cannot be read or has no name
    dialogues: of rated: a log of any known form, e.g. CRSArena-Eval
    out: of rated and revisions: where the predictions or the tables go
    export: of rated: the form of the predictions, a FACE run file
    """
    from crs_lib import data
    from crs_lib.catalog import sources
    from crs_lib.catalog.grounder import Grounder
    from crs_lib.validity import agreement, raters, revisions

    if part == "rated":
        if not (dialogues and catalog and out):
            raise InputError("rated needs --dialogues FILE --catalog FILE --out RUN.json")
        _rated(dialogues, Grounder(sources.load(catalog)), out, strict)
        return
    films = Grounder(sources.load(catalog or data.locate("redial-movies")))
    if part == "ceilings":
        for name in ("abredial", "uss"):
            table(raters.ceiling(raters.ratings(raters.conversations(name))), name)
        rows = agreement.rate(raters.conversations("abredial"), films)
        table(agreement.agreement(rows, agreement.SHOWN))
        table(raters.aspects(rows).drop(columns=[*raters.PUBLISHED]))
        return
    if part == "revisions":
        found = revisions.study(revisions.replies(films))
        if out:
            revisions.write(found, out)
        for frame in found:
            table(frame)
        return
    frame = raters.success(raters.conversations("concept4crs"), films)
    for found in (raters.prediction(frame), raters.systems(frame)):
        table(found)


def _rated(log: Path, films: Any, out: Path, strict: bool) -> None:
    """Score conversations that people rated into a file, and compare where they carry ratings."""
    from crs_lib import data
    from crs_lib.validity import agreement, raters

    broken = list[data.Broken]()
    talks = data.read(log) if strict else data.readable(log, broken.append)
    found = list(agreement.score(talks, films))
    rows, silent = [row for one in found for row in one.rated], sum(not one.rows for one in found)
    if not rows and broken:
        raise InputError(f"no reply to score; not read: {broken[0].place}: {broken[0].reason}")
    frame = agreement.table(rows)
    tables.write_whole(out, json.dumps([one.entry for one in found], ensure_ascii=False, indent=1))
    known = f"a constraint known in {frame['defined'].mean():.0%}"
    print(f"{len(found)} dialogues, {len(rows)} replies, {known}")
    if silent:
        print(f"{silent} of them without a reply: 0, a system that never answers follows nothing")
    if broken:
        table(pd.DataFrame(broken[:5]), f"{len(broken)} conversations not scored, the first:")
    print(f"predictions, a FACE run file: {paths.shown(out)}")
    given = frame.groupby(["system", "conv_id"])[[agreement.RATING, agreement.OVERALL]].transform("count")
    if (given > 0).any(axis=None):
        known = frame[(given > 0).any(axis=1)]
        table(agreement.agreement(known, agreement.SHOWN))
        table(raters.aspects(known), "seven aspects of CRSArena-Eval; G-Eval, FACE: printed, ReDial part")


@command("validity annotate", takes=["crs_lib.validity.labels:AskConfig"], reads="import_", writes="out")
def _annotate(*, out: Path | None = None, import_: tuple[str, ...] = (), **given: Any) -> None:
    """Make a page of questions about a run, or read its labels.

    CoSRec's kinds are relevance, intents and quality; their labels become the files of a corpus.

    out: where the page goes (default: the run's folder); of CoSRec's labels: the corpus to write
    import_: labels that the page exported, to analyse
    """
    from crs_lib.report import page
    from crs_lib.validity import labels

    config = labels.AskConfig(**given)
    if config.kind not in ("single", "pairs"):
        _assess(config, out, import_)
    elif import_:
        found = labels.findings(config.run, import_)
        for frame in found[1:]:
            table(frame)
        print(f"tables: {paths.shown(labels.write(config.run, found))}/")
    else:
        written = paths.shown(page.write_questions(config, out))
        print(f"written: {written}   open it in a browser, no server is needed")
        print(f"then: python -m crs_lib validity annotate --run {config.run} --import labels-*.jsonl")


def _assess(config: "AskConfig", out: Path | None, files: tuple[str, ...]) -> None:
    """Ask assessors about CoSRec's conversations, or write what they answered into a corpus."""
    from crs_lib.cosrec.annotate import Assessment, folder
    from crs_lib.report import page

    asked = Assessment(**config.model_dump(exclude={"seed"}))
    found = asked.answers(files) if files else None
    if found and not found.open:
        place = out or folder(config.run) / "corpus"
        table(found.agreement(found.write(place)))
        counts = f"{len(found.views)} answers, {len(found.final)} values, {len(found.reviewed)} reviewed"
        print(f"{counts}; corpus: {paths.shown(place)}/   read it with -p source {paths.shown(place)}")
        return
    place = folder(config.run) / f"{config.kind}-review.html"
    if not found:
        place = out or folder(config.run) / f"{config.kind}.html"
    data = asked.page(found.doubtful if found else None)
    written = tables.write_whole(place, page.question_page(data))
    why = f"{len(data['questions'])} questions" + (" in doubt, to be reviewed" if found else "")
    print(f"{why}: {paths.shown(written)}   open it in a browser, no server is needed")
    print("then: the same command with --import, and the exported files of all pages")
