"""The base of all configs: each value is checked as its field declares, and errors say what was expected."""

import contextlib
import functools
import importlib
import io
import os
import pickle
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import ValidationError

import crs_lib
from crs_lib.core import progress
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, OneOf, Registry, RunName, Seed, Settings, fields_of
from tests.helpers import refused
from tests.helpers.jobs import wait_until

POLICIES: Registry[None] = Registry("policy")


@POLICIES.register("echo")
@POLICIES.register("tracker")
def _policy():
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
    ({"names": "a"}, "names is 'a'; give a list"), ({"names": []}, "names is []; give a list"),
    ({"names": [1]}, "names is [1]; give a list"), ({"names": {"a"}}, "names is {'a'}; give a list"),
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
    assert batch.changed(n=5).n == 5
    refused("n is 0", batch.changed, n=0)


def test_help_stands_in_the_docstring_and_with_each_field():
    assert "A batch.\n\nFields:\n    n: sessions\n" in Batch.__doc__
    settings = {setting.name: setting for setting in fields_of(Batch)}
    assert (settings["n"].help, settings["n"].default, settings["n"].kind) == ("sessions", 12, int)
    assert settings["policies"].several
    assert settings["mapping"].names.names() == ["zero", "one", "both"]
    assert settings["rates"].default == Rates()


def configs():
    """Every config class of the package."""
    for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes = []
    for config in Settings.__subclasses__():
        is_public = hasattr(sys.modules[config.__module__], config.__name__)  # no options
        if is_public and config.__module__.startswith("crs_lib."):
            classes.append(config)
    return classes


def test_every_config_says_what_each_field_is():
    for config in configs():
        for setting in fields_of(config):
            assert setting.help and "\n" not in setting.help, f"{config.__name__}.{setting.name}"


def test_a_field_without_default_must_be_given_and_what_follows_is_computed_once():
    class Judged(Settings):
        run: RunName

        @functools.cached_property
        def shout(self) -> str:
            return self.run.upper()

    refused(r"^run is missing; give it$", Judged)
    judged = Judged(run="r")
    assert judged.shout is judged.shout == "R"
    assert (judged, hash(judged)) == (Judged(run="r"), hash(Judged(run="r")))
    assert judged.values() == {"run": "r"}
    assert [setting.required for setting in fields_of(Judged)] == [True]


@pytest.fixture
def animals():
    registry = Registry("animal")

    @registry.register("cat", legs=4)
    class Cat:
        """Purrs.

        And more.
        """

        def __init__(self, name="Tom"):
            self.name = name

    @registry.register("parrot", legs=2, argument="a phrase", example="hello")
    def parrot(argument):
        """Repeats a phrase."""
        return f"says {argument}"

    return registry


def test_a_name_makes_a_thing_and_lists_are_read_in_order(animals):
    assert animals.create("cat").name == "Tom"
    assert animals.create("cat", name="Kit").name == "Kit"
    assert animals.create("parrot:a:b") == "says a:b"  # only the first colon separates
    assert animals.names() == [entry.name for entry in animals] == ["cat", "parrot"]
    assert len(animals) == 2
    assert "parrot:hello" in animals
    assert "dog" not in animals
    assert 3 not in animals
    table = animals.describe()
    rows = table.loc[:, ["name", "summary", "legs"]].to_numpy().tolist()
    assert rows == [["cat", "Purrs.", 4], ["parrot", "Repeats a phrase.", 2]]
    assert table["argument"].isna().tolist() == [True, False]
    refused("'cat' is registered twice", animals.register, "cat")
    refused("holds a colon", animals.register, "cat:big")


@pytest.mark.parametrize(("spec", "message"), [
    ("parot:x", "unknown animal 'parot:x'; did you mean 'parrot'"),
    ("zebra", r"unknown animal 'zebra' \(known: cat, parrot\)"), ("", "unknown animal ''"),
    ("parrot", "needs a phrase after a colon, e.g. parrot:hello"),
    ("parrot:", "needs a phrase after a colon"), ("cat:x", "'cat' takes no argument, got 'cat:x'"),
])  # fmt: skip
def test_a_wrong_spec_says_what_to_do(animals, spec, message):
    refused(message, animals.create, spec)


def test_members_with_a_place_come_first_and_the_files_of_a_room_register_themselves(tmp_path, monkeypatch):
    registry = Registry("step")
    for name, facts in (("later", {}), ("second", {"place": 2.5}), ("last", {}), ("first", {"place": 1})):
        registry.register(name, **facts)(lambda: None)
    assert registry.names() == [entry.name for entry in registry] == ["first", "second", "later", "last"]
    assert list(registry.describe().columns) == ["name", "summary"]
    room = tmp_path / "made_up_zoo"
    room.mkdir()
    base = "from crs_lib.core.settings import Registry\nZOO = Registry('animal', room='made_up_zoo')\n"
    member = "from made_up_zoo.base import ZOO\n@ZOO.register({0!r})\ndef make():\n    return {0!r}\n"
    files = {"__init__": "", "base": base, "ape": member.format("ape"), "bear": member.format("bear")}
    for name, text in files.items():
        (room / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    zoo = importlib.import_module("made_up_zoo.base").ZOO
    assert "made_up_zoo.bear" not in sys.modules
    assert zoo.create("bear") == "bear"
    assert zoo.names() == ["ape", "bear"]
    assert [zoo.get("ape").name, len(zoo)] == ["ape", 2]


def test_suggestions_only_where_something_is_near():
    assert did_you_mean("trakcer", ["tracker", "echo"]) == "; did you mean 'tracker'?"
    assert did_you_mean("qqq", ["tracker", "echo"]) == did_you_mean("x", []) == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    monkeypatch.delenv("CRS_PROGRESS", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def drawn(screen, **options):
    """What a bar of four films, one of them done before and three now, writes to standard error."""
    with contextlib.redirect_stderr(screen), progress.bar(4, done=1, label="films", **options) as bar:
        bar.update(3, label="films")
    return screen.getvalue()


def test_a_terminal_shows_how_far_it_is_unless_the_job_is_to_be_quiet_or_it_is_gone(monkeypatch, tmp_path):
    text = drawn(Terminal())
    assert "films" in text
    assert "4/4" in text
    assert drawn(io.StringIO()) == drawn(Terminal(), shown=False) == ""
    monkeypatch.setenv("CRS_PROGRESS", "off")
    assert drawn(Terminal()) == ""
    monkeypatch.setenv("CRS_PROGRESS", str(tmp_path / "no" / "terminal"))
    assert drawn(Terminal()) == ""
    with contextlib.redirect_stderr(io.StringIO()):
        assert progress.terminal() is None


def test_without_a_terminal_a_line_comes_once_there_is_something_to_wait_for(monkeypatch, tmp_path):
    screen = io.StringIO()
    with contextlib.redirect_stderr(screen), progress.bar(4, label="Ours") as bar:
        bar.update(1, label="tracker")
        wait_until(screen.getvalue)
        bar.update(3)
    assert re.fullmatch(r"tracker: 1 of 4 sessions, about \d+ s left\n", screen.getvalue())
    monkeypatch.setenv("CRS_PROGRESS", f"lines:{tmp_path / 'lines.txt'}")
    with progress.bar(2, label="films", unit="film"):
        wait_until(lambda: (tmp_path / "lines.txt").read_text())
    assert (tmp_path / "lines.txt").read_text() == "films: 0 of 2 films\n"


def test_a_live_jupyterlab_shows_an_element_and_a_bare_kernel_waits_but_may_draw_on_a_terminal(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert drawn(io.StringIO()) == ""
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_simulate.ipynb")
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda element, **place: shown.append(element.data))
    assert drawn(io.StringIO()) == ""
    assert '<progress value="1" max="4"></progress> films: 1 of 4 sessions' in shown[0]
    assert shown[-1] == ""
    main, other = os.openpty()
    monkeypatch.setenv("CRS_PROGRESS", os.ttyname(other))
    assert drawn(io.StringIO()) == ""
    assert "films" in os.read(main, 10_000).decode()
    os.close(main)
    os.close(other)
