"""Does the simulator keep its promises? Shifts are voiced when they happen, not before, and users react.

Source: docs/validity.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.text import fold, words
from crs_lib.validity.heard import Piece, is_inside

_ASIDE = "aside"  # a turn that names a value on purpose, and never as a constraint


class _Place(NamedTuple):
    """Where a user turn stands."""

    system: str
    session: str
    turn: int


def _pairs(dialogues: Iterable[Dialogue]) -> Iterator[tuple[_Place, Pair]]:
    for dialogue in dialogues:
        for pair in dialogue.pairs():
            yield _Place(dialogue.model_name, dialogue.session_id, pair.turn), pair


def leaks(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift with new constraints: ``leaked`` where an earlier utterance names a value of them.

    A value does not count that was a constraint, to be avoided, planned, or a word of a title.
    """
    rows = []
    for dialogue in dialogues:
        named: set[int] = set()
        planned: set[str] = set()
        for position, pair in _pairs([dialogue]):
            log = pair.user.user_meta
            event = log.get("shift_event_obj") or {}
            added = _codes(grounder, event.get("added"))
            new = {code for code in added if _value(grounder, code) not in planned}
            if new:
                rows.append((*position, event["type"], bool(new & named)))
            for code in _codes(grounder, log["constraints"]) | _codes(grounder, log["avoid"]):
                planned.add(_value(grounder, code))
            if log["stage"] != _ASIDE:
                named |= _named(grounder, pair.user.text)
    return pd.DataFrame(rows, columns=[*_Place._fields, "type", "leaked"])


def voiced(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift: are the values that it brings, or else takes away, found in its utterance?"""
    rows = []
    for position, pair in _pairs(dialogues):
        event = pair.user.user_meta.get("shift_event_obj")
        if event:
            must = _codes(grounder, event["added"] or event["dropped"])
            must -= _codes(grounder, event.get("implied"))
            rows.append((*position, event["type"], must <= grounder.concepts(pair.user.text)))
    return pd.DataFrame(rows, columns=[*_Place._fields, "type", "voiced"])


def unlogged(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per user turn: the values named that are not wanted, given up, to be avoided or an aside's.

    What stands in a film's title, or in the name of a value that the log holds, is not counted.
    """
    rows = []
    for position, pair in _pairs(dialogues):
        stage = pair.user.user_meta["stage"]
        values = [] if stage == _ASIDE else _foreign_values(pair, grounder)
        rows.append((*position, stage, values))
    return pd.DataFrame(rows, columns=[*_Place._fields, "stage", "unlogged"])


def _foreign_values(pair: Pair, grounder: Grounder) -> list[str]:
    """The values that a user turn names and its log does not hold."""
    log = pair.user.user_meta
    event = log.get("shift_event_obj") or {}
    logged: set[str] = set()
    for part in (log["constraints"], log["avoid"], event.get("added"), event.get("dropped")):
        logged.update(fold(str(value)) for value in (part or {}).values())
    matches = [match for match in grounder.audit(pair.user.text) if not match.rejected]
    covered: list[Piece] = list(grounder.titles(pair.user.text))
    covered += [match for match in matches if fold(match.value) in logged]
    values = set()
    for match in matches:
        if not is_inside(match, covered):
            values.add(match.value)
    return sorted(values)


def _codes(grounder: Grounder, values: Mapping[str, Any] | None) -> set[int]:
    """The concept codes of ``field: value`` pairs that the catalogue has."""
    codes = set()
    for name, value in (values or {}).items():
        code = grounder.catalog.known_code(name, str(value))
        if code is not None:
            codes.add(code)
    return codes


def _value(grounder: Grounder, code: int) -> str:
    return grounder.key(code).split("=", 1)[1]


def _named(grounder: Grounder, text: str) -> set[int]:
    """The concepts that a text names outside the titles of films."""
    titles = grounder.titles(text)
    codes = set()
    for match in grounder.audit(text):
        if not match.rejected and not is_inside(match, titles):
            codes.add(match.code)
    return codes


def checks(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """What must hold of simulated users, a row a check.

    Parameters
    ----------
    dialogues : sequence of Dialogue
        Simulated conversations; users are compared between the systems ``oracle`` and ``random``.
    grounder : Grounder
        Of the catalogue that they were simulated with.

    Returns
    -------
    pandas.DataFrame
        ``check`` in words, ``share`` in [0, 1], the share ``expected``, and whether it ``holds``.
    """
    early = float(leaks(dialogues, grounder)["leaked"].mean())
    at_once = float(voiced(dialogues, grounder)["voiced"].mean())
    foreign = float(unlogged(dialogues, grounder)["unlogged"].map(bool).mean())
    differ = _worded_differently(dialogues)
    repeated = _repeated(dialogues)
    rows = [
        ("a shift's target is named before it is voiced", early, "0", early == 0),
        ("a shift's utterance voices it", at_once, "1", at_once == 1),
        ("user turns that name a value the log does not hold", foreign, "0", foreign == 0),
        ("user turns worded differently, oracle against random", differ, "> 0", differ > 0),
        ("user utterances repeated word for word", repeated, "< 0.5", repeated < 0.5),
    ]
    return pd.DataFrame(rows, columns=["check", "share", "expected", "holds"])


def _worded_differently(dialogues: Iterable[Dialogue]) -> float:
    """The mean share of turns that the same user words differently for the oracle and for random; or NaN."""
    texts = {}
    for dialogue in dialogues:
        texts[dialogue.model_name, dialogue.session_id] = [pair.user.text for pair in dialogue.pairs()]
    shares = []
    for (system, session), to_oracle in sorted(texts.items()):
        to_random = texts.get(("random", session))
        if system == "oracle" and to_random is not None:
            differ = [a != b for a, b in zip(to_oracle, to_random, strict=True)]
            shares.append(np.mean(differ))
    return float(np.mean(shares or np.nan))


def _repeated(dialogues: Iterable[Dialogue]) -> float:
    """The mean share over systems of user utterances that were said before, word for word."""
    by_system: dict[str, list[str]] = {}
    for position, pair in _pairs(dialogues):
        by_system.setdefault(position.system, []).append(" ".join(words(pair.user.text)))
    shares = []
    for texts in by_system.values():
        shares.append(1 - len(set(texts)) / len(texts))
    return float(np.mean(shares))
