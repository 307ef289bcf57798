"""Prompts that fit: three context sizes, and a declared order in which material is left out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.cosrec.collections import CatalogueProduct, Passage

CONTEXTS = (4096, 8192, 16384)


class PromptMaterial(NamedTuple):
    """What goes into a conversation prompt; the target is one of the products."""

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
    material: PromptMaterial
    left_out: tuple[str, ...]


def fit(
    material: PromptMaterial,
    target: str,
    render: Callable[[PromptMaterial], str],
    count: Callable[[str], int],
    answer: int,
    contexts: Sequence[int] = CONTEXTS,
) -> Fitted:
    """The prompt in the smallest context that holds it and an answer of ``answer`` tokens.

    Where the largest is too small, material goes in this order: reviews, the last passages (two stay),
    descriptions of the last products, the last products. The target and its description stay. At most
    three context sizes are used, since a server reloads the model for each change. Raises InputError
    where even the rest does not fit.
    """
    if not contexts or len(contexts) > 3 or list(contexts) != sorted(set(contexts)):
        raise InputError(f"context sizes {list(contexts)}: give one to three, growing")
    left: list[str] = []
    while True:
        prompt = render(material)
        needs = count(prompt) + answer
        for size in contexts:
            if needs <= size:
                return Fitted(prompt, size, material, tuple(left))
        material, what = _less(material, target, needs)
        left.append(what)


def _less(material: PromptMaterial, target: str, needs: int) -> tuple[PromptMaterial, str]:
    """The material without its least important part."""
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
    raise InputError(
        f"the prompt about {target!r} may take {needs} tokens even without all that can be left out; "
        "use larger context sizes"
    )
