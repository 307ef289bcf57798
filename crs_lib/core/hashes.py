"""Moved to ``crs_lib.core.tables``."""

from crs_lib.core.tables import fingerprint as fingerprint
from crs_lib.core.tables import of_files as of_files
from crs_lib.core.tables import sha256 as sha256
