"""Questions to people about a run, and the labels that they give.

A question shows a stretch of one system's conversation around a shift, or of two systems' with the same user,
blinded and in random order, and asks how well the assistant followed. The page names no system; the key that
does lies in the run's folder. Labels are read, checked, and held against one another and the metrics.
Source: docs/validity.md.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from crs_lib import evaluate, simulate, stats
from crs_lib.core import paths, rng, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, RunName, Seed, Settings
from crs_lib.metrics import base
from crs_lib.stats.agreement import read_labels
from crs_lib.stats.effects import spearman
from crs_lib.stats.power import correlation_power, reliability
from crs_lib.validity import agreement

BEFORE, AFTER = 2, 3  # turns shown before a shift, and from the shift on
Kind = Literal["single", "pairs", "relevance", "intents", "quality"]
KEY, FOLDER = "key.json", "annotation"
SCRIPTED = "scripted"  # the prefix of raters that are programs
_PLANS = (30, 60, 120, 240)  # numbers of questions whose power is shown
_ON_THE_PAGE = ("sides", "earlier")  # what of a question the key does not repeat


@dataclass(frozen=True)
class Question:
    """One question: its blinded id, what the page shows, and what only the key holds.

    The page shows ``sides`` (one or two conversations) and ``earlier`` words of the person; the key holds who
    speaks in each side, the shift's turn, and the ``turns`` whose metrics count.
    """

    id: str
    earlier: tuple[str, ...]
    sides: tuple[tuple[Mapping[str, str], ...], ...]
    systems: tuple[str, ...]
    session_id: str
    shift: int
    turns: tuple[int, ...]

    @property
    def shown(self) -> pd.DataFrame:
        """The question as the page shows it, a row a turn; a second side in further columns."""
        names = [""] if len(self.sides) == 1 else ["left ", "right "]
        frames = []
        for name, side in zip(names, self.sides, strict=True):
            frames.append(pd.DataFrame(list(side))[["user", "system"]].add_prefix(name))
        table = pd.concat(frames, axis=1)
        marks = ["shift" if turn["shift"] else "" for turn in self.sides[0]]
        return table.assign(turn=pd.Series(marks).reindex(table.index, fill_value=""))


class AskConfig(Settings):
    """The effective settings of a page of questions, checked."""

    run: Annotated[RunName, Field(description="an evaluated run")] = "demo"
    n: Annotated[int, Field(ge=1, le=5000, description="questions; of CoSRec: conversations")] = 60
    kind: Annotated[Kind, Field(description="one conversation or two; of CoSRec: what is asked")] = "single"
    seed: Annotated[Seed, Field(description="of the draw and the order of questions")] = 0
    source: Annotated[str, Field(description="CoSRec's corpus: sample, cosrec, or a folder")] = "sample"
    partition: Annotated[str, Field(description="of CoSRec's corpus")] = "curated"
    depth: Annotated[int, Field(ge=1, description="relevance: documents of each run in the pool")] = 10


class _ShiftSeen(NamedTuple):
    """A shift of preferences that a question is about: the systems that met it, the session, its turn."""

    systems: tuple[str, ...]
    session: str
    shift: int


def sample(config: AskConfig) -> list[Question]:
    """Questions about the turns around shifts of an evaluated run, in the order of the page.

    Systems take turns, and every scenario comes once before any comes twice.

    Raises
    ------
    InputError
        For a run with fewer questions than asked for, and for pairs of a run with one system.
    """
    talks = {(talk.model_name, talk.session_id): talk for talk in simulate.iter_dialogues(config.run)}
    systems = list(dict.fromkeys(model for model, _ in talks))
    if config.kind == "pairs" and len(systems) < 2:
        message = f"run {config.run!r} has one system; pairs need two, or ask with --kind single"
        raise InputError(message)
    groups = list(combinations(systems, 1 if config.kind == "single" else 2))
    draw = rng.stream(config.seed, "annotate", config.run, config.kind)
    shifts = []
    for seen in _shifts_seen(config.run, groups, draw):
        if all((model, seen.session) in talks for model in seen.systems):
            shifts.append(seen)
    if len(shifts) < config.n:
        few = f"run {config.run!r} has {len(shifts)} questions of the kind {config.kind}"
        raise InputError(f"{few}, asked for {config.n}; simulate more")
    questions = []
    for seen in shifts[: config.n]:
        order = draw.permutation(len(seen.systems))
        sides = [talks[seen.systems[side], seen.session] for side in order]
        questions.append(_question(config, sides, seen))
    return [questions[number] for number in draw.permutation(config.n)]


def _shifts_seen(run: str, groups: Sequence[tuple[str, ...]], draw: np.random.Generator) -> list[_ShiftSeen]:
    """What may be asked, systems by turns; every scenario comes once before any comes twice."""
    table = evaluate.read(run, "shifts")[["session_id", "turn"]].drop_duplicates()
    shifts = list(zip(table["session_id"].astype(str), table["turn"].tolist(), strict=True))
    draw.shuffle(shifts)
    seen = []
    for step in range(len(groups)):
        for number, (session, turn) in enumerate(shifts):
            group = groups[(number + step) % len(groups)]
            seen.append(_ShiftSeen(group, session, turn))
    return seen


def _question(config: AskConfig, talks: Sequence[Dialogue], seen: _ShiftSeen) -> Question:
    """The question about a shift in the conversations of one or two systems with the same user."""
    systems = tuple(talk.model_name for talk in talks)
    identity = json.dumps([config.run, config.seed, systems, seen.session, seen.shift])
    pairs = talks[0].pairs()
    first = _first_turn(talks, seen.shift)
    last = seen.shift - 1 + AFTER
    change = _change_at(talks[0], seen.shift)
    return Question(
        id=hashlib.sha256(identity.encode()).hexdigest()[:12],
        earlier=tuple(pair.user.text for pair in pairs[:first]),
        sides=tuple(_side(talk, first, last, seen.shift, change) for talk in talks),
        systems=systems,
        session_id=seen.session,
        shift=seen.shift,
        turns=tuple(range(seen.shift, min(last, len(pairs)) + 1)),
    )


def _first_turn(talks: Sequence[Dialogue], shift: int) -> int:
    """The index of the first turn that is shown: ``BEFORE`` turns before a shift, or later, so that no page
    opens with a reply without films.
    """
    first = max(0, shift - 1 - BEFORE)
    while first < shift - 1:
        if all(talk.pairs()[first].system.meta.get("rec_ids") for talk in talks):
            break
        first += 1
    return first


def _side(talk: Dialogue, first: int, last: int, shift: int, change: str) -> tuple[dict[str, str], ...]:
    """The turns of a conversation as the page shows them; the turn of the shift says what changes."""
    turns = []
    for pair in talk.pairs()[first:last]:
        mark = change if pair.turn == shift else ""
        turns.append({"user": pair.user.text, "system": pair.system.text, "shift": mark})
    return tuple(turns)


def _change_at(talk: Dialogue, shift: int) -> str:
    """What changes at a shift, in words: "now wants genre Action; no longer asks for genre Horror"."""
    event: Mapping[str, Any] = {}
    for logged in reversed(talk.shift_events):
        if logged.get("turn") == shift:
            event = logged
    avoid = event.get("avoid") or {}
    left = {}
    ruled_out = {}
    for name, value in (event.get("dropped") or {}).items():
        if avoid.get(name) == value:
            ruled_out[name] = value
        else:
            left[name] = value
    clauses = []
    parts = {"now wants": event.get("added") or {}, "no longer asks for": left, "rules out": ruled_out}
    for words, values in parts.items():
        if values:
            clauses.append(f"{words} {', '.join(map(' '.join, values.items()))}")
    return "; ".join(clauses) or "changes the request"


def digest(questions: Iterable[Question]) -> str:
    """The hash that tells one set of questions from another, for the labels of a page."""
    ids = sorted(question.id for question in questions)
    return hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]


def folder(run: str) -> Path:
    """The folder of a run's page, key and labels."""
    return paths.run_folder(simulate.STUDY, run) / FOLDER


def write_key(run: str, kind: str, questions: Sequence[Question]) -> None:
    """Write what the page must not hold: which systems a question shows; keys of other pages stay."""
    entries = []
    for question in questions:
        fields = asdict(question)
        entries.append({name: value for name, value in fields.items() if name not in _ON_THE_PAGE})
    page = digest(questions)
    for path in (_key_of(run, page), folder(run) / KEY):
        tables.write_json(path, {"kind": kind, "page": page, "questions": entries})


def _key_of(run: str, page: str) -> Path:
    """The key of one page; that of a run's last page has the name :data:`KEY` too."""
    return folder(run) / f"key-{paths.slug(page)}.json"


class PageKey(NamedTuple):
    """The key of a run's page: the kind of question, the digest of the page, and a row a question."""

    kind: str
    page: str
    questions: pd.DataFrame


@safety.reader("the key of a page")
def read_key(run: str, page: str = "") -> PageKey:
    """The key of a run's page, by default of the last one; RunError with the command that makes one."""
    path = folder(run) / KEY
    if page and _key_of(run, page).is_file():
        path = _key_of(run, page)
    if not path.is_file():
        raise RunError(f"run {run!r} has no page; make it: python -m crs_lib validity annotate --run {run}")
    content = safety.read_object(path)
    return PageKey(content["kind"], content["page"], pd.DataFrame(content["questions"]))


def _metric_values(run: str, key: PageKey) -> pd.DataFrame:
    """One row per question: the mean of every turn metric over its turns; for pairs right side less left."""
    turns = evaluate.read(run, "turns")
    names = []
    for name, column in turns.select_dtypes(["number", "boolean"]).items():
        if name in base.METRICS and column.notna().any():
            names.append(name)
    values = turns.set_index(["model", "session_id", "turn"])[names].astype(float).sort_index()
    rows = []
    for question in key.questions.itertuples(index=False):
        means = []
        for model in question.systems:
            turns = [(model, question.session_id, turn) for turn in question.turns]
            means.append(values.loc[values.index.isin(turns)].mean())
        value = means[0] if key.kind == "single" else means[1] - means[0]
        rows.append({"item": question.id, "session_id": question.session_id, **value.to_dict()})
    return pd.DataFrame(rows)


def balance(run: str) -> pd.DataFrame:
    """How often each system is asked about on a run's page."""
    counts = read_key(run).questions["systems"].explode().value_counts(sort=False).sort_index()
    return counts.rename_axis("system").rename("questions").reset_index()


class Findings(NamedTuple):
    """Labels, the agreement of raters, power by number of questions, and metrics against labels."""

    labels: pd.DataFrame
    agreement: pd.DataFrame
    power: pd.DataFrame
    correlations: pd.DataFrame

    @property
    def scripted(self) -> bool:
        """Whether all raters are programs, whose labels say nothing about people."""
        return bool(self.labels["rater"].astype(str).str.startswith(SCRIPTED).all())

    @property
    def who(self) -> str:
        """The raters in words: "3 scripted raters"."""
        number = self.labels["rater"].nunique()
        return f"{number} scripted raters" if self.scripted else f"{number} raters"


@safety.reader("labels")
def read(files: Iterable[str | Path], run: str) -> tuple[pd.DataFrame, PageKey]:
    """The labels of exported files and the key of their page.

    Returns
    -------
    labels : pandas.DataFrame
        ``item``, ``rater``, ``value`` (1 to 5), ``seconds``; a rater's last label of an item counts.
    key : PageKey
        The key of the page that the labels belong to.

    Raises
    ------
    InputError
        Naming file and line for what is no label of this page.
    """
    labels = read_labels(files)
    key = read_key(run, labels[0][1].page)
    known_items = set(key.questions["id"])
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for where, label in labels:
        if label.page != key.page:
            other = f"{where}: the label belongs to page {label.page!r}, not to this run's {key.page!r}"
            raise InputError(f"{other}; import it with the run that its page was made of, one page at a time")
        if label.item not in known_items:
            raise InputError(f"{where}: no question {label.item!r} on this page")
        rows[label.rater, label.item] = label.model_dump(exclude={"words"})
    frame = pd.DataFrame(rows.values())
    return frame.assign(seconds=pd.to_numeric(frame["seconds"], errors="coerce")), key


def findings(run: str, files: Iterable[str | Path], *, resamples: int = 400) -> Findings:
    """Read labels of a run's page and hold them against one another and against every metric of the run.

    Parameters
    ----------
    run : str
        An evaluated run with a page.
    files : iterable of paths
        What the page exported, JSON lines.
    resamples : int
        Draws for intervals.
    """
    labels, key = read(files, run)
    raters = _rater_agreement(labels, resamples)
    alpha = float(raters.loc[0, "alpha"]) if len(raters) else math.nan
    n_items = int(labels["item"].nunique())
    reliable = reliability(alpha, len(labels) / n_items)
    power = correlation_power(sorted({*_PLANS, n_items}), reliable)
    return Findings(labels, raters, power, _metric_correlations(labels, _metric_values(run, key), resamples))


def write(run: str, results: Findings) -> Path:
    """Write the findings as four tables into the run's folder of annotation; returns it."""
    for name, frame in results._asdict().items():
        tables.write_csv(folder(run) / f"{name}.csv", frame)
    return folder(run)


def _rater_agreement(labels: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Krippendorff's alpha (ordinal) with its interval, and one rater against the others; one row, if any."""
    columns = ["n_raters", "n_items", "alpha", "low", "high"]
    pairs = agreement.one_against_rest(labels)
    if pairs.empty:
        return pd.DataFrame(columns=[*columns, "one_against_rest"])
    alpha = stats.krippendorff_alpha(pairs, stats.Design("rater", "item", resamples=resamples))
    return alpha[columns].assign(one_against_rest=spearman(pairs["value"], pairs["rest"]))


def _metric_correlations(labels: pd.DataFrame, values: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Spearman of each metric with the mean label (pairs: of differences), 95 % intervals over scenarios."""
    mean = labels.groupby("item")["value"].mean().rename("label").reset_index()
    both = mean.merge(values, on="item").rename(columns={"session_id": "conv_id"}).assign(system="")
    rows = []
    for name in values.columns.drop(["item", "session_id"]):
        rows.append({"metric": name, **asdict(agreement.rho(both, name, "label", resamples=resamples))})
    table = pd.DataFrame(rows, columns=["metric", "n", "spearman", "low", "high"]).dropna(subset="spearman")
    return table.sort_values("spearman", ascending=False, ignore_index=True)


def scripted_labels(run: str, n_raters: int = 3, *, noise: float = 0.7) -> Iterator[dict[str, Any]]:
    """Labels that programs give, for a demonstration.

    They are the gain of the turns asked about on a scale of 1 to 5, with ``noise`` steps of each rater's own,
    and say nothing about any metric: they are made of one.
    """
    key = read_key(run)
    gain = _metric_values(run, key).set_index("item")["normalised_gain"].fillna(0.0)
    middle = gain.clip(0, 1) * 4 + 1
    if key.kind != "single":
        middle = gain.clip(-1, 1) * 2 + 3
    for number in range(1, n_raters + 1):
        draw = rng.stream(0, "scripted raters", run, number)
        for item, value in middle.items():
            label = round(value + noise * draw.standard_normal())
            yield {
                "item": str(item),
                "rater": f"{SCRIPTED}-{number}",
                "value": int(np.clip(label, 1, 5)),
                "page": key.page,
                "seconds": 0,
            }


def files(pattern: str, run: str, n_raters: int = 3) -> list[Path]:
    """Exported files that a pattern names (InputError for none); without one, those of scripted raters."""
    path = Path(pattern).expanduser()
    if not pattern:
        path = folder(run) / f"labels-{SCRIPTED}.jsonl"
        tables.write_jsonl(path, scripted_labels(run, n_raters))
    matching = sorted(path.parent.glob(path.name))
    if not matching:
        raise InputError(f"no file {pattern!r}; export labels with the page's button or the key E")
    return matching
