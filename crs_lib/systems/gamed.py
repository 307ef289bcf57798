"""A policy that games scores: an oracle spoilt in nine ways, each by a share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.systems import replies
from crs_lib.systems.base import SYSTEMS, Draw, Items, SystemReply, Wishes, World, n_met, rank, share
from crs_lib.systems.policies import OracleLag, UserLog

_MOST_FILMS, _MOST_LAG = 10, 6


class Tricks(NamedTuple):
    """How far a policy plays each trick, in [0, 1].

    ``length``: 1 to 10 films a reply; ``lag``: 0 to 6 replies until a shift becomes known; shares of a list
    that are ``repeats`` of films shown before, ``hedges`` for the state before, ``padding`` by chance; shares
    of replies that show nothing (``abstention``), random films (``noise``), or repeat the user's words
    (``echoes``). With ``withheld`` of .5 or more no new film that meets everything is ever shown.
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
class Gamed(OracleLag):
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
