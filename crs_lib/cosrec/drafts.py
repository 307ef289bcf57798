"""Prompts that fit a context, and replies as data: a conversation judged by rules, a buyer's profile."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec import template
from crs_lib.cosrec.collections import CatalogueProduct, Passage
from crs_lib.cosrec.language import language
from crs_lib.cosrec.records import Utterance

CONTEXTS = (4096, 8192, 16384)


class PromptMaterial(NamedTuple):
    """The material of a conversation prompt; the target is one of the products."""

    products: tuple[CatalogueProduct, ...]
    passages: tuple[Passage, ...]
    reviews: int
    described: int

    def catalogue(self, target: str) -> str:
        """The products as numbered blocks; the target always has its description."""
        blocks = [
            f"{n}. {p.block(self.reviews, p.asin == target or n <= self.described)}"
            for n, p in enumerate(self.products, start=1)
        ]
        return "\n\n".join(blocks)

    def documents(self) -> str:
        """The passages, one a line."""
        return "\n".join(f"{n}. {p.block()}" for n, p in enumerate(self.passages, start=1))


class Fitted(NamedTuple):
    """A prompt, the context size to ask for, and what was left out to get there."""

    prompt: str
    context: int
    left_out: tuple[str, ...]


Version = tuple[str, tuple[str, ...]]  # a prompt, and what it leaves out


def fit(
    versions: Iterable[Version],
    about: str,
    count: Callable[[str], int],
    answer: int,
    contexts: Sequence[int] = CONTEXTS,
) -> Fitted:
    """The first version that a context holds with ``answer`` tokens of answer, in the smallest one.

    At most three context sizes are used, since a server reloads the model for each change. Raises InputError
    where no version fits.
    """
    if not contexts or len(contexts) > 3 or list(contexts) != sorted(set(contexts)):
        raise InputError(f"context sizes {list(contexts)}: give one to three, growing")
    needs = 0
    for prompt, left in versions:
        needs = count(prompt) + answer
        for size in contexts:
            if needs <= size:
                return Fitted(prompt, size, left)
    raise InputError(
        f"the prompt about {about!r} may take {needs} tokens even without all that can be left out; "
        "use larger context sizes"
    )


def shrinking(
    material: PromptMaterial, target: str, render: Callable[[PromptMaterial], str]
) -> Iterator[Version]:
    """The prompt of all material, then without its parts one after the other.

    Material goes in this order: reviews, the last passages (two stay), descriptions of the last products, the
    last products. The target and its description stay.
    """
    left: list[str] = []
    while True:
        yield render(material), tuple(left)
        less = _less(material, target)
        if less is None:
            return
        material = less[0]
        left.append(less[1])


def _less(material: PromptMaterial, target: str) -> tuple[PromptMaterial, str] | None:
    """The material without its least important part, and that part; None where nothing can go."""
    if material.reviews:
        return material._replace(reviews=material.reviews - 1), "a review of each product"
    if len(material.passages) > 2:
        return material._replace(passages=material.passages[:-1]), f"passage {material.passages[-1].id}"
    if material.described:
        fewer = min(material.described, len(material.products)) - 1
        return material._replace(described=fewer), f"description of product {fewer + 1}"
    others = [p for p in material.products if p.asin != target]
    if others:
        kept = tuple(p for p in material.products if p is not others[-1])
        return material._replace(products=kept), f"product {others[-1].asin}"
    return None


MOST_REVIEWS, MOST_KEYWORDS = 10, 5
_LINE = re.compile(r"^[\s>*_`#-]*(?:\*\*)?([US])(?:\*\*)?\s*:\s*(?:\*\*)?\s*(.*)$")
_INLINE = re.compile(r"\s+(?=[US]: )")
_BRACKETS = re.compile(r"\[[^\]\n]{0,60}\]|\{[^}\n]{0,60}\}|<[a-z_ ]{2,40}>", re.IGNORECASE)


class Draft(NamedTuple):
    """A read conversation, the repairs that it took, and the rules that it breaks (empty = accepted)."""

    lines: tuple[Utterance, ...]
    repairs: tuple[str, ...]
    problems: tuple[str, ...]

    def text(self) -> str:
        """The conversation in the form of the corpus: ``U: …`` and ``S: …`` lines."""
        return "\n".join(f"{speaker}: {text}" for speaker, text in self.lines)


def read(text: str) -> tuple[list[Utterance], list[str]]:
    """The lines of a reply, and the repairs that reading it took.

    Words before the first speaker are dropped, several utterances in a line are split, lines without a
    speaker join the one before, and two lines of one speaker in a row become one.
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
    return said, [name for name in repairs if name]


def names(text: str, title: str) -> bool:
    """Whether a text names a product: the first four words of its title stand there in a row."""
    wanted, have = words(title)[:4], words(text)
    size = len(wanted)
    return size > 0 and any(have[i : i + size] == wanted for i in range(len(have) - size + 1))


def check(lines: Sequence[Utterance], title: str, fewest: int, most: int) -> list[str]:
    """The rules that a conversation breaks, in words; empty for a good one.

    It must start with the user, alternate, have ``fewest`` to ``most`` user turns, have no empty or repeated
    line and no placeholder, be English, and name the target first by the system and in the second half.
    """
    if not lines:
        return ["no line starts with 'U: ' or 'S: '"]
    found = []
    speakers = "".join(line.speaker for line in lines)
    if speakers[0] != "U":
        found.append("the system speaks first")
    if "UU" in speakers or "SS" in speakers:
        found.append("the two do not take turns")
    if not fewest <= speakers.count("U") <= most:
        found.append(f"{speakers.count('U')} user turns, expected {fewest} to {most}")
    if any(not line.text for line in lines):
        found.append("an empty line")
    if len({line.text for line in lines}) < len(lines):
        found.append("a repeated line")
    brackets = next((m[0] for line in lines if (m := _BRACKETS.search(line.text))), None)
    if brackets:
        found.append(f"a placeholder: {brackets}")
    verdict = language(" ".join(line.text for line in lines))
    odd = [line for line in lines if not language(line.text).english]
    if not verdict.english or odd:
        found.append(
            f"not English: {verdict.language if not verdict.english else language(odd[0].text).language}"
        )
    first = next((i for i, line in enumerate(lines) if names(line.text, title)), None)
    if first is None:
        found.append("the target is never named")
    elif lines[first].speaker != "S":
        found.append("the user names the target first")
    elif first < len(lines) / 2:
        found.append("the target is named in the first half")
    return found


def judge(text: str, title: str, fewest: int, most: int) -> Draft:
    """Read, repair and check one reply."""
    lines, repairs = read(text)
    return Draft(tuple(lines), tuple(repairs), tuple(check(lines, title, fewest, most)))


def review_texts(reviews: Sequence[Mapping[str, Any]]) -> list[str]:
    """Up to ten reviews, in the order given, each as title and text."""
    return [f"{review['title']}. {review['text']}" for review in reviews[:MOST_REVIEWS]]


def numbered(texts: Sequence[str]) -> str:
    """The reviews as a prompt shows them: one a line, counted from 1."""
    return "\n".join(f"{n}. {' '.join(text.split())}" for n, text in enumerate(texts, start=1))


def read_summary(reply: str) -> str:
    """A summary on one line; InputError for an empty reply."""
    found = " ".join(reply.split())
    if not found:
        raise InputError("expected a description, got an empty reply")
    return found


def read_keywords(reply: str) -> list[str]:
    """The keywords of a reply ``{first; second}``: in lower case, each once, at most five.

    Raises InputError where there is not exactly one pair of braces, or nothing inside.
    """
    inside = reply.partition("{")[2].partition("}")[0]
    found = list(dict.fromkeys(" ".join(part.split()).lower() for part in inside.split(";") if part.strip()))
    if reply.count("{") != 1 or reply.count("}") != 1 or not found:
        raise InputError(f"expected one pair of braces with keywords, got {reply[:80]!r}")
    return found[:MOST_KEYWORDS]


def profile_by_rule(user: str, texts: Sequence[str]) -> dict[str, Any]:
    """Summary and keywords without a model; InputError for a user without reviews."""
    if not texts:
        raise InputError(f"user {user!r} has no reviews; a profile needs at least one")
    return {
        "user": user, "summary": template.summary(texts), "keywords": template.keywords(texts),
        "reviews": len(texts), "writer": "template",
    }  # fmt: skip
