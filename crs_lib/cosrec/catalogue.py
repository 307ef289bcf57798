"""Amazon-Reviews-2023 to one catalogue of products with their reviews, in bounded memory.

Every category becomes two tables of kept records; the range of keys is cut into parts, and each part is
joined by itself. The parts are in the order of the keys, so the output is their concatenation and does not
depend on their number, on the workers or on a restart.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.core.store import locked
from crs_lib.cosrec import catalogue_tables
from crs_lib.cosrec.catalogue_files import ENDINGS, OUTPUTS, check_packages, ending, write_output
from crs_lib.cosrec.catalogue_rules import Rules
from crs_lib.cosrec.catalogue_tables import KINDS, Job, KeyRange, Source, forget, marked
from crs_lib.runs import dask
from crs_lib.runs.processes import outcomes

_PART = 512 * 2**20  # bytes of input text for one part of the join
_MOST_PARTS = 5_000
_FORM = 2  # of the tables in a work folder; older ones are made anew
Facts = dict[str, dict[str, dict[str, Any]]]  # of each finished table: kind, category, what was found


@dataclass(frozen=True)
class Options:
    """Settings of a catalogue; only the first five decide which products and reviews it holds."""

    legacy: bool = False
    shortest: int = 10
    title_latin: float = 0.5
    text_latin: float = 0.8
    most_reviews: int = 0
    parts: int = 0
    workers: int = 1
    scheduler: str = ""
    keep_work: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for values outside their range."""
        if self.shortest < 0 or self.most_reviews < 0 or self.parts < 0 or self.workers < 1:
            raise InputError(
                f"shortest={self.shortest}, most_reviews={self.most_reviews}, parts={self.parts}, "
                f"workers={self.workers}: expected at least 0, 0, 0 and 1"
            )
        if not (0 <= self.title_latin <= 1 and 0 <= self.text_latin <= 1):
            raise InputError(f"shares must be in [0, 1]: {self.title_latin} and {self.text_latin}")

    @property
    def content(self) -> dict[str, Any]:
        """The settings that the result depends on."""
        return {name: asdict(self)[name] for name in ("legacy", *_CONTENT)}


_CONTENT = ("shortest", "title_latin", "text_latin", "most_reviews")


def sources(metas: Path, reviews: Path) -> tuple[list[Source], list[str]]:
    """Categories that have both files, by name, and those that lack one.

    ``meta_<category>.jsonl`` in one folder, ``<category>.jsonl`` in the other, packed (.gz, .zst) or not.
    Raises RunError where no category has both.
    """
    found = {"metas": _by_category(metas, "meta_"), "reviews": _by_category(reviews, "")}
    if metas.resolve() == reviews.resolve():
        found["reviews"] = {n: p for n, p in found["reviews"].items() if not n.startswith("meta_")}
    both = sorted(found["metas"].keys() & found["reviews"].keys())
    if not both:
        raise RunError(
            f"no category with meta_<category>.jsonl in {paths.shown(metas)} and <category>.jsonl in "
            f"{paths.shown(reviews)} ({', '.join(ENDINGS)})"
        )
    rest = sorted(found["metas"].keys() ^ found["reviews"].keys())
    return [Source(name, str(found["metas"][name]), str(found["reviews"][name])) for name in both], rest


def _by_category(folder: Path, prefix: str) -> dict[str, Path]:
    if not folder.is_dir():
        raise RunError(f"no folder {paths.shown(folder)}; name the one with the downloaded files")
    out: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(ending(path)).removeprefix(prefix)
        if not ending(path) or not path.name.startswith(prefix):
            continue
        if name in out:
            raise InputError(
                f"category {name!r} stands in {out[name].name} and {path.name}; keep one of them"
            )
        out[name] = path
    return out


def build(metas: Path, reviews: Path, out: Path, settings: Options) -> dict[str, Any]:
    """Make the catalogue ``out``; returns the manifest, which is also written to ``<out>.manifest.json``.

    Working files stand in ``<out>.work`` until the catalogue is finished; the same command continues there
    after a kill. Lines that cannot be read are in ``<out>.quarantine.jsonl``. Raises InputError where an
    output would replace an input, RunError for a damaged input (all other categories are finished and kept),
    and when the work folder belongs to other settings.
    """
    if not any(out.name.endswith(e) for e in OUTPUTS):
        raise InputError(f"{out.name!r}: the output must end in {', '.join(OUTPUTS)}")
    todo, ignored = sources(metas, reviews)
    _keep_apart(out, todo, (metas, reviews))
    check_packages()
    work, parts = _beside(out, "work"), settings.parts or _parts(todo)
    with locked(work, f"another process is making {work.stem}; wait for it or choose another output"):
        _check(work, settings, todo)
        rules = Rules(settings.legacy, settings.shortest, settings.title_latin, settings.text_latin)
        names = tuple(source.name for source in todo)
        job = Job(str(work), rules, settings.most_reviews, names, sorted_tables=parts > 1)
        try:
            facts = _read(job, todo, settings)
        finally:
            _collect(work, todo, out)
        ranges = _ranges(job, parts, facts)
        joined = _join(job, ranges, settings)
        write_output(out, [work / "joined" / keys.name for keys in ranges])
        manifest = _manifest(settings, todo, ignored, facts, joined)
        tables.write_json(_beside(out, "manifest.json"), manifest)
    if not settings.keep_work:
        shutil.rmtree(work)
    return manifest


def _beside(out: Path, ends: str) -> Path:
    return out.with_name(f"{out.name}.{ends}")


def _keep_apart(out: Path, todo: Sequence[Source], folders: Iterable[Path]) -> None:
    """InputError where an output would replace an input, or a file of an input folder not made here."""
    read = [Path(path) for source in todo for path in (source.metas, source.reviews)]
    paths.apart((out, _beside(out, "quarantine.jsonl")), read)
    made_here = _beside(out, "manifest.json").exists() or _beside(out, "work").exists()
    if out.exists() and not made_here:
        paths.apart((out,), (path for folder in folders for path in folder.iterdir() if ending(path)))


def _stamp(path: str) -> list[Any]:
    facts = Path(path).stat()
    return [Path(path).name, facts.st_size, facts.st_mtime_ns]


def _check(work: Path, settings: Options, todo: Sequence[Source]) -> None:
    """Continue only what was begun with these settings; forget categories whose files were replaced."""
    plan = work / "plan.json"
    before = json.loads(plan.read_text(encoding="utf-8")) if plan.exists() else {}
    if before and before["settings"] != settings.content:
        now = settings.content
        differ = [f"{k}: {v} there, {now[k]} now" for k, v in before["settings"].items() if v != now[k]]
        raise RunError(
            f"{paths.shown(work)} was begun with other settings ({'; '.join(differ)}); "
            "finish it with those, or remove it"
        )
    stamps = {s.name: {"metas": _stamp(s.metas), "reviews": _stamp(s.reviews)} for s in todo}
    old = before.get("inputs", {}) if before.get("form") == _FORM else {}
    for source in todo:
        was, now = old.get(source.name, {}), stamps[source.name]
        if was.get("metas") != now["metas"]:
            forget(work, source.name, KINDS)
        elif was.get("reviews") != now["reviews"]:
            forget(work, source.name, ("reviews",))
    if old != stamps or list(old) != list(stamps):
        shutil.rmtree(work / "joined", ignore_errors=True)
    tables.write_json(plan, {"form": _FORM, "settings": settings.content, "inputs": stamps})


def _read(job: Job, todo: Sequence[Source], settings: Options) -> Facts:
    """Make the tables that are not finished, one task a category; RunError, at the end, if any failed."""
    work = Path(job.work)
    size = {(s.name, kind): Path(getattr(s, kind)).stat().st_size for s in todo for kind in KINDS}
    missing = {s.name: [kind for kind in KINDS if marked(work / kind, s.name) is None] for s in todo}
    bytes_of = {name: sum(size[name, kind] for kind in kinds) for name, kinds in missing.items()}
    waiting, total = [s for s in todo if missing[s.name]], sum(size.values())
    with bar(total, done=total - sum(bytes_of.values()), label="read", unit="B") as shown:
        calls = [(partial(catalogue_tables.read_category, job, s), bytes_of[s.name]) for s in waiting]
        errors = _do_all(calls, settings, shown.update)
    if errors:
        raise RunError(f"{len(errors)} of {len(todo)} categories could not be read; the first: {errors[0]}")
    return {kind: {s.name: marked(work / kind, s.name) or {} for s in todo} for kind in KINDS}


def _ranges(job: Job, parts: int, facts: Facts) -> list[KeyRange]:
    """The ranges of keys that are joined one by one, kept for a restart."""
    path = Path(job.work) / "bounds.json"
    made_of = {kind: {name: found["sha256"] for name, found in facts[kind].items()} for kind in KINDS}
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if (kept.get("parts"), kept.get("inputs")) != (parts, made_of):
        shutil.rmtree(Path(job.work) / "joined", ignore_errors=True)
        kept = {"parts": parts, "inputs": made_of, "bounds": catalogue_tables.bounds(job, parts)}
        tables.write_json(path, kept)
    return catalogue_tables.key_ranges(kept["bounds"])


def _parts(todo: Sequence[Source]) -> int:
    """Parts for inputs of this size; packed text is about five times as long."""
    files = [path for source in todo for path in (source.metas, source.reviews)]
    size = sum(Path(path).stat().st_size * (1 if path.endswith(".jsonl") else 5) for path in files)
    return max(1, min(_MOST_PARTS, size // _PART))


def _join(job: Job, ranges: Sequence[KeyRange], settings: Options) -> Counter[str]:
    """Join the ranges that are not finished; returns the counts of all."""
    folder = Path(job.work) / "joined"
    waiting = [keys for keys in ranges if marked(folder, keys.name) is None]
    with bar(len(ranges), done=len(ranges) - len(waiting), label="join", unit="part") as shown:
        calls = [(partial(catalogue_tables.join, job, keys), 1) for keys in waiting]
        errors = _do_all(calls, settings, shown.update)
    if errors:
        raise RunError(f"{len(errors)} of {len(ranges)} parts could not be joined; the first: {errors[0]}")
    total: Counter[str] = Counter()
    for keys in ranges:
        total.update((marked(folder, keys.name) or {}).get("counts", {}))
    return total


Call = tuple["partial[Any]", int]  # a task, and the progress that it adds


def _do_all(calls: Sequence[Call], settings: Options, seen: Callable[[int], object]) -> list[str]:
    """Do every task here, in local processes or on a Dask cluster; returns the errors, in the tasks' order.

    A failing task does not stop the others. Workers of a cluster must see the same folders.
    """
    errors: dict[int, str] = {}
    for number, wait in _begun(calls, settings, seen):
        try:
            wait()
        except Exception as error:
            ours = isinstance(error, ValueError | RuntimeError)
            errors[number] = str(error) if ours else f"{type(error).__name__}: {error}"
    return [errors[number] for number in sorted(errors)]


def _begun(
    calls: Sequence[Call], settings: Options, seen: Callable[[int], object]
) -> Iterator[tuple[int, Callable[[], object]]]:
    """Each task's number with a function that waits for its end and raises its error."""
    if settings.scheduler:
        with dask.connected(settings.scheduler, settings.workers) as client:
            from distributed import as_completed

            sent = {client.submit(call, pure=False): n for n, (call, _) in enumerate(calls)}
            for future in as_completed(list(sent), loop=client.loop):
                yield sent[future], future.result
                seen(calls[sent[future]][1])
    elif settings.workers == 1 or len(calls) < 2:
        for number, (call, _) in enumerate(calls):
            yield number, partial(call, progress=seen)
    else:
        tasks = (call for call, _ in calls)
        for outcome in outcomes(_call, tasks, min(settings.workers, len(calls))):
            yield outcome.number, outcome.result
            seen(calls[outcome.number][1])


def _call(task: "partial[Any]") -> None:
    task()


def _collect(work: Path, todo: Sequence[Source], out: Path) -> None:
    """All quarantined lines so far in one file beside the output."""
    files = [(s.name, work / kind / f"{s.name}.quarantine.jsonl") for s in todo for kind in KINDS]
    found = (
        {"category": name, **entry}
        for name, path in files
        if path.exists()
        for entry in tables.read_jsonl(path)
    )
    tables.write_jsonl(_beside(out, "quarantine.jsonl"), found)


def _manifest(
    settings: Options, todo: Sequence[Source], ignored: list[str], facts: Facts, joined: Counter[str]
) -> dict[str, Any]:
    inputs = {
        Path(path).name: {"bytes": Path(path).stat().st_size, "sha256": facts[kind][source.name]["sha256"]}
        for source in todo
        for path, kind in ((source.metas, "metas"), (source.reviews, "reviews"))
    }
    counts = {
        part: {source.name: facts[kind][source.name]["counts"] for source in todo}
        for part, kind in (("products", "metas"), ("reviews", "reviews"))
    }
    totals = {
        part: dict(sorted(sum(map(Counter, by_category.values()), Counter[str]()).items()))
        for part, by_category in counts.items()
    }
    return {
        "settings": settings.content,
        "inputs": inputs,
        "without a partner": ignored,
        "totals": totals | {"joined": dict(sorted(joined.items()))},
        "categories": {s.name: {part: counts[part][s.name] for part in counts} for s in todo},
        "products written": joined["products"],
    }
