"""docs/names.md maps the names of the published designs: every target is there and can be imported."""

import re
from importlib import import_module

from crs_lib.core import paths

PAGE = (paths.home() / "docs" / "names.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split(" | ")] for line in PAGE.splitlines() if "`crs_lib." in line]
QUOTED = (
    "CONCEPT_FIELDS TOPIC_FIELDS FeaturizerConfig.topic_fields MOVIE_DB ALIGNMENT_THRESHOLD EVAL_MODE plot_kw= "
    "catalogue_size create_output_file"
)


def target(name):
    """The object that a target names; a field of settings is its declaration."""
    module, _, path = name.partition(":")
    found = import_module(module)
    for part in filter(None, path.split(".")):
        fields = getattr(found, "model_fields", {})
        found = fields[part] if part in fields else getattr(found, part)
    return found


def test_every_target_is_there():
    targets = [name for row in ROWS for name in re.findall(r"`(crs_lib[\w.:]*)`", row[1])]
    assert len(targets) > 50
    for name in targets:
        assert target(name) is not None, name


def test_every_quoted_name_of_the_designs_has_a_row():
    originals = " ".join(row[0] for row in ROWS)
    assert [name for name in QUOTED.split() if name not in originals] == []


def test_the_other_page_links_it():
    assert "(names.md)" in (paths.home() / "docs" / "context.md").read_text(encoding="utf-8")
