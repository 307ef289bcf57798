"""What several tests share: a model server that misbehaves, an engine, a browser, small data, tables, a refusal."""

import tomllib
from functools import cache
from pathlib import Path

import pytest

from crs_lib.core.errors import InputError


def refused(says, call, /, *arguments, error=InputError, **named):
    """The call raises this error of ours, whose text matches."""
    with pytest.raises(error, match=says):
        call(*arguments, **named)


def table(test_file, name):
    """The rows of that name in ``cases.toml`` beside a test's file: the arguments of a parametrized test."""
    return _tables(Path(test_file).with_name("cases.toml"))[name]


@cache
def _tables(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))
