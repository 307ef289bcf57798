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


def test_sizes_claims_topics_labels_and_quirks(released):
    found = audit.overview(released)
    assert found["crowd"].tolist() == [291, 4606, 2329, 26.9, 1378, 9217, 8851, None, 538, None, None, None]
    assert found["curated"].tolist() == [20, 296, 150, 26.9, 94, None, None, 143, 52, 43, 225, 17464]
    claims = audit.readme_claims(released).set_index("claim")["verdict"]
    assert claims.value_counts().to_dict() == {"reproduced": 10, "not verifiable": 5, "differs": 5}
    assert claims["figure: judgments per intent, grade 2"] == "reproduced"
    assert claims["figure: conversations by average rating"] == "differs"
    topics = [topic(name) for name in released["curated"].qrels]
    assert sum(t.kind == "search" for t in topics) == 43
    assert len({t.intent for t in topics if t.kind == "recommendation"}) == 62
    labels = majority_labels(released["crowd"])
    kinds = labels[["recommendation", "product_details", "search"]]
    assert kinds.sum().tolist() == [654, 634, 408] and (kinds.sum(axis=1) == 0).sum() == 653
    assert (kinds.sum(axis=1) > 1).sum() == 20
    assert labels["ties"].sum() == 243 and (~labels["recorded"]).sum() == 277
    crowd = audit.find_quirks(released["crowd"]).groupby("quirk").size()
    curated = audit.find_quirks(released["curated"]).groupby("quirk").size()
    expected = {
        "two S lines in a row": 9, "ends with the user": 61, "placeholder left by the generator": 4,
        "not English": 1, "user with keywords and no profile": 23, "empty keyword": 2,
        "more than five keywords": 12, "an intent type twice in one annotation": 215,
        "annotators split in halves": 243, "a single annotator": 1,
    }  # fmt: skip
    assert {name: int(crowd[name]) for name in expected} == expected
    assert curated["user index without a user (as documented)"] == 62  # one index too many in every intent
    assert curated["the longest variant is not the first"] == 83 and curated["no document of grade 2"] == 7
    assert crowd["the same grade for all aspects"] + curated["the same grade for all aspects"] == 293
