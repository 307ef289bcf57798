"""Arguments made from a config's fields: the same names, defaults and checks, stated once."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Annotated, Any

import pytest

from crs_lib.cli import app as options
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, Settings


class Job(Settings):
    """A job."""

    source: Annotated[str, Field(description="where it begins")]
    n_turns: Annotated[int, Field(ge=1, description="turns of a session")] = 20
    share: Annotated[float, Field(gt=0, le=1, description="100 % or less")] = 0.5
    systems: Annotated[tuple[str, ...], Field(description="who answers")] = ("tracker", "echo")
    sizes: Annotated[tuple[int, ...], Field(description="context sizes")] = ()
    way: Annotated[str, OneOf(("fast", "slow")), Field(description="how")] = "fast"
    final: Annotated[bool, Field(description="for good")] = False
    least: Annotated[int | None, Field(description="at least")] = None
    llm: Annotated[Mapping[str, Any], Field(description="settings")] = {}


def parsed(words, *names, **defaults):
    parser = ArgumentParser()
    options.settings(f"{__name__}:Job", *names, **defaults)(parser)
    return parser.parse_args(words)


def test_every_field_is_an_option_read_as_its_type():
    words = "--source a --turns 7 --share 1 --systems tracker,ollama:a:1 --sizes 1,2 --way slow --final --least 0".split()
    found = options.read(parsed([*words, "--llm", '{"slots": 8}']), Job)
    assert found == Job(
        source="a", n_turns=7, share=1.0, systems=("tracker", "ollama:a:1"), sizes=(1, 2), way="slow",
        final=True, least=0, llm={"slots": 8},
    )  # fmt: skip


def test_what_is_not_given_has_the_fields_default():
    assert options.read(parsed(["--source", "a"]), Job) == Job(source="a")


def test_some_fields_with_defaults_of_their_own():
    arguments = parsed([], "way", n_turns=3, source="here", share=None)
    assert vars(arguments) == {"source": "here", "n_turns": 3, "way": "fast", "share": None}
    assert options.values(arguments, Job)["share"] is None
    del arguments.share
    assert options.read(arguments, Job, final=True) == Job(source="here", n_turns=3, final=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--turns two", "n_turns is 'two'; give a whole number >= 1"),
        ("--turns 0", "n_turns is 0; give a whole number >= 1"),
        ("--turns 1.5", "n_turns is '1.5'; give a whole number >= 1"),
        ("--share nan", "share is nan; give a number > 0 and <= 1"),
        ("--sizes 1,b", r"sizes is \[1, 'b'\]; give a list of whole numbers"),
        ("--way fats", "way is 'fats'; did you mean 'fast'"),
        ("--llm 8", "llm is 8; give an object"),
        ("--llm {", "llm is '{'; give an object"),
    ],
)
def test_a_wrong_value_is_the_configs_error(words, message):
    with pytest.raises(InputError, match=message):
        options.read(parsed(["--source", "a", *words.split()]), Job)


def test_a_field_without_default_must_be_given(capsys):
    with pytest.raises(SystemExit):
        parsed([])
    assert "--source" in capsys.readouterr().err


def test_the_help_says_what_a_field_is_its_choices_and_its_default(capsys):
    with pytest.raises(SystemExit):
        parsed(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--source SOURCE where it begins --turns N turns of a session (default: 20)" in shown
    assert "--share X 100 % or less (default: 0.5)" in shown
    assert "--systems A,B who answers (default: tracker, echo) --sizes A,B context sizes --way" in shown
    assert "--way WAY how; fast or slow (default: fast) --final for good --least N at least" in shown
    assert "--llm JSON settings" in shown
