"""Words as retrieval counts them: folded, stop words left out, light stems."""

import itertools
from collections.abc import Iterable, Sequence

from crs_lib.core.text import words

# Words that carry a question's form, not its content: wh-words, auxiliaries, pronouns, articles, particles.
STOP = frozenset(
    "what when where who whom whose which why how a an the this that these those there here i me my mine "
    "myself you your yours yourself he him his she her hers it its we us our ours they them their theirs "
    "am is are was were be been being do does did done doing have has had having will would shall should "
    "can could may might must ll ve re s t d m don doesn didn isn aren wasn weren won of in on at to for "
    "from by with about into as and or but if so than then too very just not no nor up out off over under "
    "again also both each any some such own same".split()
)
_VOWELS = frozenset("aeiouy")


def content_words(text: str, drop: Iterable[str] = ()) -> list[str]:
    """Stems of the words that are no stop words and not in ``drop`` (folded words), in order."""
    left_out = STOP | set(drop)
    return [stem(word) for word in words(text) if word not in left_out]


def pairs(stems: Sequence[str]) -> list[str]:
    """Neighbouring stems joined by a blank: ``["ski", "trip", "alp"]`` gives two."""
    return [f"{a} {b}" for a, b in itertools.pairwise(stems)]


def stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed, -ly and a final e or y folded; short words stay.

    "studies", "studying" and "studied" meet; "cities" meets "city"; "skiing" meets "ski". Words that do
    not end as English inflections do are returned as they are. Source: Harman (1991), the S stemmer,
    with step 1 of Porter (1980).
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending) and _stem_is_word(word[: -len(ending)]):
            word = _undouble(word[: -len(ending)])
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 2 and word.endswith("y") and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _stem_is_word(rest: str) -> bool:
    return len(rest) >= 3 and any(letter in _VOWELS for letter in rest)


def _undouble(rest: str) -> str:
    """Double consonants undone: "runn" to "run"; "fall" stays."""
    if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest
