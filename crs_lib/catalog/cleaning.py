"""Cleaning with a report: every label merged or dropped is counted, nothing is edited in silence."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from crs_lib.catalog.fields import ALL_FIELDS, CREDIT_FIELDS, FIELDS, GOAL_FIELD, YEAR_FIELD, Field
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, shorten


@dataclass
class Item:
    """A film after cleaning: one value list per field, display spelling, file order, no doublets."""

    item_id: str
    title: str
    values: dict[str, tuple[str, ...]]
    plot: str = ""
    themes: tuple[str, ...] = ()

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
            by_action = Counter[str]()
            for (where, action, *_), n in self.changes.items():
                if where == name:
                    by_action[action] += n
            before, after = self.before.get(name, Counter()), self.after.get(name, Counter())
            rows.append(
                {
                    "field": name,
                    "values before": before.total(),
                    "distinct before": len(before),
                    "merged": by_action["merged"],
                    "dropped": by_action["dropped"],
                    "doublets": by_action["doublet"],
                    "values after": after.total(),
                    "distinct after": len(after),
                }
            )
        return pd.DataFrame(rows)

    def table(self, field_name: str | None = None, action: str | None = None) -> pd.DataFrame:
        """Every change, most frequent first: field, action, from, to, reason, number of films."""
        rows = [
            {"field": f, "action": a, "from": raw, "to": to, "reason": reason, "films": n}
            for (f, a, raw, to, reason), n in self.changes.items()
            if field_name in (None, f) and action in (None, a)
        ]
        columns = ["field", "action", "from", "to", "reason", "films"]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.sort_values(
            ["films", "field", "action", "from"], ascending=[False, True, True, True], ignore_index=True
        )

    def __str__(self) -> str:
        bare = 0 < self.low_information == self.films_kept
        return (
            f"{self.films_read:,} films read, {self.films_kept:,} kept, {len(self.merged_films)} merged; "
            f"{self.low_information} without {' and '.join(CREDIT_FIELDS)} "
            f"({'as all are, so all may be' if bare else 'never'} recommended)"
        )


class _Folds(dict[str, str]):
    """The folded form of a value, worked out once."""

    def __missing__(self, value: str) -> str:
        self[value] = folded = fold(value)
        return folded


_IDS = ("item_id", "original_id")
_OTHER_KEYS = frozenset({"name", "title", "plot", "plot_keywords", *_IDS})


def clean(
    records: Iterable[tuple[str, Mapping[str, Any]]], rows: Mapping[str, Field] = FIELDS
) -> tuple[list[Item], CleaningReport]:
    """Clean films given as ``(key, record)``, the OpenDialKG form; returns items and the report.

    ``rows`` are the fields that the films get, those without which no catalogue is (``FIELDS``) among them.

    Films with the same folded title and the same year (or one of them without a year) are merged, the
    first one's spelling stays. Raises InputError naming the record and the field for a film without
    title, a title or plot that is not one text, a field that is no text or list of texts, or a year that
    is no number.
    """
    report = CleaningReport(
        before={name: Counter() for name in rows}, after={name: Counter() for name in rows}
    )
    memo: dict[str, dict[str, Cleaned]] = {name: {} for name in rows}
    folds = _Folds()
    items: list[Item] = []
    places: dict[str, list[int]] = {}
    for number, (key, record) in enumerate(records, start=1):
        where = f"record {number} ({shorten(str(key), 60)!r})"
        item = _clean_one(where, key, record, memo, folds, report)
        report.films_read += 1
        name = fold(item.title) or item.title  # "!!!" and "???" have no words, and are two films
        twin = _twin(item, places.setdefault(name, []), items)
        if twin is None:
            places[name].append(len(items))
            items.append(item)
        else:
            report.merged_films.append((item.title, items[twin].title))
            items[twin] = _merge(items[twin], item)
    _one_spelling(items, folds, report)
    _unique_ids(items)
    report.films_kept = len(items)
    for item in items:
        for name, values in item.values.items():
            report.after[name].update(values)
        if not any(item.values.get(name) for name in CREDIT_FIELDS):
            report.low_information += 1
    return items, report


def _clean_one(
    where: str,
    key: str,
    record: Mapping[str, Any],
    memo: dict[str, dict[str, Cleaned]],
    folds: "_Folds",
    report: CleaningReport,
) -> Item:
    if not isinstance(record, Mapping):
        raise InputError(f"{where}: expected an object with the film's fields, got {record!r:.80}")
    title = (
        one_text(where, "name", record.get("name")) or one_text(where, "title", record.get("title")) or key
    )
    title = " ".join(title.split())
    if not title:
        raise InputError(f"{where}: field 'title' is empty; every film needs a title")
    report.ignored_keys.update(name for name in record if name not in FIELDS and name not in _OTHER_KEYS)
    values: dict[str, tuple[str, ...]] = {}
    themes: list[str] = []
    for name in memo:
        row = ALL_FIELDS[name]
        kept: dict[str, str] = {}
        for raw in _texts(where, row.column, record.get(row.column)):
            report.before[name][raw] += 1
            if raw not in memo[name]:
                try:
                    memo[name][raw] = row.clean(raw)
                except InputError as error:
                    raise InputError(f"{where}: field {name!r}: {error}") from error
            value, reason = memo[name][raw]
            if value is None:
                report.changes[name, "dropped", raw, "", reason] += 1
                if name == GOAL_FIELD and reason != "empty":
                    themes.append(raw)
                continue
            if value != raw:
                report.changes[name, "merged", raw, value, "same meaning"] += 1
            folded = folds[value]
            if folded in kept:
                report.changes[name, "doublet", raw, kept[folded], "named twice"] += 1
            else:
                kept[folded] = value
        values[name] = tuple(kept.values())[: None if row.many else 1]
    item_id = next((str(record[name]) for name in _IDS if one_text(where, name, record.get(name))), "")
    return Item(item_id, title, values, one_text(where, "plot", record.get("plot")), tuple(themes))


def one_text(where: str, name: str, raw: object) -> str:
    """A text that a film has once, its spaces single; "" for none. A number counts as a text.

    Raises InputError for anything else: a list would become one text that nobody wrote.
    """
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


def _twin(item: Item, places: list[int], items: list[Item]) -> int | None:
    """The place of a film that is the same: equal title, and the years do not contradict."""
    for place in places:
        if item.year is None or items[place].year in (None, item.year):
            return place
    return None


def _merge(first: Item, second: Item) -> Item:
    values = {}
    for name in first.values:
        row = ALL_FIELDS[name]
        union = {fold(v): v for v in (*second.values[name], *first.values[name])}
        ordered = dict.fromkeys(fold(v) for v in (*first.values[name], *second.values[name]))
        values[name] = tuple(union[key] for key in ordered)[: None if row.many else 1]
    return Item(
        first.item_id or second.item_id,
        first.title,
        values,
        first.plot or second.plot,
        tuple(dict.fromkeys((*first.themes, *second.themes))),
    )


def _one_spelling(items: list[Item], folds: "_Folds", report: CleaningReport) -> None:
    """One display spelling per folded value of a field: the most frequent, then the first in order."""
    for name in report.before:
        spellings: dict[str, Counter[str]] = {}
        for item in items:
            for value in item.values[name]:
                spellings.setdefault(folds[value], Counter())[value] += 1
        best: dict[str, str] = {}
        for counts in spellings.values():
            if len(counts) > 1:
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
            raise InputError(
                f"films {seen[item.item_id]!r} and {item.title!r} share the id {item.item_id!r}; "
                "ids must be unique"
            )
        if item.item_id:
            seen[item.item_id] = item.title
    for item in items:
        if not item.item_id:
            base = "-".join([*fold(item.title).split(), str(item.year or "")]).strip("-") or "film"
            item.item_id, n = base, 2
            while item.item_id in seen:
                item.item_id, n = f"{base}-{n}", n + 1
            seen[item.item_id] = item.title
