"""Vocabularies written by us, and the value that a raw label of a catalogue stands for, or why it is dropped.

A label becomes a genre only as a whole (``Science Fiction`` and ``sci-fi`` are one, ``United Kingdom``
is none); nothing is ever cut out of the middle of a label.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

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

# Genre names that are everyday nouns: found only beside a film word or another genre.
WEAK_GENRES = frozenset(
    """
    biographical christmas crime detective disaster dramatic espionage family historical history holiday
    humor humour karate mafia monster music mysteries mystery paranormal political scary sport sports
    spy superheroes supernatural suspense teen vampire vampires war zombie zombies
    """.split()
) | {"children s", "fairy tale", "love story", "period piece", "road trip"}
FILM_WORDS = frozenset(
    """
    cinema classic classics comedies comedy drama dramas epic epics feature features film films flick
    flicks genre genres movie movies picture pictures romp saga stories story tale tales thriller
    thrillers title titles
    """.split()
)

COMMON_WORDS = frozenset(
    """
    a able about above across act after again against ago air all alone along already also always am
    among an and animal another any anyone anything apart are area arms around art as ask at away back
    bad ball band bank bar base be beach bear beast beautiful beauty because bed been before began begin
    behind being believe below best better between big bird birds black blood blow blue board boat body
    bone book born both box boy boys brave break bring broken brother brothers build burn bus business
    but buy by call came can cannot car card care carry cars case casino cast cat catch cause certain
    chance change chase child children choice choose city class clear close club clue cold color come
    company contact control cool could count country couple course court cover crash crazy crime cross
    cry cut dad dance danger dark date daughter day days dead deal dear death deep did die different
    dinner dirty do doctor does dog dogs done door doubt down draw dream dreams dress drive drop during
    each early earth east easy eat edge eight elephant else end enemy enough even evening ever every
    everyone everything evil except eye eyes face fact fall family fan far fast fat father fear feel few
    field fight file final find fine fire first fish five flag flight fly follow food for force forest
    forever forget fork four free freedom fresh friend friends from front frozen full fun funny game
    games garden gas gave get ghost giant gift girl girls give glass go god gold gone good got grand
    grave gravity great green ground group grow guess gun guy guys had hair half hand hands happen
    happiness happy hard has hat hate have he head hear heart heat heavy held hell hello help her here
    hero herself hey high hill him himself his history hit hold hole holiday home hope horse hot hour
    hours house how however human hundred hunger hunt hurry husband i ice idea if ill in inside into
    iron is island it its itself job join joy judge jump jungle just keep key kid kids kill killer kind
    king kiss knew know lady lamb land large last late later laugh law lead learn leave left legend less
    let letter letters level life light like line lion list listen little live lives local lock long
    look lord lost lot loud love loved lover lovers low luck lucky lunch machine mad made magic make man
    many map mark mars mask master match matter may maybe me mean meet memory men might mile miles milk
    million mind mine minute mirror miss mission mist model modern mom moment money monkey monster month
    moon moral more morning most mother mountain mouse mouth move movie much mud murder music must my
    name near need net never new news next nice night nine no noise none nor north nose not note nothing
    notice now number ocean odd of off office often oh oil old on once one only open or orange order
    other others our out over own page pain paint pair paper parent park part party pass passion past
    path pay peace people perfect person piano pick picture piece pig place plan plane play please point
    police polish polite pool poor power precious present pretty price pride prince prison private
    problem promise proof public pull purple push put queen question quick quiet quite race rain ran ray
    reach read ready real reason red remember rest return rich ride right ring rise river road rock room
    rope rose round rule run rush sad safe said sail salt same sand save saw say school sea search
    season second secret see seem seen self send sense serious seven shadow shall share she ship shoes
    shop short shot should show shut side sign signs silence silent silver simple since sing singer
    sister sit six size skin sky sleep slow small smart smile smoke snake snatch snow so social soft
    soldier some someone something sometimes son song soon sorry soul sound south space speak special
    speed spell spend spirit spot spring stand star stars start state station stay steel step still
    sting stone stop store storm story straight strange street strong study such sudden summer sun super
    sure sweet swim table take tale talk tall taste teach team tell ten test than thank that the their
    them then there these they thing things think third this those though thought three through time
    times title to today together told tomorrow too took top total touch tough tower town toy traffic
    train trap travel treasure tree trip trouble true trust truth try turn twelve twenty twice two type
    uncle under unit until up upon us use usual vacation very view village visit voice wait walk wall
    want war warm was wash watch water wave way we weather wedding week weird well went were west what
    wheel when where which while whisper white who whole whom why wicked wide wife wild will win wind
    window wine winter wise wish with within without witness wolf woman women wonder wood word words
    work world worry would write wrong yard year years yellow yes yesterday yet you young your yourself
    youth
    """.split()
)

# What plots are about, as the sample says it, with other forms; a form that is a genre's too is left out.
PLOT_WORDS: dict[str, tuple[str, ...]] = {
    "aeroplanes": ("aeroplane",), "affairs": ("affair",), "aliens": ("alien",), "animals": ("animal",),
    "assassins": ("assassin",), "banks": ("bank",), "bombs": ("bomb",), "brothers": ("brother",),
    "cinema": ("cinemas",), "computers": ("computer",), "secrets": ("secret",),
    "courts": ("court",), "cowboys": ("cowboy",), "dancing": ("dance",), "deserts": ("desert",),
    "disguise": ("disguises",), "dreams": ("dream",), "drugs": ("drug",), "escape": ("escapes",),
    "farms": ("farm",), "fathers": ("father",), "forests": ("forest",), "friendship": ("friendships",),
    "ghosts": ("ghost",), "hospitals": ("hospital",), "hotels": ("hotel",), "hunting": ("hunt",),
    "illness": ("illnesses",), "islands": ("island",), "journeys": ("journey",),
    "kidnapping": ("kidnappings",), "kings": ("king",), "knights": ("knight",), "letters": ("letter",),
    "marriage": ("marriages",), "memory": ("memories",), "mothers": ("mother",),
    "mountains": ("mountain",), "murder": ("murders",), "musicians": ("musician",), "nazis": ("nazi",),
    "newspapers": ("newspaper",), "obsession": ("obsessions",), "orphans": ("orphan",),
    "painters": ("painter",), "prison": ("prisons",), "racing": ("race",),
    "rebellion": ("rebellions",), "refugees": ("refugee",), "religion": ("religions",),
    "robbery": ("robberies",), "robots": ("robot",), "school": ("schools",),
    "scientists": ("scientist",), "servants": ("servant",), "ships": ("ship",), "singers": ("singer",),
    "sisters": ("sister",), "soldiers": ("soldier",), "suicide": ("suicides",),
    "swindles": ("swindle",), "the sea": ("sea",), "theatre": ("theatres",), "trains": ("train",),
    "treasure": ("treasures",), "twins": ("twin",), "villages": ("village",), "witches": ("witch",),
    "writers": ("writer",),
}  # fmt: skip

# Words of four letters or more that say nothing of what a plot is about: function words, and films as such.
PLOT_STOP_WORDS = frozenset(
    """
    able about above across after again against ahead alike almost alone along already also although always
    amid among another anybody anyone anything anyway apart around aside away back became because become
    becomes becoming been before began begin begins behind being below beneath beside besides between beyond
    both bring brings brought came cannot certain come comes coming could despite does doing done down during
    each either else enough ever every everybody everyone everything exactly except fairly film films find
    finds five from gave gets getting give given gives giving goes going gone good great have having hence
    here hers herself himself however indeed inside instead into itself just keep keeps kept kind know known
    knows later least leave leaves left less like likely little long look looking looks lots made make makes
    making many maybe mean meanwhile might mine more most mostly movie movies much must myself near nearly
    need needs neither never nevertheless next nine nobody none nothing once only onto other others otherwise
    ours over part perhaps please plot plots quite rather really same seem seems seen several shall should
    show shows since some somebody somehow someone something sometimes somewhere soon start starts still
    story stories such suddenly sure take taken takes taking tell tells than that their them then there
    therefore these they thing things think thinks this those though three through throughout thus together
    told took toward towards tries trying turn turns under unless until upon used uses using usual very want
    wants well went were what whatever when whenever where whether which while whole whom whose will with
    within without would year years your yours yourself
    """.split()
)


# ── cleaning of single labels ──────────────────────────────────────────────────────────────────
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
    name = _tidy(_without_suffix(raw))
    folded = fold(name)
    if not folded:
        return Cleaned(None, "empty")
    if folded in NOT_A_PERSON or re.fullmatch(r"nm\d+", folded):
        return Cleaned(None, "no person's name")
    return Cleaned(name)


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
