"""Hashes of plain data and of files."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crs_lib.core.errors import InputError

_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def fingerprint(value: Any) -> str:
    """Hex SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(_JSON.encode(value).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Hex digest of a file's content; InputError where a file that is there cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error


def of_files(files: Iterable[Path]) -> str:
    """One hex digest of several files: names and contents, in order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{sha256(path)}\n".encode())
    return digest.hexdigest()
