"""A small partition made in memory, whose scores can be worked out by hand, and a part of the sample as files."""

import gzip
import json
from itertools import islice

from crs_lib.core import paths
from crs_lib.cosrec import records
from crs_lib.cosrec.records import Buyer, Conversation, Intent, IntentLabel, Partition, Utterance


def talk(name, *texts):
    return Conversation(name, tuple(Utterance("US"[i % 2], text) for i, text in enumerate(texts)))


CURATED = Partition(
    name="curated",
    conversations={
        "C_1": talk("C_1", "I need a light tent", "For two?", "What does waterproof mean?", "It keeps dry", "Thanks"),
        "C_2": talk("C_2", "Which stove should I buy?", "The red one", "How heavy is it?", "Light"),
    },
    intents={
        "C_1": (Intent("C_1_0_0", 0, 0, "recommendation", ("light tent", "a light tent for two"), None),
                Intent("C_1_1_0", 1, 0, "search", ("meaning of waterproof", "waterproof"), None)),
        "C_2": (Intent("C_2_0_0", 0, 0, "recommendation", ("camping stove",), None),
                Intent("C_2_1_0", 1, 0, "product_details", ("weight of red stove",), "b01")),
    },
    users={"C_1": (Buyer("A", None, ("cheap",)),), "C_2": (Buyer("B", None, ("small",)),)},
    qrels={
        "C_1_0_0#0": {"T1": 2, "T2": 0}, "C_1_0_0#1": {"T1": 0, "T2": 1}, "C_1_1_0": {"m#1": 1, "m#2": 0},
        "C_2_0_0#0": {"B01": 2, "b02": 1, "B03": 0},
    },
)  # fmt: skip
S, R, D = IntentLabel("search", "q"), IntentLabel("recommendation", "q"), IntentLabel("product_details", "q")
GRADES = {f"K_{n}": grades for n, grades in enumerate(
    [(5, 5, 4), (1, 2, 1), (3, 3, 3), (4, 4, 5), (2, 2, 1), (5, 4, 5)], 1)}  # fmt: skip
VOTES = (records.AnnotatedTurn(0, ((R,), (R,), (R, S))), records.AnnotatedTurn(1, ((S,), (S,), (D,))))
CROWD = Partition(
    name="crowd",
    conversations={n: talk(n, "first please", "ok", "what is it?", "this", "thanks") for n in GRADES},
    annotations=dict.fromkeys(GRADES, VOTES),
    ratings={name: tuple(records.Rating(g, g, g, g) for g in grades) for name, grades in GRADES.items()},
)


def part_of_sample(folder, *, crowd=0, curated=0, products=0, passages=0):
    """Write the first so many conversations, products and passages of the sample as a corpus of their own."""
    sample = paths.samples() / "cosrec"
    for name, most in (("crowd", crowd), ("curated", curated)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        talks = (sample / name / "conversations.jsonl").read_text().splitlines()[:most]
        kept = {next(iter(json.loads(line))) for line in talks}
        for path in sorted((sample / name).iterdir()):
            lines = path.read_text().splitlines(keepends=True)
            (folder / name / path.name).write_text("".join(line for line in lines if _talk(line) in kept))
    for name, most in (("products", products), ("passages", passages)):
        with gzip.open(sample / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            (folder / f"{name}.jsonl").write_text("".join(islice(file, most)), encoding="utf-8")
    return folder


def _talk(line):
    """The conversation of a line of JSON or of judgments."""
    return line.split('"')[1] if line[0] == "{" else line.split("\t")[0].rsplit("_", 2)[0]
