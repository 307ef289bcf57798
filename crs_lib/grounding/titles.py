"""Titles in text, resolved to catalogue items."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from crs_lib.catalog.catalog import Catalog
from crs_lib.grounding import rules
from crs_lib.grounding.matcher import Matcher


class Mention(NamedTuple):
    """A title found in a text: half-open character range, the item, and how many items bear the title."""

    start: int
    end: int
    item: int
    n_same_title: int


class Titles:
    """Finds a catalogue's titles in text; those of ``everyday`` words count under ``rules.title_rule``."""

    def __init__(self, catalog: Catalog, everyday: frozenset[str]) -> None:
        self.catalog = catalog
        forms = list(catalog.title_index)
        self._items = [catalog.title_index[form] for form in forms]
        titles = (catalog.items[found[0]].title for found in self._items)
        self._rules = [rules.title_rule(title, everyday) for title in titles]
        self._matcher = Matcher(forms, everyday)

    def find(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles that a text names, in text order; of two that overlap the longer.

        Among films of one title the year in brackets after it decides, then ``prefer`` (the candidates
        that a system was given), then the order of the catalogue.
        """
        near = rules.Context(text)
        hits = [
            hit
            for hit in self._matcher.find(near.tokens)
            if not self._rules[hit.form](near, hit.start, hit.end)
        ]
        wanted, taken, found = frozenset(prefer), [False] * len(near.tokens), []
        for start, end, form in sorted(hits, key=lambda h: (h.start - h.end, h.start)):
            if any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            begin, stop = near.span(start, end)
            item = self._resolve(self._items[form], rules.year_after(text, stop), wanted)
            found.append(Mention(begin, stop, item, len(self._items[form])))
        return sorted(found)

    def _resolve(self, same: Sequence[int], year: int | None, wanted: Set[int]) -> int:
        by_year = [i for i in same if year is not None and self.catalog.items[i].year == year]
        preferred = [i for i in same if i in wanted]
        return (by_year or preferred or list(same))[0]
