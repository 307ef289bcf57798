"""Constraints, bridges and questions in a user's words, from the templates of fields and voices."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crs_lib.catalog import lexicon
from crs_lib.catalog.fields import ALL_FIELDS, PERSON_FIELDS, PLOT, QUESTION_ACTS, YEAR_FIELD, Field, get
from crs_lib.core import prompts
from crs_lib.core.text import words

Coder = Callable[[str, str], int | None]  # the code of a value of a field, None where there is none
ONE = "noun_one"  # the section with the noun for a single film, where a set has one
_ALONE = prompts.compile_line("$value")
_FIRST_BEHIND = ("language", YEAR_FIELD, PLOT)  # fields whose phrases would seem to belong to a person before
_PARTICIPLES = frozenset({"starring", "featuring", "directed", "made", "written", "scripted"})


class _Phrase(NamedTuple):
    """Words behind the noun, and the field that they speak of."""

    field: str
    text: str

    @property
    def kind(self) -> str:
        """Its first word, or that it begins with a participle."""
        word = self.text.split()[0]
        return "participle" if word in _PARTICIPLES else word


def noun_phrase(
    constraints: Mapping[str, str],
    draw: np.random.Generator,
    voice: str = "A",
    noun: str = "noun",
    code: Coder | None = None,
    rows: Mapping[str, Field] = ALL_FIELDS,
) -> str:
    """Constraints as one noun phrase: "comedy films with Buster Keaton in English".

    The values follow the order of ``rows`` (``catalog.fields``), some before the noun, the others behind it;
    outside voice A, language and year come first behind the noun, participles last ("films from 1924 by A and
    starring B"). An empty mapping gives "good films". ``voice`` says whose words; ``noun`` is the section of
    the noun, ``ONE`` for a single film. A value whose phrase is the value alone stands before the noun ("1984
    movies"); that of a person only where the catalogue's ``code`` knows one role ("Ada Quill movies").
    """
    named = prompts.phrase(prompts.USER_SETS[voice], noun, draw)
    if not constraints:
        return f"good {named}"
    wanted = [row for name, row in rows.items() if name in constraints]
    before: list[str] = []
    behind: list[_Phrase] = []
    for row in wanted:
        value = constraints[row.name]
        if row.before_noun:
            before.append(_adjective(row.in_words(value), voice))
            continue
        alone = len(wanted) == 1 and _says_itself(row, value, code)
        phrase = _phrase(row, value, draw, voice, alone)
        if phrase.text == value:
            before.append(value)
        else:
            behind.append(phrase)
    return " ".join([*before, named, *_in_order(behind, voice)])


def _adjective(word: str, voice: str) -> str:
    """A value as it goes before a noun; voice A says it as it is."""
    return word if voice == "A" else lexicon.before_noun(word)


def _phrase(row: Field, value: str, draw: np.random.Generator, voice: str, alone: bool) -> _Phrase:
    """A value in words; ``alone`` allows the value itself, which then stands before the noun."""
    lines = _lines(f"{row.name} phrases", row.phrases, voice)
    if not alone:
        lines = tuple(line for line in lines if line != _ALONE)
    return _Phrase(row.name, prompts.fill(lines, draw, f"field {row.name!r}, phrases", value=value))


def _in_order(phrases: Sequence[_Phrase], voice: str) -> list[str]:
    """The phrases in an order in which each is read with the noun, two of a kind joined by "and"."""
    if voice == "A":
        return [phrase.text for phrase in phrases]
    texts: list[str] = []
    before = ""
    for phrase in sorted(phrases, key=_rank):
        text = phrase.text
        if phrase.kind == before:
            text = f"and {text}"
        texts.append(text)
        before = phrase.kind
    return texts


def _rank(phrase: _Phrase) -> tuple[int, bool]:
    if phrase.field in _FIRST_BEHIND:
        return _FIRST_BEHIND.index(phrase.field), False
    return len(_FIRST_BEHIND) + (phrase.kind == "participle"), phrase.kind != "by"


def _says_itself(row: Field, value: str, code: Coder | None) -> bool:
    """Whether a value before the noun tells its field: not a person of several roles, nor a single name."""
    if row.name not in PERSON_FIELDS:
        return True
    if code is None or len(words(value)) < 2:
        return False
    return all((name == row.name) == (code(name, value) is not None) for name in PERSON_FIELDS)


def bridge_phrase(
    field: str,
    value: str,
    draw: np.random.Generator,
    voice: str = "A",
    rows: Mapping[str, Field] = ALL_FIELDS,
) -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    lines = _lines(f"{field} bridges", get(field, rows).bridges, voice)
    return prompts.fill(lines, draw, f"field {field!r}, bridges", value=value)


def question(
    act: str, title: str, draw: np.random.Generator, voice: str = "A", *, small: bool = False
) -> str:
    """A sentence that asks about a film; ``act`` is one of ``QUESTION_ACTS``, ``small``: no capitals."""
    lines = _lines(act, QUESTION_ACTS[act].asks, voice, small)
    text = prompts.fill(lines, draw, f"question {act!r}", title=title)
    return text if small else prompts.sentence(text)


def _lines(
    section: str, usual: Sequence[str], voice: str, small: bool = False
) -> tuple[prompts.Template, ...]:
    """The templates of a voice for a section; where its wording file has none, the usual ones (of set A)."""
    own = prompts.sections(prompts.USER_SETS[voice], small).get(section)
    return own or prompts.compiled(usual, small)
