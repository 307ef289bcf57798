"""``template``: replies made from the prompt by rule. It exercises every path without a model."""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from crs_lib.core.rng import address_seed
from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request, tokens_at_least
from crs_lib.llm.text import checked, likeliest

# A film of a list "- [id] Title (1999)": its id or "", and its title.
_OFFERED = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(?:\[([^\]]+)\]\s*)?(\S.*?)\s*\(\d{4}\)", re.M)
_BLOCK = re.compile(r":[ \t]*\n(?P<block>(?:.+\n?)+)")


def answer(prompt: str, schema: Mapping[str, Any] | None, seed: int) -> str:
    """A reply to a prompt, the same for the same prompt, schema and seed. Where the prompt offers movies it
    recommends one; else it repeats the first block of lines that a colon announces. With a schema it is JSON
    that keeps it: numbers within their limits and choices among those allowed are drawn by ``seed``.
    """
    offered, item = _OFFERED.findall(prompt), ""
    if offered:
        item, title = offered[address_seed(seed, "template", prompt) % len(offered)]
        text = f"How about {title}? It fits what you asked for."
    else:
        block = _BLOCK.search(prompt)
        text = " ".join(line.strip(" -") for line in block["block"].splitlines()) if block else "Noted."
    if schema is None:
        return text
    seed = address_seed(seed, prompt)
    return json.dumps(_filled(schema, "reply", schema.get("$defs", {}), text, item, seed), ensure_ascii=False)


def _filled(
    schema: Mapping[str, Any], place: str, definitions: Mapping[str, Any], text: str, item: str, seed: int
) -> Any:
    """The smallest value that keeps a schema, at one place of the reply."""
    below = partial(_filled, definitions=definitions, text=text, item=item, seed=seed)

    def draw(low: int, high: int) -> int:
        return low + address_seed(seed, place) % (high - low + 1)

    if "$ref" in schema:
        return below(definitions[schema["$ref"].rsplit("/", 1)[-1]], place)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return below(options[0], place)
    if "const" in schema:
        return schema["const"]
    if allowed := schema.get("enum"):
        return item if item in allowed else allowed[draw(0, len(allowed) - 1)]
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: below(part, f"{place}/{name}") for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        of, wanted = schema.get("items", {"type": "string"}), max(1, schema.get("minItems", 1))
        wanted = min(wanted, schema.get("maxItems", wanted))
        if of.get("type") == "string" and "enum" not in of:
            return [item or text.split()[0].lower()] * wanted
        return [below(of, f"{place}/{i}") for i in range(wanted)]
    if kind in ("integer", "number"):
        return draw(int(schema.get("minimum", 0)), int(schema.get("maximum", 9)))
    if kind == "boolean":
        return bool(draw(0, 1))
    return None if kind == "null" else text[: schema.get("maxLength", 400)]


@BACKENDS.register("template", kind="offline", choices=True)
class _Template(Backend):
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
        seed, chances = address_seed(request.seed or 0, request.replicate), dict[str, float]()
        if request.choices:
            drawn = request.choices[address_seed(seed, "choice", prompt) % len(request.choices)]
            chances = {one: float(one == drawn) for one in request.choices}
        text = likeliest(chances) if chances else answer(prompt, request.schema, seed)
        return Reply(
            text=checked(text, "stop", request.schema), digest="template-1",
            tokens_in=tokens_at_least(request.messages), tokens_out=len(text.split()), probabilities=chances,
        )  # fmt: skip
