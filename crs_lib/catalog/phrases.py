"""Constraints as noun phrases: "comedy films with Buster Keaton in English"."""

from collections.abc import Mapping

import numpy as np

from crs_lib.prompts.wording import phrase

_ORDER = ("actor", "director", "writer", "language", "year")


def wish(wishes: Mapping[str, str], draw: np.random.Generator) -> str:
    """Wishes as one noun phrase: "comedy films with Buster Keaton in English".

    An empty mapping gives "good films".
    """
    noun = phrase("user", "noun", draw)
    if not wishes:
        return f"good {noun}"
    parts = [f"{wishes['genre'].lower()} {noun}" if "genre" in wishes else noun]
    parts += [
        phrase("user", f"phrase_{field}", draw, value=wishes[field]) for field in _ORDER if field in wishes
    ]
    return " ".join(parts)


def bridge(field: str, value: str, draw: np.random.Generator) -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    return phrase("user", f"bridge_{field}", draw, value=value)
