"""The prompt of a judge: criteria with their levels, logged constraints, the quoted conversation."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import Message, tokens_at_most, tokens_of
from crs_lib.llm.text import fence, one_line
from crs_lib.metrics import constructs

TURN_LIMITS = (2_000, 1_000, 500, 250)  # characters of one text that a judge sees: the first that will do
LEVELS = "ABCDE"  # of an expected score, the lowest first: a reply that gives itself a number names none
_RULE = (
    "first turn, last turn, turns with a shift and the turns after them (latest first), then the others "
    "(latest first), as many as fit; texts are shortened to the first limit with which the first and the "
    "last turn fit"
)
_LOGGED = frozenset({"wishes", "constraints", "avoid"})


class Excerpt(NamedTuple):
    """The turns of a dialogue that a judge sees, of ``total``; ``shortened`` texts have ``limit`` letters."""

    turns: tuple[int, ...]
    total: int
    shortened: int
    limit: int = TURN_LIMITS[0]

    def to_json(self) -> dict[str, Any]:
        """The record of the trimming: the rule, the turns left out, the texts shortened."""
        gone = sorted({*range(1, self.total + 1)} - {*self.turns})
        told = {"rule": _RULE, "turns": self.total, "left_out": gone}
        return {**told, "shortened": self.shortened, "limit": self.limit}


def with_named(dialogue: Dialogue, grounder: Callable[[], Grounder], turns: bool = False) -> Dialogue:
    """The dialogue marked with what its turns name, where no turn's log says what the user wants. With
    ``turns`` it is so in any case, and what the log says is left out.
    """
    if turns:
        bare = [{k: v for k, v in turn.user_meta.items() if k not in _LOGGED} for turn in dialogue.turns]
        told = zip(dialogue.turns, bare, strict=True)
        kept = tuple(replace(turn, meta={**turn.meta, "user_meta": meta}) for turn, meta in told)
        return grounder().annotate(replace(dialogue, turns=kept))
    logged = any({"wishes", "constraints"} & set(pair.user.user_meta) for pair in dialogue.pairs())
    return dialogue if logged else grounder().annotate(dialogue)


def _wish_summary(dialogue: Dialogue) -> str:
    """The user's constraints from the logged turns, a line for every turn at which they changed. Read from
    ``user_meta``: ``wishes`` or else ``constraints``, and ``avoid``. Values are quoted. Where a log has none,
    they are what the user's turns name (``marks``, see :func:`with_named`), else a line says so.
    """
    lines, before = [], None
    for pair in dialogue.pairs():
        meta = pair.user.user_meta
        if "wishes" not in meta and "constraints" not in meta:
            if named := dict.fromkeys(one_line(f"{mark.field}: {mark.value}") for mark in pair.user.marks):
                lines.append(f"named in turn {pair.turn}: {'; '.join(named)}")
            continue
        wished = _values(meta.get("wishes") or meta.get("constraints") or {})
        now = "; ".join([*wished, *(f"not {value}" for value in _values(meta.get("avoid") or {}))])
        if now != before:
            lines.append(f"from turn {pair.turn}: {now or 'anything'}")
        before = now
    return "\n".join(lines) or "No wishes were recorded; take them from what the user says."


def _values(wishes: Any) -> list[str]:
    """Texts `field = quoted value` for the fields of a logged state that have a value."""
    if not isinstance(wishes, Mapping):
        raise InputError(f"logged constraints must be an object of fields, got {shorten(repr(wishes), 80)}")
    found = []
    for name, value in wishes.items():
        parts = value if isinstance(value, list | tuple) else [value]
        kept = [one_line(str(part)) for part in parts if part not in (None, "")]
        found += [f"{name} = {' and '.join(kept)}"] if kept else []
    return found


def scale(group: Sequence[str]) -> tuple[int, int]:
    """The lowest and the highest level of constructs that share a call, which have one scale."""
    return constructs.get(group[0]).scale


def digest(expected: bool = False) -> str:
    """Hex SHA-256 over all texts of the judge's prompt: the version of the rubric."""
    rows = [row.prompt for row in constructs.CONSTRUCTS.values()]
    frame = ("movies/judge_level",) if expected else ("movies/judge_system", "movies/judge_user")
    parts = [prompts.digest(name) for name in (*frame, *rows)]
    return hashlib.sha256(json.dumps([*parts, _RULE, TURN_LIMITS]).encode()).hexdigest()


def least(groups: Sequence[Sequence[str]], expected: bool = False) -> int:
    """Tokens that a judge's prompt takes at most before any word of a dialogue stands in it."""
    empty = Dialogue("", "", ())
    return max(tokens_at_most(messages(empty, group, Excerpt((), 0, 0), expected)) for group in groups)


def fit(dialogue: Dialogue, groups: Sequence[Sequence[str]], room: int, expected: bool = False) -> Excerpt:
    """The turns that a judge can be shown in ``room`` tokens, the same for every group of constructs. Chosen
    by :data:`_RULE`. InputError where not even the first and the last turn fit, or there is no reply.
    """
    pairs = dialogue.pairs()
    if not pairs:
        raise InputError(f"session {dialogue.session_id!r} holds no reply; there is nothing to judge")
    bare = (messages(dialogue, group, Excerpt((), len(pairs), 0), expected) for group in groups)
    spare = room - max(map(tokens_at_most, bare)) - tokens_of(str(len(pairs)))
    for limit in TURN_LIMITS:
        turns = _fitting(pairs, set(dialogue.shift_turns()), spare, limit)
        if len(turns) >= min(2, len(pairs)):
            said = [t for turn in turns for t in (pairs[turn - 1].user.text, pairs[turn - 1].system.text)]
            return Excerpt(turns, len(pairs), sum(len(text) > limit for text in said), limit)
    told = f"session {dialogue.session_id!r}: its first and last turn do not fit into {room} tokens"
    raise InputError(f"{told} beside the rubric; raise the judge's num_ctx")


def _fitting(pairs: Sequence[Pair], shifts: set[int], spare: int, limit: int) -> tuple[int, ...]:
    """The turns that fit, chosen in the order of the rule and given in the order of the conversation."""
    latest = [pair.turn for pair in reversed(pairs)]
    matter = [turn for turn in latest if turn in shifts or turn - 1 in shifts]
    kept: list[int] = []
    size = 0
    for turn in dict.fromkeys([1, latest[0], *matter, *latest]):
        with_it = sorted([*kept, turn])
        size += len(_pair_lines(pairs[turn - 1], limit).encode("utf-8", "replace")) + 1
        if tokens_of("x" * size + "\n".join(_gaps(with_it).values())) > spare:
            break
        kept = with_it
    return tuple(kept)


def _gaps(turns: Sequence[int]) -> dict[int, str]:
    """The lines about turns that are left out, by the turn before which they stand."""
    gone = {b: [*range(a + 1, b)] for a, b in pairwise([0, *turns]) if b > a + 1}
    which = {turn: f"s {out[0]} to {out[-1]}" if len(out) > 1 else f" {out[0]}" for turn, out in gone.items()}
    return {turn: f"[turn{out} left out]" for turn, out in which.items()}


def messages(
    dialogue: Dialogue, group: Sequence[str], excerpt: Excerpt, expected: bool = False
) -> tuple[Message, ...]:
    """The messages to a judge of these constructs: rules, criteria, constraints, quoted conversation. With
    ``expected`` the letter of a level (:data:`LEVELS`) is asked for, and the conversation comes first.
    """
    pairs, blocks = dialogue.pairs(), []
    gaps = _gaps(excerpt.turns)
    for turn in excerpt.turns:
        blocks += [gaps[turn]] if turn in gaps else []
        blocks.append(_pair_lines(pairs[turn - 1], excerpt.limit))
    conversation = "\n".join(blocks)
    wishes = _wish_summary(dialogue)
    criteria = "\n\n".join(prompts.render(constructs.get(name).prompt) for name in group)
    parts = {
        "criteria": criteria, "wishes": wishes, "conversation": conversation,
        "turns": f"{len(excerpt.turns)} of {excerpt.total} turns, in their order.",
        "fence": fence([conversation, wishes]),
    }  # fmt: skip
    ends = dict(zip(("lowest", "highest"), scale(group), strict=True))
    if expected:
        for level, letter in enumerate(LEVELS, start=ends["lowest"]):
            parts["criteria"] = parts["criteria"].replace(f"\n{level} - ", f"\n{letter} - ")
        return (Message("user", prompts.render("movies/judge_level", **parts)),)
    text = prompts.render("movies/judge_user", names=", ".join(group), **parts)
    return (Message("system", prompts.render("movies/judge_system", **ends)), Message("user", text))


def _pair_lines(pair: Pair, limit: int) -> str:
    """The two lines of a turn; each text is one JSON string, so a text cannot pretend to be a line."""
    said = (("USER", pair.user.text), ("SYSTEM", pair.system.text))
    return "\n".join(f"{pair.turn} {who}: {one_line(shorten(text, limit))}" for who, text in said)
