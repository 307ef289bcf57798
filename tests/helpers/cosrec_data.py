"""A small partition made in memory, whose scores can be worked out by hand, and a part of the sample as files."""

import gzip
import json
from itertools import cycle, islice

from crs_lib.core import paths
from crs_lib.cosrec.records import (
    AnnotatedTurn,
    Buyer,
    Conversation,
    Intent,
    IntentLabel,
    Partition,
    Rating,
    Utterance,
)


def talk(name, *texts):
    """A conversation whose speakers alternate."""
    return Conversation(name, tuple(map(Utterance, cycle("US"), texts)))


def _intent(turn, kind, name, *variants, product=None):
    return Intent(f"{name}_{turn}_0", turn, 0, kind, variants, product)


TENT = talk("C_1", "I need a light tent", "For two?", "What does waterproof mean?", "It keeps dry", "Thanks")
STOVE = talk("C_2", "Which stove should I buy?", "The red one", "How heavy is it?", "Light")
TENT_INTENTS = (
    _intent(0, "recommendation", "C_1", "light tent", "a light tent for two"),
    _intent(1, "search", "C_1", "meaning of waterproof", "waterproof"),
)
STOVE_INTENTS = (
    _intent(0, "recommendation", "C_2", "camping stove"),
    _intent(1, "product_details", "C_2", "weight of red stove", product="b01"),
)
QRELS = {
    "C_1_0_0#0": {"T1": 2, "T2": 0},
    "C_1_0_0#1": {"T1": 0, "T2": 1},
    "C_1_1_0": {"m#1": 1, "m#2": 0},
    "C_2_0_0#0": {"B01": 2, "b02": 1, "B03": 0},
}
CURATED = Partition(
    "curated",
    {"C_1": TENT, "C_2": STOVE},
    intents={"C_1": TENT_INTENTS, "C_2": STOVE_INTENTS},
    users={"C_1": (Buyer("A", None, ("cheap",)),), "C_2": (Buyer("B", None, ("small",)),)},
    qrels=QRELS,
)
S = IntentLabel("search", "q")
R = IntentLabel("recommendation", "q")
D = IntentLabel("product_details", "q")
VOTES = (AnnotatedTurn(0, ((R,), (R,), (R, S))), AnnotatedTurn(1, ((S,), (S,), (D,))))
GRADES = ("554", "121", "333", "445", "221", "545")  # of three raters, a conversation each


def _crowd():
    """Six conversations of one form, annotated by three people and rated by three."""
    talks, ratings = {}, {}
    for number, grades in enumerate(GRADES, 1):
        name = f"K_{number}"
        talks[name] = talk(name, "first please", "ok", "what is it?", "this", "thanks")
        ratings[name] = tuple(Rating(*[int(grade)] * 4) for grade in grades)
    return Partition("crowd", talks, annotations=dict.fromkeys(talks, VOTES), ratings=ratings)


CROWD = _crowd()


def part_of_sample(folder, *, crowd=0, curated=0, products=0, passages=0):
    """Write the first so many conversations, products and passages of the sample as a corpus of their own."""
    sample = paths.samples() / "cosrec"
    _write_partition(sample / "crowd", folder / "crowd", crowd)
    _write_partition(sample / "curated", folder / "curated", curated)
    for name, most in (("products", products), ("passages", passages)):
        with gzip.open(sample / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            (folder / f"{name}.jsonl").write_text("".join(islice(file, most)), encoding="utf-8")
    return folder


def _write_partition(source, target, most):
    target.mkdir(parents=True, exist_ok=True)
    talks = set()
    for line in (source / "conversations.jsonl").read_text().splitlines()[:most]:
        talks.update(json.loads(line))
    for path in sorted(source.iterdir()):
        lines = path.read_text().splitlines(keepends=True)
        (target / path.name).write_text("".join(line for line in lines if _talk(line) in talks))


def _talk(line):
    """The conversation of a line of JSON or of judgments."""
    if line.startswith("{"):
        return line.split('"')[1]
    return line.split("\t")[0].rsplit("_", 2)[0]
