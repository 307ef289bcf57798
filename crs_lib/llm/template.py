"""``template``: replies made from the prompt by rule. It exercises every path without a model."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crs_lib.core.rng import address_seed
from crs_lib.llm.base import BACKENDS, LLMError, Reply, Request, WithoutServer, tokens_at_least
from crs_lib.llm.text import checked, likeliest

_CANDIDATE = re.compile(
    r"^\s*(?:[-*]|\d+[.)])\s+(?:\[(?P<id>[^\]]+)\]\s*)?(?P<title>\S.*?)\s*\(\d{4}\)", re.M
)
_BLOCK = re.compile(r":[ \t]*\n(?P<block>(?:.+\n?)+)")


class Candidate(NamedTuple):
    """A movie that a prompt offers, as a list line ``- [id] Title (1999)``; the id may be absent."""

    id: str
    title: str


def candidates(prompt: str) -> list[Candidate]:
    """The movies that the list lines of a prompt offer, in order."""
    return [Candidate(m["id"] or "", m["title"]) for m in _CANDIDATE.finditer(prompt)]


def answer(prompt: str, schema: Mapping[str, Any] | None, seed: int) -> str:
    """A reply to a prompt, the same for the same prompt, schema and seed.

    Where the prompt offers movies, the reply recommends one of them; else it repeats the first block of
    lines that a colon announces, or says so where there is none. With a schema it is JSON that keeps it:
    numbers within their limits and choices among those allowed are drawn by ``seed``.
    """
    offered = candidates(prompt)
    pick = address_seed(seed, "template", prompt) % len(offered) if offered else -1
    chosen = offered[pick] if offered else None
    if chosen:
        text = f"How about {chosen.title}? It fits what you asked for."
    else:
        block = _BLOCK.search(prompt)
        text = " ".join(line.strip(" -") for line in block["block"].splitlines()) if block else "Noted."
    if schema is None:
        return text
    filler = _Filler(schema.get("$defs", {}), text, chosen.id if chosen else "", address_seed(seed, prompt))
    return json.dumps(filler.value(schema, "reply"), ensure_ascii=False)


class _Filler(NamedTuple):
    """Makes the smallest value that keeps a schema."""

    definitions: Mapping[str, Any]
    text: str
    item: str
    seed: int

    def value(self, schema: Mapping[str, Any], place: str) -> Any:
        """The value at one place of the schema."""
        if "$ref" in schema:
            return self.value(self.definitions[schema["$ref"].rsplit("/", 1)[-1]], place)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self.value(options[0], place)
        if "const" in schema:
            return schema["const"]
        if allowed := schema.get("enum"):
            return self.item if self.item in allowed else allowed[self._draw(place, 0, len(allowed) - 1)]
        return self._of_type(str(schema.get("type", "object")), schema, place)

    def _of_type(self, kind: str, schema: Mapping[str, Any], place: str) -> Any:
        if kind == "object":
            parts = schema.get("properties", {})
            return {name: self.value(part, f"{place}/{name}") for name, part in parts.items()}
        if kind == "array":
            item, wanted = schema.get("items", {"type": "string"}), max(1, schema.get("minItems", 1))
            wanted = min(wanted, schema.get("maxItems", wanted))
            if item.get("type") == "string" and "enum" not in item:
                return [self.item or self.text.split()[0].lower()] * wanted
            return [self.value(item, f"{place}/{i}") for i in range(wanted)]
        if kind in ("integer", "number"):
            return self._draw(place, int(schema.get("minimum", 0)), int(schema.get("maximum", 9)))
        if kind == "boolean":
            return bool(self._draw(place, 0, 1))
        return None if kind == "null" else self.text[: schema.get("maxLength", 400)]

    def _draw(self, place: str, low: int, high: int) -> int:
        return low + address_seed(self.seed, place) % (high - low + 1)


def _drawn(choices: Sequence[str], seed: int, prompt: str) -> str:
    return choices[address_seed(seed, "choice", prompt) % len(choices)]


@BACKENDS.register("template", kind="offline", choices=True)
class Template(WithoutServer):
    """Replies by rule from the prompt itself. No model, no evidence: its judge scores are draws."""

    spec = "template"

    def digest(self) -> str:
        """There are no weights; the number grows when the rules change."""
        return "template-1"

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """The reply; an error for tools, and for a schema that uses what the rules do not know."""
        if request.tools:
            raise LLMError("no tools", "the template calls no tools")
        prompt = "\n".join(message.content for message in request.messages)
        seed = address_seed(request.seed or 0, request.replicate)
        chances = {one: float(one == _drawn(request.choices, seed, prompt)) for one in request.choices}
        text = likeliest(chances) if chances else answer(prompt, request.schema, seed)
        return Reply(
            text=checked(text, "stop", request.schema), digest="template-1",
            tokens_in=tokens_at_least(request.messages), tokens_out=len(text.split()), probabilities=chances,
        )  # fmt: skip
