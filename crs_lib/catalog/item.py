"""One item of a catalogue."""

from dataclasses import dataclass

from crs_lib.catalog.fields import YEAR_FIELD


@dataclass(slots=True)
class Item:
    """A film, or another thing of a catalogue, after cleaning.

    It has one value list per field: display spelling, file order, no doublets. Its id is unique. ``also`` are
    other titles that it is known by.
    """

    item_id: str
    title: str
    values: dict[str, tuple[str, ...]]
    plot: str = ""
    also: tuple[str, ...] = ()

    @property
    def year(self) -> int | None:
        """Year of release, or None where the catalogue has none."""
        years = self.values.get(YEAR_FIELD)
        return int(years[0]) if years else None
