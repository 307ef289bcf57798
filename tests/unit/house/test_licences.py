"""Every dependency has a licence that fits a package under MIT; one that does not is named."""

import importlib.metadata

import pytest

from tests.helpers import licences

FIT = (
    "MIT", "BSD-3-Clause", "BSD License", "Apache-2.0 OR GPL-3.0-only", "MPL-2.0 AND (Apache-2.0 OR MIT)",
    "Mozilla Public License 2.0", "Python Software Foundation License", "Apache-2.0 WITH LLVM-exception",
    "MIT License; BSD License", "ISC License", "0BSD AND Zlib",
)  # fmt: skip
DO_NOT = (
    "", "GPL-3.0-or-later", "GNU General Public License v3", "AGPL-3.0", "MIT AND GPL-2.0-only", "Proprietary",
    "MIT License; GNU General Public License v2", "CC-BY-NC-4.0", "LGPL-3.0", "UNKNOWN", "SSPL-1.0",
)  # fmt: skip


@pytest.mark.parametrize("licence", [*FIT, *DO_NOT])
def test_what_fits(licence):
    assert licences.fits(licence) == licences.Licence("p", "1", licence).fits == (licence in FIT)


def test_all_dependencies_fit_and_a_wrong_one_fails_the_list(monkeypatch, capsys):
    assert licences.main() == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{listed}" for name in ("numpy", "pandas", "httpcore"))  # of others, too
    real = importlib.metadata.distribution

    class Changed:
        def __init__(self, name):
            self.metadata = real(name).metadata
            self.version, self.requires = "1", []
            if name == "numpy":
                del self.metadata["License-Expression"]
                self.metadata["License-Expression"] = "GPL-3.0-only"

    monkeypatch.setattr(importlib.metadata, "distribution", Changed)
    assert licences.main() == 1
    assert "numpy names GPL-3.0-only, which does not fit" in capsys.readouterr().err
