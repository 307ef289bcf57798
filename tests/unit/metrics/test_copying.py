"""The copying penalty: shares of word n-grams, counted on paper."""

import pytest

from crs_lib.metrics.overlap import copied_share, copy_ratio


def test_an_echo_scores_one_and_silence_zero():
    assert copy_ratio("Show me quiet films, please", "show me QUIET films please!") == 1
    assert copy_ratio("", "show me quiet films") == copy_ratio("show me quiet films", "") == 0


def test_the_larger_share_of_the_two_orders_counts():
    request = "a b c d x"
    reply = "a b c d y z"
    # order 3: abc bcd cdy dyz -> 2 of 4; order 4: abcd bcdy cdyz -> 1 of 3
    assert copy_ratio(reply, request) == 1 / 2
    assert copy_ratio(reply, request, (4,)) == 1 / 3
    assert copy_ratio(reply, request, (3,)) == 1 / 2


def test_orders_longer_than_the_reply_are_left_out():
    assert copy_ratio("a b c", "a b c d") == 1  # one 3-gram, no 4-gram
    assert copy_ratio("a b", "a b") == 0  # neither


def test_repeated_ngrams_count_once():
    # order 3 of the reply: aaa (three times) and aab: one of two is shared
    assert copy_ratio("a a a a a b", "a a a", (3,)) == 1 / 2


def test_case_accents_and_marks_do_not_hide_a_copy():
    assert copy_ratio("J'aime Amélie, beaucoup", "j aime amelie beaucoup") == 1


def test_words_of_values_are_no_copying():
    request, reply = ["films", "by", "jane", "campion"], ["great", "films", "by", "jane", "campion"]
    # all words: 3-grams 2 of 3, 4-grams 1 of 2 -> 2/3; without the name: "great films by" is not in "films by"
    assert copied_share(reply, request) == 2 / 3
    assert copied_share(reply, request, ignore=frozenset({"jane", "campion"})) == 0
    assert (
        copied_share(["films", "by", "jane"], request, ignore=frozenset({"jane"})) == 0
    )  # two words are left


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 5)])
def test_other_orders_may_be_asked_for(orders):
    assert copy_ratio("a b", "a b", orders) == 1
