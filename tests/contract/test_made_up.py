"""Made-up members of registries, each taken all the way: registered here alone, used by the commands."""

import hashlib

import pytest

from crs_lib import data as datasets
from crs_lib import evaluate, figures, simulate
from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec.settings import RetrieveSettings
from crs_lib.cosrec.study import STUDY
from crs_lib.data.registry import Dataset, Origin, files
from crs_lib.evaluate.run import EvaluateConfig
from crs_lib.figures import style
from crs_lib.retrieval.fusion import RETRIEVERS, build
from crs_lib.retrieval.runs import ranked, read_run
from crs_lib.simulate.config import SimulateConfig
from tests.helpers.made_up import restored


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Results and figures of their own."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path / "figures"))
    return tmp_path


# ── made-up figures ─────────────────────────────────────────────────────────────────────────────
def films_per_reply(turns, *, colour="#0072B2"):
    """Points: films in a reply by system."""
    made, axes = style.figure(2.0)
    means = turns.groupby("model", sort=False)["n_items"].mean()
    axes[0][0].plot(means.to_numpy(), range(len(means)), "o", color=colour)
    axes[0][0].set_yticks(range(len(means)), style.labels(list(means.index)))
    axes[0][0].set(xlabel="films per reply", ylabel="system")
    style.note(made, f"n = {turns['session_id'].nunique()} sessions per system.")
    return made


def test_a_made_up_figure_is_drawn_by_the_command_and_listed(folder, monkeypatch, capsys):
    folder = folder / "figures" / "movies-test"
    simulate.simulate(
        SimulateConfig(run="test", systems=("tracker", "silent"), n_sessions=2, n_turns=8), progress=False
    )
    evaluate.evaluate(EvaluateConfig(run="test"))
    capsys.readouterr()
    with restored(figures.FIGURES):
        figures.FIGURES.register(
            "films_per_reply", study="movies", tables=("turns",), place=5.5,
            caption="Films per reply of {systems} systems, mean over {sessions} sessions each.",
        )(films_per_reply)  # fmt: skip
        assert main(["figures", "--run", "test", "--only", "films_per_reply"]) == 0
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["films_per_reply.pdf", "films_per_reply.png"]
        assert (folder / "films_per_reply.png").read_bytes().startswith(b"\x89PNG")
        assert "films_per_reply.png" in capsys.readouterr().out
        order = figures.names("movies")
        assert order.index("films_per_reply") == order.index("paired_effects") + 1
        listed = figures.FIGURES.describe().set_index("name")
        assert listed.loc["films_per_reply", "summary"] == "Points: films in a reply by system."
        monkeypatch.setattr(style, "data", lambda made, kind, dpi: b"drawn")
        assert main(["figures", "--run", "test"]) == 0
        captions = (folder / "captions.md").read_text()
        assert "**films_per_reply.** Films per reply of 2 systems, mean over 2 sessions each." in captions
        assert captions.index("**paired_effects.") < captions.index("**films_per_reply.")
        assert captions.index("**films_per_reply.") < captions.index("**leaderboard.")
        assert main(["figures", "--run", "test", "--only", "films_per_replies"]) == 2
        assert "did you mean 'films_per_reply'?" in capsys.readouterr().err
    assert "films_per_reply" not in figures.names()


class Shortest:
    """The shortest texts first, whatever the query."""

    def __init__(self, texts):
        self.lengths = {name: -len(text) for name, text in texts.items()}

    def search(self, query, k=10):
        return ranked(self.lengths, k)


def test_a_made_up_retriever_serves_the_retrieval_stage_by_its_spec(folder):
    with restored(RETRIEVERS):
        RETRIEVERS.register("shortest")(Shortest)
        assert [hit.id for hit in build("shortest", {"b": "of two", "a": "one"}).search("two")] == ["a", "b"]
        specs = ("shortest", "bm25", "bm25+shortest")
        config = RetrieveSettings(
            run="made-up", router="views", retrievers=specs, rewriters=("last turn",), mapping="", depth=20
        )
        STUDY.run("retrieve", config)
        done = paths.run_folder("cosrec", "made-up")
        runs = {spec: read_run(done / "runs" / f"{paths.slug(f'{spec}, last turn')}.run") for spec in specs}
        shortest = {topic: [hit.id for hit in hits] for topic, hits in runs["shortest"].items()}
        assert len({tuple(ids) for ids in shortest.values()}) <= 2, "one order of products, one of passages"
        lexical = {topic: [hit.id for hit in hits] for topic, hits in runs["bm25"].items()}
        fused = {topic: {hit.id for hit in hits} for topic, hits in runs["bm25+shortest"].items()}
        assert all(fused[topic] & set(ids[:3]) for topic, ids in shortest.items())
        assert all(fused[topic] & set(ids[:3]) for topic, ids in lexical.items() if ids)
        assert shortest != lexical
    with pytest.raises(InputError, match="unknown retriever 'shortest'"):
        build("shortest", {})


def test_a_made_up_data_set_is_listed_located_in_a_mirror_and_verified(tmp_path, monkeypatch, capsys):
    talks = b'{"talks": 2}\n'
    row = Dataset(
        name="small-talk", study="movies", summary="two talks", origin=Origin("a/b", 40 * "0", "CC0"),
        files=files("talk", "data", f"{hashlib.sha256(talks).hexdigest()} {len(talks)} talks.json"),
        folder="talk",
    )  # fmt: skip
    monkeypatch.setitem(datasets.REGISTRY, row.name, row)
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path / "mirror"))
    assert main(["data", "list"]) == 0
    assert any(
        line.split()[:3] == ["small-talk", "movies", "-"] for line in capsys.readouterr().out.splitlines()
    )
    with pytest.raises(RunError, match="python -m crs_lib data get small-talk"):
        datasets.locate("small-talk")
    (tmp_path / "mirror/talk").mkdir(parents=True)
    (tmp_path / "mirror/talk/talks.json").write_bytes(talks)
    assert datasets.locate("small-talk") == tmp_path / "mirror/talk"
    assert main(["data", "verify", "small-talk"]) == 0
    assert capsys.readouterr().out.split()[-6:] == ["small-talk", "mirror", "1", "0", "0", "0"]
    assert main(["data", "list", "small-talk"]) == 0
    assert hashlib.sha256(talks).hexdigest() in capsys.readouterr().out
    (tmp_path / "mirror/talk/talks.json").write_bytes(talks[:-1])
    assert main(["data", "verify", "small-talk"]) == 2
    assert "talk/talks.json differs (mirror)" in capsys.readouterr().err
