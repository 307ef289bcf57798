"""What a reader of the package takes in: tokens, density, names. No room outgrows its budget, and no mechanism is there twice."""

import ast
import collections
import statistics

import pytest

from crs_lib.cli import names
from tests.helpers import density
from tests.helpers.house import FRONTS, MODULES, PACKAGE, ROOT, tree

HELPERS = ROOT / "tests" / "helpers"
# What is still above its budget, with the figure it has (room, figure): a number here may only fall, and goes once it is within.
REACHED = HELPERS / "budget_reached.tsv"
# Public names rose from 1,127 when no signature named a private class any more, and again with the forms of files and
# servers that are read.
PUBLIC, FRONT_DOOR, SETTINGS, COMMANDS, COMMAND_GROUPS = 1_470, 160, 20, 26, 6


def rooms_of(root):
    """The counts of each room below a folder, and of all together."""
    rooms = collections.defaultdict(collections.Counter)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        name = parts[0] if len(parts) > 1 else "."
        rooms[name].update(density.measure(path))
    total = collections.Counter()
    for counts in rooms.values():
        total.update(counts)
    return {**rooms, "total": total}


def figures_over(root, table):
    """Each figure above its limit: (room, figure) to its value, rounded up to one decimal."""
    budget = density.read_budget(HELPERS / table)
    over = {}
    for name, counts in rooms_of(root).items():
        for fault in density.faults(name, counts, budget):
            values = {"tokens": counts["tokens"], **density.shares(counts)}
            over[f"{root.name}/{name}", fault] = round(values[fault] + 0.05, 1)
    for figure in density.WHOLE:
        limit = budget.get(f"total_{figure}")
        count = rooms_of(root)["total"][figure]
        if limit is not None and count > limit:
            over[f"{root.name}/total", figure] = float(count)
    return over


def reached():
    """The figures that are still above their limits, as they were when they were last written down."""
    figures = {}
    for line in REACHED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            room, figure, value = line.split("\t")
            figures[room, figure] = float(value)
    return figures


@pytest.mark.parametrize(("root", "table"), [(PACKAGE, "budget.tsv"), (ROOT / "tests", "budget_tests.tsv")])
def test_what_a_reader_takes_in_stays_within_the_budget(root, table):
    over = figures_over(root, table)
    limits = {key: value for key, value in reached().items() if key[0].startswith(f"{root.name}/")}
    risen = {key: value for key, value in over.items() if value > limits.get(key, 0) + 1e-9}
    assert risen == {}
    within = sorted(limits.keys() - over.keys())
    assert within == [], "these figures are within the budget now: take their lines out of budget_reached.tsv"


def test_names_and_commands_are_few():
    public = 0
    for path in MODULES.values():
        for node in tree(path).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                public += not node.name.startswith("_")
    assert public <= PUBLIC
    doors = 0
    for name in FRONTS:
        doors += len(getattr(__import__(name, fromlist=["*"]), "__all__", ()))
    assert doors <= FRONT_DOOR
    assert len(names.commands()) <= COMMANDS
    groups = {name.split()[0] for name in names.commands() if " " in name}
    assert len(groups) <= COMMAND_GROUPS


def classes():
    """The name of each class of the package, and the names of its bases."""
    for path in MODULES.values():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield node.name, [ast.unparse(base).partition("[")[0] for base in node.bases]


def test_a_mechanism_is_there_once():
    """One registry, few settings classes, SQLite in one file."""
    assert [name for name, _ in classes() if name.endswith("Registry")] == ["Registry"]
    assert [name for name, bases in classes() if "Registry" in bases] == []
    settings = [name for name, bases in classes() if "Settings" in bases]
    assert len(settings) <= SETTINGS
    opened = [name for name, path in MODULES.items() if b"sqlite3.connect(" in path.read_bytes()]
    assert opened == ["crs_lib.core.store"]


def test_functions_are_short():
    lengths = []
    for path in MODULES.values():
        for node in ast.walk(tree(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                docstring = density.docstring(node)
                length = node.end_lineno - node.lineno + 1
                if docstring:
                    length -= docstring.end_lineno - docstring.lineno + 1
                lengths.append(length)
    lengths.sort()
    assert statistics.median(lengths) <= 9
    assert lengths[int(0.9 * len(lengths))] <= 24
    assert lengths[-1] <= 70
