"""One look: colours that never change, names that stay apart, text that fits."""

import itertools

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.figures import style
from crs_lib.systems.base import SYSTEMS

SCEPTICAL = "crs_lib.systems.gamed"  # policies of the gate and the red team, which no figure of a study shows
CONTROLS = [
    e.name
    for e in SYSTEMS
    if not e.facts.get("argument") and not e.facts.get("llm") and e.make.__module__ != SCEPTICAL
]


def test_every_control_policy_has_a_look_of_its_own_that_stays():
    looks = style.looks([*CONTROLS, "noisy:0.3"])
    assert all(style.looks(["a", name, "b"])[name] == look for name, look in looks.items())
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert len({look.marker for look in looks.values()}) == len(looks)
    looks = style.looks(["oracle", "tracker", "echo"])
    assert {name: look.colour for name, look in looks.items()} == {
        "oracle": "#000000", "tracker": "#0072B2", "echo": "#CC79A7",
    }  # fmt: skip
    alone = style.looks(["tracker"])["tracker"]
    assert style.looks(["ollama:a", "echo", "tracker"])["tracker"] == alone
    first, second = style.looks(["noisy:0.3", "noisy:0.6"]).values()
    assert first.colour == second.colour
    assert first.marker != second.marker


def test_other_systems_look_the_same_in_any_order_and_differ():
    names = [f"ollama:model-{letter}" for letter in "abcdefghijkl"]
    looks = style.looks(names)
    assert looks == style.looks(list(reversed(names)))
    assert list(looks) == names
    assert len(set(looks.values())) == len(names)
    assert not {look.colour for look in looks.values()} & {
        look.colour for look in style.looks(CONTROLS).values()
    }


def luminance(colour):
    """Relative luminance in [0, 1] (WCAG 2.1): how dark a colour prints in grey."""
    channels = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in matplotlib.colors.to_rgb(colour)
    ]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def test_looks_are_told_apart_in_grey_and_from_white():
    for first, second in itertools.combinations(style.looks(CONTROLS).values(), 2):
        if abs(luminance(first.colour) - luminance(second.colour)) < 0.1:
            assert (first.marker, str(first.line)) != (second.marker, str(second.line))
    # Contrast of at least 1.8 to 1 on paper for lines and markers; the text is in INK, far above.
    for look in style.looks([*CONTROLS, *(f"llm{k}" for k in range(8))]).values():
        assert 1.05 / (luminance(look.colour) + 0.05) > 1.8, look
    assert 1.05 / (luminance(style.INK) + 0.05) > 12
    assert 1.05 / (luminance(style.FAINT) + 0.05) > 4.5


def test_metrics_have_short_names_and_long_names_are_cut_so_that_they_differ():
    assert style.short("topic_adaptation_score") == "TAS"
    assert style.titled("normalised_gain") == "gain ↑"
    assert style.titled("topic_interference_leakage") == "leakage † ↓"  # fails orderings of the gate
    assert style.titled("novelty") == "non-repetition"
    assert style.labels(["tracker"]) == ["tracker"]
    names = ["ollama:llama3.1:8b-instruct", "ollama:llama3.2:8b-instruct"]
    cut = style.labels(names, 18)
    assert cut[0] != cut[1]
    assert all(len(text) <= 18 for text in cut)


@given(st.lists(st.text("ab:", max_size=40), unique=True), st.integers(8, 30))
def test_labels_keep_distinct_names_distinct(names, width):
    cut = style.labels(names, width)
    assert len(cut) == len(names)
    assert len(set(cut)) == len(names)


def test_a_note_keeps_numbers_with_their_unit():
    with style.applied():
        made, _ = style.figure(1)
    style.note(made, "word " * 20 + "a 95 % interval " + "word " * 5)
    lines = made.get_supxlabel().split("\n")
    assert len(lines) == 2
    assert not lines[1].startswith("%")


@pytest.mark.parametrize("ends", [(float("nan"), 1.0), (0.0, float("nan"))])
def test_an_interval_that_is_not_defined_is_not_drawn(ends):
    _, axes = style.figure(1)
    style.interval(axes[0][0], 0, *ends, "black", caps=0.2)
    assert len(axes[0][0].lines) == 0
    style.interval(axes[0][0], 0, 0.0, 1.0, "black", caps=0.2)
    assert len(axes[0][0].lines) == 3


def test_no_ink_is_left_on_a_dark_page_whatever_ticks_come_later():
    from matplotlib.text import Text

    made, axes = style.figure(2)
    panel = axes[0][0]
    panel.plot([0, 0.97], [0, 0.97], color=style.INK)
    systems = [panel.plot([0, 1], [0, 1], color=colour)[0] for colour in (*style.CYCLE, "#0072B2", "#E69F00")]
    panel.grid(True)
    style._darken(made)
    made.set_size_inches(12, 8)  # as another resolution does, too: more room, more ticks
    made.canvas.draw()
    texts = [one for one in made.findobj(Text) if one.get_text() and one.get_visible()]
    light = {matplotlib.colors.to_hex(one.get_color()) for one in texts}
    assert len(texts) > 12 and light == {"#e6e8eb"}
    paper = luminance("#16181b")
    assert all((luminance(line.get_color()) + 0.05) / (paper + 0.05) >= 3 for line in systems)
    assert [matplotlib.colors.to_hex(line.get_color()) for line in systems[-2:]] == ["#0072b2", "#e69f00"]
