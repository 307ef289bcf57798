"""Cleaning with a report: every label merged or dropped is counted, nothing is edited in silence."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import pandas as pd

from crs_lib.catalog.fields import ALL_FIELDS, CREDIT_FIELDS, FIELDS, YEAR_FIELD, Field
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, shorten


@dataclass(slots=True)
class Item:
    """A film after cleaning: one value list per field, display spelling, file order, no doublets."""

    item_id: str
    title: str
    values: dict[str, tuple[str, ...]]
    plot: str = ""

    @property
    def year(self) -> int | None:
        """Year of release, or None where the catalogue has none."""
        years = self.values.get(YEAR_FIELD, ())
        return int(years[0]) if years else None


@dataclass
class CleaningReport:
    """The record of a cleaning: counts per field before and after, every change, every merged film."""

    changes: Counter[tuple[str, str, str, str, str]] = field(default_factory=Counter)
    before: dict[str, Counter[str]] = field(default_factory=dict)
    after: dict[str, Counter[str]] = field(default_factory=dict)
    films_read: int = 0
    films_kept: int = 0
    merged_films: list[tuple[str, str]] = field(default_factory=list)
    low_information: int = 0
    ignored_keys: Counter[str] = field(default_factory=Counter)

    def summary(self) -> pd.DataFrame:
        """One row a field: values and distinct values before and after, merged, dropped, doublets."""
        rows = []
        for name in self.before or FIELDS:
            actions = Counter[str]()
            for (where, action, *_), n in self.changes.items():
                actions[action] += n * (where == name)
            before, after = self.before.get(name, Counter()), self.after.get(name, Counter())
            done = (actions[action] for action in ("merged", "dropped", "doublet"))
            rows.append((name, before.total(), len(before), *done, after.total(), len(after)))
        columns = ["field", "values before", "distinct before", "merged", "dropped", "doublets"]
        return pd.DataFrame(rows, columns=[*columns, "values after", "distinct after"])

    def table(self, field_name: str | None = None, action: str | None = None) -> pd.DataFrame:
        """Every change, most frequent first: field, action, from, to, reason, number of films."""
        rows = [
            (*change, films)
            for change, films in self.changes.items()
            if field_name in (None, change[0]) and action in (None, change[1])
        ]
        frame = pd.DataFrame(rows, columns=["field", "action", "from", "to", "reason", "films"])
        order, up = ["films", "field", "action", "from"], [False, True, True, True]
        return frame.sort_values(order, ascending=up, ignore_index=True)

    def __str__(self) -> str:
        bare = 0 < self.low_information == self.films_kept
        return (
            f"{self.films_read:,} films read, {self.films_kept:,} kept, {len(self.merged_films)} merged; "
            f"{self.low_information} without {' and '.join(CREDIT_FIELDS)} "
            f"({'as all are, so all may be' if bare else 'never'} recommended)"
            + (f"; not used: {', '.join(self.ignored_keys)}" if self.ignored_keys else "")
        )


_folded = lru_cache(65_536)(fold)
_IDS = ("item_id", "original_id")
_OTHER_KEYS = frozenset({"name", "title", "plot", "plot_keywords", *_IDS})


def clean(
    records: Iterable[tuple[str, Mapping[str, Any]]], rows: Mapping[str, Field] = FIELDS
) -> tuple[list[Item], CleaningReport]:
    """Clean films given as ``(key, record)``, the OpenDialKG form; returns items with the fields of ``rows``,
    and the report. Films of one folded title and year (or without) are merged, the first one's spelling
    stays. Raises InputError naming record and field for a film without title, a title or plot that is not one
    text, a field that is no text or list of texts, or a year that is no number.
    """
    before, after = ({name: Counter[str]() for name in rows} for _ in range(2))
    report = CleaningReport(before=before, after=after)
    cleaners = {name: cache(row.clean) for name, row in rows.items()}
    items: list[Item] = []
    places: dict[str, list[int]] = {}
    for number, (key, record) in enumerate(records, start=1):
        item = _clean_one(f"record {number} ({shorten(str(key), 60)!r})", key, record, cleaners, report)
        report.films_read += 1
        same = places.setdefault(fold(item.title) or item.title, [])  # "!!!" and "???" have no words
        twin = next((i for i in same if item.year is None or items[i].year in (None, item.year)), None)
        if twin is None:
            same.append(len(items))
            items.append(item)
        else:
            report.merged_films.append((item.title, items[twin].title))
            items[twin] = _merge(items[twin], item)
    _one_spelling(items, report)
    _unique_ids(items)
    report.films_kept = len(items)
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}  # films of one genre, language or year hold one tuple
    for item in items:
        for name, values in item.values.items():
            report.after[name].update(values)
            if len(values) < 3:
                item.values[name] = shared.setdefault(values, values)
        report.low_information += not any(item.values.get(name) for name in CREDIT_FIELDS)
    return items, report


def _clean_one(
    where: str, key: str, record: Mapping[str, Any], cleaners: Mapping[str, Callable[[str], Cleaned]],
    report: CleaningReport,
) -> Item:  # fmt: skip
    if not isinstance(record, Mapping):
        raise InputError(f"{where}: expected an object with the film's fields, got {record!r:.80}")
    named = (one_text(where, name, record.get(name)) for name in ("name", "title"))
    title = " ".join((next(filter(None, named), "") or key).split())
    if not title:
        raise InputError(f"{where}: field 'title' is empty; every film needs a title")
    report.ignored_keys.update(name for name in record if name not in cleaners and name not in _OTHER_KEYS)
    values = {name: _values(where, name, record, cleaners[name], report) for name in cleaners}
    item_id = next((str(record[name]) for name in _IDS if one_text(where, name, record.get(name))), "")
    return Item(item_id, title, values, one_text(where, "plot", record.get("plot")))


def _values(
    where: str, name: str, record: Mapping[str, Any], cleaner: Callable[[str], Cleaned],
    report: CleaningReport,
) -> tuple[str, ...]:  # fmt: skip
    """The clean values of a field, each once; what was changed or dropped goes to the report."""
    row, kept = ALL_FIELDS[name], dict[str, str]()
    for raw in _texts(where, row.column, record.get(row.column)):
        report.before[name][raw] += 1
        try:
            value, reason = cleaner(raw)
        except InputError as error:
            raise InputError(f"{where}: field {name!r}: {error}") from error
        if value is None:
            report.changes[name, "dropped", raw, "", reason] += 1
            continue
        if value != raw:
            report.changes[name, "merged", raw, value, "same meaning"] += 1
        folded = _folded(value)
        if folded in kept:
            report.changes[name, "doublet", raw, kept[folded], "named twice"] += 1
        kept.setdefault(folded, value)
    return tuple(kept.values())[: None if row.many else 1]


def one_text(where: str, name: str, raw: object) -> str:
    """A text or number that a film has once, spaces single; "" for none; InputError for anything else."""
    if raw is None or (isinstance(raw, float) and raw != raw):
        return ""
    if isinstance(raw, str | int | float) and not isinstance(raw, bool):
        return " ".join(str(raw).split())
    raise InputError(f"{where}: field {name!r} must be one text, got {raw!r:.80}")


def _texts(where: str, name: str, raw: object) -> list[str]:
    """A field's raw labels; a single text or number counts as a list of one."""
    if raw is None:
        return []
    if isinstance(raw, str | int) and not isinstance(raw, bool):
        return [str(raw)] if str(raw) else []
    if isinstance(raw, float) and (raw != raw or raw.is_integer()):
        return [] if raw != raw else [str(int(raw))]
    if isinstance(raw, Iterable) and not isinstance(raw, Mapping):
        labels = list(raw)
        if all(isinstance(label, str) for label in labels):
            return labels
    raise InputError(f"{where}: field {name!r} must be a text or a list of texts, got {raw!r:.80}")


def _merge(first: Item, second: Item) -> Item:
    values = {}
    for name, mine in first.values.items():
        own = {fold(value): value for value in mine}
        union = own | {fold(value): value for value in second.values[name]} | own
        values[name] = tuple(union.values())[: None if ALL_FIELDS[name].many else 1]
    return Item(first.item_id or second.item_id, first.title, values, first.plot or second.plot)


def _one_spelling(items: list[Item], report: CleaningReport) -> None:
    """One display spelling per folded value of a field: the most frequent, then the first in order."""
    for name in report.before:
        spellings: dict[str, Counter[str]] = {}
        for item in items:
            for value in item.values[name]:
                spellings.setdefault(_folded(value), Counter())[value] += 1
        best: dict[str, str] = {}
        for counts in spellings.values():
            chosen = min(counts, key=lambda spelling: (-counts[spelling], spelling))
            for spelling, n in counts.items():
                if spelling != chosen:
                    best[spelling] = chosen
                    report.changes[name, "merged", spelling, chosen, "same spelling, folded"] += n
        if best:
            for item in items:
                item.values[name] = tuple(best.get(value, value) for value in item.values[name])


def _unique_ids(items: list[Item]) -> None:
    """Give films without an id one made of title and year; InputError where two films share an id."""
    seen: dict[str, str] = {}
    for item in items:
        if item.item_id in seen:
            both = f"films {seen[item.item_id]!r} and {item.title!r}"
            raise InputError(f"{both} share the id {item.item_id!r}; ids must be unique")
        if item.item_id:
            seen[item.item_id] = item.title
    for item in items:
        if not item.item_id:
            base = "-".join([*fold(item.title).split(), str(item.year or "")]).strip("-") or "film"
            item.item_id, n = base, 2
            while item.item_id in seen:
                item.item_id, n = f"{base}-{n}", n + 1
            seen[item.item_id] = item.title
