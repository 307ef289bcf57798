"""Data sets in which people, success or judges say how good a conversation is, and our scores beside them:
every rating of every rater and how far raters agree (``ceiling``); simulated users with a target film, where
scores that never see it should say when they are served (``success``). Source: docs/validity.md, section 4.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng, safety
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, one_line, shorten
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.metrics.records import mean_defined
from crs_lib.stats.effects import spearman
from crs_lib.validity import agreement
from crs_lib.validity.agreement import INTEREST, ON_PAPER, OVERALL, RATING, RECEIVED, WHOLE, rho

TURNS, DIALOGUES = "annotated_turns.csv", "annotated_dialogues.csv"  # the two tables of AB-ReDial
_SYSTEM = "human"  # where a person recommends
_RATED = {2: "1", 6: "2", 10: "3"}  # AB-ReDial's rated utterances, and their columns' numbers
_OF_TURNS = ("relevance", "interestingness", "overall")
_OF_WHOLE = ("understanding", "task-completion", "interest-arousal", "efficiency", "dialogue-overall")
_TITLE = re.compile(r"@\d+ <([^>]*)>")  # a film in IARD

_Said = tuple[str, str, Mapping[str, list[float]]]  # speaker, words, ratings by construct


def _record(name: str, said: Iterable[_Said], whole: Mapping[str, list[float]] | None = None) -> Any:
    """A conversation in CRSArena-Eval's form: mean ratings where that form has them, and every rating."""

    def rated(given: Mapping[str, list[float]] | None, level: str) -> dict[str, Any]:
        known = {construct: values for construct, values in (given or {}).items() if values}
        means = {construct: float(np.mean(values)) for construct, values in known.items()}
        return {f"{level}_level_aggregated": means, "ratings": known} if known else {}

    turns = [
        {"turn_ind": place, "role": "USER" if speaker in ("USER", "seeker") else "ASST", "utterance": text}
        | rated(given, "turn")
        for place, (speaker, text, given) in enumerate(said)
    ]
    return {"conv_id": name, "model_name": _SYSTEM, "dialogue": turns, **rated(whole, "dial")}


def _iard(path: Path) -> Iterator[Any]:
    """IARD: its utterances by their place, films in quotation marks."""
    for name, talk in safety.read_object(path).items():
        said = sorted(talk["dialogue_info"].values(), key=lambda one: one["utterance_pos"])
        texts = ((one["role"], _TITLE.sub(r'"\1"', one["utterance_text"])) for one in said)
        yield _record(name, ((speaker, text, {}) for speaker, text in texts))


def _uss(path: Path) -> Iterator[Any]:
    """USS: blocks of tab-separated lines; its conversations have no names, so they get hashes of the text."""
    for block in safety.read_text(path).strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line.strip()]
        rows = [row for row in rows if row[1] != "OVERALL"]
        name = hashlib.sha256("\n".join(row[1] for row in rows).encode()).hexdigest()[:12]
        given = ([float(value) for value in row[3].split(",") if value] for row in rows)
        said = zip(rows, given, strict=True)
        yield _record(name, ((row[0], unquote(row[1]), {"satisfaction": values}) for row, values in said))


def _abredial(folder: Path) -> Iterator[Any]:
    """AB-ReDial: the whole conversations; the ratings of a turn belong to the utterance of the same words."""
    turns, wholes = _table(folder / TURNS, "relevance1"), _table(folder / DIALOGUES, "dialogue-overall")
    for name, rows in wholes.groupby("ConvId", sort=False):
        given, mine = dict[str, Mapping[str, list[float]]](), turns[turns["ConvId"] == name]
        for place, number in _RATED.items():
            said = _words(mine.iloc[0].get(f"utterance{place}", "")) if len(mine) else ("", "")
            given[fold(said[1])] = {one: _values(mine, one + number) for one in _OF_TURNS}
        first = (_words(text) for key, text in rows.iloc[0].items() if str(key).startswith("utterance"))
        texts = [(*said, given.pop(fold(said[1]), {})) for said in first if said[1]]
        yield _record(str(name), texts, {one.replace("-", "_"): _values(rows, one) for one in _OF_WHOLE})


def _table(path: Path, column: str) -> pd.DataFrame:
    """A table of AB-ReDial; InputError naming the file and what is wrong with it."""
    try:
        given = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").fillna("")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: cannot be read as a table ({one_line(str(error), 200)})") from error
    for name in ("ConvId", "utterance0", column):
        if name not in given:
            raise InputError(f"{path.name}: no column {name!r}; expected AB-ReDial's {path.name}")
    return given


def _words(said: str) -> tuple[str, str]:
    """Speaker and words of an utterance; in some rows a blank stands for the tab between them."""
    speaker, _, text = said.strip().partition("\t" if "\t" in said else " ")
    return speaker.strip(), text.strip()


def _values(rows: pd.DataFrame, column: str) -> list[float]:
    return [float(value) for value in rows.get(column, ()) if value]


# A rated set: its reader, from a file or folder to records in CRSArena-Eval's form; None for a known log.
SETS: dict[str, Callable[[Path], Iterator[Any]] | None] = {
    "abredial": _abredial, "concept4crs": None, "crsarena": None, "iard": _iard, "uss": _uss,
}  # fmt: skip


def conversations(name: str, place: Path | None = None) -> Iterator[Dialogue]:
    """The conversations of a rated set, by default from where the data set of this name lies. Raises RunError
    with the command that fetches it where it is not here, InputError for what is no such set.
    """
    path, read = place or datasets.locate(name), SETS[name]
    if read is None:
        yield from datasets.readable(path, lambda broken: None)
        return
    try:
        for record in read(path):
            yield dialogue_of(record, RecordOrigin(path.name))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path.name}: not the data set {name!r} ({one_line(repr(error), 100)})") from error


def ratings(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """Every rating: conv_id, item (conversation, utterance), rater (a number), construct, value."""
    found = []
    for one in dialogues:
        parts = [part for turn in one.turns for part in agreement.parts(turn)]
        given = [(f" {part.get('turn_ind')}", part.get("ratings") or {}) for part in parts]
        for place, values in [*given, ("", agreement.annotations(one, "ratings"))]:
            found += [
                (one.session_id, one.session_id + place, f"rater {rater}", construct, value)
                for construct, every in values.items()
                for rater, value in enumerate(every)
            ]
    return pd.DataFrame(found, columns=["conv_id", "item", "rater", "construct", "value"])


def ceiling(ratings: pd.DataFrame, *, resamples: int = 1000) -> pd.DataFrame:
    """How far one rater agrees with the others, one row per construct: ``spearman`` of every rating with the
    mean of the others of its item (95 % interval over conversations), and Krippendorff's ``alpha``, ordinal.
    """
    design = stats.Design(system="rater", scenario="item", resamples=max(200, resamples // 5))
    out = []
    for construct, mine in ratings.groupby("construct", sort=False):
        known = agreement.one_against_rest(mine)
        if known.empty:
            continue
        row = {"construct": construct, "n_ratings": len(known), "n_items": known["item"].nunique()}
        row |= rho(known.assign(system=""), "value", "rest", resamples=resamples)
        alpha = stats.krippendorff_alpha(known, design).iloc[0][["alpha", "low", "high"]]
        out.append(row | dict(zip(("alpha", "alpha_low", "alpha_high"), alpha, strict=True)))
    return pd.DataFrame(out).drop(columns="n", errors="ignore")


# Spearman on CRSArena-Eval's ReDial part, as printed by the authors of FACE (informagi/face).
PUBLISHED = {
    "G-Eval": (0.471, 0.289, 0.444, 0.364, 0.325, 0.482, 0.577),
    "FACE": (0.550, 0.437, 0.635, 0.453, 0.430, 0.534, 0.668),
}
_ASPECTS = (RATING, INTEREST, "understanding", "task_completion", "interest_arousal", "efficiency", OVERALL)
_FOLDS = 5


def share_of(conversation: str, parts: int) -> int:
    """The part, from 0, to which a conversation belongs: its name's SHA-256 modulo the number of parts."""
    return int(hashlib.sha256(conversation.encode()).hexdigest(), 16) % parts


def aspects(rows: pd.DataFrame, *, resamples: int = 1000) -> pd.DataFrame:
    """Spearman of the seven aspects of CRSArena-Eval with people, beside the published baselines. ``rows``
    are rated replies (:func:`agreement.table`). ``held_out`` is the mean over five folds of conversations of
    the rule that is best on the other four (``rules``); the interval is that of the rule in use.
    """
    out = []
    for place, aspect in enumerate(_ASPECTS):
        of_reply = aspect in agreement.OF_REPLY
        rules = agreement.REPLY_RULES if of_reply else agreement.DIALOGUE_RULES
        frame = (rows if of_reply else rows.drop_duplicates(["system", "conv_id"])).dropna(subset=aspect)
        fold = frame["conv_id"].map(lambda name: share_of(name, _FOLDS))
        chosen, held = [], []
        for part in sorted(set(fold)):
            inside, outside = frame[fold == part], frame[fold != part]
            found = {spearman(outside[name], outside[aspect]): name for name in rules}
            chosen.append(found[max(found)])
            held.append(spearman(inside[chosen[-1]], inside[aspect]))
        row: dict[str, Any] = {"aspect": aspect, "rule": agreement.CHOSEN[aspect]}
        row |= rho(frame, agreement.CHOSEN[aspect], aspect, resamples=resamples)
        row |= {"held_out": mean_defined(held), "rules": ", ".join(dict.fromkeys(chosen))}
        out += [row | {name: values[place] for name, values in PUBLISHED.items()}] * bool(len(frame))
    return pd.DataFrame(out)


# The target among the ranked items of a reply, or named in its text.
CRITERIA = {"in_list": "rec_success_rec", "in_text": "rec_success_dialogue"}
_WORDS, _GAIN = "satisfaction", "normalised_gain"
PREDICTORS = (_WORDS, _GAIN, ON_PAPER, RECEIVED, "n_films", "n_words", "turn")


def success(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply of conversations that log success: criteria and predictors (``satisfaction``: mean
    share of the constraints heard that its films meet). Raises InputError where no reply logs success.
    """
    rows: list[dict[str, Any]] = []
    for one in agreement.score(dialogues, grounder):
        for pair, row in zip(one.dialogue.pairs(), one.rows, strict=True):
            last = agreement.parts(pair.system)[-1]
            if all(last.get(key) is not None for key in CRITERIA.values()):
                found: dict[str, Any] = {name: bool(last[key]) for name, key in CRITERIA.items()}
                found |= {"user": pair.user.text, "reply": pair.system.text, WHOLE: one.overall}
                rows.append(row | found)
    if not rows:
        raise InputError("no reply logs success; expected conversations with rec_success_rec (Concept4CRS)")
    return pd.DataFrame(rows)


def prediction(frame: pd.DataFrame, *, resamples: int = 100) -> pd.DataFrame:
    """AUC of every predictor for either criterion, over replies and over dialogues (means of replies, success
    of any): ``within`` the mean over systems of their own AUC, with its 95 % interval over conversations;
    ``all`` pools the systems. An undefined predictor counts its mean.
    """
    filled = frame.fillna({name: frame[name].mean() for name in PREDICTORS})
    levels = {"reply": (filled, PREDICTORS), "dialogue": (_per_dialogue(filled), (*PREDICTORS, WHOLE))}
    out = []
    for criterion, (level, (rows, names)) in product(CRITERIA, levels.items()):
        groups = (rows["system"] + rows["conv_id"]).to_frame("talk").groupby("talk", sort=False)
        members, draw = list(groups.indices.values()), rng.stream(0, "people", f"success {level}")
        drawn = (draw.integers(0, len(members), len(members)) for _ in range(resamples))
        picks = [np.concatenate([members[talk] for talk in talks]) for talks in drawn]
        for name in names:
            values = rows[["system", name, criterion]]
            shown = name in (_WORDS, ON_PAPER, WHOLE)
            within = [_auc_within(values.iloc[pick]) for pick in picks if shown]
            low, high = np.nanquantile(within, [0.025, 0.975]) if within else (np.nan, np.nan)
            aucs = (_auc(values), _auc_within(values), float(low), float(high))
            out.append((criterion, level, name, len(rows), *aucs))
    return pd.DataFrame(out, columns="criterion level predictor n all within low high".split())


def _auc(values: pd.DataFrame) -> float:
    """The AUC of a frame's second column for its third."""
    return stats.auc(values.iloc[:, 1].to_numpy(float), values.iloc[:, 2].to_numpy(bool))


def _auc_within(values: pd.DataFrame) -> float:
    """The mean of the systems' own AUC; systems without both outcomes are left out."""
    return mean_defined([_auc(part) for _, part in values.groupby("system")])


def _per_dialogue(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per conversation: the predictors' means, the whole's score, and whether any reply succeeds."""
    by = frame.groupby(["system", "conv_id"], sort=False)
    return by[[*PREDICTORS, WHOLE]].mean().join(by[list(CRITERIA)].max()).reset_index()


def systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per system: share of successful conversations and mean scores, the most successful first."""
    by = _per_dialogue(frame).groupby("system")
    found = by[[*CRITERIA, WHOLE, _WORDS, _GAIN]].mean().assign(n=by.size())
    return found.sort_values("in_list", ascending=False).reset_index()


def missed(frame: pd.DataFrame, n: int = 3) -> pd.DataFrame:
    """The ``n`` successes with the lowest and failures with the highest score, of different conversations."""
    order = frame.sort_values([ON_PAPER, "system", "conv_id", "turn"]).drop_duplicates("reply")
    low, high = order[order["in_text"]], order[~order["in_text"]].iloc[::-1]
    found = pd.concat([part.drop_duplicates("conv_id").head(n) for part in (low, high)], ignore_index=True)
    cut = {name: [shorten(text, 160) for text in found[name]] for name in ("user", "reply")}
    return found.assign(**cut)[["system", "turn", "in_text", ON_PAPER, "user", "reply"]]
