"""What goes in as a plain table comes out of every public form as it went in, and every row is in the balance."""

import csv
import io
import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crs_lib.catalog import Grounder, lexicon, sources
from crs_lib.core.text import fold

GENRES = ("Action", "Comedy", "Crime", "Drama", "Horror", "Romance", "Science Fiction", "War")
WORDS = "amber bridge castle dune ember falcon garden harbour island jade kettle lantern meadow night orchard".split()
ARTICLES = ("The", "A", "Les", "Il", "Der", "El")
ENDS = ("", " II", " 3", " & Sons", ": The Return", "!")
NOTHING = ("", "N/A", "\\N", "nan", "(no genres listed)")
PEOPLE = ("Ada Held", "Gus Frey", "Sam Davis, Jr.", "Éva Szép", "Jan de Wit")
IMDB = "tconst titleType primaryTitle originalTitle isAdult startYear endYear runtimeMinutes genres".split()


@st.composite
def titles(draw):
    """A title, with an article or without."""
    article = draw(st.sampled_from(("", *ARTICLES)))
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    return f"{article} {' '.join(words).title()}".strip() + draw(st.sampled_from(ENDS))


FILM = st.fixed_dictionaries(
    {
        "title": titles(),
        "year": st.integers(1901, 2025),
        "genres": st.lists(st.sampled_from(GENRES), max_size=3, unique=True),
        "actors": st.lists(st.sampled_from(PEOPLE), max_size=2, unique=True),
        "nothing": st.sampled_from(NOTHING),
    }
)


def has_genre(films):
    """Whether any film has a genre, without which a table is no catalogue."""
    return any(film["genres"] for film in films)


FILMS = st.lists(FILM, min_size=1, max_size=8).filter(has_genre)


def table(head, rows, separator=","):
    """The bytes of a table with a separator."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode()


def behind(title):
    """A title as MovieLens writes it."""
    first, _, name = title.partition(" ")
    return f"{name}, {first}" if first in ARTICLES else title


def dated(film):
    return f"{behind(film['title'])} ({film['year']})"


def bars(film):
    return "|".join(film["genres"]) or film["nothing"]


def objects(names):
    """The names as TMDB lists them."""
    return [{"id": number, "name": name} for number, name in enumerate(names)]


def plain(films):
    rows = []
    for number, film in enumerate(films):
        rows.append((number, film["title"], film["year"], bars(film), "|".join(film["actors"])))
    return "plain.csv", table(("id", "title", "year", "genre", "actor"), rows)


def movielens(films):
    rows = [(number, dated(film), bars(film)) for number, film in enumerate(films)]
    return "movies.csv", table(("movieId", "title", "genres"), rows)


def dat(films):
    lines = [f"{number}::{dated(film)}::{bars(film)}\n" for number, film in enumerate(films)]
    return "movies.dat", "".join(lines).encode("latin-1")


def flags(films):
    lines = []
    for number, film in enumerate(films):
        names = "|".join(film["genres"]).replace("Science Fiction", "Sci-Fi").split("|")
        cells = [str(number), dated(film), f"01-Jan-{film['year']}", "", "http://x"]
        cells += [str(int(flag in names)) for flag in lexicon.headless("flags")]
        lines.append("|".join(cells))
    return "u.item", "\n".join(lines).encode("latin-1")


def imdb(films):
    lines = ["\t".join(IMDB)]
    for number, film in enumerate(films):
        title = film["title"]
        genres = ",".join(film["genres"]) or "\\N"
        lines.append(f"{number}\tmovie\t{title}\t{title}\t0\t{film['year']}\t\\N\t\\N\t{genres}")
    return "title.basics.tsv", "\n".join(lines).encode()


def tmdb(films):
    rows = []
    for number, film in enumerate(films):
        genres = json.dumps(objects(film["genres"]))
        cast = json.dumps(objects(film["actors"]))
        rows.append((number, film["title"], f"{film['year']}-03-01", genres, cast))
    return "tmdb.csv", table(("id", "title", "release_date", "genres", "cast"), rows)


def kaggle(films):
    rows = []
    for number, film in enumerate(films):
        rows.append((number, film["title"], f"{film['year']}-03-01", str(objects(film["genres"]))))
    return "movies_metadata.csv", table(("id", "title", "release_date", "genres"), rows)


def omdb(films):
    lines = []
    for number, film in enumerate(films):
        record = {"Title": film["title"], "Year": f"{film['year']}–", "imdbID": f"tt{number}", "Plot": "N/A"}
        lines.append(json.dumps({**record, "Genre": ", ".join(film["genres"]) or "N/A"}))
    return "omdb.jsonl", "\n".join(lines).encode()


def recbole(films):
    lines = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tgenre:token_seq"]
    for number, film in enumerate(films):
        genres = " ".join(film["genres"]).replace("Science Fiction", "Sci-Fi")
        lines.append(f"{number}\t{film['title']}\t{film['year']}\t{genres}")
    return "ml.item", "\n".join(lines).encode()


def parquet(films):
    frame = pd.DataFrame(films)
    frame["year"] = frame["year"].astype(float)
    frame["genres"] = frame["genres"].map(objects)
    content = io.BytesIO()
    frame[["title", "year", "genres"]].reset_index(names="id").to_parquet(content)
    return "films.parquet", content.getvalue()


def excel(films):
    rows = [(number, film["title"], film["year"], bars(film)) for number, film in enumerate(films)]
    content = io.BytesIO()
    frame = pd.DataFrame(rows, columns=["ID", "Movie Name", "Release Year", "Genres"])
    frame.to_excel(content, index=False)
    return "films.xlsx", content.getvalue()


FORMS = (movielens, dat, flags, imdb, tmdb, kaggle, omdb, recbole, parquet, excel)


def read(folder, file):
    """The catalogue of a file, given as its name and its bytes."""
    name, content = file
    path = folder / name
    path.write_bytes(content)
    return sources.load(path)


def shown(catalog):
    """Title, year and genres of every film."""
    return [(item.title, item.year, sorted(item.values["genre"])) for item in catalog.items]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(films=FILMS)
def test_every_public_form_gives_the_films_of_the_plain_table(tmp_path, films):
    first = read(tmp_path, plain(films))
    assert [item.title for item in first.items] == [film["title"] for film in films]
    for form in FORMS:
        catalog = read(tmp_path, form(films))
        report = catalog.report
        accounted = len(catalog) + len(report.merged_films) + len(report.left_out)
        assert shown(catalog) == shown(first), form.__name__
        assert report.films_read == len(films), form.__name__
        assert report.films_read == accounted, form.__name__


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(films=FILMS)
def test_a_title_is_found_with_its_article_on_either_side(tmp_path, films):
    catalog = read(tmp_path, movielens(films))
    grounder = Grounder(catalog)
    for film in films:
        title = film["title"]
        for written in (title, behind(title), title.replace("&", "and")):
            named = set()
            for mention in grounder.titles(f"You could watch {written} ({film['year']})."):
                item = catalog.items[mention.item]
                named.add((fold(item.title), item.year))
            assert (fold(title), film["year"]) in named, written
