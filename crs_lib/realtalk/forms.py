"""The nodes' model forms: a language model decides within the rules' bounds, else the rule stands.

The selector shows the model every id of every candidate segment, in windows that fit its context.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crs_lib.core import prompts, safety
from crs_lib.core.text import shorten
from crs_lib.realtalk import answers, channels, plan
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.query import ROUNDS, AgentState

_LOG = logging.getLogger("crs_lib.realtalk")
GRADED, FIRST, MOST = 30, 10, 15
WINDOW = 2400  # characters of messages in one prompt: fits 2,048 tokens with prompt and reply
_PROMPTS = {
    "planner": "plan", "retriever": "reword", "grader": "grade", "explorer": "explore", "selector": "select",
    "generator": "answer", "teller": "tell",
}  # fmt: skip
_LIMITS = {"num_predict": 256, "temperature": 0.0}
# Errors about one reply (its form, its length); others are about the server.
_OF_ONE_REPLY = ("bad reply", "cut", "empty", "garbled", "prompt cut", "prompt too long")


class _UnusableReplyError(Exception):
    """A reply that cannot be used; its text is the note that the trace carries."""


class LLMForm:
    """Every node's decision by a language model, checked against what the model was shown. ``llm`` completes
    requests, as :class:`crs_lib.llm.LLM` does. ``view`` is what the selector shows of a segment: "windowed"
    every message, "preview" the first three (the old way, kept for comparison); ``segments`` is how many of
    the best ones it shows. The first call that fails is logged once and ends the asking for this object, so
    that a missing server costs one attempt, not one a question; a reply that breaks its schema only loses
    that reply. In both cases the rule's result stands, with a note.
    """

    def __init__(
        self, llm: Any, seed: int = 0, view: str = "windowed", segments: int = 8, prompts: str = ""
    ) -> None:
        self._llm, self._seed, self.view, self.segments, self.prompts = llm, seed, view, segments, prompts
        self.name = llm.spec if hasattr(llm, "spec") else "model"
        self.silent = ""

    def decide(
        self, node: str, index: ChatIndex, state: AgentState, ruled: AgentState
    ) -> tuple[AgentState, str]:
        """The node's result, and a note where it is the rule's."""
        ask: Callable[[ChatIndex, AgentState, AgentState], AgentState] = getattr(self, f"_{node}")
        if self.silent:
            return ruled, self.silent
        try:
            return {**ruled, **ask(index, state, ruled)}, ""
        except _UnusableReplyError as error:
            return ruled, f"the rule's result: {error}"

    def _planner(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The plan with the model's kind and statement in the teller's words; people and days stay ours."""
        schema = _object(
            kind={"type": "string", "enum": list(plan.KINDS)}, statement={"type": "string", "maxLength": 200},
            several={"type": "boolean"},
        )  # fmt: skip
        speakers = " and ".join(index.chat.speakers)
        reply = self._ask("planner", schema, question=state["question"], speakers=speakers)
        if not (statement := reply["statement"].strip()):
            raise _UnusableReplyError("the reply has no text 'statement'")
        kind = "list" if reply["several"] and reply["kind"] == "what" else reply["kind"]
        return {"plan": ruled["plan"]._replace(kind=kind, first_person=statement)}

    def _retriever(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """Up to three more wordings; a message's score is its best over all of them."""
        if state["round"]:
            return ruled
        schema = _object(wordings={**_LIST, "maxItems": 3})
        question = state["question"]
        reply = self._ask("retriever", schema, question=question)
        if not (found := [w.strip() for w in reply["wordings"] if w.strip()]):
            raise _UnusableReplyError("the retriever gave no wording")
        scores = dict(ruled["channels"])
        plans = [state["plan"]._replace(first_person=wording) for wording in found]
        for again in channels.scores(index, [question] * len(found), plans):
            for name in ("first", "turn first", "tokens", "beside first", "beside tokens"):
                scores[name] = np.maximum(scores[name], again[name])
        fused = channels.fuse(index, state["plan"], scores)
        size = len(ruled["candidates"])
        return {
            "channels": scores, "fused": fused,
            "candidates": channels.ranking(fused)[:size].tolist(),
        }  # fmt: skip

    def _grader(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The 30 best in one list: those that the model names come first, in its order; once a question. The
        scores keep their places, so that selection sees the same distances as before.
        """
        if not ruled["sufficient"] and state["round"] < ROUNDS:
            return ruled
        shown = ruled["ranked"][:GRADED]
        lines = "\n".join(f"{n} | {_said(index, place, 300)}" for n, place in enumerate(shown, start=1))
        number = {"type": "integer", "enum": list(range(1, len(shown) + 1))}
        schema = _object(numbers={"type": "array", "items": number, "maxItems": FIRST})
        reply = self._ask("grader", schema, question=state["question"], messages=lines)
        if not (first := [shown[n - 1] for n in reply["numbers"]]):
            raise _UnusableReplyError("the grader named no message")
        return {**ruled, "ranked": list(dict.fromkeys([*first, *ruled["ranked"]]))}

    def _explorer(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The segments, by the words that mark them out, that the next search leans to."""
        owners = _owners(index, state["ranked"][:40])
        labels = {f"{i}: {' '.join(index.segments[i].label)}": i for i in owners}
        schema = _object(topics=_ids(labels, 5))
        listing = "\n".join(labels)
        reply = self._ask("explorer", schema, question=state["question"], topics=listing)
        if not (chosen := [labels[name] for name in reply["topics"]]):
            raise _UnusableReplyError("the explorer named no topic")
        finite = np.where(np.isinf(ruled["widened"]), 99.0, ruled["widened"])
        return {"widened": (finite + 0.5 * np.isin(index.owner, chosen)).astype(np.float32)}

    def _selector(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """3 to 15 ids out of every message of the best segments; also beyond the first of the ranking.
        Windows are read one by one and each names its ids; together at most 15, best ranked first.
        """
        owners = _owners(index, state["ranked"])[: self.segments]
        kept = set(state["ranked"])
        groups = [_shown(index, owner, self.view, kept) for owner in owners]
        named: list[int] = []
        for window in _windows(index, [group for group in groups if group]):
            ids = {index.chat.messages[place].id: place for place in window}
            schema, lines = _object(ids=_ids(ids, MOST)), _lines(index, window)
            reply = self._ask("selector", schema, question=state["question"], messages=lines)
            named += [ids[name] for name in reply["ids"]]
        if not named:
            raise _UnusableReplyError("the selector named no message")
        known = set(state["ranked"])
        ranked = [*state["ranked"], *(place for place in dict.fromkeys(named) if place not in known)]
        order = {place: i for i, place in enumerate(ranked)}
        chosen = sorted(dict.fromkeys(named), key=lambda place: order[place])[:MOST]
        chosen += [place for place in ruled["selected"] if place not in chosen][: max(0, 3 - len(chosen))]
        first = chosen + [place for place in ranked if place not in set(chosen)]
        candidates = [*state["candidates"], *(place for place in ranked if place not in known)]
        told = chosen + [place for place in ruled["narrative"] if place not in set(chosen)]
        return {"selected": chosen, "narrative": told, "ranked": first, "candidates": candidates}

    def _generator(self, index: ChatIndex, state: AgentState, ruled: AgentState) -> AgentState:
        """The written answer from the selected messages; an empty one is an abstention."""
        schema = _object(answer={"type": "string", "maxLength": 300}, found={"type": "boolean"})
        window = next(_windows(index, [[place] for place in state["selected"]]), [])
        reply = self._ask("generator", schema, question=state["question"], messages=_lines(index, window))
        ids = tuple(index.chat.ids(window))
        if not reply["found"] or not (text := reply["answer"].strip()):
            return {"answer": answers.ChatAnswer(None, form="written", why="the model found no answer")}
        told = answers.ChatAnswer(text, ids, ruled["answer"].days, "written")
        return {"answer": told, "phases": self._told(index, state, ruled["phases"])}

    def _told(self, index: ChatIndex, state: AgentState, told: list[answers.Phase]) -> list[answers.Phase]:
        """Titles and conclusions by the model; ids, times and summaries stay what was selected."""
        if not told:
            return told
        shown = "\n".join(f"Phase {n}: {shorten(p.summary, 160)}" for n, p in enumerate(told, start=1))
        each = {**_LIST, "minItems": len(told), "maxItems": len(told)}
        schema = _object(titles=each, conclusions=each)
        try:
            reply = self._ask("teller", schema, question=state["question"], phases=shown)
        except _UnusableReplyError:
            return told
        for key, name, most in (("titles", "title", 80), ("conclusions", "conclusion", 240)):
            said: list[dict[str, Any]] = [{name: shorten(text.strip(), most)} for text in reply[key]]
            if all(text[name] for text in said):
                told = [phase._replace(**text) for phase, text in zip(told, said, strict=True)]
        return told

    def _ask(self, role: str, schema: Mapping[str, Any], **values: str) -> dict[str, Any]:
        """The model's JSON reply, which keeps the schema; _UnusableReplyError where there is none."""
        from crs_lib.llm import LLMError, Request
        from crs_lib.llm.text import checked

        text = prompts.render(f"realtalk/{_PROMPTS[role]}", self.prompts, **values)
        request = Request.ask(
            f"realtalk {role}", text, seed=self._seed, schema=schema, options=_LIMITS, tags={"node": role}
        )
        try:
            reply = self._llm.complete(request)
            found: dict[str, Any] = safety.loads(checked(reply.text, reply.stop, schema), "the reply")
        except LLMError as error:
            if error.kind not in _OF_ONE_REPLY:
                self.silent = f"no language model ({error})"
                _LOG.warning("no language model (%s); the rules go on without it", error)
            raise _UnusableReplyError(f"the {role} got no reply ({error})") from error
        return found


def _windows(index: ChatIndex, groups: Sequence[Sequence[int]], room: int = WINDOW) -> Iterator[list[int]]:
    """Groups of messages put together, in their order, into prompts of at most ``room`` characters. Every
    message comes exactly once; a group that does not fit what is left goes on in the next window.
    """
    now: list[int] = []
    left = room
    for place in (place for group in groups for place in group):
        size = len(_line(index, place)) + 1
        if now and size > left:
            yield now
            now, left = [], room
        now.append(place)
        left -= size
    if now:
        yield now


def _owners(index: ChatIndex, ranked: Sequence[int]) -> list[int]:
    """The segments of some messages, each once."""
    return list(dict.fromkeys(int(index.owner[place]) for place in ranked))


def _shown(index: ChatIndex, owner: int, view: str, kept: set[int]) -> list[int]:
    """Every message of a segment; in the old view the candidates among its first three."""
    segment = index.segments[owner]
    if view == "windowed":
        return list(range(segment.start, segment.end))
    first = range(segment.start, min(segment.end, segment.start + answers.PREVIEWED))
    return [place for place in first if place in kept]


_LIST = {"type": "array", "items": {"type": "string", "maxLength": 120}}


def _ids(names: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A list of at most ``most`` of these names, and of nothing else."""
    return {"type": "array", "items": {"type": "string", "enum": list(names)}, "maxItems": most}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _lines(index: ChatIndex, places: Sequence[int]) -> str:
    return "\n".join(_line(index, place) for place in places)


def _line(index: ChatIndex, place: int) -> str:
    return f"{index.chat.messages[place].id} | {_said(index, place, 600)}"


def _said(index: ChatIndex, place: int, most: int) -> str:
    """Day, speaker, at most so many characters of text, and photo of a message."""
    message = index.chat.messages[place]
    when = message.time.strftime("%d %b %Y") if message.time else "no date"
    photo = f" [photo: {message.caption}]" if message.photo else ""
    return f"{when} | {message.speaker}: {shorten(message.text, most)}{photo}"
