"""External files, catalogues and the logs of others: fetched, exported, imported, scored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from crs_lib import runs
from crs_lib.cli.app import command, table
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, OneOf


@command("catalog", reads="catalog fields", writes="out")
def _catalog(
    kind: Annotated[str, OneOf(("show", "export", "mcp", "topics"))], *, catalog: str = "sample",
    fields: str = "", run: str = "", out: Path | None = None, retriever: str = "hybrid:hashing",
    n_topics: Annotated[int, Field(ge=2)] = 50, seed: Annotated[int, Field(ge=0, lt=2**32)] = 42,
) -> None:  # fmt: skip
    """Show a catalogue, export it, serve it to agents, or train topics on its plots.

    kind: show: fields and possible shifts; export: JSON lines; mcp: a server over stdio; topics: an LDA model
    catalog: sample, or a catalogue's file
    fields: YAML file of fields that films lack
    run: show or export the catalogue that this run was made with
    out: a page (show), a file (export) or a folder (topics)
    retriever: of mcp: what orders films by the words of a search
    n_topics: of topics: how many
    seed: of topics
    """
    from crs_lib.catalog import sources

    if kind == "topics":
        _train(catalog, out, n_topics, seed)
        return
    if run and (catalog, fields) != ("sample", ""):
        raise InputError("a run has its catalogue: give --run, or --catalog and --fields")
    made = run and runs.output("movies", run, "catalog", "03_simulate", "catalog.parquet")
    films = sources.load(made or sources.with_fields(catalog, fields))
    if kind == "mcp":
        from crs_lib.systems import agent

        agent.FilmTools(films, retriever).run()
    elif kind == "export":
        if out is None:
            raise InputError("export needs --out FILE")
        print(f"{tables.write_jsonl(out, films.export()):,} films: {paths.shown(out)}")
    else:
        _show(films, out)


def _show(films: Any, out: Path | None) -> None:
    """Print the fields of a catalogue and the shifts that it allows, or write them as a page."""
    from crs_lib.report import page
    from crs_lib.report import tables as views

    fields = views.field_table(films).query("`films with it` > 0")
    shown = {"Fields": fields, "Shifts": views.possible_shifts(films)}
    if out is None:
        print(f"{films.report}\n")
        for heading, frame in shown.items():
            table(frame, heading)
        return
    parts = [(name, name.lower(), page.table(frame)) for name, frame in shown.items()]
    asked, read = "What can users ask for, and change their minds about?", page.quiet(str(films.report))
    tables.write_whole(out, page.document(films.source, asked, read, parts))
    print(f"written: {paths.shown(out)}   open it in a browser")


def _train(catalog: str, out: Path | None, n_topics: int, seed: int) -> None:
    """Train the topic model of the thesis's conventions."""
    from crs_lib.thesis.catalog import ThesisCatalog
    from crs_lib.thesis.topics import train, trained_model

    films = ThesisCatalog.load(catalog)
    plots = films.documents[len(films) :]
    model = train(plots, n_topics=n_topics, seed=seed)
    model.save(out or trained_model())
    size = f"{model.n_topics} topics over {len(model.words)} words of {len(plots)} plots"
    print(f"{size}: {paths.shown(out or trained_model())}/")


@command("data get")
def _get(names: tuple[str, ...] = (), *, list_: bool = False, verify: bool = False) -> None:
    """Download, list or verify external files.

    names: data sets
    list_: list them; with a name, its files and addresses
    verify: compare files with their checksums, by default all here
    """
    from crs_lib import data
    from crs_lib.data import fetch

    chosen = [data.get(name) for name in names]
    if verify:
        _verify(chosen)
    elif list_ or not chosen:
        known = data.describe()
        table(known[known["name"].isin(names or known["name"])], digits=1)
        for one in chosen:
            table(one.table())
    else:
        for one in chosen:
            place, n = fetch.fetch(one), len(fetch.check(one))
            how = f"{n} files with their checksum" if n else "no checksum is known of it"
            where = "in the mirror" if one.in_mirror() else "downloaded"
            print(f"{one.name}: {where}, {how}: {paths.shown(place)}")


def _verify(named: list[Any]) -> None:
    from crs_lib import data
    from crs_lib.data import fetch

    for one in named:
        data.locate(one.name)
    checks = [check for dataset in named or data.every().values() for check in fetch.check(dataset)]
    if not checks:
        print("nothing to verify: no data set with a checksum is here")
        return
    table(fetch.summary(checks))
    if bad := [f"{one.file} {one.status} ({one.place})" for one in checks if one.status in fetch.BAD]:
        how = f"{len(bad)} of {len(checks)} files are not as they should be: {'; '.join(bad[:10])}"
        raise RunError(f"{how}. Downloads are mended by: python -m crs_lib data get NAME")


@command(
    "data import", reads="path logs catalog", writes="quirks out",
    takes=["crs_lib.simulate.logged:ImportConfig catalog system strict"],
)  # fmt: skip
def _import_logs(
    path: str = "", *, logs: str = "", run: str = "", quirks: Path | None = None,
    to: Annotated[str, OneOf(("openai", "dialoguekit", "inspect"), optional=True)] = "",
    out: Path | None = None, **given: Any,
) -> None:  # fmt: skip
    """Read logs of any known form: report their quirks, write them --to another, or make a run of them.

    path: a log file or a folder of them, of any known form; the same as --logs
    logs: a log file or a folder of them
    run: name of the run, its folder under results/movies
    quirks: without --run: write every quirk to this CSV file
    to: write them to --out as JSON lines of messages, DialogueKit's JSON, or an Inspect log
    out: with --to: the file to write
    """
    from crs_lib.simulate import logged

    if not (place := logs or path):
        raise InputError("name a log file or a folder of them, of any known form")
    if to or out:
        _convert(place, to, out)
        return
    if not run:
        _quirks(Path(place), quirks)
        return
    config = logged.ImportConfig(logs=place, run=run, **given)
    tell(logged.import_logs(config), config)
    print(f"next: python -m crs_lib run 04_evaluate -p run {config.run}")


def _convert(logs: str, to: str, out: Path | None) -> None:
    """Write logs in a form of others."""
    from crs_lib import data
    from crs_lib.data import forms

    if not to or out is None:
        raise InputError("name the form and the file: --to openai --out FILE")
    found = list(data.read(logs))
    if to == "openai":
        tables.write_jsonl(out, map(forms.to_openai, found))
    elif to == "dialoguekit":
        records = [forms.to_dialoguekit(one) for one in found]
        tables.write_whole(out, json.dumps(records, ensure_ascii=False, indent=1))
    else:
        forms.write_inspect(out, found)
    print(f"{len(found):,} conversations: {paths.shown(out)}")


def _quirks(logs: Path, out: Path | None) -> None:
    """Print sessions by model and quirks by kind; every case goes into a file."""
    from crs_lib import data

    rows = list[tuple[str, int, int, int]]()

    def counted() -> Iterator[Dialogue]:
        for one in data.read(logs):
            rows.append((one.model_name, 1, len(one.pairs()), len(one.shift_turns())))
            yield one

    report = data.log_quirks(counted())
    frame = pd.DataFrame(rows, columns=["model", "sessions", "turns", "shifts"])
    table(frame.groupby("model", sort=False).sum().reset_index())
    if report.empty:
        print("no quirks")
    else:
        table(data.log_quirk_counts(report))
    if out:
        tables.write_csv(out, report)
        print(f"every case: {paths.shown(out)}")


def tell(found: Any, config: Any) -> None:
    """Print an import: sessions by system, what was skipped and why, and how far the catalogue goes."""
    from crs_lib.simulate.logged import SKIPPED

    table(found.systems)
    if len(found.skipped):
        place = paths.shown(found.folder / SKIPPED)
        lost = f"{len(found.skipped)} conversations could not be read"
        table(found.skipped.head(3), f"{lost} ({place}); the first:")
    for name in found.systems.loc[found.systems["turns"] == 0, "system"]:
        print(f"no usable session: {name}")
    known = found.known
    if known.foreign:
        print(f"only {100 * known.share:.0f} % of {known.of} ({known.n}) {config.catalog} {known.says}; give")
        print("the catalogue that the systems had: --catalog FILE")
    print(f"run: {paths.shown(found.folder)}/")


_SCORING = (
    "crs_lib.evaluate.choose:ScoringConfig catalog convention extractor similarity vocabulary topics "
    "topic_model llm llm_settings"
)
_SCORES = ("turns.parquet", "shifts.parquet", "results.jsonl", "model_metrics.csv")


@command(
    "data score", takes=[_SCORING], reads="logs catalog vocabulary topic_model",
    writes=" ".join(f"out/{name}" for name in (*_SCORES, "llm_calls.jsonl")),
)  # fmt: skip
def _score(*, logs: str, workers: int = 1, out: Path | None = None, **given: Any) -> None:
    """Score logs of any known form.

    logs: a log file or a folder of them, of any known form
    workers: processes (the result does not depend on it)
    out: where the tables go (default: results/movies/scores)
    """
    from crs_lib import data, evaluate, llm
    from crs_lib.evaluate.choose import ScoringConfig

    place = out or paths.run_folder("movies", "scores")
    config = ScoringConfig(**given, inputs={"logs": tables.of_files(data.files(logs))})
    frame = evaluate.score_logs(logs, config, place, workers)
    wide = frame.pivot_table(index="metric", columns="model", values="mean", dropna=False, sort=False)
    print(wide.dropna(how="all").round(4).to_string(na_rep="-"))
    print(f"\ntables: {paths.shown(place)}/  ({', '.join(_SCORES)})")
    if config.asks:
        table(llm.usage(place / "llm_calls.jsonl"), digits=2)
        if lost := [row for row in tables.read_jsonl(place / "results.jsonl") if row["detail"].get("failed")]:
            first = f"{lost[0]['session_id']} of {lost[0]['model']}: {lost[0]['detail']['failed']}"
            print(f"sessions without scores: {len(lost)}; the first is {first}. The same command asks again")
