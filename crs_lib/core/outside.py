"""Moved to ``crs_lib.core.safety``."""

from crs_lib.core.safety import DEPTH as DEPTH
from crs_lib.core.safety import READERS as READERS
from crs_lib.core.safety import Faults as Faults
from crs_lib.core.safety import kind_of as kind_of
from crs_lib.core.safety import lines as lines
from crs_lib.core.safety import loads as loads
from crs_lib.core.safety import open_text as open_text
from crs_lib.core.safety import read_json as read_json
from crs_lib.core.safety import read_object as read_object
from crs_lib.core.safety import read_text as read_text
from crs_lib.core.safety import read_yaml as read_yaml
from crs_lib.core.safety import reader as reader
from crs_lib.core.safety import unpacked as unpacked
from crs_lib.core.safety import valid as valid
