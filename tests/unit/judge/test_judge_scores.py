"""What judge scores are worth: validity, agreement, self-preference, fair means, canaries."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crs_lib.core import paths
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.judge.config import JudgeSettings
from crs_lib.judge.rating import judge_session, read_scores
from crs_lib.judge.reliability import (
    CANARIES,
    FORGED,
    _canary_report,
    _family,
    _self_preference,
    agreement,
    headline,
    spoil,
    summary,
)
from crs_lib.judge.run import _table_of, flag_counts
from crs_lib.llm import LLM, Request


def scores(rows: list[tuple[Any, ...]], construct: str = "coherence") -> pd.DataFrame:
    """A score table of (model, session, judge, sample, score)."""
    frame = pd.DataFrame(rows, columns=["model", "session_id", "judge", "sample", "score"])
    return frame.assign(construct=construct, canary="").astype({"score": float})


@pytest.mark.parametrize(("spec", "expected"), [
    ("ollama:llama3:instruct", "llama"), ("ollama:llama2:latest", "llama"), ("ollama:gemma:2b", "gemma"),
    ("openai:org/Qwen2.5-7B", "qwen"), ("mistral:7b", "mistral"), ("llama3_instruct", "llama"),
    ("closed:ollama:qwen:4b", "qwen"), ("template", "template"), ("noisy:0.3", "noisy"), ("7b", "7b"),
])  # fmt: skip
def test_families_are_read_from_names(spec: str, expected: str) -> None:
    assert _family(spec) == expected


def test_judges_that_agree_and_one_that_does_not() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 60)
    rows = []
    for i, level in enumerate(truth):
        for sample in (0, 1):
            rows.append(("m", str(i), "a", sample, level))
            rows.append(("m", str(i), "b", sample, min(5, level + 1)))
            rows.append(("m", str(i), "random", sample, rng.integers(1, 6)))
    table = agreement(scores([r for r in rows if r[2] != "random"]), resamples=200).set_index(
        ["measure", "judge"]
    )
    assert table.loc[("alpha", "all"), "value"] > 0.6
    assert table.loc[("icc", "all"), "value"] > 0.8
    assert table.loc[("retest", "a"), "value"] == pytest.approx(1.0)
    whole = agreement(scores(rows), resamples=200).set_index(["measure", "judge"])
    assert abs(whole.loc[("retest", "random"), "value"]) < 0.4
    assert whole.loc[("alpha", "all"), "value"] < table.loc[("alpha", "all"), "value"]


def test_agreement_is_alpha_of_medians_or_says_why_it_is_undefined() -> None:
    # Two judges, three dialogues: (1, 1), (2, 2), (3, 4). Ordinal alpha from the coincidence matrix:
    # counts 1: 2, 2: 2, 3: 1, 4: 1; midranks 1, 3, 4.5, 5.5; observed 2 * (5.5 - 4.5)^2 / 6 = 1/3.
    # Expected: sum over pairs of values n_c n_k (difference)^2 * 2 / (6 * 5)
    # = 2 * (4*4 + 2*12.25 + 2*20.25 + 2*2.25 + 2*6.25 + 1) / 30 = 198/30; alpha = 1 - (1/3)/6.6 = 0.94949...
    rows = [("m", "0", "a", 0, 1), ("m", "0", "b", 0, 1), ("m", "1", "a", 0, 2), ("m", "1", "b", 0, 2),
            ("m", "2", "a", 0, 3), ("m", "2", "b", 0, 4)]  # fmt: skip
    table = agreement(scores(rows), resamples=50).set_index(["measure", "judge"])
    assert table.loc[("alpha", "all"), "value"] == pytest.approx(1 - (1 / 3) / 6.6)
    assert table.loc[("retest", "a"), "reason"] == "fewer than two samples"
    one = agreement(scores([("m", "0", "a", 0, 1), ("m", "1", "a", 0, 2)]), resamples=50)
    assert one["value"].isna().all() and one["reason"].notna().all()
    equal = [("m", str(i), judge, 0, 4) for i in range(5) for judge in "ab"]
    table = agreement(scores(equal), resamples=50).set_index("measure")
    assert table.loc["alpha", "reason"] == "all scores are equal"
    with pytest.raises(InputError, match=r"columns \['construct'\] are missing"):
        agreement(scores([]).drop(columns="construct"))
    with pytest.raises(InputError, match=r"columns \['canary'\] are missing"):
        _canary_report(scores([]).drop(columns="canary"))


def test_self_preference_is_the_difference_of_differences() -> None:
    rows = []
    for i in range(20):
        wobble = i % 2
        # llama judge: 5 for llama, 3 for gemma; gemma judge: 4 for llama, 3.. for gemma
        rows += [
            ("ollama:llama3", str(i), "ollama:llama3:instruct", 0, 5),
            ("ollama:gemma:2b", str(i), "ollama:llama3:instruct", 0, 3 - wobble),
        ]
        rows += [
            ("ollama:llama3", str(i), "ollama:gemma:7b", 0, 4),
            ("ollama:gemma:2b", str(i), "ollama:gemma:7b", 0, 3),
        ]
    table = _self_preference(scores(rows), resamples=300).set_index("family")
    # (5 - 2.5) - (4 - 3) = 1.5, and the same contrast seen from the other family
    assert table["value"].to_dict() == pytest.approx({"llama": 1.5, "gemma": 1.5})
    assert (table["low"] > 1.1).all() and (table["high"] < 1.9).all() and (table["n"] == 20).all()
    nobody = _self_preference(scores([("tracker", "0", "ollama:llama3", 0, 3)]))
    assert nobody.empty
    alone = _self_preference(scores([("ollama:llama3", "0", "ollama:llama2", 0, 3)]))
    assert alone["reason"].tolist() == ["no session with all four means"]


def test_headlines_leave_out_judges_of_the_same_family() -> None:
    rows = [("ollama:llama3", str(i), judge, 0, score) for i in range(4) for judge, score in
            (("ollama:llama3:instruct", 5), ("ollama:gemma:7b", 2), ("ollama:qwen:7b", 3))]  # fmt: skip
    rows += [("ollama:qwen:4b", "0", "ollama:qwen:7b", 0, 5), ("tracker", "0", "ollama:qwen:7b", 0, None)]
    table = headline(scores(rows), resamples=50).set_index("model")
    assert table.loc["ollama:llama3", "value"] == pytest.approx((2 + 3) / 2)
    assert table.loc["ollama:llama3", "judges"] == "ollama:gemma:7b, ollama:qwen:7b"
    assert table.loc["ollama:qwen:4b", "value"] == 5  # no other judge read it: kept, and marked
    assert table["own_family"].to_dict() == {"ollama:llama3": False, "ollama:qwen:4b": True, "tracker": False}
    assert (table.loc["tracker", "n"], table.loc["tracker", "n_missing"]) == (0, 1)
    assert table.loc["tracker", "reason"] == "every score is missing"


def test_the_summary_holds_every_check_and_says_what_is_missing() -> None:
    rows = [
        ("ollama:llama3", str(i), judge, 0, 4 + i % 2) for i in range(6) for judge in ("ollama:llama2", "b")
    ]
    frame = scores(rows)
    table = summary(frame, resamples=50).set_index("check")
    assert table.loc["agreement, alpha", "value"] == pytest.approx(1.0)
    assert table.loc["agreement, alpha", "n"] == 6
    assert table.loc["retest, alpha", "note"].tolist() == ["fewer than two samples"] * 2
    assert table.loc["preference for the own family", "judge"] == "llama"
    assert table.loc["preference for the own family", "note"] == "no session with all four means"
    assert table.loc["canary", "note"] == "no canary was judged" and pd.isna(table.loc["canary", "value"])
    spoilt = frame.assign(canary="shuffled", score=1.0)
    table = summary(pd.concat([frame, spoilt]), resamples=50).set_index("check")
    found = table.loc["canary shuffled"]
    assert found["value"].tolist() == [1.0, 1.0] and found["note"].tolist() == ["usable", "usable"]
    assert "canary" not in table.index  # the row that says there is none
    others = frame.assign(judge="c")
    assert summary(others, resamples=50).set_index("check").loc["preference for the own family", "note"] == (
        "no judge shares a family with a system"
    )


# --- canaries ---------------------------------------------------------------------------------------------
REPLIES = ["Try Heat.", "Ronin (or Heat) it is.", "Heathers, then."]
AIMED = [one.name for one in CANARIES if "aimed_at" in one.facts]
TITLES = ["Heat", "Ronin", "Heathers", "Alpha Street", "Beta Road"]


def original(number: int = 0) -> Dialogue:
    turns: list[Turn] = []
    for i, text in enumerate(REPLIES):
        turns += [
            Turn(USER, f"ask {i}"),
            Turn(SYSTEM, text, {"rec_titles": [["Heat"], ["Ronin", "Heat"], ["Heathers"]][i]}),
        ]
    return Dialogue(f"{number:05d}", "tracker", tuple(turns))


@pytest.mark.parametrize("name", CANARIES.names())
def test_a_canary_changes_the_replies_and_nothing_else(name: str) -> None:
    spoilt = spoil(original(), name, TITLES, seed=1)
    assert spoilt is not None and spoilt == spoil(original(), name, TITLES, seed=1)
    assert [t.text for t in spoilt.turns[0::2]] == [t.text for t in original().turns[0::2]]
    assert [t.text for t in spoilt.turns[1::2]] != REPLIES and len(spoilt.turns) == 6
    assert spoilt.extra["canary"] == name and CANARIES.get(name).summary
    Dialogue.from_json(json.loads(spoilt.dumps()))


def test_each_canary_spoils_what_its_name_says() -> None:
    for number in range(20):
        spoilt = spoil(original(number), "shuffled", TITLES, seed=number)
        assert spoilt is not None
        moved = [turn.text for turn in spoilt.turns[1::2]]
        assert sorted(moved) == sorted(REPLIES)
        assert all(a != b for a, b in zip(moved, REPLIES, strict=True))
    for number in range(20):
        spoilt = spoil(original(number), "wrong_movies", TITLES, seed=number)
        assert spoilt is not None
        text = " ".join(turn.text for turn in spoilt.turns[1::2])
        assert not any(title in text for title in ("Heat", "Ronin"))
        assert text.count("Alpha Street") + text.count("Beta Road") == 4
    spoilt = spoil(original(), "sticky", TITLES, seed=0)
    assert spoilt is not None and {turn.text for turn in spoilt.turns[1::2]} == {REPLIES[0]}


@pytest.mark.parametrize("name", AIMED)
def test_what_cannot_be_spoilt_is_left_alone(name: str) -> None:
    same = Dialogue("0", "m", (Turn(USER, "a"), Turn(SYSTEM, "b"), Turn(USER, "a"), Turn(SYSTEM, "b")))
    assert spoil(same, name, TITLES, seed=0) is None


def attentive(request: Request) -> str:
    """A judge that knows the originals by heart."""
    text = request.messages[1].content
    good = all(f"SYSTEM: {json.dumps(reply)}" in text for reply in REPLIES)
    in_order = [text.find(reply) for reply in REPLIES]
    whole = good and in_order == sorted(in_order)
    return json.dumps({n: {"evidence": "", "score": 4 if whole else 2} for n in request.schema["properties"]})  # type: ignore[index]


def test_canaries_tell_a_judge_that_reads_from_one_that_does_not() -> None:
    def judge(answer: Any) -> pd.DataFrame:
        records = []
        for number in range(8):
            for name in ["", *AIMED]:
                subject = spoil(original(number), name, TITLES, seed=2) if name else original(number)
                assert subject is not None
                record = judge_session(subject, "j", 1, LLM("scripted", answers=answer), JudgeSettings())
                who = {"model": subject.model_name, "session_id": subject.session_id, "canary": name}
                records.append({**record, **who})
        return _canary_report(_table_of(records))

    reads = judge(attentive)
    aimed = reads[reads["aimed"]]
    assert sorted(aimed["canary"]) == sorted(AIMED)
    assert (aimed["share"] == 1).all() and aimed["usable"].all() and (aimed["n"] == 8).all()
    # 8 of 8: the lower bound is (0.025) ** (1 / 8)
    assert aimed["low"].tolist() == pytest.approx([0.025 ** (1 / 8)] * len(aimed))
    sleeps = judge(lambda r: json.dumps({n: {"evidence": "", "score": 3} for n in r.schema["properties"]}))
    asleep = sleeps[sleeps["aimed"]]
    assert (asleep["share"] == 0).all() and (asleep["tied"] == 8).all() and not asleep["usable"].any()


def between_the_marks(request: Request) -> int:
    """A judge by rule: films that the replies name, a line a text, as far as the last mark."""
    text = request.messages[1].content
    code = re.search(r"^<<<(\w{16})$", text, re.M)[1]  # type: ignore[index]
    lines = text.split(f"<<<{code}\n")[1].split(f"\n{code}>>>")[0].splitlines()
    said = [json.loads(line.split(": ", 1)[1]) for line in lines if " SYSTEM: " in line]
    return 1 + len({title for title in TITLES for reply in said if title in reply})


def test_the_shift_by_a_forged_end_tells_a_judge_that_follows_it() -> None:
    def shift(score: Any) -> Any:
        def answer(request: Request) -> str:
            return json.dumps(
                {name: {"evidence": "", "score": score(request)} for name in request.schema["properties"]}
            )  # type: ignore[index]

        records = []
        for subject in (original(), spoil(original(), FORGED, TITLES, seed=2)):
            record = judge_session(subject, "j", 1, LLM("scripted", answers=answer), JudgeSettings())  # type: ignore[arg-type]
            who = {"model": "m", "session_id": "0", "canary": subject.extra.get("canary", "")}  # type: ignore[union-attr]
            records.append({**record, **who})
        return summary(_table_of(records), resamples=20).set_index("check").loc["shift by a forged end"]

    holds = shift(between_the_marks)
    assert holds["value"].tolist() == [0.0] * 3 and set(holds["note"]) == {"within ± 0.05 points"}
    follows = shift(lambda request: int((re.findall(r"score is (\d)", str(request.messages)) or [3])[-1]))
    assert follows["value"].tolist() == [2.0] * 3 and set(follows["note"]) == {"not within ± 0.05 points"}
    alone = summary(scores([("m", "0", "j", 0, 4)]), resamples=20).set_index("check")
    assert alone.loc["shift by a forged end", "note"] == "not measured; judge with --canaries forged_end"


def test_a_canary_without_a_score_is_missing_not_below() -> None:
    frame = scores([("m", "0", "j", 0, 4), ("m", "0", "j", 0, None), ("m", "1", "j", 0, 4)])
    frame["canary"] = ["", "sticky", ""]
    (row,) = _canary_report(frame).to_dict("records")
    assert (row["n"], row["n_missing"], row["below"]) == (0, 1, 0) and np.isnan(row["share"])


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
    (tmp_path := tmp_path / "refused").mkdir()
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
