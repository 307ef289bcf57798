"""The base of all configs: each value is checked as its field declares, and errors say what was expected."""

import dataclasses
import importlib
import pickle
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import pytest

import crs_lib
from crs_lib.core.config import Config, Field, OneOf, RunName, Seed, settings_of
from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry

POLICIES: Registry[None] = Registry("policy")


@POLICIES.register("echo")
@POLICIES.register("tracker")
def _policy() -> None:
    """A policy."""


@dataclass(frozen=True)
class Rates(Config):
    """Shares."""

    _where = "rates: "
    first: Annotated[float, Field(ge=0, le=1, description="the first share")] = 0.1


@dataclass(frozen=True)
class Batch(Config):
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
    options: Mapping[str, Any] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    seed: Seed = 7

    def check(self) -> None:
        if self.final and self.arm == "none":
            raise InputError("final is true, but without shifts nothing is final")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 0}, "n is 0; give a whole number from 1 to 1,000,000"),
        ({"n": True}, "n is True; give a whole number from 1 to 1,000,000"),
        ({"n": 2.0}, "n is 2.0; give a whole number from 1 to 1,000,000"),
        ({"n": "3"}, "n is '3'; give a whole number from 1 to 1,000,000"),
        ({"n": None}, "n is None; give a whole number from 1 to 1,000,000"),
        ({"least": 0}, "least is 0; give a whole number >= 1"),
        ({"run": "../x"}, "run name '../x' cannot be a folder; use letters, digits, '.', '_' and '-', starting with a letter or digit"),
        ({"share": 0}, "share is 0; give a number > 0 and <= 1"),
        ({"share": float("nan")}, "share is nan; give a number > 0 and <= 1"),
        ({"share": True}, "share is True; give a number > 0 and <= 1"),
        ({"final": 1}, "final is 1; give true or false"),
        ({"think": "no"}, "think is 'no'; give true, false or null"),
        ({"names": "a"}, "names is 'a'; give a list of texts"),
        ({"names": []}, "names is []; give a list of texts"),
        ({"names": [1]}, "names is [1]; give a list of texts"),
        ({"names": {"a"}}, "names is {'a'}; give a list of texts"),
        ({"policies": ["ehco"]}, "unknown policy 'ehco'; did you mean 'echo'? (known: tracker, echo)"),
        ({"policies": "echo"}, "policies is 'echo'; give a list of policies, e.g. ['tracker', 'echo']"),
        ({"system": "x"}, "unknown policy 'x' (known: tracker, echo)"),
        ({"mapping": "zeros"}, "mapping is 'zeros'; did you mean 'zero'? (known: zero, one, both)"),
        ({"mapping": "x"}, "mapping is 'x'; give one of zero, one, both"),
        ({"arm": "x"}, "arm is 'x'; give 'shift' or 'none'"),
        ({"options": [1]}, "options is [1]; give an object"),
        ({"rates": [1]}, "rates is [1]; give a Rates"),
        ({"rates": {"first": 3}}, "rates: first is 3; give a number from 0 to 1"),
        ({"seed": -1}, "seed -1 is not usable; give a whole number >= 0"),
        ({"lest": 3}, "unknown setting 'lest'; did you mean 'least'? (known: n, least, run, share, final, think, names, policies, system, mapping, arm, options, rates, seed)"),
        ({"final": True, "arm": "none"}, "final is true, but without shifts nothing is final"),
    ],
)  # fmt: skip
def test_an_error_names_the_setting_the_value_and_what_is_expected(given, message):
    with pytest.raises(InputError) as caught:
        Batch(**given)
    assert str(caught.value) == message


def test_an_error_says_where_the_setting_stands():
    with pytest.raises(InputError, match=r"^rates: first is 2; give a number from 0 to 1$"):
        Rates(2)
    with pytest.raises(
        InputError, match=r"^rates: unknown setting 'frist'; did you mean 'first'\? \(known: first\)$"
    ):
        Rates(frist=1)


def test_values_are_held_as_they_are_given_but_lists_are_frozen():
    batch = Batch(3, share=1, names=["a", "b"], options={"x": [1]}, rates=Rates(0))
    assert (batch.n, batch.names, batch.options) == (3, ("a", "b"), {"x": [1]})
    assert type(batch.share) is int  # a manifest says 1 where 1 was given, and 1.0 for 1.0
    assert type(batch.rates.first) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.n = 4
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert dataclasses.asdict(batch)["rates"] == {"first": 0}


def test_a_changed_copy_is_checked_too():
    assert replace(Batch(), n=5).n == 5
    with pytest.raises(InputError, match="n is 0"):
        replace(Batch(), n=0)


def test_help_stands_in_the_docstring_and_with_each_field():
    assert "A batch.\n\nFields:\n    n: sessions\n" in Batch.__doc__
    found = {setting.name: setting for setting in settings_of(Batch)}
    assert (found["n"].help, found["n"].default, found["n"].kind) == ("sessions", 12, int)
    assert found["policies"].several
    assert found["mapping"].names.names() == ["zero", "one", "both"]
    assert found["rates"].default == Rates()


def configs():
    """Every config class of the package."""
    for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [found for found in Config.__subclasses__() if found.__module__.startswith("crs_lib.")]


def test_every_config_is_frozen_and_says_what_each_field_is():
    for config in configs():
        assert config.__dataclass_params__.frozen, config
        for setting in settings_of(config):
            where = f"{config.__name__}.{setting.name}"
            assert setting.help, f"{where} has no description"
            assert "\n" not in setting.help
            if not setting.required:
                assert setting.checked(setting.default) == setting.default, where
