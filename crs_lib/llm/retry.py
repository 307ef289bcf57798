"""How often and when a failed call is tried again; the reasons are in the error classes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from crs_lib.errors import InputError
from crs_lib.llm.base import Request
from crs_lib.llm.errors import CutReply, LLMError
from crs_lib.llm.limits import DEFAULTS, room, tokens_at_most
from crs_lib.rng import address_seed

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
class Course:
    """The course of one call: the request as it stands, and what has been tried."""

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

    def pause(self, error: LLMError) -> float:
        """Seconds before the next attempt; 0 where waiting would not help.

        The random part brings callers that failed together back apart.
        """
        if error.remedy != "wait":
            return 0.0
        grown = min(self.policy.first * 2.0 ** (self.waits - 1), self.policy.longest)
        asked = min(error.pause, self.policy.longest)
        return max(grown, asked) + random.uniform(0, self.policy.first)


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


async def persist(course: Course, action: Callable[[], Awaitable[T]]) -> T:
    """What the action gives, tried again until it does or the policy gives up.

    Raises the last error, which then says how often it was tried.
    """
    while True:
        try:
            return await action()
        except LLMError as error:
            if not course.again(error):
                error.attempts, error.tried = len(course.tried) + 1, tuple(course.tried)
                raise
            pause = course.pause(error)
        if pause:
            await asyncio.sleep(pause)
