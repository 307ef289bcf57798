"""Template-worded replies: the films recommended, and answers about films from the catalogue."""

from collections.abc import Mapping, Sequence

import numpy as np

from crs_lib.catalog import phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.text import listing, words
from crs_lib.grounding.grounder import Grounder
from crs_lib.prompts import wording

_QUESTION_CUES = {
    "answer_mood": (
        "mood", "tone", "light", "slow", "gentle", "long", "when", "suit", "right", "end", "follow", "awake",
    ),
    "answer_writer": ("wrote", "script"),
    "answer_maker": ("directed", "behind", "made"),
    "answer_cast": ("who", "actors", "cast", "plays", "anybody"),
    "answer_plot": (
        "about", "happens", "premise", "describe", "sum", "sketch", "expect", "bit", "more", "idea", "like",
    ),
}  # fmt: skip
_RESTATES = 0.5  # how often a reply opens with its own state in words


def recommend(
    catalog: Catalog, items: Sequence[int], wishes: Mapping[str, str], draw: np.random.Generator
) -> str:
    """A sentence that recommends films by title and year, now and then opening with the wishes.

    Raises nothing for an empty list: the sentence then says that nothing was found.
    """
    if not items:
        return "I'm afraid I found nothing that fits."
    parts = [_item(catalog, item, draw) for item in items]
    section = "recommend_wish" if wishes and draw.random() < _RESTATES else "recommend"
    return wording.say("system", section, draw, list=listing(parts, "or"), wish=phrases.wish(wishes, draw))


def _item(catalog: Catalog, item: int, draw: np.random.Generator) -> str:
    film = catalog.items[item]
    directors, actors = film.values["director"], film.values["actor"]
    complete = film.year and directors and actors
    return wording.say(
        "system",
        "item" if complete else "item_bare",
        draw,
        title=film.title,
        year=str(film.year),
        director=listing(directors[:2]),
        actor=listing(actors[:2]),
    )


def answer(grounder: Grounder, question: str, draw: np.random.Generator) -> str:
    """The answer to a question about a film that it names, or an empty text where it asks none."""
    mentions = grounder.titles(question)
    named = {place for m in mentions for place in range(m.start, m.end)}  # "A Long Day" asks no "how long"
    asked = set(words("".join(" " if i in named else c for i, c in enumerate(question))))
    if "?" not in question and not asked & {"tell", "say", "idea"}:
        return ""
    kind = next((kind for kind, cues in _QUESTION_CUES.items() if asked.intersection(cues)), "")
    if not mentions or not kind:
        return ""
    film = grounder.catalog.items[mentions[0].item]
    actors, directors, writers, genres = (
        film.values[name] for name in ("actor", "director", "writer", "genre")
    )
    if kind == "answer_writer" and not writers:
        kind = "answer_maker"
    if kind == "answer_maker" or (kind == "answer_cast" and not actors):
        kind = "answer_maker" if directors else "answer_plot"
    if kind == "answer_mood" and not genres:
        kind = "answer_plot"
    if kind == "answer_plot" and not film.plot:
        return ""
    return wording.say(
        "system",
        kind,
        draw,
        title=film.title,
        actors=listing(actors[:3]),
        directors=listing(directors),
        writers=listing(writers),
        plot=film.plot,
        genres=listing([genre.lower() for genre in genres[:3]]),
    )


def acknowledge(wishes: Mapping[str, str], draw: np.random.Generator) -> str:
    """A sentence that repeats the slots and recommends nothing."""
    if not wishes:
        return wording.say("system", "slots_none", draw)
    return wording.say("system", "slots", draw, wish=phrases.wish(wishes, draw))
