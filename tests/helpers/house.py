"""The house as the code has it: modules, imports, rooms, and the way of one session through the files.

    python -m tests.helpers.house [walk]

Prints the picture of the rooms, or the walk.
"""

import ast
import graphlib
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "crs_lib"


def room(name):
    """The room of a dotted name: crs_lib.llm.cache lies in llm; the package itself in none."""
    return name.split(".")[1] if "." in name else ""


def dotted(path):
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}
FRONTS = {name for name, path in MODULES.items() if path.name == "__init__.py"}


@cache
def tree(path):
    """A file of the package, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Every module of the package that a file imports: at its top, inside a function, under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{path.name}, line {node.lineno}: write the whole name, not a relative one"
            )
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & MODULES.keys()) | ({node.module} if whole - MODULES.keys() else set())
    return sorted(name for name in found if name in MODULES)


def rooms(graph):
    """Which rooms each room imports."""
    found = {}
    for name, others in graph.items():
        if room(name):
            found.setdefault(room(name), set()).update({room(other) for other in others} - {room(name), ""})
    return found


def picture(graph):
    """The rooms as a Mermaid flowchart, top room first, without arrows that a longer way implies."""
    above = {name: others - {"core"} for name, others in rooms(graph).items() if name != "__main__"}
    reach = {}
    for name in graphlib.TopologicalSorter(above).static_order():
        direct = above.get(name, set())
        reach[name] = direct.union(*(reach[other] for other in direct))
    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(above, key=lambda name: (-len(reach[name]), name)):
        implied = set().union(*(reach[other] for other in above[name]))
        lines += [f"  {name} --> {other}" for other in sorted(above[name] - implied)]
    return "\n".join([*lines, "```"])


def walk():
    """The files that one session of the tracker passes, from its plan to its score, in order.

    A file counts if one of its functions runs; the generic tools of ``core`` do not count. Catalogue, grounder
    and scorer stand ready, and another session has gone before, so nothing that happens once is part of it.
    """
    from crs_lib.catalog import sources
    from crs_lib.catalog.grounder import Grounder
    from crs_lib.evaluate.scorer import ItemsScorer
    from crs_lib.metrics import conventions
    from crs_lib.simulate import conversation
    from crs_lib.simulate.config import SimulateConfig
    from crs_lib.systems.base import World

    catalog = sources.load()
    world = World(catalog, Grounder(catalog))
    scorer = ItemsScorer(world.grounder, conventions.get("default"))
    config = SimulateConfig(run="walk", systems=["tracker"], n_sessions=2, n_turns=10)
    passed = {}

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            passed[Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()] = None

    for session in range(2):
        passed.clear()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            scorer.score_many([conversation.session(world, "tracker", session, config)])
        finally:
            sys.setprofile(before)
    return [name for name in passed if not name.startswith("core/")]


if __name__ == "__main__":
    if sys.argv[1:] == ["walk"]:
        print("\n".join(walk()))
    else:
        print(picture({name: imports(path) for name, path in MODULES.items()}))
