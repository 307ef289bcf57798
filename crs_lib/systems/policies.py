"""Control policies: systems without a language model, whose order is known."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.systems import replies, tracker
from crs_lib.systems.base import N_ITEMS, SYSTEMS, SystemReply, World, rank


class Recommender:
    """Base of the policies that recommend: subclasses say what they believe the user wants."""

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        self.world, self.seed, self.session, self.spec = world, seed, session, spec
        self.seen: list[int] = []
        self._draws = rng.Streams(seed, "movies", session, "system", spec)

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Recommend films for what is believed; answer first if a question about a film was asked."""
        draw = self._draws[turn]
        constraints, avoid = self.believe(turn, text, user_meta)
        items = self.choose(constraints, avoid, draw)
        self.seen += [item for item in items if item not in self.seen]
        answer = replies.answer(self.world.grounder, text, draw)
        words = replies.recommend(self.world.catalog, items, constraints, draw)
        return SystemReply(f"{answer} {words}".strip(), items, constraints)

    def believe(
        self, turn: int, text: str, user_meta: Mapping[str, Any]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The constraints and the values to avoid that the policy acts on."""
        return {}, {}

    def choose(
        self, constraints: Mapping[str, str], avoid: Mapping[str, str], draw: np.random.Generator
    ) -> tuple[int, ...]:
        """The films to recommend."""
        return rank(self.world.catalog, constraints, avoid, self.seen, draw)


@SYSTEMS.register("oracle")
class Oracle(Recommender):
    """Follows the user's logged state: what perfect understanding would do."""

    sees_state = True

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The user's own constraints and what is to be avoided."""
        return dict(user_meta["constraints"]), dict(user_meta["avoid"])


@SYSTEMS.register("tracker")
class Tracker(Recommender):
    """The thesis's recommender: constraints read by rules from every utterance, and kept."""

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        self.state: dict[str, str] = {}

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The state after this utterance."""
        self.state = tracker.apply(self.state, tracker.read(self.world.grounder, text))
        return dict(self.state), {}


@SYSTEMS.register("amnesiac")
class Amnesiac(Recommender):
    """Reads the last utterance only and forgets it."""

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The values that this utterance alone names as wanted."""
        return dict(tracker.read(self.world.grounder, text).wanted), {}


@SYSTEMS.register("sticky")
class Sticky(Recommender):
    """Never lets go of the first wish in a field, whatever is said later."""

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        self.state: dict[str, str] = {}

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The first value of every field so far."""
        self.state = {**tracker.read(self.world.grounder, text).wanted, **self.state}
        return dict(self.state), {}


@SYSTEMS.register("popular")
class Popular(Recommender):
    """The best connected films, not named before, whatever is asked."""

    def choose(self, constraints: Any, avoid: Any, draw: np.random.Generator) -> tuple[int, ...]:
        """The next most popular films."""
        catalog, seen = self.world.catalog, frozenset(self.seen)
        fresh = (item for item in catalog.popular_first if catalog.recommendable[item] and item not in seen)
        return tuple(islice(fresh, N_ITEMS)) or catalog.popular_first[:N_ITEMS]


@SYSTEMS.register("random")
class Random(Recommender):
    """Films drawn uniformly from the catalogue."""

    def choose(self, constraints: Any, avoid: Any, draw: np.random.Generator) -> tuple[int, ...]:
        """Films by chance, without repetition within a reply."""
        items = np.flatnonzero(self.world.catalog.recommendable)
        return tuple(int(i) for i in draw.choice(items, size=min(N_ITEMS, len(items)), replace=False))


@SYSTEMS.register("slot_echo")
class SlotEcho(Tracker):
    """Tracks and repeats the slots, recommends nothing."""

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Acknowledge the state in words."""
        draw = self._draws[turn]
        constraints, _ = self.believe(turn, text, user_meta)
        return SystemReply(replies.acknowledge(constraints, draw), (), constraints)


class _Quiet:
    """Base of the systems that neither track nor recommend."""

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        pass


@SYSTEMS.register("echo")
class Echo(_Quiet):
    """Repeats the user's utterance word for word."""

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """The user's own words."""
        return SystemReply(text)


@SYSTEMS.register("silent")
class Silent(_Quiet):
    """Says nothing."""

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """An empty text."""
        return SystemReply("")


def _share(argument: str) -> float:
    try:
        value = float(argument)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"noisy:{argument}: give a share between 0 and 1, e.g. noisy:0.3")
    return value


@SYSTEMS.register("noisy", argument="a share of random turns", example="0.3", check=_share)
class Noisy(Oracle):
    """The oracle, but random in films and words with probability p: a dose of not following.

    A turn that is random under a dose is random under every higher dose.
    """

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str) -> None:
        super().__init__(world, seed, session, spec)
        self.share = _share(argument)
        self._noise = rng.Streams(seed, "movies", session, "noise")

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """Nothing with probability p, what the oracle believes otherwise."""
        return ({}, {}) if self._noise[turn].random() < self.share else super().believe(turn, text, user_meta)

    def choose(
        self, constraints: Mapping[str, str], avoid: Mapping[str, str], draw: np.random.Generator
    ) -> tuple[int, ...]:
        """Random films where nothing is believed, the oracle's otherwise."""
        return rank(self.world.catalog, constraints, avoid, self.seen if constraints else (), draw)
