"""Words for topic models: tokens, noun lemmas, and the thesis's filter of what counts as a topic.

No word list is downloaded. A plural gives way to its singular (by the library inflect) where the model knows
the singular; a word that the model knows stays as it is. The thesis used NLTK with WordNet.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

_EDGES = str.maketrans(dict.fromkeys(',:;@#$%&?!*()[]{}<>"“”„‘’«»`', " "))
_TOKEN = re.compile(r"([^\W\d_]{3,}?)(?:n't|'(?:s|m|d|ll|re|ve)?)?(?:\.'?)?")
_PLURAL_ENDS = ("s", "en", "eet", "eeth", "ice", "eese", "ople", "a", "i", "ae")  # no other word is looked up
FUNCTION_WORDS = frozenset(
    """
    about above after again against ain all and any are aren because been before being below between
    both but can couldn did didn does doesn doing don down during each few for from further had hadn has
    hasn have haven having her here hers herself him himself his how into isn its itself just more most
    mustn myself nor not now off once only other our ours ourselves out over own same shan she should
    shouldn some such than that the their theirs them themselves then there these they this those
    through too under until very was wasn were weren what when where which while who whom why will with
    won wouldn you your yours yourself yourselves
    """.split()
)
GENERIC = frozenset(
    """
    assistant conversation film films movie movies recommendation recommendations recommend something system
    thing things user
    """.split()
)
HINTS = (
    "action", "actor", "actress", "adventure", "alien invasion", "aliens", "animation", "cast", "character",
    "comedy", "cinema", "director", "ending", "fantasy", "genre", "ghost", "horror", "mood", "plot",
    "romance", "space", "thriller", "western",
)  # fmt: skip
STEMS = re.compile("love|fear|sad|happy|romantic|tense|dark|futur|drama|emot|space|ghost|sci")
MOST = 5


def pieces(text: str) -> list[str]:
    """The lower-cased text cut at blanks and at the marks that a Treebank tokeniser takes off."""
    lowered = text.lower().replace("--", " ").replace("..", " ")
    return lowered.translate(_EDGES).split()


def token_of(piece: str) -> str:
    """The word of three letters or more in a piece, without contraction and full stop; else empty."""
    found = _TOKEN.fullmatch(piece)
    return found[1] if found else ""


def tokens(text: str) -> list[str]:
    """The lower-cased words of three letters or more, as a Treebank tokeniser cuts them, in order.

    "don't" gives no word, "couldn't" gives "could"; hyphenated words and words with digits give none.
    """
    return [token for piece in pieces(text) if (token := token_of(piece))]


def lemma(word: str, known: Container[str]) -> str:
    """The singular of a noun if ``known`` has it and not the word itself; else the word."""
    return word if word in known else singular(word, known)


def singular(word: str, known: Container[str]) -> str:
    """The singular of a noun, by inflect, if ``known`` has it; else the word."""
    found = _one_of(word)
    return found if found in known else word


@lru_cache(maxsize=100_000)
def _one_of(word: str) -> str:
    """The singular of a plural; any other word itself."""
    return str(_engine().singular_noun(word) or word) if word.endswith(_PLURAL_ENDS) else word


@cache
def _engine() -> Any:
    import inflect

    return inflect.engine()


def admitted(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics that the thesis let count: at most five, each once, in order.

    Kept is what has two letters or more, is not generic, and contains a hint of the film domain or the stem
    of an emotion. (Of the thesis's 50 LDA topics seven have such a word among their five.)
    """
    kept = dict.fromkeys(map(_tidy, topics))
    kept.pop("", None)
    return tuple(kept)[:MOST]


@lru_cache(maxsize=100_000)
def _tidy(topic: str) -> str:
    """The topic in lower case without blanks around it; empty where it does not count."""
    tidy = topic.strip().lower()
    if len(tidy) < 2 or tidy in GENERIC:
        return ""
    return tidy if any(hint in tidy for hint in HINTS) or STEMS.search(tidy) else ""


def heuristics(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Of every text at most five words by how often they occur, those that hint at films or feelings first.

    A word scores 1 an occurrence, 2 more for a hint and 2 more for a stem; of equals the first goes first.
    """
    return [_heuristic(text) for text in texts]


def _heuristic(text: str) -> tuple[str, ...]:
    counts = Counter(_ASCII_WORD.findall(text.lower()))
    scores = {word: n * worth for word, n in counts.items() if (worth := _worth(word))}
    return tuple(sorted(scores, key=lambda word: -scores[word])[:MOST])


@lru_cache(maxsize=100_000)
def _worth(word: str) -> int:
    """What an occurrence of a word scores; 0 for a function word."""
    if word in FUNCTION_WORDS or word in SHORT_WORDS:
        return 0
    stem = STEMS.search(word)
    return 1 + 2 * any(hint in word for hint in HINTS) + 2 * bool(stem and stem.group() != "futur")


SHORT_WORDS = frozenset("a an am as at be by do i if in is it me my no of on or s so t to up us we".split())
_ASCII_WORD = re.compile(r"[a-z0-9-]+")
