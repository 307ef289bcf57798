"""Conversations and profiles as text: prompts that fit, replies judged by rules, and a writer by rule.

The writer without a language model keeps the rules that models are held to (the target is named first by the
system, in the second half), so the whole pipeline runs offline; its language is plain on purpose.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words
from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.records import CatalogueProduct, Passage, Utterance
from crs_lib.cosrec.rewriting import content_words

CONTEXTS = (4096, 8192, 16384)
MOST_REVIEWS = 10
MOST_KEYWORDS = 5
_LINE = re.compile(r"^[\s>*_`#-]*(?:\*\*)?([US])(?:\*\*)?\s*:\s*(?:\*\*)?\s*(.*)$")
_INLINE = re.compile(r"(?<!\s)\s+(?=[US]: )")
_BRACKETS = re.compile(r"\[[^\]\n]{0,60}\]|\{[^}\n]{0,60}\}|<[a-z_ ]{2,40}>", re.IGNORECASE)
_PHRASES = "cosrec/template"  # phrases, and the words by which buyers speak of a preference


@dataclass(frozen=True)
class Material:
    """The material of a conversation prompt; the target is one of the products. Each product has so many
    ``reviews``, the first ``described`` of them a description; ``left_out`` names what went.
    """

    target: str
    products: tuple[CatalogueProduct, ...]
    passages: tuple[Passage, ...]
    reviews: int
    described: int
    left_out: tuple[str, ...] = ()

    def catalogue(self) -> str:
        """The products as numbered blocks; the target always has its description."""
        blocks = []
        for number, product in enumerate(self.products, start=1):
            described = product.id == self.target or number <= self.described
            blocks.append(f"{number}. {product.block(self.reviews, described)}")
        return "\n\n".join(blocks)

    def documents(self) -> str:
        """The passages, one a line."""
        pairs = enumerate(self.passages, start=1)
        return "\n".join(f"{number}. {passage.block()}" for number, passage in pairs)

    def less(self) -> "Material | None":
        """The material without its least important part; None where nothing can go. Material goes in this
        order: reviews, the last passages (two stay), descriptions of the last products, the last products.
        The target and its description stay.
        """
        if self.reviews:
            return self._without("a review of each product", reviews=self.reviews - 1)
        if len(self.passages) > 2:
            return self._without(f"passage {self.passages[-1].id}", passages=self.passages[:-1])
        if self.described:
            fewer = min(self.described, len(self.products)) - 1
            return self._without(f"description of product {fewer + 1}", described=fewer)
        others = [product for product in self.products if product.id != self.target]
        if not others:
            return None
        last = others[-1]
        products = tuple(product for product in self.products if product is not last)
        return self._without(f"product {last.id}", products=products)

    def _without(self, part: str, **changes: object) -> "Material":
        return replace(self, left_out=(*self.left_out, part), **changes)  # type: ignore[arg-type]


class Version(NamedTuple):
    """A prompt, and what it leaves out."""

    prompt: str
    left_out: tuple[str, ...]


def shrinking(material: Material, render: Callable[[Material], str]) -> Iterator[Version]:
    """The prompt of all material, then without its parts one after the other."""
    less: Material | None = material
    while less is not None:
        yield Version(render(less), less.left_out)
        less = less.less()


def fit(
    versions: Iterable[Version], about: str, count: Callable[[str], int], answer: int, contexts: Sequence[int]
) -> tuple[Version, int]:
    """The first version that a context holds with ``answer`` tokens of answer, and the smallest one. At most
    three context sizes are used, since a server reloads the model for each change. Raises InputError where no
    version fits.
    """
    if len(contexts) not in (1, 2, 3) or list(contexts) != sorted(set(contexts)):
        raise InputError(f"context sizes {list(contexts)}: give one to three, growing")
    needs = 0
    for version in versions:
        needs = count(version.prompt) + answer
        for size in contexts:
            if needs <= size:
                return version, size
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
    lines: list[Utterance] = []
    repairs: dict[str, None] = {}
    for line in _INLINE.sub("\n", text.strip()).splitlines():
        match = _LINE.match(line)
        content = match[2] if match else line
        clean = " ".join(content.split()).strip("*`").strip()
        if not match and not lines:
            repairs["dropped words before the first speaker"] = None
        elif match and (not lines or lines[-1].speaker != match[1]):
            lines.append(Utterance(match[1], clean))
        elif clean:
            repair = "joined lines of one speaker" if match else "joined a line without speaker"
            repairs[repair] = None
            last = lines[-1]
            lines[-1] = Utterance(last.speaker, f"{last.text} {clean}".strip())
    problems = []
    if lines:
        problems = [*_broken_form(lines, fewest, most), *_broken_order(lines, title)]
    else:
        problems.append("no line starts with 'U: ' or 'S: '")
    return Draft(tuple(lines), tuple(repairs), tuple(problems))


def _broken_form(lines: Sequence[Utterance], fewest: int, most: int) -> Iterator[str]:
    """The rules of form that a conversation breaks, in words. It must start with the user, alternate, have
    ``fewest`` to ``most`` user turns, no empty or repeated line and no placeholder, and be English.
    """
    speakers = "".join(line.speaker for line in lines)
    texts = [line.text for line in lines]
    if not speakers.startswith("U"):
        yield "the system speaks first"
    if "UU" in speakers or "SS" in speakers:
        yield "the two do not take turns"
    turns = speakers.count("U")
    if not fewest <= turns <= most:
        yield f"{turns} user turns, expected {fewest} to {most}"
    if "" in texts:
        yield "an empty line"
    if len(set(texts)) < len(texts):
        yield "a repeated line"
    bracket = _BRACKETS.search("\n".join(texts))
    if bracket:
        yield f"a placeholder: {bracket[0]}"
    foreign = [text for text in (" ".join(texts), *texts) if not is_english(text)]
    if foreign:
        yield f"not English: {language(foreign[0])}"


def _broken_order(lines: Sequence[Utterance], title: str) -> Iterator[str]:
    """Whether the target is named first by the system and in the second half."""
    name = " ".join(words(title)[:4])  # a text names a product by these words in a row
    for position, line in enumerate(lines):
        if name and f" {name} " in f" {fold(line.text)} ":
            if line.speaker == "U":
                yield "the user names the target first"
            elif position < len(lines) / 2:
                yield "the target is named in the first half"
            return
    yield "the target is never named"


def numbered(texts: Sequence[str]) -> str:
    """Texts as a prompt shows them: one a line, counted from 1."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, start=1))


def read_query(reply: str, most: int) -> str:
    """A query of a reply: in lower case, without quotation and question marks; InputError for more words."""
    plain = reply.replace('"', " ").replace("?", " ")
    query = " ".join(plain.split()).lower().strip(" .")
    length = len(query.split())
    if not 0 < length <= most:
        raise InputError(f"{length} words, expected 1 to {most}")
    return query


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
    parts = [" ".join(part.split()).lower() for part in inside.split(";")]
    keywords = list(dict.fromkeys(filter(None, parts)))
    if reply.count("{") != 1 or reply.count("}") != 1 or not keywords:
        raise InputError(f"expected one pair of braces with keywords, got {reply[:80]!r}")
    return keywords[:MOST_KEYWORDS]


class Profile(NamedTuple):
    """What a buyer cares about: a summary, and keywords."""

    summary: str
    keywords: list[str]


def profile_by_rule(user: str, texts: Sequence[str]) -> Profile:
    """Summary and keywords without a model; InputError for a user without reviews. Keywords are the
    preferences that most of the reviews speak of (one of a preference's words stands there), of equals the
    first; reviews that show none give ``quality``, which every buyer wants.
    """
    if not texts:
        raise InputError(f"user {user!r} has no reviews; a profile needs at least one")
    counts: Counter[str] = Counter()
    for preference, cues in prompts.lists(_PHRASES)["preferences"].items():
        any_cue = re.compile(f" (?:{cues.replace(', ', '|')}) ")
        for text in texts:
            if any_cue.search(f" {fold(text)} "):
                counts[preference] += 1
    keywords = [preference for preference, _ in counts.most_common(MOST_KEYWORDS)] or ["quality"]
    return Profile(f"This buyer cares about: {', '.join(keywords)}.", keywords)


def query_by_rule(product: CatalogueProduct, most: int = 5) -> str:
    """A general query for a product's kind: its last category and the plain words of its title."""
    brand = words(product.title)[:1]
    plain = []
    for word in content_words(product.title):
        if word not in brand and not re.search(r"\d", word):
            plain.append(word)
    kind = []
    if product.categories:
        kind = content_words(product.categories[-1])
    chosen = list(dict.fromkeys([*plain[:3], *kind]))
    return " ".join(chosen[:most]) or "a product like this"


def conversation_by_rule(
    target: CatalogueProduct,
    others: Sequence[CatalogueProduct],
    passages: Sequence[Passage],
    wish: str,
    rng: np.random.Generator,
) -> str:
    """A conversation of six to eight user turns about the target, in lines of ``U:`` and ``S:``. It asks
    about the first three passages; of those with one title the first counts, so that no question comes twice.
    """
    phrases = prompts.lists(_PHRASES)

    def say(name: str, **values: object) -> str:
        options = phrases[name]
        return str(options[int(rng.integers(len(options)))]).format(**values)

    by_title: dict[str, Passage] = {}
    for passage in passages:
        by_title.setdefault(passage.title, passage)
    sources = list(by_title.values())[:3]
    budget = int(target.price // 10 * 10 + 20)
    lines = [say("opening", query=wish), say("wish"), say("budget", budget=budget)]
    answer = "Thank you, that helps."
    for position, passage in enumerate(sources):
        if position:
            answer = say("answer", text=sources[position - 1].text)
        topic = passage.title[:1].lower() + passage.title[1:]
        question = phrases["curious"][min(position, 1)]
        lines += [answer, question.format(topic=topic or "it")]
    if sources:
        lines += [say("answer", text=sources[-1].text), "Good to know. So which one would you choose for me?"]
    else:
        lines += ["Thank you, that helps me to choose.", "Please take your time."]
    offer = say("offer", title=target.title, price=target.price)
    if others:
        offer += phrases["beside"][0].format(other=others[0].title)
    lines += [offer, say("details"), _facts(target), say("closing")]
    for position, line in enumerate(lines):
        lines[position] = f"{'US'[position % 2]}: {line}"
    return "\n".join(lines)


def _facts(target: CatalogueProduct) -> str:
    """What the system says of the target: its description, and its best review."""
    facts = "It is what you described."
    parts = [part.rstrip(".") for part in target.description[:3]]
    if parts:
        facts = f"{'. '.join(parts)}."
    for review in target.best_reviews(1):
        facts += f" A buyer writes: {review.text}"
    return facts
