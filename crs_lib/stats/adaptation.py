"""Which of two systems adapts better: one function gives the word and the sentence, on every page."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from crs_lib.stats.bounded import Means, mean_interval
from crs_lib.stats.design import COST, GAIN, Floats, Range, check_columns
from crs_lib.stats.estimate import ENOUGH, NOT_COMPARED, NOT_SETTLED, TOO_FEW, Estimate, p_in_words, signed

BETTER = "adapts better"
EQUALLY = "adapt equally"
LESS_TO_LOSE = "loses less, having less to lose"
SERVES = "serves better"
GAIN_AFTER, STRAIGHT, COST_OF_SHIFT, MISFIT = "gain_after_change", "straight_gain", "shift_cost", "misfit"
COLUMNS = (GAIN_AFTER, STRAIGHT, COST_OF_SHIFT, MISFIT)


class Part(NamedTuple):
    """A paired difference of two systems in one quantity, with its tests."""

    estimate: Estimate
    p: float = math.nan
    p_within: float = math.nan

    def above(self, alpha: float) -> bool:
        """Whether the difference is shown to be above 0."""
        return self.p <= alpha and self.estimate.value > 0

    def below(self, alpha: float) -> bool:
        """Whether the difference is shown to be below 0."""
        return self.p <= alpha and self.estimate.value < 0

    @property
    def turned(self) -> "Part":
        """That of ``b - a``."""
        return self._replace(estimate=self.estimate.turned)


class Adaptation(NamedTuple):
    """What two systems differ in after a change of mind, ``ahead - behind``, and the word for it.

    ``ahead`` has the higher gain after a change, whatever the word. ``gain`` is the difference of the gains
    after a change; it is ``ability`` (straight gain) less ``cost`` (shift cost), of which ``misfit`` is what
    replies with films explain. ``gains`` are the two gains after a change, in [-1, 1].
    """

    ahead: str
    behind: str
    gains: tuple[float, float]
    gain: Part
    ability: Part
    cost: Part
    misfit: Part
    able: bool = False
    n: int = 0
    word: str = NOT_COMPARED
    sentence: str = ""

    @property
    def adaptation(self) -> Estimate:
        """What the lower shift cost adds to the gain: the second part of the difference."""
        return self.cost.estimate.turned

    @property
    def printed_parts(self) -> tuple[str, str]:
        """Ability and adaptation as printed: rounded numbers that add up to the rounded difference."""
        ability = round(self.ability.estimate.value, 2)
        adaptation = round(self.gain.estimate.value, 2) - ability
        return signed(ability), signed(adaptation)

    @property
    def delay(self) -> float:
        """The part of the difference in cost that replies without films explain."""
        return self.cost.estimate.value - self.misfit.estimate.value

    def row(self) -> dict[str, object]:
        """The pair as a row of a table."""
        ability, adaptation = self.ability.estimate, self.adaptation
        return {
            "ahead": self.ahead,
            "behind": self.behind,
            "word": self.word,
            "gain_ahead": self.gains[0],
            "gain_behind": self.gains[1],
            "diff": self.gain.estimate.value,
            "low": self.gain.estimate.low,
            "high": self.gain.estimate.high,
            "p_adjusted": self.gain.p,
            "ability": ability.value,
            "ability_low": ability.low,
            "ability_high": ability.high,
            "adaptation": adaptation.value,
            "adaptation_low": adaptation.low,
            "adaptation_high": adaptation.high,
            "n": self.n,
            "sentence": self.sentence,
        }


def adaptation_of(
    frame: pd.DataFrame,
    a: str,
    b: str,
    *,
    p_gain: float = math.nan,
    margin: float = 0.05,
    floor: float = 0.1,
    alpha: float = 0.05,
    fewest: int = ENOUGH,
    system: str = "system",
    scenario: str = "scenario",
) -> Adaptation:
    """Which of two systems adapts better, in a word and a sentence.

    Parameters
    ----------
    frame : DataFrame
        A row a system and scenario (more are averaged), in units of gain: ``gain_after_change``,
        ``straight_gain``, ``shift_cost``, ``misfit``. A scenario counts where both have the first three.
    a, b : str
        The two systems.
    p_gain : float
        The p of their difference in gain after a change, corrected for all contrasts declared; without it,
        that of this pair alone.
    margin : float
        The smallest difference that matters.
    floor : float
        The gain below which a system is not able: two of which one is not are never called equal.
    alpha : float
        The level of every test.
    fewest : int
        Users below which there is no verdict.
    system, scenario : str
        The columns of what is compared, and of the user.

    Returns
    -------
    Adaptation
        ``word`` is one of

        - "adapts better": a higher gain after a change, a lower shift cost and a lower misfit, each shown at
          ``alpha``, and a straight gain not lower by ``margin``;
        - "loses less, having less to lose": a lower cost with a lower gain after a change (of ``behind``);
        - "serves better": a higher gain after a change without both of the costs shown lower;
        - "adapt equally": gain after a change and shift cost shown within ±``margin``, and both able;
        - "not settled", "too few users for a verdict", "not compared".

    Raises
    ------
    InputError
        For a column that the frame lacks.
    """
    both = _paired_values(frame, a, b, system, scenario)
    n = len(both.gain)
    if n == 0:
        none = Part(Estimate.unknown())
        sentence = f"{a} and {b} are not compared: no user changed their mind with both."
        return Adaptation(a, b, (math.nan, math.nan), none, none, none, none, sentence=sentence)
    pair = _better_first(both, a, b, p_gain, margin)
    able = min(*pair.gains, both.straight.mean(axis=0).min()) >= floor
    pair = pair._replace(able=bool(able), n=n)
    pair = pair._replace(word=_word(pair, margin, alpha, fewest))
    return pair._replace(sentence=_sentence(pair, margin, alpha, fewest))


class _PairedValues(NamedTuple):
    """The quantities of two systems (columns) in the users that both served (rows)."""

    gain: Floats
    straight: Floats
    cost: Floats
    misfit: Floats


def _paired_values(frame: pd.DataFrame, a: str, b: str, system: str, scenario: str) -> _PairedValues:
    check_columns(frame, system, scenario, *COLUMNS)
    own = frame[frame[system].isin([a, b])]
    tables = []
    for name in COLUMNS:
        table = own.pivot_table(index=scenario, columns=system, values=name, dropna=False)
        tables.append(table.reindex(columns=[a, b]).astype(float))
    defined = pd.concat(tables[:3], axis=1).notna()  # a misfit may be missing
    complete = defined.all(axis=1)
    return _PairedValues(*[table[complete].to_numpy() for table in tables])


def _better_first(both: _PairedValues, a: str, b: str, p_gain: float, margin: float) -> Adaptation:
    """The pair with the higher gain after a change first."""
    gain = _part(both.gain, GAIN.of_differences, margin)
    if not math.isnan(p_gain):
        gain = gain._replace(p=p_gain)
    first, second = both.gain.mean(axis=0).tolist()
    ability = _part(both.straight, GAIN.of_differences, margin)
    cost = _part(both.cost, COST.of_differences, margin)
    misfit = _part(both.misfit, COST.of_differences, margin)
    if gain.estimate.value >= 0:
        return Adaptation(a, b, (first, second), gain, ability, cost, misfit)
    return Adaptation(b, a, (second, first), gain.turned, ability.turned, cost.turned, misfit.turned)


def _part(values: Floats, limits: Range, margin: float) -> Part:
    gaps = values[:, 0] - values[:, 1]
    gaps = gaps[~np.isnan(gaps)]
    if len(gaps) < 2:
        return Part(Estimate.unknown())
    means = Means.of(gaps, limits)
    p = float(means.p_differs()[0])
    p_within = float(means.p_within(margin)[0])
    return Part(mean_interval(gaps, limits=limits), p, p_within)


def _word(pair: Adaptation, margin: float, alpha: float, fewest: int) -> str:
    if pair.n < fewest:
        return TOO_FEW
    better = pair.gain.above(alpha)
    cheaper = pair.cost.below(alpha) and pair.misfit.below(alpha)
    if better and cheaper and pair.ability.estimate.value > -margin:
        return BETTER
    if pair.able and max(pair.gain.p_within, pair.cost.p_within) <= alpha:
        return EQUALLY
    if pair.cost.above(alpha):
        return LESS_TO_LOSE
    return SERVES if better else NOT_SETTLED


def _sentence(pair: Adaptation, margin: float, alpha: float, fewest: int) -> str:
    a, b = pair.ahead, pair.behind
    ours, other = (signed(gain) for gain in pair.gains)
    if pair.word == TOO_FEW:
        return f"{a} and {b}: {TOO_FEW}: {pair.n} (it takes {fewest})."
    gains = f"after a change its users get {ours}, {b}'s {other}"
    both = f"after a change their users get {ours} and {other}"
    sentence = f"Whether {a} or {b} adapts better is {NOT_SETTLED}: {both}"
    if pair.word == LESS_TO_LOSE:
        sentence = f"{b} {LESS_TO_LOSE}: after a change its users get {other}, {a}'s {ours}"
    elif pair.word == EQUALLY:
        sentence = f"{a} and {b} {EQUALLY} within ±{margin:g}: {both}"
    elif pair.word == BETTER:
        sentence = f"{a} {BETTER} than {b}: {gains}"
    elif pair.word == SERVES:
        sentence = f"{a} serves its users better than {b}, and is not shown to adapt better: {gains}"
    ability, adaptation = pair.printed_parts
    size = f"{pair.gain.estimate}, {p_in_words(pair.gain.p)}; ability {ability}, adaptation {adaptation}"
    sentence = f"{sentence} (difference {size})."
    return sentence + _delay_clause(pair, alpha)


def _delay_clause(pair: Adaptation, alpha: float) -> str:
    """What is added where replies without films carry more than half of a difference in cost."""
    cost = pair.cost.estimate.value
    share = pair.delay / cost if cost else 0.0
    if not pair.cost.p <= alpha or not share > 0.5:
        return ""
    slower = pair.behind if cost < 0 else pair.ahead
    replies = f"{slower} replies without films (a question, an empty reply)"
    return f" Most of the difference in cost is delay: {replies}."
