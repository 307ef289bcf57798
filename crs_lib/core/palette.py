"""One colour for each catalogue field, wherever a text shows what was found in it: notebooks, trace, site."""

import zlib
from typing import NamedTuple


class Tint(NamedTuple):
    """The background of a mark as hex colours: for dark ink on light pages, for light ink on dark pages."""

    light: str
    dark: str


# Okabe-Ito hues, light (dark) enough to read black (white) text on.
TINTS = (
    Tint("#cfe8f7", "#1f4a63"),
    Tint("#fbe0b2", "#5f4614"),
    Tint("#cdeadf", "#1d4d3d"),
    Tint("#f7d3e5", "#5c2845"),
    Tint("#f1eb9c", "#4e4a10"),
    Tint("#dcd3f2", "#423566"),
    Tint("#e4e4e4", "#45484c"),
    Tint("#f9cdbb", "#633524"),
)
_PLACES = {
    name: place
    for place, name in enumerate(
        ("genre", "actor", "director", "writer", "language", "plot", "year", "title")
    )
}


def place(field: str) -> int:
    """The place of a field's colours in ``TINTS``: declared, or else by a hash of the name."""
    return _PLACES.get(field, zlib.crc32(field.encode()) % len(TINTS))


def tint(field: str) -> Tint:
    """The colours of a field."""
    return TINTS[place(field)]


def css() -> str:
    """The colours as rules of a style sheet: ``.f0`` to ``.f7``, light and dark."""
    light = "; ".join(f"--f{number}: {one.light}" for number, one in enumerate(TINTS))
    dark = "; ".join(f"--f{number}: {one.dark}" for number, one in enumerate(TINTS))
    rules = " ".join(f".f{number} {{ background: var(--f{number}); }}" for number in range(len(TINTS)))
    return f":root {{ {light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}; }} }}\n{rules}\n"
