"""The original thesis as a client of the kernel: what it registers, and its commands."""

from crs_lib.core.clients import Client, ClientCommand

_MEMBERS = {
    "convention": ("crs_lib.thesis.conventions",),
    "scorer": ("crs_lib.thesis.conventions",),
    "concept extractor": ("crs_lib.thesis.extractors",),
    "sentence space": ("crs_lib.thesis.similarity",),
    "topic extractor": ("crs_lib.thesis.topics", "crs_lib.thesis.replay"),
    "metric": ("crs_lib.thesis.grounded",),
    "scored view": ("crs_lib.thesis.views",),
    "figure": ("crs_lib.thesis.views",),
    "published figures": ("crs_lib.thesis.pages",),
}
_COMMANDS = "crs_lib.thesis.commands"

CLIENT = Client(
    "thesis",
    heading="The thesis",
    members=_MEMBERS,
    commands=(
        ClientCommand(
            "thesis demo", "Run notebooks 01 to 06, from the catalogue to the figures.", f"{_COMMANDS}:Demo"
        ),
        ClientCommand(
            "thesis tables", "Make the thesis's tables and figures from logs.", f"{_COMMANDS}:Tables"
        ),
        ClientCommand(
            "thesis topics",
            "Train the topic model of the thesis's conventions on the plots of a catalogue.",
            f"{_COMMANDS}:Topics",
        ),
    ),
    old_names={
        "thesis": "thesis demo",
        "thesis-tables": "thesis tables",
        "topics": "thesis topics",
        "catalog topics": "thesis topics",
    },
)
