"""What systems say: the words of template-worded replies, and how any reply is read.

:class:`SaidReply` is the one place where the reply of a model, a program or a log is understood.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog import fields, phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS, PLOT, QUESTIONS, Clause, Field
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.item import Item
from crs_lib.catalog.titles import Foreign
from crs_lib.core import prompts
from crs_lib.core.text import listing, words
from crs_lib.systems import tracker

RECOMMEND, LAST, AGAIN, NEAR = "recommend", "recommend_last", "recommend_again", "recommend_near"
_MORE = frozenset(
    "more others other else another different further next new keep close closest near nearly further "
    "additional suggest suggestion suggestions recommend recommendations name titles".split()
)  # words by which users ask for further films
_TELLING = {"tell", "say", "idea"}  # words that ask about a film without a question mark
Items = tuple[int, ...]


@dataclass(frozen=True)
class Understood:
    """A reply in terms of the catalogue: the films recommended, the titles that it lacks, the films only
    named, the constraints that the system states (None where it says nothing of them). ``beyond`` films more
    than were wanted do not count; ``unknown`` are the stretches of the text that name titles outside the
    catalogue.
    """

    text: str
    items: Items
    foreign: tuple[str, ...]
    mentioned: Items
    state: Mapping[str, Any] | None
    beyond: int
    unknown: tuple[Foreign, ...]


class SaidReply:
    """A text that a system said in answer to an utterance, and the titles in it; of films with one title it
    names those ``offered``.
    """

    def __init__(self, grounder: Grounder, text: str, utterance: str, offered: Items = ()) -> None:
        self.grounder = grounder
        self.text = text
        self.utterance = utterance
        self.offered = offered
        self._mentions = grounder.titles(text, prefer=offered)
        self._unknown = tuple(grounder.unknown_titles(text, self._mentions, utterance))

    def unknown(self) -> list[str]:
        """The titles in the text that the catalogue lacks."""
        return [stretch.title for stretch in self._unknown]

    def recommended(self) -> Items:
        """The films that the text itself recommends, but for those that the user asked about."""
        about = {mention.item for mention in self.grounder.titles(self.utterance)}
        about.difference_update(self.offered)
        items = self.grounder.recommended(self.text, self._mentions)
        return tuple(item for item in items if item not in about)

    def understood(
        self,
        items: Items,
        foreign: Sequence[str],
        most: int | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Understood:
        """The reply with the films that it recommends, of which ``most`` count."""
        counted = items[:most]
        mentioned = [mention.item for mention in self._mentions if mention.item not in counted]
        return Understood(
            text=self.text,
            items=counted,
            foreign=tuple(foreign),
            mentioned=tuple(dict.fromkeys(mentioned)),
            state=state,
            beyond=len(items) - len(counted),
            unknown=self._unknown,
        )


def recommend(
    catalog: Catalog,
    items: Sequence[int],
    constraints: Mapping[str, str],
    draw: np.random.Generator,
    restates: float = 0.5,
    kind: str = RECOMMEND,
) -> str:
    """A sentence that recommends films by title and year; a share of them opens with the constraints.
    ``kind``: ``RECOMMEND``, ``LAST`` (no further film fits), ``AGAIN``, or ``NEAR`` (none fits: the closest).
    """
    if not items:
        return prompts.say("system", "nothing_left", draw)
    parts = []
    for item in items:
        naming = _naming(catalog, item)
        part = prompts.fill(naming.templates, draw, "[item]", **naming.slots)
        parts.append(prompts.sentence(part))
    section = kind
    wish = ""
    if kind == RECOMMEND and constraints and draw.random() < restates:
        section = "recommend_wish"
        wish = phrases.noun_phrase(constraints, draw, rows=catalog.fields)
    return prompts.say("system", section, draw, list=listing(parts, "or"), wish=wish)


class _Naming(NamedTuple):
    """The templates that name a film, by title and year with none, one or all clauses, and their slots."""

    templates: tuple[prompts.Template, ...]
    slots: dict[str, str]


@lru_cache(4096)
def _naming(catalog: Catalog, item: int) -> _Naming:
    """How a film is named; one whose year or credits are not known by its title alone."""
    film = catalog.items[item]
    if not film.year or not all(film.values[name] for name in fields.CREDIT_FIELDS):
        return _Naming(prompts.sections("system")["item_bare"], {"title": film.title})
    clauses: dict[str, Clause] = {}
    slots = {"title": film.title, "year": str(film.year)}
    for row in fields.most_telling(catalog.fields):
        values = film.values.get(row.name)
        if row.in_reply and values:
            clauses[row.name] = row.in_reply
            slots[row.name] = listing(values[: row.in_reply.most])
    templates = _item_templates(tuple((name, clause.text) for name, clause in clauses.items()))
    return _Naming(templates, slots)


@cache
def _item_templates(clauses: tuple[tuple[str, str], ...]) -> tuple[prompts.Template, ...]:
    """Title and year alone, then with each clause, then with all; ``clauses`` are fields and their texts."""
    endings = []
    for name, text in clauses:
        endings.append(prompts.compile_line(text.replace("$values", f"${name}")))
    if len(endings) > 1:
        together = list(endings[0])
        for ending in endings[1:]:
            together += [" ", *ending]
        endings.append(tuple(together))
    heads = prompts.sections("system")["item"]
    templates = list(heads)
    for ending in endings:
        templates += [(*head, ", ", *ending) for head in heads]
    return tuple(templates)


# The questions in the order in which their cues are tried; the plot answers what no field does.
_BY_CUE = sorted(QUESTIONS, key=lambda name: (name == PLOT, -QUESTIONS[name].rank))


def answer(grounder: Grounder, question: str, draw: np.random.Generator) -> str:
    """The answer to a question about a film that it names, or an empty text where it asks none."""
    topic = _topic(grounder, question)
    if topic is None:
        return ""
    film = grounder.catalog.items[topic.item]
    field = topic.field
    values = _values(film, field)
    while not values and field != PLOT:
        field = QUESTIONS[field].instead or PLOT
        values = _values(film, field)
    if not values:
        return ""
    kind = QUESTIONS[field]
    texts = prompts.compiled(kind.answers)
    shown = listing(values[: kind.most or None])
    text = prompts.fill(texts, draw, f"answers of {field!r}", title=film.title, values=shown)
    return prompts.sentence(text)


class _Topic(NamedTuple):
    """The film and the field, or the plot, that a question asks about."""

    item: int
    field: str


@lru_cache(1024)  # the systems of a scenario hear mostly the same words
def _topic(grounder: Grounder, question: str) -> _Topic | None:
    """What a question asks about; None where it asks about no film."""
    mentions = grounder.titles(question)
    if not mentions:
        return None
    without_titles = question  # "A Long Day" asks no "how long"
    for mention in mentions:
        blank = " " * (mention.end - mention.start)
        without_titles = without_titles[: mention.start] + blank + without_titles[mention.end :]
    heard = set(words(without_titles))
    if "?" not in question and not heard & _TELLING:
        return None
    for field in _BY_CUE:
        if heard.intersection(QUESTIONS[field].cues):
            return _Topic(mentions[0].item, field)
    return None


def _values(film: Item, field: str) -> list[str]:
    """The values of a film that answer a question about a field or the plot, as sentences name them."""
    if field == PLOT:
        return [film.plot] if film.plot else []
    row = fields.get(field)
    return [row.in_words(value) for value in film.values[field]]


def wants_more(grounder: Grounder, text: str) -> bool:
    """Whether an utterance asks for films: it names a constraint, or has a word that asks for more."""
    return bool(tracker.read(grounder, text).wanted) or not _MORE.isdisjoint(words(text))


def acknowledge(
    constraints: Mapping[str, str], draw: np.random.Generator, rows: Mapping[str, Field] = ALL_FIELDS
) -> str:
    """A sentence that repeats the constraints and recommends nothing."""
    if not constraints:
        return prompts.say("system", "slots_none", draw)
    return prompts.say("system", "slots", draw, wish=phrases.noun_phrase(constraints, draw, rows=rows))
