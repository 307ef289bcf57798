"""Plot keywords of films: those that a catalogue lists, else the words by which a plot differs from others.

Source: TF-IDF (Spärck Jones, 1972, Journal of Documentation 28) over the catalogue's own plots.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib.catalog import fields
from crs_lib.catalog.fields import OPTIONAL_FIELDS, PLOT, Field

MOST = 5  # keywords of a film
_LEAST, _SHARE = 3, 0.1  # a keyword stands in so many plots at least, and in this share at most

Films = Sequence[tuple[str, Mapping[str, Any]]]


def with_keywords(films: Films, rows: Mapping[str, Field]) -> Films:
    """The films, ``(title, record)``, with plot keywords where ``rows`` asks for them and no film has any."""
    key = OPTIONAL_FIELDS[PLOT].column
    records = [record for _, record in films if isinstance(record, Mapping)]
    if PLOT not in rows or any(_listed(record.get(key)) for record in records):
        return films
    found = iter(extracted([str(record.get("plot") or "") for record in records]))
    return [
        (title, {**record, key: next(found)} if isinstance(record, Mapping) else record)
        for title, record in films
    ]


def _listed(value: object) -> bool:
    return value is not None and not isinstance(value, float) and bool(len(value))  # type: ignore[arg-type]


def extracted(plots: Sequence[str]) -> list[list[str]]:
    """For each plot its words of the highest TF-IDF, best first, at most ``MOST``; names are left out.

    A word counts that stands in three plots or more, in a tenth of them at most (in two where there are few),
    and somewhere in small letters. Empty for a plot without such a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = fields.lower_case_words(plots)
    most = max(_LEAST, int(_SHARE * len(plots)))
    words = [[word for word in fields.plot_keywords(plot) if word in small] for plot in plots]
    counts: dict[str, int] = {}
    for found in words:
        for word in found:
            counts[word] = counts.get(word, 0) + 1
    kept = sorted(word for word, n in counts.items() if min(_LEAST, 1 + len(plots) // 10) <= n <= most)
    if not kept:
        return [[] for _ in plots]
    space = TfidfVectorizer(analyzer=list, vocabulary=kept)
    weights = space.fit_transform(words)
    best = []
    for row in range(len(plots)):
        part = weights[row]
        pairs = sorted(
            zip(part.data.tolist(), part.indices.tolist(), strict=True), key=lambda p: (-p[0], p[1])
        )
        best.append([kept[place] for _, place in pairs[:MOST]])
    return best
