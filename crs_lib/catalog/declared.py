"""Fields that a YAML file declares for one catalogue, and words that its users say in place of film words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.catalog.fields import FIELDS, PLOT_NAMES, TITLE_NAMES, Clause, Field
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field as Option
from crs_lib.core.settings import OneOf, Settings


class Kind(NamedTuple):
    """How a kind of declared field cleans its labels, and the matching rule of its values."""

    clean: Callable[[str], Cleaned]
    rule: str


KINDS: Mapping[str, Kind] = {
    "person": Kind(lexicon.clean_person, "person"),
    "name": Kind(lexicon.clean_name, "name"),
    "topic": Kind(lexicon.clean_keyword, "plot"),
}


class _DeclaredField(Settings):
    """A field of a catalogue that films lack, as a YAML file declares it; see :class:`Field`."""

    kind: Annotated[str, OneOf(KINDS), Option(description="how values are cleaned and read")]
    phrases: Annotated[Sequence[str], Option(description="words that put a $value behind the noun")]
    bridges: Annotated[Sequence[str], Option(description="sentences that name a $value in passing")] = ()
    cues: Annotated[Sequence[str], Option(description="words before a value that tell the field")] = ()
    many: Annotated[bool, Option(description="whether an item may have several values")] = True
    weight: Annotated[int, Option(ge=1, description="how often users want a value of it")] = 2
    keep: Annotated[float, Option(gt=0, description="the smallest is given up first")] = 3

    def row(self, name: str) -> Field:
        """The field of this name."""
        kind = KINDS[self.kind]
        options = self.values()
        del options["kind"]
        clause = Clause(self.phrases[0].replace("$value", "$values"))
        return Field(
            name=name, clean=kind.clean, rule=kind.rule, in_reply=clause, in_prompt=clause, **options
        )


class Declared(Settings):
    """The fields that a YAML file declares for a catalogue, and words of users that others replace."""

    fields: Annotated[Mapping[str, Mapping[str, Any]], Option(description="fields by name")]
    words: Annotated[Mapping[str, str], Option(description="film words and what stands for them")] = {}

    def rows(self) -> dict[str, Field]:
        """The declared fields; InputError for a name or value that no field can have."""
        rows = {}
        for name, options in self.fields.items():
            if name in (*FIELDS, *TITLE_NAMES, *PLOT_NAMES):
                raise InputError(f"field {name!r} is known already; declare only fields that films lack")
            rows[name] = _DeclaredField(**options).row(name)
        return rows
