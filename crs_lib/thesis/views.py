"""What the scorers of the thesis make of a catalogue, for the figures of a run's design; its own figures."""

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from crs_lib import simulate
from crs_lib.core import paths
from crs_lib.figures import base as frames
from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, figure
from crs_lib.figures.models import JUDGED
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report.figure_tables import VIEWS, ScoredView
from crs_lib.thesis.catalog import CONCEPT_FIELDS, ThesisCatalog, listed

_WIDTH = 22  # characters of a line in a box
# The thesis's figures by the names of their files, and ours that they are.
_FILES = {
    "fig_dataset_pipeline": "dataset_attributes",
    "metrics_correlation_heatmap": "correlation_heatmap",
}
_BARS = (
    "topic_recovery_rate",
    "avg_recovery_delay",
    "topic_interference",
    "cross_coherence",
    "context_retention",
    "context_adaptation_score",
    "topic_adaptation_score",
)


def thesis_catalog(run: str) -> ThesisCatalog:
    """The run's catalogue as the thesis read it."""
    folder = paths.run_folder(simulate.STUDY, run)
    raw = folder / simulate.RAW_CATALOG
    return ThesisCatalog.load(raw if raw.is_file() else folder / "catalog.parquet")


def _n_labels(films: ThesisCatalog, name: str) -> int:
    """How many distinct values of a field the raw records have."""
    labels: set[str] = set()
    for _, record in films.records:
        labels.update(listed(record.get(name)))
    return len(labels)


class _ThesisView(ScoredView):
    """The catalogue as the thesis indexed it, its concepts, and words of plots."""

    def n_films(self) -> int:
        """How many films its index holds."""
        return len(thesis_catalog(self.run))

    def fields(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The fields of the index, with the uses that the run's own catalogue gives them."""
        films = thesis_catalog(self.run)
        rows = []
        for name, values in {**films.index, "plot": films.plot_index}.items():
            covered = set[int]().union(*values.values())
            merged = 0
            if name != "plot":
                merged = _n_labels(films, name) - len(values)
            share = len(covered) / len(films)
            rows.append((name, share, len(values), merged))
        table = pd.DataFrame(rows, columns=["field", "coverage", "values", "changed"])
        uses = frame.set_index("field")[["constraint", "shift", "question"]]
        unused = dict.fromkeys(uses, False)
        table = table.join(uses, on="field").fillna(unused)
        is_topic = table["field"].isin(self.concepts())
        return table.assign(topic=is_topic, n_films=len(films))

    def concepts(self) -> tuple[str, ...]:
        """The fields whose values are concepts that texts are scored on."""
        return ()

    def cleaning(self, frame: pd.DataFrame) -> list[str]:
        """The cleaning of the thesis."""
        return list(self.words["cleaned"])


@VIEWS.register("grounded")
class _GroundedView(_ThesisView):
    """The scorer of grounded concepts."""

    def concepts(self) -> tuple[str, ...]:
        """Nine fields."""
        return tuple(CONCEPT_FIELDS)

    def grounding(self) -> list[str]:
        """Concepts, and the space of sentences."""
        return ["Concepts", f"of {len(CONCEPT_FIELDS)} fields, by {self.scored['extractor']}", *self.tools()]

    def use(self) -> list[str]:
        """What the catalogue is for."""
        return ["Use", *self.words["use"]["grounded"]]


@VIEWS.register("legacy")
class _LegacyView(_ThesisView):
    """The older scorer: topics and segments."""

    def grounding(self) -> list[str]:
        """The topic model, and where segments end."""
        low = self.scored.get("shift_similarity", 0.55)
        few = self.scored.get("shift_jaccard", 0.35)
        segments = [
            "segments end where texts",
            f"are less alike than {low:g}",
            f"or share topics below {few:g}",
        ]
        return ["Topic model, segmentation", *self.tools(), *segments]

    def use(self) -> list[str]:
        """The training of the topic model."""
        embedder = str(self.scored["embedder"])
        model = embedder.partition(";")[0].removeprefix("topics: ")
        training = "none: topics by words"
        if str(self.scored["topics"]).startswith("lda"):
            training = "on the plots"
        lines = textwrap.wrap(model, _WIDTH)
        return ["LDA training", training, *lines, *self.words["use"]["legacy"]]


@figure(title="Judges' scores", made_by=JUDGED)
def _llm_judge_radar(judge_means: pd.DataFrame) -> Any:
    """The thesis's Figure 5: a spoke per construct, a line per system, from the lowest level to the highest.

    Caption: Mean scores of judges by system on the scale of their levels (n = {n_sessions} sessions per
        system); a star marks a system that only its own family judged.
    Note: Mean over sessions, from the lowest level in the middle to the highest; *: judged by its own family
        alone; n = {n_sessions} sessions per system.
    """
    frames.require(judge_means, ["construct", "mean", "own_family"])
    wide = judge_means.pivot_table(index="model", columns="construct", values="mean", dropna=False)
    constructs = [construct for name, construct in CONSTRUCTS.items() if name in wide]
    spokes = [construct.name for construct in constructs]
    angles = np.linspace(0, 2 * np.pi, len(spokes) + 1)  # the last is the first
    own = judge_means["own_family"].astype(bool)
    own_family = set(judge_means.loc[own, "model"])
    drawing, axes = style.figure(3.6, subplot_kw={"projection": "polar"})
    panel = axes[0][0]
    order = frames.systems_of(judge_means)
    names = style.labels(order)
    for (name, look), label in zip(style.looks(order).items(), names, strict=True):
        means = wide.loc[name, [*spokes, spokes[0]]]
        star = " *" if name in own_family else ""
        panel.plot(angles, means, label=label + star, linestyle=look.line, **style.marked(look))
    lowest, highest = constructs[0].scale
    panel.set_theta_offset(np.pi / 2)
    panel.set_ylim(lowest, highest)
    panel.set_yticks(range(lowest, highest + 1))
    labels = [construct.label or construct.name for construct in constructs]
    panel.set_xticks(angles[:-1], labels)
    panel.tick_params(axis="x", pad=12)
    panel.set_xlabel("construct")
    panel.set_ylabel("mean score", labelpad=36)
    longest = max(map(len, names))
    columns = min(len(names), 4, int(100 / (longest + 10)))
    drawing.legend(loc="outside upper center", ncols=max(2, columns))
    return drawing


def _one_bar(metric: str) -> Callable[[pd.DataFrame], Any]:
    """The bars of one metric."""

    def draw(model_metrics: pd.DataFrame) -> Any:
        return FIGURES.get("metric_bars").make(model_metrics, metrics=[metric])

    return draw


def _register_old_names() -> None:
    """The figures under the names of the thesis's files; drawn where they are asked for by name."""
    for name, ours in _FILES.items():
        entry = FIGURES.get(ours)
        FIGURES.register(name, **_facts(ours))(entry.make)
    for metric in (*_BARS, *CONSTRUCTS):
        FIGURES.register(f"metric_{metric}_bar", **_facts("metric_bars"))(_one_bar(metric))


def _facts(name: str) -> dict[str, Any]:
    """The facts of a figure for another name of it, which lists leave out."""
    facts = {**FIGURES.get(name).facts, "hidden": True}
    del facts["place"]
    return facts


_register_old_names()
