"""Prompts that fit: three context sizes, and a declared order in which material is left out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.cosrec.collections import CatalogueProduct, Passage

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
