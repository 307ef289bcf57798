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


def test_it_goes_from_prompt_to_scores_results_table_and_panel(tmp_path, monkeypatch, warmth):
    """A run of two systems, judged by a model that gives SCORES, and evaluated."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))

    def answer(text, schema, seed):
        if not schema or schema.get("title") != "Judgement":
            return template_answer(text, schema, seed)
        verdicts = {name: {"evidence": "turn 1", "score": SCORES[name]} for name in schema["properties"]}
        return json.dumps(verdicts)

    simulated(run="kind", systems=["tracker", "popular"], n_sessions=3, n_turns=3)
    with OllamaServer({"j:1": "a" * 64}, answer=answer) as server:
        judging.judge_run("kind", ["ollama:j:1"], canaries=(), llm={"host": server.url}, progress=False)
        assert server.chats == 6 * 4  # dialogues x constructs
        prompts, schemas = ([body[name] for body in server.bodies] for name in ("messages", "format"))
    evaluate.evaluate(evaluate.EvaluateConfig(run="kind"))
    mine = [place for place, (_, user) in enumerate(prompts) if CRITERION in user["content"]]
    assert len(mine) == 6
    assert all("a whole number from 0 to 4" in prompts[place][0]["content"] for place in mine)
    assert sum("a whole number from 1 to 5" in system["content"] for system, _ in prompts) == 18
    scale = {"maximum": 4, "minimum": 0, "title": "Score", "type": "integer"}
    assert all(schemas[place]["$defs"]["Verdict"]["properties"]["score"] == scale for place in mine)
    for found in judging.scores_of("kind").values():
        assert (found["judge"], found["scores"]) == (SCORES, 4)
    assert judging.score_table("kind").groupby("construct")["score"].mean().to_dict() == SCORES
    assert list(judging.shown_scores("kind")["construct"]) == sorted(SCORES)
    assert {*judging.reliability_of("kind")["construct"]} - {""} == {*SCORES}
    for line in (simulate.run_folder("kind") / "results.jsonl").read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["judge"] == SCORES
    scored(run="silent", systems=["tracker"], n_sessions=1, n_turns=2)
    record = json.loads((simulate.run_folder("silent") / "results.jsonl").read_text(encoding="utf-8"))
    assert record["judge"] == dict.fromkeys((*SHIPPED, "warmth"))
    assert {*figure_tables.read("kind", "judge_means")["construct"]} == {*SCORES}
    scatter = figures.make("judge_scatter", evaluate.read("kind", "results"))
    assert any("warmth ↑" in axes.get_title() for axes in scatter.axes)
    assert scatter.axes[0].get_ylim()[0] < 0  # the axis begins at the lowest level of all constructs


def test_it_is_counted_and_part_of_the_rubric_and_shares_a_call_with_its_scale_only(warmth):
    assert prompt.digest() != warmth
    assert JudgeSettings().groups == tuple((name,) for name in SCORES)
    assert JudgeSettings(together=True).groups == (SHIPPED, ("warmth",))
    asked = JudgeConfig(run="x", judges=["template"], llm={"together": True})
    assert len(asked.asked.groups) == 2 and asked.needs()[0].prompt > 0
    (work,) = planned(SimulateConfig(systems=["tracker"], n_sessions=2, n_turns=3), {"judges": ["template"]})
    assert work.calls == 2 * 2 * 4  # sessions and their canaries x constructs


def test_without_it_all_is_as_before():
    assert constructs.names() == SHIPPED
    assert prompt.digest() == "0661669fb3a782b20fb3f95f1cf9bffc9b338bd3a2f654f2e22dcb5edbfde91f"
