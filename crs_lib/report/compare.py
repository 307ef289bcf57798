"""One's own systems beside baselines: simulated, scored and tested, with a verdict and one page."""

import hashlib
import itertools
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

import crs_lib
from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, prompts, tables
from crs_lib.core.dialogue import Pair
from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.core.text import listing
from crs_lib.figures import NoDataError
from crs_lib.metrics.base import PRIMARY
from crs_lib.notebooks.look import heading
from crs_lib.report import findings, models, statistics
from crs_lib.report.models import Heard
from crs_lib.report.page import (
    MISSING,
    Mean,
    Section,
    bullets,
    document,
    figure,
    quiet,
    table,
    verbatim,
)
from crs_lib.runs import folder
from crs_lib.simulate.scenarios import FRESH_TURNS
from crs_lib.stats.design import GAIN
from crs_lib.stats.estimate import NOT_COMPARED
from crs_lib.stats.plan import Plan
from crs_lib.systems.base import SYSTEMS, named
from crs_lib.systems.channels import FUNCTIONS
from crs_lib.systems.programs import identity

STAGE = "compare"  # of the run, in its manifest
TURNS = 10  # of a session: the first shift comes at turn 4 to 6, and its window ends three turns later
BASELINES = ("tracker", "bm25")
OPEN_SCOPE = "open_scope_gain"
SHOWN = (
    PRIMARY,
    OPEN_SCOPE,
    "straight_gain",
    "shift_cost",
    "share_lost",
    "conversation_cost",
    "misfit",
    "delay",
    "stale",
    "wrong",
)
_N = {PRIMARY: "n", OPEN_SCOPE: "open_scope_n"}  # columns with the users that a quantity rests on
_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = (".py", ".txt", ".toml", ".wording")  # files of this package that a score may depend on
_DRAWN = ("model", "session_id", "straight_gain", "shift_cost")  # what the figure shows of a shift
_WORST = 3  # conversations on the page
_NARROW = 10  # columns of quantities that a notebook has room for
_ONE_VOICE = "All users speak with one voice: no interval holds what other words would change."

System = str | Callable[[list[dict[str, str]]], object]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A finished comparison: frames as properties, a verdict in sentences, a page at ``page``.

    ``ours`` and ``against`` are names of systems of the run ``run``, ``settings`` what decides the page. In a
    notebook it shows its verdict, its table and where the page lies. ``since`` is the date of a page
    that was there already.
    """

    run: str
    ours: tuple[str, ...]
    against: tuple[str, ...]
    plan: Plan
    settings: Mapping[str, Any]
    since: str = ""

    def stored(self) -> str:
        """The date of a page that was made of the same and is as it was written; empty for none."""
        entry = simulate.run_named(self.run).entry(STAGE)
        if entry.get("status") != "finished" or entry["parameters"] != self._parameters():
            return ""
        if not self.page.is_file():
            return ""
        if entry["outputs"].get(self.page.name) != tables.sha256(self.page):
            return ""
        return str(entry["ended"])[:10]

    def _parameters(self) -> dict[str, Any]:
        """What decides the page, for the manifest."""
        systems = {"ours": self.ours, "against": self.against}
        parameters = {**self.settings, **systems, "plan": self.plan.values()}
        text = json.dumps(tables.finite(parameters))
        return dict(json.loads(text))

    @property
    def page(self) -> Path:
        """Where the page lies."""
        return paths.run_folder(simulate.STUDY, self.run) / "compare.html"

    def check_answers(self) -> None:
        """RunError for a system of which every session failed."""
        failed = simulate.failed_sessions(self.run)
        counts = Counter(row["model"] for row in failed)
        for row in failed:
            if counts[row["model"]] >= self.settings["n"]:
                raise RunError(f"every session of {row['model']} failed: {row['error']}")

    @property
    def systems(self) -> tuple[str, ...]:
        """One's own systems, then the baselines."""
        return (*self.ours, *self.against)

    @cached_property
    def results(self) -> pd.DataFrame:
        """The session scores of the run, a row a session."""
        return evaluate.read(self.run, "results")

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """The first change of mind of every session with its gains and costs, a row a system and scenario."""
        shifts = evaluate.read(self.run, "shifts")
        return shifts[shifts["primary"].astype(bool)].astype({"model": str})

    @cached_property
    def quantities(self) -> pd.DataFrame:
        """A row a system, the highest gain after a change first: users with such a gain (``n``), sessions
        that ``failed``, why users are ``missing``, and the quantities of ``SHOWN`` as means with 95 %
        intervals, in units of gain. The gain at open scope has users of its own (``open_scope_n``).
        """
        table = self._means(evaluate.read(self.run, "model_metrics"))
        reasons = findings.missing(self.results, PRIMARY)
        failures = {row.system: row.failed for row in self.failed}
        failed = table["system"].map(failures).fillna(0)
        table.insert(2, "failed", failed.astype(int))
        table.insert(3, "missing", table["system"].map(reasons))
        return table

    @cached_property
    def without_failed(self) -> pd.DataFrame:
        """The same over the sessions that did not fail; empty where none failed."""
        path = evaluate.folder_of(self.run, "default") / evaluate.ANSWERED
        if not path.is_file():
            return pd.DataFrame()
        return self._means(tables.read_csv(path))

    def _means(self, means: pd.DataFrame) -> pd.DataFrame:
        """The quantities of ``SHOWN``, a row a system, the highest gain after a change first."""
        rows: dict[str, dict[str, object]] = {}
        for name in self.systems:
            rows[name] = {"system": name, **dict.fromkeys(_N.values(), 0)}
        shown = means[means["metric"].isin(SHOWN) & means["model"].isin(rows)]
        for mean in shown[~shown["model"].isin(self.silent)].itertuples():
            row = rows[str(mean.model)]
            row[str(mean.metric)] = Mean(mean.mean, mean.low, mean.high)
            if mean.metric in _N:
                row[_N[str(mean.metric)]] = mean.n
        columns = ["system", "n", *SHOWN]
        columns.insert(columns.index(OPEN_SCOPE) + 1, _N[OPEN_SCOPE])
        table = pd.DataFrame(rows.values(), columns=columns)
        gains = table[PRIMARY].map(lambda mean: mean.mean, na_action="ignore").astype(float)
        return table.loc[gains.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)

    @property
    def ranking(self) -> str:
        """The systems by gain after a change as text, with the gain at open scope and the users of each."""
        table = self.quantities[["system", "n", PRIMARY, OPEN_SCOPE, _N[OPEN_SCOPE]]]
        texts = table.where(table.notna(), MISSING).map(str).rename(columns=heading)
        return str(texts.to_string(index=False))

    @cached_property
    def tests(self) -> stats.Battery:
        """The declared contrasts, every system of one's own with every baseline, and what belongs to them."""
        return stats.battery(statistics.stats_frame(self.results), self.plan)

    @cached_property
    def heard(self) -> list[Heard]:
        """What was recognised in the replies of every system, one's own first."""
        failed = [row["model"] for row in simulate.failed_sessions(self.run)]
        titles = [film.title for film in evaluate.catalog_of(self.run).items]
        talks = simulate.iter_dialogues(self.run)
        rows = {row.system: row for row in models.heard(talks, titles, failed)}
        return [rows.get(name, Heard(name)) for name in self.systems]

    @cached_property
    def failed(self) -> list[findings.Failed]:
        """The systems of which sessions failed, with the commonest messages."""
        return findings.failures(self.results[self.results["model"].isin(self.systems)])

    @cached_property
    def silent(self) -> set[str]:
        """The systems of which no reply names a film of the catalogue: nothing of them is scored."""
        return {row.system for row in self.heard if row.silent}

    @property
    def unjudged(self) -> set[str]:
        """The systems that get no verdict: silent ones, and those of which more than a tenth failed."""
        return self.silent | {row.system for row in self.failed if row.too_many}

    @cached_property
    def effects(self) -> pd.DataFrame:
        """A row a contrast: paired difference in gain after a change, p, and what this n can decide."""
        pairs = statistics.confirmatory(self.tests.pairwise)
        sizes = self.tests.effects
        for name in ("d_z", "rank_biserial"):
            size = sizes.loc[sizes["effect"] == name, ["a", "b", "estimate"]]
            size = size.rename(columns={"estimate": name})
            pairs = pairs.merge(size, on=["a", "b"], how="left")
        power = self.tests.power
        if "detectable_effect" not in power:
            return pairs
        columns = ["a", "b", "detectable_effect", "sessions_needed"]
        pairs = pairs.merge(power[columns], on=["a", "b"], how="left")
        return pairs.astype({"sessions_needed": "Int64"})

    @cached_property
    def by_type(self) -> pd.DataFrame:
        """Mean shift cost by type of shift, a row a system; in brackets the shifts of a type."""
        return statistics.costs_by_type(evaluate.read(self.run, "shifts"))

    @cached_property
    def by_voice(self) -> pd.DataFrame | None:
        """The same by voice of the user; None where all users speak with one."""
        return statistics.by_voice(self.results)

    @cached_property
    def verdict(self) -> list[str]:
        """What failed or was not recognised; then a sentence for each system of one's own, for each contrast
        between systems that can be judged, for what this n can decide, and for memory across conversations.
        """
        sentences = [row.sentence for row in self.failed]
        for row in self.heard:
            if row.silent and row.replies:
                sentences.append(_unheard(row))
        for name in self.ours:
            if name not in self.unjudged:
                sentences.append(self._gains(name))
        for pair in self.tests.adaptation.itertuples():
            if self.unjudged.isdisjoint((pair.ahead, pair.behind)):
                sentences.append(str(pair.sentence))
        if not self.unjudged.issuperset(self.ours):
            sentences.append(self._decides())
        sentences += evaluate.memory_sentences(self.run)
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
        for pair in compared.itertuples():
            parts.append(f"{pair.detectable_effect:.2f} between {pair.a} and {pair.b}")
        needed = compared["sessions_needed"].max()
        smallest = f"a difference of {self.plan.smallest_effect:g}"
        takes = f"to settle {smallest} takes more users than is practical"
        if pd.notna(needed):
            takes = f"ask --n {needed:.0f} to settle {smallest}"
        return (
            f"With at least {int(compared['n'].min())} users a pair this run can find differences of "
            f"{listing(parts)} with {self.plan.power:.0%} power; {takes}."
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
        turns = self._turns({self.ours[0], best}, set(worst["session_id"]))
        rows = []
        for shift in worst.itertuples():
            beside = turns.get((best, shift.session_id), ())
            others = {pair.turn: pair.system.text for pair in beside}
            for pair in turns.get((self.ours[0], shift.session_id), ()):
                if shift.turn - 1 <= pair.turn < shift.turn + FRESH_TURNS:
                    turn = f"{pair.turn} (shift)" if pair.turn == shift.turn else str(pair.turn)
                    replies = pair.system.text, others.get(pair.turn)
                    rows.append([shift.session_id, turn, pair.user.text, *replies])
        return pd.DataFrame(rows, columns=["session", "turn", "user", self.ours[0], best])

    @property
    def account(self) -> str:
        """What was read of the replies and left out, why, and where the list lies: one line."""
        counts = pd.DataFrame(self.heard).sum(numeric_only=True)
        reasons = {
            "titles outside the catalogue": counts["other_texts"],
            "unknown ids": counts["unknown_ids"],
            "empty replies": counts["empty"],
            "failed sessions": counts["failed"],
        }
        left_out = [f"{number:,} {name}" for name, number in reasons.items() if number]
        where = paths.from_here(self.page)
        if counts["failed"]:
            where = f"{where}, {paths.from_here(self.page.with_name('failed_sessions.csv'))}"
        read = f"replies read: {counts['replies']:,}, films: {counts['films']:,}"
        return f"{read}; left out: {', '.join(left_out) or 'none'}; list: {where}"

    def _turns(self, systems: set[str], sessions: set[str]) -> dict[tuple[str, str], list[Pair]]:
        """The turns of some systems' sessions."""
        turns = {}
        for talk in itertools.chain(simulate.iter_dialogues(self.run), simulate.failed_dialogues(self.run)):
            if "of" in talk.extra:  # of another arm
                continue
            if talk.model_name in systems and talk.session_id in sessions:
                turns[talk.model_name, talk.session_id] = talk.pairs()
        return turns

    def __repr__(self) -> str:
        return "\n".join([*self.verdict, f"page: {paths.from_here(self.page)}"])

    def _repr_html_(self) -> str:
        quantities = self.quantities.iloc[:, :_NARROW].rename(columns=heading)
        return bullets(self.verdict) + table(quantities) + quiet(f"page: {paths.from_here(self.page)}")

    def write(self) -> Path:
        """Write the page; the same run gives the same bytes."""
        words = prompts.lists("movies/pages")["compare"]
        title = f"{listing(self.ours)} against {listing(self.against)}"
        n = self.shifts["session_id"].nunique()
        lead = escape(words["lead"].format(asked=self.settings["n"], n=n))
        page = document(title, words["asked"], str(lead), self._sections(), script="copy.js")
        with runs.stage(simulate.STUDY, self.run, STAGE, self._parameters(), fixed=False) as stage:
            return tables.write_whole(stage.path(self.page.name), page)

    @property
    def command(self) -> str:
        """The command that makes this page, where its systems are no functions of Python."""
        values = self.settings
        systems = values["systems"][: len(self.ours)]
        words = ["crs", "compare", *systems, "--against", *values["systems"][len(self.ours) :]]
        catalog, _, fields = values["catalog"].partition(sources.PLUS)
        options = {"n": values["n"], "catalog": catalog, "fields": fields, "seed": values["seed"]}
        options["voices"] = values["voices"]
        for name, value in options.items():
            if value:
                words += [f"--{name}", str(value)]
        return shlex.join(words)

    def made_of(self) -> pd.DataFrame:
        """When and how the page was made: date, command, versions, users, seed, as two columns."""
        entry = simulate.run_named(self.run).entry("simulate")
        versions = ", ".join(f"{name} {version}" for name, version in folder.versions().items())
        rows = {"date": str(entry.get("ended", ""))[:10], "command": self.command, "run": self.run}
        rows["users"] = str(self.settings["n"])
        rows["seed"] = str(self.settings["seed"])
        rows["versions"] = f"crs_lib {crs_lib.__version__}, {versions}"
        return pd.DataFrame(rows.items(), columns=["what", "is"])

    def _sections(self) -> Iterator[Section]:
        """The parts of the page: what each shows, in a quiet sentence, above it."""
        words = prompts.lists("movies/pages")["compare"]

        def part(title: str, anchor: str, *bodies: Markup, note: str = "") -> Section:
            parts = list(bodies)
            if note:
                parts.insert(0, quiet(words[note].format(plan=self.plan, ours=self.ours)))
            return Section(title, anchor, Markup().join(parts))

        yield part("Verdict", "verdict", bullets(self.verdict))
        recognised = pd.DataFrame([row._asdict() for row in self.heard])
        yield part("What was recognised", "recognised", _headed(recognised), note="recognised")
        quantities = _headed(self.quantities)
        yield part("Gain and cost", "quantities", self._plane(), quantities, note="quantities")
        if len(self.without_failed):
            without = _headed(self.without_failed)
            yield part("Without the sessions that failed", "without", without, note="without")
        title = "Paired differences in gain after a change"
        yield part(title, "effects", _headed(self.effects), note="effects")
        yield part("By type of shift", "types", table(self.by_type), note="types")
        if self.by_voice is not None:
            yield part("By voice of the user", "voices", table(self.by_voice), note="types")
        yield part("Conversations to read", "worst", table(self.worst()), note="worst")
        steps = [step.replace("RUN", self.run) for step in words["next"]]
        yield part("What to do next", "next", bullets(steps))
        cite = words["cite"].replace("VERSION", crs_lib.__version__)
        yield part("How it was made", "made", table(self.made_of()), verbatim(cite))

    def _plane(self) -> Markup:
        try:
            return figure("ability_adaptation", self.shifts, data=self.shifts[list(_DRAWN)])
        except NoDataError:
            return Markup()


def _headed(frame: pd.DataFrame) -> Markup:
    """A table with its columns in words."""
    return table(frame.rename(columns=heading))


def _unheard(row: Heard) -> str:
    """That nothing of a system was recognised, and what to do."""
    remedy = "name films by their ids or titles: crs catalog export --out films.jsonl lists them"
    if row.empty == row.replies:
        remedy = "its replies are empty: see what it is sent, docs/your-system.md"
    elif row.examples:
        remedy = f"it named {row.examples}; {remedy}"
    nothing = f"None of {row.replies:,} replies of {row.system} names a film of the catalogue"
    return f"{nothing}, so it has no gain: {remedy}."


def compare(
    systems: Mapping[str, System] | Sequence[str] | str,
    *,
    against: Sequence[str] | str = BASELINES,
    n: int = 144,
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
    systems : mapping, sequence of str or str
        Names to specs or to functions ``messages -> text, list of films or answer``; or ``NAME=SPEC``.
    against : sequence of str or str
        The baselines, also between commas.
    n : int
        The number of users, at least 2; a verdict takes 100. The same call with a larger ``n`` continues its
        run; a run that has more users already is shown with all of them.
    run : str
        The run's name. By default it follows from all that decides its conversations (systems with their
        code, the catalogue's content, fields, voices, seed, settings, this library), so that the same call
        gives its page at once and a changed system gets a run of its own.
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
        For what is no system, a system against itself, fields whose words cannot be read back.
    RunError
        For a system that fails.
    """
    specs = _specs(systems)
    if n < 2 or not specs:
        raise InputError(f"n is {n} and systems is {specs}; give an n of at least 2 and at least one system")
    ours = _names(specs)
    baselines = _baselines(against, ours)
    settings: dict[str, Any] = {
        "systems": [*specs, *baselines],
        "catalog": sources.with_fields(catalog, fields),
        "voices": voices,
        "seed": seed,
        "n_turns": turns,
        "llm": dict(llm or {}),
    }
    digest = _digest(settings)
    name = run or f"compare-{digest}"
    names = _names(baselines)
    contrasts = tuple(itertools.product(ours, names))
    declared = statistics.plan_for(plan, ours + names).changed(contrasts=contrasts)
    simulated = simulate.run_named(name).entry("simulate")
    size = max(n, simulated.get("parameters", {}).get("n_sessions", 0))
    comparison = Comparison(name, ours, names, declared, {**settings, "n": size, "digest": digest})
    since = comparison.stored()
    if since:
        return replace(comparison, since=since)
    # Sessions may fail: the verdict says how many. A system that answers none ends the attempt.
    settings["llm"] = {"max_failed": size * len(specs + baselines), **settings["llm"]}
    config = simulate.SimulateConfig(run=name, n_sessions=size, workers=workers, **settings)
    simulate.simulate(config, progress=progress)
    comparison.check_answers()
    evaluate.evaluate(evaluate.EvaluateConfig(run=name, workers=workers))
    comparison.write()
    return comparison


def _names(specs: Iterable[str]) -> tuple[str, ...]:
    """The names of systems."""
    return tuple(named(spec)[0] for spec in specs)


def _specs(systems: Mapping[str, System] | Sequence[str] | str) -> list[str]:
    """The systems as ``NAME=SPEC``; functions are reached by their names."""
    specs = []
    if isinstance(systems, Mapping):
        for name, system in systems.items():
            spec = system
            if callable(system):
                FUNCTIONS[name] = system
                spec = f"function:{name}"
            specs.append(f"{name}={spec}")
        return specs
    for spec in _listed(systems):
        if "=" not in spec and spec not in SYSTEMS:
            public = [system.name for system in SYSTEMS if not system.facts.get("hidden")]
            example = "Ours=python:my_system:MySystem; crs systems lists what there is"
            hint = did_you_mean(spec, public)
            raise InputError(f"{spec!r} is no system{hint}; give NAME=SPEC, e.g. {example}")
        specs.append(spec)
    return specs


def _listed(systems: Sequence[str] | str) -> list[str]:
    """The systems of a list, or of a text between commas."""
    return systems.split(",") if isinstance(systems, str) else list(systems)


def _baselines(against: Sequence[str] | str, ours: Sequence[str]) -> list[str]:
    """The baselines; InputError for a system that would be compared with itself."""
    baselines = _listed(against)
    if against == BASELINES:
        baselines = [spec for spec in baselines if spec not in ours]
    for name in _names(baselines):
        if name in ours:
            others = [other for other in (*BASELINES, "popular", "random") if other not in ours]
            example = others[0] if others else "NAME"
            raise InputError(f"{name} cannot be compared with itself; give another: --against {example}")
    if not baselines:
        raise InputError("there is no baseline; give one, e.g. --against bm25")
    return baselines


def _digest(settings: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits of the settings, of the programs, of the catalogue's content with its fields,
    and of this package as they are now.
    """
    programs = []
    for system in settings["systems"]:
        spec = named(system)[1]
        if spec in SYSTEMS and SYSTEMS.get(spec).facts.get("program"):
            programs.append(identity(spec))
    films = sources.content_hash(sources.load(settings["catalog"]))
    files = [path for path in _PACKAGE.rglob("*") if path.suffix in _SOURCES]
    parts = [settings, programs, films, tables.of_files(sorted(files))]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
