"""Language models as judges of the conversations that people rated: agreement, cost, and two biases.

A judge rates every conversation by itself, and says of pairs which is better, in both orders.
Source: docs/validity.md, section 4.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, calls
from crs_lib.llm.pool import CACHE, LOG
from crs_lib.llm.text import fence
from crs_lib.validity import agreement
from crs_lib.validity.agreement import OVERALL

ROLE = "people_judge"
# Spearman over dialogues of CRSArena-Eval's ReDial part, as printed by the authors of FACE.
PUBLISHED = {"FACE (published)": 0.668, "G-Eval (published)": 0.577}
_SCORE = {
    "type": "object", "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"], "additionalProperties": False,
}  # fmt: skip
_BETTER = {
    "type": "object", "properties": {"better": {"type": "string", "enum": ["A", "B"]}},
    "required": ["better"], "additionalProperties": False,
}  # fmt: skip


def chosen(dialogues: Sequence[Dialogue], n: int, seed: int = 0) -> list[Dialogue]:
    """A draw of ``n`` conversations whose whole people rated; all where there are fewer.

    Raises InputError where none is rated.
    """
    rated = [one for one in dialogues if not np.isnan(_overall(one))]
    if not rated:
        raise InputError("no conversation carries a rating of the whole (dial_level_aggregated)")
    order = rng.stream(seed, "people judges").permutation(len(rated))
    return [rated[i] for i in sorted(order[:n])]


def _overall(dialogue: Dialogue) -> float:
    levels = (dialogue.extra.get("annotations") or {}).get("dial_level_aggregated") or {}
    value = levels.get(OVERALL)
    return float(value) if isinstance(value, int | float) else float("nan")


def ask(
    dialogues: Sequence[Dialogue], spec: str, folder: Path, settings: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """How one judge agrees with people on these conversations, what it cost, and its biases; one row.

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
        "judge": pd.array(given, "Float64").astype(float), OVERALL: [_overall(one) for one in dialogues],
        "length": [float(sum(len(words(p.system.text)) for p in one.pairs())) for one in dialogues],
    })  # fmt: skip
    known = frame[frame["judge"].notna()]
    columns = {name: known[name].to_numpy(float) for name in ("judge", OVERALL, "length")}
    answers = [(_value(one, "better"), _value(other, "better")) for one, other in both]
    usable = [pair for pair in answers if None not in pair]
    row: dict[str, Any] = {"judge": spec, "n": len(known)}
    row |= {"spearman": agreement.spearman(columns["judge"], columns[OVERALL])}
    row |= agreement.interval(frame, "judge", OVERALL, resamples=500)
    by_length = [agreement.spearman(columns[name], columns["length"]) for name in ("judge", OVERALL)]
    row |= {"verbosity": by_length[0] - by_length[1]}
    row |= {"position": float(np.mean([a == b for a, b in usable])) if usable else float("nan")}
    row |= {"unusable": sum(value is None for value in [*given, *(v for pair in answers for v in pair)])}
    row |= {name: float(used[name].sum()) for name in ("tokens_in", "tokens_out", "seconds") if name in used}
    return pd.DataFrame([row])


def beside(judged: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The judges' rows, our score on all rated conversations, and the figures that others printed."""
    whole = agreement.per_dialogue(rows)
    known = whole[whole[[agreement.WHOLE, OVERALL]].notna().all(axis=1)]
    rho = agreement.spearman(known[agreement.WHOLE].to_numpy(float), known[OVERALL].to_numpy(float))
    ours = {"judge": agreement.WHOLE, "n": len(known), "spearman": rho}
    ours |= agreement.interval(whole, agreement.WHOLE, OVERALL, resamples=500)
    published = [{"judge": name, "spearman": value} for name, value in PUBLISHED.items()]
    return pd.concat([judged, pd.DataFrame([ours, *published])], ignore_index=True)


def _text(dialogue: Dialogue) -> str:
    said = [f"Person: {p.user.text}\nRecommender: {p.system.text}" for p in dialogue.pairs()]
    return "\n".join(said)


def _rating(dialogue: Dialogue) -> Request:
    text = _text(dialogue)
    asked = prompts.render("movies/people_rating", dialogue=text, fence=fence([text]))
    return _request(asked, _SCORE)


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
