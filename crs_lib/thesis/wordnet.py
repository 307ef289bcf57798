"""Noun lemmas by WordNet's own files, as NLTK's WordNetLemmatizer gives them.

WordNet is not part of this package: Debian's ``wordnet-base`` has it, and so has NLTK's data. Two of its
files are read, ``index.noun`` (the nouns) and ``noun.exc`` (irregular plurals).
Source: Fellbaum (1998), WordNet; the rules are those of its function Morphy.
"""

import os
from functools import lru_cache
from pathlib import Path

from crs_lib.core import outside, paths
from crs_lib.core.errors import InputError

_ENDS = (
    ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
    ("men", "man"), ("ies", "y"),
)  # fmt: skip
_FILES = ("index.noun", "noun.exc")


def folder() -> Path:
    """Where WordNet lies: ``WNSEARCHDIR``, Debian's place, or NLTK's data.

    Raises InputError with the way to get it where it is in none of them.
    """
    named = os.environ.get("WNSEARCHDIR")
    data = [os.environ.get("NLTK_DATA", ""), "~/nltk_data"]
    usual = ["/usr/share/wordnet", *(f"{place}/corpora/wordnet" for place in data if place)]
    places = [paths.given(place) for place in ([named] if named else usual)]
    for place in places:
        if all((place / name).is_file() for name in _FILES):
            return place
    raise InputError(
        f"no WordNet ({' and '.join(_FILES)}) in {', '.join(map(paths.shown, places))}; install Debian's "
        "wordnet-base, or unpack WordNet 3.0 and set WNSEARCHDIR to its folder dict"
    )


class NounLemmas:
    """The noun lemma of a word, by WordNet 3.0."""

    def __init__(self, nouns: set[str], irregular: dict[str, tuple[str, ...]]) -> None:
        self._nouns, self._irregular = nouns, irregular

    @classmethod
    @outside.reader("WordNet")
    def load(cls, place: str | Path) -> "NounLemmas":
        """Read ``index.noun`` and ``noun.exc`` of a folder."""
        nouns, plurals = ((Path(place) / name).read_text(encoding="utf-8").splitlines() for name in _FILES)
        pairs = (line.split() for line in plurals)
        return cls(
            {line.partition(" ")[0] for line in nouns if not line.startswith(" ")},
            {words[0]: tuple(words[1:]) for words in pairs if words},
        )

    @lru_cache(maxsize=100_000)  # noqa: B019 - one instance a process
    def __call__(self, word: str) -> str:
        """The shortest noun that the word may be a form of; the word itself where WordNet has none."""
        rules = (word[: -len(end)] + new for end, new in _ENDS if word.endswith(end))
        forms = (word, *self._irregular.get(word, rules))
        return min((form for form in forms if form in self._nouns), key=len, default=word)


__all__ = ["NounLemmas", "folder"]
