"""One's own systems beside baselines: simulated, scored and tested, with a verdict and one page."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import escape

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, prompts, tables
from crs_lib.core.dialogue import Pair
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing
from crs_lib.figures import NoDataError
from crs_lib.metrics.base import PRIMARY
from crs_lib.notebooks.look import heading
from crs_lib.report import findings, statistics
from crs_lib.report.page import Mean, Section, bullets, document, figure, quiet, table
from crs_lib.simulate.scenarios import FRESH_TURNS
from crs_lib.stats.design import GAIN
from crs_lib.stats.estimate import ENOUGH, NOT_COMPARED
from crs_lib.stats.plan import Plan
from crs_lib.systems.base import SYSTEMS, named
from crs_lib.systems.channels import FUNCTIONS
from crs_lib.systems.programs import identity

STEP = 24  # scenarios that a comparison grows by: each of the twelve voices twice
TURNS = 10  # of a session: the first shift comes at turn 4 to 6, and its window ends three turns later
BASELINES = ("tracker", "bm25")
SHOWN = tuple(
    "gain_after_change straight_gain shift_cost share_lost conversation_cost misfit delay stale wrong".split()
)
_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = (".py", ".txt", ".toml", ".wording")  # files of this package that a score may depend on
_WORST = 3  # conversations on the page
_NARROW = 8  # columns of quantities that a notebook has room for
_ONE_VOICE = "All users speak with one voice: no interval holds what other words would change."

System = str | Callable[[list[dict[str, str]]], object]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A finished comparison: frames as properties, a verdict in sentences, a page at ``page``.

    ``ours`` and ``against`` are names of systems of the run ``run``. In a notebook it shows its verdict and
    its table.
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
        shifts = evaluate.read(self.run, "shifts")
        return shifts[shifts["primary"].astype(bool)].astype({"model": str})

    @cached_property
    def quantities(self) -> pd.DataFrame:
        """A row a system: the quantities of ``SHOWN`` as means with 95 % intervals, in units of gain."""
        cells: dict[tuple[str, str], Mean] = {}
        for row in evaluate.read(self.run, "model_metrics").itertuples():
            cells[str(row.model), row.metric] = Mean(row.mean, row.low, row.high)
        rows = []
        for name in (*self.ours, *self.against):
            rows.append([name, *(cells.get((name, metric)) for metric in SHOWN)])
        return pd.DataFrame(rows, columns=["system", *SHOWN])

    @cached_property
    def tests(self) -> stats.Battery:
        """The declared contrasts, every system of one's own with every baseline, and what belongs to them."""
        scores = statistics.stats_frame(evaluate.read(self.run, "results"))
        return stats.battery(scores, self.plan)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """A row a contrast: paired difference in gain after a change, p, and what this n can decide."""
        pairs = statistics.confirmatory(self.tests.pairwise)
        power = self.tests.power
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
        sentences = [self._gains(name) for name in self.ours]
        sentences += self.tests.adaptation["sentence"].tolist()
        sentences.append(self._decides())
        if len(set(self.shifts.get("voice", ()))) == 1:
            sentences.append(_ONE_VOICE)
        return sentences

    def _decides(self) -> str:
        """The smallest differences that this number of scenarios can decide, and what more would take."""
        unknown = "What this number of users can decide could not be estimated."
        if "detectable_effect" not in self.effects:
            return unknown
        compared = self.effects[self.effects["verdict"] != NOT_COMPARED]
        compared = compared.dropna(subset=["detectable_effect"])
        if compared.empty:
            return unknown
        parts = []
        for row in compared.itertuples():
            parts.append(f"{row.detectable_effect:.2f} between {row.a} and {row.b}")
        needed = compared["sessions_needed"].max()
        takes = "more than is practical" if pd.isna(needed) else f"up to {needed:.0f} users"
        return (
            f"With {int(compared['n'].min())} users this run finds differences of {listing(parts)} "
            f"with {self.plan.power:.0%} power; {self.plan.smallest_effect:g} takes {takes}."
        )

    def _gains(self, name: str) -> str:
        """What users of a system get after they changed their minds, and what the change cost."""
        shifts = self.shifts[self.shifts["model"] == name].dropna(subset=[PRIMARY])
        if shifts.empty:
            return f"{name} has no conversation with a change of mind that could be scored."
        after = stats.mean_interval(shifts[PRIMARY], limits=GAIN)
        straight = stats.mean_interval(shifts["straight_gain"], limits=GAIN)
        gains = (
            f"After a change of mind {name} gains {after}; with users who never change their minds {straight}"
        )
        if name in self.tests.unable:
            return f"{gains}: too little to lose anything, so its shift cost says nothing."
        return f"{gains}; at the change it {findings.pays(stats.mean_interval(shifts['shift_cost']))}."

    def worst(self) -> pd.DataFrame:
        """The turns of the sessions in which the first of one's own systems loses most, beside a baseline.

        Columns: session, turn, user, the replies of the system and of the baseline that loses least.
        """
        own = self.shifts[self.shifts["model"] == self.ours[0]].dropna(subset=["shift_cost"])
        worst = own.sort_values(["shift_cost", "session_id"], ascending=[False, True]).head(_WORST)
        costs = self.shifts.groupby("model")["shift_cost"].mean()
        best = min(self.against, key=lambda name: costs.get(name, float("inf")))
        sessions = set(worst["session_id"])
        turns: dict[tuple[str, str], list[Pair]] = {}
        for talk in simulate.iter_dialogues(self.run):
            if talk.model_name in (self.ours[0], best) and talk.session_id in sessions:
                turns[talk.model_name, talk.session_id] = talk.pairs()
        rows = []
        for shift in worst.itertuples():
            replies = turns[self.ours[0], shift.session_id]
            others = turns[best, shift.session_id]
            last = min(shift.turn - 1 + FRESH_TURNS, len(replies))
            for index in range(shift.turn - 2, last):
                turn = f"{index + 1} (shift)" if index == shift.turn - 1 else f"{index + 1}"
                reply, other = replies[index], others[index]
                rows.append([shift.session_id, turn, reply.user.text, reply.system.text, other.system.text])
        return pd.DataFrame(rows, columns=["session", "turn", "user", self.ours[0], best])

    def __repr__(self) -> str:
        return "\n".join(self.verdict)

    def _repr_html_(self) -> str:
        quantities = self.quantities.iloc[:, :_NARROW].rename(columns=heading)
        return bullets(self.verdict) + table(quantities)

    def write(self) -> Path:
        """Write the page; the same run gives the same bytes."""
        words = prompts.lists("movies/pages")["compare"]
        title = f"{listing(self.ours)} against {listing(self.against)}"
        lead = words["lead"].format(n=self.shifts["session_id"].nunique())
        page = document(title, words["asked"], str(escape(lead)), self._sections())
        with runs.only_one(self.page.parent):
            return tables.write_whole(self.page, page)

    def _sections(self) -> Iterator[Section]:
        """The parts of the page: what each shows, in a quiet sentence, above it."""
        words = prompts.lists("movies/pages")["compare"]
        notes = {}
        for name in ("quantities", "effects", "types", "worst"):
            notes[name] = quiet(words[name].format(plan=self.plan, ours=self.ours))
        quantities = table(self.quantities.rename(columns=heading))
        effects = table(self.effects.rename(columns=heading))
        yield Section("Verdict", "verdict", bullets(self.verdict))
        yield Section("Gain and cost", "quantities", notes["quantities"] + self._plane() + quantities)
        yield Section("Paired differences in gain after a change", "effects", notes["effects"] + effects)
        yield Section("By type of shift", "types", notes["types"] + table(self.by_type))
        if self.by_voice is not None:
            yield Section("By voice of the user", "voices", notes["types"] + table(self.by_voice))
        yield Section("Conversations to read", "worst", notes["worst"] + table(self.worst()))
        steps = [step.replace("RUN", self.run) for step in words["next"]]
        yield Section("What to do next", "next", bullets(steps))

    def _plane(self) -> str:
        try:
            return figure("ability_adaptation", self.shifts)
        except NoDataError:
            return ""


def compare(
    systems: Mapping[str, System] | Sequence[str],
    *,
    against: Sequence[str] = BASELINES,
    n: int = 120,
    width: float = 0.1,
    run: str = "",
    catalog: str = sources.SAMPLE,
    fields: str = "",
    voices: str = "all",
    plan: str = "movies",
    seed: int = 7,
    turns: int = TURNS,
    workers: int = 1,
    llm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare systems with baselines, and write the page ``compare.html``.

    Parameters
    ----------
    systems : mapping or sequence of str
        Names to specs or to functions ``messages -> text, list of films or answer``; or ``NAME=SPEC``.
    against : sequence of str
        The baselines.
    n : int
        The most scenarios. Their number grows in steps of ``STEP`` until there are enough for a verdict (100)
        and the 95 % intervals of all contrasts are at most ``width`` wide (in units of gain) or ``n``
        is reached, never on what they show.
    width : float
        As ``n``.
    run : str
        The run's name. The same call continues its run, also with a larger ``n``; a changed system or library
        gets a run of its own unless ``run`` names one.
    catalog, fields, voices, plan, seed, turns, workers, llm
        As notebook 03 takes them; ``plan`` is the declared analysis.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    Comparison
        The verdict and frames.

    Raises
    ------
    InputError
        For what is no system.
    RunError
        For a system that fails.
    """
    specs = _specs(systems)
    if n < 2 or not specs:
        raise InputError(f"n is {n} and systems is {specs}; give an n of at least 2 and at least one system")
    settings: dict[str, Any] = {
        "systems": [*specs, *against],
        "catalog": sources.with_fields(catalog, fields),
        "voices": voices,
        "seed": seed,
        "n_turns": turns,
        "llm": dict(llm or {}),
    }
    name = run or f"compare-{_digest(settings)}"
    ours = tuple(named(spec)[0] for spec in specs)
    baselines = tuple(named(spec)[0] for spec in against)
    contrasts = tuple(itertools.product(ours, baselines))
    declared = statistics.plan_for(plan, ours + baselines).changed(contrasts=contrasts)
    for size in range(min(STEP, n), n + STEP, STEP):
        config = simulate.SimulateConfig(run=name, n_sessions=min(size, n), workers=workers, **settings)
        simulate.simulate(config, progress=progress)
        evaluate.evaluate(evaluate.EvaluateConfig(run=name, workers=workers))
        comparison = Comparison(name, ours, baselines, declared)
        tests = comparison.tests.declared
        if size >= ENOUGH and (tests["high"] - tests["low"]).max(skipna=False) <= width:
            break
    comparison.write()
    return comparison


def _specs(systems: Mapping[str, System] | Sequence[str]) -> list[str]:
    """The systems as ``NAME=SPEC``; functions are reached by their names."""
    specs = []
    if isinstance(systems, Mapping):
        for name, system in systems.items():
            if callable(system):
                FUNCTIONS[name] = system
                system = f"function:{name}"
            specs.append(f"{name}={system}")
        return specs
    for spec in systems:
        if "=" not in spec and spec not in SYSTEMS:
            example = "Ours=python:my_system:MySystem; crs systems lists what there is"
            raise InputError(f"{spec!r} is no system; give NAME=SPEC, e.g. {example}")
        specs.append(spec)
    return specs


def _digest(settings: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits of the settings, of the programs and of this package as they are now."""
    programs = []
    for system in settings["systems"]:
        spec = named(system)[1]
        if spec in SYSTEMS and SYSTEMS.get(spec).facts.get("program"):
            programs.append(identity(spec))
    files = [path for path in _PACKAGE.rglob("*") if path.suffix in _SOURCES]
    parts = [settings, programs, tables.of_files(sorted(files))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
