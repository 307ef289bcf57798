"""Thirty functions of the package for readers who have seen nothing else: ``python -m tests.helpers.draw [SEED]``.

Each reader writes what a function returns and what it does in which edge case; the answers are held against the tests.
"""

import ast
import random
import sys

from tests.helpers.house import PACKAGE, ROOT, tree

SEED = 20261128
NUMBER = 30
SHORTEST, LONGEST = 10, 40  # lines of a function, with its docstring


def functions():
    """The source of each function of 10 to 40 lines, by ``file:function`` (methods by class and name)."""
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        file = path.relative_to(ROOT).as_posix()
        for name, node in qualified(tree(path)):
            length = node.end_lineno - node.lineno + 1
            if SHORTEST <= length <= LONGEST:
                sources[f"{file}:{name}"] = ast.get_source_segment(text, node, padded=True)
    return sources


def qualified(node, prefix=""):
    """The functions below a node, each with the names of the classes and functions around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from qualified(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{child.name}", child
            yield from qualified(child, f"{prefix}{child.name}.")
        else:
            yield from qualified(child, prefix)


def draw(seed=SEED):
    """The names and sources of the functions drawn, in the order of the draw."""
    sources = functions()
    names = random.Random(seed).sample(sorted(sources), NUMBER)
    return [(name, sources[name]) for name in names]


if __name__ == "__main__":
    for name, source in draw(int(sys.argv[1]) if len(sys.argv) > 1 else SEED):
        print(f"### {name}\n\n```python\n{source}\n```\n")
