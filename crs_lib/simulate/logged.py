"""Logs as runs: conversations of any known form put into a run folder that all later stages accept."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import data as logs
from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, RunName, Settings
from crs_lib.core.text import fold
from crs_lib.data.logs import Broken
from crs_lib.simulate.config import STUDY
from crs_lib.simulate.run import prepare

SKIPPED = "skipped.csv"
_LOOKED_AT = 5  # sessions of each system whose replies are searched for films
_PAIRED, _INDEPENDENT = 0.95, 0.25  # shares of pairs of sessions with one user, from and up to which
_COUNTED = ("sessions", "turns", "with_constraints", "with_shifts")


class ImportConfig(Settings):
    """The settings of an import, checked."""

    logs: Annotated[str, Field(description="a log file or a folder of them, of any known form")]
    run: Annotated[RunName, Field(description="name of the run, its folder under results/movies")]
    catalog: Annotated[str, Field(description="sample, or the catalogue's file")] = sources.SAMPLE
    system: Annotated[str, Field(min_length=1, description="name where a log names no system")] = "unnamed"
    strict: Annotated[bool, Field(description="stop at the first conversation that cannot be read")] = False
    order: Annotated[
        str, Field(description="systems to put first, in this order, with commas between them")
    ] = ""


class Imported(NamedTuple):
    """An import: its folder, a row a system, the conversations skipped, and how far the catalogue goes.
    ``systems``: sessions, turns, sessions with logged constraints, with shifts, and those skipped.
    """

    folder: Path
    systems: pd.DataFrame
    skipped: pd.DataFrame
    known: "_Known"


class _Known(NamedTuple):
    """The share in [0, 1] of the listed titles that the catalogue has, else of replies that name one."""

    share: float
    n: int
    of: str
    says: str
    least: float

    @property
    def foreign(self) -> bool:
        """Whether the catalogue is not the one that the systems had, by all appearances."""
        return self.share < self.least


def user_of(dialogue: Dialogue) -> str:
    """Who the user of a dialogue is: the first constraints logged, else what is said first, else the seed."""
    wishes = next((w for p in dialogue.pairs() if (w := p.user.user_meta.get("constraints"))), None)
    if wishes:
        return tables.dumps(dict(sorted(wishes.items())))
    return fold(dialogue.turns[0].text) or str(dialogue.extra.get("seed", ""))


def same_users(users: Iterable[Mapping[str, str]]) -> bool:
    """Whether systems met the same users: the one test of pairing, of a mapping of system to user a session.
    True where almost all sessions of a number that two systems share have one user (:func:`user_of`), or no
    number is shared; False where few have, by chance. Raises InputError, with the counts, for a mixture.
    """
    met = [a == b for by in users for a, b in combinations(by.values(), 2)]
    share = sum(met) / len(met) if met else 1.0
    if _INDEPENDENT < share < _PAIRED:
        told = f"{sum(met):,} have the same user and {len(met) - sum(met):,} do not"
        mend = "paired and independent sessions need runs of their own"
        raise InputError(f"mixed: of {len(met):,} pairs of sessions with one number, {told}; {mend}")
    return share >= _PAIRED


class _Counts:
    """What is counted while the dialogues pass by."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.systems: dict[str, dict[str, int]] = {}
        self.broken: list[Broken] = []
        self.listed = self.known = 0
        self.users: dict[int | str, dict[str, str]] = {}
        self.replies: list[str] = []

    def pass_on(self, dialogues: Iterator[Dialogue]) -> Iterator[str]:
        """Each dialogue as a line, its session's number with five digits."""
        for dialogue in dialogues:
            session = logs.session_key(dialogue).session
            named = f"{session:05d}" if isinstance(session, int) else session
            self._count(dialogue)
            self.users.setdefault(session, {})[dialogue.model_name] = user_of(dialogue)
            yield replace(dialogue, session_id=named).dumps()

    def _count(self, dialogue: Dialogue) -> None:
        row = self.systems.setdefault(dialogue.model_name, dict.fromkeys(_COUNTED, 0))
        pairs = dialogue.pairs()
        row["sessions"] += 1
        row["turns"] += len(pairs)
        row["with_constraints"] += any("constraints" in pair.user.user_meta for pair in pairs)
        row["with_shifts"] += bool(dialogue.shift_turns())
        for pair in pairs:
            titles = pair.system.meta.get("rec_titles") or ()
            self.listed += len(titles)
            self.known += sum(fold(str(title)) in self.catalog.title_index for title in titles)
        if row["sessions"] <= _LOOKED_AT:
            self.replies += [pair.system.text for pair in pairs]

    def titles(self) -> _Known:
        """The share of listed titles, else of replies, that the catalogue knows."""
        if self.listed:
            return _Known(self.known / self.listed, self.listed, "the titles that replies list", "has", 0.5)
        grounder, n = Grounder(self.catalog), len(self.replies)
        found = sum(bool(grounder.titles(text)) for text in self.replies)
        of, says = "the replies looked at", "has a film that they name"
        return _Known(found / n if n else math.nan, n, of, says, 0.25)

    def table(self) -> pd.DataFrame:
        """A row a system; one of which nothing could be read has 0 sessions."""
        lost, empty = Counter(one.model for one in self.broken), dict.fromkeys(_COUNTED, 0)
        return pd.DataFrame([
            {"system": name or "not named", **self.systems.get(name, empty), "skipped": lost[name]}
            for name in dict.fromkeys([*self.systems, *lost])
        ])  # fmt: skip


def import_logs(config: ImportConfig) -> Imported:
    """Read logs into ``results/movies/<run>``: frozen catalogue, ``dialogues.jsonl``, ``skipped.csv``
    (``strict``: InputError instead). Where systems met different users (:func:`same_users`), a session is
    named after its system. What a log lacks leaves the metrics that need it undefined. Raises InputError
    where nothing can be read, RunError for a run that holds other dialogues.
    """
    files = logs.files(config.logs)
    catalog = prepare(config.run, config.catalog)
    counts = _Counts(catalog)
    inputs = {"catalog": sources.content_hash(catalog), "logs": tables.of_files(files)}
    settings: dict[str, Any] = {"imported": True, "system": config.system, "strict": config.strict}
    settings |= {"order": config.order} if config.order else {}
    order = {paths.slug(name): name for name in map(str.strip, config.order.split(",")) if name}
    found = _in_order(config, order, _refuse if config.strict else counts.broken.append)
    fixed = runs.entry(STUDY, config.run, "simulate").get("status") == "finished"
    with runs.stage(STUDY, config.run, "simulate", settings, inputs, fixed=fixed) as stage:
        tables.write_jsonl(stage.path("dialogues.jsonl"), counts.pass_on(found))
        skipped = pd.DataFrame(counts.broken, columns=list(Broken._fields))
        tables.write_csv(stage.path(SKIPPED), skipped)
        read_of = {paths.slug(name): name for name in counts.systems}
        for name in (order[slug] for slug in order if slug not in read_of):
            hint, there = did_you_mean(name, read_of.values()), ", ".join(counts.systems)
            raise InputError(f"order names {name!r}, which no log is of{hint} (found: {there})")
        if not same_users(counts.users.values()):  # the system joins the session's name: none is shared
            stage.counts["users"] = "different for each system"
            path = stage.path("dialogues.jsonl")
            talks = map(Dialogue.from_json, tables.read_jsonl(path))
            own = (replace(d, session_id=f"{paths.slug(d.model_name)}:{d.session_id}").dumps() for d in talks)
            tables.write_jsonl(path, own)
        read = sum(row["sessions"] for row in counts.systems.values())
        stage.counts |= {"sessions": read, "systems": len(counts.systems), "skipped": len(skipped)}
        if not read:
            first = counts.broken[0] if counts.broken else Broken(config.logs, "", "it is empty")
            why = f"{first.place}: {first.reason}"
            raise InputError(f"no conversation of {config.logs} can be read; the first: {why}")
    return Imported(stage.folder, counts.table(), skipped, counts.titles())


def _in_order(
    config: ImportConfig, first: Collection[str], broken: Callable[[Broken], object]
) -> Iterator[Dialogue]:
    """The dialogues, those of the systems named ``first`` before others; read once more for each of them."""
    for wanted in first:
        again = logs.readable(config.logs, lambda _: None, system=config.system)
        yield from (one for one in again if logs.session_key(one).model == wanted)
    rest = logs.readable(config.logs, broken, system=config.system)
    yield from (one for one in rest if logs.session_key(one).model not in first)


def _refuse(one: Broken) -> None:
    raise InputError(f"{one.place}: {one.reason}")
