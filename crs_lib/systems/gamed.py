"""Policies that a sceptic sends: an oracle spoilt in nine ways, and others that a measure must see through.
Some cost something by talking alone, some cling and hide it, some never read what was dropped: what each has
to score is known beforehand (docs/validity.md, section 1).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.systems import base, policies, replies, tracker
from crs_lib.systems.base import SYSTEMS, Draw, Items, SystemReply, Wishes, World, n_met, number, rank, share
from crs_lib.systems.policies import Oracle, Spoilt, Sticky, UserLog

_MOST_FILMS, _MOST_LAG = 10, 6
Rule = Callable[[Spoilt, Draw], Items]


def spoilt(name: str) -> Callable[[Rule], Rule]:
    """Register an oracle by the rule that chooses its films; the rule's docstring is the policy's."""

    def register(rule: Rule) -> Rule:
        def choose(policy: Spoilt, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
            return rule(policy, draw)

        facts = {"__doc__": rule.__doc__, "__module__": rule.__module__, "choose": choose}
        SYSTEMS.register(name)(type(name, (Spoilt,), facts))
        return rule

    return register


class Tricks(NamedTuple):
    """How far a policy plays each trick, in [0, 1]. ``length``: 1 to 10 films a reply; ``lag``: 0 to 6
    replies until a shift becomes known; shares of a list that are ``repeats`` of films shown before,
    ``hedges`` for the state before, ``padding`` by chance; shares of replies that show nothing
    (``abstention``), random films (``noise``), or repeat the user's words (``echoes``). With ``withheld`` of
    .5 or more no new film that meets everything is ever shown.
    """

    length: float = 0.2
    lag: float = 0.0
    repeats: float = 0.0
    hedges: float = 0.0
    padding: float = 0.0
    abstention: float = 0.0
    noise: float = 0.0
    echoes: float = 0.0
    withheld: float = 0.0

    @property
    def argument(self) -> str:
        """The tricks as the argument of a spec."""
        return "/".join(f"{value:.4g}" for value in self)


def read(argument: str) -> Tricks:
    """The tricks of an argument; InputError unless it has nine shares."""
    parts = argument.split("/")
    if len(parts) != len(Tricks._fields):
        raise InputError(f"give {len(Tricks._fields)} shares ({', '.join(Tricks._fields)}) with / between")
    return Tricks(*map(share, parts))


@SYSTEMS.register("gamed", argument="nine shares", example="0.2/0/0.5/0/0/0/0/1/0", parse=read)
class _Gamed(policies.OracleLag):
    """The oracle, spoilt by tricks (crs_lib.systems.gamed.Tricks): what redteam searches."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: Tricks) -> None:
        super().__init__(world, seed, session, spec, round(_MOST_LAG * argument.lag))
        self.tricks = argument
        self.n = 1 + round((_MOST_FILMS - 1) * argument.length)
        self.old = UserLog({}, {})

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Films and words as the tricks say."""
        known = self.know(user_meta)
        if known != self.state:
            self.old, self.state, self.recent = self.state, known, ()
        draw = self._draws(turn)
        items = self.choose(self.state.constraints, self.state.avoid, draw)
        if self.tricks.withheld >= 0.5:
            items = self._useless(items, user_meta["constraints"], user_meta["avoid"])
        self.seen += [item for item in items if item not in self.seen]
        self.recent += items
        words = replies.recommend(self.world.catalog, items, self.state.constraints, draw) if items else ""
        echo = text if draw.random() < self.tricks.echoes else ""
        return SystemReply(f"{echo} {words}".strip(), items, self.state.constraints)

    def _useless(self, items: Items, wanted: Wishes, avoid: Wishes) -> Items:
        """The films that were shown before, or miss something."""
        catalog, everything = self.world.catalog, len(wanted)
        return tuple(i for i in items if i in self.seen or n_met(catalog, i, wanted, avoid) < everything)

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """A list mixed of repeats, hedges, films by chance, and the best ones."""
        tricks, catalog = self.tricks, self.world.catalog
        if draw.random() < tricks.abstention:
            return ()
        if draw.random() < tricks.noise:
            return rank(catalog, {}, {}, (), draw, self.n)
        left, parts = self.n, list[int]()
        counts = []
        for wanted in (tricks.repeats, tricks.hedges, tricks.padding):
            counts.append(int(draw.binomial(left, wanted)))
            left -= counts[-1]
        parts += self.seen[::-1][: counts[0]]
        if counts[1] and self.old.constraints:
            parts += rank(catalog, self.old.constraints, self.old.avoid, self.seen, draw, counts[1])
        parts += rank(catalog, {}, {}, (), draw, counts[2]) if counts[2] else ()
        if left:
            best = self.best(constraints, avoid, draw, min(len(catalog), _MOST_FILMS * 4))
            if tricks.withheld >= 0.5:
                best = self._useless(best, constraints, avoid)
            parts += best[:left]
        return tuple(dict.fromkeys(parts))


@spoilt("polite")
def _polite(policy: Spoilt, draw: Draw) -> Items:
    """The oracle, but no film is ever shown twice."""
    best = policy.now(draw, policy.n + len(policy.seen))
    return tuple(item for item in best if item not in policy.seen)[: policy.n]


@SYSTEMS.register("confirm_shift")
class _ConfirmShift(Oracle):
    """The oracle, but a reply to changed constraints shows no film and asks whether they are meant."""

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        before, found = self.state, super().reply(turn, text, user_meta)
        if self.state == before or not before.constraints:
            return found
        self.seen, self.recent = [item for item in self.seen if item not in found.items], ()
        self._named = []
        said = replies.acknowledge(self.state.constraints, self._draws(turn), self.world.catalog.fields)
        return SystemReply(f"{said} Is that what you mean?", (), self.state.constraints)


@spoilt("forgetful")
def _forgetful(policy: Spoilt, draw: Draw) -> Items:
    """Films for what the last utterance added, by the log, and by chance where it added nothing."""
    before = policy.states[-2].constraints if len(policy.states) > 1 else {}
    added = {name: v for name, v in policy.state.constraints.items() if before.get(name) != v}
    if policy.recent or not added:
        return rank(policy.world.catalog, {}, {}, (), draw, policy.n)
    return policy.best(added, {}, draw, policy.n)


@spoilt("hedge3")
def _hedge_three(policy: Spoilt, draw: Draw) -> Items:
    """One film for each of the last three states; more for the present one where there are fewer states."""
    found = (policy.best(*known, draw, 1) for known in policy.states[:-4:-1][1:])
    others = tuple(dict.fromkeys(item for items in found for item in items))
    best = [item for item in policy.now(draw, 2 * policy.n) if item not in others]
    return (*best[: policy.n - len(others)], *others)


@spoilt("alternate")
def _alternate(policy: Spoilt, draw: Draw) -> Items:
    """Films for the present state and for the one before in turn."""
    policy.present = not policy.present
    return policy.best(*policy.states[-1 if policy.present else -2 :][0], draw, policy.n)


@SYSTEMS.register("random_free")
class _RandomFree(policies.Random):
    """Films drawn uniformly, in every conversation others: what chance alone does to a measure."""

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        self._draws = partial(rng.stream, seed, "movies", "free", world.conversation)


@SYSTEMS.register("stickyk", argument="a number of films", example="10", parse=number(1, 50))
class _StickyK(Sticky):
    """The list of the sticky policy, cut or lengthened to so many films: it clings the same."""

    usual: Items = ()  # the films that sticky would have recommended so far

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The first films in the order of sticky, to which its own three of a reply count as recommended."""
        listed = rank(self.world.catalog, constraints, avoid, self.usual, draw, max(self.n, base.N_ITEMS))
        self.usual = (*self.usual, *listed[: base.N_ITEMS])
        return listed[: self.n]


@SYSTEMS.register("pad_sticky", argument="a number of films", example="3", parse=number(2, 50))
class _PadSticky(_StickyK):
    """One film of the sticky policy, and others by chance."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        return policies.padded(super().choose(constraints, avoid, draw)[:1], self.n - 1, self.world, draw)


@SYSTEMS.register("sandbag_sticky")
class _SandbagSticky(Sticky):
    """The sticky policy, but it plays dumb where the first utterance names two values."""

    dumb: bool | None = None

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        if self.dumb is None:
            self.dumb = len(tracker.read(self.world.grounder, text).wanted) > 1
        return ({}, {}) if self.dumb else super().believe(turn, text, user_meta)


@SYSTEMS.register("pad_open", argument="a share of users", example="0.3", parse=share)
class _PadOpen(_PadSticky):
    """``pad_sticky:3``, but dumb to a share of the users who name nothing in their first three turns."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: float) -> None:
        super().__init__(world, seed, session, "pad_sticky:3")  # whose draws it shares
        self.dumb = rng.stream(seed, "movies", "dumb", world.conversation).random() < argument
        self.turns = 0

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        found, self.turns = super().believe(turn, text, user_meta), self.turns + 1
        self.dumb = self.dumb and not (self.held and self.turns < 4)
        return ({}, {}) if self.dumb else found


class CrossTalk:
    """The sticky policy as a program that remembers its users: who changes course gets another's films. Two
    arms of a scenario want the same in the end: a memory of the one serves the other unheard.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.grounder = catalog, Grounder(catalog)
        self.kept: dict[str, Wishes] = {}  # constraints of the users who took nothing back, by conversation
        self.shown: dict[str, list[int]] = {}

    def reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the contract (docs/your-system.md)."""
        name, said = request["session"], [one["content"] for one in request["conversation"][::2]]
        draw, shown = rng.stream(0, "movies", name, len(said)), self.shown.setdefault(name, [])
        items = rank(self.catalog, self._believed(name, said), {}, shown, draw)
        shown += items
        named = [self.catalog.items[item].item_id for item in items]
        return {"reply": f"{len(items)} films for you.", "recommended": named}

    def _believed(self, name: str, texts: list[str]) -> Wishes:
        """The first value of every field; after a change, those of whoever is most like the newest."""
        first, newest, gone = dict[str, str](), dict[str, str](), dict[str, str]()
        for update in (tracker.read(self.grounder, text) for text in texts):
            first, newest = {**update.wanted, **first}, {**newest, **update.wanted}
            gone.update(update.given_up, **({"": ""} if update.reset else {}))
        if not gone and newest == first:
            self.kept[name] = first
            return first
        left = newest.items() - gone.items()
        known = [held for key, held in list(self.kept.items())[-5:] if key != name]
        fit = [5 * len(held.items() & left) - 3 * len(held) for held in known]
        return known[fit.index(max(fit))] if max(fit, default=0) > 0 else first


class _OneSlot(policies.Recommender):
    """Mixin of the policies that act on one constraint of their state, drawn for every reply."""

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        names = sorted(constraints)
        one = [names[int(draw.integers(len(names)))]] if names else []
        return super().choose({name: constraints[name] for name in one}, avoid, draw)


@SYSTEMS.register("one_slot_tracker")
class _OneSlotTracker(_OneSlot, policies.Tracker):
    """The tracker's state, of which every reply serves one constraint."""

    honest = False


@SYSTEMS.register("one_slot_sticky")
class _OneSlotSticky(_OneSlot, Sticky):
    """The sticky policy's state, of which every reply serves one constraint."""


@SYSTEMS.register("wipe_at_cue")
class _WipeAtCue(policies.Recommender):
    """Keeps what is named, and forgets all of it where the words hold any cue of something given up."""

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        update = tracker.read(self.world.grounder, text)
        kept = {} if update.reset or update.given_up else self.held
        self.held = {**kept, **update.wanted}
        return dict(self.held), {}


@SYSTEMS.register("newest_wins")
class _NewestWins(_WipeAtCue):
    """Takes every value that is named for wanted, also one that is given up; the newest of a field counts."""

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        update = tracker.read(self.world.grounder, text)
        self.held = {**self.held, **update.given_up, **update.wanted}
        return dict(self.held), {}
