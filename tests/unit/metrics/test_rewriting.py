"""ROUGE, BLEU, chrF: worked by hand, recorded values of the reference tools, and the tools themselves."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.metrics.rewriting import SENTENCE, _rouge_n, bleu, chrf, rouge_l

CAT = "the cat sat on the mat"
TEXT = st.lists(st.sampled_from(["red", "blue", "tent", "for", "two", "light"]), max_size=8).map(" ".join)


def test_worked_by_hand_and_as_sacrebleu_gave() -> None:
    # "police kill the gunman" against "police killed the gunman" (Lin 2004): 3 of 4 words, LCS 3,
    # bigrams (the gunman) 1 of 3
    said, wanted = "police kill the gunman", ["police killed the gunman"]
    found = _rouge_n(said, wanted), _rouge_n(said, wanted, 2), rouge_l(said, wanted)
    assert found == pytest.approx((3 / 4, 1 / 3, 3 / 4))
    assert rouge_l("the gunman kill police", wanted) == pytest.approx(2 / 4)
    assert _rouge_n("Tent, red!", ["nothing", "red tent"]) == 1.0
    # the clipping example of Papineni et al.: "the" occurs at most twice in a reference: 2 of 7;
    # no bigram matches, so the precisions are 2/7, 1/(2*6), 1/(4*5), 1/(8*4)
    found = bleu(["the the the the the the the"], [[CAT, "there is a cat on the mat"]])
    assert found == pytest.approx((2 / 7 / 12 / 20 / 32) ** 0.25)
    # four of four words right, reference of six: brevity exp(1 - 6/4)
    assert bleu(["the cat sat on"], [[CAT]]) == pytest.approx(exp(1 - 6 / 4))
    assert bleu([CAT], [[CAT]]) == pytest.approx(1.0)
    assert bleu(["cat"], [[CAT]]) == 0.0
    # sacrebleu 2.6.0: sentence_chrf(...).score / 100 and corpus_bleu(..., tokenize="none").score / 100
    first, second = "light tent for two people", "red camping stove with gas"
    references = [["a light tent for two people"], ["red gas stove for camping", "a red camping stove"]]
    found = chrf(first, ["a light tent for 2 people"]), bleu([first, second], references)
    assert found == pytest.approx((0.7224911196939356, 0.6231838376616488), abs=1e-9)


@pytest.mark.parametrize("name", SENTENCE)
@given(candidate=TEXT, references=st.lists(TEXT, min_size=1, max_size=3))
@pytest.mark.slow
def test_every_measure(name: str, candidate: str, references: list[str]) -> None:
    score = SENTENCE[name](candidate, references)
    assert 0 <= score <= 1 + 1e-12
    assert score >= SENTENCE[name](candidate, references[:1])  # more references never hurt
    if len(candidate.split()) > 1:
        assert SENTENCE[name](candidate, [*references, candidate]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", SENTENCE)
def test_a_reference_is_needed(name: str) -> None:
    with pytest.raises(InputError, match="at least one"):
        SENTENCE[name]("tent", [])
