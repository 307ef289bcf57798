"""``chat``: turns with any system, held by a simulated user or by the person at the terminal."""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from crs_lib.cli.app import command
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field
from crs_lib.core.text import shorten

_SHOWN = 2_000  # characters of a reply


@command(
    "chat", takes=["crs_lib.simulate.config:SimulateConfig catalog seed llm"], reads="catalog", writes="out"
)  # fmt: skip
def _chat(
    spec: str, *, simulated: bool = False, session: Annotated[int, Field(ge=0)] = 0, out: Path | None = None,
    **given: Any,
) -> None:  # fmt: skip
    """Talk to a system in the terminal, or watch a simulated user do it.

    spec: the system: tracker, http://127.0.0.1:8000/reply, 'exec:node a.js'
    simulated: let a simulated user hold three turns, and show what the system understood
    session: scenarios of simulated users from this one on
    out: add the conversation to this file, a JSON line
    """
    from crs_lib.simulate.config import SimulateConfig
    from crs_lib.simulate.trial import TRIAL_TURNS

    usual: dict[str, Any] = {"run": "trial", "systems": [spec], "n_sessions": 1}
    config = SimulateConfig(**usual | given | ({"n_turns": TRIAL_TURNS, "voices": "A"} if simulated else {}))
    with _ready(config) as world:
        print(f"{spec} on {config.catalog_name} ({len(world.catalog):,} films)", end="")
        if simulated:
            _simulate(world, config, session)
            return
        print(". Ask for films in English, change your mind; Ctrl-D or Ctrl-C ends.")
        turns = list[Turn]()
        with suppress(EOFError, KeyboardInterrupt):
            for pair in _talk(world, config):
                turns += pair
        print(f"\nended after {len(turns) // 2} {'turn' if len(turns) == 2 else 'turns'}")
        if out and turns:
            before = out.read_text(encoding="utf-8").split("\n") if out.exists() else []
            said = Dialogue(f"{time.time_ns()}", spec, tuple(turns))
            tables.write_jsonl(out, [*filter(None, before), said.dumps()])
            print(f"kept: {paths.shown(out)}")


def _simulate(world: Any, config: Any, session: int) -> None:
    """Three turns of a simulated user; then what was understood in all, and how to score the system."""
    from crs_lib.simulate.trial import trial

    spec, found = config.systems[0], []
    print(f", users of seed {config.seed}")
    for number, turn in enumerate(trial(world, config, session), start=1):
        found.append(turn)
        print(f"\n{number}  user    {turn.utterance}")
        _fact("constraints", _pairs(turn.wishes))
        _show(world.catalog, spec, turn.reply, turn.wishes, turn.seconds)
    replies = [turn.reply for turn in found]
    films, foreign = (sum(len(getattr(one, name)) for one in replies) for name in ("items", "hallucinated"))
    met = ({_met(world.catalog, item, one.wishes) for item in one.reply.items} for one in found)
    whole = sum(len(one.wishes) in counts for one, counts in zip(found, met, strict=True))
    states = sum("state" in one.extra for one in replies)
    print(f"\nUnderstood: {len(found)} replies, {films} films, {foreign} titles outside the catalogue, "
          f"{states} states\n{whole} of {len(found)} replies hold a film that meets them all.")  # fmt: skip
    if not films:
        print("No film was read: name films as 'recommended' (ids or titles), or by title in the reply.")
    quoted = "'" + tables.dumps({"": [spec]})[5:-1].replace("'", "'\\''") + "'"
    print(f"Score it:   python -m crs_lib run 03_simulate -p run mine -p systems {quoted}\n"
          "            python -m crs_lib run 04_evaluate -p run mine")  # fmt: skip


def _talk(world: Any, config: Any) -> Iterator[Sequence[Turn]]:
    """The turns of a person with the system, each shown with what was read of it."""
    from crs_lib.simulate.run import reply_meta
    from crs_lib.systems import base as systems
    from crs_lib.systems import tracker

    spec, wishes = config.systems[0], dict[str, str]()
    system = systems.create(spec, world, config.seed, 0)
    if system.sees_state:
        raise InputError(f"{spec} reads the log of a simulated user, and a person has none")
    for number, text in enumerate(_lines(), start=1):
        began = time.perf_counter()
        reply = system.reply(number, text, {})
        wishes = tracker.apply(wishes, tracker.read(world.grounder, text))
        _fact("spans", _spans(world.grounder, text))
        _fact("tracked", _pairs(wishes))
        _show(world.catalog, spec, reply, wishes, time.perf_counter() - began)
        yield Turn(USER, text), Turn(SYSTEM, reply.text, reply_meta(world.catalog, reply))


def _lines() -> Iterator[str]:
    """The person's lines, typed with the editing keys of a shell; blank ones are passed over."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it gives input() its keys
    while True:
        if text := input("\nyou> ").strip():
            if not sys.stdin.isatty():
                print(text)
            yield text


@contextmanager
def _ready(config: Any) -> Iterator[Any]:
    """The world of the system's sessions, after a run's checks; nothing of it is kept."""
    from crs_lib.catalog import sources
    from crs_lib.llm.base import LLMError
    from crs_lib.runs import Start, jobs
    from crs_lib.simulate.config import needs, versions
    from crs_lib.simulate.run import Maker

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


def _show(catalog: Any, spec: str, reply: Any, wishes: Mapping[str, str], seconds: float) -> None:
    """Print a reply with the films, the titles outside the catalogue and the state that were read from it."""
    name = spec if len(spec) <= 24 else spec.partition(":")[0]
    print(f"{name}> {shorten(reply.text, _SHOWN) or '(no words)'}")
    for item in reply.items:
        film = catalog.items[item]
        year = f" ({film.year})" if film.year else ""
        met = f", meets {_met(catalog, item, wishes)} of {len(wishes)}" if wishes else ""
        _fact("film", f"{film.title}{year} [{film.item_id}]{met}")
    if reply.hallucinated:
        _fact("unknown", "; ".join(reply.hallucinated))
    state = reply.extra.get("state", reply.constraints)
    if state or "state" in reply.extra:
        _fact("state", _pairs(state))
    _fact("time", f"{1000 * seconds:,.0f} ms")


def _met(catalog: Any, item: int, wishes: Mapping[str, str]) -> int:
    """The number of constraints that a film meets."""
    values = catalog.items[item].values
    return sum(value in values[name] for name, value in wishes.items())


def _spans(grounder: Any, text: str) -> str:
    """The stretches of a text that name concepts or titles, each with what it names."""
    found = [(m.start, m.end, f"{m.field}={m.value}") for m in grounder.audit(text) if not m.rejected]
    found += [(m.start, m.end, grounder.catalog.items[m.item].item_id) for m in grounder.titles(text)]
    shown = [f"{text[start:end]} {name}" for start, end, name in sorted(found)]
    return "; ".join(shown) or "none"


def _pairs(state: Mapping[str, Any]) -> str:
    words = {name: one if isinstance(one, str) else " or ".join(one) for name, one in state.items()}
    return ", ".join(f"{name} = {word}" for name, word in words.items()) or "none"


def _fact(name: str, text: str) -> None:
    print(f"   {name:<12}{text}")
