"""The released CoSRec files give the statistics that were read off them independently."""

import pytest

from crs_lib.core import paths
from crs_lib.cosrec import audit, corpus
from crs_lib.cosrec.labels import majority_labels
from crs_lib.cosrec.records import topic

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def released():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "cosrec" / "crowd").is_dir():
        pytest.skip("the CoSRec release is not here; name its parent folder in CRS_MIRROR")
    return {name: corpus.load(mirror / "cosrec", name) for name in ("crowd", "curated")}


def test_sizes(released):
    sizes = audit.overview(released)
    assert sizes["crowd"].tolist() == [291, 4606, 2329, 26.9, 1378, 9217, 8851, None, 538, None, None, None]
    assert sizes["curated"].tolist() == [20, 296, 150, 26.9, 94, None, None, 143, 52, 43, 225, 17464]


def test_claims(released):
    verdicts = audit.readme_claims(released).set_index("claim")["verdict"]
    assert verdicts.value_counts().to_dict() == {"reproduced": 10, "not verifiable": 5, "differs": 5}
    assert verdicts["figure: judgments per intent, grade 2"] == "reproduced"
    assert verdicts["figure: conversations by average rating"] == "differs"


def test_topics(released):
    topics = [topic(name) for name in released["curated"].qrels]
    kinds = [judged.kind for judged in topics]
    assert kinds.count("search") == 43
    assert len({judged.intent for judged in topics if judged.kind == "recommendation"}) == 62


def test_labels(released):
    labels = majority_labels(released["crowd"])
    kinds = labels[["recommendation", "product_details", "search"]]
    assert kinds.sum().tolist() == [654, 634, 408]
    assert (kinds.sum(axis=1) == 0).sum() == 653
    assert (kinds.sum(axis=1) > 1).sum() == 20
    assert labels["ties"].sum() == 243
    assert (~labels["recorded"]).sum() == 277


QUIRKS_OF_CROWD = {
    "two S lines in a row": 9,
    "ends with the user": 61,
    "placeholder left by the generator": 4,
    "not English": 1,
    "user with keywords and no profile": 23,
    "empty keyword": 2,
    "more than five keywords": 12,
    "an intent type twice in one annotation": 215,
    "annotators split in halves": 243,
    "a single annotator": 1,
}
QUIRKS_OF_CURATED = {
    "user index without a user (as documented)": 62,  # one index too many in every intent
    "the longest variant is not the first": 83,
    "no document of grade 2": 7,
}


@pytest.mark.parametrize(("name", "expected"), [("crowd", QUIRKS_OF_CROWD), ("curated", QUIRKS_OF_CURATED)])
def test_quirks(released, name, expected):
    cases = audit.find_quirks(released[name])["quirk"].value_counts()
    assert cases[list(expected)].to_dict() == expected


def test_straight_lined_ratings(released):
    quirks = [audit.find_quirks(partition)["quirk"].tolist() for partition in released.values()]
    assert sum(kinds.count("the same grade for all aspects") for kinds in quirks) == 293
