"""What straight and shifting users say before a change of mind, and what the difference costs systems.

    PYTHONPATH=. python -m benchmarks.straight_users [--seed 901] [--scenarios 600] [--windows 2400]

Prints the shift cost of four systems, the share of windows in which both users plan as many statements
(and as many within one), the statements and reactions a window, and the AUC of readers that tell straight
from shifting users by all words before the first change, films and values masked, names of fields visible.
The last result stands in docs/records/straight_users.csv.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
from crs_lib.systems import base, policies
from crs_lib.systems.base import SYSTEMS, Draw, Items, Wishes, World
from crs_lib.validity import arms

TURNS = 8  # so few hold the first change and its window
PER_STATEMENT = 0.12  # by how much Load's chance of a random list rises with each turn that holds a value
PARTNER = "tracker"  # whose replies the users hear whose words are read
READERS = {"counts": {}, "presence": {"binary": True}}  # of words and pairs of words


@SYSTEMS.register("load")
class Load(policies.Tracker):
    """The tracker, which gets worse with every user turn that holds a value, whatever it says."""

    heard = 0

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        """What the tracker believes; counts the turns that hold a value."""
        self.heard += any(not match.rejected for match in self.world.grounder.audit(text))
        return super().believe(turn, text, user_meta)

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The tracker's films, or films by chance."""
        if draw.random() < PER_STATEMENT * self.heard:
            return self.by_chance(draw, self.n)
        return super().choose(constraints, avoid, draw)


def costs(world: World, config: SimulateConfig, n: int) -> pd.DataFrame:
    """The shift cost of each system over the first ``n`` scenarios, a row a system."""
    rows = []
    for talk, scores in arms.scored(world, config, n):
        rows.append((talk.model_name, scores.session["straight_gain"], scores.session["shift_cost"]))
    frame = pd.DataFrame(rows, columns=["system", "straight gain", "shift cost"])
    table = []
    for system, values in frame.groupby("system", sort=False):
        estimate = stats.mean_interval(values["shift cost"])
        row = {"system": system, "straight gain": values["straight gain"].mean()}
        row |= {"shift cost": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
        table.append(row)
    return pd.DataFrame(table)


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


def matching(found: list[Window], name: str) -> dict[str, Any]:
    """How well the statements that both users plan match."""
    planned = np.array([window.planned for window in found])
    gaps = np.abs(planned[:, 0] - planned[:, 1])
    row = {"windows": name, "n": len(found), "equal": (gaps == 0).mean(), "within one": (gaps <= 1).mean()}
    return row | {"shifting": planned[:, 0].mean(), "straight": planned[:, 1].mean()}


def told_apart(found: list[Window], **options: Any) -> float:
    """The AUC of a reader of words and pairs of words, trained on other scenarios."""
    texts = []
    straight = []
    groups = []
    for window in found:
        if window.said is None:
            continue
        for arm, one in enumerate(window.said):
            texts.append(one.text)
            straight.append(arm)
            groups.append(window.scenario)
    words = CountVectorizer(token_pattern=r"\w+|[?!.,:;]", ngram_range=(1, 2), min_df=5, **options)
    reader = LogisticRegression(C=0.1, max_iter=500)
    scores = cross_val_predict(
        reader,
        words.fit_transform(texts),
        straight,
        groups=groups,
        cv=GroupKFold(5),
        method="decision_function",
    )
    return stats.auc(scores, np.array(straight) == 1)


def main() -> None:
    """Print the tables."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--seed", type=int, default=901)
    parser.add_argument("--scenarios", type=int, default=600)
    parser.add_argument("--windows", type=int, default=2400)
    asked = parser.parse_args()
    catalog = sources.load()
    world = World(catalog, Grounder(catalog))
    systems = ("load", "sticky", "tracker", "oracle")
    config = SimulateConfig(systems=systems, n_turns=TURNS, seed=asked.seed)
    print(costs(world, config, asked.scenarios).round(3).to_string(index=False))
    whole = list(windows(world, config.changed(n_turns=20), asked.windows))
    first = [window for window in whole if window.first]
    later = [window for window in whole if not window.first]
    rows = [matching(first, "first"), matching(later, "later, stated scope")]
    print(pd.DataFrame(rows).round(3).to_string(index=False))
    print("first changes:", dict(Counter(window.kind for window in first)))
    reactions = np.array([[one.reactions for one in window.said] for window in first if window.said])
    print("reactions a window, shifting and straight:", reactions.mean(axis=0).round(3))
    for name, options in READERS.items():
        print(f"AUC of a reader of {name}: {told_apart(first, **options):.3f}, n = {len(first)} an arm")


if __name__ == "__main__":
    main()
