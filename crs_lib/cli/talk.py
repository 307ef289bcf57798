"""``chat``: turns with any system, held by a simulated user or by the person at the terminal."""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from crs_lib.catalog import sources
from crs_lib.cli.commands import Command, Takes
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError
from crs_lib.runs import Start, jobs
from crs_lib.simulate.config import SimulateConfig, needs, versions
from crs_lib.simulate.run import Maker, reply_meta
from crs_lib.simulate.trial import TRIAL_TURNS, trial
from crs_lib.systems import base as systems
from crs_lib.systems import tracker

_SHOWN = 2_000  # characters of a reply


class Chat(Command):
    """Talk to a system in the terminal, or watch a simulated user do it."""

    positional = ("spec",)
    takes = (Takes("crs_lib.simulate.config:SimulateConfig", "catalog seed llm"),)
    reads = "catalog"
    writes = "out"

    spec: str
    """the system: tracker, http://127.0.0.1:8000/reply, 'exec:node a.js'"""
    simulated: bool = False
    """let a simulated user hold three turns, and show what the system understood"""
    session: Annotated[int, Field(ge=0)] = 0
    """scenarios of simulated users from this one on"""
    out: Path | None = None
    """add the conversation to this file, a JSON line"""

    def execute(self, settings: dict[str, Any]) -> None:
        options: dict[str, Any] = {"run": "trial", "systems": [self.spec], "n_sessions": 1, **settings}
        if self.simulated:
            options.update(n_turns=TRIAL_TURNS, voices="A")
        config = SimulateConfig(**options)
        with _ready(config) as world:
            print(f"{self.spec} on {config.catalog_name} ({len(world.catalog):,} films)", end="")
            if self.simulated:
                _simulate(world, config, self.session)
            else:
                self._talk(world, config)

    def _talk(self, world: Any, config: SimulateConfig) -> None:
        print(". Ask for films in English, change your mind; Ctrl-D or Ctrl-C ends.")
        turns: list[Turn] = []
        with suppress(EOFError, KeyboardInterrupt):
            for user, system in _turns(world, config):
                turns += [user, system]
        count = len(turns) // 2
        print(f"\nended after {count} {'turn' if count == 1 else 'turns'}")
        if self.out and turns:
            before = []
            if self.out.exists():
                before = self.out.read_text(encoding="utf-8").split("\n")
            dialogue = Dialogue(f"{time.time_ns()}", self.spec, tuple(turns))
            tables.write_jsonl(self.out, [*filter(None, before), dialogue.dumps()])
            print(f"kept: {paths.from_here(self.out)}")
        if turns:
            where = paths.from_here(self.out) if self.out else "not kept (--out FILE)"
            print(_passed_over([turn.meta for turn in turns[1::2]], where))


def _simulate(world: Any, config: SimulateConfig, session: int) -> None:
    """Three turns of a simulated user; then what was understood in all, and how to score the system."""
    spec = config.systems[0]
    replies = films = foreign = states = whole = 0
    logs = []
    print(f", users of seed {config.seed}")
    for number, turn in enumerate(trial(world, config, session), start=1):
        print(f"\n{number}  user    {turn.utterance}")
        _fact("constraints", _pairs(turn.wishes))
        _show(world.catalog, spec, turn.reply, turn.wishes, turn.seconds)
        logs.append(reply_meta(world.catalog, turn.reply))
        replies += 1
        films += len(turn.reply.items)
        foreign += len(turn.reply.hallucinated)
        states += "state" in turn.reply.extra
        met = [_met(world.catalog, item, turn.wishes) for item in turn.reply.items]
        whole += len(turn.wishes) in met
    seen = f"{films} films, {foreign} titles outside the catalogue, {states} states"
    print(f"\nUnderstood: {replies} replies, {seen}")
    print(f"{whole} of {replies} replies hold a film that meets them all.")
    if not films:
        print(f"No film was read: {_how_to_name_films(spec)}.")
    value = tables.dumps({"": [spec]})[5:-1].replace("'", "'\\''")
    print(f"Score it:   python -m crs_lib run 03_simulate -p run mine -p systems '{value}'")
    print("            python -m crs_lib run 04_evaluate -p run mine")
    print(_passed_over(logs, "above"))


def _how_to_name_films(spec: str) -> str:
    """What makes films be read; a program's author can also name them beside the text."""
    if systems.is_program(spec):
        return "name films as 'recommended' (ids or titles), or by title in the reply"
    return "its replies name no film of this catalogue by title"


def _passed_over(logs: Sequence[Mapping[str, Any]], where: str) -> str:
    """What was read of replies and what does not count in them, why, and where they lie."""
    films = beyond = thoughts = 0
    foreign: list[str] = []
    for log in logs:
        films += len(log["rec_ids"])
        beyond += log.get("films_beyond", 0)
        thoughts += bool(log.get("thinking"))
        foreign += log["hallucinated_titles"]
    left_out = []
    if foreign:
        left_out.append(f"titles outside the catalogue: {len(foreign)} ({', '.join(foreign[:3])})")
    if beyond:
        left_out.append(f"films beyond those wanted: {beyond}")
    if thoughts:
        left_out.append(f"thoughts: {thoughts}")
    lost = ", ".join(left_out) or "none"
    return f"replies read: {len(logs)}, films: {films}; left out: {lost}; list: {where}"


def _turns(world: Any, config: SimulateConfig) -> Iterator[tuple[Turn, Turn]]:
    """The turns of a person with the system, each shown with what was read of it."""
    spec = config.systems[0]
    constraints: dict[str, str] = {}
    system = systems.create(spec, world, config.seed, 0)
    if system.sees_state:
        raise InputError(f"{spec} reads the log of a simulated user, and a person has none")
    for number, text in enumerate(_lines(), start=1):
        began = time.perf_counter()
        reply = system.reply(number, text, {})
        constraints = tracker.apply(constraints, tracker.read(world.grounder, text))
        _fact("spans", _spans(world.grounder, text))
        _fact("tracked", _pairs(constraints))
        _show(world.catalog, spec, reply, constraints, time.perf_counter() - began)
        yield Turn(USER, text), Turn(SYSTEM, reply.text, reply_meta(world.catalog, reply))


def _lines() -> Iterator[str]:
    """The person's lines, typed with the editing keys of a shell; blank ones are passed over."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it gives input() its keys
    while True:
        text = input("\nyou> ").strip()
        if not text:
            continue
        if not sys.stdin.isatty():
            print(text)
        yield text


@contextmanager
def _ready(config: SimulateConfig) -> Iterator[Any]:
    """The world of the system's sessions, after a run's checks; nothing of it is kept."""
    jobs.checked(needs(config.roles(), config.llm_settings, sources.load(config.catalog)))
    versions(config.programs(), {})
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(config.catalog, config, config.arm, Start(folder))
        try:
            yield maker.world
        except LLMError as error:
            raise RunError(f"{config.systems[0]} gave no usable answer ({error.kind}): {error}") from error
        finally:
            maker.close()


def _show(catalog: Any, spec: str, reply: Any, constraints: Mapping[str, str], seconds: float) -> None:
    """Print a reply with the films, the titles outside the catalogue and the state that were read from it."""
    name = spec if len(spec) <= 24 else spec.partition(":")[0]
    print(f"{name}> {shorten(reply.text, _SHOWN) or '(no words)'}")
    for item in reply.items:
        film = catalog.items[item]
        line = film.title
        if film.year:
            line += f" ({film.year})"
        line += f" [{film.item_id}]"
        if constraints:
            line += f", meets {_met(catalog, item, constraints)} of {len(constraints)}"
        _fact("film", line)
    if reply.hallucinated:
        _fact("unknown", "; ".join(reply.hallucinated))
    state = reply.extra.get("state", reply.constraints)
    if state or "state" in reply.extra:
        _fact("state", _pairs(state))
    _fact("time", f"{1000 * seconds:,.0f} ms")


def _met(catalog: Any, item: int, constraints: Mapping[str, str]) -> int:
    """The number of constraints that a film meets."""
    values = catalog.items[item].values
    return sum(1 for name, value in constraints.items() if value in values[name])


def _spans(grounder: Any, text: str) -> str:
    """The stretches of a text that name concepts or titles, each with what it names."""
    spans = []
    for mention in grounder.audit(text):
        if not mention.rejected:
            spans.append((mention.start, mention.end, f"{mention.field}={mention.value}"))
    for title in grounder.titles(text):
        spans.append((title.start, title.end, grounder.catalog.items[title.item].item_id))
    parts = [f"{text[start:end]} {name}" for start, end, name in sorted(spans)]
    return "; ".join(parts) or "none"


def _pairs(state: Mapping[str, Any]) -> str:
    pairs = []
    for name, value in state.items():
        words = value if isinstance(value, str) else " or ".join(value)
        pairs.append(f"{name} = {words}")
    return ", ".join(pairs) or "none"


def _fact(name: str, text: str) -> None:
    print(f"   {name:<12}{text}")
