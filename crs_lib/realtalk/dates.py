"""Dates in English text as ranges of days: a closed grammar, most specific form first."""

import calendar
import contextlib
import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from crs_lib.core import prompts

WORDS = "realtalk/words"  # the file of word lists and patterns
Day = dt.date
Days = tuple[Day, Day]  # first and last day
_WEEKDAYS = {name.lower(): i for i, name in enumerate(calendar.day_name)}
_MONTHS = [name[:3].lower() for name in calendar.month_name]  # January is 1
_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}
_CENTURY = 100  # years below it are of the 2000s


class Span(NamedTuple):
    """A stretch of days, both ends included, and the words that say it. ``exact`` names a calendar day."""

    start: Day
    end: Day
    words: str
    exact: bool


class _DateForm(NamedTuple):
    """A form of the grammar: its pattern, the days that a match means on a day, whether they are exact."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], Day], Days]
    exact: bool


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
            if any(
                match.start() < start + len(span.words) and start < match.end()
                for start, span in spans.items()
            ):
                continue
            try:
                start, end = form.read(match, today)
            except (ValueError, OverflowError):
                continue
            spans[match.start()] = Span(start, end, match[0], form.exact)
    return [spans[start] for start in sorted(spans)]


def _words(kind: str) -> Mapping[str, Any]:
    """Words for days: ``numbers``, ``seasons`` (first month), ``holidays`` (month and day), ``near``."""
    words: Mapping[str, Any] = prompts.lists(WORDS)["days"][kind]
    return words


def _one_day(day: Day) -> Days:
    return day, day


def _month(year: int, month: int) -> Days:
    """All days of a month; month 0 is December of the year before, 13 January of the year after."""
    years, index = divmod(month - 1, 12)
    year += years
    return Day(year, index + 1, 1), Day(year, index + 1, calendar.monthrange(year, index + 1)[1])


def _year(year: int) -> Days:
    return Day(year, 1, 1), Day(year, 12, 31)


def _away(today: Day, count: int, unit: str) -> Days:
    """``count`` units away, as wide as the unit makes it sensible."""
    if unit == "day":
        return _one_day(today + dt.timedelta(days=count))
    if unit == "week":
        day = today + dt.timedelta(weeks=count)
        return day - dt.timedelta(days=3), day + dt.timedelta(days=3)
    if unit == "month":
        return _month(today.year, today.month + count)
    return _year(today.year + count)


def _nearest_year(month: int, day: int, today: Day) -> Day:
    """The day of that month and date that lies nearest to today: a chat in January means last December.
    ValueError where no year near has that day.
    """
    options: list[Day] = []
    for year in (today.year - 1, today.year, today.year + 1):
        with contextlib.suppress(ValueError):
            options.append(Day(year, month, day))
    return min(options, key=lambda option: (abs((option - today).days), option))


def _month_number(match: re.Match[str]) -> int:
    """The month, 1 to 12, that stands there as a number or by its name, of which three letters are enough."""
    month = match["m"]
    return int(month) if month.isdigit() else _MONTHS.index(month[:3])


def _read_day(match: re.Match[str], today: Day) -> Days:
    month, date = _month_number(match), int(match["d"])
    if not match["y"]:
        return _one_day(_nearest_year(month, date, today))
    year = int(match["y"])
    if year < _CENTURY:
        year += 2000
    return _one_day(Day(year, month, date))


def _read_month(match: re.Match[str], today: Day) -> Days:
    month = _month_number(match)
    if match["y"]:
        return _month(int(match["y"]), month)
    return _month(_nearest_year(month, 15, today).year, month)


def _read_year(match: re.Match[str], today: Day) -> Days:
    return _year(int(match["y"]))


def _read_distance(match: re.Match[str], today: Day) -> Days:
    number = match["n"]
    count = int(number) if number.isdigit() else _words("numbers")[number]
    ahead = match[0].startswith(("in", "within"))
    return _away(today, count if ahead else -count, match["u"])


def _read_unit(match: re.Match[str], today: Day) -> Days:
    step, unit = _STEPS[match["k"]], match["u"]
    monday = today - dt.timedelta(days=today.weekday())
    if unit == "week":
        start = monday + dt.timedelta(weeks=step)
        return start, start + dt.timedelta(days=6)
    if unit == "weekend":
        start = monday + dt.timedelta(weeks=step, days=5)
        return start, start + dt.timedelta(days=1)
    return _away(today, step, unit)


def _read_weekday(match: re.Match[str], today: Day) -> Days:
    step = match["k"]
    days = (_WEEKDAYS[match["w"]] - today.weekday()) % 7
    if step in ("next", "coming"):
        days = days or 7
    elif step not in ("this", "on"):
        days -= 7
    return _one_day(today + dt.timedelta(days=days))


def _read_season(match: re.Match[str], today: Day) -> Days:
    first, step = _words("seasons")[match["s"]], match["k"]
    year = int(match["y"]) if match["y"] else today.year
    start, end = _season(year, first)
    if match["y"]:
        return start, end
    if step in ("last", "past", "previous") and end >= today:
        return _season(year - 1, first)
    if step in ("next", "coming") and start <= today:
        return _season(year + 1, first)
    return start, end


def _season(year: int, first: int) -> Days:
    """The three months from the first one on."""
    return _month(year, first)[0], _month(year, first + 2)[1]


def _read_holiday(match: re.Match[str], today: Day) -> Days:
    month, date = _words("holidays")[match["h"]]
    return _one_day(_nearest_year(month, date, today))


def _read_near(match: re.Match[str], today: Day) -> Days:
    return _one_day(today + dt.timedelta(days=_words("near").get(match[0], 0)))


def _any_of(words: Mapping[str, Any]) -> str:
    """A pattern of any of the words, the longer ones first."""
    return "|".join(sorted(words, key=len, reverse=True))


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
    forms: list[_DateForm] = []

    def add(pattern: str, read: Callable[[re.Match[str], Day], Days], exact: bool = False) -> None:
        forms.append(_DateForm(re.compile(pattern), read, exact))

    add(r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d{1,2})-(?P<d>\d{1,2})\b", _read_day, exact=True)
    add(r"\b(?P<d>\d{1,2})[./](?P<m>\d{1,2})[./](?P<y>(?:20)?\d\d)\b", _read_day, exact=True)
    add(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{month}\b\.?{year}", _read_day, exact=True)
    add(rf"\b{month}\b\.?\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:){year}", _read_day, exact=True)
    add(r"\bthe day (?:before yesterday|after tomorrow)\b", _read_near)
    add(r"\b(?:yesterday|last night|tomorrow)\b", _read_near)
    add(r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", _read_near)
    add(rf"\b{number}\s+{unit}\s+(?:ago|before|back)\b", _read_distance)
    add(rf"\b(?:in|within)\s+{number}\s+{unit}\b", _read_distance)
    add(rf"\b{which})\s+(?P<u>weekend|week|month|year)\b", _read_unit)
    add(rf"\b{which}|on)\s+{weekday}\b", _read_weekday)
    add(rf"\b(?:{which}|in the|in)\s+){season}\b(?:\s+(?:of\s+)?(?P<y>(?:19|20)\d\d))?", _read_season)
    add(rf"\b(?P<h>{_any_of(_words('holidays'))})\b", _read_holiday)
    add(rf"\b(?:(?:in|of|since|until|by|this|last|next|mid)\s+){month}\b{year}", _read_month)
    add(rf"\b{month}\s+(?P<y>(?:19|20)\d\d)\b", _read_month)
    add(r"\b(?P<y>(?:19|20)\d\d)\b", _read_year)
    return forms
