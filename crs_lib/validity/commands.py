"""Whether scores can be trusted: the gate, what people say of revisions, and their labels of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from crs_lib.cli.commands import Command, Takes, table
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import OneOf

if TYPE_CHECKING:
    from crs_lib.validity.labels import AskConfig


class Gate(Command):
    """Show which metrics order the control policies as they must: the protocol's last confirmation."""

    takes = (Takes("crs_lib.validity.gate:GateConfig"),)

    develop: bool = False
    """test the protocol's requirements on its development seeds"""
    confirm: bool = False
    """test them once on its confirmation seeds, and log the verdict"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.validity import gate as gates

        if self.develop or self.confirm:
            _protocol(settings, self.confirm)
            return
        for name in settings:
            raise InputError(f"{name} goes with --develop or --confirm; leave it out")
        table(gates.verdicts())


def _protocol(options: dict[str, Any], confirm: bool) -> None:
    """Test the protocol, which fixes all but the catalogue; its run has the name behind which it stands."""
    from crs_lib.validity import gate as gates

    path = paths.shown(gates.Protocol.read().path)
    for name in options.keys() - {"run", "catalog", "workers"}:
        raise InputError(f"{name} is {options[name]!r}, but the protocol fixes it ({path}); leave it out")
    config = gates.GateConfig(**options)
    run = f"{config.run}-protocol" if "run" in options else "protocol"
    test = gates.confirm if confirm else gates.develop
    tests = test(run, config.catalog, config.workers)
    table(tests.assign(p_holm=tests["p_holm"].map("{:.2g}".format)).drop(columns=["protocol", "p"]))
    table(gates.demands_held(tests)[["metric", "held", "asked", "decides"]])
    print(f"protocol {tests['protocol'].iloc[0][:16]}, {path}")


class People(Command):
    """Compare what is measured at revisions with the ratings of people who changed their minds."""

    positional = ("part",)
    reads = "catalog"
    writes = "out"

    part: Annotated[str, OneOf(("revisions",))]
    """revisions"""
    catalog: str = ""
    """a catalogue's file (default: the data set redial-movies)"""
    out: Path | None = None
    """where the tables go"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import data
        from crs_lib.catalog import sources
        from crs_lib.catalog.grounder import Grounder
        from crs_lib.validity import revisions

        films = sources.load(self.catalog or data.locate("redial-movies"))
        replies = revisions.replies(Grounder(films))
        study = revisions.study(replies)
        if self.out:
            revisions.write(study, self.out)
        for frame in study:
            table(frame)
        rated = [name for names in revisions.RATINGS.values() for name in names]
        n_rated = int(replies[rated].notna().any(axis=1).sum())
        print(f"replies read: {len(replies):,}; left out: {len(replies) - n_rated:,} without a rating")


class Annotate(Command):
    """Make a page of questions about a run, or read its labels.

    CoSRec's kinds are relevance, intents and quality; their labels become the files of a corpus.
    """

    takes = (Takes("crs_lib.validity.labels:AskConfig"),)
    reads = "import_"
    writes = "out"

    out: Path | None = None
    """where the page goes (default: the run's folder); of CoSRec's labels: the corpus to write"""
    import_: tuple[str, ...] = ()
    """labels that the page exported, to analyse"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.validity import labels, questions

        config = labels.AskConfig(**settings)
        if config.kind not in ("single", "pairs"):
            _assess(config, self.out, self.import_)
        elif self.import_:
            findings = labels.findings(config.run, self.import_)
            for frame in findings[1:]:
                table(frame)
            print(f"tables: {paths.shown(labels.write(config.run, findings))}/")
        else:
            page = paths.shown(questions.write_page(config, self.out))
            print(f"written: {page}   open it in a browser, no server is needed")
            print(f"then: python -m crs_lib validity annotate --run {config.run} --import labels-*.jsonl")


def _assess(config: "AskConfig", out: Path | None, files: tuple[str, ...]) -> None:
    """Ask assessors about CoSRec's conversations, or write what they answered into a corpus."""
    from crs_lib.cosrec.annotate import Assessment, folder
    from crs_lib.cosrec.records import balance
    from crs_lib.report import page

    assessment = Assessment(**config.model_dump(exclude={"seed"}))
    answers = assessment.answers(files) if files else None
    if answers and not answers.open:
        corpus = out or folder(config.run) / "corpus"
        table(answers.agreement(answers.write(corpus)))
        counts = (
            f"{len(answers.views)} answers, {len(answers.final)} values, {len(answers.reviewed)} reviewed"
        )
        shown = paths.shown(corpus)
        print(f"{counts}; corpus: {shown}/   read it with -p source {shown}")
        unanswered = {"questions without an answer": len(assessment.questions) - len(answers.final)}
        print(balance("answers", len(answers.views), unanswered, f"{shown}/{config.partition}"))
        return
    path = out or folder(config.run) / f"{config.kind}.html"
    if answers:
        path = folder(config.run) / f"{config.kind}-review.html"
    data = assessment.page(answers.doubtful if answers else None)
    written = paths.shown(tables.write_whole(path, page.question_page(data)))
    doubt = " in doubt, to be reviewed" if answers else ""
    print(f"{len(data['questions'])} questions{doubt}: {written}   open it in a browser, no server is needed")
    print("then: the same command with --import, and the exported files of all pages")
    print(balance("questions", len(assessment.questions), assessment.left_out, written))
