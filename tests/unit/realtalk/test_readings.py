import pytest

from crs_lib.core.errors import InputError
from crs_lib.realtalk import arcs, corpus


def chat_with(evidence, photo_at=(), missing=()):
    """Twelve messages D1:1 … D1:12, some with photo, some dropped; one question."""
    session = [
        {
            "clean_text": f"m{i}",
            "speaker": "Ann",
            "date_time": f"01.01.2024, 10:{i:02d}:00",
            "dia_id": f"D1:{i}",
            "img_file": ["x.jpg"] if i in photo_at else [],
        }
        for i in range(1, 13)
        if i not in missing
    ]
    record = {"name": {"speaker_1": "Ann", "speaker_2": "Ben"}, "session_1": session}
    return corpus._parse_chat({**record, "qa": [{"question": "q?", "evidence": evidence}]}, "c")


def ids(chat, reading):
    found = corpus.evidence(chat, chat.questions[0], reading)
    return chat.ids(found.positions), list(found.unresolved)


@pytest.mark.parametrize("evidence, strict, valid", [
    (["D1:2"], ["D1:2"], ["D1:2"]), (["D1:2", "D1:2"], ["D1:2"], ["D1:2"]),
    (["D1:2; D1:4"], [], ["D1:2", "D1:4"]), (["D1;5"], [], ["D1:5"]), (["D 1:8"], [], ["D1:8"]),
    (["1:9"], [], ["D1:9"]), (["D1:4. D1:5"], [], ["D1:4", "D1:5"]), (["D1:6."], [], ["D1:6"]),
    (["D1:05"], [], ["D1:5"]), (["D:1:11"], [], ["D1:11"]), (["D1:3-D1:5"], [], ["D1:3", "D1:4", "D1:5"]),
    (["D1:3-D1:5, D1:9"], [], ["D1:3", "D1:4", "D1:5", "D1:9"]),
])  # fmt: skip
def test_slips_are_repaired_by_valid_and_not_by_strict(evidence, strict, valid):
    chat = chat_with(evidence)
    assert ids(chat, corpus.STRICT)[0] == strict
    assert ids(chat, corpus.VALID) == (valid, [])


@pytest.mark.parametrize("text", ["", "D:56", "D58", "somewhere"])
def test_what_names_no_message_is_counted_and_not_scored(text):
    chat = chat_with([text])
    for reading in corpus.READINGS:
        assert ids(chat, reading) == ([], [text])
    assert corpus.gold(chat) == {}


def test_a_missing_photo_moves_to_the_nearest_photo_only_when_repaired():
    chat = chat_with(["D1:6"], photo_at=(2, 8), missing=(6,))
    assert ids(chat, corpus.VALID) == ([], ["D1:6"])
    assert ids(chat, corpus.REPAIRED) == (["D1:8"], [])  # 8 is two away, 2 is four away
    assert ids(chat_with(["D1:6"], (4, 8), (6,)), corpus.REPAIRED)[0] == [
        "D1:4"
    ]  # of two as near the earlier
    assert ids(chat_with(["D1:12"], (5,), (12,)), corpus.REPAIRED)[0] == []  # seven away
    with pytest.raises(InputError, match="strict, valid, repaired"):
        ids(chat, "loose")


def test_derived_arcs_are_questions_over_three_sessions(make_chat):
    qa = [
        {"question": "long?", "evidence": ["D3:1", "D1:1", "D2:2", "D1:2"]},
        {"question": "short?", "evidence": ["D1:1", "D2:1"]},
    ]
    chat = make_chat(*[[("Ann", "a"), ("Ben", "b")]] * 3, qa=qa)
    (case,) = arcs.derive(chat)
    assert [phase.ids for phase in case.phases] == [("D1:1", "D1:2"), ("D2:2",), ("D3:1",)]


def test_arc_files_round_trip_and_say_everything_that_is_wrong(make_chat, tmp_path):
    chat = make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")], name="c")
    good = {"name": "n", "chat": "c", "question": "q?", "phases": [{"ids": ["D1:1"]}, {"ids": ["D2:1"]}]}
    assert arcs.check(good, [chat]) == []
    bad = good | {"phases": [{"ids": ["D2:1", "D9:9"]}, {"ids": ["D1:1", "D2:1"]}]}
    problems = " | ".join(arcs.check(bad, [chat]))
    assert all(part in problems for part in ("no message 'D9:9'", "stands in two phases", "not in order"))
    formless = " | ".join(arcs.check({"name": "n", "chat": "c", "phases": [{}, {"ids": []}]}, [chat]))
    assert all(part in formless for part in ("question", "phases.0.ids", "phases.1.ids"))
    path = tmp_path / "arcs.json"
    arcs.write(path, [arcs.Arc(**good)])
    assert arcs.read(path, [chat]) == [arcs.Arc(**good)]
    path.write_text('{"format": "crs-arc-1", "cases": [{}]}')
    with pytest.raises(InputError, match=r"cases\[0\], name"):
        arcs.read(path, [chat])
    path.write_text("{}")
    with pytest.raises(InputError, match="crs-arc-1"):
        arcs.read(path, [chat])
