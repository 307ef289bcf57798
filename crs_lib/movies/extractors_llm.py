"""The extractor ``llm``: a model names what a text contains, the catalogue decides what counts."""

import json
from collections.abc import Sequence

from crs_lib.llm import LLM
from crs_lib.movies.asking import Asker, lists
from crs_lib.movies.concepts import ConceptSpace


class LlmExtractor:
    """One call a text. A name counts as the value it equals, else as the first that contains it or that it
    contains (the thesis's rule); names that the catalogue lacks are dropped.

    A text in which the model finds nothing has no concepts. (The thesis fell back on substrings there, and
    so mixed two methods in one column.)
    """

    name = "llm"

    def __init__(self, space: ConceptSpace, llm: str | LLM) -> None:
        self.space = space
        self._ask = Asker(llm, "concept extractor llm")
        self.embedder = self._ask.name

    def sets(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The codes of every text; blank texts are not asked about."""
        asked = [text for text in texts if text.strip()]
        fields = self.space.fields
        shape = json.dumps({name: ["..."] for name in fields})
        replies = self._ask.objects(
            "movies/concepts", asked, lists(fields), kinds=", ".join(fields), shape=shape
        )
        answers = iter(replies)
        return [
            frozenset(
                code
                for name, values in (next(answers) if text.strip() else {}).items()
                for value in values
                if (code := self.code(name, value)) is not None
            )
            for text in texts
        ]

    def code(self, field: str, value: str) -> int | None:
        """The concept that a name stands for, None where the catalogue has none."""
        wanted = value.strip().lower()
        if not wanted or field not in self.space.fields:
            return None
        if (field, wanted) in self.space.code_of:
            return self.space.code_of[field, wanted]
        values = self.space.value
        return next(
            (c for c in self.space.codes_of(field) if wanted in values[c] or values[c] in wanted), None
        )
