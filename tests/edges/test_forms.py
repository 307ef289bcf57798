"""What goes in as a plain table comes out of every public form as it went in, and every row is in the balance."""

import csv
import io
import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crs_lib.catalog import Grounder, sources
from crs_lib.core.text import fold

GENRES = ("Action", "Comedy", "Crime", "Drama", "Horror", "Romance", "Science Fiction", "War")
FLAGS = (
    "unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical "
    "Mystery Romance Sci-Fi Thriller War Western"
).split()
WORDS = "amber bridge castle dune ember falcon garden harbour island jade kettle lantern meadow night orchard".split()
ARTICLES = ("", "The ", "A ", "Les ", "Il ", "Der ", "El ")
NOTHING = ("", "N/A", "\\N", "nan", "(no genres listed)")
PEOPLE = ("Ada Held", "Gus Frey", "Sam Davis, Jr.", "Éva Szép", "Jan de Wit")

film = st.fixed_dictionaries(
    {
        "title": st.builds(
            lambda article, words, number: article + " ".join(word.title() for word in words) + number,
            st.sampled_from(ARTICLES),
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
            st.sampled_from(("", " II", " 3", " & Sons", ": The Return", "!")),
        ),
        "year": st.integers(1901, 2025),
        "genres": st.lists(st.sampled_from(GENRES), max_size=3, unique=True),
        "actors": st.lists(st.sampled_from(PEOPLE), max_size=2, unique=True),
        "nothing": st.sampled_from(NOTHING),
    }
)
films = st.lists(film, min_size=1, max_size=8).filter(lambda drawn: any(one["genres"] for one in drawn))


def table(head, rows, separator=",", quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, quotechar='"', lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode()


def behind(title):
    """A title as MovieLens writes it."""
    for article in ARTICLES[1:]:
        if title.startswith(article):
            return f"{title.removeprefix(article)}, {article.strip()}"
    return title


def dated(one):
    return f"{behind(one['title'])} ({one['year']})"


def bars(one):
    return "|".join(one["genres"]) or one["nothing"]


def objects(names):
    return [{"id": number, "name": name} for number, name in enumerate(names)]


def plain(drawn):
    rows = [
        (number, one["title"], one["year"], bars(one), "|".join(one["actors"]))
        for number, one in enumerate(drawn)
    ]
    return "plain.csv", table(("id", "title", "year", "genre", "actor"), rows)


def movielens(drawn):
    rows = [(number, dated(one), bars(one)) for number, one in enumerate(drawn)]
    return "movies.csv", table(("movieId", "title", "genres"), rows)


def dat(drawn):
    lines = [f"{number}::{dated(one)}::{bars(one)}\n" for number, one in enumerate(drawn)]
    return "movies.dat", "".join(lines).encode("latin-1")


def flags(drawn):
    lines = []
    for number, one in enumerate(drawn):
        names = [name.replace("Science Fiction", "Sci-Fi") for name in one["genres"]]
        cells = [str(number), dated(one), f"01-Jan-{one['year']}", "", "http://x"]
        cells += [str(int(flag in names)) for flag in FLAGS]
        lines.append("|".join(cells) + "\n")
    return "u.item", "".join(lines).encode("latin-1")


def imdb(drawn):
    head = (
        "tconst titleType primaryTitle originalTitle isAdult startYear endYear runtimeMinutes genres".split()
    )
    lines = ["\t".join(head) + "\n"]
    for number, one in enumerate(drawn):
        cells = (
            number,
            "movie",
            one["title"],
            one["title"],
            0,
            one["year"],
            "\\N",
            "\\N",
            ",".join(one["genres"]) or "\\N",
        )
        lines.append("\t".join(map(str, cells)) + "\n")
    return "title.basics.tsv", "".join(lines).encode()


def tmdb(drawn):
    rows = []
    for number, one in enumerate(drawn):
        people = json.dumps(objects(one["actors"]))
        rows.append(
            (number, one["title"], f"{one['year']}-03-01", json.dumps(objects(one["genres"])), people)
        )
    return "tmdb.csv", table(("id", "title", "release_date", "genres", "cast"), rows)


def kaggle(drawn):
    rows = []
    for number, one in enumerate(drawn):
        rows.append((number, one["title"], f"{one['year']}-03-01", str(objects(one["genres"]))))
    return "movies_metadata.csv", table(("id", "title", "release_date", "genres"), rows)


def omdb(drawn):
    lines = []
    for number, one in enumerate(drawn):
        genres = ", ".join(one["genres"]) or "N/A"
        record = {
            "Title": one["title"],
            "Year": f"{one['year']}–",
            "Genre": genres,
            "imdbID": f"tt{number}",
            "Plot": "N/A",
        }
        lines.append(json.dumps(record) + "\n")
    return "omdb.jsonl", "".join(lines).encode()


def recbole(drawn):
    lines = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tgenre:token_seq\n"]
    for number, one in enumerate(drawn):
        genres = " ".join(one["genres"]).replace("Science Fiction", "Sci-Fi")
        lines.append(f"{number}\t{one['title']}\t{one['year']}\t{genres}\n")
    return "ml.item", "".join(lines).encode()


def parquet(drawn):
    frame = pd.DataFrame(
        {"title": [one["title"] for one in drawn], "year": [float(one["year"]) for one in drawn]}
    )
    frame["genres"] = [objects(one["genres"]) for one in drawn]
    content = io.BytesIO()
    frame.assign(id=range(len(drawn))).to_parquet(content)
    return "films.parquet", content.getvalue()


def excel(drawn):
    rows = [(number, one["title"], one["year"], bars(one)) for number, one in enumerate(drawn)]
    content = io.BytesIO()
    pd.DataFrame(rows, columns=["ID", "Movie Name", "Release Year", "Genres"]).to_excel(content, index=False)
    return "films.xlsx", content.getvalue()


FORMS = (movielens, dat, flags, imdb, tmdb, kaggle, omdb, recbole, parquet, excel)


def read(folder, file):
    name, content = file
    path = folder / name
    path.write_bytes(content)
    return sources.load(path)


def lines(catalog):
    """Title, year and genres of every film."""
    return [(item.title, item.year, sorted(item.values["genre"])) for item in catalog.items]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=films)
def test_every_public_form_gives_the_films_of_the_plain_table(tmp_path, drawn):
    wanted = lines(read(tmp_path, plain(drawn)))
    assert [title for title, _, _ in wanted] == [one["title"] for one in drawn]
    for form in FORMS:
        catalog = read(tmp_path, form(drawn))
        assert lines(catalog) == wanted, form.__name__
        report = catalog.report
        assert report.films_read == len(drawn), form.__name__
        assert report.films_read == len(catalog) + len(report.merged_films) + len(report.left_out), (
            form.__name__
        )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=films)
def test_a_title_is_found_with_its_article_on_either_side(tmp_path, drawn):
    catalog = read(tmp_path, movielens(drawn))
    grounder = Grounder(catalog)
    for one in drawn:
        for written in (one["title"], behind(one["title"]), one["title"].replace("&", "and")):
            mentions = grounder.titles(f"You could watch {written} ({one['year']}).")
            items = [catalog.items[mention.item] for mention in mentions]
            named = [(fold(item.title), item.year) for item in items]
            assert (fold(one["title"]), one["year"]) in named, written
