"""Bounds before reading: what is too large ends in one sentence that names the setting that raises the limit.

The full test makes the bombs and reads each in a process of its own, whose time and memory are watched.
"""

import gzip
import io
import json
import subprocess
import sys
import time
import zipfile

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crs_lib import data
from crs_lib.catalog import sources, titles
from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.systems import contract
from crs_lib.systems.programs import Programs
from tests.helpers import refused
from tests.helpers.raw_server import RawServer, http_answer

SECONDS = 5
MEGABYTES = 300
BLANKS = " " * 400_000
READ = """
import resource, sys, time
from crs_lib.catalog import sources
from crs_lib import data
from crs_lib.core import safety
from crs_lib.core.errors import InputError
from pathlib import Path
kind, path = sys.argv[1:]
readers = {"catalog": sources.load, "log": lambda path: list(data.read(path))}
readers["yaml"] = lambda path: safety.read_yaml(Path(path))
began = time.perf_counter()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    readers[kind](path)
    print("read")
except InputError as error:
    print(error)
print(time.perf_counter() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_more_columns_than_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_MOST_COLUMNS", "3")
    path = tmp_path / "films.csv"
    path.write_text("title,year,genre,plot\nAlma,1990,Drama,x\n", encoding="utf-8")
    refused(
        "films.csv: the number of its columns is 4, the limit is 3 .* CRS_MOST_COLUMNS=4", sources.load, path
    )


def test_keys_of_json_lines_are_columns_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_MOST_COLUMNS", "3")
    path = tmp_path / "films.jsonl"
    path.write_text('{"title": "A", "a": 1}\n{"title": "B", "b": 1, "c": 2}\n', encoding="utf-8")
    refused("columns .* CRS_MOST_COLUMNS=4", sources.load, path)


@pytest.mark.parametrize(("limit", "most"), [("ROWS", 5), ("CELLS", 11)])
def test_a_parquet_file_tells_its_size_before_it_is_read(tmp_path, monkeypatch, limit, most):
    monkeypatch.setenv(f"CRS_MOST_{limit}", str(most))
    path = tmp_path / "films.parquet"
    pq.write_table(pa.table({"title": ["A"] * 6, "genre": ["Drama"] * 6}), path)
    refused(rf"films.parquet: the number of its {limit.lower()} is .* CRS_MOST_{limit}=", sources.load, path)


@pytest.mark.parametrize("name", ["films.csv", "films.dat", "films.jsonl", "films.tsv"])
def test_a_line_beyond_the_limit_is_refused_before_it_is_read_whole(tmp_path, monkeypatch, name):
    monkeypatch.setenv("CRS_MOST_LINE_CHARACTERS", "200")
    path = tmp_path / name
    first = "title,genre\n" if name.endswith(("csv", "dat", "tsv")) else ""
    path.write_text(first + "x" * 1_000, encoding="utf-8")
    refused("it has more than 201, the limit is 200 .* CRS_MOST_LINE_CHARACTERS", sources.load, path)


def test_a_line_of_a_log_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_MOST_LINE_CHARACTERS", "100")
    path = tmp_path / "log.jsonl"
    path.write_text('{"conversation": "' + "x" * 1_000 + '"}', encoding="utf-8")
    refused("CRS_MOST_LINE_CHARACTERS", lambda: list(data.read(path)))


def test_a_row_with_a_cell_beyond_the_limit_is_left_out_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_MOST_CELL_CHARACTERS", "100")
    path = tmp_path / "films.csv"
    path.write_text(f"title,genre,plot\nAlma,Drama,x\nNadja,Drama,{'y' * 101}\n", encoding="utf-8")
    report = sources.load(path).report
    (row,) = report.left_out
    assert row.row == 2
    assert "its 'plot' has 101 characters, the limit is 100; CRS_MOST_CELL_CHARACTERS" in row.reason


def test_a_title_of_a_thousand_characters_is_none(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text(f"title,genre\nAlma,Drama\n{'Long ' * 300},Drama\n", encoding="utf-8")
    catalog = sources.load(path)
    assert [film.title for film in catalog.items] == ["Alma"]
    assert "its title has 1,500 characters" in catalog.report.left_out[0].reason


@pytest.mark.parametrize("text", ["n: " + "1:" * 3_000 + "1", f"n: {'1' * 5_000}", f"n: 0x{'f' * 5_000}"])
def test_numbers_of_yaml_have_a_length(tmp_path, text):
    path = tmp_path / "fields.yaml"
    path.write_text(text, encoding="utf-8")
    refused("fields.yaml is not YAML: a number of .* characters in line 1", safety.read_yaml, path)


def test_yaml_has_a_length(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_MOST_YAML_BYTES", "100")
    path = tmp_path / "fields.yaml"
    path.write_text("a: b\n" * 100, encoding="utf-8")
    refused(
        "fields.yaml: it has 500, the limit is 100 bytes of YAML.*CRS_MOST_YAML_BYTES", safety.read_yaml, path
    )


@pytest.mark.parametrize("name", ["title", "genre", "language", "director", "year"])
def test_blanks_in_a_cell_leave_its_row_out_with_the_reason(tmp_path, name):
    cells = {"title": "Alma", "genre": "Drama", "language": "German", "director": "Nadja", "year": "1990"}
    cells[name] = f"Ger{BLANKS}man"
    path = tmp_path / "films.csv"
    path.write_text(f"{','.join(cells)}\n{','.join(cells.values())}\nNadja,Drama,,,\n", encoding="utf-8")
    began = time.process_time()
    catalog = sources.load(path)
    assert time.process_time() - began < SECONDS
    assert [film.title for film in catalog.items] == ["Nadja"]
    assert f"its '{name}' has 400,006 characters" in catalog.report.left_out[0].reason


def test_blanks_in_a_recommended_title_find_the_film():
    began = time.process_time()
    films, unknown = titles.films_named(
        sources.load(), [f"Metropolis{BLANKS}(1927)", f"Metropolis{BLANKS}of blanks"]
    )
    assert time.process_time() - began < SECONDS
    assert len(films) == 1
    assert unknown == ["Metropolis of blanks"]


def test_blanks_within_a_line_of_a_reply_are_read_in_time():
    text = f"1. Metropolis (1927){' ' * 900_000}- a film"
    began = time.process_time()
    with RawServer(http_answer({"response": text})) as server, Programs(None) as programs:
        request = contract.request("1", 1, 3, "sample", [("USER", "A film, please.")])
        answer = programs.ask(f"ievalm:{server.url}", request)
    assert time.process_time() - began < SECONDS
    assert answer.reply.startswith("1. Metropolis (1927)")


FILMS = b"title,genre\n" + b"Alma,Drama\n" * 20_000


def zipped(content, name="films.csv"):
    """A zip archive of one file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


PACKERS = {"gz": gzip.compress, "zip": zipped, "zst": zstd}


@pytest.mark.parametrize("packing", PACKERS)
def test_a_packed_catalogue_is_read_as_the_plain_one(tmp_path, packing):
    path = tmp_path / f"films.csv.{packing}"
    path.write_bytes(PACKERS[packing](b"title,genre\nAlma,Drama\nNadja,Horror\n"))
    assert [film.title for film in sources.load(path).items] == ["Alma", "Nadja"]


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("fault", ["cut off", "empty", "no archive", "packed twice", "a byte changed"])
def test_an_archive_that_is_damaged_ends_in_a_sentence(tmp_path, packing, fault):
    content = PACKERS[packing](FILMS)
    spoilt = {
        "cut off": content[: len(content) // 2],
        "empty": b"",
        "no archive": FILMS,
        "packed twice": PACKERS[packing](content),
        "a byte changed": content[:60] + b"\xff\x00\xff" + content[63:],
    }
    path = tmp_path / f"films.csv.{packing}"
    path.write_bytes(spoilt[fault])
    with pytest.raises(InputError) as refusal:
        sources.load(path)
    assert "\n" not in str(refusal.value)
    assert path.name in str(refusal.value)


def wide_csv(folder):
    names = ["title", "genre", *(f"c{number}" for number in range(100_000))]
    path = folder / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join(["x"] * len(names)) + "\n", encoding="utf-8")
    return "catalog", path


def long_parquet(folder):
    path = folder / "long.parquet"
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), pa.array(["Alma"]))
    table = pa.table({"title": words, "genre": words})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(60):
            writer.write_table(table)
    return "catalog", path


def long_line(name):
    def make(folder):
        path = folder / name
        piece = b"x" * 10_000_000
        with path.open("wb") as file:
            file.write(b"title,genre\n" if name.endswith("csv") else b'{"title": "')
            for _ in range(100):
                file.write(piece)
        return ("log" if name.startswith("log") else "catalog"), path

    return make


def packed_line(folder):
    path = folder / "films.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b" " * 10_000_000)
    return "catalog", path


def zip_in_zip(folder):
    inner = folder / "inner.zip"
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("films.csv", b"title,genre\n" + b"A,Drama\n" * 1_000_000)
    path = folder / "films.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(inner, "films.zip")
    return "catalog", path


def sheet_bomb(folder):
    plain = folder / "plain.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["title", "genre"])
    book.save(plain)
    path = folder / "films.xlsx"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            content = old.read(part)
            if part.endswith("sheet1.xml"):
                content = content.replace(b"</sheetData>", b" " * 300_000_000 + b"</sheetData>")
            new.writestr(part, content)
    return "catalog", path


def base_60(folder):
    path = folder / "fields.yaml"
    path.write_text("n: " + "1:" * 200_000 + "1", encoding="utf-8")
    return "yaml", path


def deep_json(folder):
    path = folder / "log.json"
    path.write_text(json.dumps({"conversation": []})[:-2] + "[" * 1_000_000, encoding="utf-8")
    return "log", path


BOMBS = {
    "a CSV of 100,000 columns": wide_csv,
    "a Parquet file of 60 million rows": long_parquet,
    "a catalogue of one line of 1 GB": long_line("films.csv"),
    "JSON lines of one line of 1 GB": long_line("films.jsonl"),
    "JSON of one line of 1 GB": long_line("films.json"),
    "a log of one line of 1 GB": long_line("log.jsonl"),
    "a JSON log of one line of 1 GB": long_line("log.json"),
    "blanks of 1 GB, packed": packed_line,
    "an archive in an archive": zip_in_zip,
    "a sheet of 300 MB of blanks": sheet_bomb,
    "a number to base 60": base_60,
    "brackets a million deep": deep_json,
}


@pytest.mark.full
@pytest.mark.subprocess
@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_a_bomb_ends_in_a_sentence_within_its_time_and_memory(tmp_path, make):
    kind, path = make(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", READ, kind, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    sentence, told = result.stdout.strip().rsplit("\n", 1)
    seconds, megabytes = map(float, told.split())
    assert sentence != "read"
    assert "\n" not in sentence
    assert seconds < SECONDS
    assert megabytes < MEGABYTES
