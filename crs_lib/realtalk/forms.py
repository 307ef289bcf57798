"""The nodes' model forms: a language model decides within the rules' bounds, else the rule's result stands.

The selector shows the model every id of every candidate segment, in windows that fit its context.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from crs_lib.core import prompts, safety
from crs_lib.core.text import shorten
from crs_lib.llm import LLMError, Reply, Request
from crs_lib.llm.text import checked
from crs_lib.realtalk import answers, channels, plan
from crs_lib.realtalk.agent import ROUNDS, AgentState
from crs_lib.realtalk.config import PREVIEW_AND_IDS
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.phases import PREVIEWED, Phase, covering

_LOG = logging.getLogger("crs_lib.realtalk")
GRADED = 30  # messages that the grader shows
FIRST = 10  # messages that it may name
MOST = 15  # ids that the selector may name
LEAST = 3  # ids that it selects, the rule's behind its own
PREVIEW = 8  # messages of a segment's preview beside all of its ids; the design asks for 5 to 8
PREVIEW_CHARACTERS = 200  # of a message in the preview
WINDOW = 2400  # characters of messages in one prompt: fits 2,048 tokens with prompt and reply
_PROMPTS = {
    "planner": "plan",
    "retriever": "reword",
    "grader": "grade",
    "selector": "select",
    "node selector": "select_nodes",
    "generator": "answer",
    "teller": "tell",
}
_LIMITS = {"num_predict": 256, "temperature": 0.0}
_REWORDED = ("first", "turn first", "tokens", "beside first", "beside tokens")  # channels of a wording
# Errors about one reply (its form, its length); others are about the server.
_OF_ONE_REPLY = ("bad reply", "cut", "empty", "garbled", "prompt cut", "prompt too long")
_TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 120}}


class Completer(Protocol):
    """Completes requests, as :class:`crs_lib.llm.LLM` does."""

    def complete(self, request: Request, /) -> Reply: ...


class _Offer(NamedTuple):
    """One prompt of the selector: its text, and the positions whose ids it may name."""

    text: str
    positions: list[int]


class _UnusableReplyError(Exception):
    """A reply that cannot be used; its text is the note that the trace carries."""


class LLMForm:
    """Every node's decision by a language model, checked against what the model was shown.

    ``view`` is what the selector shows of a segment: "windowed" every message, "preview+ids" the first eight
    and the ids of all, "preview" the first three (the old way, for comparison); ``segments`` is how many of
    the best ones it shows. The first call that fails is logged once and ends the asking for this object, so
    that a missing server costs one attempt, not one a question; a reply that breaks its schema only loses
    that reply. In both cases the rule's result stands, with a note.
    """

    def __init__(
        self,
        llm: Completer,
        seed: int = 0,
        view: str = "windowed",
        segments: int = 8,
        prompts: str = "",
        covered: int = 0,
    ) -> None:
        self._llm = llm
        self._seed = seed
        self._view = view
        self._segments = segments
        self._prompts = prompts
        self._covered = covered
        self.name: str = getattr(llm, "spec", "model")
        self._why_not_asked = ""  # the failure after which the model is asked no more

    def decide(
        self, node: str, index: ChatIndex, state: AgentState, ruled: AgentState
    ) -> tuple[AgentState, str]:
        """The node's result, and a note where it is the rule's."""
        nodes = {
            "planner": self._planner,
            "retriever": self._retriever,
            "grader": self._grader,
            "selector": self._selector,
            "generator": self._generator,
        }
        if self._why_not_asked:
            return ruled, self._why_not_asked
        try:
            return {**ruled, **nodes[node](index, state, ruled)}, ""
        except _UnusableReplyError as error:
            return ruled, f"the rule's result: {error}"

    def _planner(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The plan with the model's kind and statement in the teller's words; people and days stay ours."""
        schema = _object(
            kind={"type": "string", "enum": list(plan.KINDS)},
            statement={"type": "string", "maxLength": 200},
            several={"type": "boolean"},
        )
        speakers = " and ".join(index.chat.speakers)
        reply = self._ask("planner", schema, question=state["question"], speakers=speakers)
        statement = reply["statement"].strip()
        if not statement:
            raise _UnusableReplyError("the reply has no text 'statement'")
        kind = reply["kind"]
        if kind == "what" and reply["several"]:
            kind = "list"
        return {"plan": ruled["plan"]._replace(kind=kind, first_person=statement)}

    def _retriever(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """Up to three more wordings; a message's score is its best over all of them."""
        if state["round"]:
            return ruled
        question = state["question"]
        reply = self._ask("retriever", _object(wordings={**_TEXTS, "maxItems": 3}), question=question)
        plans = []
        for wording in filter(None, map(str.strip, reply["wordings"])):
            plans.append(state["plan"]._replace(first_person=wording))
        if not plans:
            raise _UnusableReplyError("the retriever gave no wording")
        scores = dict(ruled["channels"])
        for reworded in channels.scores(index, [question] * len(plans), plans):
            for name in _REWORDED:
                scores[name] = np.maximum(scores[name], reworded[name])
        fused = channels.fuse(index, state["plan"], scores)
        candidates = channels.ranking(fused)[: len(ruled["candidates"])]
        return {"channels": scores, "fused": fused, "candidates": candidates.tolist()}

    def _grader(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The 30 best in one list: those that the model names come first, in its order; once a question. The
        scores keep their ranks, so that selection sees the same distances as before.
        """
        if not ruled["sufficient"] and state["round"] < ROUNDS:
            return ruled
        shown = ruled["ranked"][:GRADED]
        lines = []
        for number, position in enumerate(shown, start=1):
            lines.append(f"{number} | {_words(index, position, 300)}")
        numbers = {"type": "integer", "enum": list(range(1, len(shown) + 1))}
        schema = _object(numbers={"type": "array", "items": numbers, "maxItems": FIRST})
        reply = self._ask("grader", schema, question=state["question"], messages="\n".join(lines))
        first = [shown[number - 1] for number in reply["numbers"]]
        if not first:
            raise _UnusableReplyError("the grader named no message")
        return {**ruled, "ranked": list(dict.fromkeys([*first, *ruled["ranked"]]))}

    def _selector(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """3 to 15 ids out of every message of the best segments; also beyond the first of the ranking.
        Windows are read one by one and each names its ids; together at most 15, best ranked first.
        """
        named = dict.fromkeys(self._named(index, state))
        if not named:
            raise _UnusableReplyError("the selector named no message")
        ranked = list(dict.fromkeys([*state["ranked"], *named]))
        rank = {position: number for number, position in enumerate(ranked)}
        chosen = sorted(named, key=rank.__getitem__)[:MOST]
        ruled_only = [position for position in ruled["selected"] if position not in chosen]
        lacking = max(0, LEAST - len(chosen))
        chosen += ruled_only[:lacking]
        chosen = covering(chosen, ranked, index.owner, self._covered)
        new = ranked[len(state["ranked"]) :]
        return {
            "selected": chosen,
            "narrative": _first(chosen, ruled["narrative"]),
            "ranked": _first(chosen, ranked),
            "candidates": [*state["candidates"], *new],
        }

    def _named(self, index: ChatIndex, state: AgentState) -> Iterator[int]:
        """The positions that the model names, prompt by prompt."""
        role = "node selector" if self._view == PREVIEW_AND_IDS else "selector"
        for offer in self._offers(index, state["ranked"]):
            position_of = {index.chat.messages[position].id: position for position in offer.positions}
            schema = _object(ids=_one_of(position_of, MOST))
            reply = self._ask(role, schema, question=state["question"], messages=offer.text)
            yield from (position_of[name] for name in reply["ids"])

    def _offers(self, index: ChatIndex, ranked: Sequence[int]) -> Iterator[_Offer]:
        """What the selector is shown of the best segments."""
        numbers = _segments(index, ranked)[: self._segments]
        if self._view == PREVIEW_AND_IDS:
            yield from _node_offers(index, numbers)
            return
        groups = [_shown(index, number, self._view, set(ranked)) for number in numbers]
        for window in windows(index, groups):
            yield _Offer(_lines(index, window), window)

    def _generator(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The written answer from the selected messages; an empty one is an abstention."""
        schema = _object(answer={"type": "string", "maxLength": 300}, found={"type": "boolean"})
        window: list[int] = next(windows(index, [state["selected"]]), [])
        reply = self._ask("generator", schema, question=state["question"], messages=_lines(index, window))
        text = reply["answer"].strip()
        if not reply["found"] or not text:
            return {"answer": answers.ChatAnswer(None, form="written", why="the model found no answer")}
        ids = tuple(index.chat.ids(window))
        answer = answers.ChatAnswer(text, ids, ruled["answer"].days, "written")
        return {"answer": answer, "phases": self._retold(state, ruled["phases"])}

    def _retold(self, state: AgentState, phases: list[Phase]) -> list[Phase]:
        """Titles and conclusions by the model; ids, times and summaries stay what was selected."""
        if not phases:
            return phases
        lines = []
        for number, phase in enumerate(phases, start=1):
            lines.append(f"Phase {number}: {shorten(phase.summary, 160)}")
        each = {**_TEXTS, "minItems": len(phases), "maxItems": len(phases)}
        schema = _object(titles=each, conclusions=each)
        try:
            reply = self._ask("teller", schema, question=state["question"], phases="\n".join(lines))
        except _UnusableReplyError:
            return phases
        titles = [shorten(text.strip(), 80) for text in reply["titles"]]
        conclusions = [shorten(text.strip(), 240) for text in reply["conclusions"]]
        if all(titles):
            phases = _with(phases, "title", titles)
        if all(conclusions):
            phases = _with(phases, "conclusion", conclusions)
        return phases

    def _ask(self, role: str, schema: Mapping[str, Any], **values: str) -> dict[str, Any]:
        """The model's JSON reply, which keeps the schema; _UnusableReplyError where there is none."""
        text = prompts.render(f"realtalk/{_PROMPTS[role]}", self._prompts, **values)
        tags = {"node": role}
        request = Request.ask(
            f"realtalk {role}", text, seed=self._seed, schema=schema, options=_LIMITS, tags=tags
        )
        try:
            reply = self._llm.complete(request)
            record: dict[str, Any] = safety.loads(checked(reply.text, reply.stop, schema), "the reply")
        except LLMError as error:
            if error.kind not in _OF_ONE_REPLY:
                self._why_not_asked = f"no language model ({error})"
                _LOG.warning("no language model (%s); the rules go on without it", error)
            raise _UnusableReplyError(f"the {role} got no reply ({error})") from error
        return record


def _with(phases: Sequence[Phase], field: str, texts: Sequence[str]) -> list[Phase]:
    """The phases with other texts in a field."""
    changed = []
    for phase, text in zip(phases, texts, strict=True):
        changed.append(phase._replace(**{field: text}))  # type: ignore[arg-type]
    return changed


def _first(chosen: Sequence[int], others: Iterable[int]) -> list[int]:
    """The chosen positions, and behind them the others."""
    return list(dict.fromkeys([*chosen, *others]))


def windows(index: ChatIndex, groups: Iterable[Sequence[int]], room: int = WINDOW) -> Iterator[list[int]]:
    """Groups of messages put together, in their order, into prompts of at most ``room`` characters. Every
    message comes exactly once; a group that does not fit what is left goes on in the next window.
    """
    window: list[int] = []
    left = room
    for group in groups:
        for position in group:
            size = len(_line(index, position)) + 1
            if window and size > left:
                yield window
                window = []
                left = room
            window.append(position)
            left -= size
    if window:
        yield window


def _node_offers(index: ChatIndex, numbers: Sequence[int], room: int = WINDOW) -> Iterator[_Offer]:
    """Segments by preview and ids (Fix A): every id of a segment, and its first eight messages.

    The segments are put together into prompts of about ``room`` characters, none is cut in two.
    """
    text = ""
    positions: list[int] = []
    for number in numbers:
        node = _node(index, number)
        if positions and len(text) + len(node) > room:
            yield _Offer(text, positions)
            text = ""
            positions = []
        segment = index.segments[number]
        positions += range(segment.start, segment.end)
        text = f"{text}\n\n{node}".strip()
    if positions:
        yield _Offer(text, positions)


def _node(index: ChatIndex, number: int) -> str:
    """A segment with ``all_message_ids`` and the preview of its first eight messages."""
    segment = index.segments[number]
    ids = index.chat.ids(range(segment.start, segment.end))
    lines = [f"all_message_ids: {', '.join(ids)}"]
    for position in range(segment.start, min(segment.end, segment.start + PREVIEW)):
        lines.append(_line(index, position, PREVIEW_CHARACTERS))
    return "\n".join(lines)


def _segments(index: ChatIndex, ranked: Sequence[int]) -> list[int]:
    """The segments of some messages, each once."""
    return list(dict.fromkeys(index.owner[list(ranked)].tolist()))


def _shown(index: ChatIndex, number: int, view: str, ranked: set[int]) -> list[int]:
    """Every message of a segment; in the old view the candidates among its first three."""
    segment = index.segments[number]
    if view == "windowed":
        return list(range(segment.start, segment.end))
    first = range(segment.start, min(segment.end, segment.start + PREVIEWED))
    return [position for position in first if position in ranked]


def _one_of(names: Iterable[str], most: int) -> dict[str, Any]:
    """A list of at most ``most`` of these names, and of nothing else."""
    return {"type": "array", "items": {"type": "string", "enum": list(names)}, "maxItems": most}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _lines(index: ChatIndex, positions: Sequence[int]) -> str:
    return "\n".join(_line(index, position) for position in positions)


def _line(index: ChatIndex, position: int, most: int = 600) -> str:
    return f"{index.chat.messages[position].id} | {_words(index, position, most)}"


def _words(index: ChatIndex, position: int, most: int) -> str:
    """Day, speaker, at most so many characters of text, and photo of a message."""
    message = index.chat.messages[position]
    when = message.time.strftime("%d %b %Y") if message.time else "no date"
    photo = f" [photo: {message.caption}]" if message.photo else ""
    return f"{when} | {message.speaker}: {shorten(message.text, most)}{photo}"
