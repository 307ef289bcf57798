"""Folders come from one place, follow the environment, and names cannot leave them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import paths
from crs_lib.core.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {"CRS_DATA": paths.data, "CRS_RESULTS": paths.results, "CRS_FIGURES": paths.figures}


@pytest.mark.parametrize("variable", FOLDERS)
def test_a_folder_lies_in_the_repository_unless_a_variable_moves_it(monkeypatch, tmp_path, variable):
    name = variable.removeprefix("CRS_").lower()
    monkeypatch.delenv(variable, raising=False)
    assert FOLDERS[variable]() == ROOT / name
    monkeypatch.setenv(variable, "")  # set but empty counts as unset
    assert FOLDERS[variable]() == ROOT / name
    monkeypatch.setenv(variable, str(tmp_path / "a" / ".." / "b"))
    assert FOLDERS[variable]() == tmp_path / "b"


def test_samples_stay_and_there_is_a_mirror_only_where_one_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("CRS_DATA", str(tmp_path))
    assert (paths.samples(), paths.external()) == (ROOT / "data" / "samples", tmp_path / "external")
    monkeypatch.delenv("CRS_MIRROR", raising=False)
    assert paths.mirror() is None
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    assert paths.mirror() == tmp_path


@pytest.mark.parametrize("run", ["demo", "007", "a.b_c-d", "x" * 100])
def test_run_folders_lie_below_their_study(run):
    assert paths.run_folder("movies", run) == paths.results() / "movies" / run


@pytest.mark.parametrize(
    "run", ["", ".", "..", "-x", "../other", "a/b", "a\\b", "a b", "a:b", "x" * 101, "a\n", "é"]
)
def test_a_run_name_that_could_leave_its_folder_is_refused(run):
    with pytest.raises(InputError, match="cannot be a folder"):
        paths.run_folder("movies", run)


SLUGS = {
    "ollama:llama3:instruct": "ollama-llama3-instruct", "noisy:0.3": "noisy-0.3", "Amélie / ça": "Amelie-ca",
    "../../etc": "etc", "...": "unnamed", "": "unnamed", "東京": "unnamed",
}  # fmt: skip


def test_slugs_are_plain_file_names():
    assert {name: paths.slug(name) for name in SLUGS} == SLUGS


@given(st.text())
def test_a_slug_is_always_usable_and_stable(name):
    slug = paths.slug(name)
    assert slug == paths.slug(slug)
    assert slug.isascii()
    assert slug not in ("", ".", "..")
    assert not set(slug) & set('/\\:*?"<>| \0')


def test_paths_are_shown_relative_and_those_that_no_file_can_have_refused(tmp_path):
    assert paths.shown(ROOT / "results" / "movies") == "results/movies"
    assert paths.shown(tmp_path) == tmp_path.as_posix()
    for wrong in ("a\0b", "~nosuchuser9/x"):
        with pytest.raises(InputError, match=r"is no path|does not exist here"):
            paths.given(wrong)
    assert paths.given("~").is_absolute() and paths.given(tmp_path) == tmp_path


def test_an_output_may_not_be_an_input_by_any_name(tmp_path):
    source = tmp_path / "in.json"
    source.write_text("1")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for out in (source, tmp_path / "x" / ".." / "in.json", tmp_path / "soft", tmp_path / "hard"):
        with pytest.raises(InputError, match="give another output"):
            paths.apart([tmp_path / "fine", out], [tmp_path / "other", source])
    paths.apart([tmp_path / "out.json"], [source])
