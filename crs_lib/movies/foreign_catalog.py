"""The catalogue form of iEvaLM and CRSArena: item id to record, the title with its year, actors as star."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_YEAR = re.compile(r"\s*\((\d{4})\)\s*$")
_FIELDS = {
    "genre": ("genre", "genres"),
    "actor": ("actor", "star", "stars", "cast"),
    "director": ("director", "directors"),
    "writer": ("writer", "writers"),
    "language": ("language", "languages"),
}


def keyed_by_id(data: Mapping[str, Any]) -> bool:
    """Whether a parsed catalogue is of this form: records with a ``star``, or numbers as keys."""
    records = [record for record in data.values() if isinstance(record, Mapping)]
    if any("star" in record for record in records):
        return True
    numbered = bool(data) and all(str(key).isdigit() for key in data)
    return numbered and len(records) == len(data) and all("name" in record for record in records)


def records(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each film as ``(title, record)`` of the OpenDialKG form; the key becomes the item id.

    A year in brackets at the end of the name is the film's year. A name without any letter or digit but
    that year names no film and is left out.
    """
    for key, record in data.items():
        if not isinstance(record, Mapping):
            yield str(key), record  # the cleaning says what is wrong with it
            continue
        name = str(record.get("name") or record.get("title") or "")
        title, year = _YEAR.sub("", name), _YEAR.search(name)
        if not re.search(r"\w", title):
            continue
        found = {field: _listed(record, names) for field, names in _FIELDS.items()}
        given = str(record.get("year") or (year[1] if year else ""))
        plot = str(record.get("plot") or "")
        yield title, {"name": title, "year": given, **found, "plot": plot, "item_id": str(key)}


def _listed(record: Mapping[str, Any], names: tuple[str, ...]) -> object:
    """The first of these keys that holds something; None among its values is left out."""
    value: Any = next((record[name] for name in names if record.get(name)), [])
    return [one for one in value if one is not None] if isinstance(value, list) else value
