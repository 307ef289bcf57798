"""Constraints, bridges and questions in words: "comedy films with Buster Keaton in English"."""

from collections.abc import Mapping

import numpy as np

from crs_lib.catalog import fields
from crs_lib.catalog.fields import ALL_FIELDS
from crs_lib.prompts import wording


def noun_phrase(constraints: Mapping[str, str], draw: np.random.Generator, templates: str = "A") -> str:
    """Constraints as one noun phrase: "comedy films with Buster Keaton in English".

    The values follow the order of ``ALL_FIELDS``, some before the noun, the others behind it. An empty
    mapping gives "good films". ``templates`` is the set, "A" or "B".
    """
    noun = wording.phrase(wording.USER_SETS[templates], "noun", draw)
    if not constraints:
        return f"good {noun}"
    given = [row for name, row in ALL_FIELDS.items() if name in constraints]
    before = [row.in_words(constraints[row.name]) for row in given if row.before_noun]
    behind = [
        _fill(row.name, "phrases", row.phrases_of(templates), constraints[row.name], draw)
        for row in given
        if not row.before_noun
    ]
    return " ".join([*before, noun, *behind])


def bridge_phrase(field: str, value: str, draw: np.random.Generator, templates: str = "A") -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    return _fill(field, "bridges", fields.get(field).bridges_of(templates), value, draw)


def question(act: str, title: str, draw: np.random.Generator, templates: str = "A") -> str:
    """A sentence that asks about a film; ``act`` is one of ``fields.QUESTION_ACTS``."""
    lines = wording.compiled(fields.QUESTION_ACTS[act].asks_of(templates))
    return wording.sentence(wording.fill(lines, draw, f"question {act!r}", title=title))


def _fill(field: str, what: str, lines: tuple[str, ...], value: str, draw: np.random.Generator) -> str:
    return wording.fill(wording.compiled(lines), draw, f"field {field!r}, {what}", value=value)
