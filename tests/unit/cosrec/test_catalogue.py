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
from pathlib import Path
from typing import Any

import pytest
import zstandard

from crs_lib.core.errors import RunError
from crs_lib.cosrec import catalogue, catalogue_tables
from crs_lib.cosrec.catalogue import build
from crs_lib.cosrec.catalogue_rules import Options, clean, legacy_clean, price_of, product, review
from crs_lib.cosrec.catalogue_tables import FIELDS, decoder, encoder
from tests.helpers import amazon_fixture as fixture
from tests.helpers import refused

PACK = {".gz": partial(gzip.compress, mtime=0), ".zst": zstandard.compress}
PRODUCT = fixture.asin(1)


def write(folder, name, metas, reviews, ends=".jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    for path, rows in ((folder / f"meta_{name}{ends}", metas), (folder / f"{name}{ends}", reviews)):
        text = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
        path.write_bytes(PACK.get(path.suffix, bytes)(text))


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(folder, out="out.jsonl", **settings):
    manifest = build(folder / "in", folder / "in", folder / out, Options(**settings))
    return read(folder / out), manifest


def test_two_products_by_hand(tmp_path):
    a, b = fixture.asin(1), fixture.asin(2)
    reviews = [
        fixture.review(1, a, rating=5.0, timestamp=30, helpful_vote=0),
        fixture.review(2, a, rating=4.5, timestamp=10, helpful_vote=7),
        fixture.review(3, a, rating=3.0, timestamp=20, text="too short"),
        fixture.review(1, a, rating=5.0, timestamp=30, helpful_vote=4),  # the first again, with other votes
    ]
    write(tmp_path / "in", "Home", [fixture.meta(2), fixture.meta(1)], reviews)
    rows, manifest = run(tmp_path)
    assert [row["parent_asin"] for row in rows] == sorted([a, b])
    first, second = sorted(rows, key=lambda row: row["parent_asin"] != a)
    # 4.5 rounds to 5, so two ratings of 5 are left: the short text is dropped, the copy is one review
    kept = [(r["timestamp"], r["rating"], r["helpful"]) for r in first["valid_reviews"]]
    assert kept == [(10, 5, 7), (30, 5, 4)]
    assert (first["num_valid_ratings"], first["avg_valid_ratings"]) == (2, 5.0)
    assert first["valid_ratings"] == {"1": 0, "2": 0, "3": 0, "4": 0, "5": 2}
    numbers = [second[name] for name in ("valid_reviews", "num_valid_ratings", "avg_valid_ratings")]
    assert numbers == [[], 0, None]
    assert manifest["totals"]["reviews"] == {"read": 4, "kept": 3, "dropped: too short": 1}
    assert manifest["totals"]["joined"]["duplicate reviews"] == 1
    assert not (tmp_path / "out.jsonl.work").exists()


def test_legacy_repeats_the_original_statistics(tmp_path):
    a = fixture.asin(1)
    reviews = [
        fixture.review(1, a, rating=5.0, timestamp=30),
        fixture.review(2, a, rating=5.0, timestamp=10),
        fixture.review(3, a, rating=1.0, timestamp=5, title=""),  # its rating counts, its text does not
        fixture.review(4, a, rating=5, timestamp=1),  # a whole number is no rating there
    ]
    write(tmp_path / "in", "Home", [fixture.meta(1, title="old"), fixture.meta(1, title="new one")], reviews)
    (row,), _ = run(tmp_path, legacy=True)
    assert row["title"] == "new one"  # the last of a category wins
    assert [r["timestamp"] for r in row["valid_reviews"]] == [10, 30]
    # the histogram has five keys, and the average is the sum of ratings over those five: 11 / 5
    assert (row["num_valid_ratings"], row["avg_valid_ratings"]) == (5, 11 / 5)
    assert row["valid_ratings"] == {"1": 1, "2": 0, "3": 0, "4": 0, "5": 2}


def test_a_product_of_two_categories_is_kept_once_with_all_reviews(tmp_path):
    a = fixture.asin(1)
    for name, number in (("Alpha", 1), ("Beta", 2)):
        metas = [fixture.meta(1, title=f"in {name}")]
        write(tmp_path / "in", name, metas, [fixture.review(number, a, timestamp=number)])
    (row,), manifest = run(tmp_path)
    assert row["title"] == "in Alpha" and [r["timestamp"] for r in row["valid_reviews"]] == [1, 2]
    assert manifest["totals"]["joined"]["duplicate products"] == 1
    rows, _ = run(tmp_path, "legacy.jsonl", legacy=True)
    assert [(r["title"], len(r["valid_reviews"])) for r in rows] == [("in Alpha", 1), ("in Beta", 1)]


def same(large, out, **settings):
    """Build the large catalogue again, which must give the same bytes."""
    manifest = build(large / "in", large / "in", out, Options(**settings))
    assert out.read_bytes() == (large / "whole.jsonl").read_bytes()
    return manifest


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    for i, name in enumerate(("Alpha", "Beta")):
        fixture.write_category(folder / "in", name, 120, 2_500, seed=3, first=i * 80, packed=i == 1)
    build(folder / "in", folder / "in", folder / "whole.jsonl", Options(parts=1))
    return folder


@pytest.mark.parametrize("table", [10_000, 300_000])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.slow
def test_tables_of_a_category_change_nothing(large, tmp_path, monkeypatch, legacy, table):
    build(large / "in", large / "in", tmp_path / "a.jsonl", Options(legacy=legacy))
    monkeypatch.setattr(catalogue_tables, "_TABLE", table)
    monkeypatch.setattr(catalogue_tables, "_ROWS", 64)
    build(large / "in", large / "in", tmp_path / "b.jsonl", Options(parts=3, legacy=legacy, keep_work=True))
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert len(list((tmp_path / "b.jsonl.work").glob("reviews/Beta/*.parquet"))) > 1


@pytest.mark.parametrize("settings", [{"parts": 2}, {"parts": 13}, {"parts": 5, "workers": 2}], ids=str)
@pytest.mark.slow
def test_parts_and_workers_change_nothing(large, settings):
    manifest = same(large, large / "again.jsonl", **settings)
    assert manifest["totals"] == json.loads((large / "whole.jsonl.manifest.json").read_text())["totals"]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.slow
def test_what_does_not_fit_is_sorted_on_disk(tmp_path, monkeypatch, legacy):
    fixture.write_category(tmp_path / "in", "Home", 10, 60_000)
    build(tmp_path / "in", tmp_path / "in", tmp_path / "a.jsonl", Options(legacy=legacy))
    spilled: list[Path] = []
    plain = catalogue_tables.joined_rows

    def watched(batch: Any) -> Any:
        spilled.extend(tmp_path.rglob("*.spill/*"))
        return plain(batch)

    monkeypatch.setattr(catalogue_tables, "MEMORY", "24MB")
    monkeypatch.setattr(catalogue_tables, "joined_rows", watched)
    build(tmp_path / "in", tmp_path / "in", tmp_path / "b.jsonl", Options(legacy=legacy, keep_work=True))
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert spilled and not list(tmp_path.rglob("*.spill"))


def test_order_of_lines_changes_nothing(large, tmp_path):
    (tmp_path / "in").mkdir()
    for path in sorted((large / "in").iterdir()):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        turned = b"".join(text.splitlines(keepends=True)[::-1])
        (tmp_path / "in" / path.name.removesuffix(".gz")).write_bytes(turned)
    build(tmp_path / "in", tmp_path / "in", tmp_path / "out.jsonl", Options())
    assert (tmp_path / "out.jsonl").read_bytes() == (large / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("ends", [".jsonl.gz", ".jsonl.zst"])
@pytest.mark.slow
def test_other_formats_hold_the_same(large, ends):
    for name in ("a", "b"):
        build(large / "in", large / "in", large / f"{name}{ends}", Options(parts=1 if name == "a" else 4))
    assert (large / f"a{ends}").read_bytes() == (large / f"b{ends}").read_bytes()
    unpack_zstandard = zstandard.ZstdDecompressor().decompressobj().decompress
    unpack = gzip.decompress if ends == ".jsonl.gz" else unpack_zstandard
    assert unpack((large / f"a{ends}").read_bytes()) == (large / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("ends", [".jsonl.gz", ".jsonl.zst"])
def test_packed_inputs_with_odd_ends(tmp_path, ends):
    a = fixture.asin(1)
    metas = [b"\xef\xbb\xbf" + json.dumps(fixture.meta(1)).encode() + b"\r", b"", b"  "]
    write(tmp_path / "in", "Home", metas, [fixture.review(1, a)], ends)
    (row,), manifest = run(tmp_path)
    assert (row["parent_asin"], len(row["valid_reviews"])) == (a, 1)
    assert manifest["totals"]["products"] == {"read": 1, "kept": 1}


def test_unreadable_lines_go_to_quarantine(tmp_path):
    write(tmp_path / "in", "Home", [fixture.meta(1), b'{"parent_asin": "BX', b"[1]"], [b"\xff{}"])
    rows, manifest = run(tmp_path)
    assert len(rows) == 1
    found = read(tmp_path / "out.jsonl.quarantine.jsonl")
    assert [(q["file"], q["line"], q["why"]) for q in found] == [
        *(("meta_Home.jsonl", line, "not a JSON object") for line in (2, 3)), ("Home.jsonl", 1, "not UTF-8"),
    ]  # fmt: skip
    assert manifest["totals"]["products"]["unreadable"] == 2


@pytest.mark.parametrize("ends", [".jsonl.gz", ".jsonl.zst"])
def test_a_damaged_file_is_named_and_the_rest_is_kept(tmp_path, ends):
    a, b = fixture.asin(1), fixture.asin(2)
    write(tmp_path / "in", "Alpha", [fixture.meta(1)], [fixture.review(1, a)])
    texts = (f"{i * 7919 % 104729} words about this {i} product" for i in range(3000))
    many = [fixture.review(i, b, text=text) for i, text in enumerate(texts)]
    write(tmp_path / "in", "Beta", [fixture.meta(2)], many, ends)
    whole = (tmp_path / "in" / f"Beta{ends}").read_bytes()
    (tmp_path / "in" / f"Beta{ends}").write_bytes(whole[: len(whole) // 2])
    refused(rf"Beta{ends} breaks off after line \d+", run, tmp_path, error=RunError)
    assert not (tmp_path / "out.jsonl").exists()
    assert "file damaged" in read(tmp_path / "out.jsonl.quarantine.jsonl")[0]["why"]
    done = (tmp_path / "out.jsonl.work" / "reviews" / "Alpha.done.json").stat().st_mtime_ns
    (tmp_path / "in" / f"Beta{ends}").write_bytes(whole)
    rows, _ = run(tmp_path, keep_work=True)
    assert {row["parent_asin"]: len(row["valid_reviews"]) for row in rows} == {a: 1, b: 3000}
    assert (tmp_path / "out.jsonl.work" / "reviews" / "Alpha.done.json").stat().st_mtime_ns == done


@pytest.mark.subprocess
def test_killed_and_resumed(large, tmp_path):
    """Killed at several moments by SIGKILL; every later start continues, the last one finishes."""
    command = [sys.executable, "-c", "import sys; from crs_lib.__main__ import main; "
               "main(['cosrec', 'catalogue', *sys.argv[1:]])"]  # fmt: skip
    command += ["--metas", str(large / "in"), "--reviews", str(large / "in")]
    command += ["--out", str(tmp_path / "out.jsonl"), "--parts", "6"]
    marks = []
    for wanted in (1, 3, 5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list(tmp_path.rglob("*.done.json"))) < wanted:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
        marks.append(len(list(tmp_path.rglob("*.done.json"))))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert marks == sorted(marks)
    assert (tmp_path / "out.jsonl").read_bytes() == (large / "whole.jsonl").read_bytes()


def test_other_settings_do_not_continue(large, tmp_path):
    build(large / "in", large / "in", tmp_path / "out.jsonl", Options(keep_work=True))
    with pytest.raises(RunError, match="shortest: 10 there, 12 now"):
        build(large / "in", large / "in", tmp_path / "out.jsonl", Options(shortest=12))
    # another number of parts is no other result, and may differ
    same(large, tmp_path / "out.jsonl", parts=3, keep_work=True)


def test_most_reviews_keeps_the_helpful(tmp_path):
    a = fixture.asin(1)
    votes = [(10, 0), (20, 5), (30, 9), (40, 5)]
    reviews = [fixture.review(i, a, timestamp=t, helpful_vote=v) for i, (t, v) in enumerate(votes)]
    write(tmp_path / "in", "Home", [fixture.meta(1)], reviews)
    (row,), manifest = run(tmp_path, most_reviews=2)
    assert [r["timestamp"] for r in row["valid_reviews"]] == [30, 40]  # 9 votes; of 5 votes the newer
    assert row["num_valid_ratings"] == 4
    assert manifest["totals"]["joined"]["reviews over the limit"] == 2


def test_many_keys_are_known_by_digest(large, tmp_path, monkeypatch):
    build(large / "in", large / "in", tmp_path / "out.jsonl", Options(keep_work=True))
    tables = [str(tmp_path / "out.jsonl.work" / "metas" / "Alpha" / "00000.parquet")]
    exact = catalogue_tables.known_keys(tables)
    monkeypatch.setattr(catalogue_tables, "_EXACT", 7)
    digests = catalogue_tables.known_keys(tables)
    assert type(digests) is not type(exact)
    names = [fixture.asin(i) for i in range(200)]
    assert [name in digests for name in names] == [name in exact for name in names]
    assert sum(name in digests for name in names) == 120
    assert "\ud83d" not in digests  # a lone surrogate in a review's id


def test_inputs_are_checked(tmp_path):
    refused("no folder", run, tmp_path, error=RunError)
    write(tmp_path / "in", "Home", [fixture.meta(1)], [])
    (tmp_path / "in" / "Other.jsonl").write_text("")
    assert catalogue.find_sources(tmp_path / "in", tmp_path / "in")[1] == ["Other"]
    refused("must end in", build, tmp_path / "in", tmp_path / "in", tmp_path / "out.csv", Options())
    (tmp_path / "in" / "Home.jsonl.gz").write_bytes(b"")
    refused("stands in", run, tmp_path)
    refused("workers", Options, workers=0)


def test_an_output_over_an_input_is_refused(tmp_path):
    write(tmp_path / "in", "Home", [fixture.meta(1)], [fixture.review(1, fixture.asin(1))])
    before = {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "in" / "Home.jsonl")
    os.link(tmp_path / "in" / "meta_Home.jsonl", tmp_path / "hard.jsonl")
    (tmp_path / "in" / "Alone.jsonl").write_text("a review file whose metas are missing")
    for out in ("in/Home.jsonl", "in/../in/meta_Home.jsonl", "link.jsonl", "hard.jsonl", "in/Alone.jsonl"):
        refused("give another output", build, tmp_path / "in", tmp_path / "in", tmp_path / out, Options())
    assert {name: (tmp_path / "in" / name).read_bytes() for name in before} == before
    assert not list(tmp_path.rglob("*.work"))
    for _ in range(2):  # what an earlier run wrote into the folder is replaced
        build(tmp_path / "in", tmp_path / "in", tmp_path / "in" / "out.jsonl", Options())


def test_a_new_category_joins_the_kept_tables(tmp_path):
    for name, number in (("Beta", 2), ("Gamma", 3)):
        write(tmp_path / "in", name, [fixture.meta(number)], [fixture.review(number, fixture.asin(number))])
    build(tmp_path / "in", tmp_path / "in", tmp_path / "out.jsonl", Options(legacy=True, keep_work=True))
    kept = tmp_path / "out.jsonl.work" / "reviews" / "Gamma.done.json"
    before = kept.stat().st_mtime_ns
    write(tmp_path / "in", "Alpha", [fixture.meta(1)], [fixture.review(1, fixture.asin(1))])
    rows, _ = run(tmp_path, legacy=True, keep_work=True)
    assert kept.stat().st_mtime_ns == before
    assert [row["parent_asin"] for row in rows] == [fixture.asin(i) for i in (1, 2, 3)]
    run(tmp_path, "fresh.jsonl", legacy=True)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "fresh.jsonl").read_bytes()


def test_tables_of_an_older_form_are_made_anew(large, tmp_path):
    build(large / "in", large / "in", tmp_path / "out.jsonl", Options(keep_work=True))
    for mark in (tmp_path / "out.jsonl.work").glob("*/*.done.json"):
        facts = json.loads(mark.read_text())
        mark.write_text(json.dumps(facts | {"of": [1, *facts["of"][1:]]}))
    for path in (tmp_path / "out.jsonl.work" / "reviews").glob("*/*.parquet"):
        path.write_bytes(b"of another form")
    same(large, tmp_path / "out.jsonl")


def test_a_small_file_that_unpacks_without_end_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    bomb = zstandard.compress(b" " * 2**28)  # one line
    assert len(bomb) < 50_000
    (tmp_path / "in" / "meta_Books.jsonl.zst").write_bytes(bomb)
    (tmp_path / "in" / "Books.jsonl.zst").write_bytes(zstandard.compress(b"{}\n"))
    with pytest.raises(RunError, match=r"meta_Books\.jsonl\.zst: it unpacks to more than its size, by"):
        build(tmp_path / "in", tmp_path / "in", tmp_path / "out.jsonl", Options())


def outcome(line, kind, legacy):
    """What becomes of one line: kept, a reason, unreadable, or nothing."""
    rules, encode = Options(legacy=legacy), encoder()
    try:
        row = decoder(FIELDS[kind])(line)
    except ValueError:
        return "unreadable" if line.strip() else ""
    if kind == "metas":
        found: Any = product(row, rules, encode)
        return found if isinstance(found, str) else "kept"
    if not isinstance(row.parent_asin, str):
        return "asin"
    if row.parent_asin != PRODUCT:
        return "not in catalogue"
    found = review(row, rules, encode, b"\\" not in line)
    assert found == review(row, rules, encode), "the short cut changes the result"
    return found[0] or "kept"


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_metas(), ids=lambda row: row.about)
def test_dirty_products(row, legacy):
    assert outcome(row.line, "metas", legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_reviews(PRODUCT), ids=lambda row: row.about)
def test_dirty_reviews(row, legacy):
    assert outcome(row.line, "reviews", legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize(("text", "ours", "legacy"), [
    ("Mug<br>and<br/>pan<br />set", "Mug and pan set", "Mug<br>and<br/>panset"),
    ("salt &amp; pepper", "salt & pepper", "salt &amp; pepper"), (" a\u00a0b\t\n c ", "a b c", "a b c"),
    ("ze\u200bro\ufeff width", "zero width", "ze\u200bro\ufeff width"),
    ("5 < 6 and 7 > 6", "5 < 6 and 7 > 6", "5 < 6 and 7 > 6"),
    ("half \ud83d pair", "half \ufffd pair", "half \ufffd pair"),
    ("<p class='x'>text</p>", "text", "<p class='x'>text</p>"),
    ("\U0001f600 ok", "\U0001f600 ok", "\U0001f600 ok"), ("", "", ""),
])  # fmt: skip
def test_cleaning(text, ours, legacy):
    assert clean(text) == ours == clean(clean(text)) and legacy_clean(text) == legacy


@pytest.mark.parametrize(("value", "ours", "legacy"), [
    (19.99, 19.99, 19.99), (20, 20.0, None), ("$1,299.00", 1299.0, None), (" 5 ", 5.0, 5.0),
    ("from 5", None, None), (-1.0, None, None), (True, None, None), (float("inf"), None, None),
    (None, None, None),
])  # fmt: skip
def test_prices(value, ours, legacy):
    assert price_of(value, legacy=False) == ours and price_of(value, legacy=True) == legacy


def test_lines_are_accepted_as_json_accepts_them():
    read = decoder(("parent_asin", "price"))
    assert math.isnan(read(b'{"parent_asin": "\\ud83d", "price": NaN, "other": [1]}').price)
    assert read(b'{"price": 1e400}').price == math.inf and read(b"{}").parent_asin is None
    for line in (b"[1]", b'{"price": ', b'{"parent_asin": "\xff"}', b""):
        with pytest.raises(ValueError):
            read(line)
    assert encoder()({"user": "ü\x1f\x7f"}) == '{"user":"ü\\u001f\x7f"}'.encode()
