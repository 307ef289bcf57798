"""Simulates, scores and draws with the members of docs/context.md, section 4; run on a copy of the package.

    python new_member_job.py CATALOGUE SESSIONS

Prints one JSON object of what only the copy knows: concepts found, answers, prompt lines, texts of figures.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")

from crs_lib import evaluate, figures, simulate
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.catalog.fields import FIELDS, RELAXATION_ORDER
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.rng import stream
from crs_lib.evaluate.run import EvaluateConfig
from crs_lib.report import tables
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems import replies, worded
from crs_lib.validity import realism

SYSTEMS = ("tracker", "genre_only", "oracle", "random")


def texts(name, *frames):
    """Every text of a figure."""
    made = figures.make(name, *frames)
    return [text.get_text() for text in made.findobj(matplotlib.text.Text) if text.get_text().strip()]


def run(path, n_sessions):
    simulate.simulate(
        SimulateConfig(run="new", catalog=path, systems=SYSTEMS, n_sessions=n_sessions), progress=False
    )
    evaluate.evaluate(EvaluateConfig(run="new"))
    catalog = sources.load(path)
    grounder = Grounder(catalog)
    turns, shifts = evaluate.read("new", "turns"), evaluate.read("new", "shifts")
    dialogues = list(simulate.dialogues("new"))
    asked = "Which country does {} come from?"
    assert main(["trace", "--run", "new"]) == 0
    return {
        "fields": list(FIELDS),
        "relaxation": list(RELAXATION_ORDER),
        "values": catalog.values("country"),
        "voiced": realism._voiced(dialogues, grounder).to_dict("list"),
        "answers": [replies.answer(grounder, asked.format(f.title), stream(1, "x")) for f in catalog.items],
        "offers": [worded.film(catalog, i, with_id=True) for i in range(len(catalog))],
        "field_table": tables.field_table(catalog).set_index("field")["distinct"].to_dict(),
        "coverage": tables.coverage(dialogues, grounder).set_index("field").to_dict("index"),
        "added": sorted({concept for added in turns["hallucinated_concepts"] for concept in added}),
        "adaptation_profile": texts("adaptation_profile", shifts),
        "leaderboard": texts("leaderboard", evaluate.read("new", "model_metrics")),
    }


if __name__ == "__main__":
    found = run(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(found, default=str))
