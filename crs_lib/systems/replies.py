"""What systems say: the words of template-worded replies, and how any reply is read.

:class:`SaidReply` is the one place where the reply of a model, a program or a log is understood.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog import fields, phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS, PLOT, QUESTIONS, Clause, Field
from crs_lib.catalog.grounder import Grounder, Mention
from crs_lib.catalog.item import Item
from crs_lib.catalog.titles import Foreign, films_named, marked_or_dated
from crs_lib.core import prompts
from crs_lib.core.text import listing, said, words
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
    catalogue; ``thinking`` is what the system thought, which nobody hears; ``ambiguous`` are the titles of
    which nothing tells which film is meant.
    """

    text: str
    items: Items
    hallucinated: tuple[str, ...]
    mentioned: Items
    state: Mapping[str, Any] | None
    beyond: int
    unknown: tuple[Foreign, ...]
    thinking: str = ""
    ambiguous: tuple[str, ...] = ()


class SaidReply:
    """A text that a system said in answer to an utterance, its thoughts apart, and the titles in it, those of
    lists too; of films with one title it names those ``offered``, else those that fit the words ``wanted``.
    """

    def __init__(
        self,
        grounder: Grounder,
        text: str,
        utterance: str,
        offered: Items = (),
        thinking: str = "",
        wanted: str = "",
    ) -> None:
        spoken = said(text, thinking)
        self.grounder = grounder
        self.text = spoken.text
        self.thinking = spoken.thinking
        self.utterance = utterance
        self.offered = offered
        self._mentions = grounder.titles(self.text, prefer=offered, wanted=wanted)
        listed = self._listed()
        unknown = grounder.unknown_titles(self.text, self._mentions, utterance)
        outside = []
        for stretch in unknown:
            if not any(map(stretch.overlaps, listed)) and not _LABEL.match(self.text, stretch.start):
                outside.append(stretch)
        self._unknown = tuple(sorted([*listed, *outside]))

    def _listed(self) -> list[Foreign]:
        """The titles in lists that the catalogue lacks. Each item is looked up as a text: its film joins the
        mentions, and those in its description leave them. A list of which nothing is known is no list.
        """
        hallucinated: list[Foreign] = []
        n_known = 0
        for item in _list_items(self.text):
            inside = [mention for mention in self._mentions if item.start <= mention.start < item.end]
            film = _named_first(self.grounder.catalog, item)
            if film is not None:
                n_known += 1
                within = [mention for mention in inside if mention.start < film.end]
                self._mentions = [mention for mention in self._mentions if mention not in inside]
                self._mentions += within or [film]
            elif inside:
                n_known += 1
            elif not _LABEL.match(item.title):
                hallucinated += _title_of(item)
        self._mentions.sort()
        return hallucinated if n_known else []

    def unknown(self) -> list[str]:
        """The titles in the text that the catalogue lacks."""
        return [stretch.title for stretch in self._unknown]

    def ambiguous(self) -> list[str]:
        """The titles in the text that more than one film bears, of which nothing tells which is meant."""
        items = self.grounder.catalog.items
        return [items[mention.item].title for mention in self._mentions if mention.ambiguous]

    def recommended(self) -> Items:
        """The films that the text itself recommends, but for those that the user asked about."""
        about = {mention.item for mention in self.grounder.titles(self.utterance)}
        about.difference_update(self.offered)
        items = self.grounder.recommended(self.text, self._mentions)
        return tuple(item for item in items if item not in about)

    def understood(
        self,
        items: Items,
        hallucinated: Sequence[str],
        most: int | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Understood:
        """The reply with the films that it recommends, of which ``most`` count."""
        counted = items[:most]
        mentioned = [mention.item for mention in self._mentions if mention.item not in counted]
        return Understood(
            text=self.text,
            items=counted,
            hallucinated=tuple(hallucinated),
            mentioned=tuple(dict.fromkeys(mentioned)),
            state=state,
            beyond=len(items) - len(counted),
            unknown=self._unknown,
            thinking=self.thinking,
            ambiguous=tuple(self.ambiguous()),
        )


# What opens an item of a list: a bullet, or a number ("1.", "2)", "(3)"), also in the middle of a line.
_BULLET = re.compile(r"^[ \t>]*[-*+•·▪◦–—]+[ \t]+(?=\S)", re.MULTILINE)
_NUMBER = re.compile(r"(?:^|(?<=[\s:]))[>#*_]{0,3}\(?(\d{1,2})[.):]{1,2}[*_]{0,2}[ \t]+(?=\S)", re.MULTILINE)
_BEHIND = re.compile(
    r"\s[–—-]+\s|:\s|\.\s|,\s|;\s|\s\((?!\d{4}\))|(?<=\(\d{4}\))"
)  # where a description begins
# What a list says of a film: "Director: Fritz Lang", "**Why you'll like it:** …".
_LABEL = re.compile(
    r"[*_]{0,3}(?:(?:director|genre|plot|year|cast|language|runtime|country|writer|theme|rating|synopsis)s?"
    r"|(?:directed|written) by|starring|stars|release(?:d| date| year)|running time"
    r"|why(?: (?:you|it|i|this|watch|see)\b[^:\n]{0,40})?)[*_]{0,3}\s?:",
    re.IGNORECASE,
)
_SPEAKING = re.compile(r"[*_`“”\"«»]")  # marks around a title
_YEAR = re.compile(r"[*_”\"»]*\s*\(\d{4}\)")
_AROUND = " \t*_`“”\"«»‘’',;.!?"


def _list_items(text: str) -> list[Foreign]:
    """The items of the lists in a text: bullets, and numbers that count from 1, one a line or several."""
    openings = [(match.start(), match.end()) for match in _BULLET.finditer(text)]
    due = 1
    for match in _NUMBER.finditer(text):
        number = int(match[1])
        if number in (1, due):
            openings.append((match.start(), match.end()))
            due = number + 1
    openings.sort()
    items = []
    for index, (_, start) in enumerate(openings):
        line_end = text.find("\n", start)
        end = len(text) if line_end < 0 else line_end
        if index + 1 < len(openings):
            end = min(end, openings[index + 1][0])
        if end > start:
            items.append(Foreign(start, end, text[start:end]))
    return items


def _named_first(catalog: Catalog, item: Foreign) -> Mention | None:
    """The film that an item of a list begins with: the longest beginning that is a title; None for none."""
    ends = [len(item.title), *(match.start() for match in _BEHIND.finditer(item.title))]
    for end in sorted(set(ends), reverse=True):
        name = item.title[:end].strip(_AROUND)
        films, _ = films_named(catalog, [_SPEAKING.sub("", name)])
        if films:
            start = item.start + item.title.index(name)
            return Mention(start, start + len(name), films[0], 1)
    return None


def _title_of(item: Foreign) -> list[Foreign]:
    """The title that an item of a list begins with, its year included; none where it is written like none."""
    behind = _BEHIND.search(item.title)
    head = item.title[: behind.start() if behind else None].strip(_AROUND)
    start = 0
    end = len(head)
    for stretch in marked_or_dated(item.title):
        if stretch.start <= len(_AROUND):
            start = stretch.start
            end = stretch.end
            break
    else:
        if not marked_or_dated(f"“{head}”"):
            return []
    year = _YEAR.match(item.title, end)
    if year:
        end = year.end()
    title = _SPEAKING.sub("", item.title[start:end]).strip(_AROUND)
    return [Foreign(item.start + start, item.start + end, title)]


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
