"""The user's words by a language model: the plan stays ours, and an utterance must voice it."""

from collections.abc import Sequence

from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.llm.base import LLMError, Request
from crs_lib.llm.client import Pool
from crs_lib.llm.settings import LLMSettings
from crs_lib.simulate import voices
from crs_lib.simulate.users import SITUATION, Phrasing

LONGEST = 600  # characters of an utterance
ATTEMPTS = 2
_QUOTES = "\"'“”‘’«»"
_TONE = ("follow_up", "hesitate", "follow_up_met")  # acts whose words name no value: examples of a voice


def clean(text: str) -> str:
    """The utterance on one line, without quotation marks around all of it."""
    line = " ".join(text.split())
    while len(line) > 1 and line[0] in _QUOTES and line[-1] in _QUOTES:
        inner = line[1:-1].strip()
        if any(mark in inner for mark in '"“”«»'):
            break
        line = inner
    return line


def _fault(grounder: Grounder, text: str, template: str, must_voice: Sequence[tuple[str, str]]) -> str:
    """Why a wording does not voice the plan, or nothing: values and films must be the plan's, no others."""
    if not text or len(text) > LONGEST:
        return f"it has {len(text)} characters, expected 1 to {LONGEST}"
    named = {(m.field, m.value) for m in grounder.audit(text) if not m.rejected}
    planned = {(m.field, m.value) for m in grounder.audit(template) if not m.rejected}
    films = {mention.item for mention in grounder.titles(text)}
    about = {mention.item for mention in grounder.titles(template)}
    said = {pair for pair in must_voice if pair[0] == SITUATION and pair[1] in text}
    if missing := sorted({value for _, value in (planned | set(must_voice)) - named - said}):
        return f"it does not name {', '.join(missing)}"
    if added := sorted(value for _, value in named - planned):
        return f"it adds {', '.join(added)}"
    if films != about:
        return "it names other films than planned"
    return ""


class ModelWording:
    """Words the utterances of one session's user (a :class:`crs_lib.simulate.users.Realiser`), the same for
    every system. The prompt shows three utterances of the session's voice that name nothing; none of voice A.
    """

    def __init__(
        self, llms: Pool, spec: str, rule: LLMSettings, grounder: Grounder, place: tuple[int, int, str],
        voice: str = voices.FIRST,
    ) -> None:  # fmt: skip
        self.llms, self.spec, self.rule, self.grounder = llms, spec, rule, grounder
        self.seed, self.session, self.system = place
        draw = rng.stream(self.seed, "movies", self.session, "tone")
        told = (prompts.say(prompts.USER_SETS[voice], act, draw) for act in _TONE if voice != voices.FIRST)
        examples = "\n".join(f"- {text}" for text in told)
        self.tone = prompts.render("movies/user_tone", examples=examples) + "\n\n" if examples else ""

    def __call__(self, template: str, must_voice: Sequence[tuple[str, str]], turn: int) -> Phrasing:
        """The model's wording; asked once more, then the template's. LLMError without a model."""
        faults = []
        for attempt in range(ATTEMPTS):
            try:
                request = self._request(template, must_voice, turn, attempt)
                text = clean(self.llms.complete(self.spec, request).text)
            except LLMError as error:
                if error.remedy not in ("other seed", "more room"):
                    raise
                faults.append(error.kind)
                continue
            reason = _fault(self.grounder, text, template, must_voice)
            if not reason:
                return text, {"worded_by": "llm", "planned_text": template, "faults": faults}
            faults.append(reason)
        return template, {"worded_by": "template", "fallback": True, "faults": faults}

    def _request(
        self, template: str, must_voice: Sequence[tuple[str, str]], turn: int, attempt: int
    ) -> Request:
        spans = [(m.start, m.end) for m in self.grounder.audit(template) if not m.rejected]
        spans += [(m.start, m.end) for m in self.grounder.titles(template)]
        named = dict.fromkeys(template[start:end] for start, end in sorted(spans))  # as the template has them
        said = [value for field, value in must_voice if field == SITUATION]
        must_say = "\n".join(f"- {part}" for part in [*named, *said]) or "- (none)"
        slots = {"plan": f"- {template}", "must_say": must_say, "tone": self.tone}
        return Request.ask(
            "user", prompts.render("movies/user_utterance", **slots),
            options=self.rule.options, replicate=attempt,
            seed=rng.address_seed(self.seed, "movies", self.session, "user-words", turn, attempt),
            tags={"session": self.session, "system": self.system, "turn": turn},
        )  # fmt: skip
