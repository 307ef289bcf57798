"""External files, catalogues and the logs of others: fetched, exported, imported, scored."""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.cli.app import arg, command, read, settings
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError


@command(
    "data get",
    arg("names", nargs="*", metavar="NAME", help="data sets"),
    arg("--list", action="store_true", help="list them; with a name, its files and addresses"),
    arg("--verify", action="store_true", help="compare files with their checksums, by default all here"),
)
def get(arguments: Namespace) -> None:
    """Download, list or verify external files."""
    from crs_lib import data

    chosen = [data.get(name) for name in arguments.names]
    if arguments.verify:
        _verify(chosen)
    elif arguments.list or not chosen:
        print("\n".join([line for one in chosen for line in _details(one)] or _overview()))
    else:
        _download(chosen)


def _overview() -> list[str]:
    from crs_lib import data as datasets

    frame = datasets.describe()
    frame["MB"] = [f"{n / 1e6:.1f}" if n == n else "?" for n in frame.pop("bytes").astype(float)]
    frame["files"] = [str(n) for n in frame["files"].astype(object).where(frame["files"].notna(), "?")]
    unknown = frame["checksum"] == datasets.RECORDED
    frame["checksum"] = frame["checksum"].where(~unknown, "recorded (*)")
    columns = ["name", "study", "here", "files", "MB", "checksum", "licence", "summary"]
    note = f"(*) {datasets.RECORDED}; files and MB count the copies whose checksum is known"
    return [frame[columns].to_string(index=False), note]


def _details(dataset: Any) -> list[str]:
    from crs_lib import data as datasets

    place = dataset.in_mirror() or dataset.downloaded()
    lines = [
        f"{dataset.name}: {dataset.summary}",
        f"study:    {dataset.study}",
        f"origin:   {dataset.origin.repository} at {dataset.origin.commit}",
        f"licence:  {dataset.origin.licence}",
        f"checksum: {dataset.checksum}",
        f"here:     {paths.shown(place) if place else 'no'}",
    ]
    if dataset.members:
        lines += [f"archive:  {dataset.address()}", f"members:  {dataset.members}"]
    for file in dataset.files:
        size = f"{file.size} bytes" if file.size is not None else "size unknown"
        lines += [f"file:     {file.path} ({size})", f"  sha256  {file.sha256 or datasets.RECORDED}"]
        if not dataset.members:
            lines.append(f"  from    {dataset.address(file) if file.source else 'a mirror only'}")
    return lines


def _download(chosen: Iterable[Any]) -> None:
    from crs_lib.data import fetch

    for dataset in chosen:
        place = fetch.fetch(dataset)
        known = len(fetch.check(dataset))
        how = f"{known} files with their checksum" if known else "no checksum is known of it"
        where = "in the mirror" if dataset.in_mirror() else "downloaded"
        print(f"{dataset.name}: {where}, {how}: {paths.shown(place)}")


def _verify(named: list[Any]) -> None:
    from crs_lib import data as datasets
    from crs_lib.data import fetch

    for dataset in named:
        datasets.locate(dataset.name)
    checks = [check for dataset in named or datasets.REGISTRY.values() for check in fetch.check(dataset)]
    report = fetch.summary(checks).to_string(index=False) if checks else ""
    print(report or "nothing to verify: no data set with a checksum is here")
    bad = [c for c in checks if c.status in (fetch.DIFFERS, fetch.MISSING)]
    if bad:
        listed = "; ".join(f"{c.file} {c.status} ({c.place})" for c in bad[:10])
        raise RunError(
            f"{len(bad)} of {len(checks)} files are not as they should be: {listed}. Downloads are mended by "
            "python -m crs_lib data get NAME; a mirror by whoever keeps it"
        )


@command(
    "data export",
    arg("--run", help="the catalogue that this run was made with"),
    arg("--catalog", metavar="FILE", help="sample, or a catalogue's file"),
    arg("--out", type=Path, required=True, metavar="FILE", help="the file to write"),
)
def export(arguments: Namespace) -> None:
    """Write a catalogue as JSON lines."""
    from crs_lib.catalog import sources

    if bool(arguments.run) == bool(arguments.catalog):
        raise InputError("name the catalogue: --run NAME for a run's, or --catalog sample (or a file)")
    source = arguments.catalog
    if arguments.run:
        source = paths.run_folder("movies", arguments.run) / "catalog.parquet"
        if not source.is_file():
            raise InputError(
                f"run {arguments.run!r} has no catalogue; make it with: python -m crs_lib run 03_simulate "
                f"-p run {arguments.run}"
            )
    films = sources.load(source)
    count = tables.write_jsonl(arguments.out, films.export())
    print(f"{count:,} films: {paths.shown(arguments.out)}")


@command(
    "data import",
    arg("path", nargs="?", help="a log file or a folder of them, of any known form; the same as --logs"),
    settings("crs_lib.simulate.logged:ImportConfig", "catalog", "system", "strict", logs=None, run=None),
    arg("--quirks", type=Path, metavar="FILE", help="without --run: write every quirk to this CSV file"),
    reads=("path", "logs"),
    writes=("quirks",),
)
def import_logs(arguments: Namespace) -> None:
    """Read logs of any known form: report their quirks, or turn them into a run with --run NAME."""
    from crs_lib.simulate import logged

    arguments.logs = arguments.logs or arguments.path
    if not arguments.logs:
        raise InputError("name a log file or a folder of them, of any known form")
    if arguments.run is None:
        _quirks(Path(arguments.logs), arguments.quirks)
        return
    config = read(arguments, logged.ImportConfig)
    tell(logged.import_logs(config), config)
    print(f"next: python -m crs_lib run 04_evaluate -p run {config.run}")


def _quirks(logs: Path, out: Path | None) -> None:
    """Print sessions by model and quirks by kind; every case goes into a file."""
    from crs_lib import data

    counts: dict[str, dict[str, Any]] = {}
    report = data.log_quirks(_counted(data.read(logs), counts))
    print(pd.DataFrame(list(counts.values())).to_string(index=False))
    if report.empty:
        print("\nno quirks")
    else:
        print(f"\n{data.log_quirk_counts(report).to_string(index=False)}")
    if out:
        tables.write_csv(out, report)
        print(f"\nevery case: {paths.shown(out)}")


def _counted(dialogues: Iterable[Dialogue], counts: dict[str, dict[str, Any]]) -> Iterator[Dialogue]:
    """The dialogues, one at a time; ``counts`` gets sessions, turns and shifts by model."""
    for dialogue in dialogues:
        name = dialogue.model_name
        mine = counts.setdefault(name, {"model": name, "sessions": 0, "turns": 0, "shifts": 0})
        mine["sessions"] += 1
        mine["turns"] += len(dialogue.pairs())
        mine["shifts"] += len(dialogue.shift_turns())
        yield dialogue


def tell(found: Any, config: Any) -> None:
    """Print an import: sessions by system, what was skipped and why, and how far the catalogue goes."""
    from crs_lib.simulate.logged import SKIPPED

    print(found.systems.to_string(index=False))
    if len(found.skipped):
        print(f"\n{len(found.skipped)} conversations could not be read and are left out; the first:")
        for row in found.skipped.head(3).itertuples():
            print(f"  {row.place}: {row.reason}")
        print(f"all of them: {paths.shown(found.folder / SKIPPED)}")
    for name in found.systems.loc[found.systems["turns"] == 0, "system"]:
        print(f"no usable session: {name}")
    if found.known.foreign:
        print(
            f"\nonly {100 * found.known.share:.0f} % of {found.known.of} ({found.known.n}) the catalogue "
            f"{config.catalog!r} {found.known.says}; scores of films say little: give the catalogue that the "
            "systems had (--catalog FILE)"
        )
    print(f"\nrun: {paths.shown(found.folder)}/")


_SCORES = ("turns.parquet", "shifts.parquet", "results.jsonl", "model_metrics.csv")


@command(
    "data score",
    arg("--logs", required=True, metavar="PATH", help="a log file or a folder of them, of any known form"),
    settings(
        "crs_lib.evaluate.choose:ScoringConfig", "catalog", "convention", "extractor", "similarity",
        "vocabulary", "topics", "topic_model", "llm", "llm_settings",
    ),
    arg("--workers", type=int, default=1, help="processes (the result does not depend on it)"),
    arg("--out", default="", metavar="FOLDER", help="where the tables go (default: results/movies/scores)"),
    reads=("logs", "catalog", "vocabulary", "topic_model"),
    writes=[f"out/{name}" for name in (*_SCORES, "llm_calls.jsonl")],
)  # fmt: skip
def score(arguments: Namespace) -> None:
    """Score logs of any known form."""
    from crs_lib.data import files
    from crs_lib.evaluate.choose import ScoringConfig

    out = paths.given(arguments.out) if arguments.out else paths.run_folder("movies", "scores")
    inputs = {"logs": tables.of_files(files(arguments.logs))}
    config = read(arguments, ScoringConfig, inputs=inputs)
    frame = score_logs(arguments.logs, config, out, workers=arguments.workers)
    wide = frame.pivot_table(index="model", columns="metric", values="mean", dropna=False)
    shown = [name for name in dict.fromkeys(frame["metric"]) if wide[name].notna().any()]
    print(wide[shown].round(4).T.to_string(na_rep="-"))
    print(f"\ntables: {paths.shown(out)}/  ({', '.join(_SCORES)})")
    if config.asks:
        _asked(out)


def _asked(out: Path) -> None:
    """What the model took, and which sessions have no scores for want of its answers."""
    from crs_lib import llm

    print(f"\n{llm.usage(out / 'llm_calls.jsonl').round(2).to_string(index=False)}")
    lost = [row for row in tables.read_jsonl(out / "results.jsonl") if row["detail"].get("failed")]
    if lost:
        print(
            f"\nsessions without scores: {len(lost)}; the first is {lost[0]['session_id']} of "
            f"{lost[0]['model']}: {lost[0]['detail']['failed']}. The same command asks again, for these only"
        )


def score_logs(log: str, config: Any, out: Path, *, workers: int = 1) -> pd.DataFrame:
    """Score a log into a folder; returns the table of model metrics.

    Where a model is asked, a preflight comes first and its calls are kept in the folder, so that the same
    command continues. Raises InputError for logs or settings that cannot be used, RunError for a model that
    is not there or cannot be asked. Files appear whole or not at all.
    """
    from crs_lib import data
    from crs_lib.evaluate import tables as score_tables
    from crs_lib.llm import calls
    from crs_lib.llm.preflight import preflight
    from crs_lib.thesis import asking

    if config.asks and config.llm:
        found = preflight([asking.need(config.llm, config.model_settings)])
        weights = {f"weights of {config.llm}": str(found["digest"].iloc[0])}
        config = config.changed(inputs={**config.inputs, **weights}, calls=str(out))
    ready = config.make()
    try:
        with tables.together():
            scored = score_tables.stream(data.read(log), ready.scorer, config, workers)
            sessions = score_tables.write(scored, lambda name: out / name, ready.provenance)
            frame = score_tables.model_metrics(sessions, ready.metrics, ready.provenance._asdict())
            tables.write_csv(out / "model_metrics.csv", frame)
    finally:
        if isinstance(ready.scorer, asking.AskedScorer):
            ready.scorer.close()
            calls.export_all(out)
    return frame
