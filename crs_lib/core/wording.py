"""Moved to ``crs_lib.core.prompts``."""

from crs_lib.core.prompts import USER_SETS as USER_SETS
from crs_lib.core.prompts import Slot as Slot
from crs_lib.core.prompts import Template as Template
from crs_lib.core.prompts import compile_line as compile_line
from crs_lib.core.prompts import compiled as compiled
from crs_lib.core.prompts import fill as fill
from crs_lib.core.prompts import has as has
from crs_lib.core.prompts import lowered as lowered
from crs_lib.core.prompts import phrase as phrase
from crs_lib.core.prompts import say as say
from crs_lib.core.prompts import say_small as say_small
from crs_lib.core.prompts import sections as sections
from crs_lib.core.prompts import sentence as sentence
