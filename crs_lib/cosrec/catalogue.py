"""Amazon-Reviews-2023 to one catalogue of products with their reviews, in bounded memory.

Every category becomes two tables of kept records; the range of keys is cut into parts, and each part is
joined by itself. The parts are in the order of the keys, so the output is their concatenation and does not
depend on their number, on the workers or on a restart.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.core.store import locked
from crs_lib.cosrec.catalogue_rules import Options
from crs_lib.cosrec.catalogue_tables import (
    KINDS,
    Job,
    Part,
    Source,
    finished,
    join,
    parts_of,
    read_category,
    write_output,
)
from crs_lib.runs import processes

_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_PART = 512 * 2**20  # bytes of input text for one part of the join
_MOST_PARTS = 5_000
# The options that decide the result.
_CONTENT = {"legacy", "shortest", "letters", "title_latin", "text_latin", "most_reviews"}
_Facts = dict[str, dict[str, Any]]  # of finished tables, by kind and category


def _sources(metas: Path, reviews: Path) -> tuple[tuple[Source, ...], list[str]]:
    """Categories that have both files, by name, and those that lack one. ``meta_<category>.jsonl`` in one
    folder, ``<category>.jsonl`` in the other, packed (.gz, .zst) or not. Raises RunError where no category
    has both.
    """
    described, reviewed = _by_category(metas, "meta_"), _by_category(reviews, "")
    if metas.resolve() == reviews.resolve():
        reviewed = {name: path for name, path in reviewed.items() if not name.startswith("meta_")}
    if not (both := sorted(described.keys() & reviewed.keys())):
        where = f"{paths.shown(metas)} and {paths.shown(reviews)}"
        raise RunError(f"no category with meta_<category>.jsonl and <category>.jsonl (.gz, .zst) in {where}")
    found = (Source(name, str(described[name]), str(reviewed[name])) for name in both)
    return tuple(found), sorted(described.keys() ^ reviewed.keys())


def _by_category(folder: Path, prefix: str) -> dict[str, Path]:
    if not folder.is_dir():
        raise RunError(f"no folder {paths.shown(folder)}; name the one with the downloaded files")
    out: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, dot, ends = path.name.partition(".jsonl")
        name = stem.removeprefix(prefix)
        if dot + ends not in _ENDINGS or not path.name.startswith(prefix):
            continue
        if name in out:
            raise InputError(f"category {name!r} stands in {out[name].name} and {path.name}; keep one")
        out[name] = path
    return out


def build(metas: Path, reviews: Path, out: Path, options: Options) -> dict[str, Any]:
    """Make the catalogue ``out``; returns the manifest, which is also written to ``<out>.manifest.json``.
    Working files stand in ``<out>.work`` until the catalogue is finished; the same command continues there
    after a kill. Lines that cannot be read are in ``<out>.quarantine.jsonl``. Raises InputError where an
    output would replace an input, RunError for a damaged input (all other categories are finished and kept),
    and when the work folder belongs to other settings.
    """
    if not out.name.endswith(_ENDINGS):
        raise InputError(f"{out.name!r}: the output must end in {' or '.join(_ENDINGS)}")
    todo, ignored = _sources(metas, reviews)
    _keep_apart(out, todo, (metas, reviews))
    if lacking := [name for name in ("duckdb", "msgspec", "zstandard") if not find_spec(name)]:
        raise InputError(f'the catalogue needs {", ".join(lacking)}: pip install "crs-lib[data]"')
    work = _beside(out, "work")
    with locked(work, f"another process is making {work.stem}; wait for it or choose another output"):
        _check_settings(work, options)
        number = options.parts or _parts(todo)
        job = Job(work, options, todo, sorted_tables=number > 1)
        try:
            _read(job)
        finally:
            files = (work / kind / f"{s.name}.quarantine.jsonl" for s in todo for kind in KINDS)
            found = ((path, entry) for path in files if path.exists() for entry in tables.read_jsonl(path))
            lines = ({"category": path.name.removesuffix(".quarantine.jsonl"), **one} for path, one in found)
            tables.write_jsonl(_beside(out, "quarantine.jsonl"), lines)
        facts = {kind: {source.name: job.facts(kind, source) or {} for source in todo} for kind in KINDS}
        parts = parts_of(job, number, tables.fingerprint(facts))
        joined = _join(job, parts)
        write_output(out, [work / "joined" / part.name for part in parts])
        manifest = _manifest(job, ignored, facts, joined)
        tables.write_json(_beside(out, "manifest.json"), manifest)
    if not options.keep_work:
        shutil.rmtree(work)
    return manifest


def _beside(out: Path, ends: str) -> Path:
    return out.with_name(f"{out.name}.{ends}")


def _keep_apart(out: Path, todo: Sequence[Source], folders: Iterable[Path]) -> None:
    """InputError where an output would replace an input, or a file of an input folder not made here."""
    paths.apart((out, _beside(out, "quarantine.jsonl")), _files(todo))
    made_here = _beside(out, "manifest.json").exists() or _beside(out, "work").exists()
    if out.exists() and not made_here:
        files = chain.from_iterable(folder.iterdir() for folder in folders)
        paths.apart((out,), (path for path in files if path.name.endswith(_ENDINGS)))


def _files(todo: Sequence[Source]) -> list[Path]:
    return [Path(path) for source in todo for path in (source.metas, source.reviews)]


def _check_settings(work: Path, options: Options) -> None:
    """Continue only what was begun with these settings; RunError for others."""
    plan, now = work / "plan.json", options.model_dump(include=_CONTENT)
    before = json.loads(plan.read_text(encoding="utf-8"))["settings"] if plan.exists() else now
    if differ := [f"{k}: {v} there, {now[k]} now" for k, v in before.items() if v != now[k]]:
        raise RunError(f"{paths.shown(work)} has other settings ({'; '.join(differ)}); use them or remove it")
    tables.write_json(plan, {"settings": now})


def _parts(todo: Sequence[Source]) -> int:
    """Parts for inputs of this size; packed text is about five times as long."""
    size = sum(path.stat().st_size * (1 if path.suffix == ".jsonl" else 5) for path in _files(todo))
    return max(1, min(_MOST_PARTS, size // _PART))


def _read(job: Job) -> None:
    """Make the tables that are not finished, one task a category; RunError, at the end, if any failed."""
    size = {
        s: {kind: Path(getattr(s, kind)).stat().st_size for kind in KINDS if job.facts(kind, s) is None}
        for s in job.sources
    }
    waiting = {source: sum(missing.values()) for source, missing in size.items() if missing}
    total = sum(path.stat().st_size for path in _files(job.sources))
    with bar(total, done=total - sum(waiting.values()), label="read", unit="B") as shown:
        failed = "categories could not be read"
        _do_all(partial(read_category, job), waiting, job.options, shown.update, failed)


def _join(job: Job, parts: Sequence[Part]) -> Counter[str]:
    """Join the parts that are not finished; returns the counts of all."""
    folder, total = job.work / "joined", Counter[str]()
    waiting = {part: 1 for part in parts if finished(folder, part.name, part.of) is None}
    with bar(len(parts), done=len(parts) - len(waiting), label="join", unit="part") as shown:
        _do_all(partial(join, job), waiting, job.options, shown.update, "parts could not be joined")
    for part in parts:
        total.update((finished(folder, part.name, part.of) or {})["counts"])
    return total


def _do_all(
    do: "partial[None]", tasks: dict[Any, int], options: Options, seen: Callable[[int], object], failed: str
) -> None:
    """Do every task, which adds so much to the progress; RunError naming the first that failed, at the end. A
    failing task does not stop the others. They are done here or in local processes.
    """
    errors, every, sizes = dict[int, str](), list(tasks), list(tasks.values())

    def attempt(number: int, wait: Callable[[], object], size: int) -> None:
        try:
            wait()
        except Exception as error:
            ours = isinstance(error, ValueError | RuntimeError)
            errors[number] = str(error) if ours else f"{type(error).__name__}: {error}"
        seen(size)

    if options.workers > 1 and len(tasks) > 1:
        with processes.submitter(do, None, min(options.workers, len(tasks))) as (submit, width):
            for number, future in processes.completed(lambda n: submit(every[n]), range(len(every)), width):
                attempt(number, future.result, sizes[number])
    else:
        for number, task in enumerate(tasks):
            attempt(number, partial(do, task, seen), 0)
    if errors:
        raise RunError(f"{len(errors)} of {len(tasks)} {failed}; the first: {errors[min(errors)]}")


def _manifest(job: Job, ignored: list[str], facts: _Facts, joined: Counter[str]) -> dict[str, Any]:
    inputs = {
        path.name: {"bytes": path.stat().st_size, "sha256": facts[kind][source.name]["sha256"]}
        for source in job.sources
        for kind, path in zip(KINDS, _files([source]), strict=True)
    }
    counts = {
        part: {name: found["counts"] for name, found in facts[kind].items()}
        for part, kind in (("products", "metas"), ("reviews", "reviews"))
    }
    totals = {part: sum(map(Counter, found.values()), Counter[str]()) for part, found in counts.items()}
    by_category = {s.name: {part: counts[part][s.name] for part in counts} for s in job.sources}
    return {
        "settings": job.options.model_dump(include=_CONTENT), "inputs": inputs, "without a partner": ignored,
        "totals": {n: dict(sorted(c.items())) for n, c in (totals | {"joined": joined}).items()},
        "categories": by_category, "products written": joined["products"],
    }  # fmt: skip
