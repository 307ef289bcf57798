"""Logs as runs: conversations of any known form put into a run folder that all later stages accept."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import data as logs
from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.titles import film_titled
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import USER, Dialogue
from crs_lib.core.errors import InputError, Match, did_you_mean, joined, match
from crs_lib.core.settings import Field, RunName, Settings
from crs_lib.core.text import fold
from crs_lib.data.logs import Broken
from crs_lib.simulate.config import STUDY, run_named
from crs_lib.simulate.run import prepare

SKIPPED = "skipped.csv"
_ID = re.compile(r"(?<!\w)@(\d+)\b")  # of a film, in place of its title
_LOOKED_AT = 5  # sessions of each system whose replies are searched for films
_NAMING = 0.25  # share of replies that name a film below which the catalogue is taken for another one
_CATALOG = "give the catalogue that the systems had: --catalog FILE"
_PAIRED, _INDEPENDENT = 0.95, 0.25  # shares of pairs of sessions with one user, from and up to which


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
    """An import: its folder, a row a system, the conversations skipped, and what of its names matched.
    ``systems``: sessions, turns, sessions with logged constraints, with shifts, and those skipped. ``joins``:
    ids in place of titles, listed titles (or replies) and the catalogue; users and systems. ``ambiguous``:
    titles in replies of which nothing tells which film is meant. ``lost``: turns with U+FFFD.
    """

    folder: Path
    systems: pd.DataFrame
    skipped: pd.DataFrame
    joins: Sequence[Match]
    ambiguous: int
    lost: int = 0


def user_of(dialogue: Dialogue) -> str:
    """Who the user of a dialogue is: the first constraints logged, else what is said first, else the seed."""
    for pair in dialogue.pairs():
        constraints = pair.user.state.constraints
        if constraints:
            return tables.dumps(dict(sorted(constraints.items())))
    return fold(dialogue.turns[0].text) or str(dialogue.extra.get("seed", ""))


def same_users(users: Iterable[Mapping[str, str]]) -> bool:
    """Whether systems met the same users: the one test of pairing, of a mapping of system to user a session.
    True where almost all sessions of a number that two systems share have one user (:func:`user_of`), or no
    number is shared; False where few have, by chance. Raises InputError, with the counts, for a mixture.
    """
    same = different = 0
    for by_system in users:
        for one_user, other in combinations(by_system.values(), 2):
            same += one_user == other
            different += one_user != other
    pairs = same + different
    share = same / pairs if pairs else 1.0
    if _INDEPENDENT < share < _PAIRED:
        counts = f"{same:,} have the same user and {different:,} do not"
        mend = "paired and independent sessions need runs of their own"
        raise InputError(f"mixed: of {pairs:,} pairs of sessions with one number, {counts}; {mend}")
    return share >= _PAIRED


@dataclass
class SystemCounts:
    """What is counted of a system's dialogues."""

    sessions: int = 0
    turns: int = 0
    with_constraints: int = 0
    with_shifts: int = 0


class _Counts:
    """What is counted while the dialogues pass by."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.grounder = Grounder(catalog)
        self.ambiguous = 0
        self.lost = 0
        self.systems: dict[str, SystemCounts] = {}
        self.broken: list[Broken] = []
        self.titles: dict[str, None] = {}
        self.users: dict[int | str, dict[str, str]] = {}
        self.replies: list[str] = []
        self.ids: dict[str, None] = {}

    def pass_on(self, dialogues: Iterator[Dialogue]) -> Iterator[str]:
        """Each dialogue as a line, its session's number with five digits."""
        for dialogue in map(self._titled, dialogues):
            session = logs.session_key(dialogue).session
            name = f"{session:05d}" if isinstance(session, int) else session
            self._count(dialogue)
            self.users.setdefault(session, {})[dialogue.model_name] = user_of(dialogue)
            yield replace(dialogue, session_id=name).dumps()

    def _titled(self, dialogue: Dialogue) -> Dialogue:
        """The dialogue with the catalogue's titles in place of ids ("@112"). A reply without ids logs
        the titles in it of which nothing tells which film is meant, as systems of ours do.
        """
        turns = []
        heard = ""
        for turn in dialogue.turns:
            text = _ID.sub(self._title, turn.text)
            self.lost += "\ufffd" in text
            meta = dict(turn.meta)
            if turn.speaker == USER:
                heard = f"{heard}\n{text}"
            elif "rec_ids" not in meta:
                mentions = self.grounder.titles(text, wanted=heard)
                titles = [self.catalog.items[film.item].title for film in mentions if film.ambiguous]
                if titles:
                    meta["ambiguous_titles"] = titles
                    self.ambiguous += len(titles)
            turns.append(replace(turn, text=text, meta=meta))
        return replace(dialogue, turns=tuple(turns))

    def _title(self, mention: re.Match[str]) -> str:
        """The title and year of the film of an id; the id itself where the catalogue lacks it."""
        self.ids[mention[1]] = None
        item = self.catalog.id_index.get(mention[1])
        if item is None:
            return mention[0]
        film = self.catalog.items[item]
        return f"{film.title} ({film.year})" if film.year else film.title

    def _count(self, dialogue: Dialogue) -> None:
        counts = self.systems.setdefault(dialogue.model_name, SystemCounts())
        pairs = dialogue.pairs()
        counts.sessions += 1
        counts.turns += len(pairs)
        counts.with_constraints += any(pair.user.state.logged for pair in pairs)
        counts.with_shifts += bool(dialogue.shift_turns())
        for pair in pairs:
            self.titles.update(dict.fromkeys(map(str, pair.system.meta.get("rec_titles") or ())))
        if counts.sessions <= _LOOKED_AT:
            self.replies += [pair.system.text for pair in pairs]

    def joins(self) -> list[Match]:
        """How far the catalogue has what the logs name, and how far systems met the same users.

        Raises InputError where it has none of the ids, or none of the titles that replies list.
        """
        joins = []
        if self.ids:
            joins.append(match("ids in place of titles", self.ids, self.catalog.id_index, _CATALOG))
        if self.titles:
            joins.append(match_titles(self.titles, self.catalog))
        elif self.replies:
            joins.append(self._replies_that_name())
        if len(self.systems) > 1:
            shared = sum(len(users) > 1 for users in self.users.values())
            n = len(self.users)
            joins.append(Match(shared, n, f"session numbers that systems share: {shared:,} of {n:,}"))
        return joins

    def _replies_that_name(self) -> Match:
        """How many of the replies looked at name a film of the catalogue; few are a warning."""
        n = len(self.replies)
        naming = sum(bool(self.grounder.titles(text)) for text in self.replies)
        sentence = f"replies looked at that name a film of the catalogue: {naming:,} of {n:,}"
        if naming < _NAMING * n:
            sentence = f"{sentence}; {_CATALOG}"
            logging.getLogger("crs_lib").warning(sentence)
        return Match(naming, n, sentence)

    def table(self) -> pd.DataFrame:
        """A row a system; one of which nothing could be read has 0 sessions."""
        skipped = Counter(broken.model for broken in self.broken)
        rows = []
        for name in dict.fromkeys([*self.systems, *skipped]):
            counts = self.systems.get(name, SystemCounts())
            rows.append({"system": name or "not named", **vars(counts), "skipped": skipped[name]})
        return pd.DataFrame(rows)


def match_titles(titles: Collection[str], catalog: Catalog) -> Match:
    """How many of the distinct titles that replies list the catalogue has; InputError where it has none."""
    strangers = [title for title in titles if film_titled(catalog, title) is None]
    own = [film.title for film in catalog.items]
    return joined("titles that replies list", len(titles) - len(strangers), strangers, own, _CATALOG)


def import_logs(config: ImportConfig) -> Imported:
    """Read logs into ``results/movies/<run>``: frozen catalogue, ``dialogues.jsonl``, ``skipped.csv``.

    Where systems met different users (:func:`same_users`), a session is named after its system. What a log
    lacks leaves the metrics that need it undefined.

    Raises
    ------
    InputError
        Nothing can be read; with ``strict`` also where one conversation cannot; the catalogue has none of the
        ids or titles that the logs name.
    RunError
        The run holds other dialogues.
    """
    files = logs.files(config.logs)
    catalog = prepare(config.run, config.catalog)
    counts = _Counts(catalog)
    inputs = {"catalog": sources.content_hash(catalog), "logs": tables.of_files(files)}
    settings: dict[str, Any] = {"imported": True, "system": config.system, "strict": config.strict}
    if config.order:
        settings["order"] = config.order
    finished = run_named(config.run).entry("simulate").get("status") == "finished"
    with runs.stage(STUDY, config.run, "simulate", settings, inputs, fixed=finished) as stage:
        order = _order(config)
        broken = _refuse if config.strict else counts.broken.append
        dialogues = _in_order(config, order, broken)
        path = stage.path("dialogues.jsonl")
        tables.write_jsonl(path, counts.pass_on(dialogues))
        skipped = pd.DataFrame(counts.broken, columns=list(Broken._fields))
        tables.write_csv(stage.path(SKIPPED), skipped)
        _check_order(order, counts.systems)
        if not same_users(counts.users.values()):
            stage.counts["users"] = "different for each system"
            tables.write_jsonl(path, _named_after_systems(path))
        sessions = sum(system.sessions for system in counts.systems.values())
        stage.counts |= {"sessions": sessions, "systems": len(counts.systems), "skipped": len(skipped)}
        if not sessions:
            first = counts.broken[0] if counts.broken else Broken(config.logs, "", "it is empty")
            why = f"{first.place}: {first.reason}"
            raise InputError(f"no conversation of {config.logs} can be read; the first: {why}")
        joins = counts.joins()
    return Imported(stage.folder, counts.table(), skipped, joins, counts.ambiguous, counts.lost)


def _order(config: ImportConfig) -> dict[str, str]:
    """The systems to put first as the settings name them, by slug."""
    names = filter(None, map(str.strip, config.order.split(",")))
    return {paths.slug(name): name for name in names}


def _check_order(order: Mapping[str, str], systems: Collection[str]) -> None:
    slugs = {paths.slug(name): name for name in systems}
    for slug, name in order.items():
        if slug not in slugs:
            hint = did_you_mean(name, systems)
            raise InputError(f"order names {name!r}, which no log is of{hint} (found: {', '.join(systems)})")


def _named_after_systems(path: Path) -> Iterator[str]:
    """The lines of a file, the system in the name of each session: none is shared."""
    for record in tables.read_jsonl(path):
        dialogue = Dialogue.from_json(record)
        session = f"{paths.slug(dialogue.model_name)}:{dialogue.session_id}"
        yield replace(dialogue, session_id=session).dumps()


def _in_order(
    config: ImportConfig, first: Collection[str], broken: Callable[[Broken], object]
) -> Iterator[Dialogue]:
    """The dialogues, those of the systems named ``first`` before others; read once more for each of them."""
    for system in first:
        for dialogue in logs.readable(config.logs, lambda _: None, system=config.system):
            if logs.session_key(dialogue).model == system:
                yield dialogue
    for dialogue in logs.readable(config.logs, broken, system=config.system):
        if logs.session_key(dialogue).model not in first:
            yield dialogue


def _refuse(broken: Broken) -> None:
    raise InputError(f"{broken.place}: {broken.reason}")
