"""Plot keywords for films that have none: the words of a plot that tell it apart from the others."""

from collections import Counter
from collections.abc import Mapping, Sequence

from crs_lib.catalog import fields
from crs_lib.catalog.cleaning import Films, LeftOut, Record
from crs_lib.catalog.fields import ALL_FIELDS, PLOT, Field

_MOST = 5  # keywords of a film
_LEAST_PLOTS = 3  # that a keyword stands in
_LARGEST_SHARE = 0.1  # of the plots


def with_keywords(films: Films, rows: Mapping[str, Field]) -> Films:
    """The films, ``(title, record)``, with plot keywords where ``rows`` asks for them and no film has any."""
    if PLOT not in rows:
        return films
    column = ALL_FIELDS[PLOT].column
    films = list(films)
    plots = []
    for _, record in films:
        if isinstance(record, Mapping):
            keywords = record.get(column)
            if isinstance(keywords, str | Sequence) and keywords:
                return films
            plots.append(str(record.get("plot") or ""))
    keywords_of = iter(extract(plots))
    completed: list[tuple[str, Record | LeftOut]] = []
    for title, record in films:
        if isinstance(record, Mapping):
            record = {**record, column: next(keywords_of)}
        completed.append((title, record))
    return completed


def extract(plots: Sequence[str]) -> list[list[str]]:
    """For each plot its words of the highest TF-IDF, best first, at most five; names are left out.

    A word counts that stands in three plots or more, in a tenth of them at most (in two where there are few),
    and somewhere in small letters. Empty for a plot without such a word.
    Source: Spärck Jones (1972), Journal of Documentation 28, over the catalogue's own plots.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = fields.lower_case_words(plots)
    words_of = []
    plots_with: Counter[str] = Counter()
    for plot in plots:
        words = [word for word in fields.plot_keywords(plot) if word in small]
        words_of.append(words)
        plots_with.update(words)
    least = min(_LEAST_PLOTS, 1 + len(plots) // 10)
    most = max(_LEAST_PLOTS, int(_LARGEST_SHARE * len(plots)))
    vocabulary = sorted(word for word, films in plots_with.items() if least <= films <= most)
    if not vocabulary:
        return [[] for _ in plots]
    best = []
    for weights in TfidfVectorizer(analyzer=list, vocabulary=vocabulary).fit_transform(words_of):
        falling = (-weights.data).tolist()
        ranked = sorted(zip(falling, weights.indices.tolist(), strict=True))
        best.append([vocabulary[word] for _, word in ranked[:_MOST]])
    return best
