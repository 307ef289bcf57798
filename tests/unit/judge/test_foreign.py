"""Judge scores made elsewhere: the thesis's CSV files, counted in order and checked against the scale."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.judge.rating import read_scores
from crs_lib.judge.run import flag_counts


def test_judge_files_are_read_in_order_flagged_or_refused(tmp_path: Path) -> None:
    head = "model,proactiveness,coherence,personalization\n"
    (tmp_path / "a_judge_scores.csv").write_text(head + "a:1b,4.0,5.0,1.0\na:1b,,9.0,0\n")
    (tmp_path / "b_judge_scores.csv").write_text(head + "b,3.5,4/5,nan\n")
    table = read_scores(tmp_path)
    assert len(table) == 3 * 3
    wide = table.assign(flag=table["flag"].fillna("")).pivot(
        index=["model", "session_id"], columns="construct", values="flag"
    )
    assert wide.loc[("a:1b", 0)].tolist() == ["", "", ""]
    assert wide.loc[("a:1b", 1)].to_dict() == {
        "proactiveness": "missing", "coherence": "out of range", "personalization": "out of range",
    }  # fmt: skip
    assert wide.loc[("b", 0)].to_dict() == {
        "proactiveness": "not whole", "coherence": "not a number", "personalization": "missing",
    }  # fmt: skip
    assert table["score"].notna().sum() == 3
    counts = flag_counts(table).set_index("construct")
    coherence = counts.loc["coherence", ["asked", "given", "not a number", "out of range"]]
    assert coherence.tolist() == [3, 1, 1, 1] and counts["asked"].tolist() == [3, 3, 3]
    with pytest.raises(InputError, match="no judge scores in"):
        read_scores(tmp_path)
    head = "model,proactiveness,coherence,personalization\n"
    for name in ("x_judge.csv", "y_judge.csv"):
        (tmp_path / name).write_text(head + "m,4,4,4\n")
    with pytest.raises(InputError, match=r"y_judge\.csv: model 'm' has rows in x_judge\.csv too"):
        read_scores(tmp_path)
    (tmp_path / "z.csv").write_text("model,coherence\nm,4\n")
    with pytest.raises(InputError, match=r"columns \['proactiveness', 'personalization'\] are missing"):
        read_scores(tmp_path / "z.csv")


@pytest.mark.external
@pytest.mark.parametrize("turns", [20, 50])
def test_every_judge_score_outside_the_scale_is_flagged(turns: int) -> None:
    root = paths.mirror()
    if not root or not (root / "thesis" / "reference").exists():
        pytest.skip("no thesis/reference in a mirror of the external data (CRS_MIRROR)")
    folder = root / "thesis" / "reference"
    table = read_scores(folder, f"logs_{turns}turns_judge_*.csv")
    files = sorted(folder.glob(f"logs_{turns}turns_judge_*.csv"))
    plain_values = np.concatenate([pd.read_csv(f).iloc[:, 1:].to_numpy().ravel() for f in files])
    outside = (plain_values < 1) | (plain_values > 5)
    assert len(table) == len(plain_values)
    assert (table["flag"] == "out of range").sum() == outside.sum()
    assert (table["flag"] == "missing").sum() == np.isnan(plain_values).sum()
