"""Stand-alone queries: rewrite a user turn so that it makes sense without the conversation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core import prompts
from crs_lib.core.registry import Registry
from crs_lib.core.text import words
from crs_lib.cosrec.records import Conversation, Partition
from crs_lib.metrics.rewriting import SENTENCE, bleu
from crs_lib.stats import cluster_bootstrap

Rewriter = Callable[[Sequence[str]], str]
REWRITERS: Registry[str] = Registry("rewriter")
FILLER = frozenset(
    words(
        "a an the i i'm im me my we you your it its it's this that these those is are was be been am do does "
        "did can could would should will have has had of to in on at for with and or but so if as by from "
        "about like just also hi hello hey thanks thank please yes no ok okay oh great good sounds really "
        "think want need looking look find any some there what which how who when where not more tell know "
        "let see sure that's them they one ones s m d ll ve re t perfect nice interested recommend "
        "recommendation recommendations suggest help"
    )
)


def said_by_user(conversation: Conversation, turn: int) -> list[str]:
    """What the user said up to and including a turn, in order."""
    return [conversation.utterances[i].text for i in conversation.turns[: turn + 1]]


def content_words(text: str) -> list[str]:
    """The folded words of a text that are no filler, in order."""
    return [word for word in words(text) if word not in FILLER]


@REWRITERS.register("last turn")
def last_turn(said: Sequence[str]) -> str:
    """The user's turn as it is."""
    return said[-1]


@REWRITERS.register("content words")
def content(said: Sequence[str]) -> str:
    """The turn without filler words."""
    return " ".join(content_words(said[-1])) or said[-1]


@REWRITERS.register("first and last")
def first_and_last(said: Sequence[str]) -> str:
    """Content words of the opening request, then those the turn adds."""
    opening = content_words(said[0])
    return " ".join([*opening, *(w for w in content_words(said[-1]) if w not in set(opening))]) or said[-1]


@REWRITERS.register("all turns")
def all_turns(said: Sequence[str]) -> str:
    """Content words of all user turns so far, each once, in the order they first came."""
    return " ".join(dict.fromkeys(word for text in said for word in content_words(text))) or said[-1]


def rewrite(name: str, said: Sequence[str]) -> str:
    """One rewrite by a registered heuristic; InputError for an unknown name."""
    return REWRITERS.create(name, said=said)


def queries(partition: Partition, rewriters: Sequence[str]) -> pd.DataFrame:
    """One row a user turn and rewriter: conversation, turn, rewriter, query, its words."""
    rows = []
    for name, talk in partition.conversations.items():
        for turn in range(len(talk.turns)):
            for rewriter in rewriters:
                query = rewrite(rewriter, said_by_user(talk, turn))
                rows.append((name, turn, rewriter, query, len(query.split())))
    return pd.DataFrame(rows, columns=["conversation", "turn", "rewriter", "query", "words"])


def rewriting_prompt(conversation: Conversation, turn: int, intent: str) -> str:
    """The prompt that asks a language model for the stand-alone query of a turn's intent."""
    upto = conversation.utterances[: conversation.turns[turn] + 1]
    lines = "\n".join(f"{'User' if u.speaker == 'U' else 'System'}: {u.text}" for u in upto)
    return prompts.render("cosrec/rewrite", dialogue=lines, intent=intent.replace("_", " "))


def heuristic_rewrites(partition: Partition) -> dict[str, dict[str, str]]:
    """Rewrites by heuristic and intent id, for every curated intent."""
    out: dict[str, dict[str, str]] = {name: {} for name in REWRITERS.names()}
    for intent in partition.all_intents():
        conversation = partition.conversations[intent.id.rsplit("_", 2)[0]]
        said = said_by_user(conversation, intent.turn)
        for name in out:
            out[name][intent.id] = rewrite(name, said)
    return out


class _Pair(NamedTuple):
    conversation: str
    candidate: str
    canonical: str
    variants: tuple[str, ...]


def score_rewrites(
    partition: Partition,
    rewrites: Mapping[str, Mapping[str, str]],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """ROUGE-1/2/L, chrF and BLEU in [0, 1] of rewrites by system; one row a system and kind of reference.

    ``canonical``: against the longest variant; ``any variant``: against the closest of all. An intent
    without a rewrite counts as an empty one. ``low`` and ``high`` are the 95 % interval of ROUGE-L over
    conversations.
    """
    rows = []
    for name, found in rewrites.items():
        pairs = [
            _Pair(i.id.rsplit("_", 2)[0], found.get(i.id, ""), i.canonical, i.variants)
            for i in partition.all_intents()
        ]
        rows += _scored(name, pairs, resamples, seed)
    return pd.DataFrame(rows)


def human_rewrites(partition: Partition, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """What people reach: every variant that is not the canonical one, held against the others.

    Against the canonical variant, and against all variants but itself; intents with one variant only,
    and exact copies of the canonical one, are left out. Columns as those of :func:`score_rewrites`.
    """
    pairs = []
    for intent in partition.all_intents():
        for i, variant in enumerate(intent.variants):
            rest = (*intent.variants[:i], *intent.variants[i + 1 :])
            if rest and variant != intent.canonical:
                pairs.append(_Pair(intent.id.rsplit("_", 2)[0], variant, intent.canonical, rest))
    return pd.DataFrame(_scored("one annotator", pairs, resamples, seed))


def _scored(name: str, pairs: Sequence[_Pair], resamples: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for kind in ("canonical", "any variant"):
        allowed = [[p.canonical] if kind == "canonical" else list(p.variants) for p in pairs]
        row: dict[str, Any] = {"system": name, "reference": kind}
        for measure, function in SENTENCE.items():
            each = [function(p.candidate, references) for p, references in zip(pairs, allowed, strict=True)]
            row[measure] = float(np.mean(each)) if each else float("nan")
            if measure == "rougeL" and each:
                row |= _interval(pairs, each, resamples, seed)
        row["BLEU"] = bleu([p.candidate for p in pairs], allowed) if pairs else float("nan")
        rows.append(row | {"n": len(pairs)})
    return rows


def _interval(pairs: Sequence[_Pair], each: Sequence[float], resamples: int, seed: int) -> dict[str, float]:
    """``low`` and ``high`` of a mean over pairs, conversations drawn."""
    frame = pd.DataFrame({"system": "one", "conversation": [p.conversation for p in pairs], "score": each})
    found = cluster_bootstrap(
        frame, scenario="conversation", value="score", resamples=resamples, seed=seed
    ).iloc[0]
    return {"low": float(found["low"]), "high": float(found["high"])}
