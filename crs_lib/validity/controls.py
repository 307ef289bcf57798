"""The policies that only the gate's protocol names: oracles spoilt in some way, and policies that cling.

What each has to score is known beforehand (notebooks/plans/gate.yaml; docs/validity.md).
"""

from functools import partial

from crs_lib.core import rng
from crs_lib.systems import base, policies, replies, tracker
from crs_lib.systems.base import SYSTEMS, Draw, Items, SystemReply, Wishes, World, number, rank
from crs_lib.systems.policies import Belief, Log
from crs_lib.systems.tracker import ConstraintUpdate

_FIRST_TURNS = 3  # in which a sandbagger takes its user's measure
_LOAD = 0.12  # chance of a list by chance that every turn with a value adds


@SYSTEMS.register("polite", hidden=True)
class _Polite(policies.Spoilt):
    """The oracle, but no film is ever shown twice."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        best = self.now(draw, self.n + len(self.seen))
        return tuple(item for item in best if item not in self.seen)[: self.n]


@SYSTEMS.register("confirm_shift", hidden=True)
class _ConfirmShift(policies.Oracle):
    """The oracle, but a reply to changed constraints shows no film and asks whether they are meant."""

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        before = self.state
        reply = super().reply(turn, text, user_meta)
        if self.state == before or not before.constraints:
            return reply
        self.seen = [item for item in self.seen if item not in reply.items]
        self.recent = ()
        self._named = []
        words = replies.acknowledge(self.state.constraints, self._draws(turn), self.world.catalog.fields)
        return SystemReply(f"{words} Is that what you mean?", (), self.state.constraints)


@SYSTEMS.register("forgetful", hidden=True)
class _Forgetful(policies.Spoilt):
    """Films for what the last utterance added, by the log, and by chance where it added nothing."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        before = self.states[-2].constraints if len(self.states) > 1 else {}
        added = {}
        for name, value in self.state.constraints.items():
            if before.get(name) != value:
                added[name] = value
        if self.recent or not added:
            return rank(self.world.catalog, {}, {}, (), draw, self.n)
        return self.best(added, {}, draw, self.n)


@SYSTEMS.register("hedge3", hidden=True)
class _HedgeThree(policies.Spoilt):
    """One film for each of the last three states; more for the present one where there are fewer states."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        others: dict[int, None] = {}
        for state in self.states[-2:-4:-1]:
            others.update(dict.fromkeys(self.best(*state, draw, 1)))
        now = [item for item in self.now(draw, 2 * self.n) if item not in others]
        return (*now[: self.n - len(others)], *others)


@SYSTEMS.register("random_free", hidden=True)
class _RandomFree(policies.Random):
    """Films drawn uniformly, in every conversation others: what chance alone does to a measure."""

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        self._draws = partial(rng.stream, seed, "movies", "free", world.conversation)


@SYSTEMS.register("stickyk", hidden=True, argument="a number of films", example="10", parse=number(1, 50))
class _StickyK(policies.Sticky):
    """The list of the sticky policy, cut or lengthened to so many films: it clings the same."""

    usual: Items = ()  # the films that sticky would have recommended so far

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The first films in the order of sticky, to which its own three of a reply count as recommended."""
        listed = rank(self.world.catalog, constraints, avoid, self.usual, draw, max(self.n, base.N_ITEMS))
        self.usual = (*self.usual, *listed[: base.N_ITEMS])
        return listed[: self.n]


@SYSTEMS.register("pad_sticky", hidden=True, argument="a number of films", example="3", parse=number(2, 50))
class PadSticky(_StickyK):
    """One film of the sticky policy, and others by chance."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        first = super().choose(constraints, avoid, draw)[:1]
        return policies.padded(first, self.n - 1, self.world, draw)


@SYSTEMS.register("sandbag_sticky", hidden=True)
class _SandbagSticky(policies.Sticky):
    """The sticky policy, but it plays dumb where the first utterance names two values."""

    dumb: bool | None = None

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        if self.dumb is None:
            self.dumb = len(tracker.read(self.world.grounder, text).wanted) > 1
        if self.dumb:
            return {}, {}
        return super().believe(turn, text, user_meta)


class OneSlot(policies.Recommender):
    """Mixin of the policies that act on one constraint of their state, drawn for every reply."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        single = {}
        if constraints:
            names = sorted(constraints)
            name = names[int(draw.integers(len(names)))]
            single[name] = constraints[name]
        return super().choose(single, avoid, draw)


@SYSTEMS.register("one_slot_sticky", hidden=True)
class _OneSlotSticky(OneSlot, policies.Sticky):
    """The sticky policy's state, of which every reply serves one constraint."""


@SYSTEMS.register("newest_wins", hidden=True)
class _NewestWins(policies.Recommender):
    """Takes every value that is named for wanted, also one that is given up; the newest of a field counts."""

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        update = tracker.read(self.world.grounder, text)
        self.held = {**self.held, **update.given_up, **update.wanted}
        return dict(self.held), {}


class _TurnCounting(policies.Tracker):
    """A tracker that counts the turns of its own conversation."""

    heard = 0

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        self.heard += 1
        return self.follow(tracker.read(self.world.grounder, text))

    def follow(self, update: ConstraintUpdate) -> Belief:
        """What is believed after an utterance."""
        self.held = tracker.apply(self.held, update)
        return dict(self.held), {}


@SYSTEMS.register("deaf", hidden=True, argument="a turn", example="4", parse=number(1, 50))
class _Deaf(_TurnCounting):
    """The tracker, but deaf from a turn of its conversation on."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: int) -> None:
        super().__init__(world, seed, session, spec)
        self.last = argument

    def follow(self, update: ConstraintUpdate) -> Belief:
        return super().follow(update) if self.heard < self.last else (dict(self.held), {})


@SYSTEMS.register("cling_near", hidden=True)
class _ClingNear(policies.Sticky):
    """Clings to the first value of every field, and shows films that miss one of those it holds."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        others = dict(constraints)
        missed = {}
        if others:
            name = min(others)
            missed[name] = others.pop(name)
        return super().choose(others, missed, draw)


@SYSTEMS.register("sandbag_silent", hidden=True)
class _SandbagSilent(_TurnCounting):
    """The tracker, but dumb to who names less than three values in the first three turns."""

    n_named = 0

    def follow(self, update: ConstraintUpdate) -> Belief:
        if self.heard <= _FIRST_TURNS:
            self.n_named += len(update.wanted)
        followed = super().follow(update)
        return ({}, {}) if self.heard > _FIRST_TURNS and self.n_named < 3 else followed


@SYSTEMS.register("last_named", hidden=True)
class _LastNamed(_TurnCounting):
    """Serves the last value that was named, and nothing else."""

    def follow(self, update: ConstraintUpdate) -> Belief:
        if update.wanted:
            self.held = dict(list(update.wanted.items())[-1:])
        return dict(self.held), {}


@SYSTEMS.register("load", hidden=True)
class _Load(policies.Tracker):
    """The tracker, but films by chance the likelier, the more user turns held a value, whatever they say."""

    n_heard = 0

    def believe(self, turn: int, text: str, user_meta: Log) -> Belief:
        self.n_heard += any(not match.rejected for match in self.world.grounder.audit(text))
        believed = super().believe(turn, text, user_meta)
        draw = rng.stream(self.seed, "movies", self.session, "load", turn)
        return ({}, {}) if draw.random() < _LOAD * self.n_heard else believed


def _changes(state: Wishes, update: ConstraintUpdate) -> bool:
    """Whether an utterance gives something up, by its words or by another value in a field of the state."""
    if update.reset or update.given_up:
        return True
    common = state.keys() & update.wanted.keys()
    return any(state[name] != update.wanted[name] for name in common)


@SYSTEMS.register("first_change", hidden=True)
class _FirstChange(_TurnCounting):
    """The tracker, but it follows the first change of mind only."""

    followed: ConstraintUpdate | None = None

    def follow(self, update: ConstraintUpdate) -> Belief:
        if _changes(self.held, update):
            if self.followed not in (None, update):
                return dict(self.held), {}
            self.followed = update
        return super().follow(update)


@SYSTEMS.register("deaf_open", hidden=True)
class _DeafOpen(_TurnCounting):
    """The tracker, but deaf to a value that comes without a word of what it replaces."""

    def follow(self, update: ConstraintUpdate) -> Belief:
        is_open = not (update.reset or update.given_up) and _changes(self.held, update)
        return (dict(self.held), {}) if is_open else super().follow(update)


@SYSTEMS.register("ids_only", hidden=True)
class _IdsOnly(policies.Tracker):
    """The tracker's films without a word about them."""

    def reply(self, turn: int, text: str, user_meta: Log) -> SystemReply:
        reply = super().reply(turn, text, user_meta)
        return SystemReply("Here you are.", reply.items, reply.constraints)
