"""The nodes' model forms: a language model decides within the rules' bounds, else the rule's result stands.

The selector shows the model every id of every segment that it shows, in prompts that fit its context.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from crs_lib.core import prompts, safety
from crs_lib.core.text import shorten
from crs_lib.llm import LLMError, Reply, Request
from crs_lib.llm.text import checked
from crs_lib.realtalk import search, wording
from crs_lib.realtalk.agent import (
    PREVIEWED,
    ROUNDS,
    AgentState,
    ChatAnswer,
    Phase,
    best_of_segments,
    covering,
)
from crs_lib.realtalk.config import PREVIEW_AND_IDS, RealTalkConfig
from crs_lib.realtalk.index import ChatIndex

_LOG = logging.getLogger("crs_lib.realtalk")
GRADED = 30  # messages that the grader shows
FIRST = 10  # messages that it may name
MOST = 15  # ids that the selector may name
LEAST = 3  # ids that it selects, the rule's behind its own
PREVIEW = 8  # messages of a segment's preview beside all of its ids; the design asks for 5 to 8
WINDOW = 2400  # characters of messages in one prompt: fits 2,048 tokens with prompt and reply
_IN_PREVIEW, _WHOLE, _IN_LIST = 200, 600, 300  # characters of a message, where it is shown
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


_Node = Callable[[ChatIndex, AgentState, AgentState], AgentState]


class Completer(Protocol):
    """Completes requests, as :class:`crs_lib.llm.LLM` does."""

    def complete(self, request: Request, /) -> Reply: ...


class _UnusableReplyError(Exception):
    """A reply that cannot be used; its text is the note that the trace carries."""


class _SelectorPrompt(NamedTuple):
    """One prompt of the selector: its text, and the positions whose ids it may name."""

    text: str
    positions: list[int]


class LLMForm:
    """Every node's decision by a language model, checked against what the model was shown.

    ``config.view`` is what the selector shows of a segment: "windowed" every message, "preview+ids" the first
    eight and the ids of all, "preview" the first three (the old way, for comparison); ``config.segments`` is
    how many of the best ones it shows. The first call that fails is logged once and ends the asking for this
    object, so that a missing server costs one attempt, not one a question; a reply that breaks its schema
    only loses that reply. In both cases the rule's result stands, with a note.
    """

    def __init__(self, llm: Completer, config: RealTalkConfig | None = None) -> None:
        self._llm = llm
        self._config = config or RealTalkConfig()
        self.name: str = getattr(llm, "spec", "model")
        self._why_not_asked = ""  # the failure after which the model is asked no more

    def decide(
        self, node: str, index: ChatIndex, state: AgentState, ruled: AgentState
    ) -> tuple[AgentState, str]:
        """The node's result, and a note where it is the rule's."""
        if self._why_not_asked:
            return ruled, self._why_not_asked
        by_model: _Node = getattr(self, f"_{node}")
        try:
            return {**ruled, **by_model(index, state, ruled)}, ""
        except _UnusableReplyError as error:
            return ruled, f"the rule's result: {error}"

    def _planner(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The plan with the model's kind and statement in the teller's words; people and days stay ours."""
        kinds = {"type": "string", "enum": list(wording.KINDS)}
        schema = _object(kind=kinds, statement=_text(200), several={"type": "boolean"})
        speakers = " and ".join(index.chat.speakers)
        reply = self._ask("planner", schema, state, speakers=speakers)
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
        reply = self._ask("retriever", _object(wordings={**_TEXTS, "maxItems": 3}), state)
        plans = []
        for statement in filter(None, map(str.strip, reply["wordings"])):
            plans.append(state["plan"]._replace(first_person=statement))
        if not plans:
            raise _UnusableReplyError("the retriever gave no wording")
        scores = dict(ruled["channels"])
        for reworded in search.scores(index, [state["question"]] * len(plans), plans):
            for name in _REWORDED:
                scores[name] = np.maximum(scores[name], reworded[name])
        fused = search.fuse(index, state["plan"], scores)
        candidates = search.ranking(fused)[: len(ruled["candidates"])]
        return {"channels": scores, "fused": fused, "candidates": candidates.tolist()}

    def _grader(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The 30 best in one list: those that the model names come first, in its order; once a question. The
        scores keep their ranks, so that selection sees the same distances as before.
        """
        if not ruled["sufficient"] and state["round"] < ROUNDS:
            return ruled
        shown = ruled["ranked"][:GRADED]
        lines = [f"{i} | {_words(index, position, _IN_LIST)}" for i, position in enumerate(shown, start=1)]
        numbers = {"type": "integer", "enum": list(range(1, len(shown) + 1))}
        schema = _object(numbers={"type": "array", "items": numbers, "maxItems": FIRST})
        reply = self._ask("grader", schema, state, messages="\n".join(lines))
        first = [shown[number - 1] for number in reply["numbers"]]
        if not first:
            raise _UnusableReplyError("the grader named no message")
        return {**ruled, "ranked": _first(first, ruled["ranked"])}

    def _selector(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """3 to 15 ids out of every message of the best segments; also beyond the first of the ranking.
        Prompts are read one by one and each names its ids; together at most 15, best ranked first.
        """
        named: list[int] = []
        for prompt in self._selector_prompts(index, state["ranked"]):
            named += self._named(index, state, prompt)
        if not named:
            raise _UnusableReplyError("the selector named no message")
        ranked = _first(state["ranked"], named)
        chosen = sorted(set(named), key=ranked.index)[:MOST]
        if len(chosen) < LEAST:
            chosen = _first(chosen, ruled["selected"])[:LEAST]
        chosen = covering(chosen, ranked, index.owner, self._config.covered)
        new = ranked[len(state["ranked"]) :]
        return {
            "selected": chosen,
            "narrative": _first(chosen, ruled["narrative"]),
            "ranked": _first(chosen, ranked),
            "candidates": [*state["candidates"], *new],
        }

    def _named(self, index: ChatIndex, state: AgentState, prompt: _SelectorPrompt) -> list[int]:
        """The positions that the model names of a prompt."""
        names = index.chat.ids(prompt.positions)
        role = "node selector" if self._config.view == PREVIEW_AND_IDS else "selector"
        ids = {"type": "array", "items": {"type": "string", "enum": names}, "maxItems": MOST}
        reply = self._ask(role, _object(ids=ids), state, messages=prompt.text)
        return index.chat.positions(reply["ids"])

    def _selector_prompts(self, index: ChatIndex, ranked: Sequence[int]) -> Iterator[_SelectorPrompt]:
        """What the selector is shown of the best segments, prompt by prompt."""
        numbers = list(best_of_segments(ranked, index.owner))[: self._config.segments]
        if self._config.view == PREVIEW_AND_IDS:
            yield from _node_prompts(index, numbers)
            return
        groups = []
        for number in numbers:
            segment = index.segments[number]
            group = list(range(segment.start, segment.end))
            if self._config.view == "preview":
                group = [position for position in group[:PREVIEWED] if position in ranked]
            groups.append(group)
        for window in _windows(index, groups):
            yield _SelectorPrompt(_lines(index, window), window)

    def _generator(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The written answer from the selected messages; an empty one is an abstention."""
        schema = _object(answer=_text(300), found={"type": "boolean"})
        window: list[int] = next(_windows(index, [state["selected"]]), [])
        reply = self._ask("generator", schema, state, messages=_lines(index, window))
        text = reply["answer"].strip()
        if not reply["found"] or not text:
            return {"answer": ChatAnswer(None, form="written", why="the model found no answer")}
        answer = ChatAnswer(text, tuple(index.chat.ids(window)), ruled["answer"].days, "written")
        return {"answer": answer, "phases": self._retold(state, ruled["phases"])}

    def _retold(self, state: AgentState, phases: list[Phase]) -> list[Phase]:
        """Titles and conclusions by the model; ids, times and summaries stay what was selected."""
        if not phases:
            return phases
        lines = [f"Phase {i}: {shorten(phase.summary, 160)}" for i, phase in enumerate(phases, start=1)]
        each = {**_TEXTS, "minItems": len(phases), "maxItems": len(phases)}
        schema = _object(titles=each, conclusions=each)
        try:
            reply = self._ask("teller", schema, state, phases="\n".join(lines))
        except _UnusableReplyError:
            return phases
        titles = [shorten(text.strip(), 80) for text in reply["titles"]]
        conclusions = [shorten(text.strip(), 240) for text in reply["conclusions"]]
        retold = []
        for phase, title, conclusion in zip(phases, titles, conclusions, strict=True):
            if all(titles):
                phase = phase._replace(title=title)
            if all(conclusions):
                phase = phase._replace(conclusion=conclusion)
            retold.append(phase)
        return retold

    def _ask(self, role: str, schema: Mapping[str, Any], state: AgentState, **values: str) -> dict[str, Any]:
        """The model's JSON reply, which keeps the schema; _UnusableReplyError where there is none."""
        name = f"realtalk/{_PROMPTS[role]}"
        text = prompts.render(name, self._config.prompts, question=state["question"], **values)
        request = Request.ask(
            f"realtalk {role}",
            text,
            seed=self._config.seed,
            schema=schema,
            options=_LIMITS,
            tags={"node": role},
        )
        try:
            reply = self._llm.complete(request)
            content = checked(reply.text, reply.stop, schema)
            record: dict[str, Any] = safety.loads(content, "the reply")
        except LLMError as error:
            if error.kind not in _OF_ONE_REPLY:
                self._why_not_asked = f"no language model ({error})"
                _LOG.warning("no language model (%s); the rules go on without it", error)
            raise _UnusableReplyError(f"the {role} got no reply ({error})") from error
        return record


def _first(chosen: Iterable[int], others: Iterable[int]) -> list[int]:
    """The chosen positions, and behind them the others, each once."""
    return list(dict.fromkeys([*chosen, *others]))


def _windows(index: ChatIndex, groups: Iterable[Sequence[int]], room: int = WINDOW) -> Iterator[list[int]]:
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


def _node_prompts(index: ChatIndex, numbers: Sequence[int]) -> Iterator[_SelectorPrompt]:
    """Segments by preview and ids (Fix A): every id of a segment, and its first eight messages. They are put
    together into prompts of about ``WINDOW`` characters, none is cut in two.
    """
    text = ""
    positions: list[int] = []
    for number in numbers:
        segment = index.segments[number]
        inside = range(segment.start, segment.end)
        lines = [f"all_message_ids: {', '.join(index.chat.ids(inside))}"]
        lines += [_line(index, position, _IN_PREVIEW) for position in inside[:PREVIEW]]
        node = "\n".join(lines)
        if positions and len(text) + len(node) > WINDOW:
            yield _SelectorPrompt(text, positions)
            text = ""
            positions = []
        positions += inside
        text = f"{text}\n\n{node}".strip()
    if positions:
        yield _SelectorPrompt(text, positions)


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _lines(index: ChatIndex, positions: Sequence[int]) -> str:
    return "\n".join(_line(index, position) for position in positions)


def _line(index: ChatIndex, position: int, most: int = _WHOLE) -> str:
    return f"{index.chat.messages[position].id} | {_words(index, position, most)}"


def _words(index: ChatIndex, position: int, most: int) -> str:
    """Day, speaker, at most so many characters of text, and photo of a message."""
    message = index.chat.messages[position]
    when = message.time.strftime("%d %b %Y") if message.time else "no date"
    photo = f" [photo: {message.caption}]" if message.photo else ""
    return f"{when} | {message.speaker}: {shorten(message.text, most)}{photo}"
