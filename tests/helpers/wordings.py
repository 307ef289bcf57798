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
    utterances = []
    for kind in KINDS:
        for number, line in enumerate(prompts.sections(name)[f"shift_{kind}"]):
            utterances += [(kind, number, text) for text in expansions(line, FILLED)]
    return utterances


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
        for part in plain:
            if not unicodedata.combining(part) and unicodedata.category(part) not in ("Mn", "Me"):
                out += plainer.get(part, part)
    return re.findall(r"\w+", out)


def expansions(template, slot):
    """Every text that a template can give, with the same filling for every slot; None: each slot's name."""
    choices = [choices_of(part, slot) for part in template]
    return list(map("".join, itertools.product(*choices)))


def choices_of(part, slot):
    """Every text that a part of a template can give: a slot, several wordings, or plain words."""
    if isinstance(part, prompts.Slot):
        return [f"<{part}>" if slot is None else slot]
    if isinstance(part, tuple):
        return all_expansions(part, slot)
    return [part]


def all_expansions(templates, slot):
    """Every text that any of some templates can give."""
    texts = []
    for template in templates:
        texts += expansions(template, slot)
    return texts


def every_text(name, slot="Qzvx"):
    """Texts by section: those of a wording file ("user", "user_b", "system"), or of the fields' rows ("fields")."""
    sections = rows() if name == "fields" else prompts.sections(name)
    return {section: all_expansions(templates, slot) for section, templates in sections.items()}


def rows():
    """The templates that stand in the rows of the fields, and those of the question about the plot."""
    parts = {}
    for name, row in fields.FIELDS.items():
        parts |= {f"{name} phrases": row.phrases, f"{name} bridges": row.bridges}
        parts[f"{name} clauses"] = tuple(clause.text for clause in (row.in_reply, row.in_prompt) if clause)
    for name, question in fields.QUESTIONS.items():
        parts |= {question.act: question.asks, f"{name} answers": question.answers}
    return {part: prompts.compiled(lines) for part, lines in parts.items() if lines}
