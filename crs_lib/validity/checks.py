"""What must hold of the simulator before its scores mean anything. Source: docs/validity.md, section 2."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.text import words


def leaks(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift with new constraints: does the user name one of them before the shift?

    ``leaked`` is true where an earlier utterance names a value that the shift brings and that was no
    constraint, was not to be avoided, and had not been said as part of the plan before. A person named before
    in another role (wished for as a writer, now as a director) is no leak, nor is a word of a film's title.
    """
    rows = []
    for dialogue in dialogues:
        seen: frozenset[int] = frozenset()
        planned: frozenset[str] = frozenset()
        for pair in dialogue.pairs():
            log = pair.user.user_meta
            event = log.get("shift_event_obj") or {}
            added = codes(grounder, event.get("added") or {})
            if added := frozenset(code for code in added if _value(grounder, code) not in planned):
                row = {"system": dialogue.model_name, "session": dialogue.session_id, "turn": pair.turn}
                rows.append(row | {"type": event.get("type", ""), "leaked": bool(added & seen)})
            said = codes(grounder, log["constraints"]) | codes(grounder, log["avoid"])
            planned |= {_value(grounder, code) for code in said}
            if log["stage"] != "aside":  # an aside names a value on purpose, and never as a constraint
                seen |= _named(grounder, pair.user.text)
    return pd.DataFrame(rows, columns=["system", "session", "turn", "type", "leaked"])


def voiced(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift: are the values that it brings, or else takes away, found in its utterance?"""
    rows = []
    for dialogue in dialogues:
        for pair in dialogue.pairs():
            event = pair.user.user_meta.get("shift_event_obj")
            if not event:
                continue
            must = codes(grounder, event["added"] or event["dropped"]) - codes(
                grounder, event.get("implied") or {}
            )
            row = {"system": dialogue.model_name, "session": dialogue.session_id, "turn": pair.turn}
            rows.append(row | {"type": event["type"], "voiced": must <= grounder.concepts(pair.user.text)})
    return pd.DataFrame(rows, columns=["system", "session", "turn", "type", "voiced"])


def codes(grounder: Grounder, values: Mapping[str, Any]) -> frozenset[int]:
    """The concept codes of ``field: value`` pairs that the catalogue has."""
    found = (grounder.catalog.known_code(name, str(value)) for name, value in values.items())
    return frozenset(code for code in found if code is not None)


def _named(grounder: Grounder, text: str) -> frozenset[int]:
    """The concepts that a text names outside the titles of films."""
    titles = [(m.start, m.end) for m in grounder.titles(text)]
    found = (m for m in grounder.audit(text) if not m.rejected)
    return frozenset(m.code for m in found if not any(a <= m.start and m.end <= b for a, b in titles))


def _value(grounder: Grounder, code: int) -> str:
    return grounder.key(code).split("=", 1)[1]


def reactions(dialogues: Iterable[Dialogue], a: str = "oracle", b: str = "random") -> pd.DataFrame:
    """One row per session of both systems: the share of user turns worded differently, in [0, 1].

    Constraints and shifts are equal by design; what differs is how the user reacts.
    """
    said: dict[str, dict[str, list[str]]] = {a: {}, b: {}}
    for dialogue in dialogues:
        if dialogue.model_name in said:
            said[dialogue.model_name][dialogue.session_id] = [pair.user.text for pair in dialogue.pairs()]
    rows = []
    for session in sorted(said[a].keys() & said[b].keys()):
        differ = [x != y for x, y in zip(said[a][session], said[b][session], strict=True)]
        rows.append({"session": session, "differ": sum(differ) / len(differ)})
    return pd.DataFrame(rows, columns=["session", "differ"])


def variety(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """One row per system: words an utterance, type-token ratio, and share of repeated user utterances.

    An utterance counts as repeated where the same words stood in any earlier one of that system's users.
    """
    texts: dict[str, list[str]] = {}
    for dialogue in dialogues:
        texts.setdefault(dialogue.model_name, []).extend(pair.user.text for pair in dialogue.pairs())
    return pd.DataFrame([{"system": system, **_variety(mine)} for system, mine in texts.items()])


def _variety(texts: Sequence[str]) -> dict[str, float]:
    tokens = [word for text in texts for word in words(text)]
    distinct = {" ".join(words(text)) for text in texts}
    return {
        "utterances": len(texts),
        "words": len(tokens) / max(1, len(texts)),
        "type_token_ratio": len(set(tokens)) / max(1, len(tokens)),
        "repeated": 1 - len(distinct) / max(1, len(texts)),
    }


def summary(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """The checks as one table: what is checked, the share found, what is expected, and whether it holds."""
    early, said = leaks(dialogues, grounder), voiced(dialogues, grounder)
    reacted, varied = reactions(dialogues), variety(dialogues)
    rows = [
        ("a shift's target is named before it is voiced", float(early["leaked"].mean()), "0"),
        ("a shift's utterance voices it", float(said["voiced"].mean()), "1"),
        ("user turns worded differently, oracle against random", float(reacted["differ"].mean()), "> 0"),
        ("user utterances repeated word for word", float(varied["repeated"].mean()), "< 0.5"),
    ]
    table = pd.DataFrame(rows, columns=["check", "share", "expected"])
    holds = {"0": table["share"] == 0, "1": table["share"] == 1, "> 0": table["share"] > 0,
             "< 0.5": table["share"] < 0.5}  # fmt: skip
    return table.assign(holds=[bool(holds[kind][place]) for place, kind in enumerate(table["expected"])])
