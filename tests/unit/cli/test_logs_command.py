"""``logs``: what a log holds and what is odd in it, in the terminal and as a file."""

import json

import pandas as pd

from crs_lib.__main__ import main


def talk(number, *replies):
    """A session in the thesis's form with these replies."""
    turns = [
        turn
        for reply in replies
        for turn in ({"speaker": "USER", "text": "a film"}, {"speaker": "SYSTEM", "text": reply})
    ]
    return {"session_id": f"{number:05d}", "model_name": "made-up", "conversation": turns}


def test_sessions_and_quirks_are_counted_and_every_case_is_written(tmp_path, capsys):
    sessions = [talk(0, "See Kites.", "See Kites."), talk(1, "N/A is a film", "Noted.", "The user wants it.")]
    path = tmp_path / "logs.json"
    path.write_text(json.dumps(sessions))
    assert main(["logs", str(path), "--quirks", str(tmp_path / "quirks.csv")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["made-up", "2", "5", "0"]
    kinds = ("N/A in text", "other length", "repeated reply", "speaks of the user")
    shown = [line for line in out if line.split()[:1] == ["made-up"]][1:]
    assert [next(kind for kind in kinds if kind in line) for line in shown] == list(kinds)
    cases = pd.read_csv(tmp_path / "quirks.csv", keep_default_na=False)
    repeated = cases[cases["quirk"] == "repeated reply"].iloc[0]
    assert (repeated["session"], repeated["turn"], repeated["detail"]) == (0, "2", "as in turn 1")
    assert set(cases["quirk"]) == set(kinds)


def test_a_clean_log_says_so_and_a_missing_one_is_an_error(tmp_path, capsys):
    path = tmp_path / "logs.json"
    path.write_text(json.dumps([talk(0, "See Kites.", "See Orchards.")]))
    assert main(["logs", str(path)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("no quirks")
    assert main(["logs", str(tmp_path / "nowhere")]) == 2
    assert "expected a file or a folder" in capsys.readouterr().err
