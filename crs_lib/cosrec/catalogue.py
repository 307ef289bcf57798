"""Amazon-Reviews-2023 to one catalogue of products with their reviews, in bounded memory.

Every category becomes two tables of kept records; the range of keys is cut into parts, and each part is
joined by itself. The parts are in the order of the keys, so the output is their concatenation and does not
depend on their number, on the workers or on a restart.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.core.store import locked
from crs_lib.cosrec.catalogue_rules import Options
from crs_lib.cosrec.catalogue_tables import (
    KINDS,
    LOST,
    Job,
    Part,
    Progress,
    Source,
    finished,
    join,
    parts_of,
    read_category,
    write_output,
)
from crs_lib.runs import processes

_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_PACKAGES = ("duckdb", "msgspec", "zstandard")
_PART = 512 * 2**20  # bytes of input text for one part of the join
_MOST_PARTS = 5_000
_PACKED = 5  # bytes of text in a byte of a packed file, about
# The options that decide the result.
_CONTENT = {"legacy", "shortest", "letters", "title_latin", "text_latin", "most_reviews"}


def find_sources(metas: Path, reviews: Path) -> tuple[tuple[Source, ...], list[str]]:
    """Categories that have both files, by name, and those that lack one. ``meta_<category>.jsonl`` in one
    folder, ``<category>.jsonl`` in the other, packed (.gz, .zst) or not. Raises RunError where no category
    has both.
    """
    described = _by_category(metas, "meta_")
    reviewed = _by_category(reviews, "")
    if metas.resolve() == reviews.resolve():
        reviewed = {name: path for name, path in reviewed.items() if not name.startswith("meta_")}
    both = sorted(described.keys() & reviewed.keys())
    if not both:
        where = f"{paths.shown(metas)} and {paths.shown(reviews)}"
        raise RunError(f"no category with meta_<category>.jsonl and <category>.jsonl (.gz, .zst) in {where}")
    sources = tuple(Source(name, str(described[name]), str(reviewed[name])) for name in both)
    return sources, sorted(described.keys() ^ reviewed.keys())


def _by_category(folder: Path, prefix: str) -> dict[str, Path]:
    if not folder.is_dir():
        raise RunError(f"no folder {paths.shown(folder)}; name the one with the downloaded files")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, dot, ends = path.name.partition(".jsonl")
        if dot + ends not in _ENDINGS or not path.name.startswith(prefix):
            continue
        name = stem.removeprefix(prefix)
        if name in files:
            raise InputError(f"category {name!r} stands in {files[name].name} and {path.name}; keep one")
        files[name] = path
    return files


def build(metas: Path | str, reviews: Path | str, out: Path | str, options: Options) -> dict[str, Any]:
    """Make the catalogue ``out``; returns the manifest, which is also written to ``<out>.manifest.json``.
    Working files stand in ``<out>.work`` until the catalogue is finished; the same command continues there
    after a kill. Lines that cannot be read are in ``<out>.quarantine.jsonl``. Raises InputError where an
    output would replace an input and where no product is kept, RunError for a damaged input (all other
    categories are finished and kept),
    and when the work folder belongs to other settings.
    """
    metas = Path(metas)
    reviews = Path(reviews)
    out = Path(out)
    if not out.name.endswith(_ENDINGS):
        raise InputError(f"{out.name!r}: the output must end in {' or '.join(_ENDINGS)}")
    sources, ignored = find_sources(metas, reviews)
    _keep_apart(out, sources, (metas, reviews))
    lacking = [name for name in _PACKAGES if not find_spec(name)]
    if lacking:
        raise InputError(f'the catalogue needs {", ".join(lacking)}: pip install "crs-lib[data]"')
    work = _beside(out, "work")
    with locked(work, f"another process is making {work.stem}; wait for it or choose another output"):
        _check_settings(work, options)
        number = options.parts or _parts(sources)
        job = Job(work, options, sources, sorted_tables=number > 1)
        try:
            _read(job)
        finally:
            tables.write_jsonl(_beside(out, "quarantine.jsonl"), _quarantined(job))
        facts = {kind: _facts(job, kind) for kind in KINDS}
        _check_kept(work, facts["metas"])
        parts = parts_of(job, number, tables.fingerprint(facts))
        counts = _join(job, parts)
        write_output(out, [work / "joined" / part.name for part in parts])
        manifest = _manifest(job, ignored, facts, counts)
        tables.write_json(_beside(out, "manifest.json"), manifest)
    if not options.keep_work:
        shutil.rmtree(work)
    return manifest


def _check_kept(work: Path, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """InputError where no product of any category was kept, with the reasons, the most frequent first."""
    counts: Counter[str] = Counter()
    for category in facts.values():
        counts.update(category["counts"])
    if counts["kept"]:
        return
    shutil.rmtree(work)
    reasons = []
    for name, products in counts.most_common():
        if name not in ("read", "kept", LOST):
            reasons.append(f"{products:,} {name.removeprefix('dropped: ')}")
    why = ", ".join(reasons) or "the files are empty"
    raise InputError(f"none of {counts['read']:,} products was kept ({why}); what each means: docs/cosrec.md")


def _beside(out: Path, ends: str) -> Path:
    return out.with_name(f"{out.name}.{ends}")


def _keep_apart(out: Path, sources: Sequence[Source], folders: Iterable[Path]) -> None:
    """InputError where an output would replace an input, or a file of an input folder not made here."""
    paths.apart((out, _beside(out, "quarantine.jsonl")), _files(sources))
    made_here = _beside(out, "manifest.json").exists() or _beside(out, "work").exists()
    if out.exists() and not made_here:
        for folder in folders:
            paths.apart((out,), [path for path in folder.iterdir() if path.name.endswith(_ENDINGS)])


def _files(sources: Iterable[Source]) -> list[Path]:
    files = []
    for source in sources:
        files += [Path(source.metas), Path(source.reviews)]
    return files


def _check_settings(work: Path, options: Options) -> None:
    """Continue only what was begun with these settings; RunError for others."""
    path = work / "plan.json"
    settings = options.model_dump(include=_CONTENT)
    if path.exists():
        begun = json.loads(path.read_text(encoding="utf-8"))["settings"]
        differ = []
        for key, value in begun.items():
            if value != settings[key]:
                differ.append(f"{key}: {value} there, {settings[key]} now")
        if differ:
            other = "; ".join(differ)
            raise RunError(f"{paths.shown(work)} has other settings ({other}); use them or remove it")
    tables.write_json(path, {"settings": settings})


def _parts(sources: Sequence[Source]) -> int:
    """Parts for inputs of this size."""
    size = 0
    for path in _files(sources):
        packed = 1 if path.suffix == ".jsonl" else _PACKED
        size += path.stat().st_size * packed
    return max(1, min(_MOST_PARTS, size // _PART))


def _quarantined(job: Job) -> Iterator[dict[str, Any]]:
    """The lines of all categories that could not be read."""
    for source in job.sources:
        for kind in KINDS:
            path = job.work / kind / f"{source.name}.quarantine.jsonl"
            if path.exists():
                for line in tables.read_jsonl(path):
                    yield {"category": source.name, **line}


def _facts(job: Job, kind: str) -> dict[str, dict[str, Any]]:
    """The facts of the tables of a kind, by category."""
    return {source.name: job.facts(kind, source) or {} for source in job.sources}


@dataclass
class _Tasks:
    """Tasks of one kind, the size of each, and how many bytes or parts were finished before."""

    do: "partial[None]"
    total: int
    failed: str
    sizes: dict[Any, int] = field(default_factory=dict)

    def run(self, options: Options, label: str, unit: str) -> None:
        """Do every task, here or in local processes; RunError naming the first that failed, at the end. A
        failing task does not stop the others.
        """
        done = self.total - sum(self.sizes.values())
        with bar(self.total, done=done, label=label, unit=unit) as shown:
            if options.workers > 1 and len(self.sizes) > 1:
                errors = self._in_processes(options.workers, shown.update)
            else:
                errors = self._here(shown.update)
        if errors:
            first = errors[min(errors)]
            raise RunError(f"{len(errors)} of {len(self.sizes)} {self.failed}; the first: {first}")

    def _here(self, progress: Progress) -> dict[int, str]:
        errors = {}
        for number, task in enumerate(self.sizes):
            error = _error_of(partial(self.do, task, progress))
            if error:
                errors[number] = error
        return errors

    def _in_processes(self, workers: int, progress: Progress) -> dict[int, str]:
        errors = {}
        tasks = list(self.sizes)
        with processes.submitter(self.do, None, min(workers, len(tasks))) as (submit, width):
            submitted = processes.completed(lambda number: submit(tasks[number]), range(len(tasks)), width)
            for number, future in submitted:
                error = _error_of(future.result)
                if error:
                    errors[number] = error
                progress(self.sizes[tasks[number]])
        return errors


def _error_of(wait: Callable[[], object]) -> str:
    """The error of a task in words; empty for none."""
    try:
        wait()
    except (ValueError, RuntimeError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _read(job: Job) -> None:
    """Make the tables that are not finished, one task a category; RunError, at the end, if any failed."""
    total = sum(path.stat().st_size for path in _files(job.sources))
    tasks = _Tasks(partial(read_category, job), total, "categories could not be read")
    for source in job.sources:
        missing = [kind for kind in KINDS if job.facts(kind, source) is None]
        if missing:
            tasks.sizes[source] = sum(source.file(kind).stat().st_size for kind in missing)
    tasks.run(job.options, "read", "B")


def _join(job: Job, parts: Sequence[Part]) -> Counter[str]:
    """Join the parts that are not finished; returns the counts of all."""
    folder = job.work / "joined"
    tasks = _Tasks(partial(join, job), len(parts), "parts could not be joined")
    for part in parts:
        if finished(folder, part.name, part.of) is None:
            tasks.sizes[part] = 1
    tasks.run(job.options, "join", "part")
    counts: Counter[str] = Counter()
    for part in parts:
        facts = finished(folder, part.name, part.of) or {}
        counts.update(facts["counts"])
    return counts


def _manifest(
    job: Job, ignored: list[str], facts: Mapping[str, Mapping[str, Any]], joined: Counter[str]
) -> dict[str, Any]:
    inputs = {}
    categories: dict[str, dict[str, Any]] = {}
    totals = {"products": Counter[str](), "reviews": Counter[str](), "joined": joined}
    for source in job.sources:
        counts = categories.setdefault(source.name, {})
        for part, kind in (("products", "metas"), ("reviews", "reviews")):
            path = source.file(kind)
            table = facts[kind][source.name]
            inputs[path.name] = {"bytes": path.stat().st_size, "sha256": table["sha256"]}
            counts[part] = table["counts"]
            totals[part].update(table["counts"])
    return {
        "settings": job.options.model_dump(include=_CONTENT),
        "inputs": inputs,
        "without a partner": ignored,
        "totals": {name: dict(sorted(counts.items())) for name, counts in totals.items()},
        "categories": categories,
        "products written": joined["products"],
    }
