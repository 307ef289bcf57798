"""A catalogue of ten invented films, small enough to answer every query on paper."""

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder


def film(year, genre, actor, director, writer, language, plot=""):
    return {
        "year": year, "genre": genre, "actor": actor, "director": director, "writer": writer,
        "language": language, "plot": plot,
    }  # fmt: skip


RECORDS = {
    "Harbour Lights": film("1951", ["Drama"], ["Ada Quill", "Ben Orr"], ["Zoe Tarn"], ["Zoe Tarn"], ["English"]),
    "Paper Kites": film("1962", ["Drama", "Comedy"], ["Ada Quill"], ["Zoe Tarn"], ["Ivo Lund"], ["French"]),
    "Cold Orchard": film("1962", ["Drama"], ["Cy Hale"], ["Ivo Lund"], ["Ivo Lund"], ["French", "English"]),
    "The Tin Parrot": film("1975", ["Comedy"], ["Ada Quill", "Cy Hale"], ["Ivo Lund"], ["Mo Reed"], ["English"]),
    "Her": film("1988", ["Drama"], ["Ben Orr"], ["Zoe Tarn"], ["Mo Reed"], ["Polish"], "A clerk writes to her."),
    "Iron Valley": film("1988", ["War", "Drama"], ["Cy Hale"], ["Zoe Tarn"], ["Mo Reed"], ["English"]),
    "1947": film("1990", ["War"], ["Stig"], ["Zoe Tarn"], ["Mo Reed"], ["Romanian"]),
    "Lantern Street": film("1999", ["Comedy"], ["Ben Orr"], ["Ivo Lund"], ["Ivo Lund"], ["English"]),
    "Lantern Street (again)": {"name": "Lantern Street", **film("2015", ["Comedy"], ["Cy Hale"], ["Pia Voss"], ["Ivo Lund"], ["English"])},
    "Only Pages": film("2001", ["Drama", "Comedy"], [], [], ["Mo Reed"], ["English"], "Rain falls on a war memorial."),
}  # fmt: skip
TITLES = [record.get("name", title) for title, record in RECORDS.items()]


def catalog():
    """The ten films; the last has neither actor nor director and is never recommended."""
    return Catalog.from_records(RECORDS.items(), "ten films")


def grounder(**options):
    return Grounder(catalog(), **options)
