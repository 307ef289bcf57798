"""The licences of all dependencies, extras included; an error for one that does not fit a package under MIT.
``python -m tests.helpers.licences`` lists them; ``make lint`` runs it. Read is what the installed packages
say: their SPDX expression, else their classifiers, else the first line of their licence field.
"""

import importlib.metadata
import itertools
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
# Permissive, or copyleft by file (MPL): they ask nothing of a program that only depends on them.
FITS = re.compile(
    r"mit(-0|-cmu)?( license)?|(new |modified |3-clause |2-clause |simplified )?bsd([- ].*)?|0bsd|"
    r"apache([- ].*)?|isc.*|(psf|python software foundation|python|cnri-python)([- ].*)?|(the )?unlicense.*|zlib.*|hpnd.*|"
    r"mpl[- ]?2\.0|mozilla public license 2\.0.*|cc0.*|public domain|bsl-1\.0|blueoak.*|ofl-1\.1|wtfpl",
    re.IGNORECASE,
)
# Packages whose metadata names no licence, with the one that their repository states.
KNOWN: Mapping[str, str] = {}


class Licence(NamedTuple):
    """A package with its version and the licence that it names."""

    package: str
    version: str
    licence: str

    @property
    def fits(self):
        """Whether a package under MIT may depend on it: every part joined by AND, one of those joined by OR."""
        return bool(self.licence) and fits(self.licence)


def fits(licence):
    """Whether a licence, or an expression of several, asks nothing of a program that depends on the package."""
    plain = re.sub(r"\s+WITH\s+\S+", "", licence).replace("(", " ( ").replace(")", " ) ")
    for part in re.split(r"\s+AND\s+|;", plain):
        choices = re.split(r"\s+OR\s+", part.strip(" ()"))
        if not any(FITS.fullmatch(choice.strip(" ()")) for choice in choices):
            return False
    return True


def roots():
    """What pyproject.toml asks for, in all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *itertools.chain.from_iterable(extras)]


def licences(requirements):
    """The packages that these requirements bring, with all that they bring in turn; installed ones only."""
    licence_of: dict[str, Licence] = {}
    todo = list(map(Requirement, requirements))
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name in licence_of or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        try:
            package = importlib.metadata.distribution(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        licence_of[name] = Licence(package.metadata["Name"], package.version, _named(package.metadata, name))
        for text in package.requires or ():
            needs = Requirement(text)
            extras = wanted.extras or {""}
            if needs.marker is None or any(needs.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needs)
    return sorted(licence_of.values(), key=lambda licence: licence.package.lower())


def _named(facts, name):
    """The licence that a package's metadata name: their expression, classifiers, or the field's first line."""
    classifiers = []
    for text in facts.get_all("Classifier") or []:
        label = re.sub(r" \(.*\)$", "", text.rpartition(" :: ")[2])
        if text.startswith("License ::") and label != "OSI Approved":
            classifiers.append(label)
    field = (facts.get("License") or "").strip().partition("\n")[0].strip()
    return facts.get("License-Expression") or "; ".join(classifiers) or field or KNOWN.get(name, "")


def main():
    """Print the list; 1 where a package does not fit, which is named."""
    packages = licences(roots())
    width = max(len(package.package) for package in packages)
    status = 0
    for package, version, licence in packages:
        print(f"{package:<{width}}  {version:<16}  {licence or 'names no licence'}")
    for package in packages:
        if not package.fits:
            named = package.licence or "no licence"
            print(f"{package.package} names {named}, which does not fit a package under MIT", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
