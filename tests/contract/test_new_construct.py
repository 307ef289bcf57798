"""A judge construct is one row and one prompt file: a made-up one goes all the way from prompt to figure."""

import json
import shutil

import pytest

from crs_lib import evaluate, figures, simulate
from crs_lib import judge as judging
from crs_lib.core import prompts as templates
from crs_lib.evaluate import planned
from crs_lib.judge import prompt
from crs_lib.judge.config import JudgeConfig, JudgeSettings
from crs_lib.llm.template import answer as template_answer
from crs_lib.metrics import constructs
from crs_lib.metrics.constructs import Construct
from crs_lib.report import figure_tables
from crs_lib.simulate.config import SimulateConfig
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import scored, simulated

SHIPPED = ("proactiveness", "coherence", "personalization")
CRITERION = """warmth: is the recommender kind?
0 - It insults the user.
1 - It is curt.
2 - It is neutral.
3 - It is friendly.
4 - It is warm throughout."""
SCORES = {"proactiveness": 2, "coherence": 4, "personalization": 3, "warmth": 0}


@pytest.fixture
def warmth(tmp_path, monkeypatch):
    """A fourth construct with a scale of its own, declared as a user would: a row, and a prompt file."""
    folder = tmp_path / "prompts"
    shutil.copytree(templates._FOLDER, folder)
    (folder / "movies" / "judge_warmth.txt").write_text(CRITERION + "\n", encoding="utf-8")
    monkeypatch.setattr(templates, "_FOLDER", folder)
    before = prompt.digest()
    row = Construct("warmth", "movies/judge_warmth", lowest=0, highest=4, label="warm-\nth")
    monkeypatch.setitem(constructs.CONSTRUCTS, "warmth", row)
    yield before
    templates._prompt.cache_clear()


def judge_model(text, schema, seed):
    """SCORES as a reply where the schema is that of a judgement; else the template's answer."""
    if not schema or schema.get("title") != "Judgement":
        return template_answer(text, schema, seed)
    verdicts = {name: {"evidence": "turn 1", "score": SCORES[name]} for name in schema["properties"]}
    return json.dumps(verdicts)


@pytest.fixture
def requests(tmp_path, monkeypatch, warmth):
    """The requests to a judge of a run of two systems, judged, and evaluated."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    simulated(run="kind", systems=["tracker", "popular"], n_sessions=3, n_turns=3)
    with OllamaServer({"j:1": "a" * 64}, answer=judge_model) as server:
        judging.judge_run("kind", ["ollama:j:1"], canaries=(), llm={"host": server.url}, progress=False)
        requests = list(server.bodies)
    evaluate.evaluate(evaluate.EvaluateConfig(run="kind"))
    return requests


def results_of(run):
    """The judge's means of each session of a run."""
    text = (simulate.run_folder(run) / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["judge"] for line in text.splitlines()]


def test_a_construct_goes_from_prompt_to_panel(requests):
    check_requests(requests)
    check_scores()
    check_results()
    check_pictures()


def check_requests(requests):
    """Six dialogues are asked of four constructs each, the new one with its own scale."""
    assert len(requests) == 6 * 4
    others = 0
    ours = []
    for body in requests:
        system, user = (message["content"] for message in body["messages"])
        if CRITERION in user:
            ours.append(body)
            assert "a whole number from 0 to 4" in system
        else:
            others += "a whole number from 1 to 5" in system
    assert len(ours) == 6
    assert others == 18
    scale = {"maximum": 4, "minimum": 0, "title": "Score", "type": "integer"}
    for body in ours:
        assert body["format"]["$defs"]["Verdict"]["properties"]["score"] == scale


def check_scores():
    for score in judging.scores_of("kind").values():
        assert score["judge"] == SCORES
        assert score["scores"] == 4
    assert judging.score_table("kind").groupby("construct")["score"].mean().to_dict() == SCORES
    assert list(judging.shown_scores("kind")["construct"]) == sorted(SCORES)
    assert set(judging.reliability_of("kind")["construct"]) - {""} == set(SCORES)


def check_results():
    judged = results_of("kind")
    assert judged == [SCORES] * len(judged)
    scored(run="silent", systems=["tracker"], n_sessions=1, n_turns=2)
    assert results_of("silent") == [dict.fromkeys((*SHIPPED, "warmth"))]


def check_pictures():
    assert set(figure_tables.read("kind", "judge_means")["construct"]) == set(SCORES)
    scatter = figures.make("judge_scatter", evaluate.read("kind", "results"))
    titles = [axes.get_title() for axes in scatter.axes]
    assert "warmth ↑" in " ".join(titles)
    assert scatter.axes[0].get_ylim()[0] < 0  # the axis begins at the lowest level of all constructs


def test_a_construct_is_part_of_the_rubric(warmth):
    assert prompt.digest() != warmth


def test_a_construct_shares_a_call_with_its_scale_only(warmth):
    assert JudgeSettings().groups == tuple((name,) for name in SCORES)
    assert JudgeSettings(together=True).groups == (SHIPPED, ("warmth",))
    config = JudgeConfig(run="x", judges=["template"], llm={"together": True})
    assert len(config.asked.groups) == 2
    assert config.needs()[0].prompt > 0


def test_a_construct_is_counted_in_an_estimate(warmth):
    (work,) = planned(SimulateConfig(systems=["tracker"], n_sessions=2, n_turns=3), {"judges": ["template"]})
    assert work.calls == 2 * 2 * 4  # sessions and their canaries x constructs


def test_without_it_all_is_as_before():
    assert constructs.names() == SHIPPED
    assert prompt.digest() == "c3159273bbd53ba8866fc9d361f621af5c254bb6d6d1362aab945e01eb32aadb"
