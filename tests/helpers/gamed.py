"""Policies that a sceptic sends, for the tests of ``make test-all``: an oracle spoilt in nine ways, and others.

Some cling and hide it, some never read what was dropped: what each has to score is known beforehand. Importing
the module registers them; the policies of the gate's protocol are crs_lib/validity/controls.py.
"""

from typing import NamedTuple

from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.systems import policies, replies, tracker
from crs_lib.systems.base import SYSTEMS, SystemReply, n_met, rank, share
from crs_lib.validity.controls import OneSlot, PadSticky

MOST_FILMS, MOST_LAG = 10, 6


class Tricks(NamedTuple):
    """How far a policy plays each trick, in [0, 1]; with ``withheld`` of .5 no new film that fits is ever shown."""

    length: float = 0.2  # 1 to 10 films a reply
    lag: float = 0.0  # 0 to 6 replies until a shift becomes known
    repeats: float = 0.0  # share of a list: films shown before
    hedges: float = 0.0  # share of a list: films for the state before
    padding: float = 0.0  # share of a list: films by chance
    abstention: float = 0.0  # share of replies that show nothing
    noise: float = 0.0  # share of replies with random films
    echoes: float = 0.0  # share of replies that repeat the user's words
    withheld: float = 0.0

    @property
    def argument(self):
        """The tricks as the argument of a spec."""
        return "/".join(f"{value:.4g}" for value in self)


def read(argument):
    """The tricks of an argument; InputError unless it has nine shares."""
    parts = argument.split("/")
    if len(parts) != len(Tricks._fields):
        raise InputError(f"give {len(Tricks._fields)} shares ({', '.join(Tricks._fields)}) with / between")
    return Tricks(*map(share, parts))


@SYSTEMS.register("gamed", argument="nine shares", example="0.2/0/0.5/0/0/0/0/1/0", parse=read)
class Gamed(policies.OracleLag):
    """The oracle, spoilt by tricks: what the red team searches."""

    def __init__(self, world, seed, session, spec, argument):
        super().__init__(world, seed, session, spec, round(MOST_LAG * argument.lag))
        self.tricks = argument
        self.n = 1 + round((MOST_FILMS - 1) * argument.length)
        self.old = policies.UserLog({}, {})

    def reply(self, turn, text, user_meta):
        state = self.know(user_meta)
        if state != self.state:
            self.old = self.state
            self.state = state
            self.recent = ()
        draw = self._draws(turn)
        items = self.choose(self.state.constraints, self.state.avoid, draw)
        if self.tricks.withheld >= 0.5:
            items = self.useless(items, user_meta["constraints"], user_meta["avoid"])
        self.seen += [item for item in items if item not in self.seen]
        self.recent += items
        words = ""
        if items:
            words = replies.recommend(self.world.catalog, items, self.state.constraints, draw)
        if draw.random() < self.tricks.echoes:
            words = f"{text} {words}"
        return SystemReply(words.strip(), items, self.state.constraints)

    def useless(self, items, constraints, avoid):
        """The films that were shown before, or miss something."""
        catalog = self.world.catalog
        useless = []
        for item in items:
            if item in self.seen or n_met(catalog, item, constraints, avoid) < len(constraints):
                useless.append(item)
        return tuple(useless)

    def choose(self, constraints, avoid, draw):
        """A list mixed of repeats, hedges, films by chance, and the best ones."""
        catalog = self.world.catalog
        if draw.random() < self.tricks.abstention:
            return ()
        if draw.random() < self.tricks.noise:
            return rank(catalog, {}, {}, (), draw, self.n)
        n_best = self.n
        counts = []
        for trick in (self.tricks.repeats, self.tricks.hedges, self.tricks.padding):
            counts.append(int(draw.binomial(n_best, trick)))
            n_best -= counts[-1]
        repeats, hedges, padding = counts
        items = self.seen[::-1][:repeats]
        if hedges and self.old.constraints:
            items += rank(catalog, self.old.constraints, self.old.avoid, self.seen, draw, hedges)
        if padding:
            items += rank(catalog, {}, {}, (), draw, padding)
        if n_best:
            best = self.best(constraints, avoid, draw, min(len(catalog), MOST_FILMS * 4))
            if self.tricks.withheld >= 0.5:
                best = self.useless(best, constraints, avoid)
            items += best[:n_best]
        return tuple(dict.fromkeys(items))


@SYSTEMS.register("alternate")
class Alternate(policies.Spoilt):
    """Films for the present state and for the one before in turn."""

    present = False  # whether the last reply was for the present state

    def choose(self, constraints, avoid, draw):
        self.present = not self.present
        state = self.states[-1] if self.present else self.states[-2:][0]
        return self.best(*state, draw, self.n)


@SYSTEMS.register("pad_open", argument="a share of users", example="0.3", parse=share)
class PadOpen(PadSticky):
    """``pad_sticky:3``, but dumb to a share of the users who name nothing in their first three turns."""

    def __init__(self, world, seed, session, spec, argument):
        super().__init__(world, seed, session, "pad_sticky:3")  # whose draws it shares
        self.dumb = rng.stream(seed, "movies", "dumb", world.conversation).random() < argument
        self.turns = 0

    def believe(self, turn, text, user_meta):
        wishes = super().believe(turn, text, user_meta)
        self.turns += 1
        self.dumb = self.dumb and not (self.held and self.turns < 4)
        return ({}, {}) if self.dumb else wishes


class CrossTalk:
    """The sticky policy as a program that remembers its users: who changes course gets another's films.

    Two arms of a scenario want the same in the end: a memory of the one serves the other unheard.
    """

    def __init__(self, catalog):
        self.catalog = catalog
        self.grounder = Grounder(catalog)
        self.users = {}  # constraints of the users who took nothing back, by conversation
        self.shown = {}

    def reply(self, request):
        """The answer of the contract (docs/your-system.md)."""
        name = request["session"]
        texts = [turn["content"] for turn in request["conversation"][::2]]
        draw = rng.stream(0, "movies", name, len(texts))
        shown = self.shown.setdefault(name, [])
        items = rank(self.catalog, self.believed(name, texts), {}, shown, draw)
        shown += items
        ids = [self.catalog.items[item].item_id for item in items]
        return {"reply": f"{len(items)} films for you.", "recommended": ids}

    def believed(self, name, texts):
        """The first value of every field; after a change, those of whoever is most like the newest."""
        first, newest, gone = {}, {}, {}
        resets = False
        for text in texts:
            update = tracker.read(self.grounder, text)
            first = {**update.wanted, **first}
            newest = {**newest, **update.wanted}
            gone.update(update.given_up)
            resets = resets or update.reset
        if not gone and not resets and newest == first:
            self.users[name] = first
            return first
        current = newest.items() - gone.items()
        others = [wishes for user, wishes in list(self.users.items())[-5:] if user != name]
        best, best_fit = first, 0
        for wishes in others:
            fit = 5 * len(wishes.items() & current) - 3 * len(wishes)
            if fit > best_fit:
                best, best_fit = wishes, fit
        return best


@SYSTEMS.register("one_slot_tracker")
class OneSlotTracker(OneSlot, policies.Tracker):
    """The tracker's state, of which every reply serves one constraint."""

    honest = False


@SYSTEMS.register("wipe_at_cue")
class WipeAtCue(policies.Recommender):
    """Keeps what is named, and forgets all of it where the words hold any cue of something given up."""

    def believe(self, turn, text, user_meta):
        update = tracker.read(self.world.grounder, text)
        if update.reset or update.given_up:
            self.held = {}
        self.held = {**self.held, **update.wanted}
        return dict(self.held), {}
