"""Bars are drawn where somebody watches: a terminal, a live JupyterLab; nowhere else."""

import contextlib
import io
import os
import sys

import pytest

from crs_lib.core import progress


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
        bar.update(3)
    return screen.getvalue()


def test_a_terminal_shows_how_far_it_is_unless_the_job_is_to_be_quiet(monkeypatch):
    text = drawn(Terminal())
    assert "films" in text and "4/4" in text
    assert drawn(io.StringIO()) == drawn(Terminal(), shown=False) == ""
    monkeypatch.setenv("CRS_PROGRESS", "off")
    assert drawn(Terminal()) == ""


def test_a_live_jupyterlab_is_watched_and_a_bare_kernel_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert drawn(io.StringIO()) == ""
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_simulate.ipynb")
    assert "4/4" in drawn(io.StringIO())


def test_a_kernel_can_draw_on_the_terminal_that_the_command_was_typed_in(monkeypatch):
    main, other = os.openpty()
    monkeypatch.setenv("CRS_PROGRESS", os.ttyname(other))
    assert drawn(io.StringIO()) == ""
    assert "films" in os.read(main, 10_000).decode()
    os.close(main)
    os.close(other)


def test_a_terminal_that_is_gone_is_no_reason_to_fail_and_a_buffer_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_PROGRESS", str(tmp_path / "no" / "terminal"))
    assert drawn(Terminal()) == ""
    with contextlib.redirect_stderr(io.StringIO()):
        assert progress.terminal() is None
