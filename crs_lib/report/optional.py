"""What only some runs have, shown with its words where it is there: scores by judges, calls of models."""

from crs_lib import judge as judging
from crs_lib.core import paths
from crs_lib.report.figure_tables import draw, usage
from crs_lib.simulate import STUDY

_JUDGED = (
    "**Judges.** Models read each dialogue with the user's constraints and score every construct of the "
    "rubric. A reply that cannot be read is a missing score and is counted. Below the scores: how far the "
    "judges agree with one another and with themselves (1 is perfect), how far they favour their own "
    "family of models (0 is not at all), and the share of spoilt dialogues that they notice."
)
_CALLED = (
    "**Models.** Calls, tokens and seconds by role; seconds are those of the machine that made the calls."
)


def judges(run: str) -> None:
    """Scores of a run's judges and how far they can be trusted; nothing for a run without judges."""
    if judging.scores_of(run):
        _show(_JUDGED, judging.shown_scores(run), judging.reliability_of(run).round(3))


def judge_figures(run: str, convention: str = "") -> None:
    """The judges' scores by system and against the metric; nothing for a run without judges."""
    if judging.scores_of(run):
        _show("**Judges.** Their scores by system, and against the metric session by session.")
        draw(run, "judge_radar", "judge_scatter", convention=convention)


def model_calls(run: str, figure: bool = False) -> None:
    """What the run's language models took, as a table and a figure; nothing for a run that called none."""
    if (paths.run_folder(STUDY, run) / "llm_calls.jsonl").exists():
        _show(_CALLED, usage(run))
        if figure:
            draw(run, "tokens_and_time")


def _show(words: str, *frames: object) -> None:
    from IPython.display import Markdown, display

    display(Markdown(words), *frames)
