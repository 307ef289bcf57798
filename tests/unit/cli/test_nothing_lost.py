"""No command writes over what it reads, no failed one takes an earlier result, no damaged file is read."""

import ctypes
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from crs_lib import catalog, evaluate, judge, llm, runs
from crs_lib.__main__ import main
from crs_lib.cli import names
from crs_lib.cli.commands import command_class, options_of
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import fields_of
from crs_lib.notebooks import sweeps
from crs_lib.runs.ledger import Ledger
from tests.contract.test_readers import CASES, SEED
from tests.helpers import llm_job, refused
from tests.helpers.sample import scored, simulated

TALK = {
    "session_id": "1", "model_name": "m", "true_genre": "Drama", "shift_events": [],
    "conversation": [{"speaker": "USER", "text": "a drama"}, {"speaker": "SYSTEM", "text": "yes", "rec_titles": []}],
}  # fmt: skip
FILM = {"year": "1999", "genre": ["Drama"], "starring": ["A B"], "plot": "A plot."}
# Words of a command, and a part of the one sentence that refuses them. The test writes the files.
REFUSED = [
    ("thesis topics --catalog sample --seed -1", "seed is -1; input should be greater than or equal to 0"),
    ("thesis topics --catalog sample --seed 4294967296", "seed is 4294967296; input should be less than"),
    ("simulate --scheduler nope://", "scheduler is 'nope://'"),
    ("data score --logs ~nosuchuser/x --catalog sample --out o", "'~nosuchuser/x' is no path: its user does not exist"),
    ("data score --logs a\0b --catalog sample --out o", "'a\\x00b'"),
    ("data score --logs log.jsonl --catalog ~nosuchuser/x.json --out o", "'~nosuchuser/x.json'"),
    ("data score --logs /proc/self/mem --catalog sample --out o", "mem: cannot be read (Input/output error)"),
    ("data score --logs log.jsonl --catalog empty.parquet --out o", "empty.parquet must hold at least one film"),
    ("data score --logs log.jsonl --catalog plots.json --out o", "field 'plot' must be one text, got ['a', 'b']"),
    ("data score --logs log.jsonl --catalog names.json --out o", "field 'name' must be one text, got ['a', 'b']"),
    ("data score --logs log.jsonl --catalog titles.json --out o", "field 'title' must be one text, got {'a': 1}"),
    ("data score --logs log.jsonl --catalog by_id.json --out o", "item '1': field 'name' must be one text"),
    ("thesis topics --catalog plots.json", "plots.json, film 'F': field 'plot' must be one text"),
    ("data score --logs twice.jsonl --catalog sample --out o", "the key 'session_id' stands twice"),
    ("data score --logs events.jsonl --catalog sample --out o", "'shift_events' is [5], expected a list of objects"),
    ("data import events.jsonl", "'shift_events' is [5], expected a list of objects"),
    ("realtalk evaluate --teachers nobody", "teachers is 'nobody'; give one of realtalk, "),
    ("realtalk evaluate --compare teachers nobody realtalk", "teachers is 'nobody'; give one of realtalk, "),
    ("run 03_simulate -f keys.yaml", "'keys.yaml' must map names of parameters to values"),
    ("run 03_simulate -f code.yaml", "could not determine a constructor for the tag"),
    ("run 03_simulate -p run {seed.__class__}", "run name '{seed.__class__}' cannot be a folder"),
    ("simulate -p systems ollama:x -p llm {\"timeout\":[]}", "llm: timeout is []; input should be a valid number"),
    ("simulate -p systems ollama:x -p llm {\"timeout\":1e400}", "'llm' is {'timeout': inf}"),
    ("simulate -p systems ollama:x -p llm {\"host\":5}", "llm: host is 5; input should be a valid string"),
    ("simulate -p systems ollama:x -p llm {\"host\":\"\\u0000\"}", "address cannot be read"),
    ("simulate -p systems ollama:x -p llm {\"host\":\"http://h:99999\"}", "address cannot be read"),
    ("simulate -p systems hybrid:x.npz", "unknown encoder 'x.npz'"),
]  # fmt: skip
LONG, NO_TEXT = "x" * 300, os.fsdecode(b"\xff\xfe.json")
ODD = (LONG, "loop", NO_TEXT, "folder", "pipe", "/dev/zero", "loop/x", "log.jsonl/x", "a\0b")
COMMANDS = (
    "data import @", "data score --logs @ --catalog sample --out o", "catalog export --catalog @ --out o.jsonl",
    "run @", "run 03_simulate -f @", "sweep @", "cosrec index --products @ --out ix",
    "cosrec index --products log.jsonl --out @", "cosrec catalogue --metas @ --reviews @ --out p.jsonl",
    "cosrec intents --train @ --test @ --out i.jsonl", "realtalk predict --chat @ --out p.jsonl --encoder hashing",
    "judge @ --report", "show trace --run @",
    "thesis tables --logs @ --catalog sample --run q", "thesis topics --catalog @",
    "simulate -p systems exec:@", "chat tracker --simulated --catalog @",
    "compare Ours=exec:@", "catalog export --fields @ --out o.jsonl", "realtalk predict --train @ --chat log.jsonl",
    "validity annotate --import @", "data score --logs log.jsonl --catalog sample --vocabulary @ --out o",
    "catalog export --out @/y",  # the last: the others find the folder empty
)  # fmt: skip
SWEEPS = ("finish: figures", "finish: [a]", "run: x\nrun: y", "grid: &a {seed: *a}", "notebooks: 3")
ELSEWHERE = {"cosrec catalogue": {"metas", "reviews"}}  # folders, whose files crs_lib.cosrec.catalogue keeps
KINDS = {name: command_class(command) for name, command in names.commands().items()}
WRITING = [name for name, kind in KINDS.items() if kind.writes]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Where results lie, beside the tests' other files."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def here(results, monkeypatch):
    """The folder where the command is given."""
    monkeypatch.chdir(results.parent)
    return results.parent


@pytest.mark.slow
def test_an_empty_log_takes_nothing_from_an_earlier_result(tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_text(json.dumps(TALK) + "\n")
    words = ["data", "score", "--logs", str(log), "--catalog", "sample", "--out", str(out)]
    assert main(words) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    log.write_text("\n")
    assert main(words) == 2
    assert "there is no dialogue to score" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_files_that_belong_together_take_their_names_together(tmp_path):
    one, two = tmp_path / "a.json", tmp_path / "b.parquet"
    tables.write_json(one, {"old": 1})
    with pytest.raises(InputError, match="nothing to write"), tables.together():
        tables.write_json(one, {"new": 1})
        tables.write_parquet(two, iter([]))
    assert [*tmp_path.iterdir()] == [one]
    assert json.loads(one.read_text()) == {"old": 1}
    with tables.together():
        tables.write_json(one, {"new": 1})
        tables.write_parquet(two, pd.DataFrame({"x": [1]}))
        assert json.loads(one.read_text()) == {"old": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.parquet"]


@pytest.mark.slow
@pytest.mark.usefixtures("results")
def test_dialogues_that_were_cut_or_doubled_are_neither_scored_nor_judged():
    config = {"run": "r", "systems": ["oracle"], "n_sessions": 2, "n_turns": 3}
    path = simulated(**config) / "dialogues.jsonl"
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole + whole, b""):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"dialogues.jsonl of run 'r' is not as it .*03_simulate -p run r"):
            evaluate.evaluate(evaluate.EvaluateConfig(run="r"))
        assert main(["judge", "r", "--judges", "template"]) == 2
    simulated(**config)
    assert path.read_bytes() == whole
    for damaged in ("[]", "null", '{"stages": []}', '{"stages": {"simulate": 3}}', "\x00", "[" * 9_000):
        path.with_name("manifest.json").write_text(damaged)
        refused(r"manifest\.json is damaged", runs.Run("movies", "r").manifest, error=RunError)


@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_refused_in_one_sentence(capsys):
    """Files that are wrong, one after the other in one process: no case takes more than a moment."""
    Path("log.jsonl").write_text(json.dumps(TALK) + "\n")
    Path("twice.jsonl").write_text(json.dumps(TALK)[:-1] + ', "session_id": "2"}\n')
    Path("events.jsonl").write_text(json.dumps(TALK | {"shift_events": [5]}) + "\n")
    for name, value in (("plot", ["a", "b"]), ("name", ["a", "b"]), ("title", {"a": 1})):
        Path(f"{name}s.json").write_text(json.dumps({"F": FILM | {name: value}, "G": FILM}))
    Path("by_id.json").write_text(json.dumps({"1": {"name": ["a"], "star": ["A"]}}))
    catalog.load("sample").save(Path("empty.parquet"))
    pd.read_parquet("empty.parquet").iloc[:0].to_parquet("empty.parquet")
    Path("keys.yaml").write_text("1: 2\n")
    Path("code.yaml").write_text("run: !!python/object/apply:os.system [touch was_run]\n")
    for words, says in REFUSED:
        assert main(words.split(" ")) == 2, words
        shown = capsys.readouterr().err
        message = shown.strip().split("\n  - ")  # a run that cannot start lists what is missing
        assert says in shown and all("\n" not in line for line in message), shown
        assert "Traceback" not in shown
        assert len(shown) < 1_200
    assert not Path("was_run").exists()
    assert not list(Path("o").glob("*"))  # nothing ran, nothing was written


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_whose_folder_is_removed_says_so_at_the_next_session_and_begins_anew(
    results, monkeypatch, replaced
):
    config = {"run": "r", "systems": ["echo"], "n_sessions": 25, "n_turns": 2}
    recorded, record = [], Ledger.record

    def remove(ledger, batch):
        record(ledger, batch)
        recorded.append(len(batch))
        if len(recorded) == 1:
            shutil.rmtree(ledger.path.parent)
            if replaced:
                ledger.path.parent.mkdir()
                ledger.path.write_bytes(b"")

    monkeypatch.setattr(Ledger, "record", remove)
    says = r"ledger.sqlite was removed or replaced; put the folder back"
    refused(says, simulated, **config, error=RunError)
    assert recorded == [10]  # the first chunk alone was made in vain: the next session says so
    if replaced:
        (results / "movies" / "r" / "ledger.sqlite").unlink()
    assert len((simulated(**config) / "dialogues.jsonl").read_text().splitlines()) == 25


def test_a_clock_that_goes_backwards_changes_no_byte(results, monkeypatch):
    clock = itertools.count(2_000_000_000, -3_600)
    given = {"catalog": llm_job.catalogue(results.parent), "systems": ["template"], "user_llm": "template"}

    def made(run):
        folder = simulated(run=run, n_sessions=1, n_turns=3, **given)
        judge.judge_run(run, ["template"], progress=False)
        evaluate.evaluate(evaluate.EvaluateConfig(run=run))
        return [(folder / name).read_bytes() for name in llm_job.FILES]

    forwards = made("forwards")
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    assert made("backwards") == forwards
    calls = llm.usage(tables.read_jsonl(results / "movies" / "backwards" / "llm_calls.jsonl"))
    assert calls["failed"].sum() == 0
    assert (calls["seconds"] >= 0).all()


def test_a_sweep_without_end_is_refused_with_its_limit(tmp_path):
    path = tmp_path / "s.yaml"
    grid = f"grid: {{seed: {list(range(300))}, n_turns: {list(range(1, 300))}}}"
    most = "89,700, the limit is 10,000 runs of one sweep; raise it with CRS_MOST_SWEEP_CELLS"
    odd = ("x-{seed:99999999}", "grid: {seed: [1]}", "cannot be a folder")
    for run, cells, says in [("x-{seed}-{n_turns}", grid, most), odd]:
        path.write_text(f'notebooks: [03_simulate]\nrun: "{run}"\n{cells}\n')
        refused(says, sweeps.read, path)


@pytest.fixture
def folder(here):
    Path("log.jsonl").write_text("{}\n")
    Path("loop").symlink_to("pool")
    Path("pool").symlink_to("loop")
    Path("folder").mkdir()
    os.mkfifo("pipe")


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_what_is_odd_is_one_sentence(capsys):
    for command, odd in itertools.product(COMMANDS, ODD):
        if (command, odd) == (COMMANDS[-1], "folder"):  # a folder may hold it
            continue
        arguments = [word.replace("@", odd) for word in command.split()]
        assert main(arguments) == 2, arguments
        shown = capsys.readouterr().err
        assert "Traceback" not in shown, arguments
        assert "damaged" not in shown, (arguments, shown)
        assert len(shown) < 1_200, arguments
    for text in SWEEPS:
        run = "" if text.startswith("run") else "run: r"
        Path("s.yaml").write_text(f"notebooks: [01_catalog]\n{run}\n{text}\n")
        assert main(["sweep", "s.yaml"]) == 2, text
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_run_whose_files_lack_parts_is_one_sentence(capsys):
    run = paths.run_folder("movies", scored("faulty", systems=("oracle",), n_sessions=2, n_turns=4))

    def assert_refused_with(path, damaged):
        whole = path.read_bytes()
        path.write_bytes(damaged)
        assert main(["show", "trace", "report", "--run", "faulty"]) == 2, damaged
        path.write_bytes(whole)

    manifest = json.loads((run / "manifest.json").read_text())
    for change in ({"packages": 3}, {"code": [1]}, {"stages": {"simulate": {}}}):
        assert_refused_with(run / "manifest.json", json.dumps(manifest | change).encode())
    assert_refused_with(run / "turns.parquet", pd.DataFrame({"x": [1]}).to_parquet())
    assert_refused_with(run / "turns.parquet", b"no table")
    assert_refused_with(run / "cleaning_report.csv", b"")
    assert_refused_with(run / "cleaning_report.csv", b"a,b\n1\n")
    (run / "llm_calls.jsonl").write_text("{}\n")
    assert main(["show", "report", "--run", "faulty"]) == 2
    assert main(["simulate", "--estimate", "--log", "faulty", "-p", "systems", "ollama:x"]) == 2
    (run / "llm_calls.jsonl").unlink()
    (run / ".lock").write_text("garbage " * 200)
    assert main(["simulate", "-p", "run", "faulty", "-p", "systems", "oracle"]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "its file .lock" in shown
    (run / ".lock").unlink()


def started(words, flags=("-m", "crs_lib"), program=sys.executable, **options):
    """What becomes of a command in a process of its own."""
    given = {"stderr": subprocess.PIPE, "text": True, "timeout": 120, "check": False, **options}
    given["env"] = {**os.environ, "PYTHONPATH": str(paths.ROOT), **given.get("env", {})}
    return subprocess.run([program, *flags, *words], **given)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("limit", [12, 16, 24])
def test_with_few_file_handles_nothing_is_called_damaged(limit):
    run = paths.run_folder("movies", scored("handles", systems=("oracle",), n_sessions=2, n_turns=4))
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file() and path.name != ".lock"}
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # noqa: E731
    words = ["validity", "annotate", "--run", "handles", "--n", "2"]
    done = started(words, preexec_fn=few, stdout=subprocess.DEVNULL)
    assert not [word for word in ("damaged", "remove", "Move it away") if word in done.stderr], done.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.subprocess
def test_closed_and_full_outputs_and_no_docstrings(tmp_path):
    words = ["catalog", "export", "--out"]
    optimised = ["-OO", "-m", "crs_lib"]
    closed = started([*words, str(tmp_path / "a.jsonl")], optimised, stdout=None, close_fds=True)
    assert closed.returncode == 0
    assert (tmp_path / "a.jsonl").stat().st_size > 1_000
    shell = f'"{sys.executable}" -m crs_lib {" ".join(words)} "{tmp_path}/b.jsonl" >&-'
    done = started(["-c", shell], (), "sh")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "b.jsonl").stat().st_size > 1_000
    with open("/dev/full", "w") as full:
        told = started([*words, str(tmp_path / "c.jsonl")], stdout=full)
    assert told.returncode == 2
    assert "RunError: No space left on device" in told.stderr
    assert "Traceback" not in told.stderr


def without_privileges():
    """Give up what lets root pass permissions by (Linux: reading, writing and searching everything)."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability)


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
@pytest.mark.usefixtures("folder")
def test_folders_without_permission_are_one_sentence():
    Path("shut").mkdir(0)
    Path("read").mkdir(0o500)
    given = [words.replace("@", place) for words in COMMANDS for place in ("shut/x", "read/x")]
    given += ["simulate -p run r -p systems random -p n_sessions 1 -p n_turns 2", "show report --run r"]
    code = "import sys; from crs_lib.__main__ import main; print([w for w in sys.argv[1:] if main(w.split()) != 2])"
    options = {"env": {"CRS_RESULTS": "shut"}, "preexec_fn": without_privileges, "stdout": subprocess.PIPE}
    done = started(given, ["-OO", "-c", code], **options)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "damaged" not in done.stderr
    assert len(done.stderr) < 400 * len(given), done.stderr


def named(entries):
    """The options that the entries of ``reads`` or ``writes`` name."""
    return list(dict.fromkeys(entry.partition("/")[0] for entry in entries.split()))


@pytest.mark.parametrize("name", KINDS)
def test_every_command_says_which_options_are_files(name):
    kind = KINDS[name]
    files = {field.name for field in fields_of(kind) if Path in field.kinds}
    if kind.writes:
        files |= {"catalog", "logs"} & options_of(kind).keys()
    else:
        files -= {"f", "chat", "train", "dialogues"}  # read, and nothing is written that an option names
    assert files - ELSEWHERE.get(name, set()) <= {*named(kind.reads), *named(kind.writes)}


@pytest.fixture
def world(here, monkeypatch):
    """A run, notebooks that are committed, and a file and a folder that commands read."""
    run, books, folder = here / "results" / "movies" / "r", here / "books", here / "in"
    for place in (run, books, folder):
        place.mkdir(parents=True)
    for name in ("manifest.json", "dialogues.jsonl", "catalog.parquet", ".lock", "turns.parquet"):
        (run / name).write_text(name)
    shutil.copy(paths.notebooks() / "01_catalog.ipynb", books / "01_catalog.ipynb")
    (folder / "one.jsonl").write_text("{}\n")
    os.link(run / "turns.parquet", here / "hard.parquet")
    (here / "link").symlink_to(run / "manifest.json")
    (here / "books.ipynb").symlink_to(books / "01_catalog.ipynb")
    monkeypatch.setattr(paths, "notebooks", lambda: books)
    return here


def words(name, given):
    """A command line with these options, and something for every other one that is required."""
    kind = KINDS[name]
    values = {field.name: "x" for field in fields_of(kind) if field.required}
    values |= {"validity people": {"part": "revisions"}, "catalog": {"kind": "export"}}.get(name, {})
    if "catalog" in named(kind.reads):
        values["catalog"] = "sample"
    line = name.split()
    for option, value in (values | given).items():
        if option not in kind.positional:
            line.append(f"-{option}" if len(option) == 1 else f"--{option.rstrip('_').removeprefix('n_')}")
        line.append(str(value))
    return line


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", WRITING)
def test_no_output_is_an_input_a_file_of_a_run_or_a_committed_notebook(name, world, capsys):
    kind = KINDS[name]
    before = contents(world)
    run = world / "results" / "movies" / "r"
    places = [(place, {}) for place in ("results/movies/r/manifest.json", "link", run / ".." / "r" / ".lock", "books.ipynb",
                                      "books/01_catalog.ipynb", run / "dialogues.jsonl", run)]  # fmt: skip
    file = "in/one.jsonl"
    for read in set(named(kind.reads)) & set(kind.model_fields):
        places += [(file, {read: file}), ("in/../in/one.jsonl", {read: world / file}), (file, {read: "in"})]
    if "catalog" in named(kind.reads):
        places += [(place, {"catalog": f"{file}+plot"}) for place in (file, f"{file}+plot")]
    for entry in kind.writes.split():
        option, _, file = entry.partition("/")
        for place, given in places:
            if file:  # the folder is named: the file within is a link to the place
                shutil.rmtree("out", ignore_errors=True)
                Path("out").mkdir()
                (Path("out") / file).symlink_to((world / place).absolute())
            assert main(words(name, given | {option: "out" if file else place})) == 2, (place, given)
            assert "give another output" in capsys.readouterr().err, (place, given)
    shutil.rmtree("out", ignore_errors=True)
    assert contents(world) == before


def another_name(draw, path, world):
    """The same file under a name that is drawn: relative, in a roundabout way, by a link, in other letters."""
    link = world / f"n{draw.randrange(10**9)}"
    kind = draw.choice(["plain", "relative", "around", "doubled", "link", "hard", "folder", "case"])
    if kind == "hard" and "results" in path.parts:  # outputs are new files: one of its names would go, not it
        kind = "link"
    if kind in ("link", "hard", "folder"):
        (os.link if kind == "hard" else os.symlink)(path.parent if kind == "folder" else path, link)
        return link / path.name if kind == "folder" else link
    other = path.with_name(path.name.upper())
    if kind == "case" and other.exists():
        return other
    names = {"relative": path.relative_to(world), "around": path.parent / ".." / path.parent.name / path.name}
    return f"{path.parent}//.//{path.name}" if kind == "doubled" else names.get(kind, path)


@pytest.mark.parametrize("name", WRITING)
def test_no_drawn_name_of_a_file_is_written_over(name, world, capsys):
    kind = KINDS[name]
    files = contents(world)
    reads = sorted(set(named(kind.reads)) & set(kind.model_fields))
    for number in range(max(6, CASES // 10)):
        draw = random.Random(f"{SEED} {name} {number}")
        free = [path for path in files if path.parent != world and (reads or path.parent.name != "in")]
        path = draw.choice(free)
        option, _, file = draw.choice(kind.writes.split()).partition("/")
        inputs = {}
        if path.parent.name == "in":  # no run's file, no notebook: it must not be read and written at once
            read = draw.choice(reads)
            more = draw.choice(["", "+plot"]) if read == "catalog" else ""
            inputs = {read: f"{another_name(draw, path, world)}{more}"}
        out = another_name(draw, path, world)
        if file:
            link = world / f"out{number}" / file
            link.parent.mkdir()
            link.symlink_to(world / out)
            out = link.parent
        arguments = words(name, inputs | {option: out})
        case = (f"CRS_FUZZ_SEED={SEED}", arguments)
        assert main(arguments) == 2, case
        assert "give another output" in capsys.readouterr().err, case
        for path, content in files.items():
            assert path.read_bytes() == content, case


def test_a_notebook_is_not_executed_into_another_ones_place(world, capsys):
    shutil.copy("books/01_catalog.ipynb", "books/02_users.ipynb")
    assert main(["run", "01_catalog", "-o", "books/02_users.ipynb"]) == 2
    assert "is a committed notebook and would be written over" in capsys.readouterr().err
