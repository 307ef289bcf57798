"""Template-worded replies: the films recommended, and answers about films from the catalogue."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import Item
from crs_lib.catalog.fields import PLOT, QUESTIONS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.text import listing, words
from crs_lib.systems import tracker

RECOMMEND, LAST, AGAIN, NEAR = "recommend", "recommend_last", "recommend_again", "recommend_near"
_MORE = frozenset(
    "more others other else another different further next new keep close closest near nearly further "
    "additional suggest suggestion suggestions recommend recommendations name titles".split()
)  # words by which users ask for further films


def recommend(
    catalog: Catalog, items: Sequence[int], constraints: Mapping[str, str], draw: np.random.Generator,
    restates: float = 0.5, kind: str = RECOMMEND,
) -> str:  # fmt: skip
    """A sentence that recommends films by title and year; a share of them opens with the constraints.
    ``kind``: ``RECOMMEND``, ``LAST`` (no further film fits), ``AGAIN``, or ``NEAR`` (none fits: the closest).
    """
    if not items:
        return prompts.say("system", "nothing_left", draw)
    named = (_naming(catalog, item) for item in items)
    parts = [prompts.sentence(prompts.fill(lines, draw, "[item]", **slots)) for lines, slots in named]
    restated = kind == RECOMMEND and constraints and draw.random() < restates
    wish = fields.noun_phrase(constraints, draw) if restated else ""
    section = "recommend_wish" if restated else kind
    return prompts.say("system", section, draw, list=listing(parts, "or"), wish=wish)


@lru_cache(4096)
def _naming(catalog: Catalog, item: int) -> tuple[tuple[prompts.Template, ...], dict[str, str]]:
    """The templates that name a film, by title and year with none, one or all clauses, and their slots."""
    film = catalog.items[item]
    if not film.year or not all(film.values[name] for name in fields.CREDIT_FIELDS):
        return prompts.sections("system")["item_bare"], {"title": film.title}
    said = {
        row.name: row.in_reply for row in fields.most_telling() if row.in_reply and film.values.get(row.name)
    }
    templates = _item_templates(tuple((name, clause.text) for name, clause in said.items()))
    values = {name: listing(film.values[name][: clause.most]) for name, clause in said.items()}
    return templates, {"title": film.title, "year": str(film.year), **values}


@cache
def _item_templates(said: tuple[tuple[str, str], ...]) -> tuple[prompts.Template, ...]:
    """Title and year alone, then with each clause, then with all; ``said`` are fields and their clauses."""
    clauses = [prompts.compile_line(text.replace("$values", f"${name}")) for name, text in said]
    together = [tuple(part for clause in clauses for part in (" ", *clause))[1:]] if len(clauses) > 1 else []
    heads = prompts.sections("system")["item"]
    return (*heads, *((*head, ", ", *clause) for clause in (*clauses, *together) for head in heads))


# The questions in the order in which their cues are tried; the plot answers what no field does.
_BY_CUE = sorted(QUESTIONS, key=lambda name: (name == PLOT, -QUESTIONS[name].rank))


def answer(grounder: Grounder, question: str, draw: np.random.Generator) -> str:
    """The answer to a question about a film that it names, or an empty text where it asks none."""
    asked = _asked(grounder, question)
    if asked is None:
        return ""
    film, field = grounder.catalog.items[asked[0]], asked[1]
    while not (values := _values(film, field)) and field != PLOT:
        field = QUESTIONS[field].instead or PLOT
    if not values:
        return ""
    kind = QUESTIONS[field]
    text = prompts.fill(
        prompts.compiled(kind.answers), draw, f"answers of {field!r}", title=film.title,
        values=listing(values[: kind.most or None]),
    )  # fmt: skip
    return prompts.sentence(text)


@lru_cache(1024)  # the systems of a scenario hear mostly the same words
def _asked(grounder: Grounder, question: str) -> tuple[int, str] | None:
    """The film and the field, or the plot, that a question asks about; None where it asks about no film."""
    mentions = grounder.titles(question)
    if not mentions:
        return None
    named = {place for m in mentions for place in range(m.start, m.end)}  # "A Long Day" asks no "how long"
    asked = set(words("".join(" " if i in named else c for i, c in enumerate(question))))
    if "?" not in question and not asked & {"tell", "say", "idea"}:
        return None
    field = next((name for name in _BY_CUE if asked.intersection(QUESTIONS[name].cues)), "")
    return (mentions[0].item, field) if field else None


def _values(film: Item, field: str) -> list[str]:
    """The values of a film that answer a question about a field or the plot, as sentences name them."""
    if field == PLOT:
        return [film.plot] if film.plot else []
    return [fields.get(field).in_words(value) for value in film.values[field]]


def wants_more(grounder: Grounder, text: str) -> bool:
    """Whether an utterance asks for films: it names a constraint, or has a word that asks for more."""
    return bool(tracker.read(grounder, text).wanted) or not _MORE.isdisjoint(words(text))


def acknowledge(constraints: Mapping[str, str], draw: np.random.Generator) -> str:
    """A sentence that repeats the constraints and recommends nothing."""
    if not constraints:
        return prompts.say("system", "slots_none", draw)
    return prompts.say("system", "slots", draw, wish=fields.noun_phrase(constraints, draw))
