"""Amazon-Reviews-2023 to one catalogue of products with their reviews, in bounded memory.

Three rounds: read the metas of every category; cut the range of product ids into parts of about equal
size and spread the reviews over them; join part after part. The parts are in the order of the ids, so the
output is their concatenation and does not depend on their number, on the workers or on a restart.
"""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.cosrec import catalogue_join, catalogue_tasks
from crs_lib.cosrec.catalogue_files import ENDINGS, ending, writer
from crs_lib.cosrec.catalogue_rules import Rules
from crs_lib.cosrec.catalogue_tasks import Job, Source, marked
from crs_lib.cosrec.catalogue_work import run_all

_PART = 24 * 2**20  # about what one part of the join holds, in bytes of text
_MOST_PARTS = 5_000
OUTPUTS = (*ENDINGS, ".parquet")


@dataclass(frozen=True)
class Settings:
    """What to do; only the first five decide what the catalogue holds."""

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
    pairs = [(name, str(found["metas"][name]), str(found["reviews"][name])) for name in both]
    return [Source(i, *pair) for i, pair in enumerate(pairs)], rest


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


def build(metas: Path, reviews: Path, out: Path, settings: Settings) -> dict[str, Any]:
    """Make the catalogue ``out``; returns the manifest, which is also written to ``<out>.manifest.json``.

    Working files stand in ``<out>.work`` until it is finished; the same command continues there after a
    kill. Lines that cannot be read are in ``<out>.quarantine.jsonl``. Raises RunError for a damaged input
    (all other categories are finished and kept), and when the work folder belongs to other settings.
    """
    if not any(out.name.endswith(e) for e in OUTPUTS):
        raise InputError(f"{out.name!r}: the output must end in {', '.join(OUTPUTS)}")
    todo, ignored = sources(metas, reviews)
    work = out.with_name(out.name + ".work")
    with _held(work):
        _check(work, settings, todo)
        rules = Rules(settings.legacy, settings.shortest, settings.title_latin, settings.text_latin)
        job = Job(str(work), rules, settings.most_reviews)
        try:
            first = _round(job, todo, "metas", settings)
            job = job._replace(bounds=_bounds(work, todo, first, settings))
            second = _round(job, todo, "reviews", settings)
        finally:
            _collect(work, todo, out)
        third = _join(job, settings)
        rows = _write(work, out, len(job.bounds) + 1, third["products"])
        manifest = _manifest(settings, todo, ignored, first, second, third, rows)
        tables.write_json(out.with_name(out.name + ".manifest.json"), manifest)
    if not settings.keep_work:
        shutil.rmtree(work)
    return manifest


@contextmanager
def _held(work: Path) -> Iterator[None]:
    """The work folder for this process alone; the lock goes with the process."""
    work.mkdir(parents=True, exist_ok=True)
    lock = sqlite3.connect(work / ".lock", timeout=0, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
    except sqlite3.OperationalError as error:
        raise RunError(
            f"another process is making {work.stem}; wait for it or choose another output"
        ) from error
    finally:
        lock.close()


def _stamp(path: str) -> list[Any]:
    facts = Path(path).stat()
    return [Path(path).name, facts.st_size, facts.st_mtime_ns]


def _check(work: Path, settings: Settings, todo: Sequence[Source]) -> None:
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
    old = before.get("inputs", {})
    changed = [s for s in todo if s.name in old and old[s.name] != stamps[s.name]]
    for source in changed:
        whole = old[source.name]["metas"] != stamps[source.name]["metas"]
        catalogue_tasks.forget(work, source, ("metas", "reviews") if whole else ("reviews",))
    if before and (changed or list(old) != list(stamps)):
        shutil.rmtree(work / "joined", ignore_errors=True)
    tables.write_json(plan, {"settings": settings.content, "inputs": stamps})


def _round(job: Job, todo: Sequence[Source], part: str, settings: Settings) -> dict[str, dict[str, Any]]:
    """One task a category, those that are not done yet; afterwards RunError if any failed."""
    task: Callable[..., Any] = catalogue_tasks.read_metas if part == "metas" else catalogue_tasks.spread
    places = {source.name: Path(job.work) / part / source.name for source in todo}
    waiting = [source for source in todo if marked(places[source.name]) is None]
    sizes = {s.name: Path(s.metas if part == "metas" else s.reviews).stat().st_size for s in todo}
    done = sum(sizes.values()) - sum(sizes[s.name] for s in waiting)
    with bar(sum(sizes.values()), done=done, label=part, unit="B") as shown:
        calls = [(partial(task, job, source), sizes[source.name]) for source in waiting]
        errors = run_all(calls, settings.workers, settings.scheduler, shown.update)
    if errors:
        raise RunError(f"{len(errors)} of {len(todo)} categories could not be read; the first: {errors[0]}")
    return {name: marked(place) or {} for name, place in places.items()}


def _bounds(
    work: Path, todo: Sequence[Source], first: dict[str, dict[str, Any]], settings: Settings
) -> tuple[str, ...]:
    """Ids that cut the products into parts of about equal numbers of ratings; kept for a restart."""
    path = work / "bounds.json"
    wanted = settings.parts or _parts(todo)
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["parts"] == wanted and found["metas"] == {n: f["sha256"] for n, f in first.items()}:
            return tuple(found["bounds"])
        for source in todo:
            catalogue_tasks.forget(work, source, ("reviews",))
        shutil.rmtree(work / "joined", ignore_errors=True)
    sample = sorted((name, weight) for facts in first.values() for _, name, weight in facts["sample"])
    total, passed = sum(weight for _, weight in sample), 0
    bounds: list[str] = []
    for name, weight in sample:
        if passed * wanted >= total * (len(bounds) + 1) and (not bounds or name > bounds[-1]):
            bounds.append(name)
        passed += weight
    facts = {"parts": wanted, "bounds": bounds, "metas": {n: f["sha256"] for n, f in first.items()}}
    tables.write_json(path, facts)
    return tuple(bounds)


def _parts(todo: Sequence[Source]) -> int:
    """Parts for inputs of this size; packed text is about five times as long."""
    files = [path for source in todo for path in (source.metas, source.reviews)]
    size = sum(Path(path).stat().st_size * (1 if path.endswith(".jsonl") else 5) for path in files)
    return max(1, min(_MOST_PARTS, size // _PART))


def _join(job: Job, settings: Settings) -> Counter[str]:
    folder, parts = Path(job.work) / "joined", len(job.bounds) + 1
    waiting = [n for n in range(parts) if marked(folder / f"{n:05d}") is None]
    with bar(parts, done=parts - len(waiting), label="join", unit="part") as shown:
        calls = [(partial(catalogue_join.join, job, n), 1) for n in waiting]
        errors = run_all(calls, settings.workers, settings.scheduler, shown.update)
    if errors:
        raise RunError(f"{len(errors)} of {parts} parts could not be joined; the first: {errors[0]}")
    total: Counter[str] = Counter()
    for number in range(parts):
        total.update((marked(folder / f"{number:05d}") or {}).get("counts", {}))
    return total


def _write(work: Path, out: Path, parts: int, products: int) -> int:
    """Concatenate the parts into the output; returns the number of products."""
    files = [work / "joined" / f"{number:05d}" for number in range(parts)]
    if out.name.endswith(".parquet"):
        from crs_lib.cosrec.catalogue_parquet import write_products

        return write_products(out, files)
    with writer(out) as write:
        for path in files:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    write(block)
    return products


def _collect(work: Path, todo: Sequence[Source], out: Path) -> None:
    """All quarantined lines so far in one file beside the output."""
    found = []
    for source in todo:
        for part in ("metas", "reviews"):
            path = work / part / f"{source.name}.quarantine.jsonl"
            found += (
                [{"category": source.name, **e} for e in tables.read_jsonl(path)] if path.exists() else []
            )
    tables.write_jsonl(out.with_name(out.name + ".quarantine.jsonl"), found)


def _manifest(
    settings: Settings,
    todo: Sequence[Source],
    ignored: list[str],
    first: dict[str, dict[str, Any]],
    second: dict[str, dict[str, Any]],
    third: Counter[str],
    rows: int,
) -> dict[str, Any]:
    inputs = {
        Path(path).name: {"bytes": Path(path).stat().st_size, "sha256": facts[source.name]["sha256"]}
        for source in todo
        for path, facts in ((source.metas, first), (source.reviews, second))
    }
    totals = {}
    for part, found in (("products", first), ("reviews", second)):
        sums: Counter[str] = Counter()
        for facts in found.values():
            sums.update(facts["counts"])
        totals[part] = dict(sorted(sums.items()))
    by_category = {
        s.name: {"products": first[s.name]["counts"], "reviews": second[s.name]["counts"]} for s in todo
    }
    return {
        "settings": settings.content,
        "inputs": inputs,
        "without a partner": ignored,
        "totals": totals | {"joined": dict(sorted(third.items()))},
        "categories": by_category,
        "products written": rows,
    }
