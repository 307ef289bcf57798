"""One row per catalogue field: everything that the package knows of a field stands in its row.

To add a field of films, add a row to ``_MOVIE_FIELDS`` (docs/context.md, section 4); no other file lists
fields by hand. A catalogue of other things declares its own in a YAML file (``catalog/declared.py``). The
fields of a catalogue are those of the object (``catalog.fields``); the tables here are what any catalogue of
films may have, and never change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core.errors import InputError, unknown
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
        "about",
        "happens",
        "premise",
        "describe",
        "sum",
        "sketch",
        "expect",
        "bit",
        "more",
        "idea",
        "like",
        "summary",
        "gist",
        "goes",
        "plot",
        "story",
    ),
    answers=("$title: $values", "{About|On} $title: $values"),
)


YEAR_FIELD = "year"  # the year tells remakes apart and stands behind the title, so code knows it by name


class Clause(NamedTuple):
    """A few words with the first ``most`` values of a film: $values as "a, b and c", $list as "a, b, c"."""

    text: str
    most: int = 2


@dataclass(frozen=True, kw_only=True)
class Field:
    """A catalogue field and everything that depends on it. Templates are those of ``core/prompts``.

    Cleaning and matching:
        ``clean`` makes a raw label a value; ``aliases`` names a table of spellings in ``lexicon.toml``;
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
    aliases: str = ""
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
        forms = [fold(value)]
        if self.aliases:
            forms += map(fold, lexicon.spellings(self.aliases).get(value, ()))
        return tuple(dict.fromkeys(filter(None, forms)))

    def in_words(self, value: str) -> str:
        """A value inside a sentence: in small letters where values stand before the noun."""
        return value.lower() if self.before_noun else value


_MOVIE_FIELDS = (
    Field(
        name="genre",
        clean=lexicon.clean_genre,
        aliases="genres",
        foreign_keys=("genres",),
        rule="genre",
        keep=6,
        weight=4,
        goal=True,
        before_noun=True,
        phrases=(),
        in_asides=True,
        in_prompt=Clause("$list", 3),
        question=FilmQuestion(
            act="question_mood",
            rank=5,
            most=3,
            asks=(
                "{What kind|What sort} of {movie|film|story} is $title?",
                "{When was $title made|When did $title come out|How old is $title}?",
                "What year is $title from?",
                "{Is $title|Do you know if $title is} {light or heavy|more serious or more light}?",
                "{What genre is $title|Which genre is that, $title}?",
            ),
            cues=(
                "mood",
                "tone",
                "light",
                "slow",
                "gentle",
                "kind",
                "sort",
                "shelf",
                "file",
                "cheerful",
                "calm",
                "label",
                "genre",
                "serious",
            ),
            answers=("$title is {usually|mostly} filed under $values.",),
        ),
    ),
    Field(
        name="actor",
        clean=lexicon.clean_person,
        foreign_keys=("star", "stars", "cast"),
        rule="person",
        keep=4,
        weight=4,
        credit=True,
        phrases=("{with|starring|featuring} $value", "with $value in {them|the cast}"),
        bridges=("$value", "{the actor|} $value"),
        in_asides=True,
        in_reply=Clause("with $values"),
        in_prompt=Clause("with $values", 3),
        question=FilmQuestion(
            act="question_cast",
            rank=1,
            most=3,
            instead="director",
            asks=(
                "{Who is in|Who's in|Who stars in|Who plays in} $title?",
                "{Can you tell me|Do you know} who {plays in|stars in|is in} $title?",
                "{Which actors|What actors} are in $title?",
                "{I haven't seen|I don't know} $title. {Who is in it|Who stars in it|Who plays in it}?",
                "Is there {anybody|anyone} I'd know in $title?",
            ),
            cues=("who", "actors", "cast", "plays", "anybody", "anyone", "faces"),
            answers=(
                "$title {has|features} $values.",
                "{In $title you see|The cast of $title includes} $values.",
            ),
        ),
        cues=("with", "starring", "featuring", "actor", "actress", "cast"),
        people_ask=("actors?", "actress", "cast", "stars?"),
    ),
    Field(
        name="director",
        clean=lexicon.clean_person,
        foreign_keys=("directors",),
        rule="person",
        keep=5,
        weight=3,
        credit=True,
        phrases=("{directed by|made by} $value", "directed by $value"),
        bridges=("$value", "{the director|} $value"),
        in_asides=True,
        in_reply=Clause("{directed|made} by $values"),
        in_prompt=Clause("directed by $values"),
        question=FilmQuestion(
            act="question_maker",
            rank=2,
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
        cues=("directed", "made", "director", "by"),
        people_ask=("director", "directed"),
    ),
    Field(
        name="writer",
        clean=lexicon.clean_person,
        foreign_keys=("writers",),
        rule="person",
        keep=3,
        phrases=("written by $value", "{scripted by|from a script by} $value"),
        bridges=("$value", "{the writer|} $value"),
        question=FilmQuestion(
            rank=3,
            instead="director",
            cues=("wrote", "script", "paper"),
            answers=("$title was written by $values.", "The script of $title is by $values."),
        ),
        cues=("written", "scripted", "script", "writer"),
        shared_cues=("by",),
    ),
    Field(
        name="language",
        clean=lexicon.clean_language,
        aliases="languages",
        foreign_keys=("languages",),
        rule="name",
        keep=2,
        phrases=("in $value", "{spoken in|in} $value"),
        bridges=("the sound of $value", "{spoken|the sound of} $value"),
        in_prompt=Clause("in $values"),
    ),
    Field(
        name=YEAR_FIELD,
        clean=lexicon.clean_year,
        foreign_keys=("release year", "released", "release date", "start year"),
        rule="plain",
        pattern=r"(?:19|20)\d\d",
        keep=1,
        many=False,
        phrases=("{from|made in|released in} $value",),
        people_say_values=False,
        question=FilmQuestion(
            rank=6,
            instead="genre",
            cues=("long", "when", "year", "old"),
            answers=("$title {is from|was made in|came out in} $values.",),
        ),
    ),
)

# Only where a catalogue is asked for it (``sample+plot``): what is made with it is another experiment, with
# other scenarios and more concepts.
_PLOT_FIELD = Field(
    name=PLOT,
    key="plot_keywords",
    clean=lexicon.clean_keyword,
    aliases="plot_words",
    rule="plot",
    keep=2.2,
    weight=3,
    phrases=("about $value", "{with a plot|with a story} about $value"),
    bridges=("the theme of $value", "stories about $value"),
    in_reply=Clause("about $values"),
    in_prompt=Clause("about $values", 3),
    cues=("about", "plot", "plots", "story", "stories", "theme", "themes", "deals", "turns"),
    people_ask=("plot", "story"),
)


def by_name(rows: Iterable[Field]) -> Mapping[str, Field]:
    """Fields by their names, in their order; the mapping cannot be changed."""
    return MappingProxyType({row.name: row for row in rows})


FIELDS = by_name(_MOVIE_FIELDS)
ALL_FIELDS = by_name([*_MOVIE_FIELDS, _PLOT_FIELD])
# The fields of marks (a film's title is one) in the order of their colours, in dialogues and traces.
TINTED = ("genre", "actor", "director", "writer", "language", PLOT, YEAR_FIELD, "title")
PERSON_FIELDS = tuple(name for name, row in FIELDS.items() if row.rule == "person")
CREDIT_FIELDS = tuple(name for name, row in FIELDS.items() if row.credit)
ASIDE_FIELDS = tuple(name for name, row in FIELDS.items() if row.in_asides)
(GOAL_FIELD,) = [name for name, row in FIELDS.items() if row.goal]


def relaxation_order(rows: Mapping[str, Field]) -> tuple[str, ...]:
    """The fields in the order in which a query gives them up: the smallest ``keep`` first."""
    return tuple(sorted(rows, key=lambda name: rows[name].keep))


RELAXATION_ORDER = relaxation_order(ALL_FIELDS)


def _questions() -> Mapping[str, FilmQuestion]:
    questions = {PLOT: PLOT_QUESTION}
    for row in _MOVIE_FIELDS:
        if row.question:
            questions[row.name] = row.question
    ranked = sorted(questions.items(), key=lambda entry: entry[1].rank)
    return MappingProxyType(dict(ranked))


QUESTIONS = _questions()  # by the field that answers, or "plot", in the order of their ranks
QUESTION_ACTS = MappingProxyType({question.act: question for question in QUESTIONS.values() if question.act})

TITLE_NAMES = ("title", "name")
PLOT_NAMES = ("plot", "plot_keywords", "plot_kw")


def get(name: str, rows: Mapping[str, Field] = ALL_FIELDS) -> Field:
    """The row of a field, of ``rows`` or of films; InputError with a suggestion for a name that is none."""
    row = rows.get(name) or ALL_FIELDS.get(name)
    if row is None:
        raise unknown("field", name, {**ALL_FIELDS, **rows})
    return row


def most_telling(rows: Mapping[str, Field] = ALL_FIELDS) -> list[Field]:
    """The fields in the order in which a film is described: the last that relaxation gives up comes first."""
    return sorted(rows.values(), key=lambda row: -row.keep)


def concept(field: str, value: str) -> str:
    """The key of a concept, ``field=value`` with the value folded: ``actor=penelope cruz``."""
    return f"{field}={fold(value)}"


def plot_keywords(text: str) -> list[str]:
    """The words of a plot or utterance, each once: of four letters or more, no function or film words."""
    empty = lexicon.words("no plot words")
    keywords: dict[str, None] = {}
    for word in words(text):
        if len(word) >= 4 and word.isalpha() and word not in empty:
            keywords[word] = None
    return list(keywords)


def lower_case_words(texts: Iterable[str]) -> frozenset[str]:
    """The folded words that occur in texts with a small first letter."""
    small: set[str] = set()
    for text in texts:
        for part in text.split():
            if part[0].islower():
                small.update(words(part))
    return frozenset(small)
