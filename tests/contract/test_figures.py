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
                row = {**key, "turn": turn}
                for name in TURN_METRICS:
                    row[name] = round(float(draw.random()) / 2 + rank * 0.04, 6)
                if model == "echo":
                    row |= {"novelty": np.nan, "topic_interference_leakage": np.nan, "copying": 1.0}
                shifted = [shift for shift in SHIFTS if shift <= turn]
                row["since_shift"] = turn - shifted[-1] if shifted else None
                row |= {"missing_concepts": ["genre=drama"], "hallucinated_concepts": [f"year={turn}"]}
                for name in ("uptake", "release", "retention"):
                    row[name] = float(draw.random())
                turns.append(row)
            for shift in SHIFTS:
                delay = np.nan if model == "echo" else float(draw.integers(0, 3))
                row = {**key, "turn": shift, "type": TYPES[(session + shift) % 3], "watched": 4}
                for name in ARMS:
                    row[name] = float(draw.random())
                facts = {"primary": shift == SHIFTS[0], "delay_item": delay, "recovered_item": delay < 2}
                shifts.append(row | facts)
    return pd.DataFrame(turns).astype({"since_shift": "Int64"}), pd.DataFrame(shifts)


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
    scores = []
    for _ in results.index:
        scores.append({construct: 1 + float(draw.integers(0, 9)) / 2 for construct in CONSTRUCTS})
    return results.assign(judge=scores)


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
    rows = product(*(values for _, values in columns))
    return pd.DataFrame(rows, columns=[name for name, _ in columns]).assign(**facts)


def design(systems):
    """The design of a made-up run: who takes part, its catalogue, its shifts."""
    size = {"n_systems": len(systems), "n_sessions": N_SESSIONS, "n_turns": N_TURNS}
    names = ("catalogue", "user", "system", "log", "judge", "grounding", "metrics", "statistics")
    listed = "\n".join(systems)
    uses = {"constraint": True, "shift": True, "topic": True, "question": False}
    steps = "Data set\nfilms.json\n\nPreprocessing\nlabels cleaned\n\nUse\nconstraints"
    fields = {"coverage": 0.8, "values": 40, "changed": 3, "n_films": N_SESSIONS, "steps": steps, **uses}
    roles = grid(("role", names), **size)
    return {
        "roles": roles.assign(lines=[listed if name == "system" else "some" for name in names]),
        "catalogue_fields": grid(("field", ("genre", "actor", "year")), **fields),
        "shift_events": grid(("type", TYPES), ("turn", SHIFTS), n=2, systems=listed, **size),
    }


def judged(systems):
    """What judges and language models leave behind: means by construct, and calls of every system and a judge."""
    facts = {"low": 2.8, "high": 4.6, "n": N_SESSIONS - 1, "n_missing": 1, "n_sessions": N_SESSIONS}
    means = grid(("model", systems), ("construct", CONSTRUCTS), **facts)
    means["mean"] = 3 + means.groupby("model").cumcount() / 2
    means["own_family"] = means["model"] == systems[0]
    callers = [("crs", name) for name in systems]
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
    weights = grid(*((name, range(5)) for name in ("alpha", "beta", "gamma", "delta")))
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
        for model in dict.fromkeys(results["model"]):
            values = results.loc[results["model"] == model, metric].dropna()
            mean, half = values.mean(), 0.05 if len(values) else np.nan
            n = len(values), N_SESSIONS - len(values)
            rows.append((model, metric, mean, mean - half, mean + half, *n, base.get(metric).direction))
    columns = ["model", "metric", "mean", "low", "high", "n", "n_missing", "direction"]
    return pd.DataFrame(rows, columns=columns)


def tables_of(entry, systems=FEW):
    return [frames(systems)[table] for table in entry.facts["tables"]]


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


@EACH
def test_the_facts_the_caption_and_the_note_are_complete(name):
    entry = figures.FIGURES.get(name)
    needed = {"study", "tables", "caption"}
    assert (
        needed
        <= set(entry.facts)
        <= needed | {"made_by", "place", "dark", "title", "note", "unpaired", "metrics"}
    )
    assert set(entry.facts["tables"]) <= set(frames()) and entry.facts["study"] in table_readers()
    assert entry.summary
    text = registered.caption(name, *tables_of(entry))
    assert "{" not in text and text.endswith(".")
    assert " 0 " not in text, "a count that the tables do not give"
    assert text.count(". ") == 0, "one sentence"
    if entry.facts["tables"]:
        assert re.search(rf"\b{N_SESSIONS}\b", text) and f"{N_SESSIONS} " in rendered(name).get_supxlabel()


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
    assert b"Software" not in png and b"CreationDate" not in pdf
    assert b"/FontFile2" in pdf, "TrueType outlines are embedded"
    assert b"/Type3" not in pdf, "Type 3 fonts are refused by publishers"


@EACH
def test_names_of_any_script_are_drawn_without_a_warning_and_control_characters_as_escapes(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = figures.make(name, *tables_of(figures.FIGURES.get(name), SCRIPTS))
        assert style.data(figure, "png", 60).startswith(b"\x89PNG")
    shown = "".join(text.get_text() for text in figure.findobj(Text))
    assert text_of_a_page.printable(shown) == shown
    assert "\t" not in shown


@SIZES
@EACH
def test_the_text_is_large_enough_lies_on_the_page_and_does_not_overlap(name, systems):
    figure = rendered(name, systems)
    assert figure.get_figwidth() == pytest.approx(16 / 2.54)
    texts = printed(figure)
    assert texts
    for text, box in texts:
        assert text.get_fontsize() >= style.SMALL, text.get_text()
        inside = box.x0 > -1 and box.y0 > -1 and box.x1 < figure.bbox.x1 + 1 and box.y1 < figure.bbox.y1 + 1
        assert inside, f"{text.get_text()!r} leaves the page: {box}, {figure.bbox}"
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
    rows = [text.get_text() for text in panels[0].get_yticklabels()]
    assert any(labels) or any(row.strip("−-.0123456789") for row in rows) or not rows


@EACH
def test_wrong_tables_are_refused_and_metrics_can_be_chosen_and_are_checked(name):
    wanted = tables_of(figures.FIGURES.get(name))
    refused(r"takes .*in this order", figures.make, name, *wanted, pd.DataFrame())
    refused("'colour'", figures.make, name, *wanted, colour="red")
    if wanted:
        rows = (table.iloc[:0] for table in wanted)
        refused("no rows", figures.make, name, *rows, error=figures.NoDataError)
        refused("has no column", figures.make, name, *(table.iloc[:, :1] for table in wanted))
    entry = figures.FIGURES.get(name)
    if "metrics" not in (entry.make.__kwdefaults__ or {}):
        return
    shown = entry.facts.get("metrics", layout.HEADLINE)
    few = shown[1:4] or shown[:1]
    assert few
    figure = figures.make(name, *tables_of(entry), metrics=few)
    words = " ".join(text.get_text() for text, _ in printed(figure))
    assert all(base.get(metric).short in words for metric in few)
    refused("did you mean", figures.make, name, *tables_of(entry), metrics=["item_tass"])


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry.name)
@SIZES
def test_a_table_is_sound_latex(entry, systems):
    text = entry.make(*tables_of(entry, systems))
    assert text == entry.make(*tables_of(entry, systems))
    lines = text.splitlines()
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) >= len(systems)
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1, row
        assert not re.search(r"(?<!\\)[%#_]", row), row
        assert "nan" not in row and row.count("$") % 2 == 0
        assert row.isascii(), row
    for name in systems:
        assert name.replace("_", r"\_") in text
    with pytest.raises(figures.NoDataError):
        entry.make(*(table.iloc[:0] for table in tables_of(entry)))


def read(run, table):
    assert run == "test"
    return frames()[table]


def of(study):
    """The figures and the tables of a study by name."""
    return registered.names(study), [entry.name for entry in TABLES if entry.facts["study"] == study]


@pytest.mark.parametrize("study", table_readers())
def test_redraw_writes_everything_once_silently_and_the_same_again(study, folder, capsys, monkeypatch):
    """All is made; the pixels and vectors are those of a few (every figure's own test writes its files)."""
    plots, tables = of(study)
    few, write = (*plots[:2], *plots[-2:]), style.write

    def some(figure, path, **options):
        if path.stem.removesuffix("-dark") in few:
            return write(figure, path, **options)
        path.write_bytes(b"drawn")
        return path

    monkeypatch.setattr(style, "write", some)
    first = {path.name: path.read_bytes() for path in figures.redraw("test", study=study, read=read)}
    wanted = [f"{n}.{k}" for n in plots for k in ("png", "pdf")] + [f"{n}.tex" for n in tables]
    wanted += [f"{n}-dark.png" for n in plots if figures.FIGURES.get(n).facts.get("dark")]
    assert sorted(first) == sorted([*wanted, "captions.md"])
    assert sorted(path.name for path in (folder.parent / f"{study}-test").iterdir()) == sorted(first)
    assert all(f"**{name}.** " in first["captions.md"].decode() for name in plots)
    for name in (*few, *tables[-1:]):
        again = figures.redraw("test", name, study, read=read)
        ends = [".tex"] if name in tables else [".png", ".pdf"]
        ends += ["-dark.png"] * (name in plots and "dark" in figures.FIGURES.get(name).facts)
        assert [path.name for path in again] == [f"{name}{end}" for end in ends]
        assert all(path.read_bytes() == first[path.name] for path in again)
    assert capsys.readouterr() == ("", "")


def test_redraw_leaves_out_what_the_run_has_no_data_for_and_says_so(folder, monkeypatch):
    monkeypatch.setattr(style, "data", lambda figure, kind, dpi: b"drawn")

    def no_shifts(run, table):
        if table == "llm_calls":
            raise figures.NoDataError("run 'test' called no language model")
        frame = frames()[table]
        if table == "turns":
            return frame.assign(since_shift=pd.array([None] * len(frame), dtype="Int64"))
        return frame.iloc[:0] if table == "shifts" else frame

    lines = []
    done = figures.redraw("test", read=no_shifts, left_out=lines.append)
    lacking = {
        "recovery_curves", "adaptation_profile", "score_around_shifts", "tokens_and_time",
        "ability_adaptation", "shift_profile",
    }  # fmt: skip
    plots, tables = of("movies")
    assert {path.stem for path in done} == {*plots, *tables, "captions"} - lacking
    assert {line.split(":")[0] for line in lines} == lacking
    (calls,) = [line for line in lines if line.startswith("tokens_and_time")]
    assert "called no language model; make it with: python -m crs_lib run 03_simulate" in calls
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
