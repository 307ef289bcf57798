"""TREC files: written and read back, order of lines, errors that name the line."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.hits import Hit, ranked
from crs_lib.retrieval.trec import read_qrels, read_run, write_qrels, write_run

IDS = st.text("ab#_1", min_size=1, max_size=4)


@given(
    st.dictionaries(IDS, st.dictionaries(IDS, st.floats(allow_nan=False, allow_infinity=False), min_size=1))
)
@pytest.mark.slow
def test_runs_come_back(tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path_factory.mktemp("run") / "a.run"
    rankings = {topic: ranked(scores) for topic, scores in run.items()}
    assert write_run(path, rankings, "tag") == sum(map(len, run.values()))
    assert read_run(path) == rankings


def test_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    lines = [f"t#0 Q0 d{i} {i} {i % 3} x" for i in range(20)]
    orders = []
    for seed in range(4):
        random.Random(seed).shuffle(lines)
        (tmp_path / "a.run").write_text("\n".join(lines) + "\n")
        orders.append(read_run(tmp_path / "a.run"))
    assert all(order == orders[0] for order in orders)
    assert orders[0]["t#0"][:3] == [Hit("d11", 2.0), Hit("d14", 2.0), Hit("d17", 2.0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("t Q0 d 1 0.5", "line 1: 5 columns"),
        ("t Q0 d 1 nan x", "line 1: score 'nan'"),
        ("t Q0 d 1 high x", "line 1: score 'high'"),
        ("t Q0 d 1 2 x\nt Q0 d 2 1 x", "line 2: 'd' stands twice"),
    ],
)
def test_bad_runs(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.run").write_text(line)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path / "a.run")


def test_ids_with_blanks_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="blanks"):
        write_run(tmp_path / "a.run", {"t": [Hit("a b", 1.0)]}, "tag")
    assert list(tmp_path.iterdir()) == []


def test_qrels(tmp_path: Path) -> None:
    qrels = {"1_0_0": {"m#1_2": 2, "m#0_1": 0}, "1_0_0#0": {"B0": 1}}
    assert write_qrels(tmp_path / "q", qrels) == 3
    assert read_qrels(tmp_path / "q") == qrels
    (tmp_path / "q").write_text("t 0 d 1\nt 0 d 2\n")
    with pytest.raises(InputError, match="line 2: 'd' is judged twice"):
        read_qrels(tmp_path / "q")
    (tmp_path / "q").write_text("t 0 d high\n")
    with pytest.raises(InputError, match="grade 'high'"):
        read_qrels(tmp_path / "q")
    with pytest.raises(RunError, match="no file"):
        read_qrels(tmp_path / "absent")
