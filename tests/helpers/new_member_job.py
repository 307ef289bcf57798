"""Simulates, scores and draws with the members of docs/context.md, section 4; run on a copy of the package.

    python new_member_job.py CATALOGUE SESSIONS

Prints one JSON object of what only the copy knows: concepts, answers, prompt lines, figures, tables, commands.
"""

import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from crs_lib import data as datasets
from crs_lib import evaluate, figures, simulate
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.catalog.fields import FIELDS, RELAXATION_ORDER
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.rng import stream
from crs_lib.cosrec.settings import RetrieveSettings
from crs_lib.cosrec.study import STUDY
from crs_lib.evaluate.run import EvaluateConfig
from crs_lib.figures import base as registered
from crs_lib.report import tables
from crs_lib.retrieval.fusion import build
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems import replies, worded
from crs_lib.validity import promises

SYSTEMS = ("tracker", "genre_only", "oracle", "random")


def texts(name, *frames):
    """The texts of a figure, without empty ones."""
    drawing = figures.make(name, *frames)
    words = [text.get_text() for text in drawing.findobj(matplotlib.text.Text)]
    return [word for word in words if word.strip()]


def scored(run, **settings):
    simulate.simulate(SimulateConfig(run=run, voices="A", **settings), progress=False)
    evaluate.evaluate(EvaluateConfig(run=run))


def run(path, n_sessions):
    scored("new", catalog=path, systems=SYSTEMS, n_sessions=n_sessions)
    catalog = sources.load(path)
    grounder = Grounder(catalog)
    turns, shifts = evaluate.read("new", "turns"), evaluate.read("new", "shifts")
    dialogues = list(simulate.dialogues("new"))
    assert main(["trace", "--run", "new"]) == 0
    answers = []
    for film in catalog.items:
        question = f"Which country does {film.title} come from?"
        answers.append(replies.answer(grounder, question, stream(1, "x")))
    offers = [worded.film(catalog, item, with_id=True) for item in range(len(catalog))]
    distinct = tables.field_table(catalog).set_index("field")["distinct"]
    coverage = tables.coverage(dialogues, grounder).set_index("field")
    return {
        "fields": list(FIELDS),
        "relaxation": list(RELAXATION_ORDER),
        "values": catalog.values("country"),
        "voiced": promises.voiced(dialogues, grounder).to_dict("list"),
        "answers": answers,
        "offers": offers,
        "field_table": distinct.to_dict(),
        "coverage": coverage.to_dict("index"),
        "added": sorted(set(turns["hallucinated_concepts"].explode().dropna())),
        "adaptation_profile": texts("adaptation_profile", shifts),
        "leaderboard": texts("leaderboard", evaluate.read("new", "model_metrics")),
    }


def printed(*command):
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(list(command))
    return [code, out.getvalue()]


def metric():
    scored("mine", systems=("oracle", "random", "silent"), n_sessions=2, n_turns=8)
    turns, means = evaluate.read("mine", "turns"), evaluate.read("mine", "model_metrics")
    return {
        "by_turn": turns.groupby("model")["first_film_met"].apply(_plain).to_dict(),
        "table": list(tables.turn_table(turns)),
        "means": means[means["metric"] == "first_film_met"].set_index("model")["mean"].to_dict(),
        "bars": texts("metric_bars", means),
        "command": printed("figures", "--run", "mine", "--only", "metric_bars"),
    }


def _plain(values):
    """Values of a column as JSON has them: None for NaN."""
    return values.astype(object).where(values.notna(), None).tolist()


def figure():
    command = printed("figures", "--run", "mine", "--only", "novelty_by_system")
    files = names_in(paths.figures() / "movies-mine")
    return {
        "command": command,
        "files": files,
        "last": registered.names("movies")[-2],
    }  # clients' come behind


def retriever():
    specs = ("coverage", "bm25+coverage")
    STUDY.run("retrieve", RetrieveSettings(run="mine", router="views", retrievers=specs, mapping=""))
    coverage = build("coverage", {"tent": "a light tent", "lamp": "a lamp", "stove": "gas"})
    hits = list(map(list, coverage.search("a light lamp")))
    return {"hits": hits, "runs": names_in(paths.run_folder("cosrec", "mine") / "runs")}


def names_in(folder):
    """The names of a folder's files, sorted."""
    return sorted(path.name for path in folder.iterdir())


def data_set():
    mirror = Path("mirror/talks")
    mirror.mkdir(parents=True)
    (mirror / "talks.json").write_bytes(b"foo\n")
    os.environ["CRS_MIRROR"] = str(mirror.parent)
    listed, verified = printed("data", "list"), printed("data", "verify", "film-talks")
    return {"list": listed, "verify": verified, "place": datasets.locate("film-talks").name}


if __name__ == "__main__":
    facts = run(sys.argv[1], int(sys.argv[2]))
    facts["metric"] = metric()
    facts["figure"] = figure()
    facts["retriever"] = retriever()
    facts["data_set"] = data_set()
    print(json.dumps(facts, default=str))
