"""Words: as retrieval counts them, and whom they mean (speakers by name, by what they are called)."""

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from crs_lib.core.text import fold, words
from crs_lib.realtalk.corpus import Chat

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
_CALLED = re.compile(
    r"(?:\b(?:hey|hi|hello|thanks|thank you|morning|night|bye|haha|yes|no|ok|okay|yeah|aw+|oh),?|,)\s+"
    r"((?-i:[A-Z][a-z]{2,11}))\b\s*(?=[!.,?]|$)",
    re.IGNORECASE,
)
_INTRODUCED = re.compile(r"\b[Mm]y name(?:'s|’s| is) ([A-Z][a-z]{2,11})\b")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_LEAST, _SHARE, _ALIKE = 3, 0.9, 0.74
_LONGEST = 40  # letters of a name that is looked for among others


def content_words(text: str, drop: Iterable[str] = ()) -> list[str]:
    """Stems of the words that are no stop words and not in ``drop`` (folded words), in order."""
    left_out = STOP | set(drop)
    return [_stem(word) for word in words(text) if word not in left_out]


def pairs(stems: Sequence[str]) -> list[str]:
    """Neighbouring stems joined by a blank: ``["ski", "trip", "alp"]`` gives two."""
    return [f"{a} {b}" for a, b in itertools.pairwise(stems)]


def _stem(word: str) -> str:
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


def learn_names(chat: Chat) -> dict[str, str]:
    """Speaker by folded name: their own names, and what the other one calls them ("Hey Kate!").

    A call counts for the person who does not say it. It becomes a name where it is heard at least three
    times, at least nine in ten times from the same person, and never stands in lower case in the chat.
    """
    names = {
        part: speaker for speaker in chat.speakers for part in (fold(speaker), fold(speaker).split(" ")[0])
    }
    if len(chat.speakers) != 2:
        return names
    other = {chat.speakers[0]: chat.speakers[1], chat.speakers[1]: chat.speakers[0]}
    calls: dict[str, Counter[str]] = defaultdict(Counter)
    for message in chat.messages:
        if message.speaker in other:
            for word in _CALLED.findall(message.text):
                calls[word][other[message.speaker]] += 1
            for word in _INTRODUCED.findall(message.text):
                calls[word][message.speaker] += _LEAST
    lower = {word for message in chat.messages for word in re.findall(r"\b[a-z]{3,12}\b", message.text)}
    for word, heard in sorted(calls.items()):
        speaker, times = max(heard.items(), key=lambda pair: (pair[1], pair[0]))
        if times >= _LEAST and times >= _SHARE * heard.total() and word.lower() not in lower:
            names.setdefault(fold(word), speaker)
    return names


def _speaker_of(word: str, names: Mapping[str, str]) -> str | None:
    """The speaker a word means, or None: a known name, or one of the same initial spelt much alike.

    A possessive ending is ignored. Alike is a difflib ratio of at least 0.74 ("Elisa" for "elise"); a word of
    more than 40 letters is like none.
    """
    plain = fold(re.sub(r"['’`]s?$", "", word))
    if plain in names:
        return names[plain]
    if not 4 <= len(plain) <= _LONGEST:
        return None
    scored = [
        (difflib.SequenceMatcher(None, plain, name).ratio(), name) for name in names if name[:1] == plain[:1]
    ]
    best = max(scored, default=(0.0, ""))
    return names[best[1]] if best[0] >= _ALIKE else None


def named(text: str, names: Mapping[str, str]) -> dict[str, str]:
    """Capitalised words of a text that mean a speaker, in order of appearance: word to speaker.

    A speaker's own lower-case spelling ("elise") counts as well.
    """
    found: dict[str, str] = {}
    for match in re.finditer(r"\b[^\W\d_]+\b", text):
        word = match[0]
        if _NAME.fullmatch(word) or fold(word) in names:
            speaker = _speaker_of(word, names)
            if speaker:
                found[word] = speaker
    return found
