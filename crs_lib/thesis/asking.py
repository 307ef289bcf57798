"""Topics and concepts named by a language model: one call a text, each answer JSON of a given shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crs_lib.core import prompts, safety
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import fingerprint
from crs_lib.llm import LLM, LLMError, Pool, Request
from crs_lib.llm.preflight import Need
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import fence
from crs_lib.metrics.records import BatchScorer, Scores, unscored

ROLE = "topics"
SHORTEST = "ollama:mistral:7b"
AT_ONCE = 500  # texts whose calls are prepared together


class _UnansweredError(RunError):
    """A text without a usable answer, however often it was asked about; the other answers are cached."""


def answer_settings(llm: LLMSettings) -> dict[str, Any]:
    """The settings that change an answer, for the tables; replies are sampled at temperature 0."""
    return {**_options(llm), "think": llm.think}


def need(spec: str, llm: LLMSettings) -> Need:
    """The model as the preflight checks it."""
    return Need(ROLE, spec, _options(llm), settings=llm.settings_for(spec))


def model(spec: str, llm: LLMSettings, folder: Path) -> LLM:
    """An extractor's model, with its call cache and call log in a folder."""
    return Pool(folder, llm, options=_options(llm))(spec)


def _options(llm: LLMSettings) -> dict[str, Any]:
    return {"num_ctx": llm.num_ctx, "num_predict": llm.num_predict}


class Asker:
    """Asks a model, given as a spec or as an ``LLM``, about many texts, at temperature 0. InputError where
    none is named; RunError where calls fail, and (:class:`_UnansweredError`) without a usable answer.
    """

    def __init__(self, llm: str | LLM, who: str) -> None:
        if not llm:
            raise InputError(f"{who} needs a model; name one, e.g. --llm {SHORTEST}")
        self._llm = LLM(llm) if isinstance(llm, str) else llm
        self.name = self._llm.spec
        self._who = who
        self._unusable: dict[str, LLMError] = {}  # by the text; not asked about again by this asker

    def lists(
        self, prompt: str, texts: Sequence[str], names: Sequence[str], longest: int = 20, **values: str | int
    ) -> list[dict[str, list[str]]]:
        """The answer to a prompt about each text: a list of at most ``longest`` texts under each name. The
        prompt takes ``message`` and ``fence`` beside ``values``. A text without a usable answer is told once
        all were asked; RunError at once where the model cannot be asked.
        """
        schema = _schema(names, longest)
        answers: dict[str, dict[str, list[str]]] = {}
        distinct = [text for text in dict.fromkeys(texts) if text not in self._unusable]
        for first in range(0, len(distinct), AT_ONCE):
            part = distinct[first : first + AT_ONCE]
            requests = [_request(prompt, text, schema, values) for text in part]
            for text, answer in zip(part, self._llm.gather(requests), strict=True):
                if not isinstance(answer, LLMError):
                    answers[text] = safety.loads(answer.text, "the reply")
                elif answer.unusable or answer.kind == "prompt too long":
                    self._unusable[text] = answer
                else:
                    problem = f"{self._who}: {self.name} could not be asked ({answer})"
                    remedy = "What it answered before is kept; start the same command again"
                    raise RunError(f"{problem}. {remedy}") from answer
        for text in texts:
            if text in self._unusable:
                problem = f"{self.name} gave no usable answer for {text[:60]!r} ({self._unusable[text]})"
                raise _UnansweredError(f"{self._who}: {problem}")
        return list(map(answers.__getitem__, texts))


def _schema(names: Sequence[str], longest: int) -> dict[str, Any]:
    """The shape of an answer: an object with a list of texts under each name."""
    entry = {"type": "array", "items": {"type": "string"}, "maxItems": longest}
    schema: dict[str, Any] = {"type": "object", "properties": dict.fromkeys(names, entry)}
    schema["required"] = list(names)
    schema["additionalProperties"] = False
    return schema


def _request(prompt: str, text: str, schema: Mapping[str, Any], values: Mapping[str, str | int]) -> Request:
    question = prompts.render(prompt, message=text, fence=fence([text]), **values)
    tags = {"text": fingerprint(text)[:12]}
    options = {"temperature": 0}
    return Request.ask(ROLE, question, seed=0, options=options, schema=schema, tags=tags)


@dataclass(eq=False)
class _AskedScorer:
    """A scorer whose concepts or topics a model names. A session with a text that gets no usable answer keeps
    its row, every metric null, ``detail.failed`` saying why; RunError where no session can be scored.
    """

    scorer: BatchScorer
    convention: str
    metrics: Sequence[str]
    model: str | LLM

    def close(self) -> None:
        """Give back the model's connections and files."""
        if isinstance(self.model, LLM):
            for opened in (self.model, self.model.cache, self.model.recorder):
                if opened is not None:
                    opened.close()

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        try:
            return self.scorer.score_many(dialogues)
        except _UnansweredError as error:
            alone = list(map(self._alone, dialogues))
            if all("failed" in scores.session["detail"] for scores in alone):
                raise RunError(f"none of {len(alone)} sessions can be scored; {error}") from error
            return alone

    def _alone(self, dialogue: Dialogue) -> Scores:
        """The scores of one dialogue; texts that were answered are not asked about again."""
        try:
            return self.scorer.score_many([dialogue])[0]
        except _UnansweredError as error:
            return unscored(
                dialogue.model_name, dialogue.session_id, self.convention, self.metrics, str(error)
            )


def guarded(scorer: BatchScorer, convention: str, metrics: Sequence[str], model: str | LLM) -> BatchScorer:
    """A scorer that keeps the row of a session without an answer."""
    return _AskedScorer(scorer, convention, metrics, model)
