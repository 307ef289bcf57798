"""The sample catalogue, its grounder and its world: made once for all tests of a process, and changed by none."""

from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.systems.base import World

SAMPLE = sources.load()
GROUNDER = Grounder(SAMPLE)
WORLD = World(SAMPLE, GROUNDER)
