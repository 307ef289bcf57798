"""The house as the code has it: modules, imports, rooms, and the files that three journeys pass.

    python -m tests.helpers.house journeys

Prints the journeys.
"""

import ast
import os
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "crs_lib"


def room(name):
    """The room of a dotted name: crs_lib.llm.cache lies in llm; the package itself in none.

    The clients' commands, which the command line alone imports, are a room of their own above it.
    """
    parts = name.split(".")
    if parts[2:] == ["commands"] and parts[1] != "cli":
        return "commands"
    return parts[1] if len(parts) > 1 else ""


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}
FRONTS = {name for name, path in MODULES.items() if path.name == "__init__.py"}


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Every module of the package that a file imports: at its top, inside a function, under TYPE_CHECKING."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}, line {node.lineno}: write the whole name"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in MODULES else node.module)
    return sorted(names & MODULES.keys())


def rooms(graph):
    """Which rooms each room imports, from the imports of its modules."""
    imported = {}
    for name, others in graph.items():
        if not room(name):
            continue
        neighbours = imported.setdefault(room(name), set())
        neighbours.update(map(room, others))
        neighbours -= {room(name), ""}
    return imported


def passed(do):
    """The files of the package one of whose functions runs while ``do()`` does, in the order of their first call."""
    files = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{PACKAGE}/"):
            files[Path(code.co_filename).relative_to(PACKAGE).as_posix()] = None

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(files)


def journeys():
    """What happens, in words, and the files that it passes, ``core`` included. The first joins what the
    command does in its own process and what the notebook does in its kernel.
    """
    from crs_lib import evaluate, realtalk, simulate
    from crs_lib.__main__ import main

    def command(run):
        main(["run", "01_catalog", "-p", "run", run])

    def batch(run):
        arms = ["shift", "none", "fresh"]
        config = simulate.SimulateConfig(run=run, systems=["tracker"], n_sessions=2, n_turns=10, arms=arms)
        simulate.simulate(config, progress=False)

    def scores(run):
        evaluate.evaluate(evaluate.EvaluateConfig(run=run))

    def question(run):
        realtalk.predict(realtalk.RealTalkConfig(run=run, questions=1))

    def walk(step):
        step("before")  # imports, and what is made once
        return passed(lambda: step("walk"))

    return {
        "`run 03_simulate -p systems tracker` to a line of `dialogues.jsonl`": list(
            {*walk(command), *walk(batch)}
        ),
        "dialogues to a cost of shifts in `model_metrics.csv`": walk(scores),
        "a question to RealTalk to its ranked ids": walk(question),
    }


def listing(files):
    """The journeys as docs/context.md counts them."""
    return "\n".join(f"- {journey}: {len(passed_by)} files" for journey, passed_by in files.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CRS_RESULTS": folder, "CRS_PROGRESS": "off"}
        files_of = journeys()
        for journey, files in files_of.items():
            print(f"{journey}: {', '.join(sorted(files))}")
        print(listing(files_of))
