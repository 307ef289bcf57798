"""Joins: what matched is told; nothing is an error, fewer than half a warning with the nearest names."""

import json

import nbformat
import pytest

from crs_lib.cli.app import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError, match
from crs_lib.notebooks import runner
from crs_lib.validity import rated
from tests.helpers import refused

ASKED = {"role": "user", "content": "A drama, please."}


def log(path, *replies):
    """A log of sessions in which each reply answers the same question."""
    records = []
    for number, reply in enumerate(replies):
        messages = [ASKED, {"role": "assistant", "content": reply}]
        records.append(json.dumps({"id": f"s{number}", "model": "m", "messages": messages}))
    path.write_text("\n".join(records), encoding="utf-8")
    return path


def titled(path, titles):
    """A log of one reply that lists titles."""
    turns = [{"speaker": "USER", "text": "A drama?"}]
    turns.append({"speaker": "SYSTEM", "text": "These.", "rec_titles": titles})
    record = {"session_id": "1", "model_name": "m", "conversation": turns}
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a catalogue of four films, two of one title, where runs go, too."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    rows = ["id,title,year,genre", "112,Lantern,1990,Drama", "113,Harbour,1991,Drama"]
    rows += ["114,Vampyr,1922,Drama", "115,Vampyr,1979,Drama"]
    (tmp_path / "films.csv").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def imported(shop, path):
    """The exit code of an import with the shop's catalogue."""
    return main(["data", "import", str(path), "--run", "r", "--catalog", str(shop / "films.csv")])


def test_half_of_the_names_is_no_warning_and_fewer_are_one_with_three_examples(caplog):
    assert match("topics", ["a", "b"], ["a", "c"]).sentence == "topics: 1 of 2 match"
    assert not caplog.records
    few = match("topics", ["a", "t1", "t2", "t3", "t4"], {"a": 0, "t9": 1}, "name them alike")
    assert (few.matched, few.n) == (1, 5)
    assert caplog.messages == [few.sentence]
    assert few.sentence.count("nearest") == 3
    assert few.sentence.endswith("name them alike")


def test_no_name_that_matches_is_an_error():
    with pytest.raises(InputError, match=r"topics: 0 of 1 match; unknown are 't1' .nearest: 't9'."):
        match("topics", ["t1"], ["t9"])


def test_ids_in_place_of_titles_tell_the_nearest_id(shop, capsys):
    assert imported(shop, log(shop / "log.jsonl", "Try @911 or @912.")) == 2
    assert "ids in place of titles: 0 of 2 match; unknown are '911' (nearest: '11" in capsys.readouterr().err


def test_ids_that_match_become_titles_and_their_share_is_the_last_line(shop, capsys):
    assert imported(shop, log(shop / "log.jsonl", "Try @112.", "Or @113.")) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "conversations read: 2, turns: 2; left out: none" in last
    assert "ids in place of titles: 2 of 2 match" in last


@pytest.mark.parametrize("titles", [["Lantern (1990)", "Harbour"], ["LANTERN", "harbour (1991)"]])
def test_titles_that_replies_list_match_with_and_without_year(shop, capsys, titles):
    assert imported(shop, titled(shop / "log.json", titles)) == 0
    assert "titles that replies list: 2 of 2 match" in capsys.readouterr().out.splitlines()[-1]


def test_few_listed_titles_warn_and_none_is_an_error(shop, caplog, capsys):
    assert imported(shop, titled(shop / "log.json", ["Lantern", "Nowhere", "Harbor Lights", "Else"])) == 0
    assert "titles that replies list: 1 of 4 match" in caplog.text
    assert "'Harbor Lights' (nearest: 'Harbour')" in caplog.text
    assert "1 of 4 match" in capsys.readouterr().out.splitlines()[-1]
    path = titled(shop / "log.json", ["Nowhere"])
    assert main(["data", "import", str(path), "--run", "s", "--catalog", str(shop / "films.csv")]) == 2
    assert "--catalog FILE" in capsys.readouterr().err


def test_a_title_that_two_films_bear_is_counted_in_logs_of_others(shop, capsys):
    assert imported(shop, log(shop / "log.jsonl", "Try Vampyr.", "Try Vampyr (1979).")) == 0
    assert "several films bear, the first counts: 1" in capsys.readouterr().out.splitlines()[-1]
    lines = (paths.run_folder("movies", "r") / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    replies = [json.loads(line)["conversation"][1] for line in lines]
    assert [reply.get("ambiguous_titles") for reply in replies] == [["Vampyr"], None]


def test_scores_of_logs_tell_which_listed_titles_the_catalogue_has(shop, capsys):
    path = titled(shop / "log.json", ["Lantern", "Harbour", "Nowhere"])
    words = ["data", "score", "--logs", str(path), "--catalog", str(shop / "films.csv")]
    assert main([*words, "--out", str(shop / "out")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "conversations read: 1, turns: 1; left out: none; titles that replies list: 2 of 3 match"


def test_compare_ends_with_what_was_read_and_left_out(shop, capsys):
    words = ["compare", "sticky", "--against", "random", "--n", "2", "--workers", "1"]
    assert main([*words, "--run", "few"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("replies read: 40, films: ")
    assert "; left out: none; list: " in last
    assert last.endswith("compare.html")


def test_ratings_that_no_conversation_has_are_refused(tmp_path):
    rated_turns = "ConvId,utterance0,utterance2,relevance1\nA,USER\thi,SYSTEM\tTry Lantern,4\n"
    (tmp_path / rated.TURNS).write_text(rated_turns, encoding="utf-8")
    whole = "ConvId,utterance0,utterance1,dialogue-overall\nB,USER\thi,SYSTEM\tTry Harbour,4\n"
    (tmp_path / rated.DIALOGUES).write_text(whole, encoding="utf-8")
    share = "rated utterances of annotated_turns.csv in annotated_dialogues.csv: 0 of 1 match"
    refused(share, list, rated.conversations("abredial", tmp_path))


def test_what_a_notebook_read_and_left_out_is_found_in_its_output(tmp_path):
    notebook = nbformat.v4.new_notebook()
    text = "A title\n7 films read, 6 kept, 1 merged\nrequests read: 9; left out: none\n"
    printed = nbformat.v4.new_output("stream", name="stdout", text=text)
    notebook.cells.append(nbformat.v4.new_code_cell("print()", outputs=[printed]))
    path = tmp_path / "01_x.ipynb"
    nbformat.write(notebook, path)
    assert runner.account(path) == text.splitlines()[1:]
