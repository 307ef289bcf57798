"""Scores that rest on a model's answers: a session with a text that gets no usable answer has none."""

from collections.abc import Sequence
from dataclasses import dataclass

from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.llm import LLM
from crs_lib.score.asking import UnansweredError
from crs_lib.score.scorer import BatchScorer, Scores, unscored


@dataclass(eq=False)
class AskedScorer:
    """A scorer whose concepts or topics a model names.

    A session that cannot be scored keeps its row, every metric null, and ``detail.failed`` says why; the
    others do not suffer. Where that happens to all that are given together, a RunError says so: then
    something is wrong with the model or its settings, not with a text.
    """

    scorer: BatchScorer
    convention: str
    metrics: Sequence[str]
    model: str | LLM

    def close(self) -> None:
        """Give back the model's connections and files."""
        if isinstance(self.model, LLM):
            self.model.close()
            for kept in (self.model.cache, self.model.recorder):
                if kept is not None:
                    kept.close()

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        try:
            return self.scorer.score_many(dialogues)
        except UnansweredError as error:
            found = [self._alone(dialogue) for dialogue in dialogues]
            if all("failed" in scores.session["detail"] for scores in found):
                raise RunError(f"none of {len(found)} sessions can be scored; {error}") from error
            return found

    def _alone(self, dialogue: Dialogue) -> Scores:
        """The scores of one dialogue; what was answered already is not asked again."""
        try:
            return self.scorer.score_many([dialogue])[0]
        except UnansweredError as error:
            who = (dialogue.model_name, dialogue.session_id)
            return unscored(*who, self.convention, self.metrics, str(error))
