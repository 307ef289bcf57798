"""Who a word means: speakers by name, by the names they call each other, and by near spelling."""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from crs_lib.core.text import fold
from crs_lib.realtalk.records import Chat

_CALLED = re.compile(
    r"(?:\b(?:hey|hi|hello|thanks|thank you|morning|night|bye|haha|yes|no|ok|okay|yeah|aw+|oh),?|,)\s+"
    r"((?-i:[A-Z][a-z]{2,11}))\b\s*(?=[!.,?]|$)",
    re.IGNORECASE,
)
_INTRODUCED = re.compile(r"\b[Mm]y name(?:'s|’s| is) ([A-Z][a-z]{2,11})\b")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_LEAST, _SHARE, _ALIKE = 3, 0.9, 0.74


def learn(chat: Chat) -> dict[str, str]:
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


def speaker_of(word: str, names: Mapping[str, str]) -> str | None:
    """The speaker a word means, or None: a known name, or one of the same initial spelt much alike.

    A possessive ending is ignored. Alike is a difflib ratio of at least 0.74 ("Elisa" for "elise").
    """
    plain = fold(re.sub(r"['’`]s?$", "", word))
    if plain in names:
        return names[plain]
    if len(plain) < 4:
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
            speaker = speaker_of(word, names)
            if speaker:
                found[word] = speaker
    return found
