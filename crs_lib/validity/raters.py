"""Data sets in which people, success or judges say how good a conversation is, and our scores beside them.

``people ceilings``: AB-ReDial with every rating of every rater, and how far raters agree with one another.
``people success``: simulated users with a target film (Concept4CRS); do scores say when they are served? The
criterion comes from the log, the predictors never see the target. ``people simulators``: a published judge,
simulator by simulator (UserSimCRS); does the ranking of systems survive a change of simulator? ``people
views``: a run of ours scored with the logged state and with the state heard. ``people judges``: language
models that judge what people rated. Source: docs/validity.md, section 4.
"""

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import USER, Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten, words
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.evaluate.run import score_all
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, calls
from crs_lib.llm.client import CACHE, LOG
from crs_lib.llm.text import fence
from crs_lib.metrics import conventions
from crs_lib.validity import agreement, heard
from crs_lib.validity.agreement import BASELINES, ON_PAPER, OVERALL, RATING, RECEIVED, WHOLE, rho

TURNS, DIALOGUES = "annotated_turns.csv", "annotated_dialogues.csv"  # the two tables of AB-ReDial
_SYSTEM = "human"  # in AB-ReDial a person recommends
_RATED = (2, 6, 10)  # the utterances whose turns are rated
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

    The two tables hold the same conversations at different lengths; each is read as conversations of its own.
    Raters have no names: a rater is a row. Raises InputError naming the file and the column that is missing.
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
    found = [one for name, given in talks.items() for one in _ratings(name, given, whole=table != TURNS)]
    frame = pd.DataFrame(found, columns=["conv_id", "item", "rater", "construct", "value"])
    means = frame.groupby(["item", "construct"])["value"].mean().to_dict()
    records = [_record(name, given[0], means) for name, given in talks.items()]
    return Rated([dialogue_of(record, RecordOrigin(path.name)) for record in records], frame)


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
    for place in range(len(row)):
        said = (row.get(f"utterance{place}") or "").strip()
        if not said:
            continue
        speaker, _, text = said.partition("\t" if "\t" in said else " ")  # in some rows blanks for the tab
        role = "USER" if speaker.strip() == "USER" else "ASST"
        turn: dict[str, Any] = {"turn_ind": place, "role": role, "utterance": text.strip()}
        if (f"{name} {place}", "relevance") in means:
            turn["turn_level_aggregated"] = {RATING: means[f"{name} {place}", "relevance"]}
        turns.append(turn)
    record: dict[str, Any] = {"conv_id": name, "model_name": _SYSTEM, "dialogue": turns}
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
        known = agreement.one_against_rest(mine)
        if known.empty:
            continue
        row = {"construct": construct, "n_ratings": len(known), "n_items": known["item"].nunique()}
        found = rho(known.assign(system=""), "value", "rest", resamples=resamples, seed=seed)
        row |= {name: found[name] for name in ("spearman", "low", "high")}
        alpha = stats.krippendorff_alpha(
            known,
            stats.Design(system="rater", scenario="item", resamples=max(200, resamples // 5), seed=seed),
        ).iloc[0]
        out.append(row | {"alpha": alpha["alpha"], "alpha_low": alpha["low"], "alpha_high": alpha["high"]})
    return pd.DataFrame(out)


# The target among the ranked items of a reply, or named in its text.
CRITERIA = {"in_list": "rec_success_rec", "in_text": "rec_success_dialogue"}
_WORDS, _RANKED = "satisfaction", "ranked_satisfaction"
PREDICTORS = (_WORDS, _RANKED, "normalised_gain", ON_PAPER, RECEIVED, "n_films", "n_words", "turn")
_SEEN, _SHARE = 3, 0.5  # replies that must name a film with the item ranked first, and their share


def success(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
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
    for one in agreement.score(dialogues, grounder):
        listener = heard.Listener(grounder)
        for pair, row in zip(one.dialogue.pairs(), one.rows, strict=True):
            last = agreement.last_part(pair)
            state = listener.listen(pair.user.text)
            if any(last.get(key) is None for key in CRITERIA.values()):
                continue
            row |= {name: bool(last[key]) for name, key in CRITERIA.items()}
            rows.append(row | {"user": pair.user.text, "reply": pair.system.text})
            ranked.append([int(item) for item in last.get("rec_items") or ()])
            named.append(heard.films(grounder, pair.system.text))
            wishes.append(state.constraints)
    if not rows:
        raise InputError("no reply logs success; expected conversations with rec_success_rec (Concept4CRS)")
    frame = pd.DataFrame(rows)
    film_of = resolved(ranked, named, frame["reply"])
    films = [[film_of[item] for item in items if item in film_of] for items in ranked]
    facts = grounder.catalog.fact_sets
    frame[_RANKED] = [
        sum(len(wanted & facts[film]) for film in known) / (len(known) * len(wanted))
        if known and wanted
        else np.nan
        for known, wanted in zip(films, wishes, strict=True)
    ]
    frame["found"] = [
        len(known) / len(items) if items else np.nan for known, items in zip(films, ranked, strict=True)
    ]
    return frame


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
    best = {item: (count.total(), *count.most_common(1)[0]) for item, count in counts.items()}
    return {item: film for item, (n, film, hits) in best.items() if n >= _SEEN and hits >= _SHARE * n}


def prediction(frame: pd.DataFrame, *, resamples: int = 100, seed: int = 0) -> pd.DataFrame:
    """AUC of every predictor for either criterion, over replies and over dialogues.

    ``within`` is the mean over systems of their own AUC, with its 95 % interval over conversations; ``all``
    pools the systems. Where a predictor is undefined (no constraint known) its mean stands in. Over dialogues
    a predictor is the mean over replies, ``dialogue_adaptation`` the score of the whole, and success is that
    of any reply.
    """
    filled = frame.fillna({name: frame[name].mean() for name in PREDICTORS}).fillna({"reaction": 0.5})
    levels = {"reply": (filled, PREDICTORS), "dialogue": (_per_dialogue(filled), (*PREDICTORS, WHOLE))}
    out = []
    for criterion in CRITERIA:
        for level, (rows, names) in levels.items():
            picks = _draws(rows["system"] + rows["conv_id"], f"success {level}", resamples, seed)
            for name in names:
                row = {"criterion": criterion, "level": level, "predictor": name, "n": len(rows)}
                row |= {"all": _auc(rows, name, criterion), "within": _auc_within(rows, name, criterion)}
                small = rows[["system", name, criterion]]
                shown = name in (_WORDS, _RANKED, ON_PAPER, WHOLE)
                drawn = [_auc_within(small.iloc[pick], name, criterion) for pick in picks if shown]
                low, high = np.nanquantile(drawn, [0.025, 0.975]) if drawn else (np.nan, np.nan)
                out.append(row | {"low": float(low), "high": float(high)})
    return pd.DataFrame(out)


def _draws(groups: pd.Series, key: str, resamples: int, seed: int) -> list[Any]:
    """Rows of conversations drawn with replacement, one array a draw; the same for the same key and seed."""
    members = list(groups.groupby(groups, sort=False).indices.values())
    draw, n = rng.stream(seed, "people", key), len(members)
    return [np.concatenate([members[i] for i in draw.integers(0, n, n)]) for _ in range(resamples)]


def _auc(frame: pd.DataFrame, score: str, criterion: str) -> float:
    return stats.auc(frame[score].to_numpy(float), frame[criterion].to_numpy(bool))


def _auc_within(frame: pd.DataFrame, score: str, criterion: str) -> float:
    """The mean of the systems' own AUC; systems without both outcomes are left out."""
    values = [_auc(part, score, criterion) for _, part in frame.groupby("system")]
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def _per_dialogue(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per conversation: the predictors' means, the whole's score, and whether any reply succeeds."""
    by = frame.groupby(["system", "conv_id"], sort=False)
    found = by[list(PREDICTORS)].mean().assign(**{name: by[name].max() for name in CRITERIA})
    found[WHOLE] = [
        agreement.of_dialogue(part[ON_PAPER].to_numpy(), part["reaction"].to_numpy()) for _, part in by
    ]
    return found.reset_index()


def systems(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per system: share of successful conversations and mean scores, the most successful first."""
    talks = _per_dialogue(frame.fillna({"reaction": 0.5}))
    names = [*CRITERIA, WHOLE, _WORDS, "normalised_gain"]
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
    if not any(row[judge] == row[judge] for row in rows for judge in JUDGE):
        raise InputError("no conversation carries a judge's scores; expected 'scores' (UserSimCRS)")
    return pd.DataFrame(rows)


def with_judge(rows: pd.DataFrame, *, resamples: int = 500, seed: int = 0) -> pd.DataFrame:
    """Spearman of our scores and of baselines with the judge's, by simulator, with 95 % intervals."""
    return pd.DataFrame([
        {"simulator": simulator, "judge": judge, "score": name}
        | rho(part, name, judge, resamples=resamples, seed=seed)
        for simulator, part in [("all", rows), *rows.groupby("simulator")]
        for judge in JUDGE
        for name in (WHOLE, ON_PAPER, *BASELINES)
    ])  # fmt: skip


def rankings(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean of our score and of the judge's by system and simulator, in wide form: a column a simulator."""
    means = rows.pivot_table(index="system", columns="simulator", values=[WHOLE, *JUDGE], sort=False)
    means.columns = [f"{score}, {simulator}" for score, simulator in means.columns]
    return means.reset_index()


def survival(rows: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau of the rankings of systems between every two simulators, for our score and the judge's.

    1 is the same order; NaN for fewer than three systems that both simulators met.
    """
    out = []
    for name in (WHOLE, *JUDGE):
        means = rows.pivot_table(index="system", columns="simulator", values=name)
        for one, other in combinations(sorted(set(rows["simulator"])), 2):
            both = means[[one, other]].dropna()
            tau = scipy.stats.kendalltau(both[one], both[other])[0] if len(both) > 2 else np.nan
            row = {"score": name, "simulators": f"{one} and {other}", "n_systems": len(both)}
            out.append(row | {"tau": float(tau)})
    return pd.DataFrame(out)


_METRIC = "normalised_gain"
LOGGED, HEARD = "logged", "heard"


def views(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per turn: the gain for the logged and for the heard state, and how far the two states agree.

    ``joint`` is 1 where constraints and exclusions are heard exactly; ``precision`` and ``recall`` are those
    of the values heard, NaN without any. A person's roles count as one value: words do not tell them apart.
    """
    kept = list(dialogues)
    twins = [_with_heard(dialogue, grounder) for dialogue in kept]
    rule = conventions.get("default")
    scored = [score_all(talks, grounder, rule) for talks in (kept, twins)]
    rows: list[dict[str, Any]] = []
    for dialogue, twin, with_log, with_words in zip(kept, twins, *scored, strict=True):
        turns = zip(dialogue.pairs(), twin.pairs(), with_log.turns, with_words.turns, strict=True)
        for pair, other, mine, theirs in turns:
            row = {"system": dialogue.model_name, "conv_id": dialogue.session_id, "turn": pair.turn}
            row |= {LOGGED: mine[_METRIC], HEARD: theirs[_METRIC]}
            rows.append(row | _same_state(_state(pair.user.user_meta), _state(other.user.user_meta)))
    return pd.DataFrame(rows)


def _with_heard(dialogue: Dialogue, grounder: Grounder) -> Dialogue:
    """The dialogue with the heard constraints and exclusions in its log, all else as it was."""
    listener, out = heard.Listener(grounder), []
    for turn in dialogue.turns:
        meta = dict(turn.meta)
        if turn.speaker == USER:
            meta["user_meta"] = {**turn.user_meta, **heard.as_logged(grounder, listener.listen(turn.text))}
        out.append(replace(turn, meta=meta))
    return replace(dialogue, turns=tuple(out))


def _state(log: Any) -> frozenset[tuple[bool, str]]:
    """The values of a log, each with whether it is wanted."""
    return frozenset(
        (wanted, str(value))
        for key, wanted in (("constraints", True), ("avoid", False))
        for given in (log.get(key) or {}).values()
        for value in ([given] if isinstance(given, str | int) else given)
    )


def _same_state(logged: frozenset[Any], found: frozenset[Any]) -> dict[str, float]:
    both = len(logged & found)
    precision, recall = (both / len(side) if side else np.nan for side in (found, logged))
    return {"joint": float(logged == found), "precision": precision, "recall": recall}


def bridge(rows: pd.DataFrame, *, resamples: int = 500, seed: int = 0) -> pd.DataFrame:
    """One row per system: both views' mean gain, their Spearman, and the agreement of the states.

    "all" comes first; its last column is the Spearman of the two views over systems. ``low`` and ``high`` are
    the 95 % interval of Spearman over turns, sessions drawn with replacement.
    """
    out, names = [], [LOGGED, HEARD]
    for system, part in [("all", rows), *rows.groupby("system", sort=False)]:
        found = rho(part, LOGGED, HEARD, resamples=resamples, seed=seed)
        talks = part.groupby(["system", "conv_id"])[names].mean().dropna()
        means = part.groupby("system")[names].mean()
        row: dict[str, Any] = {"system": system, "n": found["n"], **part[names].mean().to_dict()}
        row |= {"spearman, turns": found["spearman"], "low": found["low"], "high": found["high"]}
        row |= {"spearman, sessions": agreement.spearman(talks[LOGGED], talks[HEARD])}
        row |= {"spearman, systems": agreement.spearman(means[LOGGED], means[HEARD])}
        out.append(row | part[["joint", "precision", "recall"]].mean().to_dict())
    return pd.DataFrame(out)


ROLE = "people_judge"
# Spearman over dialogues of CRSArena-Eval's ReDial part, as printed by the authors of FACE.
PUBLISHED = {"FACE (published)": 0.668, "G-Eval (published)": 0.577}


def _answer(name: str, **kind: Any) -> dict[str, Any]:
    """The JSON schema of an answer with one value."""
    return {"type": "object", "properties": {name: kind}, "required": [name], "additionalProperties": False}


_SCORE = _answer("score", type="integer", minimum=1, maximum=5)
_BETTER = _answer("better", type="string", enum=["A", "B"])


def chosen(dialogues: Sequence[Dialogue], n: int, seed: int = 0) -> list[Dialogue]:
    """A draw of ``n`` conversations whose whole people rated; all where there are fewer.

    Raises InputError where none is rated.
    """
    rated = [one for one in dialogues if not np.isnan(agreement.overall_rating(one))]
    if not rated:
        raise InputError("no conversation carries a rating of the whole (dial_level_aggregated)")
    order = rng.stream(seed, "people judges").permutation(len(rated))
    return [rated[i] for i in sorted(order[:n])]


def ask(
    dialogues: Sequence[Dialogue], spec: str, folder: Path, settings: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """How one judge agrees with people on these conversations, what it cost, and its biases; one row.

    A judge rates every conversation by itself, and says of pairs which is better, in both orders.
    ``verbosity`` is the judge's Spearman with the length of the replies less the people's: above 0 it likes
    words more than people do. ``position`` is the share of pairs (neighbours in the draw) in which it prefers
    the same place in both orders: 0 is no bias, 1 only the place counts. ``unusable`` counts answers that
    could not be read; they are missing. Calls are cached and logged in ``folder``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cache, log = Cache(folder / CACHE), Recorder(folder / LOG)
    with LLM(spec, cache=cache, recorder=log, **dict(settings or {})) as judge:
        given = [_value(answer, "score") for answer in judge.gather(map(_rating, dialogues))]
        pairs = list(zip(dialogues[0::2], dialogues[1::2], strict=False))
        both = [judge.gather([_pair(a, b), _pair(b, a)]) for a, b in pairs]
    cache.close()
    log.close()
    calls.export_all(folder)
    used = calls.usage(folder / "llm_calls.jsonl")
    frame = pd.DataFrame({
        "system": [one.model_name for one in dialogues], "conv_id": [one.session_id for one in dialogues],
        "judge": pd.array(given, "Float64").astype(float),
        OVERALL: [agreement.overall_rating(one) for one in dialogues],
        "length": [float(sum(len(words(p.system.text)) for p in one.pairs())) for one in dialogues],
    })  # fmt: skip
    known = frame[frame["judge"].notna()]
    answers = [(_value(one, "better"), _value(other, "better")) for one, other in both]
    usable = [pair for pair in answers if None not in pair]
    by_length = [agreement.spearman(known[name], known["length"]) for name in ("judge", OVERALL)]
    row: dict[str, Any] = {"judge": spec} | rho(frame, "judge", OVERALL, resamples=500)
    row |= {"verbosity": by_length[0] - by_length[1]}
    row |= {"position": float(np.mean([a == b for a, b in usable])) if usable else float("nan")}
    row |= {"unusable": sum(value is None for value in [*given, *(v for pair in answers for v in pair)])}
    row |= {name: float(used[name].sum()) for name in ("tokens_in", "tokens_out", "seconds") if name in used}
    return pd.DataFrame([row])


def beside(judged: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The judges' rows, our score on all rated conversations, and the figures that others printed."""
    ours = {"judge": WHOLE} | rho(agreement.per_dialogue(rows), WHOLE, OVERALL, resamples=500)
    published = [{"judge": name, "spearman": value} for name, value in PUBLISHED.items()]
    return pd.concat([judged, pd.DataFrame([ours, *published])], ignore_index=True)


def _text(dialogue: Dialogue) -> str:
    said = [f"Person: {p.user.text}\nRecommender: {p.system.text}" for p in dialogue.pairs()]
    return "\n".join(said)


def _rating(dialogue: Dialogue) -> Request:
    text = _text(dialogue)
    return _request(prompts.render("movies/people_rating", dialogue=text, fence=fence([text])), _SCORE)


def _pair(one: Dialogue, other: Dialogue) -> Request:
    first, second = _text(one), _text(other)
    asked = prompts.render("movies/people_pair", first=first, second=second, fence=fence([first, second]))
    return _request(asked, _BETTER)


def _request(asked: str, schema: Mapping[str, Any]) -> Request:
    options = {"temperature": 0, "num_predict": 40}
    return Request.ask(ROLE, asked, seed=0, options=options, schema=schema)


def _value(answer: Any, key: str) -> Any:
    """The value of an answer, None where it could not be read."""
    return None if isinstance(answer, LLMError) else json.loads(answer.text)[key]
