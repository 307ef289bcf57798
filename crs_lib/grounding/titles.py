"""Titles in text, resolved to catalogue items."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from crs_lib.catalog.catalog import Catalog
from crs_lib.core.text import words
from crs_lib.grounding import rules
from crs_lib.grounding.matcher import Matcher


class Mention(NamedTuple):
    """A title found in a text: character range, the item it resolves to, and how sure that is."""

    start: int
    end: int
    item: int
    n_same_title: int


class Titles:
    """The titles of a catalogue, compiled for lookup; ``everyday`` words need more than their letters."""

    def __init__(self, catalog: Catalog, everyday: frozenset[str]) -> None:
        self.catalog = catalog
        forms = list(catalog.title_index)
        self._items = [catalog.title_index[form] for form in forms]
        titles = (catalog.items[found[0]].title for found in self._items)
        self._rules = [rules.title_rule(title, everyday) for title in titles]
        self._matcher = Matcher(forms, everyday)

    def find(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles a text names, in text order; of two that overlap the longer.

        Of films with one title the year in brackets after it decides, then ``prefer`` (the candidates
        that a system was given), then the first in the catalogue.
        """
        near = rules.Context(text, words(text))
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
