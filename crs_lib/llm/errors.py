# ruff: noqa: N818  -- the names are the words of the log; all of them are LLMErrors
"""Failures of a call, a class each: its word in logs, and whether and how the call is tried again."""

from typing import Literal

from crs_lib.core.errors import RunError, printable

Remedy = Literal["no", "wait", "other seed", "more room"]


class LLMError(RuntimeError):
    """A call without a usable reply. ``kind`` is the word in logs and counts, ``remedy`` the next attempt.

    ``wait``: the same request again after a growing pause. ``other seed``: at once, with the next seed of
    a fixed sequence. ``more room``: once, with twice ``num_predict``. ``no``: not tried again.
    """

    kind = "failed"
    remedy: Remedy = "no"

    def __init__(self, message: str, *, text: str = "", pause: float = 0.0) -> None:
        super().__init__(printable(message))
        self.text = text  # what the model wrote, where it wrote something unusable
        self.pause = pause  # seconds that the server asked us to wait
        self.attempts = 1
        self.tried: tuple[str, ...] = ()  # kinds of the attempts before this one


class Unreachable(LLMError):
    """No connection: nothing listens there, or the name does not resolve."""

    kind, remedy = "unreachable", "wait"


class TimedOut(LLMError):
    """The server did not answer within the time-out."""

    kind, remedy = "timeout", "wait"


class Dropped(LLMError):
    """The connection ended in the middle of an answer."""

    kind, remedy = "dropped", "wait"


class Busy(LLMError):
    """The server could not serve the call now: HTTP 408, 429 or 5xx."""

    kind, remedy = "busy", "wait"


class Garbled(LLMError):
    """The answer does not follow the server's own protocol (broken JSON, no message in it)."""

    kind, remedy = "garbled", "wait"


class Refused(LLMError):
    """The server rejects the request itself: HTTP 4xx other than 404, 408 and 429."""

    kind = "refused"


class ModelMissing(LLMError):
    """The server does not have the model: HTTP 404."""

    kind = "model missing"


class NoTools(LLMError):
    """The server, or the model, cannot call tools."""

    kind = "no tools"


class PromptTooLong(LLMError):
    """The prompt does not fit the context; found before anything is sent, or said by the server."""

    kind = "prompt too long"


class PromptCut(LLMError):
    """The server read fewer tokens than the prompt has words: it dropped the front of it."""

    kind = "prompt cut"


class EmptyReply(LLMError):
    """The reply has no text (after thinking was taken out)."""

    kind, remedy = "empty", "other seed"


class BadReply(LLMError):
    """The reply is not JSON, or does not keep the schema that was asked for."""

    kind, remedy = "bad reply", "other seed"


class OtherModel(LLMError):
    """The server answered with another model than the one that was asked."""

    kind, remedy = "other model", "wait"


class Filtered(LLMError):
    """A filter of the server held the reply back, or part of it."""

    kind, remedy = "filtered", "other seed"


class CutReply(LLMError):
    """A reply with a schema ran into ``num_predict``, so its JSON is cut."""

    kind, remedy = "cut", "more room"


class ScriptEnded(LLMError):
    """A scripted backend was asked more often than it has answers."""

    kind = "script ended"


class NotRecorded(LLMError):
    """A replayed run does not hold this call."""

    kind = "not recorded"


KINDS: tuple[type[LLMError], ...] = (
    Unreachable, TimedOut, Dropped, Busy, Garbled, Refused, ModelMissing, NoTools, PromptTooLong, PromptCut,
    OtherModel, Filtered, EmptyReply, BadReply, CutReply, ScriptEnded, NotRecorded,
)  # fmt: skip


def other_weights(spec: str, before: str, now: str) -> RunError:
    """The error that ends a run whose server has other weights of a model than the run began with."""
    return RunError(
        f"the weights of {spec} changed while the run was made: it began with {before[:12]}, the server "
        f"now has {now[:12]}. What was made is stored. Bring the first weights back and start the same "
        "command again, or take another run name",
        ends_run=True,
    )
