"""A writer without a language model: template dialogues over the same products and passages.

It keeps the rules that models are held to (the target is named first by the system, in the second half),
so the whole pipeline runs offline; its language is plain on purpose.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from crs_lib.core.text import words
from crs_lib.cosrec.collections import CatalogueProduct, Passage
from crs_lib.cosrec.rewriting import content_words

T = TypeVar("T")
# Preference -> the words (folded, with commas between) by which buyers speak of it.
PREFERENCES = {
    "durable": "durable, durability, lasts, lasting, lasted, sturdy, robust, solid, tough, broke, broken",
    "cheap": "cheap, cheaper, inexpensive, affordable, budget, bargain, low price, expensive, overpriced",
    "good value": "value, worth, money, price",
    "light": "light, lightweight, weighs, weight, heavy, grams",
    "compact": "compact, small, folds, pocket, packs, bulky, tiny",
    "spacious": "spacious, roomy, room, large, big, space",
    "comfortable": "comfortable, comfort, comfy, soft, cosy, fits, cushioned",
    "quiet": "quiet, silent, noise, noisy, loud, hum",
    "easy to clean": "clean, cleans, cleaning, washable, wash, dishwasher, wipes",
    "easy to use": "easy, simple, intuitive, instructions, straightforward, fiddly",
    "fast": "fast, quick, quickly, speed, slow",
    "waterproof": "waterproof, rain, dry, wet, leak, leaks, leaked",
    "warm": "warm, warmth, cold, insulated, insulation",
    "safe": "safe, safety, secure, stable, wobbles",
    "beautiful": "beautiful, pretty, looks, design, colour, color, stylish, elegant",
    "natural": "natural, organic, wood, wooden, cotton, recycled, sustainable",
    "precise": "precise, accurate, exact, precision, sharp",
    "powerful": "powerful, power, strong, bright",
    "long battery": "battery, charge, charges, charging, runtime",
    "quality": "quality, well made, finish, workmanship",
}
_OPENINGS = (
    "Hi, I am looking for {query}. Can you help me?",
    "Hello! I need {query}, and I do not know where to start.",
    "Could you help me find {query}?",
)
_WISHES = (
    "What matters most to you, the price or the quality?",
    "Of course. How will you use it, and how much would you like to spend?",
    "Gladly. Do you have a brand or a budget in mind?",
)
_BUDGETS = (
    "I would not spend more than {budget} dollars, and it should last.",
    "It is for every day, and about {budget} dollars would be fine.",
    "No special brand. Up to {budget} dollars is what I can spend.",
)
_CURIOUS = ("Let me ask something first: what should I know about {topic}?", "And what about {topic}?")
_ANSWERS = ("Good question. {text}", "In short: {text}")
_OFFERS = (
    "With that in mind I would take the {title}, which costs {price:.0f} dollars.",
    "Then the {title} for {price:.0f} dollars should suit you.",
)
_BESIDE = " If you want to compare, look at the {other} as well."
_DETAILS = ("That sounds interesting. What else can you tell me about it?", "What is special about it?")
_CLOSINGS = (
    "That convinces me, I will take it. Thank you!",
    "Perfect, that is the one. Thanks for your help!",
)


def _pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def query(product: CatalogueProduct, most: int = 5) -> str:
    """A general query for a product's kind: its last category and the plain words of its title."""
    brand = set(words(product.title)[:1])
    title = [w for w in content_words(product.title) if w not in brand and not any(c.isdigit() for c in w)]
    kind = content_words(product.categories[-1]) if product.categories else []
    chosen = list(dict.fromkeys([*title[:3], *kind]))[:most]
    return " ".join(chosen) or "a product like this"


def conversation(
    target: CatalogueProduct,
    others: Sequence[CatalogueProduct],
    passages: Sequence[Passage],
    wish: str,
    rng: np.random.Generator,
) -> str:
    """A conversation of six to eight user turns about the target, in lines of ``U:`` and ``S:``.

    It asks about the first three passages; of those with one title the first counts, so that no question
    comes twice.
    """
    budget = int(target.price // 10 * 10 + 20)
    lines = [
        "U: " + _pick(rng, _OPENINGS).format(query=wish),
        "S: " + _pick(rng, _WISHES),
        "U: " + _pick(rng, _BUDGETS).format(budget=budget),
    ]
    by_title: dict[str, Passage] = {}
    for passage in passages:
        by_title.setdefault(passage.title, passage)
    known = list(by_title.values())[:3]
    if not known:
        lines.append("S: Thank you, that helps me to choose.")
        lines.append("U: Please take your time.")
    for place, passage in enumerate(known):
        lines.append("S: " + ("Thank you, that helps." if place == 0 else _pick(rng, _ANSWERS).format(
            text=known[place - 1].text)))  # fmt: skip
        topic = passage.title[:1].lower() + passage.title[1:] if passage.title else "it"
        lines.append("U: " + _CURIOUS[min(place, 1)].format(topic=topic))
    if known:
        lines.append("S: " + _pick(rng, _ANSWERS).format(text=known[-1].text))
        lines.append("U: Good to know. So which one would you choose for me?")
    offer = _pick(rng, _OFFERS).format(title=target.title, price=target.price)
    lines.append("S: " + offer + (_BESIDE.format(other=others[0].title) if others else ""))
    lines.append("U: " + _pick(rng, _DETAILS))
    lines.append("S: " + _told(target))
    lines.append("U: " + _pick(rng, _CLOSINGS))
    return "\n".join(lines)


def _told(target: CatalogueProduct) -> str:
    """Facts of the product, and what its most helpful reviewer says."""
    facts = [part.rstrip(".") for part in target.description[:3]]
    said = f"{'. '.join(facts)}." if facts else "It is what you described."
    best = target.best_reviews(1)
    return said + (f" A buyer writes: {best[0]['text']}" if best else "")


def summary(reviews: Sequence[str]) -> str:
    """A profile without a model: the preferences that the reviews show most often."""
    return f"This buyer cares about: {', '.join(keywords(reviews))}."


def keywords(reviews: Sequence[str], most: int = 5) -> list[str]:
    """Preferences that most of a user's reviews speak of, of equals in the order of ``PREFERENCES``.

    A preference is spoken of where one of its words stands. Reviews that show none give
    ``quality``, which every buyer wants.
    """
    said = [f" {' '.join(words(text))} " for text in reviews]
    counts = {
        name: sum(any(f" {cue} " in text for cue in cues.split(", ")) for text in said)
        for name, cues in PREFERENCES.items()
    }
    found = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    return found[:most] or ["quality"]
