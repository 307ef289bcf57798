"""Data sets in which people, success or judges say how good a conversation is, and our scores beside them.

``people ceilings``: sets with every rating of every rater (AB-ReDial, USS), and how far raters agree.
``people success``: simulated users with a target film (Concept4CRS); do scores say when they are served? The
criterion comes from the log, the predictors never see the target. ``people simulators``: a published judge,
simulator by simulator (UserSimCRS); does the ranking of systems survive a change of simulator? Every set is
read by a row of ``SETS``. Source: docs/validity.md, section 4.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
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
from crs_lib.validity import agreement, heard
from crs_lib.validity.agreement import BASELINES, INTEREST, ON_PAPER, OVERALL, RATING, RECEIVED, WHOLE, rho

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
        texts = [(*said, given.get(fold(said[1]), {})) for said in first if said[1]]
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
    "abredial": _abredial, "concept4crs": None, "crsarena": None, "iard": _iard, "usersimcrs": None,
    "uss": _uss,
}  # fmt: skip


def conversations(name: str, place: Path | None = None) -> Iterator[Dialogue]:
    """The conversations of a rated set, by default from where the data set of this name lies.

    Raises RunError with the command that fetches it where it is not here, InputError for what is no such set.
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
    """Every rating of every rater: conv_id, item (conversation, with the utterance), rater, construct, value.

    Raters have no names: a rater is a place in the list of ratings.
    """
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
    """How far one rater agrees with the others, one row per construct.

    ``spearman`` correlates every rating with the mean of the others of its item (95 % interval over
    conversations): the height that a score can be held against. ``alpha`` is Krippendorff's, ordinal. Items
    with a single rating are left out.
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


def aspects(found: Sequence[Any], *, resamples: int = 1000) -> pd.DataFrame:
    """Spearman of the seven aspects of CRSArena-Eval with people, beside the published baselines.

    ``found`` are scored conversations (:func:`agreement.score`). ``held_out`` is the mean over five folds of
    conversations in which the rule is the one that is best on the other four (``rules`` names those); the
    interval is that of the rule in use over all of them. An aspect that nobody rated is left out.
    """
    out = []
    for place, aspect in enumerate(_ASPECTS):
        frame, names = _candidates(found, aspect)
        if frame.empty:
            continue
        fold, chosen, held = frame["conv_id"].map(lambda name: share_of(name, _FOLDS)), [], []
        for part in range(_FOLDS):
            outside, inside = frame[fold != part], frame[fold == part]
            chosen.append(max(names, key=lambda name: agreement.spearman(outside[name], outside["rating"])))
            held.append(agreement.spearman(inside[chosen[-1]], inside["rating"]))
        row = {"aspect": aspect, "rule": agreement.CHOSEN[aspect]}
        row |= rho(frame, agreement.CHOSEN[aspect], "rating", resamples=resamples)
        row |= {"held_out": mean_defined(held), "rules": ", ".join(dict.fromkeys(chosen))}
        out.append(row | {name: values[place] for name, values in PUBLISHED.items()})
    return pd.DataFrame(out)


def _candidates(found: Sequence[Any], aspect: str) -> tuple[pd.DataFrame, list[str]]:
    """One row per rated reply or conversation: the rating, and the value of every rule; the rules' names."""
    rules: Mapping[str, Any] = agreement.DIALOGUE_RULES
    if aspect in agreement.OF_REPLY:
        rules = agreement.REPLY_RULES
    rows = []
    for one in found:
        cases = [(row, row) for row in one.rated] if rules is agreement.REPLY_RULES else []
        cases = cases or [(one.rated[0], one.rows)] * bool(one.rows and rules is agreement.DIALOGUE_RULES)
        for rated, given in cases:
            row: dict[str, Any] = {"system": rated["system"], "conv_id": rated["conv_id"]}
            row["rating"] = rated[aspect]
            rows.append(row | {name: of(given) for name, of in rules.items()})
    frame = pd.DataFrame(rows, columns=None if rows else ["conv_id", "rating"])
    return frame.dropna(subset="rating"), list(rules)


# The target among the ranked items of a reply, or named in its text.
CRITERIA = {"in_list": "rec_success_rec", "in_text": "rec_success_dialogue"}
_WORDS, _RANKED, _GAIN = "satisfaction", "ranked_satisfaction", "normalised_gain"
PREDICTORS = (_WORDS, _RANKED, _GAIN, ON_PAPER, RECEIVED, "n_films", "n_words", "turn")
_SEEN, _SHARE = 3, 0.5  # replies that must name a film with the item ranked first, and their share


def success(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply of conversations that log success: criteria and predictors.

    ``satisfaction`` is the mean share of the constraints heard that the films named meet (0 without films);
    ``ranked_satisfaction`` the same over the ranked items that :func:`_resolved` finds, NaN where no
    constraint is known or no item is found; ``found`` their share. Raises InputError where no reply logs
    success.
    """
    rows: list[dict[str, Any]] = []
    for one in agreement.score(dialogues, grounder):
        listener = heard.Listener(grounder)
        for pair, row in zip(one.dialogue.pairs(), one.rows, strict=True):
            last, state = agreement.parts(pair.system)[-1], listener.listen(pair.user.text)
            if any(last.get(key) is None for key in CRITERIA.values()):
                continue
            row |= {name: bool(last[key]) for name, key in CRITERIA.items()}
            row |= {"user": pair.user.text, "reply": pair.system.text, "wanted": state.constraints}
            row["items"] = [int(item) for item in last.get("rec_items") or ()]
            rows.append(row | {"films": heard.films(grounder, pair.system.text), WHOLE: one.overall})
    if not rows:
        raise InputError("no reply logs success; expected conversations with rec_success_rec (Concept4CRS)")
    frame = pd.DataFrame(rows)
    film_of, facts = _resolved(frame["items"], frame["films"], frame["reply"]), grounder.catalog.fact_sets

    def ranked(row: Mapping[str, Any]) -> tuple[float, float]:
        """The share of the constraints that the ranked films meet, and of the items that are found."""
        films, wanted = [film_of[item] for item in row["items"] if item in film_of], row["wanted"]
        met, of = sum(len(wanted & facts[film]) for film in films), len(films) * len(wanted)
        return met / of if of else np.nan, len(films) / len(row["items"]) if row["items"] else np.nan

    frame[[_RANKED, "found"]] = [ranked(row) for row in rows]
    return frame.drop(columns=["items", "films", "wanted"])


def _resolved(
    ranked: Iterable[Sequence[int]], named: Iterable[tuple[int, ...]], texts: Iterable[str]
) -> Mapping[int, int]:
    """The catalogue's film of an item's number, where replies tell it.

    The log's numbers are those of a knowledge graph that the catalogue does not have. An item is a film if at
    least three different replies name a single film while the item ranks first, and half of them name that
    one. Success is not looked at.
    """
    every = zip(ranked, named, texts, strict=True)
    told = {(items[0], text): films[0] for items, films, text in every if items and len(films) == 1}
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for (item, _), film in told.items():
        counts[item][film] += 1
    best = {item: (count.total(), *count.most_common(1)[0]) for item, count in counts.items()}
    return {item: film for item, (n, film, hits) in best.items() if n >= _SEEN and hits >= _SHARE * n}


def prediction(frame: pd.DataFrame, *, resamples: int = 100) -> pd.DataFrame:
    """AUC of every predictor for either criterion, over replies and over dialogues.

    ``within`` is the mean over systems of their own AUC, with its 95 % interval over conversations; ``all``
    pools the systems. Where a predictor is undefined (no constraint known) its mean stands in. Over dialogues
    a predictor is the mean over replies, ``dialogue_satisfaction`` the score of the whole; success is that of
    any reply.
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
            shown = name in (_WORDS, _RANKED, ON_PAPER, WHOLE)
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
    """The replies that the score judges most wrongly: successes with the lowest, failures with the highest.

    ``n`` of either, from different conversations.
    """
    order = frame.sort_values([ON_PAPER, "system", "conv_id", "turn"]).drop_duplicates("reply")
    low, high = order[order["in_text"]], order[~order["in_text"]].iloc[::-1]
    found = pd.concat([part.drop_duplicates("conv_id").head(n) for part in (low, high)], ignore_index=True)
    cut = {name: [shorten(text, 160) for text in found[name]] for name in ("user", "reply")}
    return found.assign(**cut)[["system", "turn", "in_text", ON_PAPER, "user", "reply"]]


JUDGE = ("REC_RELEVANCE", "OVERALL_SAT")
SIMULATORS = ("ABUS", "Single_LLM", "Dual_LLM")


def judged(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per conversation of UserSimCRS: system, simulator, our scores and the judge's.

    The simulator is read from the session's name. Raises InputError where no conversation carries a score.
    """
    rows = []
    for one in agreement.score(dialogues, grounder):
        given, name = agreement.annotations(one.dialogue, "scores"), one.dialogue.session_id
        row: dict[str, Any] = {"system": one.dialogue.model_name, "conv_id": name}
        row["simulator"] = next((simulator for simulator in SIMULATORS if simulator in name), "unknown")
        row |= {judge: float(given.get(judge, np.nan)) for judge in JUDGE}
        replies = pd.DataFrame(one.rows, columns=[ON_PAPER, *BASELINES], dtype=float)
        rows.append(row | {WHOLE: one.overall} | replies.mean().to_dict())
    frame = pd.DataFrame(rows, columns=None if rows else JUDGE)
    if not frame[list(JUDGE)].notna().any(axis=None):
        raise InputError("no conversation carries a judge's scores; expected 'scores' (UserSimCRS)")
    return frame


def with_judge(rows: pd.DataFrame, *, resamples: int = 500) -> pd.DataFrame:
    """Spearman of our scores and of baselines with the judge's, by simulator, with 95 % intervals."""
    return pd.DataFrame([
        {"simulator": simulator, "judge": judge, "score": name}
        | rho(part, name, judge, resamples=resamples)
        for simulator, part in [("all", rows), *rows.groupby("simulator")]
        for judge in JUDGE
        for name in (WHOLE, ON_PAPER, *BASELINES)
    ])  # fmt: skip


def survival(rows: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau of the rankings of systems between every two simulators, for our score and the judge's.

    1 is the same order; NaN for fewer than three systems that both simulators met.
    """
    out = []
    for name in (WHOLE, *JUDGE):
        means = rows.pivot_table(index="system", columns="simulator", values=name)
        taus = means.corr(method="kendall", min_periods=3)
        for one, other in combinations(sorted(set(rows["simulator"])), 2):
            n_systems, tau = len(means[[one, other]].dropna()), float(taus.loc[one, other])
            out.append((name, f"{one} and {other}", n_systems, tau))
    return pd.DataFrame(out, columns=["score", "simulators", "n_systems", "tau"])
