"""Conversations of AB-ReDial with every rating of every rater, and how far raters agree with one another.

The table of turns and the table of dialogues hold the same conversations at different lengths; each is read
as conversations of its own. Rated turns are utterances 2, 6 and 10. Raters have no names: a rater is a row.
Source: docs/validity.md, section 4.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.validity import agreement
from crs_lib.validity.agreement import OVERALL, RATING

TURNS, DIALOGUES = "annotated_turns.csv", "annotated_dialogues.csv"
SYSTEM = "human"  # a person recommends
_RATED = (2, 6, 10)
_TURN_LEVEL = ("relevance", "interestingness", "overall")
_WHOLE = ("understanding", "task-completion", "interest-arousal", "efficiency", "dialogue-overall")


class Rated(NamedTuple):
    """Conversations with mean ratings, and the ratings one by one.

    ``ratings`` has a row a rating: conv_id, item (the conversation, or conversation and utterance), rater,
    construct, value.
    """

    dialogues: list[Dialogue]
    ratings: pd.DataFrame


def abredial(table: str = TURNS, folder: Path | None = None) -> Rated:
    """AB-ReDial from its table of turns or of dialogues; by default where the data set ``abredial`` lies.

    Raises InputError naming the file and the column that is missing.
    """
    path = (folder or datasets.locate("abredial")) / table
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error
    needed = ["ConvId", "utterance0", "relevance1" if table == TURNS else "dialogue-overall"]
    missing = [name for name in needed if not rows or name not in rows[0]]
    if missing:
        raise InputError(f"{path.name}: no column {missing[0]!r}; expected AB-ReDial's {table}")
    talks: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        talks.setdefault(row["ConvId"], []).append(row)
    found = [
        rating for name, given in talks.items() for rating in _ratings(name, given, whole=table != TURNS)
    ]
    frame = pd.DataFrame(found, columns=["conv_id", "item", "rater", "construct", "value"])
    means = frame.groupby(["item", "construct"])["value"].mean().to_dict()
    dialogues = [
        dialogue_of(_record(name, given[0], means), RecordOrigin(path.name)) for name, given in talks.items()
    ]
    return Rated(dialogues, frame)


def _utterances(row: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """Place, speaker and text of every utterance; "USER<tab>text", in some rows with blanks for the tab."""
    for place in range(len(row)):
        said = (row.get(f"utterance{place}") or "").strip()
        if said:
            speaker, _, text = said.partition("\t" if "\t" in said else " ")
            yield place, speaker.strip(), text.strip()


def _ratings(name: str, given: list[Mapping[str, str]], *, whole: bool) -> Iterator[tuple[Any, ...]]:
    for rater, row in enumerate(given):
        for construct in _WHOLE if whole else _TURN_LEVEL:
            for place, number in [("", "")] if whole else zip(_RATED, "123", strict=True):
                value = row.get(construct + number) or ""
                if value:
                    item = name if whole else f"{name} {place}"
                    yield name, item, f"row {rater}", construct, float(value)


def _record(name: str, row: Mapping[str, str], means: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    """A conversation in CRSArena-Eval's form, with the mean ratings where that form has them."""
    turns = []
    for place, speaker, text in _utterances(row):
        turn: dict[str, Any] = {
            "turn_ind": place, "role": "USER" if speaker == "USER" else "ASST", "utterance": text
        }  # fmt: skip
        if (f"{name} {place}", "relevance") in means:
            turn["turn_level_aggregated"] = {RATING: means[f"{name} {place}", "relevance"]}
        turns.append(turn)
    record: dict[str, Any] = {"conv_id": name, "model_name": SYSTEM, "dialogue": turns}
    if (name, "dialogue-overall") in means:
        record["dial_level_aggregated"] = {OVERALL: means[name, "dialogue-overall"]}
    return record


def ceiling(ratings: pd.DataFrame, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """How far one rater agrees with the others, one row per construct.

    ``spearman`` correlates every rating with the mean of the others of its item (95 % interval over
    conversations): the height that a score can be held against. ``alpha`` is Krippendorff's, ordinal. Items
    with a single rating are left out.
    """
    out = []
    for construct, mine in ratings.groupby("construct", sort=False):
        known = mine[mine.groupby("item")["value"].transform("size") > 1].reset_index(drop=True)
        if known.empty:
            continue
        by = known.groupby("item")["value"]
        rest = (by.transform("sum") - known["value"]) / (by.transform("size") - 1)
        x, y = known["value"].to_numpy(float), rest.to_numpy(float)
        picks = agreement.draws(known["conv_id"], f"ceiling {construct}", resamples, seed)
        row = {"construct": construct, "n_ratings": len(known), "n_items": known["item"].nunique()}
        row |= {"spearman": agreement.spearman(x, y)}
        row |= agreement.limits(agreement.spearman(x[pick], y[pick]) for pick in picks)
        alpha = stats.krippendorff_alpha(
            known,
            stats.Design(system="rater", scenario="item", resamples=max(200, resamples // 5), seed=seed),
        ).iloc[0]
        out.append(row | {"alpha": alpha["alpha"], "alpha_low": alpha["low"], "alpha_high": alpha["high"]})
    return pd.DataFrame(out)
