"""Advice from a language model at each node; where it fails, a notice is logged, no more."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from crs_lib import prompts
from crs_lib.core.text import shorten
from crs_lib.realtalk import phases, plan
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.query import Advice

_LOG = logging.getLogger("crs_lib.realtalk")
_SEEN = 30
_PLAN = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": list(plan.KINDS)},
        "statement": {"type": "string"},
        "several": {"type": "boolean"},
    },
    "required": ["kind", "statement", "several"],
}
_IDS = {
    "type": "object",
    "properties": {"ids": {"type": "array", "items": {"type": "string"}}},
    "required": ["ids"],
}
_PHASES = {
    "type": "object",
    "properties": {
        "phases": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"title": {"type": "string"}, "summary": {"type": "string"}},
                "required": ["title", "summary"],
            },
        }
    },
    "required": ["phases"],
}


class Completes(Protocol):
    """The part of ``crs_lib.llm.LLM`` that is used here."""

    def complete(self, request: Any) -> Any: ...


class LLMAdvice(Advice):
    """Planner, grader and generator by a language model, each checked against what it was shown.

    The first call that fails is logged once and ends the advice for this object, so that a missing
    server costs one attempt, not one a question. A reply that breaks its schema only loses that reply.
    """

    def __init__(self, llm: Completes, seed: int = 0) -> None:
        self._llm, self._seed = llm, seed
        self.silent = False

    def plan(self, index: ChatIndex, question: str, made: plan.Plan) -> plan.Plan:
        """The plan with the model's kind and statement in the teller's words; people and days stay ours."""
        reply = self._ask(
            "planner", _PLAN, "realtalk/plan", question=question, speakers=" and ".join(index.chat.speakers)
        )
        statement = reply.get("statement")
        if not isinstance(statement, str) or not statement.strip() or reply.get("kind") not in plan.KINDS:
            return made
        kind = "list" if reply.get("several") is True and reply["kind"] == "what" else str(reply["kind"])
        return replace(made, kind=kind, first_person=shorten(statement.strip(), 300))

    def grade(self, index: ChatIndex, question: str, ranked: list[int]) -> list[int]:
        """The 30 best, each shown whole with its id; those the model names come first, in its order."""
        shown = ranked[:_SEEN]
        listing = "\n".join(_line(index, place) for place in shown)
        reply = self._ask("grader", _IDS, "realtalk/grade", question=question, messages=listing)
        allowed = {index.chat.messages[place].id: place for place in shown}
        ids = reply.get("ids")
        named = (
            [allowed[i] for i in ids if isinstance(i, str) and i in allowed] if isinstance(ids, list) else []
        )
        first = list(dict.fromkeys(named))
        return first + [place for place in ranked if place not in set(first)]

    def tell(self, index: ChatIndex, question: str, told: list[phases.Phase]) -> list[phases.Phase]:
        """Titles and summaries by the model; ids and times stay what was selected."""
        shown = "\n\n".join(
            f"Phase {n}:\n" + "\n".join(_line(index, index.chat.position[i]) for i in phase.ids)
            for n, phase in enumerate(told, start=1)
        )
        reply = self._ask("generator", _PHASES, "realtalk/tell", question=question, phases=shown)
        found = reply.get("phases")
        if not isinstance(found, list) or len(found) != len(told):
            return told
        texts = [
            (p.get("title"), p.get("summary")) if isinstance(p, Mapping) else (None, None) for p in found
        ]
        return [
            replace(phase, title=shorten(title, 80), summary=shorten(summary, 400))
            if isinstance(title, str) and isinstance(summary, str) and title.strip()
            else phase
            for phase, (title, summary) in zip(told, texts, strict=True)
        ]

    def _ask(self, role: str, schema: Mapping[str, Any], prompt: str, **values: str) -> dict[str, Any]:
        """The model's JSON reply, or an empty dict where there is none to trust."""
        from crs_lib.llm import LLMError, Request

        if self.silent:
            return {}
        try:
            text = prompts.render(prompt, **values)
            reply = self._llm.complete(Request.ask(f"realtalk {role}", text, seed=self._seed, schema=schema))
        except LLMError as error:
            self.silent = True
            _LOG.warning("no language model (%s); the offline pipeline goes on without it", error)
            return {}
        try:
            found = json.loads(reply.text)
        except json.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            _LOG.warning("the %s's reply is no JSON object; the offline result stands", role)
            return {}
        return found


def advice(spec: str, seed: int = 0) -> LLMAdvice:
    """The advice of a model by its spec; a missing server costs two quick attempts."""
    from crs_lib.llm import LLM, Retry

    return LLMAdvice(LLM(spec, retry=Retry(waits=1, seeds=1, first=0.2, longest=1.0)), seed)


def judge_answer(llm: Completes, question: str, expected: str, given: str) -> bool | None:
    """Whether a model takes the given answer for the expected one; None where it cannot be asked or read.

    Optional and never part of a headline: judges of this kind are known to accept wrong answers.
    """
    reply = LLMAdvice(llm)._ask(
        "judge", _VERDICT, "realtalk/judge_answer", question=question, expected=expected, given=given
    )
    verdict = reply.get("same")
    return verdict if isinstance(verdict, bool) else None


_VERDICT = {"type": "object", "properties": {"same": {"type": "boolean"}}, "required": ["same"]}


def _line(index: ChatIndex, place: int) -> str:
    message = index.chat.messages[place]
    when = message.time.strftime("%d %b %Y") if message.time else "no date"
    photo = f" [photo: {message.caption}]" if message.photo else ""
    return f"{message.id} | {when} | {message.speaker}: {shorten(message.text, 600)}{photo}"
