"""What straight and shifting users say before a change of mind, and what the difference costs systems.

    PYTHONPATH=. python -m benchmarks.straight_users [--seed 901] [--scenarios 600] [--windows 2400]

Prints the shift cost of four systems, how far the fresh gain lies from the sum of its parts, whether the
printed parts of a difference add up, the share of windows in which both users plan as many statements
(and as many within one), the statements and reactions a window, and the AUC of readers that tell straight
from shifting users by all words before the first change, films and values masked, names of fields visible.
The last result stands in docs/records/straight_users.csv.
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from crs_lib import simulate, stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.scenarios import Scenario
from crs_lib.simulate.users import INSIST, NOTHING_NAMED, User
from crs_lib.systems import base
from crs_lib.systems.base import World
from crs_lib.validity import arms

SYSTEMS_MEASURED = ("load", "sticky", "tracker", "oracle")
TURNS = 8  # so few hold the first change and its window
PARTNER = "tracker"  # whose replies the users hear whose words are read
READERS = ("counts", "presence")  # of words and pairs of words
PARTS = ("gain_after_change", "straight_gain", "fresh_gain", "shift_cost", "conversation_cost")


class Row(NamedTuple):
    """A row of the table: what was measured of whom, with its interval where there is one, over how many."""

    measure: str
    of: str
    value: float
    low: float
    high: float
    n: int


def sessions(world: World, config: SimulateConfig, n: int) -> pd.DataFrame:
    """A row a system and scenario, of the first ``n``: its gains and costs at the primary change."""
    rows = []
    for talk, scores in arms.scored(world, config, n):
        rows.append({"system": talk.model_name, "scenario": talk.session_id, **scores.session})
    frame = pd.DataFrame(rows)[["system", "scenario", *PARTS, "misfit"]]
    return frame.astype(dict.fromkeys([*PARTS, "misfit"], float))


def costs(frame: pd.DataFrame) -> list[Row]:
    """Straight gain and shift cost of each system."""
    rows = []
    for system, own in frame.groupby("system", sort=False):
        for measure in ("straight_gain", "shift_cost"):
            estimate = stats.mean_interval(own[measure])
            rows.append(Row(measure, str(system), estimate.value, estimate.low, estimate.high, estimate.n))
    return rows


def sums(frame: pd.DataFrame) -> list[Row]:
    """The largest distance of a fresh gain from its parts; the pairs whose printed parts do not add up."""
    whole = frame.dropna(subset=list(PARTS))
    parts = whole[["gain_after_change", "shift_cost", "conversation_cost"]].sum(axis=1)
    largest = (whole["fresh_gain"] - parts).abs().max()
    rows = [Row("fresh gain less its parts, largest", "scenario", largest, math.nan, math.nan, len(whole))]
    wrong = 0
    pairs = list(itertools.combinations(SYSTEMS_MEASURED, 2))
    for a, b in pairs:
        pair = stats.adaptation_of(frame, a, b)
        ability, adaptation = [float(part.replace("−", "-")) for part in pair.printed_parts]
        wrong += round(ability + adaptation, 2) != round(pair.gain.estimate.value, 2)
    return [*rows, Row("printed parts that do not add up", "pairs", wrong, math.nan, math.nan, len(pairs))]


def masked(world: World, text: str) -> str:
    """A text in words and marks, films and values replaced by what they are."""
    spans = [(title.start, title.end, " xtitle ") for title in world.grounder.titles(text)]
    for match in world.grounder.audit(text):
        inside = any(start < match.end and match.start < end for start, end, _ in spans)
        if not match.rejected and not inside:
            spans.append((match.start, match.end, f" x{match.field} "))
    for start, end, word in sorted(spans, reverse=True):
        text = text[:start] + word + text[end:]
    return text.lower()


class Said(NamedTuple):
    """What a user said before a change: all words, and the turns that insist or ask for a title."""

    text: str
    reactions: int


def said(world: World, plan: Scenario, until: int) -> Said:
    """What a user says to the tracker before a turn."""
    user = User(world.catalog, plan)
    system = base.create(PARTNER, world, plan.streams.seed, plan.session)
    texts = []
    reactions = 0
    for turn in range(1, until):
        utterance = user.speak(turn)
        reactions += utterance.act in (INSIST, NOTHING_NAMED)
        texts.append(masked(world, utterance.text))
        reply = system.reply(turn, utterance.text, {})
        user.hear(reply.items, reply.text)
    return Said(" xturn ".join(texts), reactions)


class Window(NamedTuple):
    """A window: its scenario, whether it is the first, the change, what both users planned and said."""

    scenario: int
    first: bool
    kind: str
    planned: tuple[int, int]
    said: tuple[Said, Said] | None


def windows(world: World, config: SimulateConfig, n: int) -> Iterator[Window]:
    """The windows of stated scope of ``n`` scenarios; words of first ones alone."""
    for number in range(n):
        plan = simulate.scenario(world, number, config)
        for window in scenarios.windows(plan):
            step = plan.steps[window.turn - 1]
            if step.readings:
                continue
            both = (plan, scenarios.straight(world.catalog, plan, window.turn))
            shifting, straight = (scenarios.statements(user, window.turn) for user in both)
            first = plan.shifts[0].turn == window.turn
            words = None
            if first:
                words = said(world, both[0], window.turn), said(world, both[1], window.turn)
            yield Window(number, first, step.kind, (shifting, straight), words)


def matching(found: Sequence[Window], of: str) -> list[Row]:
    """How well the statements that both users plan before a change match, and how many there are."""
    planned = np.array([window.planned for window in found])
    gaps = np.abs(planned[:, 0] - planned[:, 1])
    values = {"planned as many": (gaps == 0).mean(), "planned as many, within one": (gaps <= 1).mean()}
    values["statements of shifting users"], values["statements of straight users"] = planned.mean(axis=0)
    return [Row(name, of, float(value), math.nan, math.nan, len(found)) for name, value in values.items()]


def reactions(found: Sequence[Window]) -> list[Row]:
    """How often both users insist or ask for a title before a first change."""
    counts = []
    for window in found:
        if window.said:
            counts.append([user.reactions for user in window.said])
    shifting, straight = np.mean(counts, axis=0).tolist()
    row = Row("reactions of shifting users", "first", shifting, math.nan, math.nan, len(counts))
    return [row, row._replace(measure="reactions of straight users", value=straight)]


def told_apart(found: Sequence[Window], reader: str) -> float:
    """The AUC of a reader of words and pairs of words (counts or presence), trained on other scenarios."""
    texts = []
    straight = []
    groups = []
    for window in found:
        for arm, one in enumerate(window.said or ()):
            texts.append(one.text)
            straight.append(arm)
            groups.append(window.scenario)
    binary = reader == "presence"
    words = CountVectorizer(token_pattern=r"\w+|[?!.,:;]", ngram_range=(1, 2), min_df=5, binary=binary)
    features = words.fit_transform(texts)
    folds = {"groups": groups, "cv": GroupKFold(5), "method": "decision_function"}
    model = LogisticRegression(C=0.1, max_iter=500)
    return stats.auc(cross_val_predict(model, features, straight, **folds), np.array(straight) == 1)


def main() -> None:
    """Print the table."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--seed", type=int, default=901)
    parser.add_argument("--scenarios", type=int, default=600)
    parser.add_argument("--windows", type=int, default=2400, help="scenarios whose words are read")
    asked = parser.parse_args()
    catalog = sources.load()
    world = World(catalog, Grounder(catalog))
    config = SimulateConfig(systems=SYSTEMS_MEASURED, n_turns=TURNS, seed=asked.seed)
    scored = sessions(world, config, asked.scenarios)
    rows = costs(scored) + sums(scored)
    every = list(windows(world, config.changed(n_turns=20), asked.windows))
    first = [window for window in every if window.first]
    rows += matching(first, "first") + matching([one for one in every if not one.first], "later")
    rows += reactions(first)
    for reader in READERS:
        rows.append(Row("AUC", reader, told_apart(first, reader), math.nan, math.nan, len(first)))
    print(pd.DataFrame(rows).to_csv(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
