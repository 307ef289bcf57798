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
RULE = (
    "first turn, last turn, turns with a shift and the turns after them (latest first), then the others "
    "(latest first), as many as fit; texts are shortened to the first limit with which the first and the "
    "last turn fit"
)
_LOGGED = ("wishes", "constraints", "avoid")
_FROM_LOG = (
    "From the record of the user, not from the conversation. Every line says what held from that turn on."
)
_FROM_TURNS = (
    "No record of the user was kept. The lines are read by rules from the user's own turns; every line says "
    "what a turn names."
)
Groups = Sequence[Sequence[str]]  # of constructs that share a call


class Excerpt(NamedTuple):
    """The turns of a dialogue that a judge sees, of ``total``; ``shortened`` texts have ``limit`` letters."""

    turns: tuple[int, ...]
    total: int
    shortened: int
    limit: int = TURN_LIMITS[0]

    def to_json(self) -> dict[str, Any]:
        """The record of the trimming: the rule, the turns left out, the texts shortened."""
        left_out = [turn for turn in range(1, self.total + 1) if turn not in self.turns]
        record: dict[str, Any] = {"rule": RULE, "turns": self.total, "left_out": left_out}
        record.update(shortened=self.shortened, limit=self.limit)
        return record


def with_named(dialogue: Dialogue, grounder: Callable[[], Grounder], turns: bool = False) -> Dialogue:
    """The dialogue marked with what its turns name, where no turn's log says what the user wants. With
    ``turns`` it is so in any case, and what the log says is left out.
    """
    if turns:
        bare = []
        for turn in dialogue.turns:
            log = {name: value for name, value in turn.user_meta.items() if name not in _LOGGED}
            meta = {**turn.meta, "user_meta": log}
            bare.append(replace(turn, meta=meta))
        unlogged = replace(dialogue, turns=tuple(bare))
        return grounder().annotate(unlogged)
    if any(_is_logged(pair) for pair in dialogue.pairs()):
        return dialogue
    return grounder().annotate(dialogue)


def _is_logged(pair: Pair) -> bool:
    """Whether the log of a turn says what the user wants."""
    log = pair.user.user_meta
    return "wishes" in log or "constraints" in log


def wish_summary(dialogue: Dialogue) -> str:
    """The user's constraints from the logged turns, a line for every turn at which they changed. Read from
    ``user_meta``: ``wishes`` or else ``constraints``, and ``avoid``. Values are quoted. Where a log has none,
    they are what the user's turns name (``marks``, see :func:`with_named`), else a line says so.
    """
    lines = []
    before = None
    for pair in dialogue.pairs():
        if not _is_logged(pair):
            values = [one_line(f"{mark.field}: {mark.value}") for mark in pair.user.marks]
            if values:
                named = "; ".join(dict.fromkeys(values))
                lines.append(f"named in turn {pair.turn}: {named}")
            continue
        log = pair.user.user_meta
        wishes = _values(log.get("wishes") or log.get("constraints") or {})
        wishes += [f"not {value}" for value in _values(log.get("avoid") or {})]
        now = "; ".join(wishes)
        if now != before:
            lines.append(f"from turn {pair.turn}: {now or 'anything'}")
        before = now
    return "\n".join(lines) or "No wishes were recorded; take them from what the user says."


def _values(wishes: Any) -> list[str]:
    """Texts `field = quoted value` for the fields of a logged state that have a value."""
    if not isinstance(wishes, Mapping):
        raise InputError(f"logged constraints must be an object of fields, got {shorten(repr(wishes), 80)}")
    texts = []
    for name, value in wishes.items():
        parts = value if isinstance(value, list | tuple) else [value]
        quoted = [one_line(str(part)) for part in parts if part not in (None, "")]
        if quoted:
            texts.append(f"{name} = {' and '.join(quoted)}")
    return texts


def digest(expected: bool = False) -> str:
    """Hex SHA-256 over all texts of the judge's prompt: the version of the rubric."""
    names = ["movies/judge_system", "movies/judge_user"]
    if expected:
        names = ["movies/judge_level"]
    names += [row.prompt for row in constructs.CONSTRUCTS.values()]
    parts: list[Any] = [prompts.digest(name) for name in names]
    rubric = json.dumps([*parts, RULE, TURN_LIMITS])
    return hashlib.sha256(rubric.encode()).hexdigest()


def least(groups: Groups, expected: bool = False) -> int:
    """Tokens that a judge's prompt takes at most before any word of a dialogue stands in it."""
    empty = Dialogue("", "", ())
    return _longest(empty, groups, Excerpt((), 0, 0), expected)


def _longest(dialogue: Dialogue, groups: Groups, excerpt: Excerpt, expected: bool) -> int:
    return max(tokens_at_most(messages(dialogue, group, excerpt, expected)) for group in groups)


def fit(dialogue: Dialogue, groups: Groups, room: int, expected: bool = False) -> Excerpt:
    """The turns that a judge can be shown in ``room`` tokens, the same for every group of constructs. Chosen
    by :data:`RULE`. InputError where not even the first and the last turn fit, or there is no reply.
    """
    pairs = dialogue.pairs()
    total = len(pairs)
    if not pairs:
        raise InputError(f"session {dialogue.session_id!r} holds no reply; there is nothing to judge")
    rubric = _longest(dialogue, groups, Excerpt((), total, 0), expected)
    spare = room - rubric - tokens_of(str(total))
    for limit in TURN_LIMITS:
        turns = _fitting(pairs, set(dialogue.shift_turns()), spare, limit)
        if len(turns) >= min(2, total):
            return Excerpt(turns, total, _shortened(pairs, turns, limit), limit)
    fault = f"session {dialogue.session_id!r}: its first and last turn do not fit into {room} tokens"
    raise InputError(f"{fault} beside the rubric; raise the judge's num_ctx")


def _shortened(pairs: Sequence[Pair], turns: Sequence[int], limit: int) -> int:
    """How many texts of these turns are longer than the limit."""
    count = 0
    for turn in turns:
        pair = pairs[turn - 1]
        count += len(pair.user.text) > limit
        count += len(pair.system.text) > limit
    return count


def _fitting(pairs: Sequence[Pair], shifts: set[int], spare: int, limit: int) -> tuple[int, ...]:
    """The turns that fit, chosen in the order of the rule and given in the order of the conversation."""
    latest = range(len(pairs), 0, -1)
    at_shifts = [turn for turn in latest if turn in shifts or turn - 1 in shifts]
    in_order = dict.fromkeys([1, latest[0], *at_shifts, *latest])
    shown: list[int] = []
    size = 0
    for turn in in_order:
        more = sorted([*shown, turn])
        lines = _pair_lines(pairs[turn - 1], limit)
        size += len(lines.encode("utf-8", "replace")) + 1
        gaps = "\n".join(_gaps(more).values())
        if tokens_of("x" * size + gaps) > spare:
            break
        shown = more
    return tuple(shown)


def _gaps(turns: Sequence[int]) -> dict[int, str]:
    """The lines about turns that are left out, by the turn before which they stand."""
    gaps = {}
    for before, turn in pairwise([0, *turns]):
        first = before + 1
        last = turn - 1
        if first == last:
            gaps[turn] = f"[turn {first} left out]"
        elif first < last:
            gaps[turn] = f"[turns {first} to {last} left out]"
    return gaps


def messages(
    dialogue: Dialogue, group: Sequence[str], excerpt: Excerpt, expected: bool = False
) -> tuple[Message, ...]:
    """The messages to a judge of these constructs: rules, criteria, constraints, quoted conversation. With
    ``expected`` the letter of a level (:data:`LEVELS`) is asked for, and the conversation comes first.
    """
    conversation = _conversation(dialogue, excerpt)
    wishes = wish_summary(dialogue)
    criteria = "\n\n".join(prompts.render(constructs.get(name).prompt) for name in group)
    logged = any(_is_logged(pair) for pair in dialogue.pairs())
    origin = _FROM_LOG if logged else _FROM_TURNS
    parts = {"wishes": wishes, "origin": origin, "conversation": conversation}
    parts["fence"] = fence([conversation, wishes])
    parts["turns"] = f"{len(excerpt.turns)} of {excerpt.total} turns, in their order."
    lowest, highest = constructs.get(group[0]).scale
    if expected:
        for level, letter in enumerate(LEVELS, start=lowest):
            criteria = criteria.replace(f"\n{level} - ", f"\n{letter} - ")
        return (Message("user", prompts.render("movies/judge_level", criteria=criteria, **parts)),)
    rules = prompts.render("movies/judge_system", lowest=lowest, highest=highest)
    text = prompts.render("movies/judge_user", names=", ".join(group), criteria=criteria, **parts)
    return (Message("system", rules), Message("user", text))


def _conversation(dialogue: Dialogue, excerpt: Excerpt) -> str:
    """The turns of an excerpt, with a line for each gap."""
    pairs = dialogue.pairs()
    gaps = _gaps(excerpt.turns)
    lines = []
    for turn in excerpt.turns:
        if turn in gaps:
            lines.append(gaps[turn])
        lines.append(_pair_lines(pairs[turn - 1], excerpt.limit))
    return "\n".join(lines)


def _pair_lines(pair: Pair, limit: int) -> str:
    """The two lines of a turn; each text is one JSON string, so a text cannot pretend to be a line."""
    user = one_line(shorten(pair.user.text, limit))
    system = one_line(shorten(pair.system.text, limit))
    return f"{pair.turn} USER: {user}\n{pair.turn} SYSTEM: {system}"
