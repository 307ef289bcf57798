"""Data sets in which people, success or judges say how good a conversation is, and our scores beside them.

``people ceilings``: AB-ReDial with every rating of every rater, and how far raters agree with one another.
``people success``: simulated users with a target film (Concept4CRS); do scores say when they are served? The
criterion comes from the log, the predictors never see the target. ``people simulators``: a published judge,
simulator by simulator (UserSimCRS); does the ranking of systems survive a change of simulator? ``people
views``: a run of ours scored with the logged state and with the state heard. ``people judges``: language
models that judge what people rated. Source: docs/validity.md, section 4.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib import data as datasets
from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import one_line, shorten, words
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.evaluate.run import score_all
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, calls
from crs_lib.llm.client import CACHE, LOG
from crs_lib.llm.text import fence
from crs_lib.metrics import conventions
from crs_lib.metrics.records import mean_defined
from crs_lib.validity import agreement, heard
from crs_lib.validity.agreement import BASELINES, ON_PAPER, OVERALL, RATING, RECEIVED, WHOLE, rho

TURNS, DIALOGUES = "annotated_turns.csv", "annotated_dialogues.csv"  # the two tables of AB-ReDial
_SYSTEM = "human"  # in AB-ReDial a person recommends
_RATED = {2: "1", 6: "2", 10: "3"}  # the utterances whose turns are rated, and their columns' numbers
_TURN_LEVEL = ("relevance", "interestingness", "overall")
_WHOLE = ("understanding", "task-completion", "interest-arousal", "efficiency", "dialogue-overall")


class _RatedTalks(NamedTuple):
    """Conversations with mean ratings, and the ratings one by one.

    ``ratings`` has a row a rating: conv_id, item (the conversation, or conversation and utterance), rater,
    construct, value.
    """

    dialogues: list[Dialogue]
    ratings: pd.DataFrame


def abredial(table: str = TURNS, folder: Path | None = None) -> _RatedTalks:
    """AB-ReDial from its table of turns or of dialogues; by default where the data set ``abredial`` lies.

    The two tables hold the same conversations at different lengths; each is read as conversations of its own.
    Raters have no names: a rater is a row. Raises InputError naming the file and the column that is missing.
    """
    path = (folder or datasets.locate("abredial")) / table
    try:
        given = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").fillna("")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: cannot be read as a table ({one_line(str(error), 200)})") from error
    for name in ("ConvId", "utterance0", "relevance1" if table == TURNS else "dialogue-overall"):
        if name not in given:
            raise InputError(f"{path.name}: no column {name!r}; expected AB-ReDial's {table}")
    turns = [(f" {place}", one, one + number) for one in _TURN_LEVEL for place, number in _RATED.items()]
    rated = turns if table == TURNS else [("", one, one) for one in _WHOLE]
    talks = {str(name): rows.to_dict("records") for name, rows in given.groupby("ConvId", sort=False)}
    found = [
        (name, f"{name}{place}", f"row {rater}", construct, float(row[column]))
        for name, rows in talks.items()
        for rater, row in enumerate(rows)
        for place, construct, column in rated
        if row.get(column)
    ]
    ratings = pd.DataFrame(found, columns=["conv_id", "item", "rater", "construct", "value"])
    means = ratings.groupby(["item", "construct"])["value"].mean().to_dict()
    records = [_record(name, rows[0], means) for name, rows in talks.items()]
    return _RatedTalks([dialogue_of(record, RecordOrigin(path.name)) for record in records], ratings)


def _record(name: str, row: Mapping[Any, str], means: Mapping[Any, float]) -> dict[str, Any]:
    """A conversation in CRSArena-Eval's form, with the mean ratings where that form has them."""
    turns = []
    for place in range(len(row)):
        said = row.get(f"utterance{place}", "").strip()
        if not said:
            continue
        speaker, _, text = said.partition("\t" if "\t" in said else " ")  # in some rows blanks for the tab
        role = "USER" if speaker.strip() == "USER" else "ASST"
        turn: dict[str, Any] = {"turn_ind": place, "role": role, "utterance": text.strip()}
        if (item := (f"{name} {place}", "relevance")) in means:
            turn["turn_level_aggregated"] = {RATING: means[item]}
        turns.append(turn)
    overall = means.get((name, "dialogue-overall"))
    whole = {"dial_level_aggregated": {OVERALL: overall}} if overall is not None else {}
    return {"conv_id": name, "model_name": _SYSTEM, "dialogue": turns, **whole}


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
            last, state = agreement.merged(pair)[-1], listener.listen(pair.user.text)
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
    a predictor is the mean over replies, ``dialogue_adaptation`` the score of the whole, and success is that
    of any reply.
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


LOGGED, HEARD = "logged", "heard"


def views(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per turn: the gain for the logged and for the heard state, and how far the two states agree.

    ``joint`` is 1 where constraints and exclusions are heard exactly; ``precision`` and ``recall`` are those
    of the values heard, NaN without any. A person's roles count as one value: words do not tell them apart.
    """
    kept, rule = list(dialogues), conventions.get("default")
    twins = [agreement.logged(dialogue, grounder, whole=False) for dialogue in kept]
    scored = [score_all(talks, grounder, rule) for talks in (kept, twins)]
    rows: list[dict[str, Any]] = []
    for dialogue, twin, with_log, with_words in zip(kept, twins, *scored, strict=True):
        turns = zip(dialogue.pairs(), twin.pairs(), with_log.turns, with_words.turns, strict=True)
        for pair, other, mine, theirs in turns:
            logged, found = (_state(one.user.user_meta) for one in (pair, other))
            precision, recall = (len(logged & found) / len(one) if one else np.nan for one in (found, logged))
            row = {"system": dialogue.model_name, "conv_id": dialogue.session_id, "turn": pair.turn}
            row |= {LOGGED: mine[_GAIN], HEARD: theirs[_GAIN], "joint": float(logged == found)}
            rows.append(row | {"precision": precision, "recall": recall})
    return pd.DataFrame(rows)


def _state(log: Any) -> frozenset[tuple[str, str]]:
    """The values of a log, each with the part of the log that holds it."""
    return frozenset(
        (part, str(value))
        for part in ("constraints", "avoid")
        for given in (log.get(part) or {}).values()
        for value in ([given] if isinstance(given, str | int) else given)
    )


def bridge(rows: pd.DataFrame, *, resamples: int = 500) -> pd.DataFrame:
    """One row per system: both views' mean gain, their Spearman, and the agreement of the states.

    "all" comes first; its last column is the Spearman of the two views over systems. ``low`` and ``high`` are
    the 95 % interval of Spearman over turns, sessions drawn with replacement.
    """
    out, names = [], [LOGGED, HEARD]
    for system, part in [("all", rows), *rows.groupby("system", sort=False)]:
        found = rho(part, LOGGED, HEARD, resamples=resamples)
        row: dict[str, Any] = {"system": system, "n": found["n"], **part[names].mean().to_dict()}
        row |= {"spearman, turns": found["spearman"], "low": found["low"], "high": found["high"]}
        for each, by in (("sessions", ["system", "conv_id"]), ("systems", ["system"])):
            means = part.groupby(by)[names].mean().dropna()
            row[f"spearman, {each}"] = agreement.spearman(means[LOGGED], means[HEARD])
        out.append(row | part[["joint", "precision", "recall"]].mean().to_dict())
    return pd.DataFrame(out)


_ROLE = "people_judge"
# Spearman over dialogues of CRSArena-Eval's ReDial part, as printed by the authors of FACE.
PUBLISHED = {"FACE (published)": 0.668, "G-Eval (published)": 0.577}
_LEVELS, _PLACES = {"type": "integer", "minimum": 1, "maximum": 5}, {"type": "string", "enum": ["A", "B"]}
_ANSWERS = {"score": _LEVELS, "better": _PLACES}


def chosen(dialogues: Sequence[Dialogue], n: int) -> list[Dialogue]:
    """A draw of ``n`` conversations whose whole people rated; all where there are fewer.

    Raises InputError where none is rated.
    """
    rated = [one for one in dialogues if not np.isnan(agreement.overall_rating(one))]
    if not rated:
        raise InputError("no conversation carries a rating of the whole (dial_level_aggregated)")
    order = rng.stream(0, "people judges").permutation(len(rated))
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
    pairs = list(zip(dialogues[0::2], dialogues[1::2], strict=False))
    with (
        closing(Cache(folder / CACHE)) as cache,
        closing(Recorder(folder / LOG)) as log,
        LLM(spec, cache=cache, recorder=log, **dict(settings or {})) as judge,
    ):
        given = _answers(judge, "score", [_request("rating", "score", dialogue=one) for one in dialogues])
        orders = ((x, y) for a, b in pairs for x, y in ((a, b), (b, a)))
        better = _answers(judge, "better", [_request("pair", "better", first=x, second=y) for x, y in orders])
    calls.export_all(folder)
    used = calls.usage(folder / "llm_calls.jsonl")
    lengths = (float(sum(len(words(pair.system.text)) for pair in one.pairs())) for one in dialogues)
    rows = [(one.model_name, one.session_id, agreement.overall_rating(one)) for one in dialogues]
    frame = pd.DataFrame(rows, columns=["system", "conv_id", OVERALL]).assign(length=[*lengths])
    frame["judge"] = pd.array(given, "Float64").astype(float)
    known = frame.dropna(subset="judge")
    usable = [pair for pair in zip(better[0::2], better[1::2], strict=True) if None not in pair]
    row: dict[str, Any] = {"judge": spec} | rho(frame, "judge", OVERALL, resamples=500)
    by_length = [agreement.spearman(known[name], known["length"]) for name in ("judge", OVERALL)]
    row |= {"verbosity": by_length[0] - by_length[1]}
    row |= {"position": float(np.mean([a == b for a, b in usable])) if usable else np.nan}
    row |= {"unusable": [*given, *better].count(None)}
    row |= {name: float(used[name].sum()) for name in ("tokens_in", "tokens_out", "seconds") if name in used}
    return pd.DataFrame([row])


def _request(prompt: str, answer: str, **talks: Dialogue) -> Request:
    """The question of a prompt about conversations; its answer is one value of a given name."""
    texts = {
        name: "\n".join(f"Person: {p.user.text}\nRecommender: {p.system.text}" for p in talk.pairs())
        for name, talk in talks.items()
    }
    asked = prompts.render(f"movies/people_{prompt}", **texts, fence=fence(list(texts.values())))
    schema = {"type": "object", "properties": {answer: _ANSWERS[answer]}, "required": [answer],
              "additionalProperties": False}  # fmt: skip
    options = {"temperature": 0, "num_predict": 40}
    return Request.ask(_ROLE, asked, seed=0, options=options, schema=schema)


def _answers(judge: LLM, name: str, asked: Sequence[Request]) -> list[Any]:
    """The values of the answers, None where one could not be read."""
    found = judge.gather(asked)
    return [None if isinstance(one, LLMError) else json.loads(one.text)[name] for one in found]


def beside(judged: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The judges' rows, our score on all rated conversations, and the figures that others printed."""
    ours = {"judge": WHOLE} | rho(agreement.per_dialogue(rows), WHOLE, OVERALL, resamples=500)
    published = [{"judge": name, "spearman": value} for name, value in PUBLISHED.items()]
    return pd.concat([judged, pd.DataFrame([ours, *published])], ignore_index=True)
