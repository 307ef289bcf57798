"""Questions about a film: how users ask them, and how replies recognise and answer them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FilmQuestion:
    """One question about a film; the values of a field, or the plot, answer it.

    ``act`` is the user's act in the logs and ``asks`` its templates, which name $title; both are empty where
    users ask for the field within another question. ``cues`` are the words by which a reply recognises the
    question; ``answers`` are the reply's templates with $title and $values, the first ``most`` values (0:
    all). ``instead`` names the field that answers for a film without value; if empty, the plot answers.
    ``rank`` orders the questions: users draw in ascending order, replies try the cues in descending order.
    """

    rank: float
    cues: tuple[str, ...]
    answers: tuple[str, ...]
    act: str = ""
    asks: tuple[str, ...] = ()
    most: int = 0
    instead: str = ""


PLOT = "plot"  # stands for a field where questions are listed by field
PLOT_QUESTION = FilmQuestion(
    act="question_plot",
    rank=4,
    asks=(
        "What is $title about?",
        "{What happens in|What's the premise of|Can you sketch} $title?",
        "{Tell me a bit more about|Say more about|Give me an idea of} $title, {please|would you}.",
        "{How would you describe|How would you sum up} $title {in a sentence|in short|briefly}?",
        "$title {sounds interesting|might do|could be it}. What should I expect?",
        "{I don't know|I've never heard of|I haven't seen} $title. What is it like?",
    ),
    cues=(
        "about", "happens", "premise", "describe", "sum", "sketch", "expect", "bit", "more", "idea", "like",
    ),
    answers=("$title: $values", "{About|On} $title: $values"),
)  # fmt: skip
