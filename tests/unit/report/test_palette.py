"""One colour for each system and each field: notebooks' figures and texts, report and trace."""

import re
from types import SimpleNamespace

import matplotlib
import pytest

from crs_lib.catalog.fields import FIELDS
from crs_lib.core import dialogue
from crs_lib.core.dialogue import Dialogue, Mark, Turn
from crs_lib.figures import style
from crs_lib.report.session import TITLE
from crs_lib.report.trace import _Index


class Files:
    """What the index of a trace asks of a run."""

    run, models, types, session_metrics = "colours", ["tracker", "oracle", "ollama:a"], [], []


class View:
    """What it asks of the records of sessions."""

    scorer = SimpleNamespace(convention=SimpleNamespace(name="default"))
    catalog, metrics = SimpleNamespace(fields=FIELDS), []


@pytest.fixture
def index():
    return _Index(Files(), View(), 10).data()


def contrast(ink, paper):
    """The ratio of luminances (WCAG 2.1), 1 to 21."""

    def luminance(colour):
        parts = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in matplotlib.colors.to_rgb(colour)
        ]
        return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    bright, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_systems_and_new_fields_have_one_colour_that_stays(index):
    looks = style.looks(Files.models)
    assert {m["name"]: m["colour"] for m in index["models"]} == {
        name: look.colour for name, look in looks.items()
    }
    assert dialogue.tint_place("country") == dialogue.tint_place("country") in range(8)


def test_a_field_has_one_colour_in_the_notebook_and_in_the_trace(index):
    """A dialogue with this field alone, so that no order of fields can decide."""
    rules = dict(re.findall(r"--(f\d): (#\w{6})", dialogue.tint_css().split("@media")[0]))
    for field in (*FIELDS, TITLE):
        turns = (Turn("USER", "one", marks=(Mark(0, 3, field, "one"),)), Turn("SYSTEM", "two"))
        shown = Dialogue("00000", "tracker", turns)._repr_html_()
        place = index["fields"][field]
        assert f"background:{rules[f'f{place}']};" in shown, field
    assert len(set(index["fields"].values())) == len(index["fields"])


def test_marked_words_are_readable_on_light_and_dark_pages():
    found = re.findall(r":root {(.*?)}", dialogue.tint_css())
    for light, dark in zip(*(re.findall(r"#\w{6}", tints) for tints in found), strict=True):
        assert contrast("#111111", light) > 7
        assert contrast("#e6e8eb", dark) > 4.5
