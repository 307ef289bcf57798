"""``scripted``: answers given in advance, in order; it raises when they run out. And :func:`failing`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request, tokens_at_least
from crs_lib.llm.text import Completion, answered

Answer = str | LLMError | Callable[[Request], str]


@BACKENDS.register("scripted", kind="offline")
class Scripted(Backend):
    """Answers from a list: texts, errors to raise, or functions of the request. For tests and rehearsals.
    ``answers`` may be one function, which then answers every call. ``asked`` keeps the requests.
    """

    spec = "scripted"

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], str] = ()) -> None:
        self._always = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self.asked: list[Request] = []

    def digest(self) -> str:
        return "scripted"

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        self.asked.append(request)
        if self._always is None and len(self.asked) > len(self._answers):
            line = f"the script has {len(self._answers)} answers, this is call {len(self.asked)} ({request.role})"
            raise LLMError("not recorded", line)
        answer = self._always or self._answers[len(self.asked) - 1]
        if isinstance(answer, LLMError):
            raise answer
        text = answer(request) if callable(answer) else answer
        words = Completion(
            text,
            digest="scripted",
            tokens_in=tokens_at_least(request.messages),
            tokens_out=len(text.split()),
        )
        return answered(request, words)


@contextmanager
def failing(kind: str, match: str | None = None) -> Iterator["pytest.ExceptionInfo[LLMError]"]:
    """The code within must fail as an LLMError of this kind whose text matches."""
    with pytest.raises(LLMError, match=match) as caught:
        yield caught
    assert caught.value.kind == kind
