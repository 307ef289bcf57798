"""Success as a criterion: do scores say when a simulated user with a target film is served?

The criterion comes from the log (Concept4CRS): the target among the ranked items of a reply (``in_list``), or
named in its text (``in_text``). The predictors never see the target. Source: docs/validity.md, section 4.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.validity import agreement, heard, scores
from crs_lib.validity.scores import ON_PAPER, RECEIVED

CRITERIA = {"in_list": "rec_success_rec", "in_text": "rec_success_dialogue"}
WORDS, RANKED = "satisfaction", "ranked_satisfaction"
PREDICTORS = (WORDS, RANKED, "normalised_gain", ON_PAPER, RECEIVED, "n_films", "n_words", "turn")
_SEEN, _SHARE = 3, 0.5  # replies that must name a film with the item ranked first, and their share


def replies(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply of conversations that log success: criteria and predictors.

    ``satisfaction`` is the mean share of the constraints heard that the films named meet (0 without films);
    ``ranked_satisfaction`` the same over the ranked items that :func:`resolved` finds, NaN where no
    constraint is known or no item is found; ``found`` their share. Raises InputError where no reply logs
    success.
    """
    rows: list[dict[str, Any]] = []
    ranked: list[list[int]] = []
    named: list[tuple[int, ...]] = []
    wishes: list[frozenset[int]] = []
    for one in scores.score(dialogues, grounder):
        listener = heard.Listener(grounder)
        for pair, row in zip(one.dialogue.pairs(), one.rows, strict=True):
            last = (pair.system.meta.get("merged") or [pair.system.meta])[-1]
            state = listener.listen(pair.user.text)
            if any(last.get(key) is None for key in CRITERIA.values()):
                continue
            rows.append(row | {name: bool(last[key]) for name, key in CRITERIA.items()})
            rows[-1] |= {"user": pair.user.text, "reply": pair.system.text}
            ranked.append([int(item) for item in last.get("rec_items") or ()])
            named.append(heard.films(grounder, pair.system.text))
            wishes.append(state.constraints)
    if not rows:
        raise InputError("no reply logs success; expected conversations with rec_success_rec (Concept4CRS)")
    frame = pd.DataFrame(rows)
    film_of = resolved(ranked, named, frame["reply"])
    facts = grounder.catalog.fact_sets
    frame[RANKED] = [
        _met([facts[film_of[item]] for item in items if item in film_of], wanted)
        for items, wanted in zip(ranked, wishes, strict=True)
    ]
    frame["found"] = [
        sum(item in film_of for item in items) / len(items) if items else np.nan for items in ranked
    ]
    return frame


def _met(facts: Sequence[frozenset[int]], wanted: frozenset[int]) -> float:
    return (
        sum(len(wanted & one) for one in facts) / (len(facts) * len(wanted)) if facts and wanted else np.nan
    )


def resolved(
    ranked: Sequence[Sequence[int]], named: Sequence[tuple[int, ...]], texts: Iterable[str]
) -> Mapping[int, int]:
    """The catalogue's film of an item's number, where replies tell it.

    The log's numbers are those of a knowledge graph that the catalogue does not have. An item is a film if at
    least three different replies name a single film while the item ranks first, and half of them name that
    one. Success is not looked at.
    """
    seen: set[tuple[int, str]] = set()
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for items, films, text in zip(ranked, named, texts, strict=True):
        if items and len(films) == 1 and (items[0], text) not in seen:
            seen.add((items[0], text))
            counts[items[0]][films[0]] += 1
    found = {item: count.most_common(1)[0] for item, count in counts.items()}
    return {
        item: film
        for item, (film, n) in found.items()
        if counts[item].total() >= _SEEN and n >= _SHARE * counts[item].total()
    }


def within(frame: pd.DataFrame, score: str, criterion: str) -> float:
    """The mean of the systems' own AUC; systems without both outcomes are left out."""
    values = [
        stats.auc(part[score].to_numpy(float), part[criterion].to_numpy(bool))
        for _, part in frame.groupby("system")
    ]
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def prediction(frame: pd.DataFrame, *, resamples: int = 100, seed: int = 0) -> pd.DataFrame:
    """AUC of every predictor for either criterion, over replies and over dialogues.

    ``within`` is the mean over systems of their own AUC, with its 95 % interval over conversations; ``all``
    pools the systems. Where a predictor is undefined (no constraint known) its mean stands in. Over dialogues
    a predictor is the mean over replies, ``dialogue_adaptation`` the score of the whole, and success is that
    of any reply.
    """
    filled = frame.fillna({name: frame[name].mean() for name in PREDICTORS}).fillna({"reaction": 0.5})
    out = []
    for criterion in CRITERIA:
        for level, rows in (("reply", filled), ("dialogue", dialogues(filled))):
            names = PREDICTORS if level == "reply" else (*PREDICTORS, agreement.WHOLE)
            picks = agreement.draws(rows["system"] + rows["conv_id"], f"success {level}", resamples, seed)
            for name in names:
                values = rows[name].to_numpy(float), rows[criterion].to_numpy(bool)
                row = {"criterion": criterion, "level": level, "predictor": name, "n": len(rows)}
                row |= {"all": stats.auc(*values), "within": within(rows, name, criterion)}
                small = rows[["system", name, criterion]]
                shown = name in (WORDS, RANKED, ON_PAPER, agreement.WHOLE)
                drawn = (within(small.iloc[pick], name, criterion) for pick in picks) if shown else ()
                out.append(row | agreement.limits(drawn))
    return pd.DataFrame(out)


def dialogues(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per conversation: the predictors' means, the whole's score, and whether any reply succeeds."""
    by = frame.groupby(["system", "conv_id"], sort=False)
    found = by[list(PREDICTORS)].mean().assign(**{name: by[name].max() for name in CRITERIA})
    found[agreement.WHOLE] = [
        scores.of_dialogue(part[ON_PAPER].to_numpy(), part["reaction"].to_numpy()) for _, part in by
    ]
    return found.reset_index()


def systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per system: share of successful conversations and mean scores, the most successful first."""
    talks = dialogues(frame.fillna({"reaction": 0.5}))
    names = [*CRITERIA, agreement.WHOLE, WORDS, "normalised_gain"]
    found = talks.groupby("system")[names].mean().assign(n=talks.groupby("system").size())
    return found.sort_values("in_list", ascending=False).reset_index()


def missed(frame: pd.DataFrame, n: int = 3, *, criterion: str = "in_text", width: int = 160) -> pd.DataFrame:
    """The replies that the score judges most wrongly: successes with the lowest, failures with the highest.

    ``n`` of either, from different conversations.
    """
    order = frame.sort_values([ON_PAPER, "system", "conv_id", "turn"]).drop_duplicates("reply")
    low = order[order[criterion]].drop_duplicates("conv_id").head(n)
    high = order[~order[criterion]].iloc[::-1].drop_duplicates("conv_id").head(n)
    found = pd.concat([low, high])[["system", "turn", criterion, ON_PAPER, "user", "reply"]]
    cut = {name: [shorten(text, width) for text in found[name]] for name in ("user", "reply")}
    return found.assign(**cut).reset_index(drop=True)
