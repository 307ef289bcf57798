"""Constraints, bridges and questions in words: "comedy films with Buster Keaton in English"."""

from collections.abc import Mapping

import numpy as np

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS, PERSON_FIELDS, Field
from crs_lib.core import prompts
from crs_lib.core.text import words

_ALONE = prompts.compile_line("$value")
ONE = "noun_one"  # the section with the noun for a single film, where a set has one


def noun_phrase(
    constraints: Mapping[str, str],
    draw: np.random.Generator,
    templates: str = "A",
    noun: str = "noun",
    catalog: Catalog | None = None,
) -> str:
    """Constraints as one noun phrase: "comedy films with Buster Keaton in English".

    The values follow the order of ``ALL_FIELDS``, some before the noun, the others behind it. An empty
    mapping gives "good films". ``templates`` is the set, "A", "B" or "C"; ``noun`` is the section with the
    noun, ``ONE`` for a single film. A value whose phrase is the value alone stands before the noun ("1984
    movies"); that of a person only where ``catalog`` has the person in one role ("Ada Quill movies").
    """
    named = prompts.phrase(prompts.USER_SETS[templates], noun, draw)
    if not constraints:
        return f"good {named}"
    given = [row for name, row in ALL_FIELDS.items() if name in constraints]
    before = [row.in_words(constraints[row.name]) for row in given if row.before_noun]
    behind: list[str] = []
    for row in given:
        if not row.before_noun:
            value = constraints[row.name]
            lines = _lines(f"{row.name} phrases", row.phrases, templates)
            if _ALONE in lines and not (len(given) == 1 and _says_itself(row, value, catalog)):
                lines = tuple(line for line in lines if line != _ALONE)
            said = _fill(row.name, "phrases", lines, value, draw)
            (before if said == value else behind).append(said)
    return " ".join([*before, named, *behind])


def bridge_phrase(field: str, value: str, draw: np.random.Generator, templates: str = "A") -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    lines = _lines(f"{field} bridges", fields.get(field).bridges, templates)
    return _fill(field, "bridges", lines, value, draw)


def question(
    act: str, title: str, draw: np.random.Generator, templates: str = "A", *, small: bool = False
) -> str:
    """A sentence that asks about a film; ``act`` is one of ``fields.QUESTION_ACTS``.

    With ``small`` only the title has capitals.
    """
    lines = _lines(act, fields.QUESTION_ACTS[act].asks, templates)
    if small:
        return prompts.fill(prompts.lowered(lines), draw, f"question {act!r}", title=title)
    return prompts.sentence(prompts.fill(lines, draw, f"question {act!r}", title=title))


def _says_itself(row: Field, value: str, catalog: Catalog | None) -> bool:
    """Whether a value before the noun tells its field: not a person of several roles, nor a single name."""
    if row.name not in PERSON_FIELDS:
        return True
    roles = [name for name in PERSON_FIELDS if catalog and catalog.code(name, value) is not None]
    return roles == [row.name] and len(words(value)) > 1


def _lines(section: str, usual: tuple[str, ...], templates: str) -> tuple[prompts.Template, ...]:
    """The templates of a set for a section; where its wording file has none, the usual ones (of set A)."""
    return prompts.sections(prompts.USER_SETS[templates]).get(section) or prompts.compiled(usual)


def _fill(
    field: str, what: str, lines: tuple[prompts.Template, ...], value: str, draw: np.random.Generator
) -> str:
    return prompts.fill(lines, draw, f"field {field!r}, {what}", value=value)
