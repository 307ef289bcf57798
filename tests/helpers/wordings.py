"""Every text that a wording file, or the templates in the rows of the fields, can say; and words by hand."""

import csv
import itertools
import re
import unicodedata
from pathlib import Path

from crs_lib.catalog import fields
from crs_lib.core import prompts

KINDS = ("relax", "contradict", "switch")
FILLED = "westerns"  # what every slot holds where meanings are read: a word that means something


def shifts(name):
    """Every utterance of a wording file that relaxes, retracts or starts over: kind, number of its template, text."""
    return [
        (kind, number, text)
        for kind in KINDS
        for number, line in enumerate(prompts.sections(name)[f"shift_{kind}"])
        for text in expansions(line, FILLED)
    ]


def readings():
    """What each of two readers took an utterance for, by its text. The readers are two conversations with a
    large language model that held the definitions of the three kinds and the utterances in random order, and
    nothing else; "unclear" was allowed. No person has read them.
    """
    with Path(__file__).with_name("shift_readings.tsv").open(encoding="utf-8", newline="") as file:
        return {row["text"]: (row["first"], row["second"]) for row in csv.DictReader(file, delimiter="\t")}


def words_by_hand(text):
    """The definition, step by step: decompose, fold case, drop accents and strokes, find runs of letters."""
    plainer = dict(zip("øłıđðħŧæœþ_", (*"oliddht", "ae", "oe", "th", " "), strict=True))
    out = ""
    for character in text:
        plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for c in plain:
            if not unicodedata.combining(c) and unicodedata.category(c) not in ("Mn", "Me"):
                out += plainer.get(c, c)
    return re.findall(r"\w+", out)


def expansions(template, slot):
    """Every text that a template can give, with the same filling for every slot; None: each slot's name."""
    parts = [
        [f"<{part}>" if slot is None else slot] if isinstance(part, prompts.Slot)
        else [text for option in part for text in expansions(option, slot)] if isinstance(part, tuple)
        else [part]
        for part in template
    ]  # fmt: skip
    return ["".join(choice) for choice in itertools.product(*parts)]


def every_text(name, slot="Qzvx"):
    """Texts by section: those of a wording file ("user", "user_b", "system"), or of the fields' rows ("fields")."""
    found = rows() if name == "fields" else prompts.sections(name)
    return {part: [text for one in lines for text in expansions(one, slot)] for part, lines in found.items()}


def rows():
    """The templates that stand in the rows of the fields, and those of the question about the plot."""
    parts = {}
    for name, row in fields.FIELDS.items():
        parts |= {f"{name} phrases": row.phrases, f"{name} bridges": row.bridges}
        parts[f"{name} clauses"] = tuple(clause.text for clause in (row.in_reply, row.in_prompt) if clause)
    for name, asked in fields.QUESTIONS.items():
        parts |= {asked.act: asked.asks, f"{name} answers": asked.answers}
    return {part: prompts.compiled(lines) for part, lines in parts.items() if lines}
