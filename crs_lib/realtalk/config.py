"""The settings of a RealTalk run, checked before anything starts."""

from typing import Annotated, Any, Literal

from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.realtalk import corpus, index

STUDY = "realtalk"
SAMPLE = "sample"
SPLITS = (corpus.TRAIN, corpus.TEST, "all")
OWN, FOREIGN = "realtalk", "locomo"
STRANGERS = "strangers"  # RealTalk's train chats of other people
TEACHERS = (OWN, STRANGERS, f"{OWN}+{FOREIGN}", FOREIGN)


class RealTalkConfig(Settings):
    """The effective settings of a run, checked."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/realtalk")] = "smoke"
    data: Annotated[str, Field(description="sample, realtalk, locomo, or a chat file or folder")] = SAMPLE
    split: Annotated[
        str, OneOf(SPLITS), Field(description="train (chats 1 to 7), test (8 to 10) or all of RealTalk")
    ] = "all"
    encoder: Annotated[
        str, OneOf(("auto", *index.ENCODERS)), Field(description="what turns texts into vectors")
    ] = "hashing"
    ranker: Annotated[
        str,
        OneOf(("auto", "hand", "learned")),
        Field(description="hand learns nothing, learned needs train chats, auto learns where they are"),
    ] = "hand"
    teachers: Annotated[
        str,
        OneOf(TEACHERS),
        Field(description="chats that a learned ranker learns from; strangers: none with one of its people"),
    ] = OWN
    selection: Annotated[
        Literal["coverage", "preview"],
        Field(description="how the evidence is chosen: coverage, or the old preview"),
    ] = "coverage"
    mode: Annotated[
        Literal["agent", "oneshot"],
        Field(description="agent may search twice; oneshot (deprecated) ranks by the first stage"),
    ] = "agent"
    engine: Annotated[
        Literal["auto", "langgraph", "plain"],
        Field(description="what runs the nodes; the result is the same"),
    ] = "auto"
    share: Annotated[float, Field(gt=0, le=1, description="how much of a chat becomes candidates")] = 0.25
    keep: Annotated[int, Field(ge=1, description="how many candidates stay after re-ranking")] = 40
    single: Annotated[
        float, Field(ge=0, description="a fact's distance below the best score, one answer")
    ] = 1.0
    listed: Annotated[
        float, Field(ge=0, description="the same for lists, counts and questions about both people")
    ] = 2.0
    most: Annotated[int, Field(ge=1, description="the largest evidence set of a fact")] = 9
    narrative: Annotated[int, Field(ge=1, description="the largest evidence set of a narrative")] = 30
    reading: Annotated[str, OneOf(corpus.READINGS), Field(description="which evidence ids count as gold")] = (
        corpus.VALID
    )
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

    def levers(self) -> dict[str, Any]:
        """What can change a prediction or its score: everything but the run's name and the permissions."""
        free = ("run", "split", "final", "force", "engine")
        return {name: value for name, value in self.values().items() if name not in free}
