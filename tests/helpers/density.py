#!/usr/bin/env python3
"""How much a reader of a package has to take in, room by room, beside the budget.

Counted over statements (docstrings, comments and imports left out), so that no formatter changes the figures:
tokens, tokens a statement, comprehensions and conditional expressions per 1,000 statements, the share of statements with 40 tokens or more;
and in the whole tree: vague local names, public functions whose signature names a private class, private names of another module, files.

usage: density.py [PACKAGE_DIR] [BUDGET_TSV] [--files]
       (default: crs_lib, and budget.tsv beside this file; budget_tests.tsv is for tests; exit status 1 where something is over)
"""

import ast
import bisect
import collections
import io
import math
import pathlib
import re
import sys
import tokenize

NOT_READ = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
VAGUE = set("found told made one known given kept held mine place rule said taken asked drawn".split())
PRIVATE_CLASS = re.compile(r"(?<!\w)_[A-Z]\w+")
HEAVY = 40  # tokens of a statement
SMALL = 60  # statements: below it a room's shares say nothing

WHOLE = ("files", "vague", "leaks", "taken")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def docstring(node):
    """The docstring's node of a module, class or function, or None."""
    if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) or not node.body:
        return None
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return first
    return None


def is_vague(node):
    """Whether the node gives a vague name to a variable or an argument."""
    if isinstance(node, ast.arg):
        return node.arg in VAGUE
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE


def public_functions(tree):
    """Functions without underscore, at the top and in classes without underscore."""
    bodies = [tree.body]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bodies.append(node.body)
    for body in bodies:
        for node in body:
            if isinstance(node, FUNCTIONS) and not node.name.startswith("_"):
                yield node


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_attributes(tree):
    """How often a private name of an imported module is used (``module._name``)."""
    modules = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules.update(alias.asname or alias.name for alias in node.names)
    uses = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses += is_private(node.attr) and node.value.id in modules and node.value.id[0].islower()
    return uses


def names_private_class(function):
    """Whether the signature of a function names a class with underscore."""
    arguments = function.args.args + function.args.kwonlyargs
    hints = [function.returns] + [argument.annotation for argument in arguments]
    return any(PRIVATE_CLASS.search(ast.unparse(hint)) for hint in hints if hint is not None)


def read_tokens(source):
    """The tokens of a text; an f-string is one, as it was before Python 3.12."""
    start, end = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if start is not None and token.type == start:
            depth += 1
            if depth == 1:
                yield token
        elif end is not None and token.type == end:
            depth -= 1
        elif depth == 0:
            yield token


def measure(path):
    """The counts of one file."""
    source = path.read_text()
    tree = ast.parse(source)
    counts = collections.Counter(files=1)
    skipped = set()
    for node in ast.walk(tree):
        text = docstring(node)
        if text is not None:
            skipped.update(range(text.lineno, text.end_lineno + 1))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            skipped.update(range(node.lineno, node.end_lineno + 1))
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            counts["taken"] += sum(is_private(name) for name in names)
        counts["comprehensions"] += isinstance(node, COMPREHENSIONS)
        counts["conditionals"] += isinstance(node, ast.IfExp)
        counts["vague"] += is_vague(node)
    counts["taken"] += private_attributes(tree)
    for function in public_functions(tree):
        counts["leaks"] += names_private_class(function)
    sizes = statement_sizes(source, tree, skipped)
    counts["code"] = len(sizes)
    counts["tokens"] = sum(sizes)
    counts["heavy"] = sum(1 for tokens in sizes if tokens >= HEAVY)
    return counts


def statement_sizes(source, tree, skipped):
    """The tokens of each statement; those of a block's head belong to the statement that opens it."""
    starts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno not in skipped:
            first = min(
                [node.lineno] + [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
            )
            starts.append((first, node.col_offset if first == node.lineno else 0))
    starts.sort()
    sizes = [0] * len(starts)
    for token in read_tokens(source):
        if token.type not in NOT_READ and token.start[0] not in skipped:
            statement = bisect.bisect_right(starts, token.start) - 1
            if statement >= 0:
                sizes[statement] += 1
    return sizes


def shares(counts):
    """The figures that have a limit in every room."""
    code = max(counts["code"], 1)
    return {
        "t/stmt": counts["tokens"] / code,
        "comp": 1000 * counts["comprehensions"] / code,
        "cond": 1000 * counts["conditionals"] / code,
        "heavy%": 100 * counts["heavy"] / code,
    }


def faults(name, counts, budget):
    """What is over in a room: its tokens, or one of its shares."""
    over = []
    if counts["tokens"] > budget.get(name, math.inf):
        over.append("tokens")
    if counts["code"] >= SMALL:
        for share, value in shares(counts).items():
            if value > budget.get(share, math.inf) + 1e-9:
                over.append(share)
    return over


def line_of(name, counts, budget):
    """A room's line of the table."""
    share = shares(counts)
    over = faults(name, counts, budget)
    limit = f"{budget[name]:.0f}" if name in budget else "–"
    columns = [
        f"{name:22} {counts['tokens']:8} {limit:>8} {counts['code']:7}",
        f"{share['t/stmt']:6.1f} {share['comp']:5.0f} {share['cond']:5.0f} {share['heavy%']:6.1f}",
        f"{counts['vague']:6} {counts['leaks']:6} {counts['taken']:6} {counts['files']:6}",
    ]
    if over:
        columns.append(" over: " + ", ".join(over))
    return " ".join(columns)


def read_budget(path):
    """Room → most tokens; beside them the limits of the shares and total_files, total_vague, …"""
    budget = {}
    if path.exists():
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                name, most = line.split("\t")[:2]
                budget[name] = float(most)
    return budget


def main(arguments):
    words = [word for word in arguments if not word.startswith("--")]
    root = pathlib.Path(words[0] if words else "crs_lib")
    table = pathlib.Path(words[1]) if len(words) > 1 else pathlib.Path(__file__).with_name("budget.tsv")
    budget = read_budget(table)

    rooms = collections.defaultdict(collections.Counter)
    files = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        room = parts[0] if len(parts) > 1 else "."
        files[path] = measure(path)
        rooms[room].update(files[path])
    rooms = dict(sorted(rooms.items(), key=lambda room: -room[1]["tokens"]))
    total = collections.Counter()
    for counts in rooms.values():
        total.update(counts)
    rooms["total"] = total

    header = f"{'room':22} {'tokens':>8} {'budget':>8} {'stmts':>7} {'t/stmt':>6} {'comp':>5} {'cond':>5} {'heavy%':>6}"
    print(f"{header} {'vague':>6} {'leaks':>6} {'taken':>6} {'files':>6}")
    over = []
    for name, counts in rooms.items():
        print(line_of(name, counts, budget))
        late = faults(name, counts, budget)
        if late:
            over.append(f"{name}: {', '.join(late)}")
    for key in WHOLE:
        most = budget.get(f"total_{key}")
        if most is not None and total[key] > most:
            over.append(f"{key}: {total[key]} of {most:.0f}")

    if "--files" in arguments:
        print("\nthe densest files")
        densest = sorted(files.items(), key=lambda file: -shares(file[1])["t/stmt"])
        long_enough = [file for file in densest if file[1]["code"] >= SMALL]
        for path, counts in long_enough[:40]:
            print(line_of(str(path.relative_to(root)), counts, budget))
    print("over: " + ("; ".join(over) if over else "nothing"))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
