"""What people are asked about a run: stretches of sessions around a shift, blinded and in random order.

A question shows one system's conversation, or two systems' conversations with the same user, and asks how
well the assistant followed. The page names no system; the key that does lies in the run's folder.
Source: docs/validity.md, section 7.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from crs_lib import evaluate, simulate
from crs_lib.core import outside, paths, rng, tables
from crs_lib.core.config import Config, Field, RunName, Seed
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.metrics import base

BEFORE, AFTER = 2, 3  # turns shown before a shift, and from the shift on
KEY, FOLDER = "key.json", "annotation"
SCALES: dict[str, tuple[str, tuple[str, ...]]] = {
    "single": (
        "At the marked turn the person wants something else. How well does the assistant follow from there?",
        ("not at all", "poorly", "partly", "well", "fully"),
    ),
    "pairs": (
        "At the marked turn the person wants something else. Which assistant follows better from there?",
        ("clearly the left", "rather the left", "no difference", "rather the right", "clearly the right"),
    ),
}


@dataclass(frozen=True)
class Question:
    """One question: its blinded id, what the page shows, and what only the key holds.

    ``sides`` are the stretches shown, one or two, ``earlier`` what the person said before; ``systems`` who
    speaks in each. ``shift`` is the shift's turn, ``turns`` those of which the metrics are taken.
    """

    id: str
    earlier: tuple[str, ...]
    sides: tuple[tuple[Mapping[str, Any], ...], ...]
    systems: tuple[str, ...]
    session_id: str
    shift: int
    turns: tuple[int, ...]


@dataclass(frozen=True)
class AskConfig(Config):
    """The effective settings of a page of questions, checked."""

    run: Annotated[RunName, Field(description="an evaluated run")] = "demo"
    n: Annotated[int, Field(ge=1, le=5000, description="questions on the page")] = 60
    kind: Annotated[Literal["single", "pairs"], Field(description="one conversation, or two")] = "single"
    seed: Annotated[Seed, Field(description="of the draw and the order of questions")] = 0


def sample(config: AskConfig) -> list[Question]:
    """Questions about an evaluated run, balanced over systems and scenarios, in random order.

    Raises InputError for a run that is too small, RunError as :func:`evaluate.read`.
    """
    run, n, kind, seed = config.run, config.n, config.kind, config.seed
    shifts = evaluate.read(run, "shifts")
    talks = {(d.model_name, d.session_id): d for d in simulate.iter_dialogues(run)}
    models = list(dict.fromkeys(model for model, _ in talks))
    if kind == "pairs" and len(models) < 2:
        raise InputError(f"run {run!r} has one system; pairs need two, or ask with --kind single")
    places = shifts[["session_id", "turn"]].drop_duplicates().itertuples(index=False, name=None)
    draw = rng.stream(seed, "annotate", run, kind)
    groups: list[tuple[str, ...]] = (
        [(m,) for m in models] if kind == "single" else list(combinations(models, 2))
    )
    order = [(str(session), int(turn)) for session, turn in places]
    draw.shuffle(order)
    chosen: list[tuple[tuple[str, ...], str, int]] = []
    for turn_of in range(len(groups)):  # every scenario comes once before any comes twice
        for place, (session, shift) in enumerate(order):
            chosen.append((groups[(place + turn_of) % len(groups)], session, shift))
    chosen = [one for one in chosen if all((model, one[1]) in talks for model in one[0])]
    if len(chosen) < n:
        raise InputError(
            f"run {run!r} has {len(chosen)} questions of the kind {kind}, asked for {n}; simulate more"
        )
    found = []
    for systems, session, shift in chosen[:n]:
        sides = tuple(systems[i] for i in draw.permutation(len(systems)))
        found.append(_question(run, [talks[model, session] for model in sides], session, shift, seed))
    return [found[i] for i in draw.permutation(len(found))]


def _question(run: str, talks: Sequence[Dialogue], session: str, shift: int, seed: int) -> Question:
    sides = tuple(_stretch(dialogue, shift) for dialogue in talks)
    systems = tuple(dialogue.model_name for dialogue in talks)
    name = json.dumps([run, seed, systems, session, shift])
    last = min(shift + AFTER - 1, len(talks[0].pairs()))
    blinded = hashlib.sha256(name.encode()).hexdigest()[:12]
    earlier = tuple(pair.user.text for pair in talks[0].pairs()[: max(0, shift - 1 - BEFORE)])
    return Question(blinded, earlier, sides, systems, session, shift, tuple(range(shift, last + 1)))


def _stretch(dialogue: Dialogue, shift: int) -> tuple[Mapping[str, Any], ...]:
    """The turns shown: what was said and which turn is the shift's; nothing that the log knows."""
    pairs = dialogue.pairs()[max(0, shift - 1 - BEFORE) : shift - 1 + AFTER]
    return tuple({"user": p.user.text, "system": p.system.text, "shift": p.turn == shift} for p in pairs)


def digest(questions: Iterable[Question]) -> str:
    """What tells one set of questions from another, for the labels of a page."""
    return hashlib.sha256(",".join(sorted(one.id for one in questions)).encode()).hexdigest()[:16]


def folder(run: str) -> Path:
    """Where a run's page, key and labels lie."""
    return paths.run_folder(simulate.STUDY, run) / FOLDER


def write_key(run: str, kind: str, questions: Sequence[Question]) -> Path:
    """Write what the page must not hold: which systems a question shows; returns the file."""
    path = folder(run) / KEY
    entries = [{k: v for k, v in asdict(one).items() if k not in ("sides", "earlier")} for one in questions]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tables.write_aside(path) as file:
        file.write(
            json.dumps({"kind": kind, "page": digest(questions), "questions": entries}, indent=1) + "\n"
        )
    return path


def read_key(run: str) -> tuple[str, str, pd.DataFrame]:
    """Kind, digest and questions of a run's page; RunError with the command that makes one."""
    path = folder(run) / KEY
    if not path.is_file():
        raise RunError(f"run {run!r} has no page; make one with: python -m crs_lib annotate --run {run}")
    made = outside.read_object(path)
    return made["kind"], made["page"], pd.DataFrame(made["questions"])


def metric_values(run: str, kind: str, questions: pd.DataFrame) -> pd.DataFrame:
    """One row per question: the mean of every turn metric over the turns that it asks about.

    For pairs the value of the right side less that of the left.
    """
    turns = evaluate.read(run, "turns")
    numeric = turns.select_dtypes(["number", "boolean"])
    names = [name for name in numeric if name in base.METRICS and numeric[name].notna().any()]
    by = turns.set_index(["model", "session_id", "turn"])[names].astype(float).sort_index()
    rows = []
    for one in questions.itertuples(index=False):
        means = [
            by.loc[
                [
                    (model, one.session_id, turn)
                    for turn in one.turns
                    if (model, one.session_id, turn) in by.index
                ]
            ].mean()
            for model in one.systems
        ]
        value = means[0] if kind == "single" else means[1] - means[0]
        rows.append({"item": one.id, "session_id": one.session_id} | value.to_dict())
    return pd.DataFrame(rows)


def balance(run: str) -> pd.DataFrame:
    """How often each system is asked about on a run's page."""
    _, _, asked = read_key(run)
    counts = asked["systems"].explode().value_counts(sort=False).sort_index()
    return counts.rename_axis("system").rename("questions").reset_index()


def shown(question: Question) -> pd.DataFrame:
    """A question as the page shows it, a row a turn; a second side in further columns."""
    sides = [pd.DataFrame(list(side))[["user", "system"]] for side in question.sides]
    names = [""] if len(sides) == 1 else ["left ", "right "]
    frame = pd.concat([side.add_prefix(name) for side, name in zip(sides, names, strict=True)], axis=1)
    marks = ["shift" if turn["shift"] else "" for turn in question.sides[0]]
    return frame.assign(turn=marks + [""] * (len(frame) - len(marks)))
