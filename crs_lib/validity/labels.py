"""Questions to people about a run, and the labels that they give. A question shows a stretch of one system's
conversation around a shift, or of two systems' with the same user, blinded and in random order, and asks how
well the assistant followed. The page names no system; the key that does lies in the run's folder. Labels are
read, checked, and held against one another and the metrics. Source: docs/validity.md, section 6.
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
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, RunName, Seed, Settings
from crs_lib.metrics import base
from crs_lib.stats.effects import spearman
from crs_lib.stats.labels import read_labels
from crs_lib.stats.power import correlation_power, reliability
from crs_lib.validity import agreement

BEFORE, AFTER = 2, 3  # turns shown before a shift, and from the shift on
Kind = Literal["single", "pairs", "relevance", "intents", "quality"]
KEY, FOLDER = "key.json", "annotation"
SCRIPTED = "scripted"  # the prefix of raters that are programs


@dataclass(frozen=True)
class Question:
    """One question: its blinded id, what the page shows (``sides``, ``earlier`` words of the person), and
    what only the key holds: who speaks in each side, the shift's turn, and the ``turns`` whose metrics count.
    """

    id: str
    earlier: tuple[str, ...]
    sides: tuple[tuple[Mapping[str, Any], ...], ...]
    systems: tuple[str, ...]
    session_id: str
    shift: int
    turns: tuple[int, ...]

    @property
    def shown(self) -> pd.DataFrame:
        """The question as the page shows it, a row a turn; a second side in further columns."""
        sides = [pd.DataFrame(list(side))[["user", "system"]] for side in self.sides]
        names = [""] if len(sides) == 1 else ["left ", "right "]
        frame = pd.concat([side.add_prefix(name) for side, name in zip(sides, names, strict=True)], axis=1)
        marks = ["shift" if turn["shift"] else "" for turn in self.sides[0]]
        return frame.assign(turn=marks + [""] * (len(frame) - len(marks)))


class AskConfig(Settings):
    """The effective settings of a page of questions, checked."""

    run: Annotated[RunName, Field(description="an evaluated run")] = "demo"
    n: Annotated[int, Field(ge=1, le=5000, description="questions; of CoSRec: conversations")] = 60
    kind: Annotated[Kind, Field(description="one conversation or two; of CoSRec: what is asked")] = "single"
    seed: Annotated[Seed, Field(description="of the draw and the order of questions")] = 0
    source: Annotated[str, Field(description="CoSRec's corpus: sample, cosrec, or a folder")] = "sample"
    partition: Annotated[str, Field(description="of CoSRec's corpus")] = "curated"
    depth: Annotated[int, Field(ge=1, description="relevance: documents of each run in the pool")] = 10


def sample(config: AskConfig) -> list[Question]:
    """Questions about an evaluated run, balanced over systems and scenarios; InputError for a small run."""
    run, n, kind, seed = config.run, config.n, config.kind, config.seed
    places = evaluate.read(run, "shifts")[["session_id", "turn"]].drop_duplicates()
    order = [(str(session), int(turn)) for session, turn in places.itertuples(index=False, name=None)]
    talks = {(d.model_name, d.session_id): d for d in simulate.iter_dialogues(run)}
    groups = list(combinations(dict.fromkeys(model for model, _ in talks), 1 if kind == "single" else 2))
    if kind == "pairs" and not groups:
        raise InputError(f"run {run!r} has one system; pairs need two, or ask with --kind single")
    draw = rng.stream(seed, "annotate", run, kind)
    draw.shuffle(order)
    chosen = [  # every scenario comes once before any comes twice
        (groups[(place + turn_of) % len(groups)], session, shift)
        for turn_of in range(len(groups))
        for place, (session, shift) in enumerate(order)
    ]
    chosen = [one for one in chosen if all((model, one[1]) in talks for model in one[0])]
    if len(chosen) < n:
        few = f"run {run!r} has {len(chosen)} questions of the kind {kind}"
        raise InputError(f"{few}, asked for {n}; simulate more")
    found = []
    for systems, session, shift in chosen[:n]:
        sides = [talks[systems[i], session] for i in draw.permutation(len(systems))]
        found.append(_question(run, sides, session, shift, seed))
    return [found[i] for i in draw.permutation(n)]


def _question(run: str, talks: Sequence[Dialogue], session: str, shift: int, seed: int) -> Question:
    """The question about a shift in the conversations of one or two systems with the same user."""
    systems = tuple(dialogue.model_name for dialogue in talks)
    blinded = hashlib.sha256(json.dumps([run, seed, systems, session, shift]).encode()).hexdigest()[:12]
    said, first, last = talks[0].pairs(), max(0, shift - 1 - BEFORE), shift - 1 + AFTER
    told = _change(next((event for event in talks[0].shift_events if event.get("turn") == shift), {}))

    def shown(pair: Pair) -> dict[str, str]:
        change = told if pair.turn == shift else ""
        return {"user": pair.user.text, "system": pair.system.text, "shift": change}

    sides = tuple(tuple(map(shown, one.pairs()[first:last])) for one in talks)
    turns = tuple(range(shift, min(last, len(said)) + 1))
    return Question(blinded, tuple(p.user.text for p in said[:first]), sides, systems, session, shift, turns)


def _change(event: Mapping[str, Any]) -> str:
    """What changes at a shift, in words: "now wants genre Action; no longer asks for genre Horror"."""
    added, dropped, avoid = (event.get(name) or {} for name in ("added", "dropped", "avoid"))
    ruled_out = {name: value for name, value in dropped.items() if avoid.get(name) == value}
    left = {name: value for name, value in dropped.items() if name not in ruled_out}
    parts = {"now wants": added, "no longer asks for": left, "rules out": ruled_out}
    told = [f"{word} {', '.join(map(' '.join, pairs.items()))}" for word, pairs in parts.items() if pairs]
    return "; ".join(told) or "changes the request"


def digest(questions: Iterable[Question]) -> str:
    """The hash that tells one set of questions from another, for the labels of a page."""
    return hashlib.sha256(",".join(sorted(one.id for one in questions)).encode()).hexdigest()[:16]


def folder(run: str) -> Path:
    """The folder of a run's page, key and labels."""
    return paths.run_folder(simulate.STUDY, run) / FOLDER


def write_key(run: str, kind: str, questions: Sequence[Question]) -> None:
    """Write what the page must not hold: which systems a question shows; keys of other pages stay."""
    entries = [{k: v for k, v in asdict(q).items() if k not in ("sides", "earlier")} for q in questions]
    page = digest(questions)
    for place in (_key_of(run, page), folder(run) / KEY):
        tables.write_json(place, {"kind": kind, "page": page, "questions": entries})


def _key_of(run: str, page: str) -> Path:
    """The key of one page; that of a run's last page has the name :data:`KEY` too."""
    return folder(run) / f"key-{paths.slug(page)}.json"


class _PageKey(NamedTuple):
    """The key of a run's page: the kind of question, the digest of the page, and a row a question."""

    kind: str
    page: str
    questions: pd.DataFrame


@safety.reader("the key of a page")
def read_key(run: str, page: str = "") -> _PageKey:
    """The key of a run's page, by default of the last one; RunError with the command that makes one."""
    path = _key_of(run, page) if page and _key_of(run, page).is_file() else folder(run) / KEY
    if not path.is_file():
        raise RunError(f"run {run!r} has no page; make it: python -m crs_lib validity annotate --run {run}")
    made = safety.read_object(path)
    return _PageKey(made["kind"], made["page"], pd.DataFrame(made["questions"]))


def _metric_values(run: str, key: _PageKey) -> pd.DataFrame:
    """One row per question: the mean of every turn metric over its turns; for pairs right side less left."""
    turns = evaluate.read(run, "turns")
    numeric = turns.select_dtypes(["number", "boolean"])
    names = [name for name in numeric if name in base.METRICS and numeric[name].notna().any()]
    by = turns.set_index(["model", "session_id", "turn"])[names].astype(float).sort_index()
    rows = []
    for one in key.questions.itertuples(index=False):
        places = [[(model, one.session_id, turn) for turn in one.turns] for model in one.systems]
        means = [by.loc[[place for place in side if place in by.index]].mean() for side in places]
        value = means[0] if key.kind == "single" else means[1] - means[0]
        rows.append({"item": one.id, "session_id": one.session_id} | value.to_dict())
    return pd.DataFrame(rows)


def balance(run: str) -> pd.DataFrame:
    """How often each system is asked about on a run's page."""
    counts = read_key(run).questions["systems"].explode().value_counts(sort=False).sort_index()
    return counts.rename_axis("system").rename("questions").reset_index()


class _Findings(NamedTuple):
    """Labels, the agreement of raters, power by number of questions, and metrics against labels."""

    labels: pd.DataFrame
    agreement: pd.DataFrame
    power: pd.DataFrame
    correlations: pd.DataFrame

    @property
    def scripted(self) -> bool:
        """Whether all raters are programs, whose labels say nothing about people."""
        return all(name.startswith(SCRIPTED) for name in self.labels["rater"].astype(str))

    @property
    def who(self) -> str:
        """The raters in words: "3 scripted raters"."""
        return f"{self.labels['rater'].nunique()} {'scripted ' if self.scripted else ''}raters"


@safety.reader("labels")
def read(files: Iterable[str | Path], run: str) -> tuple[pd.DataFrame, _PageKey]:
    """The labels of exported files (item, rater, value 1 to 5, seconds; a rater's last one of an item) and
    the key of their page. Raises InputError naming file and line for what is no label of this page.
    """
    given = read_labels(files)
    key, rows = read_key(run, given[0][1].page), dict[tuple[str, str], dict[str, Any]]()
    known = set(key.questions["id"])
    for where, label in given:
        if label.page != key.page:
            other = f"{where}: the label belongs to page {label.page!r}, not to this run's {key.page!r}"
            raise InputError(f"{other}; import it with the run that its page was made of, one page at a time")
        if label.item not in known:
            raise InputError(f"{where}: no question {label.item!r} on this page")
        rows[label.rater, label.item] = label.model_dump(exclude={"words"})
    frame = pd.DataFrame(rows.values())
    return frame.assign(seconds=pd.to_numeric(frame["seconds"], errors="coerce")), key


def findings(run: str, files: Iterable[str | Path], *, resamples: int = 400) -> _Findings:
    """Read labels of a run's page and hold them against one another and against every metric of the run."""
    labels, key = read(files, run)
    found = _of_raters(labels, resamples)
    alpha = float(found.loc[0, "alpha"]) if len(found) else math.nan
    plan = sorted({30, 60, 120, 240, int(labels["item"].nunique())})
    correlated = _with_metrics(labels, _metric_values(run, key), resamples)
    reliable = reliability(alpha, len(labels) / labels["item"].nunique())
    return _Findings(labels, found, correlation_power(plan, reliable), correlated)


def write(run: str, found: _Findings) -> Path:
    """Write the findings as four tables into the run's folder; returns it."""
    for name, frame in found._asdict().items():
        tables.write_csv(folder(run) / f"{name}.csv", frame)
    return folder(run)


def _of_raters(labels: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Krippendorff's alpha (ordinal) with its interval, and one rater against the others; one row, if any."""
    columns, pairs = ["n_raters", "n_items", "alpha", "low", "high"], agreement.one_against_rest(labels)
    if pairs.empty:
        return pd.DataFrame(columns=[*columns, "one_against_rest"])
    found = stats.krippendorff_alpha(pairs, stats.Design("rater", "item", resamples=resamples))[columns]
    return found.assign(one_against_rest=spearman(pairs["value"], pairs["rest"]))


def _with_metrics(labels: pd.DataFrame, values: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Spearman of each metric with the mean label (pairs: of differences), 95 % intervals over scenarios."""
    mean = labels.groupby("item")["value"].mean().rename("label").reset_index()
    both = mean.merge(values, on="item").rename(columns={"session_id": "conv_id"}).assign(system="")
    names = [name for name in values if name not in ("item", "session_id")]
    rows = [{"metric": name} | agreement.rho(both, name, "label", resamples=resamples) for name in names]
    found = pd.DataFrame(rows, columns=["metric", "n", "spearman", "low", "high"]).dropna(subset="spearman")
    return found.sort_values("spearman", ascending=False, ignore_index=True)


def _scripted(run: str, n_raters: int = 3, *, noise: float = 0.7) -> Iterator[dict[str, Any]]:
    """Labels that programs give, for a demonstration: the gain of the turns asked about on a scale of 1 to 5,
    with ``noise`` steps of each rater's own. They say nothing about any metric: they are made of one.
    """
    key = read_key(run)
    gain = _metric_values(run, key).set_index("item")["normalised_gain"].fillna(0.0)
    middle = gain.clip(0, 1) * 4 + 1 if key.kind == "single" else gain.clip(-1, 1) * 2 + 3
    for number in range(1, n_raters + 1):
        draw = rng.stream(0, "scripted raters", run, number)
        for item, value in middle.items():
            label = int(np.clip(round(value + noise * draw.standard_normal()), 1, 5))
            told = {"item": str(item), "rater": f"{SCRIPTED}-{number}", "value": label}
            yield {**told, "page": key.page, "seconds": 0}


def files(pattern: str, run: str, n_raters: int = 3) -> list[Path]:
    """Exported files that a pattern names (InputError for none); without one, those of scripted raters."""
    given = Path(pattern).expanduser() if pattern else folder(run) / f"labels-{SCRIPTED}.jsonl"
    if not pattern:
        tables.write_jsonl(given, _scripted(run, n_raters))
    found = sorted(given.parent.glob(given.name))
    if not found:
        raise InputError(f"no file {pattern!r}; export labels with the page's button or the key E")
    return found
