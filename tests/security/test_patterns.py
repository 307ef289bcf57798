"""Every pattern of the package is linear: long repetitions of what it looks for take time in proportion.

Patterns are found in two ways: compiled ones by walking the modules, and those that are written in a call of
:mod:`re`. Each of their repetitions is drawn out, with what may stand before it, and ended so that the whole
does not match.
"""

import ast
import collections
import importlib
import itertools
import math
import pkgutil
import re
import time
from re import _constants as constants
from re import _parser as parser

import pytest

import crs_lib
from crs_lib.core import paths

SIZES = tuple(64 * 2**step for step in range(10))  # up to 32,768
STEEPEST = 1.3  # the power of the length with which time may grow
LONGEST = 0.5  # seconds after which a text is drawn out no further
SHORTEST = 2e-3  # seconds below which nothing is told of growth
ENDS = ("", "!", "\x00", "\n", "a", " ")
CALLS = frozenset("compile search match fullmatch sub subn split findall finditer".split())
SAMPLES = {
    constants.CATEGORY_DIGIT: "7",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_WORD: "w",
    constants.CATEGORY_NOT_DIGIT: "x",
    constants.CATEGORY_NOT_SPACE: "x",
    constants.CATEGORY_NOT_WORD: ".",
}


def modules():
    """The modules of the package, imported; those that need an extra that is not here are left out."""
    for info in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
        if info.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(info.name)
        except ImportError:
            continue


def patterns_in(value, depth=0):
    """The compiled patterns in a value, in its lists, tables and attributes too."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(patterns_in(part, depth + 1) for part in value.values())
        yield from itertools.chain.from_iterable(patterns_in(part, depth + 1) for part in value)
    elif isinstance(value, list | tuple | set | frozenset) and depth < 4:
        for part in value:
            yield from patterns_in(part, depth + 1)


def compiled():
    """The patterns that modules and their classes hold, by where they stand."""
    for module in modules():
        for name, value in vars(module).items():
            held = [value]
            if isinstance(value, type) and value.__module__ == module.__name__:
                held = list(vars(value).values())
            for pattern in itertools.chain.from_iterable(map(patterns_in, held)):
                if isinstance(pattern.pattern, str):
                    yield f"{module.__name__}.{name}", pattern.pattern, pattern.flags


def literal(node):
    """The text of a string, of joined strings too; what is filled in is one word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "word" for part in node.values)
    return None


def written():
    """The patterns that stand as texts in calls of re, by file and line."""
    for path in sorted((paths.ROOT / "crs_lib").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
            if not is_call or node.func.attr not in CALLS or getattr(node.func.value, "id", "") != "re":
                continue
            text = literal(node.args[0])
            if text is not None:
                yield f"{path.name}:{node.lineno}.{node.func.attr}", text, 0


def one_of(parts):
    """A character of a set."""
    negated = False
    taken = set()
    for kind, value in parts:
        if kind is constants.NEGATE:
            negated = True
        elif kind is constants.LITERAL:
            taken.add(chr(value))
        elif kind is constants.RANGE:
            taken.add(chr(value[0]))
        elif kind is constants.CATEGORY:
            taken.add(SAMPLES.get(value, "x"))
    if not negated:
        return sorted(taken)[-1]
    return next((free for free in "x 7.\n-" if free not in taken), "é")


def sample(nodes):
    """A short text that a part of a pattern matches, looks around left aside."""
    text = ""
    for kind, value in nodes:
        if kind is constants.LITERAL:
            text += chr(value)
        elif kind is constants.NOT_LITERAL:
            text += "x" if value != ord("x") else "y"
        elif kind is constants.ANY:
            text += "x"
        elif kind is constants.IN:
            text += one_of(value)
        elif kind is constants.BRANCH:
            text += max((sample(branch) for branch in value[1]), key=len)
        elif kind is constants.SUBPATTERN:
            text += sample(value[3])
        elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            text += sample(value[2]) * max(1, value[0])
        elif kind is constants.ATOMIC_GROUP:
            text += sample(value)
    return text


def repeats(nodes, before=""):
    """What may stand before each repetition of a pattern, and what it repeats."""
    for index, (kind, value) in enumerate(nodes):
        here = before + sample(nodes[:index])
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            if value[1] > 30:
                yield here, sample(value[2])
                alphabet = value[2][0] if len(value[2]) == 1 else None
                if alphabet and alphabet[0] is constants.BRANCH:
                    for branch in alphabet[1][1]:
                        yield here, sample(branch)
            yield from repeats(value[2], here)
        elif kind is constants.SUBPATTERN:
            yield from repeats(value[3], here)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from repeats(value[1], here)
        elif kind is constants.ATOMIC_GROUP:
            yield from repeats(value, here)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, here)


def attacks(tree):
    """Beginnings, units and ends of texts that draw a pattern's repetitions out."""
    units = list(dict.fromkeys(repeats(tree)))
    for before, unit in units:
        if unit:
            yield from ((before, unit, end) for end in ENDS)
            yield "", before + unit, ""
            yield before, " ", "!"
    for unit in (" ", "a ", "A ", "(", "<", "[", "*", '"', "1", "\n", "- ", "a,", "X "):
        yield "", unit, ""


def seconds(pattern, text, methods):
    """The time that the methods take by which the package uses a pattern, the least of two."""
    times = []
    for _ in range(2):
        began = time.process_time()
        for method in methods:
            collections.deque(method(pattern, text), maxlen=0)
        times.append(time.process_time() - began)
        if times[-1] < SHORTEST:
            break
    return min(times)


def at_the_start(pattern, text):
    return [pattern.match(text), pattern.fullmatch(text)]


def methods_of(where):
    """How a pattern is used, by its name in its own file: everywhere in a text, or at its start alone."""
    module, _, name = where.rpartition(".")
    source = "\n".join(SOURCES.values())
    if name.startswith("_"):
        source = SOURCES.get(module, "")
    calls = set(re.findall(rf"\b{re.escape(name)}\.(\w+)", source)) | {name}.intersection(CALLS)
    if calls and calls <= {"match", "fullmatch", "pattern"}:
        return [at_the_start]
    return [re.Pattern.finditer, at_the_start]


def steepest(pattern, where):
    """The highest power of the length with which the time of drawn repetitions grows, and the text."""
    worst = (0.0, "")
    methods = methods_of(where)
    for before, unit, end in dict.fromkeys(attacks(parser.parse(pattern.pattern, pattern.flags))):
        times = []
        for size in SIZES:
            text = before + unit * (size // len(unit)) + end
            times.append(seconds(pattern, text, methods))
            if len(times) > 2 and times[-3] >= SHORTEST:
                power = math.log2(times[-1] / times[-3]) / 2
                worst = max(worst, (power, f"{before!r} + {unit!r} * n + {end!r}"))
            if times[-1] > LONGEST:
                break
        if worst[0] > STEEPEST:
            break
    return worst


SOURCES = {}
for _path in (paths.ROOT / "crs_lib").rglob("*.py"):
    _module = ".".join(_path.relative_to(paths.ROOT).with_suffix("").parts)
    SOURCES[_module.removesuffix(".__init__")] = _path.read_text(encoding="utf-8")
PATTERNS = {}
for _where, _text, _flags in compiled():
    PATTERNS.setdefault((_text, _flags & ~re.UNICODE.value), _where)
_TEXTS = {text for text, _ in PATTERNS}
for _where, _text, _flags in written():
    if _text not in _TEXTS:
        PATTERNS.setdefault((_text, _flags), _where)


def test_patterns_are_found():
    assert len(PATTERNS) > 200


@pytest.mark.slow
@pytest.mark.parametrize(("text", "flags"), PATTERNS, ids=list(PATTERNS.values()))
def test_a_pattern_takes_time_in_proportion_to_the_text(text, flags):
    power, attack = steepest(re.compile(text, flags), PATTERNS[text, flags])
    assert power <= STEEPEST, f"{PATTERNS[text, flags]}: n^{power:.1f} for {attack}"
