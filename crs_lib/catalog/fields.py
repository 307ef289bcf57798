"""One row per catalogue field: everything that the package knows of a field stands in its row.

To add a field, add a row to ``FIELDS`` (docs/context.md, section 4); no other file lists fields by hand. Only
the room ``thesis`` keeps a list of its own, because it reproduces the original study.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from crs_lib.catalog import lexicon
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core import prompts, settings
from crs_lib.core.errors import InputError, unknown
from crs_lib.core.settings import Field as Option
from crs_lib.core.settings import OneOf
from crs_lib.core.text import fold, words


@dataclass(frozen=True, kw_only=True)
class FilmQuestion:
    """One question about a film; the values of a field, or the plot, answer it. ``act`` is the user's act in
    the logs and ``asks`` its templates with $title (empty: asked within another question). ``cues`` tell a
    reply which question it is; ``answers`` are its templates with $title and the first ``most`` $values (0:
    all); without a value the field ``instead`` answers, or the plot. ``rank`` orders the questions.
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
        "{What is|What's} $title about?",
        "{What happens in|What's the story of|What's the plot of} $title?",
        "{Can you tell me|Tell me} {more|a bit more|something} about $title{?|, please?}",
        "$title {sounds interesting|sounds good}. {What is it about|What's it about}?",
        "{I don't know|I've never heard of|I haven't seen} $title. {What is it about|What is it like}?",
    ),
    cues=(
        "about", "happens", "premise", "describe", "sum", "sketch", "expect", "bit", "more", "idea", "like",
        "summary", "gist", "goes", "plot", "story",
    ),
    answers=("$title: $values", "{About|On} $title: $values"),
)  # fmt: skip


YEAR_FIELD = "year"  # the year tells remakes apart and stands behind the title, so code knows it by name


class Clause(NamedTuple):
    """A few words with the first ``most`` values of a film: $values as "a, b and c", $list as "a, b, c"."""

    text: str
    most: int = 2


@dataclass(frozen=True, kw_only=True)
class Field:
    """A catalogue field and everything that depends on it. Templates are those of ``core/prompts``.

    Cleaning and matching:
        ``clean`` makes a raw label a value; ``aliases`` are further spellings of a value;
        ``foreign_keys`` are the keys of the field in catalogues keyed by item id. ``many`` is false where a
        film has one value. ``key`` is the key in records and files (default: the name). ``rule`` names the
        matching rule for everyday words (``catalog/rules.py``: "plain", "name", "person", "genre", "plot");
        ``pattern`` is the form in which the extractor ``rules`` counts a value ("": any).
    Constraints:
        ``keep`` orders relaxation (the smallest is given up first) and the description of a film (the
        largest comes first). ``in_tas``: the field is grounded and scored. ``may_shift``: users may want a
        value of it, as often as ``weight`` says among the fields. ``goal``: users open with a value of it
        (one field only). ``credit``: only films with a value of such a field are recommended.
    User's words:
        ``phrases`` put a value behind the noun ("directed by $value"), in the order of the rows; with
        ``before_noun`` the value itself stands before the noun, in small letters. ``bridges`` name in
        passing a value that leads to another constraint; without any the field is no bridge.
        The voices (``prompts/movies/voices``) have their own under "[actor phrases]" and a question's act.
        ``in_asides``: users mention values that they do not want. ``question`` asks for the field of a film.
    System's words:
        ``in_reply`` names the values of a recommended film in a reply, ``in_prompt`` those of a film on
        offer in the prompt of a language model; None leaves the field out.
    Reading of utterances:
        ``cues`` are words before a value that tell which field is meant where a value has several (a person's
        roles); ``shared_cues`` are cues of another field that count for this one beside a cue of its own.
        ``people_say_values`` is false where people mostly do not name a value of the field (bounds on years);
        ``people_ask`` are words by which people ask for the field of a film (regular expressions).
    """

    name: str
    clean: Callable[[str], Cleaned]
    rule: str
    keep: float
    phrases: Sequence[str]
    aliases: Mapping[str, tuple[str, ...]] | None = None
    foreign_keys: tuple[str, ...] = ()
    many: bool = True
    key: str = ""
    pattern: str = ""
    in_tas: bool = True
    may_shift: bool = True
    weight: int = 1
    goal: bool = False
    credit: bool = False
    before_noun: bool = False
    bridges: Sequence[str] = ()
    in_asides: bool = False
    question: FilmQuestion | None = None
    in_reply: Clause | None = None
    in_prompt: Clause | None = None
    cues: Sequence[str] = ()
    shared_cues: tuple[str, ...] = ()
    people_say_values: bool = True
    people_ask: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.may_shift and not self.in_tas:
            wrong = f"field {self.name!r} may shift but is not grounded"
            raise InputError(f"{wrong}; set in_tas, or not may_shift")
        if not (self.before_noun or self.phrases):
            raise InputError(f"field {self.name!r} has no phrases; give one such as 'from $value'")
        for text in (*self.phrases, *self.bridges):
            if "$value" not in text:
                raise InputError(f"field {self.name!r}: the template {text!r} does not name $value")

    @property
    def column(self) -> str:
        """The key of the field in records and files."""
        return self.key or self.name

    def forms(self, value: str) -> tuple[str, ...]:
        """The folded spellings under which a clean value is found in text, its own first."""
        others = (self.aliases or {}).get(value, ())
        return tuple(dict.fromkeys(folded for form in (value, *others) if (folded := fold(form))))

    def in_words(self, value: str) -> str:
        """A value inside a sentence: in small letters where values stand before the noun."""
        return value.lower() if self.before_noun else value


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field(
            name="genre", clean=lexicon.clean_genre, aliases=lexicon.GENRES, foreign_keys=("genres",),
            rule="genre", keep=6, weight=4, goal=True,
            before_noun=True, phrases=(), in_asides=True, in_prompt=Clause("$list", 3),
            question=FilmQuestion(
                act="question_mood", rank=5, most=3,
                asks=(
                    "{What kind|What sort} of {movie|film|story} is $title?",
                    "{When was $title made|When did $title come out|How old is $title}?",
                    "What year is $title from?",
                    "{Is $title|Do you know if $title is} {light or heavy|more serious or more light}?",
                    "{What genre is $title|Which genre is that, $title}?",
                ),
                cues=(
                    "mood", "tone", "light", "slow", "gentle", "kind", "sort", "shelf", "file", "cheerful",
                    "calm", "label", "genre", "serious",
                ),
                answers=("$title is {usually|mostly} filed under $values.",),
            ),
        ),
        Field(
            name="actor", clean=lexicon.clean_person, foreign_keys=("star", "stars", "cast"),
            rule="person", keep=4, weight=4, credit=True,
            phrases=("{with|starring|featuring} $value", "with $value in {them|the cast}"),
            bridges=("$value", "{the actor|} $value"),
            in_asides=True, in_reply=Clause("with $values"), in_prompt=Clause("with $values", 3),
            question=FilmQuestion(
                act="question_cast", rank=1, most=3, instead="director",
                asks=(
                    "{Who is in|Who's in|Who stars in|Who plays in} $title?",
                    "{Can you tell me|Do you know} who {plays in|stars in|is in} $title?",
                    "{Which actors|What actors} are in $title?",
                    "{I haven't seen|I don't know} $title. {Who is in it|Who stars in it|Who plays in it}?",
                    "Is there {anybody|anyone} I'd know in $title?",
                ),
                cues=("who", "actors", "cast", "plays", "anybody", "anyone", "faces"),
                answers=("$title {has|features} $values.",
                         "{In $title you see|The cast of $title includes} $values."),
            ),
            cues=("with", "starring", "featuring", "actor", "actress", "cast"),
            people_ask=("actors?", "actress", "cast", "stars?"),
        ),
        Field(
            name="director", clean=lexicon.clean_person, foreign_keys=("directors",),
            rule="person", keep=5, weight=3, credit=True,
            phrases=("{directed by|made by} $value", "directed by $value"),
            bridges=("$value", "{the director|} $value"),
            in_asides=True, in_reply=Clause("{directed|made} by $values"),
            in_prompt=Clause("directed by $values"),
            question=FilmQuestion(
                act="question_maker", rank=2,
                asks=(
                    "Who {made|directed} $title?",
                    "{Do you know|Can you tell me} who {directed|made} $title?",
                    "{Who wrote|Do you know who wrote} $title?",
                    "$title {sounds good|sounds familiar}. Who directed it?",
                    "{Who is|Who's} the director of $title?",
                ),
                cues=("directed", "behind", "made", "whose", "shot", "charge", "director"),
                answers=("$title was directed by $values.", "$values {made|directed} $title."),
            ),
            cues=("directed", "made", "director", "by"), people_ask=("director", "directed"),
        ),
        Field(
            name="writer", clean=lexicon.clean_person, foreign_keys=("writers",), rule="person", keep=3,
            phrases=("written by $value", "{scripted by|from a script by} $value"),
            bridges=("$value", "{the writer|} $value"),
            question=FilmQuestion(
                rank=3, instead="director", cues=("wrote", "script", "paper"),
                answers=("$title was written by $values.", "The script of $title is by $values."),
            ),
            cues=("written", "scripted", "script", "writer"), shared_cues=("by",),
        ),
        Field(
            name="language", clean=lexicon.clean_language, aliases=lexicon.LANGUAGES,
            foreign_keys=("languages",), rule="name", keep=2,
            phrases=("in $value", "{spoken in|in} $value"),
            bridges=("the sound of $value", "{spoken|the sound of} $value"),
            in_prompt=Clause("in $values"),
        ),
        Field(
            name=YEAR_FIELD, clean=lexicon.clean_year, rule="plain", pattern=r"(?:19|20)\d\d", keep=1,
            many=False, phrases=("{from|made in|released in} $value",),
            people_say_values=False,
            question=FilmQuestion(
                rank=6, instead="genre", cues=("long", "when", "year", "old"),
                answers=("$title {is from|was made in|came out in} $values.",),
            ),
        ),
    )
}  # fmt: skip
# Fields that a catalogue has only where it is asked for them (``sample+plot``): what is made with them is
# another experiment, with other scenarios and more concepts.
OPTIONAL_FIELDS: dict[str, Field] = {
    PLOT: Field(
        name=PLOT, key="plot_keywords", clean=lexicon.clean_keyword, aliases=lexicon.PLOT_WORDS,
        rule="plot", keep=2.2, weight=3,
        phrases=("about $value", "{with a plot|with a story} about $value"),
        bridges=("the theme of $value", "stories about $value"),
        in_reply=Clause("about $values"), in_prompt=Clause("about $values", 3),
        cues=("about", "plot", "plots", "story", "stories", "theme", "themes", "deals", "turns"),
        people_ask=("plot", "story"),
    ),
}  # fmt: skip
ALL_FIELDS: Mapping[str, Field] = ChainMap(OPTIONAL_FIELDS, FIELDS)  # in the order FIELDS, OPTIONAL_FIELDS
# The fields of marks (a film's title is one) in the order of their colours, in dialogues and traces.
TINTED = ("genre", "actor", "director", "writer", "language", PLOT, YEAR_FIELD, "title")
PERSON_FIELDS: tuple[str, ...] = tuple(f.name for f in FIELDS.values() if f.rule == "person")
CREDIT_FIELDS: tuple[str, ...] = tuple(f.name for f in FIELDS.values() if f.credit)
ASIDE_FIELDS: tuple[str, ...] = tuple(f.name for f in FIELDS.values() if f.in_asides)
(GOAL_FIELD,) = (f.name for f in FIELDS.values() if f.goal)
RELAXATION_ORDER: tuple[str, ...] = tuple(sorted(ALL_FIELDS, key=lambda name: ALL_FIELDS[name].keep))
_QUESTIONS = {PLOT: PLOT_QUESTION} | {f.name: f.question for f in FIELDS.values() if f.question}
# By the field that answers, or "plot", in the order of their ranks.
QUESTIONS: Mapping[str, FilmQuestion] = dict(sorted(_QUESTIONS.items(), key=lambda pair: pair[1].rank))
QUESTION_ACTS: Mapping[str, FilmQuestion] = {asked.act: asked for asked in QUESTIONS.values() if asked.act}
# The kinds of a declared field: how its labels are cleaned, and the matching rule of its values.
KINDS: dict[str, tuple[Callable[[str], Cleaned], str]] = {
    "person": (lexicon.clean_person, "person"), "name": (lexicon.clean_name, "name"),
    "topic": (lexicon.clean_keyword, "plot"),
}  # fmt: skip


class _DeclaredField(settings.Settings):
    """A field of a catalogue that films lack, as a YAML file declares it; see :class:`Field`."""

    kind: Annotated[str, OneOf(KINDS), Option(description="how values are cleaned and read")]
    phrases: Annotated[Sequence[str], Option(description="words that put a $value behind the noun")]
    bridges: Annotated[Sequence[str], Option(description="sentences that name a $value in passing")] = ()
    cues: Annotated[Sequence[str], Option(description="words before a value that tell the field")] = ()
    many: Annotated[bool, Option(description="whether an item may have several values")] = True
    weight: Annotated[int, Option(ge=1, description="how often users want a value of it")] = 2
    keep: Annotated[float, Option(gt=0, description="the smallest is given up first")] = 3


class Declared(settings.Settings):
    """The fields that a YAML file declares for a catalogue, and words of users that others replace."""

    fields: Annotated[Mapping[str, Mapping[str, Any]], Option(description="fields by name")]
    words: Annotated[Mapping[str, str], Option(description="film words and what stands for them")] = {}


def declare(given: Mapping[str, Any]) -> Declared:
    """Add declared fields to ``OPTIONAL_FIELDS``; InputError for a name or value that no field can have."""
    found = Declared(**given)
    for name, values in found.fields.items():
        if name in FIELDS or name in (*TITLE_NAMES, *PLOT_NAMES):
            raise InputError(f"field {name!r} is known already; declare only fields that films lack")
        row = _DeclaredField(**values)
        clean, rule = KINDS[row.kind]
        own = {key: value for key, value in row.values().items() if key != "kind"}
        clause = Clause(row.phrases[0].replace("$value", "$values"))
        OPTIONAL_FIELDS[name] = Field(
            name=name, clean=clean, rule=rule, in_reply=clause, in_prompt=clause, **own
        )
    return found


TITLE_NAMES = ("title", "name")
PLOT_NAMES = ("plot", "plot_keywords", "plot_kw")


def get(name: str) -> Field:
    """The row of a field; InputError with a suggestion for a name that is none."""
    if name not in ALL_FIELDS:
        raise unknown("field", name, ALL_FIELDS)
    return ALL_FIELDS[name]


def most_telling() -> list[Field]:
    """The fields in the order in which a film is described: the last that relaxation gives up comes first."""
    return sorted(ALL_FIELDS.values(), key=lambda row: -row.keep)


def concept(field: str, value: str) -> str:
    """The key of a concept, ``field=value`` with the value folded: ``actor=penelope cruz``."""
    return f"{field}={fold(value)}"


def plot_keywords(text: str) -> list[str]:
    """The words of a plot or utterance, each once: of four letters or more, no function or film words."""
    empty = lexicon.words("no plot words")
    found = (w for w in words(text) if len(w) >= 4 and w.isalpha() and w not in empty)
    return list(dict.fromkeys(found))


def lower_case_words(texts: Iterable[str]) -> frozenset[str]:
    """The folded words that occur in texts with a small first letter."""
    parts = (part for text in texts for part in text.split() if part[:1].islower())
    return frozenset(word for part in parts for word in words(part))


_ALONE = prompts.compile_line("$value")
ONE = "noun_one"  # the section with the noun for a single film, where a set has one


def noun_phrase(
    constraints: Mapping[str, str], draw: np.random.Generator, voice: str = "A", noun: str = "noun",
    code: Callable[[str, str], int | None] | None = None,
) -> str:  # fmt: skip
    """Constraints as one noun phrase: "comedy films with Buster Keaton in English". The values follow the
    order of ``ALL_FIELDS``, some before the noun, the others behind it; outside voice A, language
    and year come first behind the noun, participles last ("films from 1924 by A and starring B"). An empty
    mapping gives "good films". ``voice`` says whose words; ``noun`` is the section with the noun, ``ONE`` for
    a single film. A value whose phrase is the value alone stands before the noun ("1984 movies"); that of a
    person only where the catalogue's ``code`` knows one role ("Ada Quill movies").
    """
    named = prompts.phrase(prompts.USER_SETS[voice], noun, draw)
    if not constraints:
        return f"good {named}"
    given = [row for name, row in ALL_FIELDS.items() if name in constraints]
    before = [row.in_words(constraints[row.name]) for row in given if row.before_noun]
    if voice != "A":
        before = [lexicon.BEFORE_NOUN.get(said, said) for said in before]
    behind: list[tuple[str, str]] = []
    for row in given:
        if not row.before_noun:
            value = constraints[row.name]
            lines = _lines(f"{row.name} phrases", row.phrases, voice)
            if _ALONE in lines and not (len(given) == 1 and _says_itself(row, value, code)):
                lines = tuple(line for line in lines if line != _ALONE)
            said = _fill(row.name, "phrases", lines, value, draw)
            if said == value:
                before.append(said)
            else:
                behind.append((row.name, said))
    last = [said for _, said in behind] if voice == "A" else _in_order(behind)
    return " ".join([*before, named, *last])


_FIRST_BEHIND = ("language", YEAR_FIELD, PLOT)  # fields whose phrases would seem to belong to a person before
_PARTICIPLES = frozenset({"starring", "featuring", "directed", "made", "written", "scripted"})


def _in_order(parts: Sequence[tuple[str, str]]) -> list[str]:
    """The (field, phrase) pairs behind a noun so that each is read with the noun, two of a kind by "and"."""

    def place(part: tuple[str, str]) -> tuple[int, bool]:
        field, said = part
        if field in _FIRST_BEHIND:
            return _FIRST_BEHIND.index(field), False
        return len(_FIRST_BEHIND) + (said.split()[0] in _PARTICIPLES), not said.startswith("by ")

    out: list[str] = []
    kind = ""
    for _, said in sorted(parts, key=place):
        word = said.split()[0]
        before, kind = kind, "participle" if word in _PARTICIPLES else word
        out.append(f"and {said}" if kind == before else said)
    return out


def bridge_phrase(field: str, value: str, draw: np.random.Generator, voice: str = "A") -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    return _fill(field, "bridges", _lines(f"{field} bridges", get(field).bridges, voice), value, draw)


def question(
    act: str, title: str, draw: np.random.Generator, voice: str = "A", *, small: bool = False
) -> str:
    """A sentence that asks about a film; ``act`` is one of ``QUESTION_ACTS``, ``small``: no capitals."""
    lines = _lines(act, QUESTION_ACTS[act].asks, voice, small)
    said = prompts.fill(lines, draw, f"question {act!r}", title=title)
    return said if small else prompts.sentence(said)


def _says_itself(row: Field, value: str, code: Callable[[str, str], int | None] | None) -> bool:
    """Whether a value before the noun tells its field: not a person of several roles, nor a single name."""
    if row.name not in PERSON_FIELDS:
        return True
    roles = [name for name in PERSON_FIELDS if code and code(name, value) is not None]
    return roles == [row.name] and len(words(value)) > 1


def _lines(
    section: str, usual: Sequence[str], voice: str, small: bool = False
) -> tuple[prompts.Template, ...]:
    """The templates of a set for a section; where its wording file has none, the usual ones (of set A)."""
    return prompts.sections(prompts.USER_SETS[voice], small).get(section) or prompts.compiled(usual, small)


def _fill(
    field: str, what: str, lines: tuple[prompts.Template, ...], value: str, draw: np.random.Generator
) -> str:
    return prompts.fill(lines, draw, f"field {field!r}, {what}", value=value)
