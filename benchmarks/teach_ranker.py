"""Make the rankers that come with the package (rankers.json.gz) anew, from RealTalk's train chats.

    PYTHONPATH=. python benchmarks/teach_ranker.py [FOLDER]

FOLDER holds ``realtalk/``; without it the registry of external files is asked (CRS_MIRROR).
The file holds numbers only: weights and thresholds of features, and 24-bit hashes by which a chat that taught
is known again. The same chats give the same bytes.
"""

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crs_lib.realtalk import index, learning, search
from crs_lib.realtalk.corpus import Chat

SEEDS = learning.SEEDS[:2]


def teach(chats: Sequence[Chat], encoders: Sequence[str]) -> dict[str, Any]:
    """The record of the file: a ranker for each encoder, learnt on all chats."""
    by_encoder = {}
    for encoder in encoders:
        questions: list[learning.TrainingQuestion] = []
        for chat in chats:
            questions += learning.training_questions(index.build(chat, encoder))
        by_encoder[encoder] = learning.fit(questions, SEEDS)
    names = ", ".join(chat.name for chat in chats)
    return {
        "features": search.features_key(),
        "origin": f"comes with the package; taught by {names}",
        "sketches": [chat.sketch for chat in chats],
        "rankers": by_encoder,
    }


def main(folder: str = "") -> None:
    """Write the file."""
    chats = learning.train_chats(Path(folder) if folder else None)
    if not chats:
        sys.exit("no train chats: set CRS_MIRROR, or python -m crs_lib data get realtalk")
    search.need_trees()
    record = teach(chats, index.STUDIED)
    text = json.dumps(record, sort_keys=True)
    search.SHIPPED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{search.SHIPPED.name}: {record['origin']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
