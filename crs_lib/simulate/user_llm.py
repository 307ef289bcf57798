"""The user's words by a language model: the plan stays ours, and an utterance must voice it, or where
``drift`` is set the log says what it voices instead.
"""

from typing import Any

from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.llm.base import LLMError, Request
from crs_lib.llm.client import Pool
from crs_lib.llm.settings import LLMSettings
from crs_lib.simulate import voices
from crs_lib.simulate.users import SITUATION, Needed, Phrasing

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


class _Named:
    """What a text names as systems read it: (field, value) pairs, films, and the words that name them."""

    def __init__(self, grounder: Grounder, text: str) -> None:
        self.pairs = set()
        self.films = set()
        spans = []
        for match in grounder.audit(text):
            if not match.rejected:
                self.pairs.add((match.field, match.value))
                spans.append((match.start, match.end))
        for title in grounder.titles(text):
            self.films.add(title.item)
            spans.append((title.start, title.end))
        self.words = [text[start:end] for start, end in sorted(spans)]


def _drift_of(grounder: Grounder, text: str, template: str, needed: Needed) -> dict[str, list[str]]:
    """The values and films that were ``planned`` and those that a wording ``said``, as ``field=value``."""
    planned = _Named(grounder, template)
    voiced = _Named(grounder, text)
    planned.pairs.update(needed)
    for field, value in needed:
        if field == SITUATION and value in text:
            voiced.pairs.add((field, value))
    lists = {}
    for name, named in (("planned", planned), ("said", voiced)):
        films = {("film", grounder.catalog.items[film].title) for film in named.films}
        lists[name] = [f"{field}={value}" for field, value in sorted(named.pairs | films)]
    return lists


def fault(grounder: Grounder, text: str, template: str, needed: Needed) -> str:
    """Why a wording does not voice the plan, or nothing: values and films must be the plan's, no others."""
    if not text or len(text) > LONGEST:
        return f"it has {len(text)} characters, expected 1 to {LONGEST}"
    named = _Named(grounder, text)
    planned = _Named(grounder, template)
    missing = planned.pairs.union(needed) - named.pairs
    lacking = {value for field, value in missing if field != SITUATION or value not in text}
    if lacking:
        return f"it does not name {', '.join(sorted(lacking))}"
    added = [value for _, value in named.pairs - planned.pairs]
    if added:
        return f"it adds {', '.join(sorted(added))}"
    if named.films != planned.films:
        return "it names other films than planned"
    return ""


class ModelWording:
    """Words the utterances of one session's user (a :class:`crs_lib.simulate.users.Realiser`), the same for
    every system. ``address`` is the seed, the session and the system. The prompt shows three utterances of
    the session's voice that name nothing; none of voice A. With ``drift`` a wording stands although it names
    other values than planned, and the log says which; the user still wants what was planned.
    """

    def __init__(
        self,
        llms: Pool,
        spec: str,
        settings: LLMSettings,
        grounder: Grounder,
        address: tuple[int, int, str],
        voice: str = voices.FIRST,
        *,
        drift: bool = False,
    ) -> None:
        self.llms = llms
        self.spec = spec
        self.settings = settings
        self.grounder = grounder
        self.seed, self.session, self.system = address
        self.drift = drift
        self.tone = "" if voice == voices.FIRST else self._tone(prompts.USER_SETS[voice])

    def _tone(self, templates: str) -> str:
        draw = rng.stream(self.seed, "movies", self.session, "tone")
        examples = [f"- {prompts.say(templates, act, draw)}" for act in _TONE]
        return prompts.render("movies/user_tone", examples="\n".join(examples)) + "\n\n"

    def __call__(self, template: str, needed: Needed, turn: int) -> Phrasing:
        """The model's wording; asked once more, then the template's. LLMError without a model."""
        faults = []
        for attempt in range(ATTEMPTS):
            try:
                request = self._request(template, needed, turn, attempt)
                text = clean(self.llms.complete(self.spec, request).text)
            except LLMError as error:
                if error.remedy not in ("other seed", "more room"):
                    raise
                faults.append(error.kind)
                continue
            reason = fault(self.grounder, text, template, needed)
            log: dict[str, Any] = {"worded_by": "llm", "planned_text": template, "faults": faults}
            if not reason:
                return text, log
            faults.append(reason)
            if self.drift and 0 < len(text) <= LONGEST:
                log["drift"] = _drift_of(self.grounder, text, template, needed)
                return text, log
        return template, {"worded_by": "template", "fallback": True, "faults": faults}

    def _request(self, template: str, needed: Needed, turn: int, attempt: int) -> Request:
        must_say = dict.fromkeys(_Named(self.grounder, template).words)  # as the template has them
        situations = [value for field, value in needed if field == SITUATION]
        lines = [f"- {part}" for part in (*must_say, *situations)] or ["- (none)"]
        prompt = prompts.render(
            "movies/user_utterance", plan=f"- {template}", must_say="\n".join(lines), tone=self.tone
        )
        return Request.ask(
            "user",
            prompt,
            options=self.settings.options,
            replicate=attempt,
            seed=rng.address_seed(self.seed, "movies", self.session, "user-words", turn, attempt),
            tags={"session": self.session, "system": self.system, "turn": turn},
        )
