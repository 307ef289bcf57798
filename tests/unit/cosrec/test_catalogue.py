"""The catalogue end to end: join by hand, any number of parts, kill and resume, damage, formats."""

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from operator import itemgetter

import pytest
import zstandard

from crs_lib.core.errors import RunError
from crs_lib.cosrec import catalogue, catalogue_tables
from crs_lib.cosrec.catalogue import build
from crs_lib.cosrec.catalogue_rules import Options, clean, legacy_clean, price_of, product, review
from crs_lib.cosrec.catalogue_tables import FIELDS, decoder, encoder
from tests.helpers import amazon_fixture as fixture
from tests.helpers import refused, table

PACK = {".gz": partial(gzip.compress, mtime=0), ".zst": zstandard.compress}
UNPACK = {".gz": gzip.decompress, ".zst": zstandard.ZstdDecompressor().stream_reader}
FIRST = fixture.asin(1)
SECOND = fixture.asin(2)


def write(folder, name, metas, reviews, ends=".jsonl"):
    """The two files of a category in the folder ``in``."""
    inputs = folder / "in"
    inputs.mkdir(parents=True, exist_ok=True)
    for path, rows in ((inputs / f"meta_{name}{ends}", metas), (inputs / f"{name}{ends}", reviews)):
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        text = b"".join(line + b"\n" for line in lines)
        path.write_bytes(PACK.get(path.suffix, bytes)(text))


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def make(folder, out="out.jsonl", **settings):
    """Build the catalogue of the folder ``in``; returns its manifest."""
    return build(folder / "in", folder / "in", folder / out, Options(**settings))


def rows_of(folder, out="out.jsonl", **settings):
    make(folder, out, **settings)
    return read(folder / out)


def times(row):
    return [review["timestamp"] for review in row["valid_reviews"]]


def statistics(row):
    return row["num_valid_ratings"], row["avg_valid_ratings"]


def histogram(*counts):
    """How many ratings of 1 to 5 there are, as a product's line has it."""
    return dict(zip("12345", counts, strict=True))


def reviews_of(rows):
    """Reviews of the first product."""
    return [fixture.review(number, FIRST, **fields) for number, fields in rows]


def test_two_products_by_hand(tmp_path):
    reviews = reviews_of(table(__file__, "reviews"))
    write(tmp_path, "Home", [fixture.meta(2), fixture.meta(1)], reviews)
    manifest = make(tmp_path)
    rows = read(tmp_path / "out.jsonl")
    first, second = sorted(rows, key=itemgetter("parent_asin"))
    assert rows == [first, second]
    assert [first["parent_asin"], second["parent_asin"]] == [FIRST, SECOND]
    assert times(first) == [10, 30]
    assert [entry["rating"] for entry in first["valid_reviews"]] == [5, 5]
    assert [entry["helpful"] for entry in first["valid_reviews"]] == [7, 4]
    assert statistics(first) == (2, 5.0)
    assert first["valid_ratings"] == histogram(0, 0, 0, 0, 2)
    assert second["valid_reviews"] == []
    assert statistics(second) == (0, None)
    assert manifest["totals"]["reviews"] == {"read": 4, "kept": 3, "dropped: too short": 1}
    assert manifest["totals"]["joined"]["duplicate reviews"] == 1
    assert not (tmp_path / "out.jsonl.work").exists()


def test_legacy_repeats_the_original_statistics(tmp_path):
    metas = [fixture.meta(1, title="old"), fixture.meta(1, title="new one")]
    write(tmp_path, "Home", metas, reviews_of(table(__file__, "legacy_reviews")))
    (row,) = rows_of(tmp_path, legacy=True)
    assert row["title"] == "new one"  # the last of a category wins
    assert times(row) == [10, 30]
    # the histogram has five keys, and the average is the sum of ratings over those five: 11 / 5
    assert statistics(row) == (5, 11 / 5)
    assert row["valid_ratings"] == histogram(1, 0, 0, 0, 2)


def test_a_product_of_two_categories_is_kept_once_with_all_reviews(tmp_path):
    for name, number in (("Alpha", 1), ("Beta", 2)):
        metas = [fixture.meta(1, title=f"in {name}")]
        write(tmp_path, name, metas, [fixture.review(number, FIRST, timestamp=number)])
    manifest = make(tmp_path)
    (row,) = read(tmp_path / "out.jsonl")
    assert row["title"] == "in Alpha"
    assert times(row) == [1, 2]
    assert manifest["totals"]["joined"]["duplicate products"] == 1
    first, second = rows_of(tmp_path, "legacy.jsonl", legacy=True)
    assert [first["title"], second["title"]] == ["in Alpha", "in Beta"]
    assert times(first) == [1]
    assert times(second) == [2]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    fixture.write_category(folder / "in", "Alpha", 120, 2_500, seed=3)
    fixture.write_category(folder / "in", "Beta", 120, 2_500, seed=3, first=80, packed=True)
    make(folder, "whole.jsonl", parts=1)
    return folder


def whole(large):
    return (large / "whole.jsonl").read_bytes()


def totals(manifest):
    return json.loads(manifest.read_text())["totals"]


def of_large(large, out, **settings):
    """Build the large catalogue again; returns its bytes."""
    build(large / "in", large / "in", out, Options(**settings))
    return out.read_bytes()


@pytest.mark.parametrize("size", [10_000, 300_000])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.slow
def test_tables_of_a_category_change_nothing(large, tmp_path, monkeypatch, legacy, size):
    expected = of_large(large, tmp_path / "a.jsonl", legacy=legacy)
    monkeypatch.setattr(catalogue_tables, "_TABLE", size)
    monkeypatch.setattr(catalogue_tables, "_ROWS", 64)
    assert of_large(large, tmp_path / "b.jsonl", parts=3, legacy=legacy, keep_work=True) == expected
    assert len(list((tmp_path / "b.jsonl.work").glob("reviews/Beta/*.parquet"))) > 1


@pytest.mark.parametrize("settings", [{"parts": 2}, {"parts": 13}, {"parts": 5, "workers": 2}], ids=str)
@pytest.mark.slow
def test_parts_and_workers_change_nothing(large, settings):
    assert of_large(large, large / "again.jsonl", **settings) == whole(large)
    assert totals(large / "again.jsonl.manifest.json") == totals(large / "whole.jsonl.manifest.json")


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.slow
def test_what_does_not_fit_is_sorted_on_disk(tmp_path, monkeypatch, legacy):
    fixture.write_category(tmp_path / "in", "Home", 10, 60_000)
    make(tmp_path, "a.jsonl", legacy=legacy)
    spilled = []
    rows_of_batches = catalogue_tables.joined_rows

    def watched(batches):
        for batch in batches:
            spilled.extend(tmp_path.rglob("*.spill/*"))
            yield from rows_of_batches([batch])

    monkeypatch.setattr(catalogue_tables, "MEMORY", "24MB")
    monkeypatch.setattr(catalogue_tables, "joined_rows", watched)
    make(tmp_path, "b.jsonl", legacy=legacy, keep_work=True)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert spilled != []
    assert not list(tmp_path.rglob("*.spill"))


def test_order_of_lines_changes_nothing(large, tmp_path):
    (tmp_path / "in").mkdir()
    for path in sorted((large / "in").iterdir()):
        text = path.read_bytes()
        if path.suffix == ".gz":
            text = gzip.decompress(text)
        turned = reversed(text.splitlines(keepends=True))
        (tmp_path / "in" / path.name.removesuffix(".gz")).write_bytes(b"".join(turned))
    make(tmp_path)
    assert (tmp_path / "out.jsonl").read_bytes() == whole(large)


def test_letters_are_counted_as_the_design_writes_or_as_its_code_counts(tmp_path):
    write(tmp_path, "Home", [fixture.meta(1, title="Éàüéôî")], [])
    make(tmp_path)
    assert len(read(tmp_path / "out.jsonl")) == 1
    refused("1 language", make, tmp_path, "ascii.jsonl", letters="ascii")


@pytest.mark.parametrize("ends", [".gz", ".zst"])
@pytest.mark.slow
def test_other_formats_hold_the_same(large, ends):
    packed = of_large(large, large / f"a.jsonl{ends}", parts=1)
    assert of_large(large, large / f"b.jsonl{ends}", parts=4) == packed
    text = UNPACK[ends](packed)
    assert (text if ends == ".gz" else text.read()) == whole(large)


@pytest.mark.parametrize("ends", [".jsonl.gz", ".jsonl.zst"])
def test_packed_inputs_with_odd_ends(tmp_path, ends):
    metas = [b"\xef\xbb\xbf" + json.dumps(fixture.meta(1)).encode() + b"\r", b"", b"  "]
    write(tmp_path, "Home", metas, [fixture.review(1, FIRST)], ends)
    manifest = make(tmp_path)
    (row,) = read(tmp_path / "out.jsonl")
    assert row["parent_asin"] == FIRST
    assert len(row["valid_reviews"]) == 1
    assert manifest["totals"]["products"] == {"read": 1, "kept": 1}


def test_unreadable_lines_go_to_quarantine(tmp_path):
    write(tmp_path, "Home", [fixture.meta(1), b'{"parent_asin": "BX', b"[1]"], [b"\xff{}"])
    manifest = make(tmp_path)
    assert len(read(tmp_path / "out.jsonl")) == 1
    second, third, review = read(tmp_path / "out.jsonl.quarantine.jsonl")
    for number, line in ((2, second), (3, third)):
        assert (line["file"], line["line"]) == ("meta_Home.jsonl", number)
        assert line["why"] == "not a JSON object"
    assert (review["file"], review["line"], review["why"]) == ("Home.jsonl", 1, "not UTF-8")
    assert manifest["totals"]["products"]["unreadable"] == 2


@pytest.mark.parametrize("ends", [".jsonl.gz", ".jsonl.zst"])
def test_a_damaged_file_is_named_and_the_rest_is_kept(tmp_path, ends):
    write(tmp_path, "Alpha", [fixture.meta(1)], [fixture.review(1, FIRST)])
    many = []
    for number in range(3000):
        text = f"{number * 7919 % 104729} words about this {number} product"
        many.append(fixture.review(number, SECOND, text=text))
    write(tmp_path, "Beta", [fixture.meta(2)], many, ends)
    path = tmp_path / "in" / f"Beta{ends}"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(rf"Beta{ends} breaks off after line \d+", make, tmp_path, error=RunError)
    assert not (tmp_path / "out.jsonl").exists()
    assert "file damaged" in read(tmp_path / "out.jsonl.quarantine.jsonl")[0]["why"]
    mark = tmp_path / "out.jsonl.work" / "reviews" / "Alpha.done.json"
    finished = mark.stat().st_mtime_ns
    path.write_bytes(content)
    rows = rows_of(tmp_path, keep_work=True)
    assert {row["parent_asin"]: len(row["valid_reviews"]) for row in rows} == {FIRST: 1, SECOND: 3000}
    assert mark.stat().st_mtime_ns == finished


RUN = "import sys; from crs_lib.__main__ import main; main(['cosrec', 'catalogue', *sys.argv[1:]])"


@pytest.mark.subprocess
def test_killed_and_resumed(large, tmp_path):
    """Killed at several moments by SIGKILL; every later start continues, the last one finishes."""
    inputs = str(large / "in")
    command = [sys.executable, "-c", RUN, "--metas", inputs, "--reviews", inputs]
    command += ["--out", str(tmp_path / "out.jsonl"), "--parts", "6"]
    marks = []
    for wanted in (1, 3, 5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(tmp_path.rglob("*.done.json"))) < wanted:
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        marks.append(len(list(tmp_path.rglob("*.done.json"))))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert marks == sorted(marks)
    assert (tmp_path / "out.jsonl").read_bytes() == whole(large)


def test_other_settings_do_not_continue(large, tmp_path):
    out = tmp_path / "out.jsonl"
    of_large(large, out, keep_work=True)
    other = "shortest: 10 there, 12 now"
    refused(other, of_large, large, out, shortest=12, error=RunError)
    # another number of parts is no other result, and may differ
    assert of_large(large, out, parts=3, keep_work=True) == whole(large)


def test_most_reviews_keeps_the_helpful(tmp_path):
    reviews = []
    for number, votes in enumerate((0, 5, 9, 5)):
        reviews.append(fixture.review(number, FIRST, timestamp=10 * number, helpful_vote=votes))
    write(tmp_path, "Home", [fixture.meta(1)], reviews)
    manifest = make(tmp_path, most_reviews=2)
    (row,) = read(tmp_path / "out.jsonl")
    assert times(row) == [20, 30]  # 9 votes; of 5 votes the newer
    assert row["num_valid_ratings"] == 4
    assert manifest["totals"]["joined"]["reviews over the limit"] == 2


def test_many_keys_are_known_by_digest(large, tmp_path, monkeypatch):
    of_large(large, tmp_path / "out.jsonl", keep_work=True)
    tables = [str(tmp_path / "out.jsonl.work" / "metas" / "Alpha" / "00000.parquet")]
    exact = catalogue_tables.known_keys(tables)
    monkeypatch.setattr(catalogue_tables, "_EXACT", 7)
    digests = catalogue_tables.known_keys(tables)
    assert type(digests) is not type(exact)
    names = [fixture.asin(number) for number in range(200)]
    assert [name in digests for name in names] == [name in exact for name in names]
    assert sum(name in digests for name in names) == 120
    assert "\ud83d" not in digests  # a lone surrogate in a review's id


def test_inputs_are_checked(tmp_path):
    refused("no folder", make, tmp_path, error=RunError)
    write(tmp_path, "Home", [fixture.meta(1)], [])
    (tmp_path / "in" / "Other.jsonl").write_text("")
    assert catalogue.find_sources(tmp_path / "in", tmp_path / "in")[1] == ["Other"]
    refused("must end in", make, tmp_path, "out.csv")
    (tmp_path / "in" / "Home.jsonl.gz").write_bytes(b"")
    refused("stands in", make, tmp_path)
    refused("workers", Options, workers=0)


OUTPUTS = ("in/Home.jsonl", "in/../in/meta_Home.jsonl", "link.jsonl", "hard.jsonl", "in/Alone.jsonl")


@pytest.mark.parametrize("out", OUTPUTS)
def test_an_output_over_an_input_is_refused(tmp_path, out):
    write(tmp_path, "Home", [fixture.meta(1)], [fixture.review(1, FIRST)])
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "in" / "Home.jsonl")
    os.link(tmp_path / "in" / "meta_Home.jsonl", tmp_path / "hard.jsonl")
    (tmp_path / "in" / "Alone.jsonl").write_text("a review file whose metas are missing")
    before = {path: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    refused("give another output", make, tmp_path, out)
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.rglob("*.work"))


def test_what_an_earlier_run_wrote_into_the_folder_is_replaced(tmp_path):
    write(tmp_path, "Home", [fixture.meta(1)], [fixture.review(1, FIRST)])
    first = rows_of(tmp_path, "in/out.jsonl")
    assert rows_of(tmp_path, "in/out.jsonl") == first


def test_a_new_category_joins_the_kept_tables(tmp_path):
    for name, number in (("Beta", 2), ("Gamma", 3)):
        reviews = [fixture.review(number, fixture.asin(number))]
        write(tmp_path, name, [fixture.meta(number)], reviews)
    make(tmp_path, legacy=True, keep_work=True)
    mark = tmp_path / "out.jsonl.work" / "reviews" / "Gamma.done.json"
    finished = mark.stat().st_mtime_ns
    write(tmp_path, "Alpha", [fixture.meta(1)], [fixture.review(1, FIRST)])
    rows = rows_of(tmp_path, legacy=True, keep_work=True)
    assert mark.stat().st_mtime_ns == finished
    assert [row["parent_asin"] for row in rows] == [FIRST, SECOND, fixture.asin(3)]
    assert rows_of(tmp_path, "fresh.jsonl", legacy=True) == rows


def test_tables_of_an_older_form_are_made_anew(large, tmp_path):
    of_large(large, tmp_path / "out.jsonl", keep_work=True)
    work = tmp_path / "out.jsonl.work"
    for mark in work.glob("*/*.done.json"):
        facts = json.loads(mark.read_text())
        facts["of"] = [1, *facts["of"][1:]]
        mark.write_text(json.dumps(facts))
    for path in work.glob("reviews/*/*.parquet"):
        path.write_bytes(b"of another form")
    assert of_large(large, tmp_path / "out.jsonl") == whole(large)


def test_a_small_file_that_unpacks_without_end_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    bomb = zstandard.compress(b" " * 2**28)  # one line
    assert len(bomb) < 50_000
    (tmp_path / "in" / "meta_Books.jsonl.zst").write_bytes(bomb)
    (tmp_path / "in" / "Books.jsonl.zst").write_bytes(zstandard.compress(b"{}\n"))
    unpacks = r"meta_Books\.jsonl\.zst: it unpacks to more than its size, by"
    refused(unpacks, make, tmp_path, error=RunError)


RULES = pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])


def read_row(line, kind):
    """The row of a line; None for one that cannot be read or is blank, with what becomes of it."""
    try:
        return decoder(FIELDS[kind])(line), ""
    except ValueError:
        return None, "unreadable" if line.strip() else ""


@RULES
@pytest.mark.parametrize("row", fixture.dirty_metas(), ids=lambda row: row.about)
def test_dirty_products(row, legacy):
    record, outcome = read_row(row.line, "metas")
    if record is not None:
        result = product(record, Options(legacy=legacy), encoder())
        outcome = result if isinstance(result, str) else "kept"
    assert outcome == (row.legacy if legacy else row.ours)


@RULES
@pytest.mark.parametrize("row", fixture.dirty_reviews(FIRST), ids=lambda row: row.about)
def test_dirty_reviews(row, legacy):
    record, outcome = read_row(row.line, "reviews")
    if record is not None:
        verdict = review(record, Options(legacy=legacy), encoder(), b"\\" not in row.line)
        assert verdict == review(record, Options(legacy=legacy), encoder()), (
            "the short cut changes the result"
        )
        outcome = verdict[0] or "kept"
        if not isinstance(record.parent_asin, str):
            outcome = "asin"
        elif record.parent_asin != FIRST:
            outcome = "not in catalogue"
    assert outcome == (row.legacy if legacy else row.ours)


def test_cleaning():
    def cleans(text, ours, legacy):
        assert clean(text) == ours
        assert clean(ours) == ours
        assert legacy_clean(text) == legacy

    cleans("Mug<br>and<br/>pan<br />set", "Mug and pan set", "Mug<br>and<br/>panset")
    cleans("salt &amp; pepper", "salt & pepper", "salt &amp; pepper")
    cleans(" a\u00a0b\t\n c ", "a b c", "a b c")
    cleans("ze\u200bro\ufeff width", "zero width", "ze\u200bro\ufeff width")
    cleans("5 < 6 and 7 > 6", "5 < 6 and 7 > 6", "5 < 6 and 7 > 6")
    cleans("half \ud83d pair", "half \ufffd pair", "half \ufffd pair")
    cleans("<p class='x'>text</p>", "text", "<p class='x'>text</p>")
    cleans("\U0001f600 ok", "\U0001f600 ok", "\U0001f600 ok")
    cleans("", "", "")


def test_prices():
    def costs(value, ours, legacy):
        assert price_of(value, legacy=False) == ours
        assert price_of(value, legacy=True) == legacy

    costs(19.99, 19.99, 19.99)
    costs(20, 20.0, None)
    costs("$1,299.00", 1299.0, None)
    costs(" 5 ", 5.0, 5.0)
    costs("from 5", None, None)
    costs(-1.0, None, None)
    costs(True, None, None)
    costs(math.inf, None, None)
    costs(None, None, None)


def test_lines_are_accepted_as_json_accepts_them():
    decode = decoder(("parent_asin", "price"))
    assert math.isnan(decode(b'{"parent_asin": "\\ud83d", "price": NaN, "other": [1]}').price)
    assert decode(b'{"price": 1e400}').price == math.inf
    assert decode(b"{}").parent_asin is None


@pytest.mark.parametrize("line", [b"[1]", b'{"price": ', b'{"parent_asin": "\xff"}', b""])
def test_what_is_no_json_object_is_refused(line):
    with pytest.raises(ValueError):
        decoder(("parent_asin", "price"))(line)


def test_a_review_is_written_as_compact_json():
    assert encoder()({"user": "ü\x1f\x7f"}) == '{"user":"ü\\u001f\x7f"}'.encode()
