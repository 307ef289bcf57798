"""Options made from a function's parameters and from the fields of settings, stated once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest

from crs_lib.cli import app
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Entry, Field, OneOf, Seed, Settings


class Job(Settings):
    """A job."""

    source: Annotated[str, Field(description="where it begins")]
    n_turns: Annotated[int, Field(ge=1, description="turns of a session")] = 20
    share: Annotated[float, Field(gt=0, le=1, description="100 % or less")] = 0.5
    systems: Annotated[tuple[str, ...], Field(description="who answers")] = ("tracker", "echo")
    sizes: Annotated[tuple[Seed, ...], Field(description="context sizes")] = ()
    way: Annotated[str, OneOf(("fast", "slow")), Field(description="how")] = "fast"
    final: Annotated[bool, Field(description="for good")] = False
    least: Annotated[int | None, Field(description="at least")] = None
    llm: Annotated[Mapping[str, Any], Field(description="settings")] = {}


def parsed(words, fields="", **defaults):
    """What a function that takes the fields of a job is called with."""
    seen = {}

    def do(**given: Any) -> None:
        seen.update(given)

    facts = {"takes": [f"{__name__}:Job {fields}"], "defaults": defaults}
    app._do(Entry("do", do, "", facts), words.split())
    return seen


def own(words):
    """What a function with parameters of its own is called with."""
    seen = {}

    def do(
        name: str, more: tuple[str, ...] = (), *, p: tuple[list[str], ...] = (), n_runs: int = 3,
        out: Path | None = None, log: tuple[str, ...] = (), import_: bool = False,
    ) -> None:  # fmt: skip
        """Do it.

        All of it.

        name: who does it
        n_runs: how often
        """
        seen.update(name=name, more=more, p=p, n_runs=n_runs, out=out, log=log, import_=import_)

    app._do(Entry("do", do, ""), words.split())
    return seen


def test_every_field_is_an_option_and_what_is_not_given_is_absent():
    words = (
        "--source a --turns 7 --share 1 --systems tracker,ollama:a:1 --sizes 1,2 --way slow --final --least 0"
    )
    assert Job(**parsed(f'{words} --llm {{"slots":8}}')) == Job(
        source="a", n_turns=7, share=1.0, systems=("tracker", "ollama:a:1"), sizes=(1, 2), way="slow",
        final=True, least=0, llm={"slots": 8},
    )  # fmt: skip
    assert parsed("--source a") == {"source": "a"}
    assert parsed("--n-turns 4", "n_turns share", share=0.1) == {"n_turns": 4, "share": 0.1}


@pytest.mark.parametrize(("words", "message"), [
    ("--turns two", "n_turns is 'two'; input should be a valid integer"),
    ("--turns 0", "n_turns is 0; input should be greater than or equal to 1"),
    ("--turns 1.5", "n_turns is '1.5'; input should be a valid integer"),
    ("--share nan", "share is nan; input should be a finite number"),
    ("--sizes 1,b", "sizes is '1,b'; give a list"),
    ("--way fats", "way is 'fats'; give one of fast, slow; did you mean 'fast'"),
    ("--llm 8", "llm is 8; input should be a valid dictionary"),
    ("--llm {", "llm is '{'; input should be a valid dictionary"),
])  # fmt: skip
def test_a_wrong_value_is_the_settings_error(words, message):
    with pytest.raises(InputError, match=message):
        Job(**parsed(f"--source a {words}"))


def test_a_field_without_default_must_be_given(capsys):
    with pytest.raises(SystemExit):
        parsed("")
    assert "--source" in capsys.readouterr().err


def test_parameters_of_the_function_are_options_too(tmp_path):
    usual = {"more": (), "p": (), "n_runs": 3, "out": None, "log": (), "import_": False}
    assert own("a") == {"name": "a", **usual}
    assert own("a b c -p x 1 -p y 2 --runs 4 --import") == {
        "name": "a", **usual, "more": ("b", "c"), "p": (["x", "1"], ["y", "2"]), "n_runs": 4, "import_": True,
    }  # fmt: skip
    assert own(f"a --log r s --log t --out {tmp_path}")["log"] == ("r", "s", "t")
    assert own("a --out ~/x")["out"] == Path.home() / "x"
    with pytest.raises(InputError, match="n_runs is 'many'; input should be a valid integer"):
        own("a --runs many")


def test_the_help_says_what_a_field_is_its_choices_and_its_default(capsys):
    for one in (parsed, own):
        with pytest.raises(SystemExit):
            one("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "--source SOURCE where it begins --turns N turns of a session (default: 20)",
        "--share X 100 % or less (default: 0.5)",
        "--systems A,B who answers (default: tracker, echo) --sizes A,B context sizes --way",
        "--way WAY how; fast or slow (default: fast) --final for good --least N at least",
        "--llm JSON settings", "Do it. All of it.", "name who does it", "--runs N how often (default: 3)",
    ):  # fmt: skip
        assert part in shown
