"""The one place that opens SQLite files: stores that survive kills, forks and damage, and locks of folders."""

import multiprocessing
import threading

import pytest

from crs_lib.core.errors import RunError
from crs_lib.core.store import DamageError, Store, locked

TABLE = "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY) WITHOUT ROWID"


def store(path, **options):
    return Store(path, TABLE, "word list", **options)


def words(given):
    return [word for (word,) in given.do("SELECT word FROM words ORDER BY word")]


def test_what_is_stored_is_there_for_the_next_process(tmp_path):
    path = tmp_path / "new" / "words.sqlite"
    with store(path) as first:
        assert not path.exists()  # opened when it is used
        first.do("INSERT INTO words VALUES (?)", ("a",))
        first.many("INSERT INTO words VALUES (?)", [("c",), ("b",)])
        assert list(first.stream("SELECT word FROM words WHERE word > ?", ("a",))) == [("b",), ("c",)]
    assert words(first) == ["a", "b", "c"]  # closed, and opened again
    assert words(store(path, guarded=True)) == ["a", "b", "c"]


def test_many_rows_are_stored_together_or_not_at_all(tmp_path):
    one = store(tmp_path / "words.sqlite")
    with pytest.raises(RunError, match=r"word list .* start the same command again"):
        one.many("INSERT INTO words VALUES (?)", [("a",), ("b",), ("a",)])
    assert words(one) == []
    one.many("INSERT INTO words VALUES (?)", [("a",)])
    assert words(one) == ["a"]


def test_threads_and_forks_share_a_store(tmp_path):
    one = store(tmp_path / "words.sqlite")
    words(one)

    def add(names):
        for name in names:
            one.do("INSERT INTO words VALUES (?)", (name,))

    workers = [threading.Thread(target=add, args=(["a", "b"],)), threading.Thread(target=add, args=(["c"],))]
    workers.append(multiprocessing.get_context("fork").Process(target=add, args=(["d"],)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert words(one) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, guarded):
    path = tmp_path / "words.sqlite"
    path.write_bytes(b"no database, only text" * 100)
    with pytest.raises(DamageError, match=r"word list .*words\.sqlite.*Move it away"):
        words(store(path, guarded=guarded))
    assert path.read_bytes() == b"no database, only text" * 100


def test_a_guarded_file_that_was_replaced_is_not_written(tmp_path):
    path = tmp_path / "words.sqlite"
    one = store(path, guarded=True)
    path.rename(tmp_path / "away")
    with pytest.raises(RunError, match="removed or replaced"):
        one.many("INSERT INTO words VALUES (?)", [("a",)])
    one.close()


def test_a_folder_is_locked_for_one_at_a_time(tmp_path):
    busy = pytest.raises(RunError, match="busy; wait")
    with locked(tmp_path / "run", "busy; wait"), busy, locked(tmp_path / "run", "busy; wait"):
        pass
    with locked(tmp_path / "run", "busy; wait"):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RunError, match=r"cannot be written .* CRS_RESULTS"),
        locked(tmp_path / "file", "busy"),
    ):
        pass
