"""``scripted``: answers given in advance, in order; it raises when they run out."""

from collections.abc import Callable, Iterable

from crs_lib.llm.base import BACKENDS, Reply, Request, WithoutServer
from crs_lib.llm.errors import LLMError, ScriptEnded
from crs_lib.llm.limits import tokens_at_least
from crs_lib.llm.text import checked, split_thinking

Answer = str | LLMError | Callable[[Request], str]


@BACKENDS.register("scripted", kind="offline")
class Scripted(WithoutServer):
    """Answers from a list: texts, errors to raise, or functions of the request. For tests and rehearsals.

    ``answers`` may be one function, which then answers every call. ``asked`` keeps the requests.
    """

    spec = "scripted"

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], str] = ()) -> None:
        self._always = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self.asked: list[Request] = []

    def digest(self) -> str:
        """There are no weights."""
        return "scripted"

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """The next answer; ScriptEnded when there is none left."""
        self.asked.append(request)
        if self._always is None and len(self.asked) > len(self._answers):
            raise ScriptEnded(
                f"the script has {len(self._answers)} answers, this is call {len(self.asked)} "
                f"({request.role})"
            )
        answer = self._always or self._answers[len(self.asked) - 1]
        if isinstance(answer, LLMError):
            raise answer
        said = split_thinking(answer(request) if callable(answer) else answer)
        return Reply(
            text=checked(said.text, "stop", request.schema), thinking=said.thinking, digest="scripted",
            tokens_in=tokens_at_least(request.messages), tokens_out=len(said.text.split()),
        )  # fmt: skip
