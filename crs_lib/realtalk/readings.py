"""Which messages an annotated evidence list means: three named readings, from strict to repaired."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.realtalk.corpus import Chat, ChatQuestion

STRICT, VALID, REPAIRED = "strict", "valid", "repaired"
READINGS = (STRICT, VALID, REPAIRED)
_ID = re.compile(r"D?:?\s*(\d+)\s*[:;]\s*(\d+)")
_RANGE = re.compile(r"(D\d+:\d+)\s*[-–]\s*(D\d+:\d+)")
_REACH = 6  # how far a photo may stand from the missing id, in local numbers


class Evidence(NamedTuple):
    """The gold of a question under one reading: positions in the chat, sorted, each once.

    ``unresolved`` are strings or ids that the reading could not place: they are counted, never scored.
    """

    positions: tuple[int, ...]
    unresolved: tuple[str, ...]


def evidence(chat: Chat, question: ChatQuestion, reading: str = VALID) -> Evidence:
    """The gold messages of a question.

    ``strict``: a string counts only if it is one existing id (the public benchmark's rule). ``valid``:
    strings are split and their slips repaired, ids that do not exist are left out. ``repaired``: a
    missing id moves to the nearest message (within 6 local numbers) that carries a photo, since photos
    without text lost their own id when the data set was cleaned. Raises InputError for another reading.
    """
    if reading not in READINGS:
        raise InputError(f"unknown evidence reading {reading!r}; expected one of {', '.join(READINGS)}")
    positions: set[int] = set()
    unresolved: list[str] = []
    for text in question.evidence:
        names = [text] if reading == STRICT else read_ids(text, chat)
        if not names:
            unresolved.append(text)
        for name in names:
            place = chat.position.get(name)
            if place is None and reading == REPAIRED:
                place = photo_neighbour(chat, name)
            if place is None:
                unresolved.append(name)
            else:
                positions.add(place)
    return Evidence(tuple(sorted(positions)), tuple(unresolved))


def read_ids(text: str, chat: Chat) -> list[str]:
    """The ids that an evidence string names, slips repaired: ``"D17;39"`` is D17:39, ``"D30:05"`` D30:5.

    ``"D12:3-D12:5"`` stands for every existing id from the one to the other. Empty where none is found.
    """
    if text in chat.position:
        return [text]
    names: list[str] = []
    rest = text
    for match in _RANGE.finditer(text):
        names += _between(match[1], match[2], chat)
        rest = rest.replace(match[0], " ")
    return names + [f"D{int(a)}:{int(b)}" for a, b in _ID.findall(rest)]


def _between(first: str, last: str, chat: Chat) -> list[str]:
    start, end = chat.position.get(first), chat.position.get(last)
    if start is None or end is None or end < start:
        return [first, last]
    return chat.ids(range(start, end + 1))


def photo_neighbour(chat: Chat, name: str) -> int | None:
    """Position of the nearest photo message to a missing id, within 6 numbers of the same block, or None."""
    block, _, local = name[1:].partition(":")
    best: tuple[int, int] | None = None
    for message in chat.messages:
        if not message.photo or not message.id.startswith(f"D{block}:"):
            continue
        other = message.id.partition(":")[2]
        if other.isdigit() and local.isdigit():
            distance = abs(int(other) - int(local))
            if distance <= _REACH and (best is None or (distance, message.position) < best):
                best = distance, message.position
    return best[1] if best else None


def gold(chat: Chat, reading: str = VALID) -> dict[int, frozenset[int]]:
    """Gold positions by question index; questions without any gold are absent (to be counted, not scored)."""
    found = {q.index: frozenset(evidence(chat, q, reading).positions) for q in chat.questions}
    return {index: places for index, places in found.items() if places}


def sessions_of(chat: Chat, positions: Sequence[int]) -> list[int]:
    """The sessions that some positions lie in, ascending."""
    return sorted({chat.sessions[i] for i in positions})
