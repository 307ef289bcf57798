"""The pages, style sheets and scripts in ``movies/pages``, and how they are put together."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "pages"


@cache
def part(name: str) -> str:
    """The text of a file in ``movies/pages``: a page, a style sheet or a script."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def fill(page: str, parts: Mapping[str, str]) -> str:
    """A page with each ``{{name}}`` replaced, in one pass: what is put in is never read as a page again.

    Raises KeyError for a name without a part: a page and its code belong together.
    """
    head, *rest = page.split("{{")
    out = [head]
    for piece in rest:
        name, _, after = piece.partition("}}")
        out += [parts[name], after]
    return "".join(out)
