"""How often and when a failed call is tried again; the reasons are in the error classes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, TypeVar

from crs_lib.core.errors import InputError
from crs_lib.core.rng import address_seed
from crs_lib.llm.base import Request
from crs_lib.llm.errors import CutReply, LLMError
from crs_lib.llm.limits import DEFAULTS, room, tokens_at_most

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """``waits`` more attempts after trouble on the way, ``seeds`` more after an unusable reply.

    Pauses grow from ``first`` seconds by doubling up to ``longest``, each with a random part.
    """

    waits: int = 5
    seeds: int = 2
    first: float = 0.5
    longest: float = 60.0

    def __post_init__(self) -> None:
        if min(self.waits, self.seeds) < 0 or not 0 <= self.first <= self.longest:
            raise InputError(f"{self} cannot be followed; counts are >= 0 and 0 <= first <= longest")


@dataclass
class Attempts:
    """The attempts at one call: the request as the next attempt sends it, and the kinds of failure so far."""

    request: Request
    policy: Retry
    tried: list[str] = field(default_factory=list)
    waits: int = 0
    seeds: int = 0
    enlarged: bool = False

    def again(self, error: BaseException) -> bool:
        """Whether to try once more after this error; changes the request where the remedy says so."""
        if not isinstance(error, LLMError):
            return False
        if error.remedy == "wait" and self.waits < self.policy.waits:
            self.waits += 1
        elif error.remedy == "other seed" and self.seeds < self.policy.seeds:
            self.seeds += 1
            self.request = with_seed_of_attempt(self.request, self.seeds)
        elif isinstance(error, CutReply) and not self.enlarged and (more := _with_more_room(self.request)):
            self.enlarged = True
            self.request = more
        else:
            return False
        self.tried.append(error.kind)
        return True


def with_seed_of_attempt(request: Request, attempt: int) -> Request:
    """The request with the seed of its nth repetition; unchanged where it has no seed."""
    if request.seed is None:
        return request
    return replace(request, seed=address_seed(request.seed, "attempt", attempt))


def _with_more_room(request: Request) -> Request | None:
    """Twice ``num_predict`` as far as the context allows; None where it allows no more."""
    options = {**DEFAULTS, **request.options}
    spare = options["num_ctx"] - tokens_at_most(request.messages)
    enlarged = {**request.options, "num_predict": min(2 * options["num_predict"], spare)}
    if enlarged["num_predict"] <= options["num_predict"]:
        return None
    room(enlarged)
    return replace(request, options=enlarged)


def persist(attempts: Attempts, action: Callable[[], T], halted: Event | None = None) -> T:
    """The action's result, tried until it succeeds, the policy gives up, or the work is ``halted``.

    Pauses and their random part are tenacity's; a pause ends when the work is halted. Raises the last error,
    with the number of attempts and the failures before it.
    """
    import tenacity

    stop = halted or Event()
    again = tenacity.retry_if_exception(lambda error: not stop.is_set() and attempts.again(error))

    def pause(seconds: float) -> None:
        stop.wait(seconds)

    series = tenacity.Retrying(retry=again, wait=pauses(attempts.policy), sleep=pause, reraise=True)
    try:
        return series(action)
    except LLMError as error:
        error.attempts, error.tried = len(attempts.tried) + 1, tuple(attempts.tried)
        raise


def pauses(policy: Retry) -> Callable[[Any], float]:
    """Seconds before the next attempt, by tenacity's state of a call; 0 where waiting would not help.

    They double up to ``longest`` and keep to what the server asks as far as that.
    """
    import tenacity

    grows = tenacity.wait_exponential(multiplier=policy.first, max=policy.longest)
    apart = tenacity.wait_random(0, policy.first)  # callers that failed together come back apart

    def pause(state: Any) -> float:
        error = state.outcome.exception()
        if not isinstance(error, LLMError) or error.remedy != "wait":
            return 0.0
        return max(grows(state), min(error.pause, policy.longest)) + apart(state)

    return pause
