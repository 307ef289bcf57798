"""Can a stranger tell relaxing, retracting and starting over apart? Readers that nobody fitted to templates.

Prints the share of utterances that each reader takes for what they mean, by template set, and the templates
that it misreads. Two readings are kept beside the tests (tests/helpers/shift_readings.tsv). The cues of two
further readers were written before any template was read (tests/helpers/blind_reader.py): one looks for their
words, the other for their meaning, by sentence vectors (encoder minilm, extra "embed").
Run: PYTHONPATH=. python -m benchmarks.told_apart
"""

import itertools
import re

import numpy as np
import pandas as pd

from crs_lib.core import prompts
from crs_lib.retrieval import encoders
from tests.helpers import blind_reader
from tests.helpers.wordings import KINDS, readings, shifts


def phrases(pattern):
    """The phrases that a list of cues stands for, each choice spelt out."""
    found, bare = [], pattern.removeprefix(r"\b(?:").removesuffix(")")
    for cue in re.split(r"\|(?![^(]*\))", bare):
        plain = cue.replace(r"\b", "").replace(" ?", " ").replace(".*", "of them").replace("[sd]?", "")
        parts = re.split(r"(\([^()]*\)\??)", plain)
        choices = [
            [*part.strip("()?").split("|"), *([""] if part.endswith("?") else [])]
            if part.startswith("(")
            else [part]
            for part in parts
        ]
        found += ["".join(choice) for choice in itertools.product(*choices)]
    return list(dict.fromkeys(found))


def utterances():
    """Every utterance of the three kinds: set, kind, number of its template, text."""
    rows = [(letter, *one) for letter, name in prompts.USER_SETS.items() for one in shifts(name)]
    return pd.DataFrame(rows, columns=["set", "kind", "template", "text"])


def by_words(texts, struck=()):
    """The kind with most cues; "none" where no cue is known."""
    patterns = blind_reader.compiled(struck)
    return [blind_reader.read(text, patterns) for text in texts]


def by_meaning(texts, struck=()):
    """The kind whose nearest cue is nearest to any clause of the text."""
    encoder = encoders.ENCODERS.create("minilm")
    cues = {kind: phrases(cues.pattern) for kind, cues in blind_reader.compiled(struck).items()}
    vectors = [encoders.sentence_vectors(encoder, cues[kind]) for kind in KINDS]
    parts = [[part for part in re.split(r"[.:;,!?]\s*", text) if part] for text in texts]
    known = list(dict.fromkeys(part for mine in parts for part in mine))
    encoded = encoders.sentence_vectors(encoder, known)
    nearest = dict(zip(known, np.stack([(encoded @ v.T).max(axis=1) for v in vectors], axis=1), strict=True))
    return [KINDS[int(np.max([nearest[part] for part in mine], axis=0).argmax())] for mine in parts]


def main():
    table = utterances()
    texts, struck = table["text"], blind_reader.STRUCK
    read = readings()
    for place, reader in enumerate(("first reading", "second reading")):
        table[reader] = [read[text][place] if text in read else "none" for text in texts]
    table["words"], table["meaning"] = by_words(texts), by_meaning(texts)
    table["both agree"] = table["words"].where(table["words"] == table["meaning"], "none")
    table["words, six cues struck out"] = by_words(texts, struck)
    later = pd.Series(by_meaning(texts, struck))
    known = table["words, six cues struck out"] != "none"
    table["words, else meaning, struck out"] = table["words, six cues struck out"].where(known, later)
    rows = []
    for reader in table.columns[4:]:
        for letter, mine in table.groupby("set"):
            read, right = mine[reader] != "none", mine[reader] == mine["kind"]
            row = {
                "reader": reader,
                "set": letter,
                "n": len(mine),
                "right": right.mean(),
                "reads": read.mean(),
            }
            rows.append(row | {"right where it reads": right[read].mean()})
    print(pd.DataFrame(rows).round(3).to_string(index=False))
    for reader in ("words", "meaning", table.columns[-1]):
        wrong = table[table[reader] != table["kind"]].groupby(["set", "kind", "template"])
        found = wrong.agg(
            n=("text", "size"),
            taken_for=(reader, lambda x: ", ".join(sorted(set(x)))),
            text=("text", "first"),
        )
        print(f"\n{reader}: misread\n{found.sort_values('n', ascending=False).to_string(max_colwidth=110)}")


if __name__ == "__main__":
    main()
