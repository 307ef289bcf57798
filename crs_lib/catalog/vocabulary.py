"""The concepts of a catalogue and their codes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from crs_lib.catalog.fields import concept
from crs_lib.catalog.item import Item
from crs_lib.core.text import fold


@dataclass(frozen=True)
class Vocabulary:
    """All concepts of a catalogue; a concept's code is its position in these lists."""

    field: tuple[str, ...]
    value: tuple[str, ...]
    code_of: Mapping[str, int]

    @classmethod
    def of(cls, items: Sequence[Item], names: Iterable[str]) -> "Vocabulary":
        """The concepts of items: by field in the order of ``names``, by folded value within it."""
        fields: list[str] = []
        values: list[str] = []
        for name in names:
            distinct: set[str] = set()
            for item in items:
                distinct.update(item.values[name])
            by_form = {fold(value): value for value in distinct}
            fields += [name] * len(by_form)
            values += [by_form[form] for form in sorted(by_form)]
        codes: dict[str, int] = {}
        for code, (name, value) in enumerate(zip(fields, values, strict=True)):
            codes[concept(name, value)] = code
        return cls(tuple(fields), tuple(values), codes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``field=value`` of every code, folded, in the order of the codes."""
        return tuple(self.code_of)

    def __len__(self) -> int:
        return len(self.value)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The field and the value of every code, in the order of the codes."""
        return zip(self.field, self.value, strict=True)
