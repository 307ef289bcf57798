"""External files: found in a mirror, fetched from pinned addresses, verified, never half-written."""

import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from unittest.mock import Mock

import pooch
import pytest

from crs_lib import __main__ as command_line
from crs_lib import data as datasets
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.data import fetch, registry
from crs_lib.data.registry import RECORDED, Dataset, File, Origin
from tests.helpers import refused
from tests.helpers.programs import Served

BODY = b'{"films": ["one", "two"]}\n' * 4000  # 104,000 bytes: several chunks
ORIGIN = Origin("someone/films", "0123456789abcdef0123456789abcdef01234567", "ours")
RAW, ARCHIVE = f"/{ORIGIN.repository}/{ORIGIN.commit}/", f"/{ORIGIN.repository}/archive/{ORIGIN.commit}.zip"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from crs_lib.core.errors import RunError
from crs_lib.data import fetch, registry as base
base.RAW = base.ARCHIVE = sys.argv[1]
row = base.Dataset("films", "movies", "", base.Origin("a/b", "c", ""),
                   (base.File("t/films.json", "f.json"),))
try:
    fetch.fetch(row)
except RunError as error:
    print(error)
"""


def known(path, source, body):
    """A file with the checksum and the size of a body."""
    return File(path, source, hashlib.sha256(body).hexdigest(), len(body))


FILM = known("t/films.json", "data/films.json", BODY)
FILMS = Dataset("films", "movies", "a file", ORIGIN, (FILM,))
PAIR = Dataset(
    "pair", "movies", "two files", ORIGIN,
    (known("p/a.json", "a.json", b"[1]"), known("p/b.json", "b.json", b"[2]")), "p",
)  # fmt: skip
NEW = Dataset("new", "movies", "no known checksum", ORIGIN, (File("t/new.json", "data/new.json"),))
TEXT = Dataset("text", "movies", "no known checksum", ORIGIN, (File("t/new.csv", "data/new.csv"),))
LOGS = Dataset("logs", "movies", "members", ORIGIN, (), "t/logs", r"logs/([^/]+_session_\d+\.json)", "*.json")
CHATS = Dataset("chats", "movies", "members", ORIGIN, (), "t/chats", r"chats/([^/]+\.json)", "*.json")
ONLY = Dataset("only", "movies", "mirror only", ORIGIN, (File("t/only.json"),))


class Answers(BaseHTTPRequestHandler):
    """Answers by path with bytes, or with what a function does to the open connection."""

    def do_GET(self):
        self.asked.append(self.path)
        answer = self.answers.get(self.path)
        if answer is None:
            self.send_error(404)
        elif isinstance(answer, bytes):
            send(self, answer)
        else:
            answer(self)

    def log_message(self, *_):
        """Quiet."""


def send(handler, body, length=None):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(f"films-{ORIGIN.commit}/{name}", body)
    return out.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A loopback server behind the registry's addresses, an empty data folder, and our own rows."""
    answers = {}
    requests = []
    with Served(Answers, answers=answers, asked=requests) as running:
        running.answers = answers
        running.asked = requests
        running.base = running.url
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("CRS_DATA", str(tmp_path))
        monkeypatch.delenv("CRS_MIRROR", raising=False)
        monkeypatch.setattr(registry, "RAW", running.base + "/{repository}/{commit}/{path}")
        monkeypatch.setattr(registry, "ARCHIVE", running.base + "/{repository}/archive/{commit}.zip")
        rows = {row.name: row for row in (FILMS, PAIR, NEW, LOGS, CHATS, ONLY)}
        monkeypatch.setattr(registry, "every", lambda: rows)
        yield running


def left(folder):
    """Every file and folder that a failure left below ``data/external``."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def test_a_file_is_fetched_verified_and_then_only_read(server, tmp_path):
    server.answers[RAW + "data/films.json"] = BODY
    refused("python -m crs_lib data get films", datasets.locate, "films", error=RunError)
    path = fetch.fetch(FILMS)
    assert path == tmp_path / "external" / "t" / "films.json" == datasets.locate("films")
    assert path.read_bytes() == BODY
    fetch.fetch(FILMS)
    assert len(server.asked) == 1  # the second time nothing was asked for


def test_a_damaged_download_is_mended_and_a_failed_mending_keeps_the_whole_file(server, capsys, tmp_path):
    server.answers[RAW + "data/films.json"] = BODY
    path = fetch.fetch(FILMS)
    path.write_bytes(BODY[:-1])
    assert command_line.main(["data", "verify", "films"]) == 2
    assert "t/films.json differs (downloaded)" in capsys.readouterr().err
    assert command_line.main(["data", "get", "films"]) == 0 and path.read_bytes() == BODY
    assert command_line.main(["data", "verify"]) == 0
    server.answers |= {RAW + "a.json": b"[1]", RAW + "b.json": b"[2]"}
    fetch.fetch(PAIR)
    (tmp_path / "external/p/b.json").write_bytes(b"[damaged]")
    server.answers[RAW + "b.json"] = b"[another]"
    refused(r"p/b\.json has another checksum", fetch.fetch, PAIR, error=RunError)
    assert left(tmp_path / "external") == ["p", "p/a.json", "p/b.json", "t", "t/films.json"]
    assert (tmp_path / "external/p/a.json").read_bytes() == b"[1]"


def test_a_set_of_files_counts_only_when_complete_and_goes_on_where_it_stopped(server):
    server.answers[RAW + "a.json"] = b"[1]"
    refused("404", fetch.fetch, PAIR, error=RunError)
    refused("data get pair", datasets.locate, "pair", error=RunError)
    server.answers[RAW + "b.json"] = b"[2]"
    assert sorted(p.name for p in fetch.fetch(PAIR).iterdir()) == ["a.json", "b.json"]
    assert [path.rpartition("/")[2] for path in server.asked] == ["a.json", "b.json", "b.json"]


def drop(handler):
    send(handler, BODY[:70_000], len(BODY))
    handler.connection.shutdown(socket.SHUT_RDWR)


def stall(handler):
    send(handler, BODY[:70_000], len(BODY))
    time.sleep(1.0)


def test_a_slow_server_is_waited_for(server):
    def slowly(handler):
        send(handler, b"", len(BODY))
        for start in range(0, len(BODY), 20_000):
            time.sleep(0.1)
            handler.wfile.write(BODY[start : start + 20_000])

    server.answers[RAW + "data/films.json"] = slowly
    assert fetch.fetch(FILMS, timeout=0.4).read_bytes() == BODY  # 0.6 s in all, 0.1 s at a time


def test_no_network_or_an_interrupt_leaves_a_message_and_nothing(server, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(registry, "RAW", "http://127.0.0.1:9/{repository}/{commit}/{path}")
    refused(r"no connection to 127\.0\.0\.1.*CRS_MIRROR", fetch.fetch, FILMS, error=RunError)
    assert left(tmp_path / "external") == []
    server.answers[RAW + "data/films.json"] = BODY
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", Mock(side_effect=KeyboardInterrupt))
    assert command_line.main(["data", "get", "films"]) == 130
    assert "the same command continues" in capsys.readouterr().err and left(tmp_path / "external") == []


@pytest.mark.subprocess
def test_without_space_the_message_says_so_and_nothing_is_kept(server, tmp_path):
    server.answers["/f.json"] = BODY
    line = [sys.executable, "-c", LIMITED, server.base + "/f.json"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=paths.ROOT, timeout=60, check=False)
    assert done.stdout.startswith("no space for the download"), done.stderr[-2000:]
    assert "CRS_DATA" in done.stdout and left(tmp_path / "external") == []


@pytest.mark.subprocess
def test_a_killed_download_leaves_no_file_under_its_name(server, tmp_path):
    reached = threading.Event()

    def half(handler):
        send(handler, BODY[:70_000], len(BODY))
        reached.set()
        time.sleep(5)

    server.answers["/f.json"] = half
    code = LIMITED.replace("resource.setrlimit", "print")
    with subprocess.Popen([sys.executable, "-c", code, server.base + "/f.json"], cwd=paths.ROOT) as process:
        assert reached.wait(30)
        process.kill()
    (part,) = (tmp_path / "external").iterdir()
    assert part.suffix == ".part"
    os.utime(part, (0, 0))  # as if it had been killed days ago
    server.answers[RAW + "data/films.json"] = BODY
    assert fetch.fetch(FILMS).read_bytes() == BODY and left(tmp_path / "external") == ["t", "t/films.json"]


def test_a_person_who_watches_sees_a_bar(server, tmp_path, monkeypatch):
    server.answers[RAW + "data/films.json"] = BODY
    monkeypatch.setenv("CRS_PROGRESS", str(tmp_path / "terminal"))
    fetch.fetch(FILMS)
    assert re.search(r"films\.json: 100%.*104000/104000", (tmp_path / "terminal").read_text())


def test_what_has_no_checksum_is_recorded_once_and_need_not_be_json(server, tmp_path, capsys):
    assert NEW.checksum == RECORDED
    server.answers[RAW + "data/new.json"] = b'{"a": 1}'
    path = fetch.fetch(NEW)
    recorded = json.loads((tmp_path / "external/.recorded/new.json").read_text())
    assert recorded["files"] == {"t/new.json": hashlib.sha256(b'{"a": 1}').hexdigest()}
    assert (recorded["commit"], recorded["bytes"]) == (ORIGIN.commit, 8)
    path.write_bytes(b'{"a": 2}')
    assert [check.status for check in fetch.check(NEW)] == ["differs"]
    server.answers[RAW + "data/new.json"] = b'{"a": 3}'
    refused("not what was recorded on its first download", fetch.fetch, NEW, error=RunError)
    assert command_line.main(["data", "list"]) == 0 and RECORDED in capsys.readouterr().out
    server.answers[RAW + "data/new.csv"] = b"ConvId,utterance0"
    assert fetch.fetch(TEXT).read_bytes() == b"ConvId,utterance0"


MEMBERS = {
    "logs/gemma:2b_session_00001.json": b"{}", "logs/gemma:2b_session_00000.json": b'{"x": 1}',
    "logs/summary.csv": b"model,mean\n", "logs/deeper/gemma:2b_session_00002.json": b"{}",
    "chats/../../../escape.json": b"{}", "chats/Chat_1.json": b"[]",
}  # fmt: skip
WRONG = [
    (FILMS, None, r"refused films\.json: 404 .*same command tries again"),
    (FILMS, lambda handler: handler.send_error(503), r"refused films\.json: 503"),
    (FILMS, drop, r"broke while films\.json came"),
    (FILMS, stall, r"sent nothing of films\.json for 0\.3 s"),
    (FILMS, lambda handler: time.sleep(1.0), r"sent nothing of films\.json for 0\.3 s"),
    (FILMS, BODY.replace(b"two", b"tow"), f"t/films.json has another checksum: .*expected {FILM.sha256}"),
    (NEW, b"<html>please log in</html>", "not JSON"),
    (NEW, b"ConvId,utterance0", "not JSON"),
    (TEXT, b"<html>please log in</html>", "not CSV"),
    (LOGS, b"PK no archive at all", "is damaged"),
    (LOGS, zipped(MEMBERS)[:-200], "is damaged"),
    (LOGS, zipped({"elsewhere/a.json": b"{}"}), "holds no file of 'logs'"),
    (LOGS, zipped({"logs/a:b_session_1.json": b"{}", "logs/a-b_session_1.json": b"{}"}),
     "two members a-b_session_1.json"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "answer", "message"), WRONG)
def test_what_goes_wrong_is_said_and_nothing_is_kept(server, tmp_path, row, answer, message):
    if answer:
        server.answers[RAW + row.files[0].source if row.files else ARCHIVE] = answer
    refused(message, fetch.fetch, row, timeout=0.3, error=RunError)
    assert left(tmp_path / "external") == []


def test_members_of_an_archive_are_chosen_named_recorded_and_shared(server, tmp_path):
    server.answers[ARCHIVE] = zipped(MEMBERS)
    folder = fetch.fetch(LOGS)
    assert (folder / "gemma-2b_session_00000.json").read_bytes() == b'{"x": 1}'
    assert [check.status for check in fetch.check(LOGS)] == ["ok", "ok"]
    assert [p.name for p in fetch.fetch(CHATS).iterdir()] == ["Chat_1.json"]
    assert server.asked == [ARCHIVE]  # one download for both
    assert left(tmp_path / "external") == [
        ".recorded", ".recorded/chats.json", ".recorded/logs.json", "t", "t/chats", "t/chats/Chat_1.json",
        "t/logs", "t/logs/gemma-2b_session_00000.json", "t/logs/gemma-2b_session_00001.json",
    ]  # fmt: skip
    (folder / "gemma-2b_session_00001.json").unlink()
    assert [check.status for check in fetch.check(LOGS)] == ["ok", "missing"]
    assert (fetch.fetch(LOGS) / "gemma-2b_session_00001.json").is_file()  # what was lost is fetched again


def test_the_mirror_comes_first_and_is_checked(server, tmp_path, monkeypatch, capsys):
    mirror = tmp_path / "mirror"
    (mirror / "t").mkdir(parents=True)
    (mirror / "t/films.json").write_bytes(BODY)
    monkeypatch.setenv("CRS_MIRROR", str(mirror))
    assert datasets.locate("films") == mirror / "t/films.json" == fetch.fetch(FILMS)
    assert command_line.main(["data", "get", "films"]) == 0
    assert "films: in the mirror, 1 files with their checksum" in capsys.readouterr().out
    (mirror / "t/films.json").write_bytes(b"{}")
    with pytest.raises(RunError, match=r"the mirror's copy \(CRS_MIRROR\) of t/films.json has another"):
        fetch.fetch(FILMS)
    assert server.asked == [] and left(tmp_path / "external") == []


def test_what_only_a_mirror_has_says_so(server, monkeypatch):
    refused("no public address; set CRS_MIRROR", datasets.locate, "only", error=RunError)
    refused("no public address; set CRS_MIRROR", fetch.fetch, ONLY, error=RunError)
    monkeypatch.setenv("CRS_MIRROR", "/no/such/mirror")
    with pytest.raises(RunError, match=r"CRS_MIRROR is '/no/such/mirror', which is no folder\); get it with"):
        datasets.locate("films")


def test_commands_name_what_is_unknown_or_absent(server, capsys, monkeypatch):
    assert command_line.main(["data", "get", "film"]) == 2
    assert "unknown data set 'film'; did you mean 'films'?" in capsys.readouterr().err
    assert command_line.main(["data", "verify", "films"]) == 2
    assert "python -m crs_lib data get films" in capsys.readouterr().err
    assert command_line.main(["data", "list", "films"]) == 0
    shown = capsys.readouterr().out
    assert server.base + RAW + "data/films.json" in shown and FILM.sha256 in shown
    monkeypatch.setitem(sys.modules, "pooch", None)
    refused(re.escape('pip install "crs-lib[data]"'), fetch.fetch, FILMS)


@pytest.mark.parametrize("row", datasets.every().values(), ids=lambda row: row.name)
def test_every_row_keeps_the_contract(row):
    assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", row.name)
    assert row.study in ("movies", "cosrec", "realtalk")
    if row.wheels:
        assert all(re.search(r"==\d+\.\d+\.\d+$", wheel) for wheel in row.wheels) and row.files[0].sha256
    elif row.package:  # one version of a package, and of every file a checksum: nothing else can arrive
        assert re.search(r"@\d+\.\d+\.\d+$", row.package) and all(file.sha256 for file in row.wanted)
    else:
        assert re.fullmatch(r"[0-9a-f]{40}", row.origin.commit)  # a commit, never a branch
    assert row.origin.licence and row.summary
    assert row.files or row.members
    for file in row.files:
        assert not Path(file.path).is_absolute() and ".." not in file.path
        assert file.source is None or row.wheels or row.origin.commit in row.address(file)
        assert (file.sha256 is None) == (file.size is None)
        assert file.sha256 is not None or file.source is not None  # neither known nor fetchable: no use
    if row.members:
        assert re.compile(row.members).groups == 1
        assert row.folder and row.origin.commit in row.address()
    assert row.checksum == RECORDED or all(file.sha256 for file in row.files)
    assert len(row.wanted) < 2 or row.folder  # several files are located as a folder


def test_a_file_belongs_to_one_row():
    files = []
    for row in datasets.every().values():
        files += row.files
    assert len(files) == len({file.path for file in files})
    assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in files if file.sha256)
    assert sum(file.sha256 is not None for file in files) > 40
    assert File("crsarena/crs_arena_eval.json", "dataset/crs_arena_eval.json") in files
    film, *_ = datasets.get("thesis-logs-20").files
    assert (film.source, film.size, len(film.sha256)) == (None, 2206586, 64)


@pytest.mark.parametrize(("name", "turns"), [
    ("gemma:2b_session_gemma:2b_17.json", "20"), ("llama3:instruct_session_llama3:instruct_999.json", "20"),
    ("gemma:2b_session_00017.json", "50"), ("llama3:instruct_session_00099.json", "50"),
    ("gemma:2b_judge_scores.csv", ""),
])  # fmt: skip
@pytest.mark.parametrize("folder", ["context-aware", "crs_eval_integrated_updated_V4_updated"])
def test_the_two_forms_of_logs_are_told_apart_by_their_names(folder, name, turns):
    rows = [datasets.get("thesis-logs-20"), datasets.get("thesis-logs-50")]
    path = f"{folder}/logs/{name}"
    assert [r.name[-2:] for r in rows if re.fullmatch(str(r.members), path)] == ([turns] if turns else [])


@pytest.mark.external
def test_the_mirror_has_the_files_of_the_table():
    if not paths.mirror():
        pytest.skip("no mirror of the external data (CRS_MIRROR)")
    checks = [check for row in datasets.every().values() for check in fetch.check(row)]
    assert {check.status for check in checks} <= {"ok", "absent"}
    assert sum(check.status == "ok" for check in checks) > 0


@pytest.mark.subprocess
def test_a_package_gives_its_files_whole_or_not_at_all(server, tmp_path, monkeypatch):
    (tmp_path / "package/dist").mkdir(parents=True)
    (tmp_path / "package/dist/films.json").write_bytes(BODY)
    (tmp_path / "package/dist/other.json").write_bytes(b"{}")
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as archive:
        archive.add(tmp_path / "package", "package")
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$4" = "@t/films@1.0.0" ] && cp {tmp_path}/made.tgz t-films-1.0.0.tgz\n')
    npm.chmod(0o755)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: str(npm))
    good = known("t/films.json", "dist/films.json", BODY)
    row = replace(FILMS, folder="t", files=(good,), package="@t/films@1.0.0")
    assert (fetch.fetch(row) / "films.json").read_bytes() == BODY
    (paths.external() / "t/films.json").unlink()
    with pytest.raises(RunError, match=r"t/films.json has another checksum"):
        fetch.fetch(replace(row, files=(good._replace(source="dist/other.json"),)))
    with pytest.raises(RunError, match=r"lacks a file .*dist/none.json"):
        fetch.fetch(replace(row, files=(good._replace(source="dist/none.json"),)))
    with pytest.raises(RunError, match=r"npm pack @t/else@1.0.0 failed"):
        fetch.fetch(replace(row, package="@t/else@1.0.0"))
    assert not (paths.external() / "t/films.json").exists() and not list(paths.external().glob("*.part"))


METADATA = "Metadata-Version: 2.1\nName: films-part{0}\nVersion: 1.0.0\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel_of(folder, number, part, name="part.bin"):
    """A wheel with one part of a file, by the number of its package."""
    path = folder / f"films_part{number}-1.0.0-py3-none-any.whl"
    facts = f"films_part{number}-1.0.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"films_part{number}/data/{name}", part)
        wheel.writestr(f"{facts}/METADATA", METADATA.format(number))
        wheel.writestr(f"{facts}/WHEEL", WHEEL)
        wheel.writestr(f"{facts}/RECORD", "")
    return path


@pytest.fixture
def in_two_wheels(tmp_path, monkeypatch):
    """A data set whose one file comes in two wheels, and the second of them."""
    wheel_of(tmp_path, 1, BODY[:5])
    second = wheel_of(tmp_path, 2, BODY[5:])
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    files = (known("t/films.json", "parts/films.json", BODY),)
    wheels = ("films-part1==1.0.0", "films-part2==1.0.0")
    return replace(FILMS, folder="t", files=files, wheels=wheels), second


@pytest.mark.subprocess
def test_the_parts_that_wheels_hold_are_joined_in_their_order(in_two_wheels):
    row, _ = in_two_wheels
    assert (fetch.fetch(row) / "films.json").read_bytes() == BODY


def truncated(wheel):
    wheel.write_bytes(wheel.read_bytes()[:-40])


def damaged(wheel):
    wheel.write_bytes(wheel.read_bytes().replace(BODY[5:], bytes(len(BODY) - 5)))


def without_a_part(wheel):
    wheel_of(wheel.parent, 2, BODY[5:], "part.txt")


def with_another_part(wheel):
    wheel_of(wheel.parent, 2, BODY[:5])


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (truncated, "pip download films-part2==1.0.0 failed"),
        (damaged, "the package films-part2==1.0.0 is damaged"),
        (without_a_part, "the package films-part2==1.0.0 is damaged .no file .bin in it"),
        (with_another_part, "another checksum"),
        (Path.unlink, "pip download films-part2==1.0.0 failed"),
    ],
)
def test_a_wheel_that_is_not_as_it_should_be_leaves_nothing(in_two_wheels, spoil, says):
    row, second = in_two_wheels
    spoil(second)
    refused(says, fetch.fetch, row, error=RunError)
    assert not (paths.external() / "t/films.json").exists()
    assert not list(paths.external().glob("*.part"))
