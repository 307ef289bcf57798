"""``template``: replies made from the prompt by rule. It exercises every path without a model."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crs_lib.core.rng import address_seed
from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request, tokens_at_least
from crs_lib.llm.text import checked, likeliest

_DIGEST = "template-1"  # grows when the rules change
# An item of a list "- [id] Title (1999)": its id or "", and its title.
OFFERED = re.compile(r"^[ \t]*(?:[-*]|\d+[.)])[ \t]+(?:\[([^\]\n]+)\] ?)?(\S.*?) ?\(\d{4}\)", re.M)
_BLOCK = re.compile(r":[ \t]*\n(?P<block>(?:.+\n?)+)")
_LONGEST = 400  # characters of a text whose schema names no limit


def answer(prompt: str, schema: Mapping[str, Any] | None, seed: int) -> str:
    """A reply to a prompt, the same for the same prompt, schema and seed. Where the prompt offers a list it
    recommends an item of it; else it repeats the first block of lines that a colon announces. With a schema
    it is JSON that keeps it: numbers within their limits and choices among those allowed are drawn by
    ``seed``.
    """
    item, text = _words(prompt, seed)
    if schema is None:
        return text
    filler = _Filler(schema.get("$defs", {}), text, item, address_seed(seed, prompt))
    return json.dumps(filler.value(schema, "reply"), ensure_ascii=False)


def _words(prompt: str, seed: int) -> tuple[str, str]:
    """The id of the item that is recommended, if any, and the words of the reply."""
    offered = OFFERED.findall(prompt)
    if offered:
        item, title = offered[address_seed(seed, "template", prompt) % len(offered)]
        return item, f"How about {title}? It fits what you asked for."
    block = _BLOCK.search(prompt)
    if block is None:
        return "", "Noted."
    return "", " ".join(line.strip(" -") for line in block["block"].splitlines())


@dataclass(frozen=True)
class _Filler:
    """Makes the smallest value that keeps a schema."""

    definitions: Mapping[str, Any]
    text: str  # of the reply
    item: str  # that the text recommends
    seed: int

    def value(self, schema: Mapping[str, Any], path: str) -> Any:
        """The value at one path of the reply."""
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            return self.value(self.definitions[name], path)
        if alternatives:
            return self.value(alternatives[0], path)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._choice(schema["enum"], path)
        kind = schema.get("type", "object")
        if kind == "object":
            properties = schema.get("properties", {})
            return {name: self.value(part, f"{path}/{name}") for name, part in properties.items()}
        if kind == "array":
            return self._array(schema, path)
        return self._single(kind, schema, path)

    def _choice(self, allowed: list[Any], path: str) -> Any:
        if self.item in allowed:
            return self.item
        return allowed[self._draw(path, 0, len(allowed) - 1)]

    def _array(self, schema: Mapping[str, Any], path: str) -> list[Any]:
        element = schema.get("items", {"type": "string"})
        count = max(1, schema.get("minItems", 1))
        count = min(count, schema.get("maxItems", count))
        if element.get("type") == "string" and "enum" not in element:
            word = self.item or self.text.split()[0].lower()
            return [word] * count
        return [self.value(element, f"{path}/{index}") for index in range(count)]

    def _single(self, kind: str, schema: Mapping[str, Any], path: str) -> Any:
        if kind in ("integer", "number"):
            return self._draw(path, int(schema.get("minimum", 0)), int(schema.get("maximum", 9)))
        if kind == "boolean":
            return bool(self._draw(path, 0, 1))
        if kind == "null":
            return None
        return self.text[: schema.get("maxLength", _LONGEST)]

    def _draw(self, path: str, low: int, high: int) -> int:
        return low + address_seed(self.seed, path) % (high - low + 1)


@BACKENDS.register("template", kind="offline", choices=True)
class TemplateBackend(Backend):
    """Replies by rule from the prompt itself. No model, no evidence: its judge scores are draws."""

    spec = "template"

    def digest(self) -> str:
        """There are no weights: the version of the rules."""
        return _DIGEST

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """The reply; an error for tools, and for a schema that uses what the rules do not know."""
        if request.tools:
            raise LLMError("no tools", "the template calls no tools")
        prompt = "\n".join(message.content for message in request.messages)
        seed = address_seed(request.seed or 0, request.replicate)
        probabilities: dict[str, float] = {}
        if request.choices:
            index = address_seed(seed, "choice", prompt) % len(request.choices)
            probabilities = dict.fromkeys(request.choices, 0.0)
            probabilities[request.choices[index]] = 1.0
            text = likeliest(probabilities)
        else:
            text = answer(prompt, request.schema, seed)
        return Reply(
            text=checked(text, "stop", request.schema),
            digest=_DIGEST,
            tokens_in=tokens_at_least(request.messages),
            tokens_out=len(text.split()),
            probabilities=probabilities,
        )
