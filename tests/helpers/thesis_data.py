"""Where the thesis's data lies, and what the golden tests skip without it."""

from functools import cache

import pandas as pd
import pytest

from crs_lib import data as logs
from crs_lib.core import paths
from crs_lib.evaluate import choose
from crs_lib.evaluate import tables as score_tables


def folder():
    mirror = paths.mirror()
    if mirror and (mirror / "thesis").is_dir():
        return mirror / "thesis"
    return None


missing = pytest.mark.skipif(folder() is None, reason="the thesis's logs are not here (CRS_MIRROR)")
external = [pytest.mark.external, missing]


def choice(convention, **settings):
    films = str(folder() / "opendialkg_movie_data.json")
    return choose.ScoringConfig(catalog=films, convention=convention, **settings)


@cache
def sessions(log, convention, settings):
    """The session records of all dialogues of a log folder, details as columns ``detail_…``."""
    ready = choice(convention, **dict(settings)).make()
    scored = score_tables.stream(logs.read(folder() / log), ready.scorer)
    frame = pd.DataFrame([scores.session for scores in scored])
    detail = pd.DataFrame(frame["detail"].tolist()).add_prefix("detail_")
    return frame.join(detail).assign(session=frame["session_id"].astype(int))


def merged(frame, reference):
    """Ours beside the original's, session by session; every reference session must be there."""
    wanted = pd.read_csv(folder() / "reference" / reference)
    both = wanted.merge(frame, on=["model", "session"], suffixes=("_original", ""), validate="1:1")
    assert len(both) == len(wanted)
    return both


def gap(both, column, ours=""):
    """The largest difference over sessions; infinite where one side is missing and the other is not."""
    theirs = both[f"{column}_original"] if f"{column}_original" in both else both[column]
    values = both[ours or column].astype(float)
    if (theirs.isna() != values.isna()).any():
        return float("inf")
    return float((theirs - values).abs().max())
