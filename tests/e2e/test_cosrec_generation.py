"""Generation by models under faults, killed again and again: the same bytes, and nothing asked twice."""

import random

import pytest

from crs_lib.core.errors import RunError
from tests.helpers import cosrec_job
from tests.helpers.cosrec_data import part_of_sample

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path


def test_killed_under_faults_it_ends_with_the_same_bytes_and_no_call_twice(results):
    source = part_of_sample(results / "source", products=40, passages=60)
    with cosrec_job.server(0.2) as server:
        whole = cosrec_job.contents(cosrec_job.work(results, server.url, "whole", 5, source))
        n = server.chats
        assert sum(server.given.values()) > 0
    with cosrec_job.server(0.2, delay=0.02) as server:
        targets = sorted(random.Random(3).sample(range(1, n), 3))
        job = (results, server.url, "killed", 5, source)
        kills = cosrec_job.killed_until_done(server, job, targets)
    folder = results / "cosrec" / "killed"
    assert kills.times >= 2
    assert kills.asked_again == 0
    assert cosrec_job.contents(folder) == whole
    twice, answered = cosrec_job.answered_twice(folder)
    assert twice == 0
    assert answered >= 5 * 6  # a query, a draft, and two prompts for each of two buyers


def test_what_is_missing_is_said_before_the_first_call(results):
    with cosrec_job.server(0.0) as server:
        del server.models["asker:1"]
        with pytest.raises(RunError, match="cosrec product_query"):
            cosrec_job.work(results, server.url, "none", 2)
        assert server.chats == 0
