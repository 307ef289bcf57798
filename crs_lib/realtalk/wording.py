"""Words of messages and questions: stems that retrieval counts, names of speakers."""

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from crs_lib.core import prompts
from crs_lib.core.text import fold, words
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.dates import WORDS

_VOWELS = frozenset("aeiouy")
_CALLED = re.compile(
    r"(?:\b(?:hey|hi|hello|thanks|thank you|morning|night|bye|haha|yes|no|ok|okay|yeah|aw+|oh),?|,)\s+"
    r"((?-i:[A-Z][a-z]{2,11}))\b\s*(?=[!.,?]|$)",
    re.IGNORECASE,
)
_INTRODUCED = re.compile(r"\b[Mm]y name(?:'s|’s| is) ([A-Z][a-z]{2,11})\b")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_LEAST_CALLS = 3
_SHARE_OF_CALLS = 0.9
_ALIKE = 0.74  # difflib ratio from which two spellings are of one name
_LONGEST = 40  # letters of a name that is looked for among others


def content_words(text: str, drop: Iterable[str] = ()) -> list[str]:
    """Stems of the words that are no stop words and not in ``drop`` (folded words), in order."""
    left_out = stop_words() | set(drop)
    return [_stem(word) for word in words(text) if word not in left_out]


@cache
def stop_words() -> frozenset[str]:
    """Words without content."""
    return frozenset(prompts.lists(WORDS)["stop"].split())


def pairs(stems: Sequence[str]) -> list[str]:
    """Neighbouring stems joined by a blank: ``["ski", "trip", "alp"]`` gives two."""
    return [f"{first} {second}" for first, second in itertools.pairwise(stems)]


def _stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed, -ly and a final e or y folded; short words stay.

    "studies", "studying" and "studied" meet; "cities" meets "city"; "skiing" meets "ski". Words that do not
    end as English inflections do are returned as they are. Source: Harman (1991), the S stemmer, with step 1
    of Porter (1980).
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _without_inflection(_singular(word))
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


def _without_inflection(word: str) -> str:
    for ending in ("ingly", "edly", "ing", "ed"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3 or not _VOWELS & set(stem):
            continue
        doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"  # "runn", not "fall"
        return stem[:-1] if doubled else stem
    return word


def learn_names(chat: Chat) -> dict[str, str]:
    """Speaker by folded name: their own names, and what the other one calls them ("Hey Kate!").

    A call counts for the person who does not say it. It becomes a name where it is heard at least three
    times, at least nine in ten times from the same person, and never stands in lower case in the chat.
    """
    names = {}
    for speaker in chat.speakers:
        names[fold(speaker)] = speaker
        names[fold(speaker).split(" ")[0]] = speaker
    if len(chat.speakers) != 2:
        return names
    lower_case = set()
    for message in chat.messages:
        lower_case.update(re.findall(r"\b[a-z]{3,12}\b", message.text))
    for word, calls in sorted(_calls(chat).items()):
        speaker, times = max(calls.items(), key=lambda call: (call[1], call[0]))
        clear = times >= _LEAST_CALLS and times >= _SHARE_OF_CALLS * calls.total()
        if clear and word.lower() not in lower_case:
            names.setdefault(fold(word), speaker)
    return names


def _calls(chat: Chat) -> dict[str, Counter[str]]:
    """How often each capitalised word calls or introduces each of the two speakers."""
    first, second = chat.speakers
    partner = {first: second, second: first}
    calls: dict[str, Counter[str]] = defaultdict(Counter)
    for message in chat.messages:
        if message.speaker in partner:
            for word in _CALLED.findall(message.text):
                calls[word][partner[message.speaker]] += 1
            for word in _INTRODUCED.findall(message.text):
                calls[word][message.speaker] += _LEAST_CALLS
    return calls


def _speaker_of(word: str, names: Mapping[str, str]) -> str | None:
    """The speaker a word means, or None: a name that is known, or one of the same initial spelt much alike.

    A possessive ending is ignored. Alike is a difflib ratio of at least 0.74 ("Elisa" for "elise"); a word of
    more than 40 letters is like none.
    """
    plain = fold(re.sub(r"['’`]s?$", "", word))
    if plain in names:
        return names[plain]
    if not 4 <= len(plain) <= _LONGEST:
        return None
    best = (0.0, "")
    for name in names:
        if name[:1] == plain[:1]:
            likeness = difflib.SequenceMatcher(None, plain, name).ratio()
            best = max(best, (likeness, name))
    return names[best[1]] if best[0] >= _ALIKE else None


def named(text: str, names: Mapping[str, str]) -> dict[str, str]:
    """Capitalised words of a text that mean a speaker, in order of appearance: word to speaker. A speaker's
    own lower-case spelling ("elise") counts as well.
    """
    people: dict[str, str] = {}
    for word in re.findall(r"\b[^\W\d_]+\b", text):
        if _NAME.fullmatch(word) or fold(word) in names:
            speaker = _speaker_of(word, names)
            if speaker:
                people[word] = speaker
    return people
