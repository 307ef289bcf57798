"""Control policies: systems without a language model, whose order is known."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from crs_lib.core import rng
from crs_lib.core.dialogue import asks_for_others
from crs_lib.systems import base, replies, tracker
from crs_lib.systems.base import N_ITEMS, SYSTEMS, Draw, Items, SystemReply, Wishes, World, number, rank

Log = Mapping[str, Any]  # of a user turn, as the dialogue's JSON has it
Belief = tuple[Wishes, Wishes]  # the constraints and the values to avoid that a policy acts on


class Recommender:
    """Base of the policies that recommend: subclasses say what they believe the user wants."""

    sees_state = False
    restates = 0.5  # how often a reply opens with the policy's state in words
    honest = False  # whether it recommends fewer films where no more fit

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: int = N_ITEMS) -> None:
        self.world = world
        self.seed = seed
        self.session = session
        self.spec = spec
        self.n = argument
        self.held: dict[str, str] = {}  # the constraints that were read so far, for policies that keep some
        self.seen: list[int] = []
        self._believed: Belief = {}, {}
        self._named: list[int] = []  # films recommended since the belief last changed
        self._draws = partial(rng.stream, seed, "movies", session, "system", spec)

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        """Recommend films for what is believed; answer a question about a film first. An ``honest`` policy
        names only what is new and fits; if nothing is, it only answers a question, or repeats what fits
        (unless the user asks for others), or names the closest film.
        """
        draw = self._draws(turn)
        constraints, avoid = self.believe(turn, text, user_meta)
        items = self.choose(constraints, avoid, draw)
        answer = replies.answer(self.world.grounder, text, draw)
        kind = replies.RECOMMEND
        if self.honest and constraints:
            if (constraints, avoid) != self._believed:
                self._believed = constraints, avoid
                self._named = []
            items, kind = self._fitting(items, text, draw, answered=bool(answer))
            self._named += items
        self.seen += [item for item in items if item not in self.seen]
        if answer and not items:
            return SystemReply(answer, (), constraints)
        words = replies.recommend(self.world.catalog, items, constraints, draw, self.restates, kind)
        return SystemReply(f"{answer} {words}".strip(), items, constraints)

    def _fitting(self, chosen: Items, text: str, draw: Draw, *, answered: bool) -> tuple[Items, str]:
        """The films of an honest reply and its section of words: what is new and fits, else the closest."""
        wanted, avoid = self._believed
        fitting = tuple(item for item in chosen if self._meets(item) == len(wanted))
        new = tuple(item for item in fitting if item not in self._named)
        if new:
            return new, replies.RECOMMEND if len(new) == len(chosen) else replies.LAST
        if answered:
            return (), replies.RECOMMEND
        if fitting and not self.wants_more(text):
            return fitting, replies.AGAIN
        closest = base.most_gain(self.world.catalog, wanted, avoid, self._named, self.seen, draw, 1)
        return tuple(item for item in closest if self._meets(item)), replies.NEAR

    def _meets(self, item: int) -> int:
        """How many believed constraints a film meets; 0 if it has a value to avoid."""
        return base.n_met(self.world.catalog, item, *self._believed)

    def wants_more(self, text: str) -> bool:
        """Whether the user asks for other films, as far as the words tell."""
        return replies.wants_more(self.world.grounder, text)

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        """The constraints and the values to avoid that the policy acts on."""
        return {}, {}

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The films to recommend."""
        return rank(self.world.catalog, constraints, avoid, self.seen, draw, self.n)

    def by_chance(self, draw: Draw, n: int) -> Items:
        """``n`` films by chance."""
        return rank(self.world.catalog, {}, {}, (), draw, n)


FILMS = {"argument": "a number of films", "default": str(N_ITEMS), "example": "5", "parse": number(1, 50)}


class UserLog(NamedTuple):
    """The part of a user's log that oracles act on."""

    constraints: Wishes
    avoid: Wishes


@SYSTEMS.register("oracle", **FILMS)
class Oracle(Recommender):
    """Follows the user's logged state and shows the films of the largest gain: perfect understanding."""

    sees_state = True
    honest = True

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: int = N_ITEMS) -> None:
        super().__init__(world, seed, session, spec, argument)
        self.state = UserLog({}, {})
        self.recent: Items = ()  # films shown since the state last changed
        self.others = False

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        """Take in the user's log, and recommend."""
        state = self.know(user_meta)
        if state != self.state:
            self.state = state
            self.recent = ()
        self.others = asks_for_others(user_meta)
        reply = super().reply(turn, text, user_meta)
        self.recent += reply.items
        return reply

    def know(self, user_meta: Log) -> UserLog:
        """The state that the policy knows of."""
        return UserLog(dict(user_meta["constraints"]), dict(user_meta["avoid"]))

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        """The user's own constraints and what is to be avoided."""
        return self.state

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The films of the largest gain."""
        return self.best(constraints, avoid, draw, self.n)

    def best(self, constraints: Wishes, avoid: Wishes, draw: Draw, n: int) -> Items:
        """The ``n`` films of the largest gain; asked for others, those shown for this state are stale."""
        stale = self.recent if self.others else ()
        return base.most_gain(self.world.catalog, constraints, avoid, stale, self.seen, draw, n)

    def wants_more(self, text: str) -> bool:
        """Whether the user asks for other films, as logged."""
        return self.others


@SYSTEMS.register("tracker", **FILMS)
class Tracker(Recommender):
    """The thesis's recommender: constraints read by rules from every utterance, and kept."""

    honest = True

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        """The state after this utterance."""
        self.held = tracker.apply(self.held, tracker.read(self.world.grounder, text))
        return dict(self.held), {}


@SYSTEMS.register("amnesiac")
class _Amnesiac(Recommender):
    """Reads the last utterance only and forgets it."""

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        return dict(tracker.read(self.world.grounder, text).wanted), {}


@SYSTEMS.register("sticky")
class Sticky(Recommender):
    """Never lets go of the first constraint in a field, whatever is said later."""

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        self.held = {**tracker.read(self.world.grounder, text).wanted, **self.held}
        return dict(self.held), {}


@SYSTEMS.register("popular")
class _Popular(Recommender):
    """The best connected films, not named before, whatever is asked."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        catalog = self.world.catalog
        seen = set(self.seen)
        new = (item for item in catalog.popular_first if catalog.recommendable[item] and item not in seen)
        return tuple(islice(new, N_ITEMS)) or catalog.popular_first[:N_ITEMS]


@SYSTEMS.register("random")
class Random(Recommender):
    """Films drawn uniformly from the catalogue."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        items = np.flatnonzero(self.world.catalog.recommendable)
        chosen: list[int] = draw.choice(items, size=min(N_ITEMS, len(items)), replace=False).tolist()
        return tuple(chosen)


@SYSTEMS.register("slot_echo")
class _SlotEcho(Tracker):
    """Tracks and repeats the slots, recommends nothing."""

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        constraints, _ = self.believe(turn, text, user_meta)
        return SystemReply(
            replies.acknowledge(constraints, self._draws(turn), self.world.catalog.fields), (), constraints
        )


@SYSTEMS.register("echo")
class _Echo:
    """Repeats the user's utterance word for word."""

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        pass

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        return SystemReply(text)


@SYSTEMS.register("silent")
class _Silent(_Echo):
    """Says nothing."""

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        return SystemReply("")


@SYSTEMS.register("noisy", argument="a share of random turns", example="0.3", parse=base.share)
class _Noisy(Oracle):
    """The oracle, but random in films and words with probability p; a larger p adds to the random turns."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: float) -> None:
        super().__init__(world, seed, session, spec)
        self.share = argument

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        noise = rng.stream(self.seed, "movies", self.session, "noise", turn)
        return ({}, {}) if noise.random() < self.share else self.state

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        return super().choose(constraints, avoid, draw) if constraints else self.by_chance(draw, self.n)


@SYSTEMS.register("oracle_lag", argument="a number of replies", example="2", parse=number(1, 20))
class OracleLag(Oracle):
    """The oracle, but a change of the user's constraints becomes known some replies late."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: int) -> None:
        super().__init__(world, seed, session, spec)
        self.lag = argument
        self.heard: list[UserLog] = []

    def know(self, user_meta: Log) -> UserLog:
        """The state of so many replies ago; the first one that holds any constraint is known at once."""
        self.heard.append(super().know(user_meta))
        late = max(0, len(self.heard) - 1 - self.lag)
        for turn, log in enumerate(self.heard):
            if log.constraints:
                return self.heard[max(turn, late)]
        return self.heard[late]


class Spoilt(Oracle):
    """The oracle with films of its own choice; ``states`` are the user's so far, the present last."""

    honest = False

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        self.states: list[UserLog] = []

    def know(self, user_meta: Log) -> UserLog:
        """The user's state, which is kept."""
        state = super().know(user_meta)
        if self.states[-1:] != [state]:
            self.states.append(state)
        return state

    def now(self, draw: Draw, n: int) -> Items:
        """The ``n`` films of the largest gain for the present state."""
        return self.best(*self.state, draw, n)


@SYSTEMS.register("hedge")
class _Hedge(Spoilt):
    """Two films for the present constraints and two for those before the last change."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        earlier = [state for state in self.states[:-1] if state.constraints]
        if not earlier:
            return self.now(draw, 4)
        now = self.now(draw, 2)
        return now + _others(now, self.best(*earlier[-1], draw, 4), 2)


@SYSTEMS.register("pad")
class _Pad(Spoilt):
    """One film that the oracle would show, and two random ones."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        return padded(self.now(draw, 1), 2, self.world, draw)


def padded(items: Items, n: int, world: World, draw: Draw) -> Items:
    """The items and ``n`` others by chance."""
    return items + _others(items, rank(world.catalog, {}, {}, (), draw, n + len(items)), n)


def _others(items: Items, films: Sequence[int], n: int) -> Items:
    """The first ``n`` films that are none of the items."""
    return tuple([film for film in films if film not in items][:n])


@SYSTEMS.register("repeat")
class _Repeat(Spoilt):
    """The oracle's films of the first reply to a state, again and again until the state changes."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        return self.recent[: self.n] or self.now(draw, self.n)


_SURE = 10


@SYSTEMS.register("abstain")
class _Abstain(Spoilt):
    """Recommends only when sure: where ten films or more meet everything."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        catalog = self.world.catalog
        items = set(catalog.query(self.state.constraints).items.tolist())
        items.difference_update(*base.with_any(catalog, self.state.avoid))
        return self.now(draw, self.n) if len(items) >= _SURE else ()


@SYSTEMS.register("restate")
class _Restate(Spoilt):
    """Announces the user's constraints in every reply, and shows random films."""

    restates = 1.0

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        return self.by_chance(draw, self.n)
