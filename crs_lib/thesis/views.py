"""What the scorers of the thesis make of a catalogue, for the figures of a run's design."""

import textwrap

import pandas as pd

from crs_lib import simulate
from crs_lib.core import paths
from crs_lib.report.figure_tables import VIEWS, ScoredView
from crs_lib.thesis.catalog import CONCEPT_FIELDS, ThesisCatalog, listed

_WIDTH = 22  # characters of a line in a box


def thesis_catalog(run: str) -> ThesisCatalog:
    """The run's catalogue as the thesis read it."""
    folder = paths.run_folder(simulate.STUDY, run)
    raw = folder / simulate.RAW_CATALOG
    return ThesisCatalog.load(raw if raw.is_file() else folder / "catalog.parquet")


class ThesisView(ScoredView):
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
                raw = {value for _, record in films.records for value in listed(record.get(name))}
                merged = len(raw) - len(values)
            rows.append((name, len(covered) / len(films), len(values), merged))
        uses = frame.set_index("field")[["constraint", "shift", "question"]]
        table = pd.DataFrame(rows, columns=["field", "coverage", "values", "changed"])
        table = table.join(uses, on="field").fillna(dict.fromkeys(uses, False))
        return table.assign(topic=table["field"].isin(self.concepts()), n_films=len(films))

    def concepts(self) -> tuple[str, ...]:
        """The fields whose values are concepts that texts are scored on."""
        return ()

    def cleaning(self, frame: pd.DataFrame) -> list[str]:
        """The cleaning of the thesis."""
        return list(self.words["cleaned"])


@VIEWS.register("grounded")
class GroundedView(ThesisView):
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
class LegacyView(ThesisView):
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
        model = str(self.scored["embedder"]).partition(";")[0].removeprefix("topics: ")
        trained = str(self.scored["topics"]).startswith("lda")
        of = "on the plots" if trained else "none: topics by words"
        return ["LDA training", of, *textwrap.wrap(model, _WIDTH), *self.words["use"]["legacy"]]
