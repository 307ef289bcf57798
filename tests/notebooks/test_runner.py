"""Running and refreshing real notebooks in real kernels."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from crs_lib import notebooks
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.notebooks import runner
from crs_lib.notebooks.runner import load
from tests.helpers import books, refused, table
from tests.helpers.jobs import alive, wait_until

pytestmark = pytest.mark.slow
ENVIRONMENT = """import os, sys, crs_lib, matplotlib
here = {"prefix": sys.prefix, "library": str(Path(crs_lib.__file__).parent), "folder": os.getcwd(),
        "bars": os.environ["CRS_PROGRESS"], "live": "JPY_SESSION_NAME" in os.environ}
folder = paths.run_folder("movies", run)
tables.write_json(folder / "words.json", config)
tables.write_json(folder / "here.json", here)
text = " ".join((parts * count)[:count])"""
ERRORS = {"InputError": InputError, "RunError": RunError}
# A manager that takes its time, so that nbclient sees what becomes of the cell that was interrupted: that it
# answers with an error before its kernel is asked to end, or that its kernel is dead before all is cleaned up.
SLOWLY = """
import asyncio, sys
from jupyter_client.manager import AsyncKernelManager

async def slowly(self, restart=False, plain=AsyncKernelManager.{method}):
    await asyncio.sleep(2.5)
    await plain(self, restart=restart)

AsyncKernelManager.{method} = slowly
from crs_lib.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
PROGRAMS = {
    "as it is": ["-m", "crs_lib"],
    "the cell answers": ["-c", SLOWLY.format(method="_async_request_shutdown")],
    "the kernel is dead": ["-c", SLOWLY.format(method="_async_cleanup_resources")],
}
READS = """before = paths.run_folder("movies", run) / "words.json"
folder = before.parent
text = before.read_text() and " ".join((parts * count)[:count])
print("one")
print("two", flush=True)
import sys; print("three"); sys.stdout.flush(); print("four")
config"""
WARNS = """
import sys, types, warnings
from crs_lib import notebooks
notebooks.begin()

def caused_by(module, category):
    try:
        warnings.warn_explicit("old", category, "x.py", 1, module=module)
    except Warning:
        return "error"
    return "silent"

for category in (UserWarning, RuntimeWarning, DeprecationWarning, FutureWarning, ResourceWarning):
    print(category.__name__, *(caused_by(m, category) for m in ("__main__", "crs_lib.core.text", "pandas.core")))
import pandas as pd
print(*pd.Series([-0.0004, -0.0006]).to_string(index=False).split())
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def read(path):
    return json.loads(path.read_text())


@pytest.mark.subprocess
def test_a_run_gets_its_parameters_and_the_environment_of_its_runner(results, tmp_path, monkeypatch):
    planted = tmp_path / "jupyter" / "kernels" / "python3"  # found before the environment's own
    planted.mkdir(parents=True)
    broken = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}
    (planted / "kernel.json").write_text(json.dumps(broken))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JPY_SESSION_NAME", "another.ipynb")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    source = books.write(tmp_path / "a {b}", "01_hello", replace={"work": ENVIRONMENT})
    before = source.read_bytes()
    out = notebooks.run(source, {"run": "007", "count": 3, "parts": ["a", "b"], "options": {"x": [1, None]}})
    assert out == results / "movies" / "007" / "notebooks" / "01_hello.ipynb"
    folder = results / "movies" / "007"
    config = read(folder / "words.json")
    assert config.pop("options") == {"x": [1, None]}
    assert config == {"count": 3, "loud": False, "parts": ["a", "b"], "weight": 0.5}
    here = read(folder / "here.json")
    assert here["library"] == str(paths.ROOT / "crs_lib")
    assert here["prefix"] == sys.prefix
    assert here["folder"] == str(tmp_path)
    assert here["bars"] == "off"
    assert not here["live"]
    assert source.read_bytes() == before
    assert books.code_counts(out) == [*range(1, 10)]  # the injected cell is one more


@pytest.mark.parametrize(("values", "message"), table(__file__, "wrong_values"))
def test_a_wrong_parameter_is_refused_before_anything_runs(results, tmp_path, values, message):
    refused(message, notebooks.run, books.write(tmp_path, "01_hello"), values)
    assert not results.exists()


def test_a_tuple_is_no_list(tmp_path):
    refused("'parts' is", notebooks.run, books.write(tmp_path, "01_hello"), {"parts": ("a",)})


def test_a_notebook_is_not_written_over_itself(tmp_path):
    source = books.write(tmp_path, "01_hello")
    with pytest.raises(InputError, match=r"01_hello.ipynb would be written over .*give another output"):
        notebooks.run(source, {}, tmp_path / "." / "01_hello.ipynb")
    refused(r"ends in .ipynb", notebooks.run, source, {}, tmp_path / "out.txt")


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A notebook in the folder of the committed ones, which is below the folder where one stands."""
    monkeypatch.setattr(paths, "notebooks", lambda: tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    return books.write(tmp_path / "notebooks", "03_simulate")


@pytest.mark.parametrize("name", ["03_simulate", "03_simulate.ipynb", "notebooks/03_simulate.ipynb"])
def test_a_notebook_is_found_by_its_name(committed, name):
    assert notebooks.find(name) == committed


@pytest.mark.parametrize("kind", [Path, str, lambda path: path.with_suffix("")])
def test_a_notebook_is_found_by_its_path(committed, kind):
    assert notebooks.find(kind(committed)) == committed


def test_an_unknown_notebook_gets_a_suggestion(committed):
    refused("unknown notebook '03_simulat'; did you mean '03_simulate'", notebooks.find, "03_simulat")


@pytest.mark.parametrize(
    ("name", "study"),
    [("01_a", "movies"), ("14_a", "cosrec"), ("21_a", "realtalk"), ("31_a", "movies"), ("a", "other")],
)
def test_the_tens_digit_names_the_study(name, study):
    assert runner.study(Path(f"{name}.ipynb")) == study


@pytest.mark.subprocess
@pytest.mark.parametrize(("source", "error", "message", "line"), table(__file__, "failures"))
def test_a_failing_cell_is_one_plain_message_and_the_notebook_is_kept(
    results, tmp_path, source, error, message, line
):
    folder = results / "movies" / "smoke" / "notebooks"
    folder.mkdir(parents=True)
    (folder / "01_hello.ipynb").write_text("an earlier, finished one")
    path = books.write(tmp_path, "01_hello", replace={"work": source})
    with pytest.raises(ERRORS[error]) as caught:
        notebooks.run(path)
    assert (folder / "01_hello.ipynb").read_text() == "an earlier, finished one"
    lines = str(caught.value).splitlines()
    assert message in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert len(lines) <= 3
    if line:
        assert line in (folder / "01_hello.failed.ipynb").read_text()


def _can_be_interrupted():
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.subprocess
@pytest.mark.parametrize("program", PROGRAMS)
def test_interrupting_stops_the_kernel_and_says_that_it_continues(results, tmp_path, program):
    sign = tmp_path / "kernel"
    slow = f"import os, time\nPath({str(sign)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    path = books.write(tmp_path, "01_hello", replace={"work": slow})
    command = [sys.executable, *PROGRAMS[program], "run", str(path)]
    wires = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": _can_be_interrupted}
    process = subprocess.Popen(command, **wires)
    wait_until(lambda: sign.exists() and sign.read_text())
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert message.strip() == "stopped; what was finished is stored, the same command continues"
    wait_until(lambda: not alive(int(sign.read_text())))


@pytest.mark.subprocess
def test_refreshing_runs_a_study_in_order_and_gives_the_same_bytes(results, tmp_path):
    first = books.write(tmp_path / "books", "01_hello")
    second = books.write(tmp_path / "books", "02_reads", replace={"work": READS})
    books.write(tmp_path / "books", "03_broken", replace={"work": "1 / 0"})  # comes later, is not needed
    original = first.read_bytes()
    assert notebooks.refresh([second]) == [second.resolve()]
    stored = second.read_bytes()
    assert first.read_bytes() == original  # it ran, but was not asked for
    assert not results.exists()
    assert notebooks.refresh([second]) == []
    assert second.read_bytes() == stored
    book = load(second)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert book.metadata == {"kernelspec": kernel}
    assert books.code_counts(second) == [*range(1, 9)]
    cells = {cell.id: cell for cell in book.cells}
    assert list(cells) == [cell.id for cell in books.book("02_reads").cells]
    assert cells["parameters"].metadata == {"tags": ["parameters"]}
    assert cells["work"].metadata == {}
    text, value = cells["work"].outputs
    assert text.text == "one\ntwo\nthree\nfour\n"
    assert "text" not in value
    page = cells["begin"].outputs[0].data["text/html"]
    assert '[data-jp-theme-light="false"]' in page  # figures turn dark there


@pytest.mark.subprocess
def test_a_notebook_that_fails_or_breaks_a_rule_is_not_refreshed(tmp_path):
    path = books.write(tmp_path, "01_hello", replace={"work": "1 / 0"})
    before = path.read_bytes()
    refused("ZeroDivisionError", notebooks.refresh, [path], error=RunError)
    assert path.read_bytes() == before
    path = books.write(tmp_path, "01_hello", replace={"reading": "It is 2 words long."})
    with pytest.raises(RunError, match=r"01_hello.ipynb: the reading at the end .*number typed by hand"):
        notebooks.refresh([path])


def test_the_kernel_of_another_environment_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_PREFIX", str(tmp_path))
    with pytest.raises(RunError, match="was started from") as caught:
        notebooks.begin()
    assert sys.prefix in str(caught.value)


@pytest.mark.subprocess
def test_warnings_are_errors_but_for_those_of_libraries_and_tables_show_three_decimals():
    process = subprocess.run([sys.executable, "-c", WARNS], capture_output=True, text=True, check=True)
    *lines, numbers = process.stdout.splitlines()
    assert lines == list(map(" ".join, table(__file__, "warnings")))
    assert numbers == "0.000 -0.001"


@pytest.mark.subprocess
def test_nbval_finds_the_one_output_that_changed_in_a_refreshed_notebook(tmp_path):
    path = books.write(tmp_path, "01_hello")
    notebooks.refresh([path])
    book = nbformat.read(path, as_version=4)
    work = {cell.id: cell for cell in book.cells}["work"]
    work.outputs[0].data["text/plain"] = "'hello again'"
    nbformat.write(book, path)
    options = "--nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg -p no:cacheprovider"
    command = [sys.executable, "-m", "pytest", *options.split(), str(path), "-c", "pyproject.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=paths.ROOT)
    assert done.returncode == 1
    assert "1 failed, 7 passed" in done.stdout


@pytest.mark.subprocess
def test_the_first_notebook_runs_twice(tmp_path):
    values = {"sessions": 2, "users": 6}
    for name in ("one.ipynb", "two.ipynb"):
        notebooks.run("00_start", values, tmp_path / name)
    assert (tmp_path / "two.ipynb").is_file()
