"""The original thesis as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client

_MEMBERS = {
    "convention": ("crs_lib.thesis.conventions",),
    "scorer": ("crs_lib.thesis.scorers",),
    "concept extractor": ("crs_lib.thesis.extractors",),
    "sentence space": ("crs_lib.thesis.similarity",),
    "topic extractor": ("crs_lib.thesis.topics", "crs_lib.thesis.replay"),
    "metric": ("crs_lib.thesis.tables",),
    "scored view": ("crs_lib.report.thesis_views",),
}

CLIENT = Client("thesis", members=_MEMBERS)
