"""The shape of the package: imports go downward, importing does nothing, files stay small."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "crs_lib"
FILES = sorted(PACKAGE.rglob("*.py"))

STUDIES = ("movies", "cosrec", "realtalk")
LAYERS = (
    ("errors", "paths", "rng", "registry", "text", "dialogue", "tables", "ledger", "runs", "progress", "datasets", "prompts"),
    ("llm", "retrieval", "metrics", "stats", "figures", "batch", "notebooks", "sweeps"),
    STUDIES,
    ("__main__", "commands"),
)  # fmt: skip
FAMILIES = {"datasets_": 0, "notebook_": 1, "batch_": 1}  # a file that was split keeps its layer


def part(name):
    """The second part of a dotted name: crs_lib.llm.cache belongs to llm; the package itself to nothing."""
    return name.split(".")[1] if "." in name else ""


def level(name):
    """The layer of a module, 0 at the bottom; None for the package's own __init__."""
    if not part(name):
        return None
    if part(name).endswith("_cli"):
        return 3
    for number, names in enumerate(LAYERS):
        if part(name) in names:
            return number
    found = [number for start, number in FAMILIES.items() if part(name).startswith(start)]
    assert found, f"{name} belongs to no layer yet; name it in LAYERS of {Path(__file__).name}"
    return found[0]


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in FILES}


def imports(path):
    """Every module of the package that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{path.name}, line {node.lineno}: write the whole name, not a relative one"
            )
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return sorted(name for name in found if name in MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_downward(name):
    mine = level(name)
    if mine is None:
        assert imports(MODULES[name]) == []
        return
    for other in imports(MODULES[name]):
        theirs = level(other)
        assert theirs is None or theirs <= mine, f"{name} imports {other}, which lies above it"
        if mine == 2 and theirs == 2:
            assert part(other) == part(name), f"the study {part(name)} imports the study {part(other)}"


def test_the_commands_of_the_table_are_importable_by_name():
    from crs_lib.__main__ import COMMANDS, load

    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert callable(load(command)), command.name


@pytest.mark.parametrize("name", MODULES)
def test_files_are_small_and_say_what_they_are(name):
    text = MODULES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300, "one idea a file: split it"
    assert not text.strip() or ast.get_docstring(ast.parse(text)), (
        "a module says in its first line what it is"
    )


WATCH = """
import importlib, json, logging, os, sys, threading

optional, modules, root = json.loads(sys.argv[1])

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in optional:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("numpy", "pandas", "scipy.stats", "sklearn", "statsmodels.api", "seaborn", "pyarrow.parquet",
             "pydantic", "httpx", "ollama", "tenacity", "tqdm", "yaml", "nbformat", "papermill"):
    importlib.import_module(name)
import numpy as np

sys.meta_path.insert(0, Missing())
events = []

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        path = os.fsdecode(path) if isinstance(path, (str, bytes)) else str(path)
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        ours = path.startswith(root) and "/.venv/" not in path and not path.endswith((".py", ".pyc"))
        if (writes or ours) and path != os.devnull:
            events.append(f"opens {path}")
    elif event in ("socket.connect", "socket.bind", "subprocess.Popen", "os.mkdir", "os.rename", "os.remove",
                   "sqlite3.connect", "os.putenv", "os.system", "os.chdir"):
        events.append(f"{event} {arguments}")

def state():
    return (np.random.get_state()[1].tolist(), logging.root.level, len(logging.root.handlers),
            threading.active_count(), dict(os.environ))

before = state()
sys.addaudithook(watch)
found = {}
for name in modules:
    events.clear()
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        events.append(f"needs {error.name} when it is imported")
    if state() != before:
        events.append("changes the random state, the logging, the threads or the environment")
    if events:
        found[name] = list(events)
print(json.dumps(found))
"""


def optional_modules():
    """Import names of what only an extra installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {group: lines for group, lines in project["optional-dependencies"].items() if group != "dev"}
    names = {Requirement(line).name for lines in extras.values() for line in lines}
    renamed = {"PyStemmer": "Stemmer", "ir-measures": "ir_measures"}
    return sorted({renamed.get(name, name.replace("-", "_")) for name in names} - {"cryptography"})


def test_importing_a_module_does_nothing_and_needs_no_extra(tmp_path):
    modules = [name for name in MODULES if not name.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCH, json.dumps([optional_modules(), modules, str(ROOT)])],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
