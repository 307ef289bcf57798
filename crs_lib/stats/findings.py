"""Findings: a sentence with its number and interval, an honest "none", and how a notebook ends."""

import itertools
import math
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.core.text import listing
from crs_lib.stats.design import Design
from crs_lib.stats.estimate import EQUIVALENT, HIGHER, LOWER, Estimate, cost_interval, verdict
from crs_lib.stats.groups import independent_pairs
from crs_lib.stats.means import difference_of, mean_of, means_of, share_of

listed = listing  # as notebooks know it

Columns = str | Sequence[str]
_MOST = 3  # findings at the end of a notebook
_NONE = "No finding: "


class Finding(str):
    """A sentence about data, shown as text in a notebook; ``borne`` is False where it says why none."""

    @property
    def borne(self) -> bool:
        """Whether the data bear a sentence."""
        return not self.startswith(_NONE)

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return f"**Finding.** {_escaped(self)}" if self.borne else f"*{_escaped(self)}*"


class Sentences(tuple[str, ...]):
    """Sentences that a notebook shows as a list, one a line."""

    def __repr__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {_escaped(sentence)}" for sentence in self)


def _escaped(sentence: str) -> str:
    """The sentence for Markdown: a name from outside in it makes no element, link, image or line."""
    elements = re.sub(r"<(?=[A-Za-z!/?])", "&lt;", sentence)
    return " ".join(elements.replace("](", "]\\(").replace("][", "]\\[").splitlines())


_SHOWS = {HIGHER: "higher than", LOWER: "lower than", EQUIVALENT: "equivalent to"}


def _doubt(one: Estimate) -> str:
    return "" if one.excludes_zero else ", an interval that includes 0"


def learnt(*findings: str) -> Sentences:
    """What a notebook learnt: at most three findings (else InputError); those without are left out."""
    if len(findings) > _MOST:
        raise InputError(f"{len(findings)} findings; a notebook ends with at most {_MOST}: choose")
    kept = [one for one in findings if getattr(one, "borne", True)]
    return Sentences(kept or ["Nothing: the data of this run bear no finding."])


def not_shown(*limits: str) -> Sentences:
    """What a notebook does not show: one sentence a limit, empty ones left out."""
    return Sentences(limit for limit in limits if limit)


def finding_mean(
    frame: pd.DataFrame, value: Columns, template: str, *, by: str = "scenario", none: str = "", **words: Any
) -> Finding:
    """The mean of a column in a sentence: ``{mean}`` with its interval, ``{n}`` units of ``by``, ``{rows}``.
    Several columns print by their own names; ``{doubt}`` is empty or says that the interval includes 0.
    Further words by keyword (:class:`_Sentence`). "No finding" without value or interval, or as ``none``.
    """
    return _of_columns("mean", frame, value, template, by, none, words)


def finding_share(
    frame: pd.DataFrame, value: Columns, template: str, *, by: str = "scenario", none: str = "", **words: Any
) -> Finding:
    """The share of rows where a column is true, ``{share}`` in percent; else as :func:`finding_mean`."""
    return _of_columns("share", frame, value, template, by, none, words)


def finding_gap(
    frame: pd.DataFrame, value: str, a: str, b: str, template: str, *, by: str = "scenario",
    system: str = "system", smallest: float = 0.0, none: str = "", **words: Any,
) -> Finding:  # fmt: skip
    """``a`` against ``b``, two labels of the column ``system``, over the units of ``by`` that both have.
    ``{verdict}`` is "higher than", "lower than", "equivalent to" (interval within ±smallest) or "not shown to
    differ from"; ``{gap}`` the difference, positive under "lower than"; also ``{a}``, ``{b}``, ``{n}``,
    ``{doubt}``, ``{a_mean}``, ``{b_mean}``. "No finding" for one system, or fewer than two shared units.
    """
    if lack := _lacks(frame, value, system, by):
        return finding_none(none or lack)
    means = means_of(frame, value, system=system, scenario=by)
    if absent := [name for name in (a, b) if name not in means]:
        return finding_none(none or f"{listing(absent)} has no {value}")
    if a == b:
        return finding_none(none or f"{a} has nothing to be compared with")
    gap = difference_of(frame, a, b, value, system=system, scenario=by)
    if math.isnan(gap.low):
        shared = _counted(gap.n, by.removesuffix("_id"))
        return finding_none(none or f"{a} and {b} share {shared}, too few for an interval")
    known = {"a": a, "b": b, "n": gap.n, "doubt": _doubt(gap)}
    known["verdict"] = _SHOWS.get(verdict(gap, smallest), "not shown to differ from")
    size = gap.turned if gap.excludes_zero and gap.value < 0 else gap
    known |= {"gap": size, "a_mean": means[a], "b_mean": means[b]}
    return _sentence(template, known | words)


def finding_rank(
    frame: pd.DataFrame, value: str, template: str, *, by: str = "scenario", system: str = "system",
    lower: bool = False, none: str = "", **words: Any,
) -> Finding:  # fmt: skip
    """The systems in order of their mean (``lower``: the smallest first), or of the share of a true column:
    ``{first}``, ``{second}``, ``{last}`` with ``{top}``, ``{next}``, ``{bottom}``; ``{behind}`` says how far
    the second is behind, by an interval for all pairs at once, as the data chose the two; ``{systems}`` and
    ``{n}`` count. "No finding" for fewer than two systems with a value, or where all means are equal.
    """
    if lack := _lacks(frame, value, system, by):
        return finding_none(none or lack)
    make = share_of if pd.api.types.is_bool_dtype(frame[value]) else mean_of
    parts = frame.groupby(frame[system].astype(str), sort=False)
    means = {str(name): make(part, value, scenario=by) for name, part in parts}
    sign = 1 if lower else -1
    order = sorted([name for name in means if means[name].n], key=lambda name: sign * means[name].value)
    if len(order) < 2:
        return finding_none(none or f"an order needs two systems with {value}, and {len(order)} has one")
    first, second, last = order[0], order[1], order[-1]
    if means[first].value == means[last].value:
        level = f"{means[first].value:.2f}"
        return finding_none(none or f"all {len(order)} systems have the same {value}, {level}")
    wide = frame.assign(**{system: frame[system].astype(str), value: frame[value].astype(float)})
    wide = wide.pivot_table(index=by, columns=system, values=value)
    known = {
        "first": first, "second": second, "last": last, "top": means[first], "next": means[second],
        "bottom": means[last], "systems": len(order), "n": means[first].n,
        "behind": _behind(wide[[second, first] if lower else [first, second]], math.comb(len(order), 2)),
    }  # fmt: skip
    return _sentence(template, known | words)


def _behind(two: pd.DataFrame, pairs: int) -> str:
    """How far the second column is below the first, by scenario or as independent samples."""
    a, b = two.columns
    found = Estimate(*cost_interval(two[a] - two[b], 1 - 0.05 / pairs, rare=False)[:4])
    if not found.n and two.notna().sum().min() > 1:
        long = two.melt(ignore_index=False, var_name="system").rename_axis("scenario").reset_index()
        design = Design(pairs=[(a, b)], confidence=1 - 0.05 / pairs)
        found = Estimate.of(independent_pairs(long, design).iloc[0], "diff")
    all_pairs = f" (interval for all {pairs} pairs at once)" if pairs > 1 else ""
    if math.isnan(found.low):
        return f"is {found.value:z.2f} behind, the same in every scenario".replace("-", "−")
    if found.low > 0:
        return f"is {found} behind{all_pairs}"
    return f"is not shown to be behind: {found}{all_pairs}"


def finding_count(
    template: str, row: pd.DataFrame | None = None, *, estimate: str = "", none: str = "", **numbers: Any
) -> Finding:
    """Counts, names and estimates that are already known, in a sentence. The columns of the first row of
    ``row`` are words, too; ``estimate`` names the one that ``low`` and ``high`` belong to. "No finding" for a
    table without rows, or where a number is missing or all are 0.
    """
    if row is not None and row.empty:
        return finding_none(none or "the table has no rows")
    first = {} if row is None else {str(name): value for name, value in row.iloc[0].items()}
    if estimate:
        first[estimate] = Estimate.of(first, estimate)
    words = first | numbers
    used = [name for name in _words_of(template) if name in words]
    if missing := [name for name in used if pd.api.types.is_scalar(words[name]) and pd.isna(words[name])]:
        return finding_none(none or f"{listing(missing)} is not known")
    counts = [words[name] for name in used if isinstance(words[name], (int, float, np.number))]
    if counts and not any(counts) and len(counts) == len(used):
        return finding_none(none or "there is nothing to count")
    return _sentence(template, words)


def finding_none(reason: str) -> Finding:
    """``No finding: <reason>.`` for a section whose data bear none."""
    return Finding(f"{_NONE}{reason.rstrip('.')}.")


def finding_limit(
    frame: pd.DataFrame, value: str, template: str, *, by: str = "scenario", system: str = ""
) -> str:
    """How finely a comparison tells, for :func:`not_shown`: ``{half}`` of the widest interval of neighbours
    in the order of ``system`` (without it of the mean), ``{n}`` units; empty without an interval.
    """
    if _lacks(frame, value, by, *filter(None, [system])):
        return ""
    found = [mean_of(frame, value, scenario=by)]
    if system:
        means = means_of(frame, value, system=system, scenario=by)
        pairs = itertools.pairwise(sorted(means, key=lambda name: -means[name].value))
        found = [difference_of(frame, a, b, value, system=system, scenario=by) for a, b in pairs]
    known = [one for one in found if not math.isnan(one.low)]
    half = max((one.high - one.low for one in known), default=0.0) / 2
    return _sentence(template, {"n": min(one.n for one in known), "half": f"{half:.2f}"}) if known else ""


def _of_columns(
    word: str, frame: pd.DataFrame, value: Columns, template: str, by: str, none: str, words: dict[str, Any]
) -> Finding:
    """One sentence about the means or shares of columns; the first is also the word ``word``."""
    names, make = [value] if isinstance(value, str) else list(value), share_of if word == "share" else mean_of
    if lack := _lacks(frame, *names, by):
        return finding_none(none or lack)
    found = {name: make(frame, name, scenario=by) for name in names}
    first = found[names[0]]
    if any(math.isnan(one.low) for one in found.values()):
        return finding_none(none or f"one {by.removesuffix('_id')} leaves no interval")
    shown: dict[str, Any] = {name: f"{one:%}" if word == "share" else one for name, one in found.items()}
    rows = int(frame[names[0]].notna().sum())
    known = {word: shown[names[0]], "n": first.n, "rows": rows, "doubt": _doubt(first)}
    return _sentence(template, shown | known | words)


def _lacks(frame: pd.DataFrame, *columns: str) -> str:
    """The reason why a table bears no sentence about its columns; empty where it bears one."""
    if frame.empty:
        return "the table has no rows"
    if absent := [name for name in columns if name not in frame]:
        return f"the table has no {listing(absent)}"
    unknown = [name for name in columns if not frame[name].notna().any()]
    return f"no row has a value of {listing(unknown)}" if unknown else ""


class _Sentence(string.Formatter):
    """``str.format`` for findings: whole numbers get thousands separators, floats two decimals;
    ``{n:query/queries}`` prints a number with its noun, a list is listed, ``{mean:%}`` is in percent.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """One word as printed."""
        if isinstance(value, list | tuple) and not isinstance(value, Estimate):
            return listing([str(one) for one in value])
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if whole and format_spec[:1].isalpha() and len(format_spec) > 1:
            return _counted(int(value), *format_spec.split("/"))
        if not format_spec and (whole or isinstance(value, float)):
            format_spec = "," if whole else ".2f"
        return format(value, format_spec)


def _counted(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 scenario``, ``1,200 scenarios``, ``2 queries``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


def _sentence(template: str, words: Mapping[str, Any]) -> Finding:
    """The template with its words; InputError for a word that nobody gives, and unless a sentence ends."""
    if not template.endswith("."):
        raise InputError(f"a finding is a sentence and ends with a full stop: {template!r}")
    if unknown := [name for name in _words_of(template) if name not in words]:
        asks = f"the sentence {template!r} asks for {listing(unknown)}"
        raise InputError(f"{asks}; give it by keyword, or use one of {listing([*words])}")
    return Finding(_Sentence().vformat(template, (), words))


def _words_of(template: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
