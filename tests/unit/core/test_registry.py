"""Registries: a name makes a thing, a wrong name gets help, a member describes itself."""

import importlib
import sys

import pytest

from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Registry


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
    assert animals.names() == ["cat", "parrot"]
    assert [entry.name for entry in animals] == ["cat", "parrot"]
    assert len(animals) == 2
    assert "parrot:hello" in animals
    assert "dog" not in animals
    assert 3 not in animals
    table = animals.describe()
    assert table.loc[:, ["name", "summary", "legs"]].to_numpy().tolist() == [
        ["cat", "Purrs.", 4],
        ["parrot", "Repeats a phrase.", 2],
    ]
    assert table["argument"].isna().tolist() == [True, False]
    with pytest.raises(InputError, match="'cat' is registered twice"):
        animals.register("cat")
    with pytest.raises(InputError, match="holds a colon"):
        animals.register("cat:big")


@pytest.mark.parametrize(("spec", "message"), [
    ("parot:x", "unknown animal 'parot:x'; did you mean 'parrot'"),
    ("zebra", r"unknown animal 'zebra' \(known: cat, parrot\)"),
    ("", "unknown animal ''"),
    ("parrot", "needs a phrase after a colon, e.g. parrot:hello"),
    ("parrot:", "needs a phrase after a colon"),
    ("cat:x", "'cat' takes no argument, got 'cat:x'"),
])  # fmt: skip
def test_a_wrong_spec_says_what_to_do(animals, spec, message):
    with pytest.raises(InputError, match=message):
        animals.create(spec)


def test_members_with_a_place_come_first_in_its_order():
    registry = Registry("step")
    for name, facts in (("later", {}), ("second", {"place": 2.5}), ("last", {}), ("first", {"place": 1})):
        registry.register(name, **facts)(lambda: None)
    assert registry.names() == ["first", "second", "later", "last"]
    assert [entry.name for entry in registry] == registry.names()
    assert list(registry.describe().columns) == ["name", "summary"]


def test_the_files_of_a_room_register_themselves_when_the_registry_is_first_read(tmp_path, monkeypatch):
    room = tmp_path / "made_up_zoo"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "base.py").write_text(
        "from crs_lib.core.settings import Registry\nZOO = Registry('animal', room='made_up_zoo')\n"
    )
    for name in ("ape", "bear"):
        (room / f"{name}.py").write_text(
            f"from made_up_zoo.base import ZOO\n@ZOO.register({name!r})\ndef make():\n    return {name!r}\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    zoo = importlib.import_module("made_up_zoo.base").ZOO
    assert "made_up_zoo.bear" not in sys.modules
    assert zoo.create("bear") == "bear"
    assert zoo.names() == ["ape", "bear"]
    assert [importlib.import_module("made_up_zoo.base").ZOO.get("ape").name, len(zoo)] == ["ape", 2]


def test_suggestions_only_where_something_is_near():
    assert did_you_mean("trakcer", ["tracker", "echo"]) == "; did you mean 'tracker'?"
    assert did_you_mean("qqq", ["tracker", "echo"]) == ""
    assert did_you_mean("x", []) == ""
