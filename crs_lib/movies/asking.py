"""One LLM call a text, all answers JSON of a given shape: what the LLM extractors share."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib import prompts
from crs_lib.errors import InputError, RunError
from crs_lib.llm import LLM, LLMError, Request
from crs_lib.llm.quote import fence

SHORTEST = "ollama:mistral:7b"


class Asker:
    """Asks a model, given as a spec or ready made. InputError where none is named.

    Replies are sampled at temperature 0; what does not keep the shape is asked again, and a text that gets
    no usable answer ends the work with a RunError: no other method steps in for the model.
    """

    def __init__(self, llm: str | LLM, who: str) -> None:
        if not llm:
            raise InputError(f"{who} needs a model; name one, e.g. --llm {SHORTEST}")
        self._llm = LLM(llm) if isinstance(llm, str) else llm
        self.name = self._llm.spec
        self._who = who

    def objects(
        self, prompt: str, texts: Sequence[str], schema: Mapping[str, Any], **values: str | int
    ) -> list[dict[str, Any]]:
        """The answer to a prompt about each text, as an object that keeps the schema.

        The prompt takes ``message`` and ``fence`` beside ``values``.
        """
        requests = [
            Request.ask(
                "concepts",
                prompts.render(prompt, message=text, fence=fence([text]), **values),
                seed=0,
                options={"temperature": 0},
                schema=schema,
                tags={"text": number},
            )
            for number, text in enumerate(texts)
        ]
        found = []
        for text, answer in zip(texts, self._llm.gather(requests), strict=True):
            if isinstance(answer, LLMError):
                raise RunError(
                    f"{self._who}: {self.name} gave no usable answer for {text[:60]!r} ({answer}); nothing "
                    "was written. Start the command again, or choose an extractor that needs no model"
                ) from answer
            found.append(json.loads(answer.text))
        return found


def lists(names: Sequence[str], most: int = 20) -> dict[str, Any]:
    """The JSON schema of an object with a list of texts under each name."""
    entry = {"type": "array", "items": {"type": "string"}, "maxItems": most}
    return {
        "type": "object",
        "properties": dict.fromkeys(names, entry),
        "required": list(names),
        "additionalProperties": False,
    }
