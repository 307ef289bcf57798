"""docs/robustness.md names tests: each of them is there."""

import re

from crs_lib.core import paths

PAGE = (paths.ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")


def test_every_row_names_tests_and_every_named_test_is_there():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 18
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, name in named:
            text = (paths.ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), (file, name)
