"""Words of messages and questions: stems that retrieval counts, names of speakers, dates as day ranges."""

import calendar
import contextlib
import datetime as dt
import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from crs_lib.core import prompts
from crs_lib.core.text import fold, words
from crs_lib.realtalk.corpus import Chat

WORDS = "realtalk/words"  # the file of word lists and patterns
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
    left_out = _stop() | set(drop)
    return [_stem(word) for word in words(text) if word not in left_out]


@cache
def _stop() -> frozenset[str]:
    return frozenset(prompts.lists(WORDS)["stop"].split())


def pairs(stems: Sequence[str]) -> list[str]:
    """Neighbouring stems joined by a blank: ``["ski", "trip", "alp"]`` gives two."""
    return [f"{a} {b}" for a, b in itertools.pairwise(stems)]


def _stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed, -ly and a final e or y folded; short words stay. "studies",
    "studying" and "studied" meet; "cities" meets "city"; "skiing" meets "ski". Words that do not end as
    English inflections do are returned as they are. Source: Harman (1991), the S stemmer, with step 1 of
    Porter (1980).
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ingly", "edly", "ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWELS & {*rest}:
            doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"  # "runn", not "fall"
            word = rest[:-1] if doubled else rest
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


def learn_names(chat: Chat) -> dict[str, str]:
    """Speaker by folded name: their own names, and what the other one calls them ("Hey Kate!"). A call counts
    for the person who does not say it. It becomes a name where it is heard at least three times, at least
    nine in ten times from the same person, and never stands in lower case in the chat.
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
    """The speaker a word means, or None: a known name, or one of the same initial spelt much alike. A
    possessive ending is ignored. Alike is a difflib ratio of at least 0.74 ("Elisa" for "elise"); a word of
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
    """Capitalised words of a text that mean a speaker, in order of appearance: word to speaker. A speaker's
    own lower-case spelling ("elise") counts as well.
    """
    found: dict[str, str] = {}
    for match in re.finditer(r"\b[^\W\d_]+\b", text):
        word = match[0]
        known = _NAME.fullmatch(word) or fold(word) in names
        if known and (speaker := _speaker_of(word, names)):
            found[word] = speaker
    return found


# ── dates ────────────────────────────────────────────────────────────────────────────────────────────

Day = dt.date
_WEEKDAYS = {name.lower(): i for i, name in enumerate(calendar.day_name)}


class Span(NamedTuple):
    """A stretch of days, both ends included, and the words that say it. ``exact`` names a calendar day."""

    start: Day
    end: Day
    words: str
    exact: bool


def find_dates(text: str, today: Day) -> list[Span]:
    """Every date expression of a text, in order, as days relative to ``today``; at most one a place. A closed
    grammar of English forms: ``31.12.2023``, ``5 January (2024)``, ``January 5th``, ``January 2024``,
    ``2019``, yesterday, tomorrow, tonight, last night, (last, this, next) week, month, year, weekend, weekday
    or season, ``three days ago``, ``in two weeks``, holidays. What cannot be a date (31 February) is left
    out. Day comes before month in numeric dates.
    """
    low = text.lower().replace("’", "'").replace("`", "'")
    taken: list[tuple[int, int]] = []
    found: list[tuple[int, Span]] = []
    for pattern, make, exact in _grammar():
        for match in pattern.finditer(low):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            try:
                days = make(match, today)
            except (ValueError, OverflowError):
                continue
            taken.append(match.span())
            start, end = days if isinstance(days, tuple) else (days, days)
            found.append((match.start(), Span(start, end, match[0], exact)))
    return [span for _, span in sorted(found, key=lambda pair: pair[0])]


def _month(year: int, month: int) -> tuple[Day, Day]:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return Day(year, month, 1), Day(year, month, calendar.monthrange(year, month)[1])


def _shift(today: Day, count: int, unit: str) -> Day | tuple[Day, Day]:
    """``count`` units away, as wide as the unit makes it sensible."""
    if unit == "day":
        return today + dt.timedelta(days=count)
    if unit == "week":
        day = today + dt.timedelta(weeks=count)
        return day - dt.timedelta(days=3), day + dt.timedelta(days=3)
    if unit == "month":
        return _month(today.year, today.month + count)
    return Day(today.year + count, 1, 1), Day(today.year + count, 12, 31)


def _nearest_year(month: int, day: int, today: Day) -> Day:
    """The day of that month and date that lies nearest to today: a chat in January means last December.
    ValueError where no year near has that day.
    """
    options: list[Day] = []
    for year in (today.year - 1, today.year, today.year + 1):
        with contextlib.suppress(ValueError):
            options.append(Day(year, month, day))
    return min(options, key=lambda option: (abs((option - today).days), option))


def _day_of(match: re.Match[str], today: Day) -> Day:
    month, date, year = _month_in(match), int(match["d"]), match["y"]
    if not year:
        return _nearest_year(month, date, today)
    return Day(int(year) + 2000 * (int(year) < 100), month, date)


def _month_in(match: re.Match[str]) -> int:
    """The month, 1 to 12, that stands there as a number or by its name, of which three letters are enough."""
    names = [name[:3].lower() for name in calendar.month_name]
    return int(match["m"]) if match["m"].isdigit() else names.index(match["m"][:3])


def _month_of(match: re.Match[str], today: Day) -> tuple[Day, Day]:
    month = _month_in(match)
    return _month(int(match["y"]) if match["y"] else _nearest_year(month, 15, today).year, month)


def _year_of(match: re.Match[str], today: Day) -> tuple[Day, Day]:
    return Day(int(match["y"]), 1, 1), Day(int(match["y"]), 12, 31)


def _away(match: re.Match[str], today: Day) -> Day | tuple[Day, Day]:
    count = int(match["n"]) if match["n"].isdigit() else prompts.lists(WORDS)["days"]["numbers"][match["n"]]
    return _shift(today, count if match[0].startswith(("in", "within")) else -count, match["u"])


_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}


def _named_unit(match: re.Match[str], today: Day) -> Day | tuple[Day, Day]:
    step, unit = _STEPS[match["k"]], match["u"]
    monday = today - dt.timedelta(days=today.weekday())
    if unit == "week":
        start = monday + dt.timedelta(weeks=step)
        return start, start + dt.timedelta(days=6)
    if unit == "weekend":
        start = monday + dt.timedelta(weeks=step, days=5)
        return start, start + dt.timedelta(days=1)
    return _shift(today, step, unit)


def _weekday(match: re.Match[str], today: Day) -> Day:
    wanted, step = _WEEKDAYS[match["w"]], match["k"]
    ahead = (wanted - today.weekday()) % 7
    days = ahead or 7 if step in ("next", "coming") else (ahead if step in ("this", "on") else ahead - 7)
    return today + dt.timedelta(days=days)


def _season(match: re.Match[str], today: Day) -> tuple[Day, Day]:
    first, step = prompts.lists(WORDS)["days"]["seasons"][match["s"]], match["k"]
    year = int(match["y"]) if match["y"] else today.year
    start, end = _month(year, first)[0], _month(year, first + 2)[1]
    before = step in ("last", "past", "previous") and end >= today
    after = step in ("next", "coming") and start <= today
    if not match["y"] and (before or after):
        year += -1 if before else 1
        start, end = _month(year, first)[0], _month(year, first + 2)[1]
    return start, end


def _holiday(match: re.Match[str], today: Day) -> Day:
    month, date = prompts.lists(WORDS)["days"]["holidays"][match["h"]]
    return _nearest_year(month, date, today)


def _near(match: re.Match[str], today: Day) -> Day:
    return today + dt.timedelta(days=prompts.lists(WORDS)["days"]["near"].get(match[0], 0))


@cache
def _grammar() -> list[tuple[re.Pattern[str], Callable[[re.Match[str], Day], Day | tuple[Day, Day]], bool]]:
    """The forms, most specific first: pattern, what it means, whether it names a calendar day."""
    days = prompts.lists(WORDS)["days"]
    holiday, number = ("|".join(sorted(days[n], key=len, reverse=True)) for n in ("holidays", "numbers"))
    month = (
        r"(?P<m>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
        r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
    )
    number, unit = rf"(?P<n>\d{{1,3}}|{number})", r"(?P<u>day|week|month|year)s?"
    weekday, season = rf"(?P<w>{'|'.join(_WEEKDAYS)})", rf"(?P<s>{'|'.join(days['seasons'])})"
    year, which = r"(?:,?\s*(?P<y>(?:19|20)\d\d))?", r"(?P<k>last|past|previous|this|next|coming"
    forms = (
        (r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d{1,2})-(?P<d>\d{1,2})\b", _day_of, True),
        (r"\b(?P<d>\d{1,2})[./](?P<m>\d{1,2})[./](?P<y>(?:20)?\d\d)\b", _day_of, True),
        (rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{month}\b\.?{year}", _day_of, True),
        (rf"\b{month}\b\.?\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:){year}", _day_of, True),
        (r"\bthe day (?:before yesterday|after tomorrow)\b", _near, False),
        (r"\b(?:yesterday|last night|tomorrow)\b", _near, False),
        (r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", _near, False),
        (rf"\b{number}\s+{unit}\s+(?:ago|before|back)\b", _away, False),
        (rf"\b(?:in|within)\s+{number}\s+{unit}\b", _away, False),
        (rf"\b{which})\s+(?P<u>weekend|week|month|year)\b", _named_unit, False),
        (rf"\b{which}|on)\s+{weekday}\b", _weekday, False),
        (rf"\b(?:{which}|in the|in)\s+){season}\b(?:\s+(?:of\s+)?(?P<y>(?:19|20)\d\d))?", _season, False),
        (rf"\b(?P<h>{holiday})\b", _holiday, False),
        (rf"\b(?:(?:in|of|since|until|by|this|last|next|mid)\s+){month}\b{year}", _month_of, False),
        (rf"\b{month}\s+(?P<y>(?:19|20)\d\d)\b", _month_of, False),
        (r"\b(?P<y>(?:19|20)\d\d)\b", _year_of, False),
    )
    return [(re.compile(pattern), make, exact) for pattern, make, exact in forms]
