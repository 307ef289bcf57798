"""What words say: stems that retrieval counts, names of speakers, days, and the plan of a question."""

import calendar
import contextlib
import datetime as dt
import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dateutil.relativedelta import relativedelta

from crs_lib.core import prompts
from crs_lib.core.text import fold, words
from crs_lib.realtalk.corpus import Chat

WORDS = "realtalk/words"  # the file of word lists and patterns
_VOWELS = frozenset("aeiouy")


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

    "studies", "studying" and "studied" meet; "cities" meets "city"; "skiing" meets "ski". Source: Harman
    (1991), the S stemmer, with step 1 of Porter (1980).
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
    """A word without the ending of its plural."""
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


# ── names ────────────────────────────────────────────────────────────────────────────────────────────

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


def speaker_of(word: str, names: Mapping[str, str]) -> str | None:
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
            speaker = speaker_of(word, names)
            if speaker:
                people[word] = speaker
    return people


# ── days: a closed grammar, most specific form first ─────────────────────────────────────────────────

Day = dt.date
Days = tuple[Day, Day]  # first and last day
Match = re.Match[str]
_WEEKDAYS = [name.lower() for name in calendar.day_name]
_MONTHS = [name[:3].lower() for name in calendar.month_name]  # January is 1
_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}
_CENTURY = 100  # years below it are of the 2000s
_MOST_DAYS = 31


class Span(NamedTuple):
    """A stretch of days, both ends included, and the words that say it. ``exact`` names a calendar day."""

    start: Day
    end: Day
    words: str
    exact: bool


class _DateForm(NamedTuple):
    """A form of the grammar: its pattern, and the days that a match means on a day."""

    pattern: re.Pattern[str]
    read: Callable[[Match, Day], Days]


def find_dates(text: str, today: Day) -> list[Span]:
    """Every date expression of a text, in order, as days relative to ``today``; no two overlap.

    The forms are English: ``31.12.2023``, ``5 January (2024)``, ``January 5th``, ``January 2024``, ``2019``,
    yesterday, tomorrow, tonight, last night, (last, this, next) week, month, year, weekend, weekday or
    season, ``three days ago``, ``in two weeks``, holidays. What cannot be a date (31 February) is left out.
    Day comes before month in numeric dates.
    """
    plain = text.lower().replace("’", "'").replace("`", "'")
    spans: dict[int, Span] = {}
    for form in _grammar():
        for match in form.pattern.finditer(plain):
            taken_up = any(
                match.start() < start + len(span.words) and start < match.end()
                for start, span in spans.items()
            )
            if not taken_up:
                with contextlib.suppress(ValueError, OverflowError):
                    start, end = form.read(match, today)
                    spans[match.start()] = Span(start, end, match[0], form.read is _read_day)
    return [spans[start] for start in sorted(spans)]


def short_spans(spans: Iterable[Span]) -> list[Span]:
    """The stretches of at most 31 days: what can answer "when"."""
    return [span for span in spans if (span.end - span.start).days <= _MOST_DAYS]


def _words(kind: str) -> Mapping[str, Any]:
    """Words for days: ``numbers``, ``seasons`` (first month), ``holidays`` (month and day), ``near``."""
    days: Mapping[str, Any] = prompts.lists(WORDS)["days"]
    return days[kind]  # type: ignore[no-any-return]


def _one_day(day: Day) -> Days:
    return day, day


def _months(year: int, month: int, count: int = 1) -> Days:
    """All days of some months; month 0 is December of the year before, 13 January of the year after."""
    first = Day(year, 1, 1) + relativedelta(months=month - 1)
    return first, first + relativedelta(months=count, days=-1)


def _away(today: Day, count: int, unit: str) -> Days:
    """``count`` units away, as wide as the unit makes it sensible."""
    if unit == "day":
        return _one_day(today + dt.timedelta(days=count))
    if unit == "week":
        day = today + dt.timedelta(weeks=count)
        return day - dt.timedelta(days=3), day + dt.timedelta(days=3)
    if unit == "month":
        return _months(today.year, today.month + count)
    return _months(today.year + count, 1, 12)


def _nearest_year(month: int, day: int, today: Day) -> Day:
    """The day of that month and date that lies nearest to today: a chat in January means last December.
    ValueError where no year near has that day.
    """
    options: list[Day] = []
    for year in (today.year - 1, today.year, today.year + 1):
        with contextlib.suppress(ValueError):
            options.append(Day(year, month, day))
    return min(options, key=lambda option: (abs((option - today).days), option))


def _month_number(match: Match) -> int:
    """The month, 1 to 12, that stands there as a number or by its name, of which three letters are enough."""
    month = match["m"]
    return int(month) if month.isdigit() else _MONTHS.index(month[:3])


def _read_day(match: Match, today: Day) -> Days:
    """The day of a written date; without a year that which lies nearest to today."""
    month, date = _month_number(match), int(match["d"])
    if not match["y"]:
        return _one_day(_nearest_year(month, date, today))
    year = int(match["y"])
    if year < _CENTURY:
        year += 2000
    return _one_day(Day(year, month, date))


def _read_month(match: Match, today: Day) -> Days:
    month = _month_number(match)
    year = match["y"] or _nearest_year(month, 15, today).year
    return _months(int(year), month)


def _read_year(match: Match, today: Day) -> Days:
    return _months(int(match["y"]), 1, 12)


def _read_distance(match: Match, today: Day) -> Days:
    """The days so many units before today, or after it ("in two weeks")."""
    number = match["n"]
    count = int(number) if number.isdigit() else _words("numbers")[number]
    ahead = match[0].startswith(("in", "within"))
    return _away(today, count if ahead else -count, match["u"])


def _read_unit(match: Match, today: Day) -> Days:
    """The last, this or the next week, weekend, month or year."""
    step, unit = _STEPS[match["k"]], match["u"]
    this_monday = today - dt.timedelta(days=today.weekday())
    monday = this_monday + dt.timedelta(weeks=step)
    if unit == "week":
        return monday, monday + dt.timedelta(days=6)
    if unit == "weekend":
        return monday + dt.timedelta(days=5), monday + dt.timedelta(days=6)
    return _away(today, step, unit)


def _read_weekday(match: Match, today: Day) -> Days:
    """The weekday nearest before today ("last"), after it ("next"), or from today on ("this", "on")."""
    step = match["k"]
    days = (_WEEKDAYS.index(match["w"]) - today.weekday()) % 7
    if step in ("next", "coming"):
        days = days or 7
    elif step not in ("this", "on"):
        days -= 7
    return _one_day(today + dt.timedelta(days=days))


def _read_season(match: Match, today: Day) -> Days:
    """The three months of a season: of a year, else the last, this or the next one."""
    first, step = _words("seasons")[match["s"]], match["k"]
    if match["y"]:
        return _months(int(match["y"]), first, 3)
    start, end = _months(today.year, first, 3)
    if step in ("last", "past", "previous") and end >= today:
        return _months(today.year - 1, first, 3)
    if step in ("next", "coming") and start <= today:
        return _months(today.year + 1, first, 3)
    return start, end


def _read_holiday(match: Match, today: Day) -> Days:
    month, date = _words("holidays")[match["h"]]
    return _one_day(_nearest_year(month, date, today))


def _read_near(match: Match, today: Day) -> Days:
    return _one_day(today + dt.timedelta(days=_words("near").get(match[0], 0)))


def _any_of(choices: Iterable[str]) -> str:
    """A pattern of any of the words, the longer ones first."""
    return "|".join(sorted(choices, key=len, reverse=True))


@cache
def _grammar() -> list[_DateForm]:
    """The forms, most specific first."""
    month = (
        r"(?P<m>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
        r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
    )
    number = rf"(?P<n>\d{{1,3}}|{_any_of(_words('numbers'))})"
    unit = r"(?P<u>day|week|month|year)s?"
    weekday = rf"(?P<w>{'|'.join(_WEEKDAYS)})"
    season = rf"(?P<s>{'|'.join(_words('seasons'))})"
    year = r"(?:,?\s*(?P<y>(?:19|20)\d\d))?"
    which = r"(?P<k>last|past|previous|this|next|coming"
    ordinal = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
    forms = (
        (r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d{1,2})-(?P<d>\d{1,2})\b", _read_day),
        (r"\b(?P<d>\d{1,2})[./](?P<m>\d{1,2})[./](?P<y>(?:20)?\d\d)\b", _read_day),
        (rf"\b{ordinal}\s+(?:of\s+)?{month}\b\.?{year}", _read_day),
        (rf"\b{month}\b\.?\s+(?:the\s+)?{ordinal}\b(?!:){year}", _read_day),
        (r"\bthe day (?:before yesterday|after tomorrow)\b", _read_near),
        (r"\b(?:yesterday|last night|tomorrow)\b", _read_near),
        (r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", _read_near),
        (rf"\b{number}\s+{unit}\s+(?:ago|before|back)\b", _read_distance),
        (rf"\b(?:in|within)\s+{number}\s+{unit}\b", _read_distance),
        (rf"\b{which})\s+(?P<u>weekend|week|month|year)\b", _read_unit),
        (rf"\b{which}|on)\s+{weekday}\b", _read_weekday),
        (rf"\b(?:{which}|in the|in)\s+){season}\b(?:\s+(?:of\s+)?(?P<y>(?:19|20)\d\d))?", _read_season),
        (rf"\b(?P<h>{_any_of(_words('holidays'))})\b", _read_holiday),
        (rf"\b(?:(?:in|of|since|until|by|this|last|next|mid)\s+){month}\b{year}", _read_month),
        (rf"\b{month}\s+(?P<y>(?:19|20)\d\d)\b", _read_month),
        (r"\b(?P<y>(?:19|20)\d\d)\b", _read_year),
    )
    return [_DateForm(re.compile(pattern), read) for pattern, read in forms]


# ── the plan of a question: its kind, its people, its days, and the texts to search with ─────────────

KINDS = ("when", "where", "who", "why", "how", "how long", "count", "yes-no", "list", "what")
_COUNT = re.compile(r"\bhow (?:many|much|often|old)\b")
_HOW_LONG = re.compile(r"\b(?:how long|since when)\b")
_DATED = re.compile(r"\b(?:what|which) (?:date|day|month|year|time)\b")
_PLURAL_HEADS = re.compile(
    r"^(?:what|which)\s+(?:(?:kind|kinds|type|types|sort|sorts)\s+of\s+)?(?:[\w'-]+\s+){0,2}?(?!does\b|was\b|has\b|his\b)([a-z]{3,}s)\b"
    r"|^(?:what|which)\s+(?:food|music|advice)\b"
)
_QUESTION_WORD = re.compile(
    r"^(?:(?:in|on|at|for|to|from|with|since|by|of)\s+)?"
    r"(?:what|when|where|who|whom|whose|which|why|how(?:\s+(?:many|much|often|long|old))?)\b(?:'s)?",
    re.IGNORECASE,
)
_BETWEEN_PARTS = re.compile(r"\b(?:and|or|before|after|besides|when|while)\b|[,;/]")


class QueryPlan(NamedTuple):
    """How a question is searched. ``speakers`` are the people it names; ``windows`` its stated days.
    ``first_person`` is the question as its teller would have said it ("I start skiing"), ``second_person`` as
    the other one would have asked it; ``terms`` are content stems without names.
    """

    kind: str
    speakers: tuple[str, ...]
    windows: tuple[tuple[str, str], ...]
    photo: bool
    terms: tuple[str, ...]
    first_person: str
    second_person: str
    parts: tuple[str, ...]

    @property
    def many(self) -> bool:
        """Whether several separate messages are likely to be wanted."""
        return self.kind in ("list", "count") or len(self.speakers) > 1 or len(self.parts) > 1


def plan(question: str, names: Mapping[str, str], today: Day | None) -> QueryPlan:
    """The plan of a question. ``names`` maps folded names to speakers, ``today`` dates without a year. A
    question of no recognised form is of kind ``what``; one that names nobody has no speakers.
    """
    people = named(question, names)
    windows = []
    undated = question
    for span in find_dates(question, today or Day(2000, 1, 1)):
        if span.exact:
            windows.append((span.start.isoformat(), span.end.isoformat()))
            words_of_span = re.compile(re.escape(span.words), re.IGNORECASE)
            undated = words_of_span.sub(" ", undated)
    first = _without_form(_in_person(undated, people, "I", "my"))
    second = re.sub(r"\s+", " ", _in_person(undated, people, "you", "your"))
    nameless = re.sub(r"['’`]s\b", " ", undated)
    return QueryPlan(
        kind=_kind_of(question),
        speakers=tuple(dict.fromkeys(people.values())),
        windows=tuple(windows),
        photo=bool(re.search(prompts.lists(WORDS)["photo"], question.lower())),
        terms=tuple(content_words(nameless, drop=map(fold, people))),
        first_person=first,
        second_person=f"{second}?",
        parts=_parts(first),
    )


def _kind_of(question: str) -> str:
    """One of ``KINDS``, by the question's first words."""
    text = question.lower().strip()
    first = re.findall(r"[a-z']+", text)[:3]
    if not first:
        return "what"
    if _COUNT.search(text):
        return "count"
    if _HOW_LONG.search(text):
        return "how long"
    if re.search(r"\bwhen\b", " ".join(first)) or _DATED.search(text):
        return "when"
    for word in ("where", "who", "whom", "why", "how"):
        if word in first[:2]:
            return "who" if word == "whom" else word
    if re.fullmatch(prompts.lists(WORDS)["auxiliary"], first[0]):
        return "yes-no"
    return "list" if _PLURAL_HEADS.match(text) else "what"


def _in_person(question: str, people: Mapping[str, str], subject: str, owner: str) -> str:
    """The question in another person: "When did Kate start skiing?" becomes "When did I start skiing".

    Names become ``subject`` or, with a possessive, ``owner``; several people become "we" ("you" in the second
    person).
    """
    text = re.sub(r"[’`]", "'", question).strip().rstrip("?!. ")
    if subject == "I" and len(set(people.values())) > 1:
        subject = "we"
        owner = "our"
    for word in sorted(people, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(word)}'s?(?!\w)", owner, text)
        text = re.sub(rf"\b{re.escape(word)}\b", subject, text)
    both = rf"\b(?:both,?\s+)?({subject}|{owner})\s*(?:,|and|or)\s+({subject}|{owner})\b,?"
    text = re.sub(both, r"\2", text)
    if people:
        swap = prompts.lists(WORDS)["person"][owner]
        parts = re.split(r"\b", text)
        text = "".join(swap.get(part.lower(), part) for part in parts)
    return text


def _without_form(text: str) -> str:
    """The text without its leading question word and without the auxiliary that inverts it."""
    auxiliary = prompts.lists(WORDS)["auxiliary"]
    inverted = rf"(?:^|(?<=\s)){auxiliary}(?=\s+(?:i|we|my|our|the|both|you)\b)"
    statement = _QUESTION_WORD.sub("", text, count=1).strip()
    statement = re.sub(inverted, "", statement, count=1, flags=re.IGNORECASE).strip()
    statement = re.sub(rf"^{auxiliary}\s+", "", statement, flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", statement).strip(" ,") or text


def _parts(first_person: str) -> tuple[str, ...]:
    """Sub-queries of a compound question ("X and Y", "X or Y", "before Z"); one where it is simple."""
    parts = [part.strip(" ,") for part in _BETWEEN_PARTS.split(first_person)]
    parts = [part for part in parts if content_words(part)]
    return tuple(parts) if len(parts) > 1 else (first_person,)
