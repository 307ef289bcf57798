"""The quirk report that every reader of a corpus gives: what is odd, named, located and counted."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

_Names = Sequence[str]


class Quirk(NamedTuple):
    """One oddity: its kind, its place (from the outside in: file, conversation, turn …), what was found.

    What a quirk means and what a reader does about it is told beside the reader that names it.
    """

    kind: str
    place: tuple[Any, ...]
    detail: str = ""

    def inside(self, *outer: Any) -> "Quirk":
        """The same quirk with the place of its place before it: the file of a conversation, say."""
        return self._replace(place=(*outer, *self.place))


def quirks_table(found: Iterable[Quirk], place: _Names) -> pd.DataFrame:
    """One row a quirk, in the order given: a column for each part of its place, ``quirk``, ``detail``."""
    rows = [(*quirk.place, quirk.kind, quirk.detail) for quirk in found]
    return pd.DataFrame(rows, columns=[*place, "quirk", "detail"], dtype=object)


def quirk_counts(
    report: pd.DataFrame, by: _Names, counted: str, names: _Names, example: str, ties: _Names
) -> pd.DataFrame:
    """Cases of each kind in each group of ``by``, most frequent first; equals in the order of ``ties``.

    ``names`` are the columns for the number of cases and of different values of ``counted``; ``example`` is
    the column whose first value stands for the others.
    """
    cases, places = names
    groups = report.groupby([*by, "quirk"], sort=True)
    told = {cases: ("quirk", "size"), places: (counted, "nunique"), "example": (example, "first")}
    out = groups.agg(**told).reset_index()
    order = [cases, *ties]
    return out.sort_values(order, ascending=[name != cases for name in order], ignore_index=True)
