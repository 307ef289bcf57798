"""Every registered figure and table: draws, repeats byte for byte, is readable, says n, refuses bad input."""

import re
import warnings
from functools import cache
from itertools import combinations, pairwise, product

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from crs_lib import figures
from crs_lib.cli.show import table_readers
from crs_lib.core import rng
from crs_lib.core import text as text_of_a_page
from crs_lib.core.errors import RunError
from crs_lib.figures import base as registered
from crs_lib.figures import layout, style
from crs_lib.figures.base import TABLES
from crs_lib.metrics import base, constructs, evidence
from tests.helpers import fonts, refused

pytestmark = pytest.mark.slow
FEW = ("tracker", "echo", "random")
MANY = (
    *FEW, "oracle", "slot_echo", "noisy:0.3", "noisy:0.6", "ollama:llama3.1:8b-instruct-q4_K_M",
    "ollama:llama3.2:8b-instruct-q4_K_M", "openai:a-rather-long-name-of-a-model",
)  # fmt: skip
SCRIPTS = (
    "tracker", "電影推薦", "موصي الأفلام", "עברית", "фильмы", "ταινίες", "ภาพยนตร์", "फ़िल्म", "영화 추천", "ֆիլմեր", "🎬 bot",
    "form\ffeed", "\ttab\x1b[31m", "$x_1$ and $y^2", "=SUM(A1)", "\u202eright to left",
)  # fmt: skip
TYPES = ("switch", "replace", "return")
OF_SESSIONS = ("shift_cost", "straight_gain", "gain_after_change")
ARMS = ("gain_after_change", "straight_gain", "shift_cost", "conversation_cost")
TURN_METRICS = (
    "normalised_gain", "item_tas", "satisfaction", "satisfaction_corrected", "novelty", "topic_interference_leakage", "copying",
    "topic_adaptation_score", "cross_coherence", "context_retention", "topic_interference", "slot_f1",
)  # fmt: skip
RECOVERY = ("item_recovery_rate", "topic_recovery_rate")
CONSTRUCTS = constructs.names()
N_SESSIONS, N_TURNS, SHIFTS = 8, 10, (3, 7)
ALL = registered.names()
SIZES = pytest.mark.parametrize("systems", [FEW, MANY], ids=["few", "many"])
EACH = pytest.mark.parametrize("name", ALL)
EVERYDAY = ("leaderboard", "recovery_curves", "correlation_heatmap", "cosrec_systems")  # one of each kind
MARKED = [pytest.param(name, marks=() if name in EVERYDAY else pytest.mark.full) for name in ALL]
SETTINGS = pytest.mark.parametrize("name", MARKED)


def turns_and_shifts(systems, draw):
    """The turns and shifts of a made-up run: systems differ by a constant, echo recommends nothing and never
    recovers.
    """
    turns = []
    shifts = []
    for rank, model in enumerate(systems):
        for session in range(N_SESSIONS):
            key = {"model": model, "session_id": f"{session:05d}"}
            for turn in range(1, N_TURNS + 1):
                turns.append(key | turn_of(model, rank, turn, draw))
            for shift in SHIFTS:
                kind = TYPES[(session + shift) % 3]
                shifts.append(key | shift_of(model, shift, draw) | {"type": kind})
    return pd.DataFrame(turns).astype({"since_shift": "Int64"}), pd.DataFrame(shifts)


def turn_of(model, rank, turn, draw):
    """The scores of a turn."""
    row = {"turn": turn, "since_shift": since_shift(turn)}
    row["missing_concepts"] = ["genre=drama"]
    row["hallucinated_concepts"] = [f"year={turn}"]
    for name in TURN_METRICS:
        row[name] = round(draw.random() / 2 + rank * 0.04, 6)
    if model == "echo":
        row |= {"novelty": np.nan, "topic_interference_leakage": np.nan, "copying": 1.0}
    for name in ("uptake", "release", "retention"):
        row[name] = draw.random()
    return row


def since_shift(turn):
    """The turns since the last shift; none before the first."""
    for shift in reversed(SHIFTS):
        if shift <= turn:
            return turn - shift
    return None


def shift_of(model, shift, draw):
    """The scores of a shift."""
    row = {"turn": shift, "watched": 4, "primary": shift == SHIFTS[0]}
    delay = float(draw.integers(0, 3))
    if model == "echo":
        delay = np.nan
    row["delay_item"] = delay
    row["recovered_item"] = delay < 2
    for name in ARMS:
        row[name] = draw.random()
    return row


def results_of(turns, shifts, draw):
    """The sessions of a made-up run."""
    keys = ["model", "session_id"]
    results = turns.groupby(keys, sort=False)[list(TURN_METRICS)].mean().reset_index()
    recovered = shifts.groupby(keys, sort=False)["recovered_item"].mean()
    results["item_recovery_rate"] = recovered.to_numpy(dtype=float)
    results["found_at_3"] = results["normalised_gain"]
    for number, name in enumerate(OF_SESSIONS):
        results[name] = results["item_tas"] - number
    results["topic_recovery_rate"] = results["cross_coherence"].round(1)
    ratings = 1 + draw.integers(0, 9, (len(results), len(CONSTRUCTS))) / 2
    scores = pd.DataFrame(ratings, columns=CONSTRUCTS)
    return results.assign(judge=scores.to_dict("records"))


@cache
def frames(systems=FEW):
    """The tables of a made-up run."""
    draw = rng.stream(0, "test")
    turns, shifts = turns_and_shifts(systems, draw)
    at_once = shifts["delay_item"] == 0
    risks = shifts[["model", "session_id", "turn"]].assign(event=at_once, expected=0.1, users="Users insist")
    replies = [risks.assign(reply=0, answers="1 to 9"), risks.assign(reply=1, answers="50 and more")]
    results = results_of(turns, shifts, draw)
    tables = {"turns": turns, "shifts": shifts, "results": results, "model_metrics": model_metrics(results)}
    tables["replies_at_risk"] = pd.concat(replies, ignore_index=True)
    return tables | judged(systems) | design(systems) | sensitivity(systems) | OTHER_STUDIES


def grid(*columns, **facts):
    """Every combination of the values of some columns (name, values), with further columns."""
    names, values = zip(*columns, strict=True)
    rows = pd.DataFrame(product(*values), columns=list(names))
    return rows.assign(**facts)


def design(systems):
    """The design of a made-up run: who takes part, its catalogue, its shifts."""
    size = {"n_systems": len(systems), "n_sessions": N_SESSIONS, "n_turns": N_TURNS}
    names = ("catalogue", "user", "system", "log", "judge", "grounding", "metrics", "statistics")
    listed = "\n".join(systems)
    uses = {"constraint": True, "shift": True, "topic": True, "question": False}
    steps = "Data set\nfilms.json\n\nPreprocessing\nlabels cleaned\n\nUse\nconstraints"
    fields = {"coverage": 0.8, "values": 40, "changed": 3, "n_films": N_SESSIONS, "steps": steps, **uses}
    roles = grid(("role", names), lines="some", **size)
    roles.loc[roles["role"] == "system", "lines"] = listed
    return {
        "roles": roles,
        "catalogue_fields": grid(("field", ("genre", "actor", "year")), **fields),
        "shift_events": grid(("type", TYPES), ("turn", SHIFTS), n=2, systems=listed, **size),
    }


def judged(systems):
    """What judges and language models leave behind: means by construct, and calls of every system and a judge."""
    facts = {"low": 2.8, "high": 4.6, "n": N_SESSIONS - 1, "n_missing": 1, "n_sessions": N_SESSIONS}
    means = grid(("model", systems), ("construct", CONSTRUCTS), **facts)
    means["mean"] = 3 + means.groupby("model").cumcount() / 2
    means["own_family"] = means["model"] == systems[0]
    callers = [*product(["crs"], systems)]
    callers += [("judge", systems[-1]), ("judge", "ollama:a-judge:1")]
    calls = grid(("who", callers), ("session", range(N_SESSIONS)))
    calls[["role", "model"]] = calls.pop("who").tolist()
    k = calls.pop("session")
    sent = (calls["role"] != "judge") | (k != 3)
    calls = calls.assign(session_id=k.map("{:05d}".format), tokens_in=900 + 40 * k, tokens_out=30 + k)
    return {"judge_means": means, "llm_calls": calls.assign(seconds=1.5 + k / 10, sent=sent)}


def sensitivity(systems):
    """Tau of made-up rankings over weights; power of made-up tests."""
    n = {"n_systems": len(systems), "n_sessions": N_SESSIONS}
    steps = range(5)
    weights = grid(("alpha", steps), ("beta", steps), ("gamma", steps), ("delta", steps))
    weights = weights[(weights.sum(axis=1) == 4) & (weights["alpha"] > 0)] / 4
    weights = weights.assign(tau=1 - 2 * weights["gamma"], is_default=False)
    declared = {"alpha": 0.6, "beta": 0.4, "gamma": 0.25, "delta": 0.5, "tau": 1.0, "is_default": True}
    effects = pd.DataFrame(combinations(systems, 2), columns=["a", "b"])
    diff = 0.1 * effects.index
    effects = effects.assign(diff=diff, low=diff - 0.05, high=diff + 0.05)
    facts = {"outcome": "item_tas", "smallest": 0.05, **n}
    effect, size = ("effect", (0.025, 0.05, 0.1)), ("sessions", (5, 20, 50, 200))
    power = grid(("pair", list(pairwise(systems))), effect, size)
    power[["a", "b"]] = power.pop("pair").tolist()
    power = power.assign(power=(power["effect"] * power["sessions"] / 4).clip(upper=1.0), alpha=0.007)
    return {
        "sensitivity_weights": pd.concat([pd.DataFrame([declared]), weights], ignore_index=True).assign(**n),
        "paired_effects": effects.assign(**facts),
        "power": power.assign(n_contrasts=7, target=0.8, n=N_SESSIONS, sd_difference=0.14, **facts),
    }


ASPECTS = ("fluency", "informativeness", "logicality", "coherence")
GRADES = ("not relevant", "partially relevant", "highly relevant")
BINS = [f"{25 * k}-{25 * k + 24}" for k in range(11)]
RANKED = ("bm25-dense-hashing-first-and-last", "bm25-last-turn", "random order of the pool")
ENDS = {"mean": 0.5, "low": 0.4}
LOST = pd.DataFrame({"by": ["all", "category", "category", "chat"], "group": ["all", "1", "2", "Chat_1"]})
AVERAGES = pd.DataFrame({"from": ["1.0", "1.5", "2.0"], "conversations": [1, 0, 7]})
OTHER_STUDIES = {
    "average_ratings": AVERAGES.assign(n_conversations=N_SESSIONS),
    "aspect_ratings": grid(("rating", range(1, 6)), ("aspect", ASPECTS), conversations=2, n_conversations=N_SESSIONS),
    "judgments": grid(("judgments", BINS), ("grade", GRADES), intents=3, n_intents=N_SESSIONS),
    "systems": grid(
        ("kind", ("recommendation", "search")), ("system", RANKED), measure="nDCG@10", high=0.7,
        n_topics=N_SESSIONS, n_conversations=3, **ENDS,
    ),
    "attribution": LOST.assign(
        ids=N_SESSIONS, n_ids=N_SESSIONS, **dict(zip(evidence.BUCKETS, (1, 1, 2, 1, 3), strict=True))
    ),
}  # fmt: skip


def model_metrics(results):
    rows = []
    for metric in (*TURN_METRICS, *RECOVERY, "found_at_3", *OF_SESSIONS):
        direction = base.get(metric).direction
        for model, values in results.groupby("model", sort=False)[metric]:
            row = {"model": model, "metric": metric, "direction": direction}
            rows.append(row | {"mean": values.mean(), "n": values.count()})
    means = pd.DataFrame(rows)
    n_missing = N_SESSIONS - means["n"]
    return means.assign(low=means["mean"] - 0.05, high=means["mean"] + 0.05, n_missing=n_missing)


def tables_of(entry, systems=FEW):
    return [frames(systems)[table] for table in entry.facts["tables"]]


def without_rows(tables):
    return [table.iloc[:0] for table in tables]


def words_of(texts):
    return [text.get_text() for text in texts]


@cache
def rendered(name, systems=FEW):
    """A figure that is laid out."""
    figure = figures.make(name, *tables_of(figures.FIGURES.get(name), systems))
    figure.canvas.draw()
    return figure


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """The figures go with the file: a hundred of them slow the garbage collector for all that follows."""
    yield
    rendered.cache_clear()
    frames.cache_clear()


def hidden_texts(axes):
    """The texts of axes that nobody sees."""
    if not axes.get_visible():
        return axes.findobj(Text)
    if not axes.axison:
        return [*axes.xaxis.findobj(Text), *axes.yaxis.findobj(Text)]
    across = unused_labels(axes.xaxis, *sorted(axes.get_xlim()))
    return [*across, *unused_labels(axes.yaxis, *sorted(axes.get_ylim()))]


def printed(figure):
    """Every visible text of a figure with its box in pixels."""
    renderer = figure.canvas.get_renderer()
    hidden = set()
    for axes in figure.axes:
        hidden.update(map(id, hidden_texts(axes)))
    texts = []
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            texts.append((text, text.get_window_extent(renderer)))
    return texts


def unused_labels(axis, low, high):
    """Labels of the ticks that an axis keeps but does not draw: outside its limits, or left from before."""
    slack = 1e-9 * (high - low)
    shown = set()
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low - slack <= tick.get_loc() <= high + slack:
            shown.update((tick.label1, tick.label2))
    unused = []
    for tick in (*axis.majorTicks, *axis.minorTicks):
        unused += {tick.label1, tick.label2} - shown
    return unused


NEEDED = {"study", "tables", "caption"}
OPTIONAL = {"made_by", "place", "dark", "title", "note", "unpaired", "metrics"}


@EACH
def test_the_facts_the_caption_and_the_note_are_complete(name):
    entry = figures.FIGURES.get(name)
    facts = entry.facts
    assert set(facts) >= NEEDED
    assert set(facts) <= NEEDED | OPTIONAL
    assert set(facts["tables"]) <= set(frames())
    assert facts["study"] in table_readers()
    assert entry.summary
    text = registered.caption(name, *tables_of(entry))
    assert "{" not in text
    assert text.endswith(".")
    assert " 0 " not in text, "a count that the tables do not give"
    assert ". " not in text, "one sentence"
    if facts["tables"]:
        assert re.search(rf"\b{N_SESSIONS}\b", text)
        assert f"{N_SESSIONS} " in rendered(name).get_supxlabel()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path))
    monkeypatch.setattr(style, "PRINT_DPI", 60)  # fewer pixels, same code
    fonts.keep(monkeypatch)
    return tmp_path / "movies-test"


def written(figure, folder):
    """The bytes of a figure's two files."""
    return [style.write(figure, folder / f"figure.{kind}").read_bytes() for kind in ("png", "pdf")]


@SETTINGS
def test_the_same_tables_give_the_same_bytes_under_any_settings_silently(name, folder, capsys):
    before = dict(matplotlib.rcParams)
    tables = tables_of(figures.FIGURES.get(name))
    copies = [table.copy() for table in tables]
    first = figures.make(name, *tables)
    odd = {"font.size": 20, "axes.facecolor": "red", "lines.linewidth": 9, "figure.dpi": 50}
    with matplotlib.rc_context(odd):
        again = written(figures.make(name, *tables), folder)
    png, pdf = written(first, folder)
    assert [png, pdf] == again
    assert capsys.readouterr() == ("", "")
    assert dict(matplotlib.rcParams) == before
    for table, copy in zip(tables, copies, strict=True):
        pd.testing.assert_frame_equal(table, copy)
    assert b"Software" not in png
    assert b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf, "TrueType outlines are embedded"
    assert b"/Type3" not in pdf, "Type 3 fonts are refused by publishers"


@EACH
def test_names_of_any_script_are_drawn_without_a_warning_and_control_characters_as_escapes(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = figures.make(name, *tables_of(figures.FIGURES.get(name), SCRIPTS))
        assert style.data(figure, "png", 60).startswith(b"\x89PNG")
    shown = "".join(words_of(figure.findobj(Text)))
    assert text_of_a_page.printable(shown) == shown
    assert "\t" not in shown


@SIZES
@EACH
def test_the_text_is_large_enough_lies_on_the_page_and_does_not_overlap(name, systems):
    figure = rendered(name, systems)
    assert figure.get_figwidth() == pytest.approx(16 / 2.54)
    texts = printed(figure)
    assert texts
    page = figure.bbox
    for text, box in texts:
        words = text.get_text()
        assert text.get_fontsize() >= style.SMALL, words
        assert min(box.x0, box.y0) > -1, words
        assert box.x1 < page.x1 + 1, words
        assert box.y1 < page.y1 + 1, words
    straight = [pair for pair in texts if not pair[0].get_rotation() % 90]
    for (text, box), (other, other_box) in combinations(straight, 2):
        across = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
        down = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
        assert min(across, down) < 3, f"{text.get_text()!r} overlaps {other.get_text()!r}"


@EACH
def test_axes_say_what_lies_across_and_what_lies_up_in_a_label_or_by_named_rows(name):
    figure = rendered(name)
    panels = [panel for panel in figure.axes if panel.get_visible() and panel.axison]
    if not panels:
        return
    assert any(panel.get_xlabel() or panel.get_title() for panel in panels)
    labels = [panel.get_ylabel() for panel in panels]
    assert "system" not in labels
    rows = words_of(panels[0].get_yticklabels())
    letters = "".join(rows).strip("−-.0123456789")
    assert any(labels) or letters or not rows


@EACH
def test_wrong_tables_are_refused_and_metrics_can_be_chosen_and_are_checked(name):
    wanted = tables_of(figures.FIGURES.get(name))
    refused(r"takes .*in this order", figures.make, name, *wanted, pd.DataFrame())
    refused("'colour'", figures.make, name, *wanted, colour="red")
    if wanted:
        refused("no rows", figures.make, name, *without_rows(wanted), error=figures.NoDataError)
        refused("has no column", figures.make, name, *(table.iloc[:, :1] for table in wanted))
    entry = figures.FIGURES.get(name)
    if "metrics" not in (entry.make.__kwdefaults__ or {}):
        return
    shown = entry.facts.get("metrics", layout.HEADLINE)
    few = shown[1:4] or shown[:1]
    assert few
    figure = figures.make(name, *wanted, metrics=few)
    texts = dict(printed(figure))
    words = " ".join(words_of(texts))
    for metric in few:
        assert base.get(metric).short in words
    refused("did you mean", figures.make, name, *wanted, metrics=["item_tass"])


def lines_that_end(text, end):
    return [line for line in text.splitlines() if line.endswith(end)]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry.name)
@SIZES
def test_a_table_is_sound_latex(entry, systems):
    tables = tables_of(entry, systems)
    text = entry.make(*tables)
    assert text == entry.make(*tables)
    assert lines_that_end(text, "rule") == [r"\toprule", r"\midrule", r"\bottomrule"]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    rows = lines_that_end(text, r"\\")
    assert len(rows) >= len(systems)
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1, row
        assert not re.search(r"(?<!\\)[%#_]", row), row
        assert "nan" not in row
        assert row.count("$") % 2 == 0
        assert row.isascii(), row
    for name in systems:
        assert name.replace("_", r"\_") in text
    with pytest.raises(figures.NoDataError):
        entry.make(*without_rows(tables))


def read(run, table):
    assert run == "test"
    return frames()[table]


def of(study):
    """The figures and the tables of a study by name."""
    return registered.names(study), [entry.name for entry in TABLES if entry.facts["study"] == study]


def files_of(name, tables):
    """The names of the files that a figure, or one of these tables, is written to."""
    if name in tables:
        return [f"{name}.tex"]
    files = [f"{name}.png", f"{name}.pdf"]
    if figures.FIGURES.get(name).facts.get("dark"):
        files.append(f"{name}-dark.png")
    return files


def contents(paths):
    """What files hold, by name."""
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.parametrize("study", table_readers())
def test_redraw_writes_everything_once_silently_and_the_same_again(study, folder, capsys, monkeypatch):
    """All is made; the pixels and vectors are those of a few (every figure's own test writes its files)."""
    plots, tables = of(study)
    few = [*plots[:2], *plots[-2:]]
    write = style.write

    def some(figure, path, **options):
        if path.stem.removesuffix("-dark") in few:
            return write(figure, path, **options)
        path.write_bytes(b"drawn")
        return path

    monkeypatch.setattr(style, "write", some)
    first = contents(figures.redraw("test", study=study, read=read))
    wanted = ["captions.md"]
    for name in (*plots, *tables):
        wanted += files_of(name, tables)
    assert sorted(first) == sorted(wanted)
    written_there = folder.with_name(f"{study}-test").iterdir()
    assert contents(written_there) == first
    captions = first["captions.md"].decode()
    for name in plots:
        assert f"**{name}.** " in captions
    for name in (*few, *tables[-1:]):
        again = contents(figures.redraw("test", name, study, read=read))
        assert list(again) == files_of(name, tables)
        assert again.items() <= first.items()
    assert capsys.readouterr() == ("", "")


def test_redraw_leaves_out_what_the_run_has_no_data_for_and_says_so(folder, monkeypatch):
    monkeypatch.setattr(style, "data", lambda figure, kind, dpi: b"drawn")

    def no_shifts(run, table):
        if table == "llm_calls":
            raise figures.NoDataError("run 'test' called no language model")
        frame = frames()[table]
        if table == "shifts":
            return frame.iloc[:0]
        if table == "turns":
            return frame.assign(since_shift=pd.array([None] * len(frame), dtype="Int64"))
        return frame

    lines = []
    written_files = figures.redraw("test", read=no_shifts, left_out=lines.append)
    lacking = {
        "recovery_curves", "adaptation_profile", "score_around_shifts", "tokens_and_time",
        "ability_adaptation", "shift_profile",
    }  # fmt: skip
    plots, tables = of("movies")
    assert {path.stem for path in written_files} == {*plots, *tables, "captions"} - lacking
    reasons = dict(line.split(":", 1) for line in lines)
    assert len(lines) == len(lacking)
    assert set(reasons) == lacking
    cure = "called no language model; make it with: python -m crs_lib run 03_simulate"
    assert cure in reasons["tokens_and_time"]
    for name in ("recovery_curves", "tokens_and_time"):
        refused(f"^{name}: ", figures.redraw, "test", name, read=no_shifts, error=figures.NoDataError)


def test_redraw_refuses_unknown_names_before_it_reads_and_says_what_the_reader_says(folder):
    def never(run, table):
        raise AssertionError("read before the check")

    refused("did you mean 'leaderboard'", figures.redraw, "test", "leaderbord", read=never)
    refused("did you mean 'movies'", figures.redraw, "test", study="movie", read=never)
    refused("cannot be a folder", figures.redraw, "../test", read=never)
    assert not folder.exists()

    def missing(run, table):
        raise RunError("no finished 04_evaluate")

    for only in ("leaderboard", None):  # the whole run begins with diagrams, which need no table
        refused("04_evaluate", figures.redraw, "test", only, read=missing, error=RunError)
    assert not folder.exists()
