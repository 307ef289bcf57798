"""What a model that words replies reads: the tracked wishes, the films on offer, the quoted conversation."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from crs_lib import prompts
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.llm.base import Message
from crs_lib.llm.limits import room, tokens_at_most, tokens_of
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import fence, one_line

TURN_LIMIT = 2_000  # characters of one utterance that the model reads
_NOTHING = "- nothing that is recorded yet"


class Prompt(NamedTuple):
    """The text of a prompt, and how many of the oldest utterances did not fit into it."""

    text: str
    lines_left_out: int

    def left_out(self) -> dict[str, Any]:
        """The record of what was left out; empty where everything fits."""
        return {"utterances_left_out": self.lines_left_out} if self.lines_left_out else {}


class Line(NamedTuple):
    """An utterance as a prompt quotes it, and the tokens that it may take with its line end."""

    text: str
    tokens: int


def quote(speaker: str, text: str) -> Line:
    """An utterance as one JSON string of at most 2,000 characters."""
    line = f"{speaker}: {one_line(shorten(text, TURN_LIMIT))}"
    return Line(line, tokens_of(line) + 1)


def prompt(
    catalog: Catalog,
    wishes: Mapping[str, str],
    offered: Sequence[int],
    lines: Sequence[Line],
    rule: LLMSettings,
    spare: int = 0,
) -> Prompt:
    """The prompt for the next reply. ``lines`` are the utterances, oldest first, the user's last.

    As many of the latest utterances as fit into the context are quoted, ``spare`` tokens left free for
    further messages; the last utterance always is.
    """
    name = "movies/crs_reply_json" if rule.structured else "movies/crs_reply"
    values: dict[str, str | int] = {
        "wishes": "\n".join(f"- {name}: {value}" for name, value in wishes.items()) or _NOTHING,
        "candidates": "\n".join(film(catalog, item, with_id=rule.structured) for item in offered),
        "most": min(rule.most, len(offered)),
    }
    bare = prompts.render(name, **values, conversation="", fence="0" * 16)
    free = room(rule.options) - tokens_at_most([Message("user", bare)]) - spare
    shown, needed = len(lines), sum(line.tokens for line in lines)
    while shown > 1 and needed > free:
        needed -= lines[-shown].tokens
        shown -= 1
    kept = [line.text for line in lines[-shown:]]
    text = prompts.render(name, **values, conversation="\n".join(kept), fence=fence(kept))
    return Prompt(text, len(lines) - shown)


@lru_cache(maxsize=4096)
def film(catalog: Catalog, item: int, *, with_id: bool) -> str:
    """A film on offer as one line: id, title, year, then what is known of it."""
    one = catalog.items[item]
    values = one.values
    facts = [", ".join(values["genre"][:3])] if values["genre"] else []
    facts += [f"directed by {listing(values['director'][:2])}"] if values["director"] else []
    facts += [f"with {listing(values['actor'][:3])}"] if values["actor"] else []
    facts += [f"in {listing(values['language'][:2])}"] if values["language"] else []
    if one.plot:
        facts.append(shorten(one.plot, 200))
    head = f"- [{one.item_id}] " if with_id else "- "
    year = f" ({one.year})" if one.year else ""
    return " ".join(f"{head}{one.title}{year}{': ' if facts else ''}{'; '.join(facts)}".split())


def again(foreign: Sequence[str]) -> Message:
    """What is said to a model whose reply named films outside the catalogue."""
    named = ", ".join(one_line(shorten(title, 120)) for title in foreign[:10])
    return Message("user", prompts.render("movies/crs_again", foreign=named))


def longest(catalog: Catalog, rule: LLMSettings) -> int:
    """Tokens that the longest prompt of this catalogue may take before the context bounds it.

    The longest films on offer, a wish in every field, and a question and a reply of full length. Raises
    InputError for an empty catalogue.
    """
    if not len(catalog):
        raise InputError("the catalogue holds no film; there is nothing to recommend")
    lengths = sorted(range(len(catalog)), key=lambda i: -len(film(catalog, i, with_id=True)))
    lines = "\n".join(film(catalog, i, with_id=True) for i in lengths[: rule.offered])
    bare = prompts.source("movies/crs_reply_json" if rule.structured else "movies/crs_reply")
    return tokens_at_most([Message("user", f"{bare}{lines}{'x' * (TURN_LIMIT + 600)}")])
