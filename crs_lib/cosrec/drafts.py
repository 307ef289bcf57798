"""Conversations and profiles as text: prompts that fit, replies judged by rules, and a writer by rule.

The writer without a language model keeps the rules that models are held to (the target is named first by the
system, in the second half), so the whole pipeline runs offline; its language is plain on purpose.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.index import CatalogueProduct, Passage
from crs_lib.cosrec.records import Utterance
from crs_lib.cosrec.rewriting import content_words

T = TypeVar("T")
CONTEXTS = (4096, 8192, 16384)
MOST_REVIEWS, MOST_KEYWORDS = 10, 5
_LINE = re.compile(r"^[\s>*_`#-]*(?:\*\*)?([US])(?:\*\*)?\s*:\s*(?:\*\*)?\s*(.*)$")
_INLINE = re.compile(r"\s+(?=[US]: )")
_BRACKETS = re.compile(r"\[[^\]\n]{0,60}\]|\{[^}\n]{0,60}\}|<[a-z_ ]{2,40}>", re.IGNORECASE)
_PHRASES = "cosrec/template"  # phrases, and the words by which buyers speak of a preference


class Material(NamedTuple):
    """The material of a conversation prompt; the target is one of the products."""

    products: tuple[CatalogueProduct, ...]
    passages: tuple[Passage, ...]
    reviews: int
    described: int

    def catalogue(self, target: str) -> str:
        """The products as numbered blocks; the target always has its description."""
        blocks = [
            f"{n}. {p.block(self.reviews, p.id == target or n <= self.described)}"
            for n, p in enumerate(self.products, start=1)
        ]
        return "\n\n".join(blocks)

    def documents(self) -> str:
        """The passages, one a line."""
        return "\n".join(f"{n}. {p.block()}" for n, p in enumerate(self.passages, start=1))

    def less(self, target: str) -> "tuple[Material, str] | None":
        """The material without its least important part, and that part; None where nothing can go. Material
        goes in this order: reviews, the last passages (two stay), descriptions of the last products, the last
        products. The target and its description stay.
        """
        if self.reviews:
            return self._replace(reviews=self.reviews - 1), "a review of each product"
        if len(self.passages) > 2:
            return self._replace(passages=self.passages[:-1]), f"passage {self.passages[-1].id}"
        if self.described:
            fewer = min(self.described, len(self.products)) - 1
            return self._replace(described=fewer), f"description of product {fewer + 1}"
        others = [p for p in self.products if p.id != target]
        kept = tuple(p for p in self.products if p not in others[-1:])
        return (self._replace(products=kept), f"product {others[-1].id}") if others else None


class _Fitted(NamedTuple):
    """A prompt, the context size to ask for, and what was left out to get there."""

    prompt: str
    context: int
    left_out: tuple[str, ...]


Version = tuple[str, tuple[str, ...]]  # a prompt, and what it leaves out


def shrinking(material: Material, target: str, render: Callable[[Material], str]) -> Iterator[Version]:
    """The prompt of all material, then without its parts one after the other."""
    left: tuple[str, ...] = ()
    yield render(material), left
    while less := material.less(target):
        material, left = less[0], (*left, less[1])
        yield render(material), left


def fit(
    versions: Iterable[Version], about: str, count: Callable[[str], int], answer: int, contexts: Sequence[int]
) -> _Fitted:
    """The first version that a context holds with ``answer`` tokens of answer, in the smallest one. At most
    three context sizes are used, since a server reloads the model for each change. Raises InputError where no
    version fits.
    """
    if not contexts or len(contexts) > 3 or list(contexts) != sorted(set(contexts)):
        raise InputError(f"context sizes {list(contexts)}: give one to three, growing")
    needs = 0
    for prompt, left in versions:
        needs = count(prompt) + answer
        for size in contexts:
            if needs <= size:
                return _Fitted(prompt, size, left)
    raise InputError(f"the shortest prompt about {about!r} may take {needs} tokens; use larger context sizes")


class Draft(NamedTuple):
    """A read conversation, the repairs that it took, and the rules that it breaks (empty = accepted)."""

    lines: tuple[Utterance, ...]
    repairs: tuple[str, ...]
    problems: tuple[str, ...]

    def text(self) -> str:
        """The conversation in the form of the corpus: ``U: …`` and ``S: …`` lines."""
        return "\n".join(f"{speaker}: {text}" for speaker, text in self.lines)


def judge(text: str, title: str, fewest: int, most: int) -> Draft:
    """Read, repair and check one reply. Words before the first speaker are dropped, several utterances in a
    line are split, lines without a speaker join the one before, and two lines of one speaker in a row become
    one.
    """
    said: list[Utterance] = []
    repairs: dict[str, None] = {}
    for line in _INLINE.sub("\n", text.strip()).splitlines():
        match = _LINE.match(line)
        clean = " ".join((match[2] if match else line).split()).strip("*`").strip()
        if not match and not said:
            repairs["dropped words before the first speaker"] = None
        elif match and (not said or said[-1].speaker != match[1]):
            said.append(Utterance(match[1], clean))
        elif clean:
            repairs["joined lines of one speaker" if match else "joined a line without speaker"] = None
            said[-1] = Utterance(said[-1].speaker, f"{said[-1].text} {clean}".strip())
    return Draft(tuple(said), tuple(repairs), tuple(_broken_rules(said, title, fewest, most)))


def _broken_rules(lines: Sequence[Utterance], title: str, fewest: int, most: int) -> list[str]:
    """The rules that a conversation breaks, in words; empty for a good one. It must start with the user,
    alternate, have ``fewest`` to ``most`` user turns, have no empty or repeated line and no placeholder, be
    English, and name the target first by the system and in the second half.
    """
    if not lines:
        return ["no line starts with 'U: ' or 'S: '"]
    speakers, texts = "".join(line.speaker for line in lines), [line.text for line in lines]
    brackets = next((match[0] for text in texts if (match := _BRACKETS.search(text))), None)
    foreign = next((text for text in (" ".join(texts), *texts) if not is_english(text)), None)
    wanted = f" {' '.join(words(title)[:4])} "  # a text names a product by these words in a row
    named = (i for i, text in enumerate(texts) if wanted.strip() and wanted in f" {' '.join(words(text))} ")
    first = next(named, None)
    by_system, asked = first is not None and speakers[first] == "S", speakers.count("U")
    rules = {
        "the system speaks first": speakers[0] != "U",
        "the two do not take turns": "UU" in speakers or "SS" in speakers,
        f"{asked} user turns, expected {fewest} to {most}": not fewest <= asked <= most,
        "an empty line": "" in texts,
        "a repeated line": len(set(texts)) < len(texts),
        f"a placeholder: {brackets}": brackets is not None,
        f"not English: {language(foreign or '')}": foreign is not None,
        "the target is never named": first is None,
        "the user names the target first": first is not None and not by_system,
        "the target is named in the first half": by_system and (first or 0) < len(lines) / 2,
    }
    return [rule for rule, broken in rules.items() if broken]


def numbered(texts: Sequence[str]) -> str:
    """The reviews as a prompt shows them: one a line, counted from 1."""
    return "\n".join(f"{n}. {' '.join(text.split())}" for n, text in enumerate(texts, start=1))


def read_summary(reply: str) -> str:
    """A summary on one line; InputError for an empty reply."""
    if not reply.split():
        raise InputError("expected a description, got an empty reply")
    return " ".join(reply.split())


def read_keywords(reply: str) -> list[str]:
    """The keywords of a reply ``{first; second}``: in lower case, each once, at most five. Raises InputError
    where there is not exactly one pair of braces, or nothing inside.
    """
    inside = reply.partition("{")[2].partition("}")[0]
    found = list(dict.fromkeys(" ".join(part.split()).lower() for part in inside.split(";") if part.strip()))
    if reply.count("{") != 1 or reply.count("}") != 1 or not found:
        raise InputError(f"expected one pair of braces with keywords, got {reply[:80]!r}")
    return found[:MOST_KEYWORDS]


def profile_by_rule(user: str, texts: Sequence[str]) -> dict[str, Any]:
    """Summary and keywords without a model; InputError for a user without reviews. Keywords are the
    preferences that most of the reviews speak of (one of a preference's words stands there), of equals the
    first; reviews that show none give ``quality``, which every buyer wants.
    """
    if not texts:
        raise InputError(f"user {user!r} has no reviews; a profile needs at least one")
    said = [f" {' '.join(words(text))} " for text in texts]
    counts = {
        name: sum(any(f" {cue} " in text for cue in cues.split(", ")) for text in said)
        for name, cues in prompts.lists(_PHRASES)["preferences"].items()
    }
    found = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    keywords = found[:MOST_KEYWORDS] or ["quality"]
    summary = f"This buyer cares about: {', '.join(keywords)}."
    written = {"summary": summary, "keywords": keywords, "reviews": len(texts), "writer": "template"}
    return {"user": user, **written}


def query_by_rule(product: CatalogueProduct, most: int = 5) -> str:
    """A general query for a product's kind: its last category and the plain words of its title."""
    brand = set(words(product.title)[:1])
    title = [w for w in content_words(product.title) if w not in brand and not any(c.isdigit() for c in w)]
    kind = content_words(product.categories[-1]) if product.categories else []
    chosen = list(dict.fromkeys([*title[:3], *kind]))[:most]
    return " ".join(chosen) or "a product like this"


def conversation_by_rule(
    target: CatalogueProduct, others: Sequence[CatalogueProduct], passages: Sequence[Passage], wish: str,
    rng: np.random.Generator,
) -> str:  # fmt: skip
    """A conversation of six to eight user turns about the target, in lines of ``U:`` and ``S:``. It asks
    about the first three passages; of those with one title the first counts, so that no question comes twice.
    """
    phrases = prompts.lists(_PHRASES)

    def say(name: str, **values: Any) -> str:
        return str(phrases[name][int(rng.integers(len(phrases[name])))]).format(**values)

    by_title = {passage.title: passage for passage in reversed(passages)}
    known = [by_title[title] for title in dict.fromkeys(passage.title for passage in passages)][:3]
    lines = [say("opening", query=wish), say("wish"), say("budget", budget=int(target.price // 10 * 10 + 20))]
    for place, passage in enumerate(known):
        lines.append(say("answer", text=known[place - 1].text) if place else "Thank you, that helps.")
        topic = passage.title[:1].lower() + passage.title[1:] if passage.title else "it"
        lines.append(phrases["curious"][min(place, 1)].format(topic=topic))
    if known:
        lines += [say("answer", text=known[-1].text), "Good to know. So which one would you choose for me?"]
    else:
        lines += ["Thank you, that helps me to choose.", "Please take your time."]
    beside = phrases["beside"][0].format(other=others[0].title) if others else ""
    lines.append(say("offer", title=target.title, price=target.price) + beside)
    facts = [part.rstrip(".") for part in target.description[:3]]
    told = f"{'. '.join(facts)}." if facts else "It is what you described."
    told += "".join(f" A buyer writes: {review['text']}" for review in target.best_reviews(1))
    lines += [say("details"), told, say("closing")]
    return "\n".join(f"{'US'[place % 2]}: {line}" for place, line in enumerate(lines))
