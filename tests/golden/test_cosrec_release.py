"""The released CoSRec files give the statistics that were read off them independently."""

import pytest

from crs_lib.core import paths
from crs_lib.cosrec import audit, corpus
from crs_lib.cosrec.labels import majority_labels
from crs_lib.cosrec.records import topic
from tests.helpers import table

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
    n_searches = 0
    intents = set()
    for name in released["curated"].qrels:
        judged = topic(name)
        n_searches += judged.kind == "search"
        if judged.kind == "recommendation":
            intents.add(judged.intent)
    assert n_searches == 43
    assert len(intents) == 62


def test_labels(released):
    labels = majority_labels(released["crowd"])
    kinds = labels[["recommendation", "product_details", "search"]]
    assert kinds.sum().tolist() == [654, 634, 408]
    assert (kinds.sum(axis=1) == 0).sum() == 653
    assert (kinds.sum(axis=1) > 1).sum() == 20
    assert labels["ties"].sum() == 243
    assert (~labels["recorded"]).sum() == 277


@pytest.mark.parametrize(("name", "kind", "n"), table(__file__, "quirks"))
def test_quirks(released, name, kind, n):
    quirks = audit.find_quirks(released[name])["quirk"]
    assert (quirks == kind).sum() == n


def test_straight_lined_ratings(released):
    n = 0
    for partition in released.values():
        quirks = audit.find_quirks(partition)["quirk"]
        n += (quirks == "the same grade for all aspects").sum()
    assert n == 293
