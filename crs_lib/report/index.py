"""The index of a trace: the columns by which the list of sessions filters, searches and sorts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crs_lib.catalog.fields import FIELDS
from crs_lib.core import dialogue
from crs_lib.core.text import fold
from crs_lib.figures import layout, style
from crs_lib.metrics import base
from crs_lib.report.files import RunFiles, ScoredSession
from crs_lib.report.session import TITLE, number


class Index:
    """Grows session by session in the order of the data files; ``data`` is the input of the page."""

    def __init__(
        self,
        files: RunFiles,
        turn_metrics: Sequence[str],
        convention: str,
        page_size: int,
        fields: Iterable[str] = FIELDS,
    ) -> None:
        looks = style.looks(files.models)
        self._models = {name: place for place, name in enumerate(files.models)}
        self._types = {name: place for place, name in enumerate(files.types)}
        self._plots: dict[tuple[Any, ...], int] = {}
        self._head = {
            "run": files.run,
            "convention": convention,
            "page_size": page_size,
            "models": [{"name": name, "colour": looks[name].colour} for name in files.models],
            "types": files.types,
            "fields": {name: dialogue.tint_place(name) for name in (*fields, TITLE)},
            "turn_metrics": [described(name) for name in turn_metrics],
            "session_metrics": [described(name) for name in files.session_metrics()],
        }
        self._rows: dict[str, list[Any]] = {"model": [], "id": [], "plot": []}
        self._scores: dict[str, list[float | None]] = {name: [] for name in files.session_metrics()}

    def __len__(self) -> int:
        return len(self._rows["id"])

    def add(self, scored: ScoredSession) -> None:
        """One more session; the parts that all systems share (goal, shifts, words) are stored once."""
        dialogue = scored.dialogue
        kinds = tuple(self._types[str(e["type"])] for e in dialogue.shift_events if e.get("type"))
        words = {fold(str(value)) for e in dialogue.shift_events for value in _values(e)}
        plot = (dialogue.true_genre or "", kinds, " ".join(sorted(filter(None, words))))
        self._rows["model"].append(self._models[dialogue.model_name])
        self._rows["id"].append(dialogue.session_id)
        self._rows["plot"].append(self._plots.setdefault(plot, len(self._plots)))
        for name, column in self._scores.items():
            column.append(number(scored.session.get(name)))

    def data(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        return {**self._head, **self._rows, "plots": list(self._plots), "scores": self._scores}


def described(name: str) -> dict[str, Any]:
    """A metric as the page describes it: names, range, direction and source."""
    metric = base.get(name)
    return {
        "name": name, "short": metric.short, "low": number(metric.low), "high": number(metric.high),
        "direction": metric.direction, "source": metric.source, "headline": name in layout.HEADLINE,
    }  # fmt: skip


def _values(event: Mapping[str, Any]) -> list[Any]:
    """The searchable parts of a shift: constraints, values added and dropped, and the films in mind."""
    values = [v for key in ("wishes", "added", "dropped") for v in (event.get(key) or {}).values()]
    return [*values, *(event.get(key) or "" for key in ("from_anchor", "to_anchor", "bridge_value"))]
