"""The base of all configs: each value is checked as its field declares, and errors say what was expected."""

import functools
import importlib
import pickle
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import ValidationError

import crs_lib
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, Registry, RunName, Seed, Settings, fields_of

POLICIES: Registry[None] = Registry("policy")


@POLICIES.register("echo")
@POLICIES.register("tracker")
def _policy() -> None:
    """A policy."""


class Rates(Settings):
    """Shares."""

    _where = "rates: "
    first: Annotated[float, Field(ge=0, le=1, description="the first share")] = 0.1


class Batch(Settings):
    """A batch."""

    n: Annotated[int, Field(ge=1, le=1_000_000, description="sessions")] = 12
    least: Annotated[int, Field(ge=1)] = 1
    run: RunName = "smoke"
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    final: bool = False
    think: bool | None = None
    names: Annotated[Sequence[str], Field(min_length=1)] = ("a",)
    policies: tuple[Annotated[str, OneOf(POLICIES)], ...] = ("echo",)
    system: Annotated[str, OneOf(POLICIES)] = "echo"
    mapping: Annotated[str, OneOf(lambda: ("zero", "one", "both"))] = "zero"
    arm: Literal["shift", "none"] = "shift"
    options: Mapping[str, Any] = {}
    rates: Rates = Rates()
    seed: Seed = 7

    def check(self) -> None:
        if self.final and self.arm == "none":
            raise InputError("final is true, but without shifts nothing is final")


@pytest.mark.parametrize(("given", "message"), [
    ({"n": 0}, "n is 0; input should be greater than or equal to 1"),
    ({"n": True}, "n is True; input should be a valid integer"),
    ({"n": 2.0}, "n is 2.0; input should be a valid integer"),
    ({"n": "3"}, "n is '3'; input should be a valid integer"),
    ({"n": None}, "n is None; input should be a valid integer"),
    ({"least": 0}, "least is 0; input should be greater than or equal to 1"),
    ({"run": "../x"}, "run name '../x' cannot be a folder; use letters, digits, '.', '_' and '-', starting with a letter or digit"),
    ({"share": 0}, "share is 0; input should be greater than 0"),
    ({"share": float("nan")}, "share is nan; input should be a finite number"),
    ({"share": True}, "share is True; input should be a valid number"),
    ({"final": 1}, "final is 1; input should be a valid boolean"),
    ({"think": "no"}, "think is 'no'; input should be a valid boolean"),
    ({"names": "a"}, "names is 'a'; give a list"),
    ({"names": []}, "names is []; give a list"),
    ({"names": [1]}, "names is [1]; give a list"),
    ({"names": {"a"}}, "names is {'a'}; give a list"),
    ({"policies": ["ehco"]}, "unknown policy 'ehco'; did you mean 'echo'? (known: tracker, echo)"),
    ({"policies": "echo"}, "policies is 'echo'; give a list, e.g. ['tracker', 'echo']"),
    ({"system": "x"}, "unknown policy 'x' (known: tracker, echo)"),
    ({"mapping": "zeros"}, "mapping is 'zeros'; give one of zero, one, both; did you mean 'zero'?"),
    ({"mapping": "x"}, "mapping is 'x'; give one of zero, one, both"),
    ({"arm": "x"}, "arm is 'x'; give one of shift, none"),
    ({"options": [1]}, "options is [1]; input should be a valid dictionary"),
    ({"rates": [1]}, "rates is [1]; input should be a valid dictionary or instance of Rates"),
    ({"rates": {"first": 3}}, "rates: first is 3; input should be less than or equal to 1"),
    ({"seed": -1}, "seed -1 is not usable; give a whole number >= 0"),
    ({"lest": 3}, "unknown setting 'lest'; did you mean 'least'? (known: n, least, run, share, final, think, names, policies, system, mapping, arm, options, rates, seed)"),
    ({"final": True, "arm": "none"}, "final is true, but without shifts nothing is final"),
])  # fmt: skip
def test_an_error_names_the_setting_the_value_and_what_is_expected(given, message):
    with pytest.raises(InputError) as caught:
        Batch(**given)
    assert str(caught.value) == message


def test_values_are_held_as_they_are_given_but_lists_are_frozen():
    batch = Batch(n=3, share=1, names=["a", "b"], options={"x": [1]}, rates=Rates(first=0))
    assert (batch.n, batch.names, batch.options) == (3, ("a", "b"), {"x": [1]})
    assert type(batch.share) is int  # a manifest says 1 where 1 was given, and 1.0 for 1.0
    assert type(batch.rates.first) is int
    with pytest.raises(ValidationError):
        batch.n = 4
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert batch.values()["rates"] == {"first": 0}


def test_a_changed_copy_is_checked_too():
    assert Batch().changed(n=5).n == 5
    with pytest.raises(InputError, match="n is 0"):
        Batch().changed(n=0)


def test_help_stands_in_the_docstring_and_with_each_field():
    assert "A batch.\n\nFields:\n    n: sessions\n" in Batch.__doc__
    found = {setting.name: setting for setting in fields_of(Batch)}
    assert (found["n"].help, found["n"].default, found["n"].kind) == ("sessions", 12, int)
    assert found["policies"].several
    assert found["mapping"].names.names() == ["zero", "one", "both"]
    assert found["rates"].default == Rates()


def configs():
    """Every config class of the package."""
    for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [found for found in Settings.__subclasses__() if found.__module__.startswith("crs_lib.")]


def test_every_config_is_frozen_and_says_what_each_field_is():
    for config in configs():
        for setting in fields_of(config):
            where = f"{config.__name__}.{setting.name}"
            assert setting.help, f"{where} has no description"
            assert "\n" not in setting.help


def test_a_field_without_default_must_be_given_and_what_follows_is_computed_once():
    class Judged(Settings):
        run: RunName

        @functools.cached_property
        def shout(self) -> str:
            return self.run.upper()

    with pytest.raises(InputError, match=r"^run is missing; give it$"):
        Judged()
    judged = Judged(run="r")
    assert judged.shout is judged.shout == "R"
    assert judged == Judged(run="r")
    assert hash(judged) == hash(Judged(run="r"))
    assert judged.values() == {"run": "r"}
    assert [setting.required for setting in fields_of(Judged)] == [True]
