"""Vocabularies written by us, and the value that a raw label of a catalogue stands for, or why it is dropped.

A label becomes a genre only as a whole (``Science Fiction`` and ``sci-fi`` are one, ``United Kingdom``
is none); nothing is ever cut out of the middle of a label.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

GENRES: dict[str, tuple[str, ...]] = {
    "Action": ("action film", "action movie"),
    "Adventure": ("adventure film", "adventure movie", "swashbuckler"),
    "Animation": ("animated", "animated film", "animated movie", "anime", "computer animation"),
    "Biography": ("biographical", "biographical film", "biopic", "biographic"),
    "Black Comedy": ("dark comedy", "gallows humor", "gallows humour"),
    "Comedy": ("comedic", "comedies", "comedy film", "comedy movie", "humor", "humour"),
    "Coming-of-Age": ("coming of age story", "coming-of-age film"),
    "Crime": ("crime fiction", "crime film", "crime movie"),
    "Disaster": ("disaster film", "disaster movie"),
    "Documentary": ("documentary film", "docudrama"),
    "Drama": ("dramas", "drama film", "dramatic", "melodrama"),
    "Dystopia": ("dystopian", "dystopian fiction", "utopian and dystopian fiction", "dystopian film"),
    "Erotica": ("erotic", "erotic film", "erotic thriller"),
    "Family": ("family film", "family movie", "children's film", "children's"),
    "Fantasy": ("fantasy film", "fantasy movie", "fairy tale", "dark fantasy"),
    "Film Noir": ("noir", "film-noir", "neo-noir", "noir film"),
    "Gangster": ("gangster film", "mafia", "mob film"),
    "Heist": ("heist film", "caper story", "caper film"),
    "History": ("historical", "historical film", "historical drama", "historical period drama",
                "historical fiction", "costume drama", "period piece", "period drama", "epic film"),
    "Holiday": ("christmas", "christmas film", "christmas movie", "holiday film"),
    "Horror": ("horror film", "horror movie", "horror fiction", "scary", "slasher", "slasher film"),
    "Martial Arts": ("martial arts film", "kung fu", "wuxia", "karate"),
    "Monster": ("monster film", "monster movie", "creature film", "kaiju"),
    "Music": ("music film", "musical film drama", "concert film"),
    "Musical": ("musical film", "musicals", "musical comedy", "musical drama"),
    "Mystery": ("mystery film", "mystery fiction", "mysteries", "whodunit", "detective fiction", "detective"),
    "Parody": ("spoof", "parody film", "spoof film"),
    "Political": ("political drama", "political film", "political thriller", "political cinema"),
    "Road Movie": ("road film", "road trip"),
    "Romance": ("romantic", "romance film", "romance movie", "romantic drama", "love story", "romances"),
    "Romantic Comedy": ("rom-com", "romcom", "romantic comedy film", "screwball comedy"),
    "Satire": ("satirical", "satire film"),
    "Science Fiction": ("sci-fi", "scifi", "sci-fi film", "science fiction film", "science-fiction"),
    "Sport": ("sports", "sports film", "sports movie", "sport film"),
    "Spy": ("spy film", "spy fiction", "espionage", "spy thriller"),
    "Superhero": ("superhero film", "superhero movie", "superheroes", "superhero fiction"),
    "Supernatural": ("supernatural fiction", "supernatural film", "ghost story", "paranormal"),
    "Teen": ("teen film", "teen movie", "teen drama", "teen comedy"),
    "Thriller": ("thrillers", "thriller film", "suspense", "psychological thriller", "action thriller",
                 "crime thriller"),
    "Vampire": ("vampire film", "vampire fiction", "vampires"),
    "War": ("war film", "war movie", "anti-war film", "anti-war", "combat films"),
    "Western": ("western film", "westerns", "western fiction", "spaghetti western"),
    "Zombie": ("zombie film", "zombies", "zombie fiction"),
}  # fmt: skip
# Genres whose names, in small letters, do not go before a noun: "sports movies", not "sport movies".
BEFORE_NOUN: dict[str, str] = {
    "animation": "animated", "biography": "biographical", "dystopia": "dystopian", "film noir": "noir",
    "history": "historical", "road movie": "road trip", "sport": "sports",
}  # fmt: skip

# Name (database codes): further spellings. Codes are cleaned into names, but never looked for in text ("Ron",
# "rum", "per" and "nor" are words).
_LANGUAGES = re.findall(
    r"(\S+)(?: \(([a-z ]+)\))?(?:: ([a-z ,]+))?(?:;|$)",
    " ".join(
        """
    Arabic (ara); Cantonese (yue): cantonese chinese, yue chinese; Czech (cze ces); Danish (dan);
    Dutch (dut nld): flemish; English (eng): american english, british english; Filipino (fil tgl):
    tagalog; Finnish (fin); French (fre fra); German (ger deu); Greek (gre ell): modern greek; Hebrew
    (heb): modern hebrew; Hindi (hin); Hungarian (hun): magyar; Icelandic (ice isl); Italian (ita);
    Japanese (jpn); Khmer: central khmer; Korean (kor); Latin (lat); Mandarin (cmn): standard
    mandarin, standard chinese, mandarin chinese; Norwegian (nor): norwegian bokmal; Persian (per
    fas): farsi; Polish (pol); Portuguese (por): brazilian portuguese; Romanian (rum ron); Russian
    (rus); Serbian (srp); Serbo-Croatian (hbs); Spanish (spa): castilian; Swedish (swe); Thai (tha);
    Turkish (tur); Ukrainian (ukr); Vietnamese (vie); Zulu (zul)
    """.split()
    ),
)
LANGUAGES = {name: tuple(filter(None, others.split(", "))) for name, _, others in _LANGUAGES}
LANGUAGE_CODES = {code: name for name, codes, _ in _LANGUAGES for code in codes.split()}

NOT_A_LANGUAGE = frozenset({"language", "none", "silent", "silent film", "no dialogue", "unknown", "n a"})
NOT_A_PERSON = frozenset({"unknown", "n a", "na", "none", "various", "anonymous", "uncredited"})

# What plots are about, as the sample says it, with other forms; a form that is a genre's too is left out.
_PLOT_WORDS = """
    aeroplanes: aeroplane; affairs: affair; aliens: alien; animals: animal; assassins: assassin
    banks: bank; bombs: bomb; brothers: brother; cinema: cinemas; computers: computer; secrets: secret
    courts: court; cowboys: cowboy; dancing: dance; deserts: desert; disguise: disguises; dreams: dream
    drugs: drug; escape: escapes; farms: farm; fathers: father; forests: forest; friendship: friendships
    ghosts: ghost; hospitals: hospital; hotels: hotel; hunting: hunt; illness: illnesses; islands: island
    journeys: journey; kidnapping: kidnappings; kings: king; knights: knight; letters: letter
    marriage: marriages; memory: memories; mothers: mother; mountains: mountain; murder: murders
    musicians: musician; nazis: nazi; newspapers: newspaper; obsession: obsessions; orphans: orphan
    painters: painter; prison: prisons; racing: race; rebellion: rebellions; refugees: refugee
    religion: religions; robbery: robberies; robots: robot; school: schools; scientists: scientist
    servants: servant; ships: ship; singers: singer; sisters: sister; soldiers: soldier; suicide: suicides
    swindles: swindle; the sea: sea; theatre: theatres; trains: train; treasure: treasures; twins: twin
    villages: village; witches: witch; writers: writer
"""
_PAIRS = (pair.strip().split(": ") for pair in re.split("[;\n]", _PLOT_WORDS) if pair.strip())
PLOT_WORDS: dict[str, tuple[str, ...]] = {word: (form,) for word, form in _PAIRS}


def words(name: str) -> frozenset[str]:
    """The plain words of a section of ``prompts/movies/lexicon.wording``, such as "common words"."""
    return prompts.vocabulary("lexicon", name)


def is_common(form: str) -> bool:
    """Whether a word is an everyday one: a title of such words alone needs a sign that it is meant."""
    return form in words("common words")


@cache
def weak_genres() -> frozenset[str]:
    """Genre names that are everyday nouns: found only beside a film word or another genre."""
    return words("weak genres") | {"children s", "fairy tale", "love story", "period piece", "road trip"}


FIRST_FILM_YEAR = 1900


class Cleaned(NamedTuple):
    """The value of a cleaned label, or None with the reason why the label is dropped."""

    value: str | None
    reason: str = ""


def _without_suffix(raw: str) -> str:
    """The label without trailing ``(…)`` and ``#n`` marks."""
    return re.sub(r"(\s*(\([^()]*\)|#\d+))+\s*$", "", raw).strip()


def _tidy(raw: str) -> str:
    return " ".join(raw.split())


def clean_name(raw: str) -> Cleaned:
    """Any name, without trailing marks such as ``(place)`` or ``#2``; a label without words is dropped."""
    name = _tidy(_without_suffix(raw))
    return Cleaned(name) if fold(name) else Cleaned(None, "empty")


def _cleaner(aliases: Mapping[str, tuple[str, ...]]) -> Callable[[str], Cleaned]:
    """A cleaning rule for names with aliases: every alias becomes the value that it stands for."""
    value_of = {fold(form): value for value, others in aliases.items() for form in (value, *others)}

    def clean(raw: str) -> Cleaned:
        found = clean_name(raw)
        return found if found.value is None else Cleaned(value_of.get(fold(found.value), found.value))

    return clean


def clean_person(raw: str) -> Cleaned:
    """A person's name without role marks; placeholders and database keys are dropped."""
    found = clean_name(raw)
    folded = fold(found.value or "")
    key = folded in NOT_A_PERSON or re.fullmatch(r"nm\d+", folded)
    return Cleaned(None, "no person's name") if key else found


_PLOT_WORD = _cleaner(PLOT_WORDS)


def clean_keyword(raw: str) -> Cleaned:
    """A plot keyword in small letters; a plural and its singular are one."""
    found = _PLOT_WORD(raw)
    return found if found.value is None else Cleaned(found.value.lower())


_GENRE_OF = {fold(form): genre for genre, aliases in GENRES.items() for form in (genre, *aliases)}
_LANGUAGE_OF = LANGUAGE_CODES | {
    fold(form): language for language, aliases in LANGUAGES.items() for form in (language, *aliases)
}
_WORD_LANGUAGE = re.compile(r"(?<!\bsign)[\s-]+languages?$", re.IGNORECASE)


def clean_genre(raw: str) -> Cleaned:
    """The genre that the whole label names; a label that names none is dropped as a theme."""
    for label in (raw, _without_suffix(raw)):
        folded = fold(label)
        for candidate in (folded, re.sub(r" (film|films|movie|movies|fiction)$", "", folded)):
            if candidate in _GENRE_OF:
                return Cleaned(_GENRE_OF[candidate])
    return Cleaned(None, "empty" if not fold(raw) else "no genre")


def open_genre(raw: str) -> Cleaned:
    """As :func:`clean_genre`; a label of up to three words that names no known genre is one of its own."""
    found = clean_genre(raw)
    if found.value is None and 0 < len(fold(raw).split()) <= 3:
        return Cleaned(_tidy(raw).title())
    return found


def clean_language(raw: str) -> Cleaned:
    """The language's English name: "French Language", "French" and "fre" are one, "Sign Language" stays."""
    label, before = _tidy(_without_suffix(raw)), ""
    while label != before:
        before, label = label, _without_suffix(_WORD_LANGUAGE.sub("", label))
    folded = fold(label)
    if not folded or folded in NOT_A_LANGUAGE:
        return Cleaned(None, "empty" if not folded else "no language")
    return Cleaned(_LANGUAGE_OF.get(folded, label))


def clean_year(raw: str) -> Cleaned:
    """The year as four digits, dropped before the first films; InputError for text that is no number."""
    text = raw.strip()
    if not text:
        return Cleaned(None, "empty")
    if not re.fullmatch(r"-?\d{1,4}", text):
        raise InputError(f"year {raw!r} is no number; give four digits such as 1994, or leave it empty")
    if int(text) < FIRST_FILM_YEAR:
        return Cleaned(None, f"before {FIRST_FILM_YEAR}")
    return Cleaned(str(int(text)))
