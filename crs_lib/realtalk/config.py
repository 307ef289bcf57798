"""The settings of a RealTalk run, checked before anything starts."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

from crs_lib.core.config import Config, Field, OneOf, RunName, Seed
from crs_lib.realtalk import corpus, index, query, readings, select, training

STUDY = "realtalk"
SAMPLE = "sample"
SPLITS = (corpus.TRAIN, corpus.TEST, "all")


def _encoders() -> list[str]:
    return ["auto", *index.encoders()]


@dataclass(frozen=True)
class RealTalkConfig(Config):
    """The effective settings of a run, checked."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/realtalk")] = "smoke"
    data: Annotated[str, Field(description="sample, realtalk, locomo, or a chat file or folder")] = SAMPLE
    split: Annotated[
        str, OneOf(SPLITS), Field(description="train (chats 1 to 7), test (8 to 10) or all of RealTalk")
    ] = "all"
    encoder: Annotated[str, OneOf(_encoders), Field(description="what turns texts into vectors")] = "hashing"
    ranker: Annotated[
        str,
        OneOf(("auto", "hand", "learned")),
        Field(description="hand learns nothing, learned needs train chats, auto learns where they are"),
    ] = "hand"
    teachers: Annotated[
        str, OneOf(training.TEACHERS), Field(description="chats that a learned ranker learns from")
    ] = training.OWN
    selection: select.Selection = "coverage"
    mode: query.Mode = "agent"
    engine: query.Engine = "auto"
    share: query.Share = 0.25
    keep: query.Keep = 40
    single: select.Single = 1.0
    listed: select.Listed = 2.0
    most: select.Most = 9
    narrative: select.Narrative = 30
    reading: Annotated[
        str, OneOf(readings.READINGS), Field(description="which evidence ids count as gold")
    ] = readings.VALID
    llm: Annotated[str, Field(description="a language model's spec, e.g. local:smollm2; empty for none")] = ""
    forms: Annotated[
        str,
        Field(
            description="nodes by form, e.g. planner=model,selector=rule; auto: with llm the model plans, "
            "selects and answers"
        ),
    ] = "auto"
    view: Annotated[
        str, OneOf(("windowed", "preview")), Field(description="how much of a segment a model selects from")
    ] = "windowed"
    segments: Annotated[
        int, Field(ge=1, le=40, description="the best segments that a model selects from; fewer are faster")
    ] = 8
    questions: Annotated[int, Field(ge=0, description="the first n questions of each chat; 0 for all")] = 0
    arc_cases: Annotated[str, Field(description="a file of own ARC cases; empty: derived from evidence")] = ""
    final: Annotated[bool, Field(description="score the test split, once")] = False
    force: Annotated[bool, Field(description="score the test split again; marked as repeated")] = False
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 0

    def settings(self) -> query.PipelineSettings:
        """The pipeline's levers."""
        bounds = select.Bounds(self.single, self.listed, self.most, self.narrative)
        forms = query.node_forms(self.forms, bool(self.llm))
        return query.PipelineSettings(
            share=self.share,
            keep=self.keep,
            mode=self.mode,
            engine=self.engine,
            selection=self.selection,
            bounds=bounds,
            forms=forms,
        )

    def levers(self) -> dict[str, Any]:
        """What can change a prediction or its score: everything but the run's name and the permissions."""
        free = ("run", "split", "final", "force", "engine")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in free}
