"""The settings of a RealTalk run, checked before anything starts."""

from dataclasses import dataclass, fields
from typing import Any

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.realtalk import (
    corpus,
    index,
    query,
    readings,
    select,
    training,
)

STUDY = "realtalk"
SAMPLE = "sample"
SPLITS = (corpus.TRAIN, corpus.TEST, "all")


@dataclass(frozen=True)
class RealTalkConfig:
    """The effective settings of a run, checked.

    ``data`` is ``sample``, ``realtalk``, ``locomo``, or a chat file or folder; ``split`` narrows
    RealTalk's chats. ``final`` must be true to score the test split, ``force`` to score it again.
    Raises InputError naming the setting, what was given and what is expected.
    """

    run: str = "smoke"
    data: str = SAMPLE
    split: str = "all"
    encoder: str = "hashing"
    ranker: str = "hand"
    teachers: str = training.OWN
    selection: str = select.COVERAGE
    mode: str = "agent"
    engine: str = "auto"
    share: float = 0.25
    keep: int = 40
    single: float = 1.5
    listed: float = 2.25
    most: int = 9
    narrative: int = 30
    reading: str = readings.VALID
    llm: str = ""
    final: bool = False
    force: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        paths.run_folder(STUDY, self.run)
        choices = {
            "split": SPLITS,
            "reading": readings.READINGS,
            "ranker": ("auto", "hand", "learned"),
            "teachers": training.TEACHERS,
            "encoder": ("auto", *index.encoders()),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} {getattr(self, name)!r} is not known; expected {', '.join(known)}")
        self.settings()

    def settings(self) -> query.Settings:
        """The pipeline's levers."""
        bounds = select.Bounds(self.single, self.listed, self.most, self.narrative)
        levers = {"share": self.share, "keep": self.keep, "mode": self.mode, "engine": self.engine}
        return query.Settings(**levers, selection=self.selection, bounds=bounds)  # type: ignore[arg-type]

    def levers(self) -> dict[str, Any]:
        """What can change a prediction or its score: everything but the run's name and the permissions."""
        free = ("run", "split", "final", "force", "engine")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in free}
