"""``chat``: turns with any system, held by a simulated user or by the person at the terminal."""

import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from crs_lib.cli import terminal
from crs_lib.cli.app import arg, command, settings, values
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError, RunError
from crs_lib.simulate.config import SimulateConfig

_INK = {"user": "1", "system": "1;36", "fact": "2", "span": "4;33"}
_SHOWN = 2_000  # characters of a reply


@command(
    "chat",
    arg("spec", help="the system: tracker, http://127.0.0.1:8000/reply, 'exec:node a.js'"),
    settings("crs_lib.simulate.config:SimulateConfig", "catalog", "seed", "llm"),
    arg("--simulated", action="store_true",
        help="let a simulated user hold three turns, and show what the system understood"),
    arg("--session", type=int, default=0, metavar="N",
        help="scenarios of simulated users from this one on (default: 0)"),
    arg("--out", type=Path, metavar="FILE", help="add the conversation to this file, a JSON line"),
)  # fmt: skip
def chat(arguments: Namespace) -> None:
    """Talk to a system in the terminal, or watch a simulated user do it."""
    (_try if arguments.simulated else _chat)(arguments)


def _try(arguments: Namespace) -> None:
    from crs_lib.simulate.conversation import TRIAL_TURNS, trial

    if arguments.session < 0:
        raise InputError(f"--session is {arguments.session}; give a scenario's number, 0 or more")
    config = _config(arguments, n_turns=TRIAL_TURNS)
    found = []
    with _ready(config) as maker, _told(arguments.spec):
        catalog = maker.world.catalog
        print(f"{arguments.spec} on {config.catalog_name} ({len(catalog):,} films), "
              f"users of seed {config.seed}")  # fmt: skip
        for number, turn in enumerate(trial(maker.world, config, arguments.session), start=1):
            found.append(turn)
            print(f"\n{number}  user    {_ink('user', turn.utterance)}")
            print(f"   {_fact('constraints', _pairs(turn.wishes))}")
            print(f"   system  {_ink('system', _plain(turn.reply.text) or '(no words)')}")
            _show(catalog, turn.reply, turn.wishes)
            print(f"   {_fact('time', _seconds(turn.seconds))}")
    _sum_up(arguments.spec, maker.world.catalog, found)


def _sum_up(spec: str, catalog: Any, found: Sequence[Any]) -> None:
    """What was understood in all, and the commands that score the system."""
    films = sum(len(turn.reply.items) for turn in found)
    whole = sum(
        any(_met(catalog, item, turn.wishes) == len(turn.wishes) for item in turn.reply.items)
        for turn in found
    )
    foreign = sum(len(turn.reply.hallucinated) for turn in found)
    stated = sum("state" in turn.reply.extra for turn in found)
    print(f"\nUnderstood: {len(found)} replies, {films} films, {foreign} titles outside the catalogue, "
          f"{stated} states\n{whole} of {len(found)} replies hold a film that meets them all.")  # fmt: skip
    if not films:
        print("No film was read: name films as 'recommended' (ids or titles), or by title in the reply.")
    quoted = "'" + tables.dumps({"": [spec]})[5:-1].replace("'", "'\\''") + "'"
    print(f"Score it:   python -m crs_lib run 03_simulate -p run mine -p systems {quoted}\n"
          "            python -m crs_lib run 04_evaluate -p run mine")  # fmt: skip


def _chat(arguments: Namespace) -> None:
    from crs_lib.systems import base as systems
    from crs_lib.systems import tracker

    config = _config(arguments)
    turns: list[Turn] = []
    with _ready(config) as maker, _told(arguments.spec):
        world = maker.world
        system = systems.create(arguments.spec, world, config.seed, 0)
        if system.sees_state:
            raise InputError(f"{arguments.spec} reads the log of a simulated user, and a person has none")
        print(f"{arguments.spec} on {config.catalog_name} ({len(world.catalog):,} films). Ask for films in "
              "English, change your mind; Ctrl-D or Ctrl-C ends.")  # fmt: skip
        wishes: dict[str, str] = {}
        with suppress(EOFError, KeyboardInterrupt):
            for number, text in enumerate(_lines(), start=1):
                began = time.perf_counter()
                reply = system.reply(number, text, {})
                wishes = tracker.apply(wishes, tracker.read(world.grounder, text))
                print(f"   {_fact('spans', _spans(world.grounder, text))}")
                print(f"   {_fact('tracked', _pairs(wishes))}")
                print(f"{_name(arguments.spec)}> {_ink('system', _plain(reply.text) or '(no words)')}")
                _show(world.catalog, reply, wishes)
                print(f"   {_fact('time', _seconds(time.perf_counter() - began))}")
                turns += [Turn(USER, text), Turn(SYSTEM, reply.text, _meta(world.catalog, reply))]
    print(f"\nended after {len(turns) // 2} {'turn' if len(turns) == 2 else 'turns'}")
    if arguments.out and turns:
        _keep(arguments.out, Dialogue(f"{time.time_ns()}", arguments.spec, tuple(turns)))


def _lines() -> Iterator[str]:
    """What the person types, line by line, with the editing keys of a shell; blank lines are passed over."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it gives input() its keys
    while True:
        text = input("\nyou> ").strip()
        if text:
            if not sys.stdin.isatty():
                print(text)
            yield text


def _config(arguments: Namespace, **more: Any) -> SimulateConfig:
    given = values(arguments, SimulateConfig)
    return SimulateConfig(run="trial", systems=[arguments.spec], n_sessions=1, **given, **more)


@contextmanager
def _ready(config: SimulateConfig) -> Iterator[Any]:
    """The maker of the system's sessions, after the checks that a run begins with; nothing of it is kept."""
    from crs_lib.catalog import sources
    from crs_lib.runs import jobs
    from crs_lib.simulate import roles
    from crs_lib.simulate.conversation import Maker

    jobs.checked(roles.needs(config.roles(), config.llm_settings, sources.load(config.catalog)))
    roles.versions(config.programs(), {})
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(config.catalog, config, folder)
        try:
            yield maker
        finally:
            maker.close()


@contextmanager
def _told(spec: str) -> Iterator[None]:
    """Within, a failed call is told in one line."""
    from crs_lib.llm.base import LLMError

    try:
        yield
    except LLMError as error:
        raise RunError(f"{spec} gave no usable answer ({error.kind}): {error}") from error


def _show(catalog: Any, reply: Any, wishes: Mapping[str, str]) -> None:
    """The films, the titles outside the catalogue and the state that were read from a reply."""
    lines = []
    for item in reply.items:
        film = catalog.items[item]
        year = f" ({film.year})" if film.year else ""
        met = f", meets {_met(catalog, item, wishes)} of {len(wishes)}" if wishes else ""
        lines.append(f"{film.title}{year} [{film.item_id}]{met}")
    for name, line in zip(["films", *[""] * len(lines)], lines or ["none"], strict=False):
        print(f"   {_fact(name, line)}")
    if reply.hallucinated:
        print(f"   {_fact('unknown', _plain('; '.join(reply.hallucinated)))}")
    state = reply.extra.get("state", reply.constraints)
    if state or "state" in reply.extra:
        print(f"   {_fact('state', _pairs(state))}")


def _met(catalog: Any, item: int, wishes: Mapping[str, str]) -> int:
    """The number of constraints that a film meets."""
    values = catalog.items[item].values
    return sum(value in values[name] for name, value in wishes.items())


def _spans(grounder: Any, text: str) -> str:
    """The stretches of a text that name concepts or titles, each with what it names."""
    found = [(m.start, m.end, f"{m.field}={m.value}") for m in grounder.audit(text) if not m.rejected]
    found += [(m.start, m.end, grounder.catalog.items[m.item].item_id) for m in grounder.titles(text)]
    shown = [f"{_ink('span', _plain(text[start:end]))} {name}" for start, end, name in sorted(found)]
    return "; ".join(shown) or "none"


def _meta(catalog: Any, reply: Any) -> dict[str, Any]:
    films = [catalog.items[item] for item in reply.items]
    return {
        "constraints": dict(reply.constraints), "rec_titles": [film.title for film in films],
        "rec_ids": [film.item_id for film in films], "hallucinated_titles": list(reply.hallucinated),
        **reply.extra,
    }  # fmt: skip


def _keep(path: Path, dialogue: Dialogue) -> None:
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    tables.write_jsonl(path, [*before, dialogue.dumps()])
    print(f"kept: {paths.shown(path)}")


def _pairs(state: Mapping[str, Any]) -> str:
    values = (
        (name, value if isinstance(value, str) else " or ".join(value)) for name, value in state.items()
    )
    return _plain(", ".join(f"{name} = {value}" for name, value in values)) or "none"


def _name(spec: str) -> str:
    return spec if len(spec) <= 24 else spec.partition(":")[0]


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"


def _fact(name: str, text: str) -> str:
    return f"{_ink('fact', f'{name:<12}')}{text}"


def _plain(text: str) -> str:
    """A text without control characters, which could steer the terminal."""
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text[:_SHOWN])


def _ink(kind: str, text: str) -> str:
    """The text in the terminal's colours, where there is one that shows them."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else terminal.coloured(_INK[kind], text)
