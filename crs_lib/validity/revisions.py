"""Do people rate a reply to a change of mind as the instrument does?

The corpus of revisions (``data/samples/revisions.jsonl``: ids and labels) is joined with the rated sets;
uptake, release and misfit are computed from the words, chosen on one half of the talks, confirmed on the
other. Source: docs/revisions.md.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.errors import RunError, joined
from crs_lib.core.text import words
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.stats.effects import spearman
from crs_lib.stats.mixed import mixed_slopes
from crs_lib.validity import agreement, heard, rated
from crs_lib.validity.rated import INTEREST, RELEVANCE, SATISFACTION

KINDS = ("refine", "exclude", "relax", "return", "replace", "switch")
NEXT = "satisfaction_next"  # the rating of what the person says after a reply (USS)
RATINGS = {"crsarena": (RELEVANCE, INTEREST), "abredial": (RELEVANCE, INTEREST), "uss": (NEXT,)}
HALVES = ("development", "confirmation")
OURS = ("uptake", "release", "misfit")
PLAIN = ("n_films", "n_words", "turn")
GAIN = "normalised_gain"
LABELLED = "uptake, readers' labels"
MEASURES = (*OURS, LABELLED, GAIN, *PLAIN)
REVISION, FIRST = "revision", "first request"
# How uptake is read where the metric is undefined, because no change was heard at or shortly before the turn.
VARIANTS = ("uptake", "uptake, else gain", "uptake, else gain, else 0")
_ALL = "all sets"


@dataclass(frozen=True)
class Label:
    """What readers say of a user turn (from 1): the kind of revision, and of each earlier concept."""

    turn: int
    kind: str | None
    wishes: Mapping[str, Sequence[str]]

    @property
    def revises(self) -> bool:
        """Whether two readers of three take the turn for a revision."""
        return self.kind in KINDS

    def correction(self, grounder: Grounder) -> heard.Correction:
        """The earlier concepts that two readers of three say are kept and dropped."""
        return heard.Correction(self._codes("k", grounder), self._codes("d", grounder))

    def _codes(self, mark: str, grounder: Grounder) -> frozenset[int]:
        codes = set()
        for concept, marks in self.wishes.items():
            code = grounder.catalog.code(*concept.split("=", 1))
            if list(marks).count(mark) > 1 and code is not None:
                codes.add(code)
        return frozenset(codes)


class _Labelled(NamedTuple):
    """A conversation and its labels by turn."""

    dialogue: Dialogue
    labels: Mapping[int, Label]


class Study(NamedTuple):
    """The tables of the study.

    ``choice``: variants of uptake on the development half; ``agreement``: Spearman of every measure with
    every rating by half, and uptake's lead (``diff``); ``model``: uptake, release and misfit in mixed models;
    ``systems``: ratings and gain at first requests and at revisions.
    """

    choice: pd.DataFrame
    agreement: pd.DataFrame
    model: pd.DataFrame
    systems: pd.DataFrame


def corpus() -> pd.DataFrame:
    """The corpus, a row a turn that a reader took for a revision or for the rejection of a film."""
    return pd.DataFrame(tables.read_jsonl(paths.samples() / "revisions.jsonl"))


def _labelled(dataset: str) -> Iterator[_Labelled]:
    """Every conversation of a rated set that the corpus speaks of, with what it says.

    Raises RunError where the data set is not here, InputError where it has no conversation of the corpus.
    """
    rows = corpus().query("dataset == @dataset")
    by_conversation = dict(iter(rows.groupby("conversation")))
    strangers = set(by_conversation)
    for dialogue in rated.conversations(dataset):
        if dialogue.session_id in by_conversation:
            strangers.discard(dialogue.session_id)
            yield _Labelled(dialogue, _labels(dialogue, by_conversation[dialogue.session_id]))
    matched = len(by_conversation) - len(strangers)
    joined(f"labelled conversations in data set {dataset!r}", matched, sorted(strangers), ())


def _labels(dialogue: Dialogue, rows: pd.DataFrame) -> dict[int, Label]:
    """The labels of a conversation's turns; of a turn with several a revision counts."""
    turn_of = {}
    for pair in dialogue.pairs():
        for part in rated.parts(pair.user):
            turn_of[part.get("turn_ind")] = pair.turn
    labels: dict[int, Label] = {}
    for row in rows.itertuples(index=False):
        if row.turn not in turn_of:
            continue
        label = Label(turn_of[row.turn], row.kind, row.wishes)
        if label.revises or not (label.turn in labels and labels[label.turn].revises):
            labels[label.turn] = label
    return labels


def replies(grounder: Grounder) -> pd.DataFrame:
    """One row per reply of the rated sets: ratings, measures, and its role.

    The ``role`` is "revision" (two readers of three), "first request" (the first for which a constraint is
    heard), or empty. ``misfit`` is 1 − gain where films are shown: people have no straight twin. Raises
    RunError where a data set is not here.
    """
    return pd.concat([_replies(name, grounder) for name in RATINGS], ignore_index=True)


def _replies(dataset: str, grounder: Grounder) -> pd.DataFrame:
    """The rows of one data set."""
    talks = list(_labelled(dataset))
    plain = [heard.logged(talk.dialogue, grounder) for talk in talks]
    corrected = []
    for talk in talks:
        corrections = {}
        for turn, label in talk.labels.items():
            if label.revises:
                corrections[turn] = label.correction(grounder)
        corrected.append(heard.logged(talk.dialogue, grounder, corrections))
    convention = conventions.get("default")
    rows: list[dict[str, Any]] = []
    scores = score_all(plain, grounder, convention)
    scores_corrected = score_all(corrected, grounder, convention)
    for talk, log, plain_scores, other in zip(talks, plain, scores, scores_corrected, strict=True):
        rows += _rows(talk, log, plain_scores.turns, other.turns)
    return _with_measures(pd.DataFrame(rows).assign(dataset=dataset))


def _rows(
    talk: _Labelled, log: Dialogue, turns: Sequence[Mapping[str, Any]], corrected: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of a conversation's replies; ``corrected`` are the scores by the readers' labels."""
    first = 0
    rows = []
    for pair, metrics, by_labels in zip(log.pairs(), turns, corrected, strict=True):
        role = ""
        if not first and pair.user.user_meta["constraints"]:
            first = pair.turn
            role = FIRST
        if pair.turn in talk.labels and talk.labels[pair.turn].revises:
            role = REVISION
        row = {"conv_id": log.session_id, "system": log.model_name, "turn": pair.turn, "role": role}
        row |= _ratings(talk.dialogue, pair)
        row |= {"n_films": len(pair.system.meta["rec_ids"]), "n_words": len(words(pair.system.text))}
        row |= {name: metrics[name] for name in (GAIN, "uptake", "release")}
        rows.append({**row, LABELLED: by_labels["uptake"]})
    return rows


def _ratings(dialogue: Dialogue, pair: Pair) -> dict[str, float]:
    """The ratings of a reply, NaN where there is none."""
    after = dialogue.turns[2 * pair.turn : 2 * pair.turn + 1]
    return {
        RELEVANCE: rated.rating([pair.system], RELEVANCE),
        INTEREST: rated.rating([pair.system], INTEREST),
        NEXT: rated.rating(after, SATISFACTION),
    }


def _with_measures(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with misfit, the half of their conversation, and the variants of uptake."""
    filled = frame["uptake"].fillna(frame[GAIN])
    return frame.assign(
        misfit=(1 - frame[GAIN]).where(frame["n_films"] > 0),
        half=[HALVES[rated.share_of(name, 2)] for name in frame["conv_id"]],
        **{VARIANTS[1]: filled, VARIANTS[2]: filled.fillna(0.0)},
    )


def _one_rating(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with one rating each: the relevance, in USS the satisfaction of the next user turn."""
    return frame.assign(rating=frame[RELEVANCE].where(frame[RELEVANCE].notna(), frame[NEXT]))


def _pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """The rated rows of all sets; ratings and measures are ranks within their data set, in [0, 1]."""
    rows = _one_rating(frame).dropna(subset="rating")
    names = ["rating", *MEASURES, *VARIANTS[1:]]
    ranks = rows.groupby("dataset")[names].rank(pct=True)
    return rows.assign(**{name: ranks[name] for name in names})


def _by_rating(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rated replies of each set and rating, then those of all sets together."""
    for dataset, names in RATINGS.items():
        rows = frame[frame["dataset"] == dataset]
        for name in names:
            yield f"{dataset}: {name}", rows.assign(rating=rows[name]).dropna(subset="rating")
    yield _ALL, _pooled(frame)


def study(frame: pd.DataFrame, *, resamples: int = 1000) -> Study:
    """All tables of the study from the rows of :func:`replies`."""
    revised = frame[frame["role"] == REVISION]
    choice = _variants_of_uptake(revised)
    chosen = choice.loc[choice["chosen"], "variant"].iloc[0]
    revised = revised.assign(uptake=revised[chosen])
    rows = []
    for half in (*HALVES, "both"):
        part = revised if half == "both" else revised[revised["half"] == half]
        for rating, replies_rated in _by_rating(part):
            for measure in MEASURES:
                row = {"half": half, "rating": rating, "measure": measure}
                row |= asdict(agreement.rho(replies_rated, measure, "rating", resamples=resamples))
                row |= asdict(agreement.lead(replies_rated, "uptake", measure, "rating", resamples=resamples))
                rows.append(row)
    models = pd.concat([_model(revised, name) for name in OURS], ignore_index=True)
    return Study(choice, pd.DataFrame(rows), models, _systems(frame))


def _variants_of_uptake(revised: pd.DataFrame) -> pd.DataFrame:
    """How each variant of uptake follows the ratings of the development half; the best one is chosen."""
    pooled = _pooled(revised[revised["half"] == HALVES[0]])
    rows = []
    for variant in VARIANTS:
        values = pooled[variant]
        rho = spearman(values.fillna(0.5), pooled["rating"])
        rows.append(
            {"variant": variant, "n": len(pooled), "coverage": values.notna().mean(), "spearman": rho}
        )
    choice = pd.DataFrame(rows)
    return choice.assign(chosen=choice["spearman"] == choice["spearman"].max())


def _model(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Rating ~ measure + films + length + turn + system + (1 | conversation), standardised by data set."""
    names = [measure, *PLAIN]
    columns = ["rating", *names]
    rows = _one_rating(frame).dropna(subset=["rating", measure], ignore_index=True)
    by_dataset = rows.groupby("dataset")[columns]
    spread = by_dataset.transform("std").replace(0, math.nan)
    scaled = (rows[columns] - by_dataset.transform("mean")) / spread
    rows = rows.assign(**scaled.fillna(0.0), group=rows["dataset"] + " " + rows["system"])
    slopes = mixed_slopes(rows, names, stats.Design("group", "conv_id", "rating"))
    return slopes.assign(model=measure)[["model", "term", "slope", "low", "high", "n"]]


def _systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per system: how far rating and gain fall from first requests to revisions.

    Over conversations that have both, with 95 % intervals. The rating is that of relevance, in USS of the
    next user turn.
    """
    rows = []
    with_role = _one_rating(frame[frame["role"] != ""])
    for (dataset, system), part in with_role.groupby(["dataset", "system"], sort=False):
        name = system if dataset == "crsarena" else f"people ({dataset})"
        row = {
            "system": name,
            **_fall_at_revision(part, "rating", "rating"),
            **_fall_at_revision(part, GAIN, "gain"),
        }
        revised = part[(part["role"] == REVISION) & part["rating"].notna()]
        means = revised[["rating", "uptake", "release"]].mean()
        rows.append({**row, "n": len(revised), **means.to_dict()})
    return pd.DataFrame(rows)


def _fall_at_revision(part: pd.DataFrame, column: str, name: str) -> dict[str, float]:
    """The mean of a column at first requests less that at revisions, with its interval."""
    design = stats.Design("role", "conv_id", column, [(FIRST, REVISION)])
    row = stats.cluster_bootstrap_differences(part.dropna(subset=column), design).iloc[0]
    return {f"{name}_diff": row["diff"], f"{name}_diff_low": row["low"], f"{name}_diff_high": row["high"]}


def read(config: stats.Design, live: bool = False) -> tuple[Study, str]:
    """The tables of the study, and a sentence that says where they come from.

    Parameters
    ----------
    config : stats.Design
        Its ``resamples`` are the draws of conversations for an interval.
    live : bool
        Compute the tables from the data sets where these are here; else the committed ones are read.
    """
    source = "The data sets are not read; these are the committed tables (docs/revisions.md)."
    if live:
        try:
            grounder = Grounder(sources.load(datasets.locate("redial-movies")))
            return study(replies(grounder), resamples=config.resamples), "Computed from the data sets."
        except RunError as error:
            source = f"Not computed: {error}. These are the committed tables (docs/revisions.md)."
    return committed(), source


def committed() -> Study:
    """The tables as they are committed; they hold statistics, no row of a data set."""
    frames = {}
    for row in tables.read_jsonl(paths.samples() / "revisions_study.jsonl"):
        frames[row["table"]] = pd.DataFrame(row["data"], columns=row["columns"])
    return Study(**frames)


def write(study_tables: Study, path: Path) -> None:
    """Write the tables in the form that is committed, a line each."""
    lines = []
    for name, frame in study_tables._asdict().items():
        lines.append({"table": name, **frame.round(6).to_dict("split", index=False)})
    tables.write_jsonl(path, lines)
