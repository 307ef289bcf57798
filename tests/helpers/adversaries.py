"""The systems that a sceptic sends, as anybody could write them: classes behind the contract of docs/your-system.md.

    python tests/helpers/adversaries.py Remembers memory.json

serves one of them as a program of lines. ``ABLE`` serve users as the tracker does, ``UNABLE`` serve them worse;
what each has to score is in tests/unit/validity/test_adversaries.py, what it scores over 400 users in
docs/records/adversaries.csv.
"""

import json
import os
import sys
from pathlib import Path

from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.errors import InputError
from crs_lib.llm.base import LLMError
from crs_lib.systems import contract, tracker
from crs_lib.systems.base import World, create

MEMORY: dict = {}  # of this module: what a process remembers across conversations
_KEPT = 12  # conversations that a memory holds
_EARLY = 3  # turns in which nobody has changed their mind yet


class Tracker:
    """The tracker behind the contract, one for each conversation; base of all others, which change its ``spec`` or
    its answer.
    """

    spec = "tracker"
    paired = True  # whether chance draws the same in every conversation

    def __init__(self, catalog):
        self.world = World(catalog, Grounder(catalog))
        self.policies = {}

    def policy(self, request):
        """The policy of the request's conversation."""
        name = request["session"]
        if name not in self.policies:
            number = 0 if self.paired else int(name) % 2**31
            self.policies[name] = create(self.spec, self.world, 0, number)
        return self.policies[name]

    def read(self, request):
        """What the user's last words say of the state."""
        return tracker.read(self.world.grounder, request["conversation"][-1]["content"])

    def reply(self, request):
        """The answer of a turn."""
        answer = self.policy(request).reply(request["turn"], request["conversation"][-1]["content"], {})
        return self.answer(answer.text, answer.items)

    def answer(self, text, items):
        """A reply and its films as an answer of the contract."""
        return {"reply": text, "recommended": [self.world.catalog.items[item].item_id for item in items]}

    def chance(self, request):
        """An answer by chance."""
        answer = create("random", self.world, 0, 0).reply(request["turn"], "", {})
        return self.answer(answer.text, answer.items)


def changes(state, update):
    """Whether words give something up, or name another value where one is held."""
    other = [name for name, value in update.wanted.items() if state.get(name, value) != value]
    return bool(update.reset or update.given_up or other)


class Sticky(Tracker):
    """Clings to the first value of every field."""

    spec = "sticky"


class Amnesiac(Tracker):
    """Serves the last utterance alone."""

    spec = "amnesiac"


class Deaf(Tracker):
    """Hears nothing from turn 4 on."""

    spec = "deaf:4"


class ClingsNear(Tracker):
    """Clings, and shows films that miss a value which it holds."""

    spec = "cling_near"


class DumbToTheSilent(Tracker):
    """Shows films by chance to whoever named fewer than three values in three turns."""

    spec = "sandbag_silent"


class DumbAtBareValues(Sticky):
    """Clings, and shows films by chance from a new value on that comes without a word of giving up."""

    def __init__(self, catalog):
        super().__init__(catalog)
        self.dumb = set()

    def reply(self, request):
        update = self.read(request)
        if request["turn"] > _EARLY and update.wanted and not (update.given_up or update.reset):
            self.dumb.add(request["session"])
        if request["session"] in self.dumb:
            return self.chance(request)
        return super().reply(request)


class LastNamed(Tracker):
    """Serves the last value that was named."""

    spec = "last_named"


class NewestValues(Tracker):
    """Takes every value that is named for wanted, also one that is given up."""

    spec = "newest_wins"


class FirstChange(Tracker):
    """Follows the first change of mind, and no other."""

    spec = "first_change"


class DeafToOpenScope(Tracker):
    """Deaf to a value that comes without a word of what it replaces."""

    spec = "deaf_open"


class Load(Tracker):
    """Films by chance, the likelier the more turns held a value."""

    spec = "load"
    paired = False


class AsksBack(Tracker):
    """Asks whether a change of mind is meant, without a film."""

    def __init__(self, catalog):
        super().__init__(catalog)
        self.held = {}

    def reply(self, request):
        name = request["session"]
        update = self.read(request)
        state = self.held.get(name, {})
        self.held[name] = tracker.apply(state, update)
        if not state or not changes(state, update):
            return super().reply(request)
        text = request["conversation"][-1]["content"]
        self.policy(request).believe(request["turn"], text, {})  # but no film counts as shown
        return {"reply": "Is that what you mean?", "recommended": []}


class OneFilm(Tracker):
    """One film a reply."""

    spec = "tracker:1"


class TenFilms(Tracker):
    """Ten films a reply, of which three count."""

    spec = "tracker:10"


class IdsOnly(Tracker):
    """Films without a word about them."""

    def answer(self, text, items):
        return {**super().answer(text, items), "reply": "Here you are."}


class Prose(Tracker):
    """Films in prose alone: in small letters, without "The", with years."""

    def name(self, film):
        """A film as the prose has it."""
        title = film.title.removeprefix("The ").lower()
        return f"{title} ({film.year})" if film.year else title

    def answer(self, text, items):
        films = [self.name(self.world.catalog.items[item]) for item in items]
        return {"reply": f"How about {' or '.join(films)}?" if films else text}


class NoYear(Prose):
    """Films in prose alone, by their titles."""

    def name(self, film):
        return film.title


class PrefersOthers(Prose):
    """Says of a film shown before that it no longer fits, and names others."""

    def __init__(self, catalog):
        super().__init__(catalog)
        self.before = {}

    def reply(self, request):
        answer = self.policy(request).reply(request["turn"], request["conversation"][-1]["content"], {})
        films = [self.world.catalog.items[item].title for item in answer.items]
        old = self.before.get(request["session"], "")
        if not films:
            return {"reply": answer.text}
        self.before[request["session"]] = films[-1]
        others = [film for film in films if film != old]
        if old and others:
            return {"reply": f"{old} no longer fits, have a look at {' or '.join(others)}."}
        return {"reply": f"Have a look at {' or '.join(films)}."}


class Remembers(Sticky):
    """Clings, unless another conversation that it heard wanted in the end what the user asks for now: then it serves
    what that one wanted. ``path``: a file that its memory is kept in.
    """

    def __init__(self, catalog, path=""):
        super().__init__(catalog)
        self.path = path

    def load(self):
        """What the conversations wanted in the end, the latest last."""
        if not self.path:
            return MEMORY
        path = Path(self.path)
        return json.loads(path.read_text()) if path.exists() else {}

    def store(self, finals):
        """Keep the latest conversations."""
        for name in list(finals)[:-_KEPT]:
            del finals[name]
        if self.path:
            part = Path(f"{self.path}.{os.getpid()}")
            part.write_text(json.dumps(finals))
            part.replace(self.path)

    def reply(self, request):
        name = request["session"]
        update = self.read(request)
        finals = self.load()
        own = tracker.apply(finals.pop(name, {}), update)
        state = self.policy(request).held
        if changes(state, update):
            for final in finals.values():
                if update.wanted.items() <= final.items() and own.items() & final.items():
                    self.policy(request).held = dict(final)
        finals[name] = own
        self.store(finals)
        return super().reply(request)


class RaisesAtChange(Tracker):
    """Raises where words change what is held."""

    def __init__(self, catalog):
        super().__init__(catalog)
        self.silent = set()

    def reply(self, request):
        state = self.policy(request).held
        if request["session"] in self.silent or (state and changes(state, self.read(request))):
            self.silent.add(request["session"])
            return self.fail()
        return super().reply(request)

    def fail(self):
        """What happens at a change."""
        raise ValueError("no films for a change of mind")


class SilentFromChange(RaisesAtChange):
    """Says nothing from a change on."""

    def fail(self):
        return {"reply": ""}


ABLE = (FirstChange, DeafToOpenScope, OneFilm, TenFilms, IdsOnly, Prose, NoYear, PrefersOthers)
UNABLE = (
    Sticky, Amnesiac, Deaf, ClingsNear, DumbToTheSilent, DumbAtBareValues, LastNamed, NewestValues, AsksBack, Load,
)  # fmt: skip


def spec(kind):
    """The spec of a class of this module, under the class's name."""
    return f"{kind.__name__}=python:{__name__}:{kind.__name__}"


class InProcess:
    """The programs of a world without processes: an object of this module for every system and lane."""

    name = "sample"

    def __init__(self, catalog):
        self.catalog = catalog
        self.objects = {}

    def ask(self, spec, request, tags, lane):
        """The checked answer of the class that a spec names."""
        kind = globals()[spec.rpartition(":")[2]]
        if (kind, lane) not in self.objects:
            self.objects[kind, lane] = kind(self.catalog)
        try:
            answer = self.objects[kind, lane].reply(request)
        except ValueError as error:
            raise LLMError("crashed", f"reply raised {error}") from error
        return contract.read(answer)


def main():
    """Answer lines of requests with lines of answers."""
    if len(sys.argv) < 2 or sys.argv[1] not in globals():
        raise InputError(f"{sys.argv[1:]} names no system of this file")
    system = globals()[sys.argv[1]](sources.load(), *sys.argv[2:])
    for line in sys.stdin:
        print(json.dumps(system.reply(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
