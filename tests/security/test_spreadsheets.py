"""Tables that a spreadsheet does not run: every text that it would take for a formula is written as text."""

import ast
import csv
from pathlib import Path

import pandas as pd
import pytest

import crs_lib
from crs_lib import evaluate, simulate
from crs_lib.core import paths, tables
from crs_lib.report import outcomes, page
from crs_lib.simulate.logged import ImportConfig, import_logs
from tests.helpers.sample import simulated

HOSTILE = ("=1+1", "+1", "-2+3", "@SUM(A1)", "\tx", "\ry", "'=z", "''@w")
HARMLESS = ("tracker", "'tis", "a=b", "−1", "", "NA", "7")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
PACKAGE = Path(crs_lib.__file__).parent
WRITERS = {"to_csv", "to_excel", "csv.writer", "DictWriter", "ExcelWriter", "Workbook"}


def _cells(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def _run_by_a_spreadsheet(cells):
    """The cells that begin as a formula and are no numbers."""
    texts = []
    for cell in cells:
        if cell.startswith(FORMULA):
            try:
                float(cell)
            except ValueError:
                texts.append(cell)
    return texts


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_that_begins_as_a_formula_gets_an_apostrophe(name):
    assert tables.as_text(name) == f"'{name}"
    assert tables.as_it_was(tables.as_text(name)) == name


@pytest.mark.parametrize("name", HARMLESS)
def test_any_other_text_stays_as_it_is(name):
    assert tables.as_text(name) == name
    assert tables.as_it_was(name) == name


def test_numbers_stay_numbers_and_names_come_back(tmp_path):
    names = [*HOSTILE, *HARMLESS]
    frame = pd.DataFrame({"model": names, "=cost": -0.5, "kind": pd.Categorical(names)})
    tables.write_csv(tmp_path / "x.csv", frame)
    assert _run_by_a_spreadsheet(_cells(tmp_path / "x.csv")) == []
    read = tables.read_csv(tmp_path / "x.csv")
    assert read["model"].fillna("").tolist() == names
    assert read["=cost"].tolist() == [-0.5] * len(names)
    assert read["kind"].fillna("").tolist() == names


def test_the_data_of_a_figure_on_a_page_are_texts_too():
    assert tables.csv_of(pd.DataFrame({"system": ["=1+1"], "n": [-3]})) == "system,n\n'=1+1,-3\n"
    assert "tables.csv_of" in Path(page.__file__).read_text()


def test_one_function_writes_every_table_of_the_package():
    files = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and not WRITERS.isdisjoint((node.attr, ast.unparse(node))):
                files.add(path.relative_to(PACKAGE).as_posix())
    assert files == {"core/tables.py"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A log whose two systems are named as formulas, imported, scored and tested."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        simulated(run="plain", systems=("tracker", "random"), n_sessions=3, n_turns=6)
        records = []
        for talk in simulate.iter_dialogues("plain"):
            name = HOSTILE[0] if talk.model_name == "tracker" else HOSTILE[3]
            records.append({**talk.to_json(), "model_name": name})
        tables.write_jsonl(folder / "log.jsonl", records)
        import_logs(ImportConfig(logs=str(folder / "log.jsonl"), run="hostile"))
        evaluate.evaluate(evaluate.EvaluateConfig(run="hostile"))
        outcomes.write_tables("hostile")
        yield folder


def test_no_table_of_a_run_has_a_formula(results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))
    files = list(paths.run_folder(simulate.STUDY, "hostile").rglob("*.csv"))
    assert len(files) >= 5
    for path in files:
        assert _run_by_a_spreadsheet(_cells(path)) == [], path.name


def test_a_run_reads_its_names_as_they_were(results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))
    assert set(evaluate.read("hostile", "model_metrics")["model"]) == {HOSTILE[0], HOSTILE[3]}
