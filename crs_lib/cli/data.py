"""External files, catalogues and the logs of others: fetched, exported, imported, scored."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from crs_lib import data, runs
from crs_lib.catalog import sources
from crs_lib.cli.commands import Command, Takes, table
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import OneOf
from crs_lib.data import fetch, forms


class Catalog(Command):
    """Show a catalogue, export it, or serve it to agents."""

    positional = ("kind",)
    reads = "catalog fields"
    writes = "out report"

    kind: Annotated[str, OneOf(("show", "export", "mcp"))]
    """show: fields and possible shifts; export: JSON lines; mcp: a server over stdio"""
    catalog: str = "sample"
    """sample, or a catalogue's file"""
    fields: str = ""
    """YAML file of fields that films lack"""
    run: str = ""
    """show or export the catalogue that this run was made with"""
    out: Path | None = None
    """a page (show) or a file (export)"""
    report: Path | None = None
    """of show: write what was merged, dropped and left out to this CSV file, with row numbers"""
    retriever: str = "hybrid:hashing"
    """of mcp: what orders films by the words of a search"""

    def execute(self, settings: dict[str, Any]) -> None:
        films = self._load()
        if self.kind == "mcp":
            from crs_lib.systems import agent

            agent.FilmTools(films, self.retriever).run()
        elif self.kind == "export":
            if self.out is None:
                raise InputError("export needs --out FILE")
            print(f"{tables.write_jsonl(self.out, films.export()):,} films: {paths.from_here(self.out)}")
        else:
            _show(films, self.out)
            _balance(films, self.report)

    def _load(self) -> Any:
        if not self.run:
            return sources.load(sources.with_fields(self.catalog, self.fields))
        if (self.catalog, self.fields) != ("sample", ""):
            raise InputError("a run has its catalogue: give --run, or --catalog and --fields")
        return sources.load(runs.Run("movies", self.run).output("catalog", "03_simulate", "catalog.parquet"))


def _show(films: Any, out: Path | None) -> None:
    """Print the fields of a catalogue and the shifts that it allows, or write them as a page."""
    from crs_lib.report import page
    from crs_lib.report import tables as views

    frames = {
        "Fields": views.field_table(films).query("`films with it` > 0"),
        "Shifts": views.possible_shifts(films),
    }
    if out is None:
        print(f"{films.report}\n")
        for heading, frame in frames.items():
            table(frame, heading)
        return
    sections = [(heading, heading.lower(), page.table(frame)) for heading, frame in frames.items()]
    question = "What can users ask for, and change their minds about?"
    lead = page.quiet(str(films.report))
    tables.write_whole(out, page.document(films.source, question, lead, sections))
    print(f"written: {paths.from_here(out)}   open it in a browser")


def _balance(films: Any, report: Path | None) -> None:
    """The last line: rows read, films, rows merged and left out, and where each of them is listed."""
    where = "every change and row: --report FILE.csv"
    if report is not None:
        tables.write_csv(report, films.report.lines())
        where = f"every change and row: {paths.from_here(report)}"
    print(f"{films.report.balance()}; {where}")


class Get(Command):
    """Download, list or verify external files."""

    positional = ("names",)

    names: tuple[str, ...] = ()
    """data sets"""
    list_: bool = False
    """list them; with a name, its files and addresses"""
    verify: bool = False
    """compare files with their checksums, by default all here"""

    def execute(self, settings: dict[str, Any]) -> None:
        chosen = [data.get(name) for name in self.names]
        if self.verify:
            _verify(chosen)
        elif self.list_ or not chosen:
            every = data.describe()
            table(every[every["name"].isin(self.names or every["name"])], digits=1)
            for dataset in chosen:
                table(dataset.table())
        else:
            for dataset in chosen:
                _fetch(dataset)


def _fetch(dataset: Any) -> None:
    path = fetch.fetch(dataset)
    count = len(fetch.check(dataset))
    how = f"{count} files with their checksum" if count else "no checksum is known of it"
    where = "in the mirror" if dataset.in_mirror() else "downloaded"
    print(f"{dataset.name}: {where}, {how}: {paths.from_here(path)}")


def _verify(chosen: Sequence[Any]) -> None:
    for dataset in chosen:
        data.locate(dataset.name)
    checks = []
    for dataset in chosen or data.every().values():
        checks += fetch.check(dataset)
    if not checks:
        print("nothing to verify: no data set with a checksum is here")
        return
    table(fetch.summary(checks))
    bad = [f"{check.file} {check.status} ({check.place})" for check in checks if check.status in fetch.BAD]
    if bad:
        how = f"{len(bad)} of {len(checks)} files are not as they should be: {'; '.join(bad[:10])}"
        raise RunError(f"{how}. Downloads are mended by: python -m crs_lib data get NAME")


class ImportLogs(Command):
    """Read logs of any known form: report their quirks, write them in another, or make a run of them."""

    positional = ("path",)
    takes = (Takes("crs_lib.simulate.logged:ImportConfig", "catalog system strict"),)
    reads = "path logs catalog"
    writes = "quirks out"

    path: str = ""
    """a log file or a folder of them, of any known form; the same as --logs"""
    logs: str = ""
    """a log file or a folder of them"""
    run: str = ""
    """name of the run, its folder under results/movies"""
    quirks: Path | None = None
    """without --run: write every quirk to this CSV file"""
    to: Annotated[str, OneOf(("openai", "dialoguekit", "inspect"), optional=True)] = ""
    """write them to --out as JSON lines of messages, DialogueKit's JSON, or an Inspect log"""
    out: Path | None = None
    """with --to: the file to write"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.simulate import logged

        logs = self.logs or self.path
        if not logs:
            raise InputError("name a log file or a folder of them, of any known form")
        if self.to or self.out:
            _convert(logs, self.to, self.out, settings)
        elif self.run:
            config = logged.ImportConfig(logs=logs, run=self.run, **settings)
            imported = logged.import_logs(config)
            account = show_import(imported)
            _unheard(settings, imported.systems["system"])
            print(f"next: python -m crs_lib run 04_evaluate -p run {config.run}")
            print(account)
        else:
            _quirks(logs, self.quirks, settings)


def _convert(logs: str, to: str, out: Path | None, settings: dict[str, Any]) -> None:
    """Write logs in a form of others."""
    if not to or out is None:
        raise InputError("name the form and the file: --to openai --out FILE")
    broken: list[Any] = []
    dialogues = list(_dialogues(logs, settings, broken))
    if to == "openai":
        tables.write_jsonl(out, map(forms.to_openai, dialogues))
    elif to == "dialoguekit":
        records = [forms.to_dialoguekit(dialogue) for dialogue in dialogues]
        tables.write_whole(out, json.dumps(records, ensure_ascii=False, indent=1))
    else:
        forms.write_inspect(out, dialogues)
    print(f"{len(dialogues):,} conversations: {paths.from_here(out)}")
    _unheard(settings, {dialogue.model_name for dialogue in dialogues})
    turns = sum(len(dialogue.pairs()) for dialogue in dialogues)
    print(_passed_over(len(dialogues), turns, broken, "without --to and --out, with --run: skipped.csv"))


def _quirks(logs: str, out: Path | None, settings: dict[str, Any]) -> None:
    """Print sessions by model and quirks by kind; every case goes into a file."""
    broken: list[Any] = []
    sessions: Counter[str] = Counter()
    turns: Counter[str] = Counter()
    shifts: Counter[str] = Counter()

    def counted() -> Iterator[Dialogue]:
        for dialogue in _dialogues(logs, settings, broken):
            model = dialogue.model_name
            sessions[model] += 1
            turns[model] += len(dialogue.pairs())
            shifts[model] += len(dialogue.shift_turns())
            yield dialogue

    report = data.log_quirks(counted())
    rows = [(model, sessions[model], turns[model], shifts[model]) for model in sessions]
    table(pd.DataFrame(rows, columns=["model", "sessions", "turns", "shifts"]))
    if not report.empty:
        table(data.log_quirk_counts(report))
    _unheard(settings, sessions)
    if out:
        tables.write_csv(out, report)
        print(f"every case: {paths.from_here(out)}")
    last = _passed_over(sessions.total(), turns.total(), broken, "with --run, skipped.csv")
    lost = int((report["quirk"] == data.LOST).sum())
    if lost:
        last += f"; turns with U+FFFD, a character that was lost: {lost:,}"
    print(f"{last}; no quirks" if report.empty else last)


def _dialogues(logs: str, settings: dict[str, Any], broken: list[Any]) -> Iterator[Dialogue]:
    """The dialogues of logs; InputError where none can be read, and with ``strict`` where one cannot."""
    if settings.get("strict"):
        yield from data.read(logs, system=settings.get("system", ""))
        return
    read = 0
    for dialogue in data.readable(logs, broken.append, system=settings.get("system", "unnamed")):
        read += 1
        yield dialogue
    if broken and not read:
        first = f"{broken[0].place}: {broken[0].reason}"
        raise InputError(f"no conversation of {logs} can be read; the first: {first}")


def _unheard(settings: Mapping[str, Any], systems: Collection[str]) -> None:
    """Print that ``--system`` names no conversation, where the logs name the system of each."""
    name = settings.get("system", "")
    if name and name not in systems:
        named = ", ".join(sorted(systems))
        print(f"--system {name} names no conversation: the logs say which system spoke ({named})")


def _passed_over(sessions: int, turns: int, broken: Sequence[Any], where: str) -> str:
    """What was read and what was left out, why, and where the list lies."""
    read = f"conversations read: {sessions:,}, turns: {turns:,}"
    if not broken:
        return f"{read}; left out: none"
    first = f"the first is {broken[0].place}: {broken[0].reason}"
    return f"{read}; left out: {len(broken):,}, {first}; list: {where}"


def show_import(imported: Any) -> str:
    """Print an import: sessions by system, what was skipped and why. Returns the line that ends a command:
    what was read, left out and matched, why, and where the list lies.
    """
    from crs_lib.simulate.logged import SKIPPED

    systems = imported.systems
    table(systems)
    if len(imported.skipped):
        file = paths.from_here(imported.folder / SKIPPED)
        lost = f"{len(imported.skipped)} conversations could not be read"
        table(imported.skipped.head(3), f"{lost} ({file}); the first:")
    for name in systems.loc[systems["turns"] == 0, "system"]:
        print(f"no usable session: {name}")
    print(f"run: {paths.from_here(imported.folder)}/")
    broken = list(imported.skipped.itertuples())
    where = paths.from_here(imported.folder / SKIPPED)
    read = _passed_over(systems["sessions"].sum(), systems["turns"].sum(), broken, where)
    parts = [read, *(join.sentence for join in imported.joins)]
    if imported.ambiguous:
        parts.append(f"titles that several films bear, the first counts: {imported.ambiguous:,}")
    if imported.lost:
        parts.append(f"turns with U+FFFD, a character that was lost: {imported.lost:,}")
    return "; ".join(parts)


_SCORES = ("turns.parquet", "shifts.parquet", "results.jsonl", "model_metrics.csv")


class Score(Command):
    """Score logs of any known form."""

    takes = (
        Takes(
            "crs_lib.evaluate.choose:ScoringConfig",
            "catalog convention extractor similarity vocabulary topics topic_model llm llm_settings",
        ),
    )
    reads = "logs catalog vocabulary topic_model"
    writes = " ".join(f"out/{name}" for name in (*_SCORES, "llm_calls.jsonl"))

    logs: str
    """a log file or a folder of them, of any known form"""
    workers: int = 1
    """processes (the result does not depend on it)"""
    out: Path | None = None
    """where the tables go (default: results/movies/scores)"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import evaluate, llm
        from crs_lib.evaluate.choose import ScoringConfig

        folder = self.out or paths.run_folder("movies", "scores")
        account = self._account(settings["catalog"])
        config = ScoringConfig(**settings, inputs={"logs": tables.of_files(data.files(self.logs))})
        frame = evaluate.score_logs(self.logs, config, folder, self.workers)
        wide = frame.pivot_table(index="metric", columns="model", values="mean", dropna=False, sort=False)
        print(wide.dropna(how="all").round(4).to_string(na_rep="-"))
        print(f"\ntables: {paths.from_here(folder)}/  ({', '.join(_SCORES)})")
        if config.asks:
            table(llm.usage(folder / "llm_calls.jsonl"), digits=2)
            _show_lost(folder / "results.jsonl")
        print(account)

    def _account(self, catalog: str) -> str:
        """What is read of the logs, and how far the catalogue has the titles that they list: one line."""
        from crs_lib.simulate.logged import match_titles

        listed: dict[str, None] = {}
        sessions = turns = 0
        for dialogue in data.read(self.logs):
            sessions += 1
            turns += len(dialogue.pairs())
            for turn in dialogue.turns:
                listed.update(dict.fromkeys(map(str, turn.meta.get("rec_titles") or ())))
        account = _passed_over(sessions, turns, (), "")
        if listed:
            account += f"; {match_titles(listed, sources.load(catalog)).sentence}"
        return account


def _show_lost(results: Path) -> None:
    """Say how many sessions a model left without scores, and why the first."""
    lost = [row for row in tables.read_jsonl(results) if row["detail"].get("failed")]
    if lost:
        first = f"{lost[0]['session_id']} of {lost[0]['model']}: {lost[0]['detail']['failed']}"
        print(f"sessions without scores: {len(lost)}; the first is {first}. The same command asks again")
