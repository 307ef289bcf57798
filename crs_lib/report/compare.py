"""One's own systems beside baselines: simulated, scored and tested, with a verdict and one page."""

import hashlib
import html
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, prompts, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing
from crs_lib.figures import NoDataError
from crs_lib.notebooks.look import heading
from crs_lib.report import findings, statistics
from crs_lib.report.page import Mean, bullets, document, figure, quiet, table
from crs_lib.simulate.scenarios import FRESH_TURNS
from crs_lib.stats.estimate import p_in_words
from crs_lib.stats.plan import Plan
from crs_lib.stats.words import interval_in_words
from crs_lib.systems.base import SYSTEMS, named
from crs_lib.systems.channels import FUNCTIONS
from crs_lib.systems.programs import identity

STEP = 24  # scenarios that a comparison grows by: each of the twelve voices twice
TURNS = 10  # of a session: the first shift comes at turn 4 to 6, and its window ends three turns later
BASELINES = ("tracker", "bm25")
SHOWN = tuple("straight_gain shift_cost share_lost conversation_cost misfit delay stale wrong".split())
_PACKAGE = Path(__file__).resolve().parents[1]
_WORST = 3  # conversations on the page
_NARROW = 7  # columns of quantities that a notebook has room for
_ONE_VOICE = "All users speak with one voice: no interval holds what other words would change."

_System = str | Callable[[list[dict[str, str]]], object]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A finished comparison: frames as properties, a verdict in sentences, a page at ``page``. ``ours`` and
    ``against`` are names of systems of the run ``run``. In a notebook it shows its verdict and its table.
    """

    run: str
    ours: tuple[str, ...]
    against: tuple[str, ...]
    plan: Plan

    @property
    def page(self) -> Path:
        """Where the page lies."""
        return paths.run_folder(simulate.STUDY, self.run) / "compare.html"

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """The first change of mind of every session with its gains and costs, a row a system and scenario."""
        found = evaluate.read(self.run, "shifts")
        return found[found["primary"].astype(bool)].astype({"model": str})

    @cached_property
    def quantities(self) -> pd.DataFrame:
        """A row a system: the quantities of ``SHOWN`` as means with 95 % intervals, in units of gain."""
        means = evaluate.read(self.run, "model_metrics").astype({"model": str})
        cells = {(row.model, row.metric): Mean(row.mean, row.low, row.high) for row in means.itertuples()}
        rows = [[name, *(cells.get((name, one)) for one in SHOWN)] for name in (*self.ours, *self.against)]
        return pd.DataFrame(rows, columns=["system", *SHOWN])

    @cached_property
    def tests(self) -> stats.Battery:
        """The declared contrasts, every system of one's own with every baseline, and what belongs to them."""
        scores = statistics.stats_frame(evaluate.read(self.run, "results"))
        return stats.ladder(scores, self.plan)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """A row a contrast: paired difference in shift cost, p after Holm, and what this n can decide."""
        pairs, power = statistics.confirmatory(self.tests.pairwise), self.tests.power
        if "detectable_effect" not in power:
            return pairs
        columns = ["a", "b", "detectable_effect", "sessions_needed"]
        return pairs.merge(power[columns], on=["a", "b"], how="left").astype({"sessions_needed": "Int64"})

    @cached_property
    def by_type(self) -> pd.DataFrame:
        """Mean shift cost by type of shift, a row a system; in brackets the shifts of a type."""
        return statistics.costs_by_type(evaluate.read(self.run, "shifts"))

    @cached_property
    def by_voice(self) -> pd.DataFrame | None:
        """The same by voice of the user; None where all users speak with one."""
        return statistics.by_voice(evaluate.read(self.run, "results"))

    @cached_property
    def verdict(self) -> list[str]:
        """A sentence for each system of one's own, for each contrast, and for what this n can decide."""
        told = [self._loses(name) for name in self.ours]
        told += [self._contrast(row) for row in self.tests.declared.to_dict("records")]
        alone = len(set(self.shifts.get("voice", ()))) == 1
        return [*told, self._decides(), *[_ONE_VOICE] * alone]

    def _decides(self) -> str:
        """The smallest differences that this number of scenarios can decide, and what more would take."""
        known = self.effects[self.effects["verdict"] != "not compared"]
        if "detectable_effect" in known:
            known = known.dropna(subset=["detectable_effect"])
        if "detectable_effect" not in known or known.empty:
            return "What this number of users can decide could not be estimated."
        parts = [f"{one.detectable_effect:.2f} between {one.a} and {one.b}" for one in known.itertuples()]
        told = f"With {int(known['n'].min())} users this run finds differences of {listing(parts)}"
        told += f" with {self.plan.power:.0%} power; {self.plan.smallest_effect:g} takes"
        needed = known["sessions_needed"].max()
        return f"{told} {'more than is practical' if pd.isna(needed) else f'up to {needed:.0f} users'}."

    def _loses(self, name: str) -> str:
        mine = self.shifts[self.shifts["model"] == name].dropna(subset=["shift_cost", "straight_gain"])
        if mine.empty:
            return f"{name} has no conversation with a change of mind that could be scored."
        if name in self.tests.unable:
            told = f"{name} gains {mine['straight_gain'].mean():z.2f} with users who never change their minds"
            told = told.replace("-", "−")
            return f"{told}: that is too little to lose anything, and its shift cost says nothing."
        gain, cost = findings.gain_and_cost(mine)
        told = f"At a change of mind {name}, whose gain with straight users is {gain}"
        return f"{told}, {findings.pays(cost)}."

    def _contrast(self, row: Mapping[Any, Any]) -> str:
        """A declared contrast in words, by its verdict; nothing is equal without equivalence."""
        a, b, margin = row["a"], row["b"], self.plan.smallest_effect
        if row["verdict"] == "not compared":
            return f"{a} and {b} are not compared: {row['note']}."
        size = f"their shift costs differ by {interval_in_words(row['diff'], row['low'], row['high'])}"
        test = f"Wilcoxon {p_in_words(row['p_wilcoxon_adjusted'])} after Holm"
        alike = row["p_equivalent_adjusted"] <= self.plan.alpha
        if row["verdict"] in ("higher", "lower"):
            better, worse = (a, b) if row["verdict"] == "lower" else (b, a)
            means = self.shifts.groupby("model")["straight_gain"].mean()
            gains = [float(means[better]), float(means[worse])]
            beside = f"gains with straight users: {gains[0]:.2f} and {gains[1]:.2f}"
            told = f"{better} adapts better than {worse}"
            if gains[0] < gains[1] - margin:
                told = f"{better} loses less than {worse}, and has less to lose"
            told += f": {size} ({test}; {beside})"
            return f"{told}; that is less than the {margin:g} that matters." if alike else f"{told}."
        if alike:
            return f"{a} and {b} adapt equally within ±{margin:g} of gain: {size} ({test})."
        why = f"; {row['note']}" if row["note"] else ""
        return f"Whether {a} and {b} adapt differently is not settled: {size} ({test}{why})."

    def worst(self) -> pd.DataFrame:
        """The turns of the sessions in which the first of one's own systems loses most, beside a baseline.
        Columns: session, turn, user, the replies of the system and of the baseline that loses least.
        """
        mine = self.shifts[self.shifts["model"] == self.ours[0]].dropna(subset=["shift_cost"])
        worst = mine.sort_values(["shift_cost", "session_id"], ascending=[False, True]).head(_WORST)
        means = self.shifts.groupby("model")["shift_cost"].mean()
        best = min(self.against, key=lambda name: means.get(name, float("inf")))
        asked = {(name, session) for name in (self.ours[0], best) for session in worst["session_id"]}
        talks = {
            (talk.model_name, talk.session_id): talk.pairs() for talk in simulate.iter_dialogues(self.run)
            if (talk.model_name, talk.session_id) in asked
        }  # fmt: skip
        rows = []
        for one in worst.itertuples():
            sides = [talks[name, one.session_id] for name in (self.ours[0], best)]
            for place in range(one.turn - 2, min(one.turn - 1 + FRESH_TURNS, len(sides[0]))):
                turn = f"{place + 1}{' (shift)' if place == one.turn - 1 else ''}"
                said = [sides[0][place].user.text, *(side[place].system.text for side in sides)]
                rows.append([one.session_id, turn, *said])
        return pd.DataFrame(rows, columns=["session", "turn", "user", self.ours[0], best])

    def __repr__(self) -> str:
        return "\n".join(self.verdict)

    def _repr_html_(self) -> str:
        return f"{bullets(self.verdict)}{table(self.quantities.iloc[:, :_NARROW].rename(columns=heading))}"

    def write(self) -> Path:
        """Write the page; the same run gives the same bytes."""
        words = prompts.lists("movies/pages")["compare"]
        title = f"{listing(self.ours)} against {listing(self.against)}"
        lead = html.escape(words["lead"].format(n=self.shifts["session_id"].nunique()))
        page = document(title, words["asked"], lead, self._sections())
        with runs.only_one(self.page.parent):
            return tables.write_whole(self.page, page)

    def _sections(self) -> Iterator[tuple[str, str, str]]:
        """Title, anchor and HTML of the parts of the page."""
        words, facts = prompts.lists("movies/pages")["compare"], {"plan": self.plan, "ours": self.ours}
        told = {n: quiet(words[n].format(**facts)) for n in ("quantities", "effects", "types", "worst")}
        yield "Verdict", "verdict", bullets(self.verdict)
        try:
            plane = figure("ability_adaptation", self.shifts)
        except NoDataError:
            plane = ""
        shown, tests = (table(one.rename(columns=heading)) for one in (self.quantities, self.effects))
        yield "Gain and cost", "quantities", told["quantities"] + plane + shown
        yield "Paired differences in shift cost", "effects", told["effects"] + tests
        yield "By type of shift", "types", told["types"] + table(self.by_type)
        voices = self.by_voice
        yield "By voice of the user", "voices", told["types"] + table(voices) if voices is not None else ""
        yield "Conversations to read", "worst", told["worst"] + table(self.worst())
        yield "What to do next", "next", bullets(words["next"]).replace("RUN", html.escape(self.run))


def compare(
    systems: Mapping[str, _System] | Sequence[str], *, against: Sequence[str] = BASELINES, n: int = 72,
    width: float = 0.1, run: str = "", catalog: str = sources.SAMPLE, fields: str = "", voices: str = "all",
    plan: str = "movies", seed: int = 7, turns: int = TURNS, workers: int = 1,
    llm: Mapping[str, Any] | None = None, progress: bool = True,
) -> Comparison:  # fmt: skip
    """Compare systems with baselines; returns the verdict and frames, and writes ``compare.html``.

    ``systems`` maps names to specs or to functions ``messages -> text, list of films or answer``, or lists
    ``NAME=SPEC``. The number of scenarios grows in steps of ``STEP`` until the 95 % intervals of all
    contrasts are at most ``width`` wide (in units of gain) or ``n`` is reached, never on what they show. The
    same call continues its run, also with a larger ``n``; a changed system or library gets a run of
    its own unless ``run`` names one. Raises InputError for what is no system, RunError for one that fails.
    """
    given = _specs(systems)
    if n < 2 or not given:
        raise InputError(f"n is {n} and systems is {given}; give an n of at least 2 and at least one system")
    asked: dict[str, Any] = {
        "systems": [*given, *against], "catalog": sources.with_fields(catalog, fields), "voices": voices,
        "seed": seed, "n_turns": turns, "llm": dict(llm or {}),
    }  # fmt: skip
    name = run or f"compare-{_digest(asked)}"
    ours, baselines = (tuple(named(one)[0] for one in part) for part in (given, against))
    pairs = tuple(itertools.product(ours, baselines))
    declared = statistics.plan_for(plan, ours + baselines).changed(contrasts=pairs)
    for size in range(min(STEP, n), n + STEP, STEP):
        config = simulate.SimulateConfig(run=name, n_sessions=min(size, n), workers=workers, **asked)
        simulate.simulate(config, progress=progress)
        evaluate.evaluate(evaluate.EvaluateConfig(run=name, workers=workers))
        found = Comparison(name, ours, baselines, declared)
        rows = found.tests.declared
        if (rows["high"] - rows["low"]).max(skipna=False) <= width:
            break
    found.write()
    return found


def _specs(systems: Mapping[str, _System] | Sequence[str]) -> list[str]:
    """The systems as ``NAME=SPEC``; functions are kept under their names."""
    if not isinstance(systems, Mapping):
        if wrong := [one for one in systems if "=" not in one and one not in SYSTEMS]:
            example = "Ours=python:my_system:MySystem; crs systems lists what there is"
            raise InputError(f"{wrong[0]!r} is no system; give NAME=SPEC, e.g. {example}")
        return list(systems)
    FUNCTIONS.update({name: one for name, one in systems.items() if callable(one)})
    return [f"{name}=function:{name}" if callable(one) else f"{name}={one}" for name, one in systems.items()]


def _digest(asked: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits of the settings, of the programs and of this package as they are now."""
    specs = [spec for _, spec in map(named, asked["systems"]) if spec in SYSTEMS]
    programs = [identity(spec) for spec in specs if SYSTEMS.get(spec).facts.get("program")]
    kinds = (".py", ".txt", ".toml", ".wording")
    library = tables.of_files(sorted(path for path in _PACKAGE.rglob("*") if path.suffix in kinds))
    return hashlib.sha256(json.dumps([asked, programs, library], sort_keys=True).encode()).hexdigest()[:8]
