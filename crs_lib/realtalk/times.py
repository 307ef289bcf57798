"""Times of messages as the two schemas write them."""

import datetime as dt
import re

_FORMS = (
    "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y, %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_LOCOMO = re.compile(r"(\d{1,2}):(\d{2})\s*(am|pm)\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)


def read_time(value: object) -> dt.datetime | None:
    """The time in ``31.01.2024, 18:05:00`` or ``6:05 pm on 31 January, 2024``; None where it is none.

    Times carry no zone: they are the exporting phone's clock.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    for form in _FORMS:
        try:
            return dt.datetime.strptime(text, form)
        except ValueError:
            continue
    return _read_locomo(text)


def _read_locomo(text: str) -> dt.datetime | None:
    match = _LOCOMO.fullmatch(text)
    if not match:
        return None
    hour, minute, half, day, month, year = match.groups()
    number = month_number(month)
    try:
        return dt.datetime(
            int(year), number or 0, int(day), int(hour) % 12 + 12 * (half.lower() == "pm"), int(minute)
        )
    except ValueError:
        return None


def month_number(name: str) -> int | None:
    """1 for January (or Jan), 12 for December; None for other words. Source: English month names."""
    low = name.lower().rstrip(".")
    if len(low) < 3:
        return None
    return next((i for i, month in enumerate(_MONTHS, start=1) if month.startswith(low[:9])), None)
