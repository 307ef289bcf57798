"""Values are made once, at first use, and only so many are kept."""

from crs_lib.core import remembered


def test_only_so_much_is_remembered(monkeypatch):
    monkeypatch.setattr(remembered, "MOST", 2)
    made = []
    squares = remembered.Remembered(lambda number: made.append(number) or number**2)
    assert [squares[n] for n in (2, 3, 2, 4, 2)] == [4, 9, 4, 16, 4]
    assert made == [2, 3, 4, 2]
    assert len(squares) == 2
