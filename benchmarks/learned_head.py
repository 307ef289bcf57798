"""Does a learned head carry over? A random forest on the scores' rows, on data sets and systems left out.

Prints Spearman with human ratings of replies beside the unsupervised score's, for each left-out part. Needs
the data sets crsarena, abredial and redial-movies (docs/data.md). Run: python -m benchmarks.learned_head
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from crs_lib import data as datasets
from crs_lib import data as logs
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.validity import agreement, raters
from crs_lib.validity.agreement import OVERALL, RATING, RECEIVED, WHOLE

_NO_FEATURE = {"conv_id", "system", RATING, OVERALL, WHOLE}


def features(rows):
    """The row of a reply, and its score and films at the reply before."""
    found = rows[[name for name in rows if name not in _NO_FEATURE]].astype(float)
    for name in ("heard_adaptation", "n_films", "reaction"):
        found[f"last_{name}"] = rows.groupby("conv_id", sort=False)[name].shift()
    return found.fillna(-2.0)


def held_out(rows, groups):
    """Spearman of head and score on every group, the head fitted to the others."""
    x, y = features(rows), rows.groupby("data")[RATING].rank(pct=True)
    for name in groups.unique():
        test = (groups == name).to_numpy()
        head = RandomForestRegressor(200, min_samples_leaf=5, max_features=0.4, random_state=0)
        head.fit(x[~test], y[~test])
        truth = rows.loc[test, RATING].to_numpy(float)
        yield {
            "left out": name,
            "n": int(test.sum()),
            "head": agreement.spearman(head.predict(x[test]), truth),
            "score": agreement.spearman(rows.loc[test, RECEIVED].to_numpy(float), truth),
        }


def main():
    """Print both tables."""
    grounder = Grounder(sources.load(datasets.locate("redial-movies")))
    parts = {
        "crsarena": agreement.rate(logs.readable(datasets.locate("crsarena"), lambda _: None), grounder),
        "abredial": agreement.rate(raters.abredial().dialogues, grounder),
    }
    rows = pd.concat([part.assign(data=name) for name, part in parts.items()], ignore_index=True)
    rows = rows[np.isfinite(rows[RATING])].reset_index(drop=True)
    _NO_FEATURE.add("data")
    print(pd.DataFrame(held_out(rows, rows["data"])).round(3).to_string(index=False), end="\n\n")
    print(pd.DataFrame(held_out(rows, rows["system"])).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
