"""``python -m crs_lib data list | get | verify``: the external files from the terminal."""

from argparse import ArgumentParser, Namespace

from crs_lib import data as datasets
from crs_lib.core import paths
from crs_lib.core.errors import RunError


def data(parser: ArgumentParser) -> None:
    """``data list [NAME]``, ``data get NAME …``, ``data verify [NAME …]``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("list", help="list the data sets; with a name, its files and addresses")
    one.add_argument("name", nargs="?")
    one.set_defaults(do=_list)
    get = actions.add_parser("get", help="download what is neither in the mirror nor here")
    get.add_argument("names", nargs="+", metavar="NAME")
    get.set_defaults(do=_get)
    verify = actions.add_parser(
        "verify", help="compare files with their checksums; all that are here by default"
    )
    verify.add_argument("names", nargs="*", metavar="NAME")
    verify.set_defaults(do=_verify)


def _list(arguments: Namespace) -> None:
    lines = _details(datasets.get(arguments.name)) if arguments.name else _overview()
    print("\n".join(lines))


def _overview() -> list[str]:
    frame = datasets.describe()
    frame["MB"] = [f"{n / 1e6:.1f}" if n == n else "?" for n in frame.pop("bytes").astype(float)]
    frame["files"] = [str(n) for n in frame["files"].astype(object).where(frame["files"].notna(), "?")]
    unknown = frame["checksum"] == datasets.RECORDED
    frame["checksum"] = frame["checksum"].where(~unknown, "recorded (*)")
    columns = ["name", "study", "here", "files", "MB", "checksum", "licence", "summary"]
    note = f"(*) {datasets.RECORDED}; files and MB count the copies whose checksum is known"
    return [frame[columns].to_string(index=False), note]


def _details(dataset: datasets.Dataset) -> list[str]:
    place = dataset.in_mirror() or dataset.downloaded()
    lines = [
        f"{dataset.name}: {dataset.summary}",
        f"study:    {dataset.study}",
        f"origin:   {dataset.origin.repository} at {dataset.origin.commit}",
        f"licence:  {dataset.origin.licence}",
        f"checksum: {dataset.checksum}",
        f"here:     {paths.shown(place) if place else 'no'}",
    ]
    if dataset.members:
        lines += [f"archive:  {dataset.address()}", f"members:  {dataset.members}"]
    for file in dataset.files:
        size = f"{file.size} bytes" if file.size is not None else "size unknown"
        lines += [f"file:     {file.path} ({size})", f"  sha256  {file.sha256 or datasets.RECORDED}"]
        if not dataset.members:
            lines.append(f"  from    {dataset.address(file) if file.source else 'a mirror only'}")
    return lines


def _get(arguments: Namespace) -> None:
    from crs_lib.data import fetch

    for dataset in [datasets.get(name) for name in arguments.names]:
        place = fetch.fetch(dataset)
        known = len(fetch.check(dataset))
        how = f"{known} files with their checksum" if known else "no checksum is known of it"
        where = "in the mirror" if dataset.in_mirror() else "downloaded"
        print(f"{dataset.name}: {where}, {how}: {paths.shown(place)}")


def _verify(arguments: Namespace) -> None:
    from crs_lib.data import fetch

    chosen = [datasets.get(name) for name in arguments.names] or list(datasets.REGISTRY.values())
    if arguments.names:
        for dataset in chosen:
            datasets.locate(dataset.name)
    checks = [check for dataset in chosen for check in fetch.check(dataset)]
    report = fetch.summary(checks).to_string(index=False) if checks else ""
    print(report or "nothing to verify: no data set with a checksum is here")
    bad = [c for c in checks if c.status in (fetch.DIFFERS, fetch.MISSING)]
    if bad:
        named = "; ".join(f"{c.file} {c.status} ({c.place})" for c in bad[:10])
        raise RunError(
            f"{len(bad)} of {len(checks)} files are not as they should be: {named}. Downloads are mended by "
            "python -m crs_lib data get NAME; a mirror by whoever keeps it"
        )
