"""What the cells of a table mean: columns by their names, lists in cells, separators by column, titles.

Every table of films passes here, whatever its file: CSV, TSV, JSON lines, Parquet, Excel. A row becomes the
record that :mod:`crs_lib.catalog.cleaning` takes; a row of no film becomes :class:`LeftOut`.
"""

import ast
import html
import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, NamedTuple

from crs_lib.catalog import lexicon, spelling
from crs_lib.catalog.cleaning import LeftOut, Record
from crs_lib.catalog.fields import GOAL_FIELD, YEAR_FIELD, Field
from crs_lib.core import safety
from crs_lib.core.text import fold, one_line

Row = Mapping[str, object]
_TYPE = re.compile(r":(?:token|float)(?:_seq)?$")  # RecBole's types of columns
_NOUNS = ("movie", "film", "book", "boardgame", "game", "show", "item")  # that may stand before any name
_STRONG = re.compile(r"[|;\t]|\s[·•]\s")
_WEAK = re.compile("[,，、]")
_SLASH = re.compile("/")
_SPACED_SLASH = re.compile(r"\s/\s")
_AND = re.compile(r"\s(?:and|&)\s")
_LAST_AND = re.compile(r"^\s?(?:and|&)\s")
_BREAK = re.compile(r"<br\s?/?>", re.I)
_LISTS = ("[", "{", "('", '("', "array(")  # how cells begin that hold a list in JSON, Python or NumPy
_ARRAY = re.compile(r"array\((.*?),?\s?(?:dtype=\w+)?\)", re.DOTALL)
_APART = re.compile(r"(['\"])\s(?=['\"])")  # NumPy prints lists without commas
_LONGEST_TITLE = 1_000  # characters
_MARKS = frozenset("[]{}'\":")  # that a list without quotation marks does not hold
_SEVERAL = 3  # cells that tell how a column writes names
_SUFFIXES = frozenset("jr sr ii iii iv phd ph d md esq dds".split())  # of names, behind a comma
_LABELLED = re.compile(r"^\s*([A-Z][\w ]{1,20}):\s*(.*)$")
_ROLE = re.compile(r"\sas\s.*", re.DOTALL)
_WRITES = frozenset({"writer", "screenplay", "author", "co-writer", "story"})
_NAMES = ("name", "english_name", "title", "value", "label", "text")  # of an object, the first that it has
_CODES = ("iso_639_1", "iso_639_2", "code")
_WHOLE = re.compile(r"-?\d+\.0")


@cache
def _columns() -> Mapping[str, str]:
    """The key of a record by the compact name of a column, the best name of a key first."""
    keys: dict[str, str] = {}
    for key, names in lexicon.columns().items():
        for name in names:
            keys.setdefault(compact(name), key)
    return keys


def compact(column: str) -> str:
    """A column's name without case, blanks, marks and types: ``primaryTitle`` is "primarytitle"."""
    return fold(_TYPE.sub("", column)).replace(" ", "")


class Names:
    """Which key of a record a column is: of the fields that are read, and as the user says."""

    def __init__(self, rows: Iterable[Field], columns: Mapping[str, str]) -> None:
        self._keys = dict(_columns())
        self.several: set[str] = set()
        self._columns: dict[str, str] = {}
        for row in rows:
            self._keys[compact(row.column)] = row.column
            for name in row.foreign_keys:
                self._keys.setdefault(compact(name), row.column)
            if row.many:
                self.several.add(row.column)
        for column, key in columns.items():
            self._columns[compact(column)] = key
        self._rank = {name: rank for rank, name in enumerate(self._keys)}

    def key(self, column: str) -> str:
        """The key of a column; the column's own name where it is of no field."""
        name = compact(column)
        if name in self._columns:
            return self._columns[name]
        return self._keys.get(self._known(name), column)

    def rank(self, column: str) -> tuple[bool, int, str]:
        """Columns of one key in order: those that the user names, the best known name, the first number."""
        name = compact(column)
        best = self._rank.get(self._known(name), len(self._rank))
        return name not in self._columns, best, re.sub(r"\D+", "", name)

    def _known(self, name: str) -> str:
        """The known name that a column's means: with a noun before it, a number in it, or a plural."""
        for form in _forms(name):
            if form in self._keys:
                return form
        plain = re.sub(r"\d+", "", name)
        if plain != name:
            for form in _forms(plain):
                if self._keys.get(form) in self.several:
                    return form
        return ""


def _forms(name: str) -> list[str]:
    forms = [name, name.removesuffix("s"), name.removesuffix("name"), name.removesuffix("names")]
    for noun in _NOUNS:
        if name.startswith(noun) and name != noun:
            forms.append(name.removeprefix(noun))
    return list(filter(None, forms))


class _Column(NamedTuple):
    """A column of a table: its name, its key, and what makes a cell the values of the key."""

    name: str
    key: str
    read: Callable[[object], Any]


class Columns:
    """Makes records of rows, by the names of columns and by what the first rows hold."""

    def __init__(self, names: Names, head: Sequence[Row]) -> None:
        self._names = names
        self._head = head
        self._seen: set[str] = set()
        self._columns: list[_Column] = []
        self._longest = safety.limit("cell_characters")
        for row in head:
            self._add(row)
        self.near = self._usual_year()

    def _usual_year(self) -> int:
        """The middle of the years of four digits in the first rows, 0 where there is none."""
        years = []
        for row in self._head:
            _, record = self.film(row)
            if not isinstance(record, LeftOut):
                first = str(record.get(YEAR_FIELD) or "")
                year = lexicon.any_year(first)
                if year.value and not year.reason:
                    years.append(int(year.value))
        return int(statistics.median_low(years)) if years else 0

    def _add(self, row: Row) -> None:
        """Plan the columns of a row that are new."""
        for name in row:
            if name not in self._seen:
                self._seen.add(name)
                self._columns.append(_Column(name, *self._plan(name)))
        safety.check_limit("columns", len(self._columns), "the number of columns is")
        self._columns.sort(key=lambda column: self._names.rank(column.name))

    def _plan(self, name: str) -> tuple[str, Callable[[object], Any]]:
        key = self._names.key(name)
        if key not in self._names.several:
            return key, text
        by_blanks = name.endswith("_seq") and key == GOAL_FIELD
        cells = [row.get(name) for row in self._head]
        return key, _Values(key, self._names, cells, by_blanks).of

    def film(self, row: object) -> tuple[str, Record | LeftOut]:
        """A row as title and record under the names of the fields; columns of no field keep their own."""
        if isinstance(row, LeftOut):
            return "", row
        if not isinstance(row, Mapping):
            return "", LeftOut(f"it is no object but {row!r:.60}")
        error = service_error(row)
        if error:
            return "", LeftOut(f"it is an error of the service: {error!r}")
        if not self._seen.issuperset(row):
            self._add(row)
        record: dict[str, Any] = {}
        for name, key, read in self._columns:
            cell = row.get(name)
            if cell is None or cell == "":
                continue
            if isinstance(cell, str) and len(cell) > self._longest:
                return "", _too_long(name, cell)
            if key == "crew":
                _add_crew(record, cell)
            elif key in self._names.several or key == "also":
                values = read(cell)
                record.setdefault(key, []).extend(values if isinstance(values, list) else [values])
            elif key == "title" and key in record:
                record.setdefault("also", []).append(read(cell))
            elif key not in record and key != "recommendable":
                value = read(cell)
                if value:
                    record[key] = value
        return _titled(record)


def service_error(record: Mapping[str, object]) -> str:
    """The message of an error that OMDb or TMDB answered in place of a film; "" for any other record."""
    message = record.get("status_message")
    if record.get("Response") == "False":
        message = record.get("Error") or "no message"
    return one_line(str(message), 200) if message else ""


def _too_long(name: str, cell: str) -> LeftOut:
    """The reason why a row is left out that has a cell beyond the limit ``cell_characters``."""
    most = safety.limit("cell_characters")
    raised = f"{safety.limit_variable('cell_characters')} raises it"
    return LeftOut(f"its {name[:40]!r} has {len(cell):,} characters, the limit is {most:,}; {raised}")


def _titled(record: dict[str, Any]) -> tuple[str, Record | LeftOut]:
    """A record with its title taken apart: its year goes before that of a column, other titles beside it."""
    written = record.get("title", "")
    if not isinstance(written, str):
        return "", LeftOut(f"its title is no text but {one_line(repr(written), 60)}")
    if len(written) > _LONGEST_TITLE:
        return "", LeftOut(f"its title has {len(written):,} characters: {written[:40]!r} …")
    if lexicon.names_no_film(written):
        return "", LeftOut(f"it has no title{f' but {written!r}' if written else ''}")
    title = spelling.parse(written)
    record["title"] = title.text
    if title.year:
        year = record.get(YEAR_FIELD)
        record[YEAR_FIELD] = [title.year, year] if year else title.year
    others = [spelling.parse(other).text for other in record.pop("also", ())]
    others += title.also
    if others:
        record["also"] = others
    if "item_id" in record and lexicon.names_no_film(record["item_id"]):
        del record["item_id"]
    return title.text, record


def text(cell: object) -> Any:
    """A cell as one text: whole numbers without ".0", dates in ISO form, entities as characters; lists and
    objects as they are, for the cleaning to refuse.
    """
    cell = _in_mongo(cell)
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, str):
        if "&" in cell and ";" in cell:
            cell = html.unescape(cell)
        return cell[:-2] if _WHOLE.fullmatch(cell) else cell
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, date):
        return cell.isoformat()
    return cell if isinstance(cell, list | Mapping) else str(cell)


class _Values:
    """Makes cells of one column lists of values; what parts them is the column's, not the cell's."""

    def __init__(self, key: str, names: Names, cells: Iterable[object], by_blanks: bool) -> None:
        self._key = key
        self._names = names
        self._by_blanks = by_blanks
        texts = []
        for cell in cells:
            if isinstance(cell, str) and cell and not cell.startswith(_LISTS):
                texts.append(cell)
        self._commas = not any(map(_STRONG.search, texts))
        self._is_person = key in ("actor", "director", "writer")
        self._last_name_first = self._is_person and _last_name_first(texts)
        self._slash = _SPACED_SLASH if key not in (GOAL_FIELD, "language") else _SLASH

    def of(self, cell: object) -> Any:
        """The values of a cell; what is no text, number or list of these stays for the cleaning to refuse."""
        if isinstance(cell, str) and not cell.startswith(_LISTS):
            return self._parted(cell)
        labels: list[object] = []
        for part in _listed(cell):
            labels += _labels(self._key, part)
        return labels

    def _parted(self, cell: str) -> list[str]:
        """The values of a text, parted at the column's separator."""
        if ":" in cell:
            cell = self._own_part(cell)
        if cell[-1:] in "]>†‡" or "<" in cell:
            cell = spelling.plain(_BREAK.sub("\n", cell))
        if "&" in cell and ";" in cell:
            cell = html.unescape(cell)
        parts = [cell]
        if self._last_name_first:
            parts = [_first_name_first(name) for name in _STRONG.split(cell)]
        elif _STRONG.search(cell):
            parts = _STRONG.split(cell)
        elif "\n" in cell:
            parts = [part for line in cell.splitlines() for part in self._at_commas(line)]
        elif self._commas and _WEAK.search(cell):
            parts = self._at_commas(cell)
        elif self._by_blanks:
            parts = cell.split()
        if "/" in cell:
            parts = [name for part in parts for name in self._at_slashes(part)]
        if self._key == "actor" and " as " in cell:
            parts = [_ROLE.sub("", part) for part in parts]
        if self._is_person and (" and " in cell or " & " in cell):
            parts = [name for part in parts for name in _two_people(part)]
        return list(filter(None, map(str.strip, parts)))

    def _at_commas(self, part: str) -> list[str]:
        if not self._commas:
            return [part]
        first, *others = _WEAK.split(part)
        if others:
            others[-1] = _LAST_AND.sub("", others[-1])
        return _with_suffixes([first, *others])

    def _at_slashes(self, part: str) -> list[str]:
        is_whole = lexicon.is_placeholder(part) or "://" in part
        return [part] if is_whole else self._slash.split(part)

    def _own_part(self, cell: str) -> str:
        """The lines of a cell of labelled lines ("Director: …", "Cast: …") that are this column's."""
        own = []
        for line in cell.splitlines():
            label = _LABELLED.match(line)
            key = self._names.key(label[1]) if label else self._key
            if label and key == self._key:
                own.append(label[2])
            elif not label or key == label[1]:
                own.append(line)
        return "\n".join(own)


def _last_name_first(texts: Sequence[str]) -> bool:
    """Whether all names of a column are written "Lee, Ann": one comma a name, one word before it."""
    n_names = 0
    for text in texts:
        for name in _STRONG.split(text):
            last, comma, first = name.strip().partition(",")
            is_such = comma and "," not in first and first.strip() and fold(first) not in _SUFFIXES
            if not is_such or " " in last:
                return False
            n_names += 1
    return n_names >= _SEVERAL


def _first_name_first(name: str) -> str:
    """The name "Lee, Ann" as "Ann Lee"."""
    last, _, first = name.partition(",")
    return f"{first.strip()} {last.strip()}"


def _two_people(part: str) -> list[str]:
    """The names of "Ann Lee and Bob Ray", each of two words or more; any other name as it is."""
    names = _AND.split(part)
    if all(len(name.split()) > 1 for name in names):
        return names
    return [part]


def _with_suffixes(parts: Sequence[str]) -> list[str]:
    """Parts of a text with commas, those that belong to a name ("Sammy Davis, Jr.") joined to it."""
    names: list[str] = []
    for part in map(str.strip, parts):
        if names and fold(part) in _SUFFIXES:
            names[-1] += f", {part}"
        else:
            names.append(part)
    return names


def _labels(key: str, part: object) -> list[object]:
    """The labels of a part of a list: a text, a number, or an object with a name."""
    if part is None or part != part:
        return []
    if isinstance(part, Mapping) and _in_mongo(part) is part:
        names = (*_CODES, *_NAMES) if key == "language" else _NAMES
        for name in names:
            if part.get(name):
                return [text(part[name])]
        if not part.keys().isdisjoint(_NAMES):
            return []
        texts = [value for value in part.values() if isinstance(value, str)]
        return list(texts) if len(texts) == len(part) else [part]
    part = _in_mongo(part)
    if isinstance(part, int | float) and not isinstance(part, bool):
        number = text(part)
        return [lexicon.genre_of_number(number) or number] if key == GOAL_FIELD else [number]
    return [part]


def _in_mongo(cell: object) -> object:
    """What MongoDB's JSON writes as an object: ``{"$oid": "5a…"}`` is "5a…"; else the cell itself."""
    while isinstance(cell, Mapping) and len(cell) == 1 and str(next(iter(cell))).startswith("$"):
        [cell] = cell.values()
    return cell


def _listed(cell: object) -> Sequence[object]:
    """The parts of a list, also of one written in JSON or Python; of anything else the thing itself."""
    parts = _written_list(cell) if isinstance(cell, str) else cell
    if isinstance(parts, str | Mapping) or not isinstance(parts, Iterable):
        return [parts]
    return list(parts)


def _written_list(text: str) -> object:
    """The list that a text holds in JSON, Python, NumPy or without quotation marks; else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    array = _ARRAY.fullmatch(text)
    inside = array[1] if array else text
    try:
        parts = ast.literal_eval(_APART.sub(r"\1, ", inside))
        if isinstance(parts, set):  # whose order is no order
            parts = ast.literal_eval(f"[{inside[1:-1]}]")
        return parts
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    bare = text[1:-1]
    if text[-1:] in "]}" and not _MARKS.intersection(bare):
        return [part.strip() for part in _WEAK.split(bare)]
    return text


def _add_crew(record: dict[str, Any], cell: object) -> None:
    """Add directors and writers of a list of people with jobs; of credits also the cast."""
    for person in _listed(cell):
        if not isinstance(person, Mapping):
            continue
        if "crew" in person:
            record.setdefault("actor", []).extend(
                _Values("actor", Names((), {}), (), False).of(person["cast"])
            )
            _add_crew(record, person["crew"])
        job = str(person.get("job") or "").casefold()
        field = "director" if job == "director" else "writer"
        if person.get("name") and (job == "director" or job in _WRITES):
            record.setdefault(field, []).append(text(person["name"]))
